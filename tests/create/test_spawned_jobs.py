"""Jobs that ranks of launched jobs start (MPI-2, chapter 5): real processes, as a user sees them."""

from __future__ import annotations

import os
import signal
import sys
import zlib

import pytest

from aiompi_launcher.cli import parse
from aiompi_launcher.spec import RunSpec
from support.jobs import LAUNCHER, Site

LOCAL = ("--starter", "local", "--hosts")
UNIVERSE = """
from aiompi import MPI
print(MPI.COMM_WORLD.Get_attr(MPI.UNIVERSE_SIZE))
"""


@pytest.mark.spec("S7.1.1-1")
def test_room_for_processes(site: Site) -> None:
    program = site.program(UNIVERSE)

    def printed(*options: str, **environ: str) -> list[str]:
        result = site.launch(*options, program, env=environ).finish()
        assert (result.code, result.err) == (0, ""), result
        return result.lines

    cores = len(os.sched_getaffinity(0))
    assert printed("-n", "1") == [str(cores)]
    assert printed("-n", str(cores + 1)) == [str(cores + 1)] * (cores + 1)
    assert printed("-usize", "9", "-n", "1", AIOMPI_UNIVERSE_SIZE="5") == ["9"]


def test_room_for_processes_that_the_launcher_tells(monkeypatch: pytest.MonkeyPatch) -> None:
    """Or 0, where the setting or the default of the ranks holds."""

    def told(line: str) -> int:
        spec = parse([*line.split(), "app.py"], "aiompi-launch")
        assert isinstance(spec, RunSpec)
        return spec.universe_size

    lines = ["--universe-size 9 -n 2", "-n 2", "--hosts a:4,b:3 -n 2", "--hosts a,b -n 3"]
    assert [told(line) for line in lines] == [9, 0, 7, 3]
    monkeypatch.setenv("AIOMPI_UNIVERSE_SIZE", "5")
    assert [told(line) for line in lines] == [9, 0, 0, 0]


#: ends in the middle of a collective of parents and children; each of those that are left prints its new rank
CHILD = """
import os
from aiompi import MPI
parent = MPI.Comm.Get_parent()
world = parent.Merge(high=True)
if MPI.COMM_WORLD.rank == 1:
    for _ in range(world.size - 1):
        world.recv()  # the others have merged
    os._exit(3)
"""
GO_ON = """
world.send(None, world.size - 2)  # to the one that dies
try:
    world.barrier()
    done = 1
except MPI.ProcessFailedError:
    done = 0
try:
    done = world.Agree(done)
except MPI.ProcessFailedError as error:
    done = 0
assert done == 0
small = world.Shrink()
print(small.rank, small.size, small.allreduce(1), flush=True)
small.Disconnect()
"""


@pytest.mark.parametrize("launched", [True, False])
def test_parents_go_on_without_a_child_that_dies(site: Site, launched: bool) -> None:
    """Its job ends with it, unless the job of the parents survives failures: so does that of the children then."""
    child = site.program(CHILD + GO_ON, "child.py")
    parent = site.program(f"""
from aiompi import MPI
children = MPI.COMM_WORLD.Spawn({child!r}, maxprocs=3)
world = children.Merge()
{GO_ON}""")
    words = (*LAUNCHER, "--on-failure=continue", "-n", "2") if launched else (sys.executable,)
    result = site.start(*words, parent).finish()
    assert result.code == 0, result
    left = 4 if launched else 1
    assert result.lines == [f"{rank} {left} {left}" for rank in range(left)]


def failing(site: Site, end: str, *sources: int) -> str:
    """Return the text of a program that prints why some of its children have failed; the last of them ends so."""
    count = sources[-1] + 1
    name = f"child{zlib.crc32(end.encode())}.py"
    child = f"""
import os
from aiompi import MPI
world, parent = MPI.COMM_WORLD, MPI.Comm.Get_parent()
if world.rank == world.size - 1:
    for _ in range(parent.remote_size):
        parent.recv()  # all of them have spawned this process
    {end}
world.barrier()
"""
    return f"""
from aiompi import MPI
children = MPI.COMM_WORLD.Spawn({site.program(child, name)!r}, maxprocs={count}, root=MPI.COMM_WORLD.size - 1)
children.send(None, {count - 1})
for source in {sources}:
    try:
        children.recv(source=source)
    except MPI.ProcessFailedError as error:
        print({f"{end}:"!r}, error)
"""


#: policy -> how the last child ends -> what its parents learn
ENDS = {
    "abort": {
        "raise ValueError('bad luck')": "rank 1 failed: ValueError: bad luck",
        "os.kill(os.getpid(), 9)": "rank 1 was killed by signal 9 (SIGKILL)",
    },
    "continue": {"os._exit(3)": "rank 1 exited with status 3", "world.Abort(3)": "rank 1 called MPI_Abort(3)"},
}


@pytest.mark.parametrize("policy", ENDS)
def test_all_parents_learn_why_a_child_has_failed(site: Site, policy: str) -> None:
    sources = (0, 1) if policy == "abort" else (1,)
    text = "".join(failing(site, end, *sources) for end in ENDS[policy])
    result = site.launch(f"--on-failure={policy}", "-n", "2", site.program(text)).finish()
    for end, learnt in ENDS[policy].items():
        lines = [line for line in result.lines if line.startswith(f"{end}: ")]
        assert len(lines) == 2 * len(sources), result
        assert all(f": {learnt}" in line for line in lines), result
        assert policy == "continue" or result.err.count(learnt) == 1, result


def test_parents_do_not_wait_for_ever_to_learn_why_a_child_has_failed(site: Site) -> None:
    ends = "os.kill(os.getppid(), 9); MPI.COMM_SELF.recv()"  # its launcher, which would have told
    result = site.run(2, failing(site, ends, 0))
    assert len(result.lines) == 2, result
    assert all("process 0 of job" in line and " is gone: " in line for line in result.lines), result


def test_children_learn_why_a_parent_has_failed(site: Site) -> None:
    child = """
from aiompi import MPI
parent = MPI.Comm.Get_parent()
parent.send(None, 1)
try:
    parent.recv(source=1)
except MPI.ProcessFailedError as error:
    print(error)
parent.send(None, 0)
"""
    parent = f"""
from aiompi import MPI
children = MPI.COMM_WORLD.Spawn({site.program(child, "child.py")!r})
children.recv()
if MPI.COMM_WORLD.rank == 1:
    raise ValueError("bad luck")
"""
    result = site.launch("--on-failure=continue", "-n", "2", site.program(parent)).finish()
    assert len(result.lines) == 1, result
    assert result.lines[0].endswith("is gone: rank 1 failed: ValueError: bad luck"), result


# How the jobs of parents and children hang together.

CHILD_BEGINS = """
import time
from aiompi import MPI
parent = MPI.Comm.Get_parent()
print("child", MPI.COMM_WORLD.rank, flush=True)
"""
WAITS = f"""{CHILD_BEGINS}
parent.barrier()
parent.Disconnect()
"""
COMPUTES = f"{CHILD_BEGINS}time.sleep(1000)"


@pytest.mark.parametrize(
    ("child", "last", "end", "code"),
    [
        (COMPUTES, "children.recv(source=0)", signal.SIGKILL, -9),
        (COMPUTES, "world.Abort(7) if world.rank else time.sleep(1000)", None, 7),
        (WAITS, "sys.exit(5)", None, 5),
    ],
    ids=["launcher killed", "Abort", "exit"],
)
def test_children_end_with_the_job_of_their_parents(
    site: Site, child: str, last: str, end: int | None, code: int
) -> None:
    parent = f"""
import sys, time
from aiompi import MPI
world = MPI.COMM_WORLD
children = world.Spawn({site.program(child, "child.py")!r}, maxprocs=2)
{last}
"""
    job = site.launch("-n", "2", site.program(parent))
    if end is not None:
        job.expect("child", 2)
        job.signal(end)
    assert job.finish().code == code
    site.settle()


def test_children_on_other_hosts(site: Site) -> None:
    """Their output is tagged like that of their parents, which learn why they fail, on whatever host."""
    child = site.program(WAITS, "child.py")
    spawning = f"""
from aiompi import MPI
for hosts in ("", "b,c", "c:5"):
    info = MPI.Info.Create({{"host": hosts}}) if hosts else MPI.INFO_NULL
    children = MPI.COMM_WORLD.Spawn({child!r}, maxprocs=2, info=info)
    children.barrier()
    children.Disconnect()
"""
    program = site.program(spawning + failing(site, "os._exit(3)", 0))
    result = site.launch(*LOCAL, "a:1,b:1", "--tag-output", program).finish()
    tagged = [line for line in result.lines if "child" in line and "gone" not in line]
    assert tagged == sorted(
        f"[0@a] {line}"
        for line in ("[0] child 0", "[1] child 1", "[0@b] child 0", "[1@c] child 1", "[0@c] child 0", "[1@c] child 1")
    ), result
    learnt = [line for line in result.lines if line not in tagged]
    assert [line[:5] for line in learnt] == ["[0@a]", "[1@b]"], result
    assert all(line.endswith("is gone: rank 0 exited with status 3") for line in learnt), result
    assert result.code == 0, result


def test_hosts_that_cannot_have_the_children(site: Site) -> None:
    text = """
import aiompi
async def main(world):
    for hosts, what in (("b:1", "no room for 1 of 2"), ("not a name", "cannot be the name of a host")):
        try:
            await world.Spawn("true", maxprocs=2, info=aiompi.Info.Create({"host": hosts}))
        except aiompi.SpawnError as error:
            assert what in str(error), error
            print("refused")
aiompi.run(main)
"""
    result = site.run(1, text)
    assert (result.code, result.lines) == (0, ["refused"] * 2), result
