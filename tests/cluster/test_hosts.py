"""Jobs of `aiompi-launch --hosts` on three hosts, by ssh: how they run, and that nothing is left however they end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from aiompi.wire.liveness import CUT_OFF
from support.limits import LIMIT
from support.machines import Machine, Machines

PROGRAM = """
from aiompi import MPI
world = MPI.COMM_WORLD
shared = world.Split_type(MPI.COMM_TYPE_SHARED)
print(world.rank, world.size, world.allreduce(world.rank), MPI.Get_processor_name(), shared.size, flush=True)
"""
#: rank 2 does what the argument says, while the others compute or wait for it
ENDS = """
import os, signal, sys, time
from aiompi import MPI
world = MPI.COMM_WORLD
world.barrier()
print("running", flush=True)
if world.rank == 2:
    for rank in {*range(world.size)} - {2}:
        world.recv(source=rank)  # it has left the barrier
else:
    world.send(None, dest=2)
if world.rank == 2 and sys.argv[1:] == ["exit"]:
    sys.exit(9)
if world.rank == 2 and sys.argv[1:] == ["kill"]:
    os.kill(os.getpid(), signal.SIGKILL)
if world.rank == 2 and sys.argv[1:] == ["stop"]:
    os.kill(os.getpid(), signal.SIGSTOP)
if world.rank == 1:
    time.sleep(100)
world.recv()
"""
LAUNCH = ("-m", "aiompi_launcher")


@pytest.fixture
def app(tmp_path: Path) -> Path:
    (tmp_path / "hello.py").write_text(PROGRAM)
    (tmp_path / "ends.py").write_text(ENDS)
    return tmp_path


def running(machine: Machine, app: Path, *words: str, hosts: str = "node1,node2:2,node3") -> subprocess.Popen[str]:
    """Start a job, and wait until all ranks run."""
    process = machine.popen(sys.executable, *LAUNCH, "--hosts", hosts, *words, cwd=str(app))
    assert process.stdout is not None
    for _ in range(4):
        assert process.stdout.readline() == "running\n", process.communicate()
    return process


def find(machine: Machine, mark: str) -> int:
    """Return the first process of a machine whose command line has this mark."""
    found = [pid for pid, command in machine.processes().items() if mark in command]
    return min(found, key=lambda pid: int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]))


def test_ranks_of_three_hosts(machines: Machines, app: Path) -> None:
    result = machines[0].python(*LAUNCH, "--hosts", "node1:1,node2:2,node3", "hello.py", cwd=str(app))
    assert (result.returncode, result.stderr) == (0, "")
    assert sorted(result.stdout.splitlines()) == ["0 4 6 node1 1", "1 4 6 node2 2", "2 4 6 node2 2", "3 4 6 node3 1"]


#: prints which processes on the machine of a rank, of those that the job has started, listen at ports: ranks or others.
#: The argument is the time since boot, in s, at which the job started: daemons of other tests may run since before.
LISTENERS = """
import os, re, sys
from aiompi import MPI
started = int(float(sys.argv[1]) * os.sysconf("SC_CLK_TCK"))
world = MPI.COMM_WORLD
node = MPI.Get_processor_name()
ranks = {pid for host, pid in world.allgather((node, os.getpid())) if host == node}
tables = "".join(open(f"/proc/net/{name}").read() for name in ("tcp", "tcp6"))
listening = {line.split()[9] for line in tables.splitlines() if line.split()[3] == "0A"}
found, agents = set(), 0
for pid in filter(str.isdecimal, os.listdir("/proc")):
    command, held = "", set()
    try:
        if int(open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[19]) < started:
            continue
        command = open(f"/proc/{pid}/cmdline").read()
        for name in os.listdir(f"/proc/{pid}/fd"):
            held |= set(re.findall(r"socket:.(\\d+)", os.readlink(f"/proc/{pid}/fd/{name}")))
    except OSError:
        pass  # it has ended, or it is this process, which has listed a descriptor that is closed by now
    agents += "aiompi_launcher" in command and int(pid) not in ranks
    if listening & held:
        found.add("rank" if int(pid) in ranks else command)
print(agents > 0, *sorted(found))
world.barrier()
"""


def test_no_agent_opens_a_port(machines: Machines, app: Path) -> None:
    """Its ranks do, which are reached from other hosts."""
    (app / "listeners.py").write_text(LISTENERS)
    started = time.clock_gettime(time.CLOCK_BOOTTIME)
    words = ("--hosts", "node1:1,node2:2,node3", "listeners.py", str(started))
    result = machines[0].python(*LAUNCH, *words, cwd=str(app))
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.splitlines() == ["True rank"] * 4


def test_programs_of_mpi4py_and_of_the_asyncio_face(machines: Machines, app: Path) -> None:
    (app / "blocking.py").write_text(PROGRAM.replace("aiompi", "mpi4py"))
    (app / "native.py").write_text(
        "import aiompi\nasync def main(comm): print(comm.rank, await comm.allreduce(comm.rank))\naiompi.run(main)\n"
    )
    for words, expected in (
        ("--mpi4py blocking.py", ["0 2 1 node2 1", "1 2 1 node3 1"]),
        ("native.py", ["0 1", "1 1"]),
    ):
        result = machines[0].python(*LAUNCH, "--hosts", "node2,node3", *words.split(), cwd=str(app))
        assert (result.returncode, sorted(result.stdout.splitlines())) == (0, expected), result


def test_the_launcher_may_be_on_another_host(machines: Machines, app: Path) -> None:
    result = machines[0].python(*LAUNCH, "--hosts", "node2,node3", "-n", "3", "--tag-output", "hello.py", cwd=str(app))
    assert (result.returncode, result.stderr) == (0, "")
    expected = ["[0@node2] 0 3 3 node2 2", "[1@node3] 1 3 3 node3 1", "[2@node2] 2 3 3 node2 2"]
    assert sorted(result.stdout.splitlines()) == expected


def test_agents_start_agents(machines: Machines, app: Path) -> None:
    """With a width of 1 the hosts are a chain: each agent starts the next one."""
    words = ("--width", "1", "-v", "--hosts", "node2,node3,node1", "hello.py")
    result = machines[0].python(*LAUNCH, *words, cwd=str(app))
    assert result.returncode == 0, result.stderr
    ready = [f"aiompi-launch: host node{number} is ready" for number in (2, 3, 1)]
    assert [line for line in result.stderr.splitlines() if "ready" in line] == ready
    assert sorted(line.split()[3] for line in result.stdout.splitlines()) == ["node1", "node2", "node3"]


@pytest.mark.parametrize("prefork", [(), ("--no-prefork",)])
def test_standard_input_and_files(machines: Machines, app: Path, prefork: tuple[str, ...]) -> None:
    (app / "data").mkdir()
    (app / "data" / "numbers").write_text("1 2 3")
    (app / "local.py").write_text(
        "import os, sys\nrank = os.environ['AIOMPI_RANK']\n"
        "print(rank, sys.stdin.read(), open('data/numbers').read(), os.getcwd() != sys.argv[1],\n"
        "      os.readlink('data/link'), 'node1' in open('hosts').read())\n"
    )
    words = ("--hosts", "node2,node3:2", "--preload", "data", "--preload", "local.py", "--preload", "/etc/hosts")
    words += ("--stdin", "1", *prefork)
    (app / "data" / "link").symlink_to("/nowhere")
    given = app / "given"
    given.write_text("typed")
    with given.open() as file:
        result = machines[0].python(*LAUNCH, *words, "local.py", str(app), cwd=str(app), stdin=file)
    assert (result.returncode, result.stderr) == (0, "")
    assert sorted(result.stdout.splitlines()) == [
        f"{rank} {'typed' if rank == 1 else ''} 1 2 3 True /nowhere True" for rank in range(3)
    ]


@pytest.mark.parametrize(("how", "code", "said"), [("exit", 9, "exited with status 9"), ("kill", 137, "SIGKILL")])
def test_a_rank_that_fails_ends_all_hosts(machines: Machines, app: Path, how: str, code: int, said: str) -> None:
    result = machines[0].python(*LAUNCH, "--hosts", "node1,node2:2,node3", "ends.py", how, cwd=str(app))
    assert result.returncode == code
    assert f"rank 2 on node2 {'was killed by signal 9 (' if how == 'kill' else ''}{said}" in result.stderr


@pytest.mark.parametrize(("name", "said"), [("nohost", "nohost"), ("10.99.0.77", "No route to host")])
def test_a_host_that_cannot_be_reached_is_named_with_the_words_of_ssh(
    machines: Machines, app: Path, name: str, said: str
) -> None:
    result = machines[0].python(*LAUNCH, "--hosts", f"node2,{name},node3", "ends.py", cwd=str(app))
    assert result.returncode == 1
    assert f"aiompi-launch: host {name} cannot be used: ssh: " in result.stderr
    assert said in result.stderr


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("UserKnownHostsFile=/dev/null -oStrictHostKeyChecking=yes", "Host key verification failed"),
        ("IdentityFile=/dev/null -oIdentitiesOnly=yes", "Permission denied (publickey"),
    ],
)
def test_a_wrong_key_is_refused(machines: Machines, app: Path, option: str, said: str) -> None:
    """Of the host, and of the user."""
    words = ("--starter", f"ssh -o{option}", "--hosts", "node2,node3", "ends.py")
    result = machines[0].python(*LAUNCH, *words, cwd=str(app))
    assert result.returncode == 1
    assert said in result.stderr


def test_interrupt(machines: Machines, app: Path) -> None:
    job = running(machines[0], app, "ends.py")
    os.kill(find(machines[0], "--hosts"), signal.SIGINT)
    _, err = job.communicate(timeout=LIMIT)
    assert job.returncode == 130, err


@pytest.mark.parametrize("victim", ["launcher", "agent", "ssh"])
def test_what_is_killed_leaves_nothing(machines: Machines, app: Path, victim: str) -> None:
    job = running(machines[0], app, "ends.py")
    where = machines[1] if victim == "agent" else machines[0]
    marks = {"launcher": "--hosts", "agent": "hosts.agent ssh", "ssh": "ssh -T"}
    os.kill(find(where, marks[victim]), signal.SIGKILL)
    job.communicate(timeout=LIMIT)
    assert job.returncode


@pytest.mark.parametrize("width", ["32", "1"])
def test_a_rank_that_is_stopped_on_another_host_is_expelled(machines: Machines, app: Path, width: str) -> None:
    """The agent of its host sees it; with a width of 1 the launcher hears of it through another agent."""
    command = ["env", "AIOMPI_HEARTBEAT=0.5", sys.executable, *LAUNCH, "--width", width, "--hosts", "node1,node2,node3"]
    process = machines[0].popen(*command, "ends.py", "stop", cwd=str(app))
    out, err = process.communicate(timeout=LIMIT)
    assert (process.returncode, out) == (1, "running\n" * 3)
    assert err == "aiompi-launch: rank 2 on node3 was stopped for 0.5 s (AIOMPI_HEARTBEAT)\n"


def test_the_others_go_on_without_a_host(doomed: Machines, app: Path) -> None:
    (app / "survive.py").write_text(
        "from aiompi import MPI\n"
        "world = MPI.COMM_WORLD\nworld.Set_errhandler(MPI.ERRORS_RETURN)\nworld.barrier()\n"
        "print('running', flush=True)\n"
        "try:\n    world.recv(source=1)\nexcept MPI.Exception as error:\n"
        "    rest = world.Shrink()\n    print(rest.allreduce(1), error.Get_error_class() == MPI.ERR_PROC_FAILED)\n"
    )
    job = running(doomed[0], app, "--on-failure", "continue", "survive.py")
    doomed[1].kill()
    out, err = job.communicate(timeout=LIMIT)
    assert (job.returncode, out) == (0, "2 True\n" * 2), err
    for rank in (1, 2):
        assert f"rank {rank} on node2 is lost with its host" in err


def test_a_cut_cable_is_noticed_at_both_ends(machines: Machines, app: Path) -> None:
    """The kernels are asked, long before silence is too long."""
    job = running(machines[0], app, "ends.py")
    machines[1].cut()
    cut = time.monotonic()
    _, err = job.communicate(timeout=LIMIT)
    machines[1].settle(LIMIT)
    assert time.monotonic() - cut < 50
    assert job.returncode == 137
    assert err == f"aiompi-launch: rank 1 on node2 is lost with its host: {CUT_OFF}\n"


def test_an_overloaded_host_is_not_a_lost_one(machines: Machines, app: Path) -> None:
    """Its machine answers, although its agent says nothing for longer than a machine that is cut off has."""
    job = running(machines[0], app, "ends.py", "wait")
    agent = find(machines[1], "hosts.agent ssh")
    os.kill(agent, signal.SIGSTOP)
    time.sleep(18)
    assert job.poll() is None
    os.kill(agent, signal.SIGCONT)
    os.kill(find(machines[0], "--hosts"), signal.SIGINT)
    job.communicate(timeout=LIMIT)
    assert job.returncode == 130


def test_a_host_that_says_nothing_for_too_long_is_given_up(machines: Machines, app: Path) -> None:
    command = ["env", "AIOMPI_SILENCE=4", sys.executable, *LAUNCH, "--hosts", "node1,node2,node3", "ends.py"]
    job = machines[0].popen(*command, cwd=str(app))
    assert job.stdout is not None
    assert [job.stdout.readline() for _ in range(3)] == ["running\n"] * 3
    os.kill(find(machines[1], "hosts.agent ssh"), signal.SIGSTOP)
    _, err = job.communicate(timeout=LIMIT)
    said = "nothing has come from it for 4 s (AIOMPI_SILENCE)"
    assert (job.returncode, err) == (137, f"aiompi-launch: rank 1 on node2 is lost with its host: {said}\n")
    os.kill(find(machines[1], "hosts.agent ssh"), signal.SIGCONT)
