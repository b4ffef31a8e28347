"""Jobs that mpiexec and mpirun start on this machine. `tests/cluster/test_engines.py` has those on three machines."""

from __future__ import annotations

import os
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from support.jobs import NEAREST, ROOTS, Result, Site

HELLO = """
from aiompi import MPI
comm = MPI.COMM_WORLD
assert comm.Split_type(MPI.COMM_TYPE_SHARED).size == comm.size  # ranks of one machine share memory
print(comm.rank, comm.size, comm.allreduce(comm.rank))
"""
#: an engine whose processes share a directory; it stands for one of another distribution
ENGINE = """
import os, pathlib, time
from aiompi.job.bootstrap.meeting import Store

class Directory(Store):
    def __init__(self, environ):
        self.name = "the directory"
        self.rank, self.size = int(environ["THEIR_RANK"]), int(environ["THEIR_SIZE"])
        self._place, self._fences = pathlib.Path(environ["THEIR_PLACE"]), 0
    def put(self, key, value):
        (self._place / key).write_text(value)
    def get(self, key, rank):
        return (self._place / key).read_text()
    def fence(self):
        self._fences += 1
        (self._place / f"fence.{self._fences}.{self.rank}").touch()
        while len(list(self._place.glob(f"fence.{self._fences}.*"))) < self.size:
            time.sleep(0.01)
    def abort(self, code, reason):
        self.put("aborted", f"{code} {reason}")
    def finalize(self):
        self.put(f"finalized.{self.rank}", "")
"""
Run = Callable[..., Result]


@pytest.fixture(params=["hydra", "openmpi"])
def run(request: pytest.FixtureRequest, site: Site) -> Run:
    """A function that runs a program as three processes."""
    command = [request.getfixturevalue(request.param), "-n", "3"]
    if request.param == "openmpi":
        command[1:1] = ["--allow-run-as-root", "--map-by", ":OVERSUBSCRIBE", "--bind-to", "none"]

    def run(text: str, **environ: str) -> Result:
        return site.start(*command, sys.executable, site.program(text), env=environ).finish()

    return run


def test_the_event_loop_goes_on_while_processes_meet(run: Run) -> None:
    """The others wait for what the loop of rank 0 does meanwhile."""
    text = """
    import asyncio, os, aiompi

    async def work():
        for _ in range(300):
            await asyncio.sleep(0.001)
        os.mkdir("worked")

    async def main():
        import aiompi.job.members  # so that only the meeting takes time

        if os.environ.get("PMI_RANK", os.environ.get("PMIX_RANK")) == "0":
            working = asyncio.create_task(work())
        else:
            while not os.path.exists("worked"):
                await asyncio.sleep(0.01)
        async with aiompi.init() as world:
            print(world.rank, await world.allreduce(1))
            await world.barrier()
            used = {transport.name for transport in world._runtime.wiring.transports if getattr(transport, "links", ())}
            assert used <= {"NEAREST"}, used

    asyncio.run(main())
    """.replace("NEAREST", NEAREST)
    result = run(textwrap.dedent(text))
    assert (result.code, result.err) == (0, "")
    assert result.lines == [f"{rank} 3" for rank in range(3)]


@pytest.mark.parametrize("run", ["openmpi"], indirect=True)
def test_processes_run_alone_if_the_user_says_so(run: Run) -> None:
    """With hydra, a process that a rank starts does so below."""
    assert run(HELLO, AIOMPI_ENGINE="none").lines == ["0 1 0"] * 3


def test_three_ranks_of_which_one_ends_well_before_the_others_and_does_not_end_them(run: Run) -> None:
    result = run(f"{HELLO}import sys, time\nif comm.rank == 1: sys.exit()\ntime.sleep(0.5); print('lives')")
    assert (result.code, result.err) == (0, "")
    assert result.lines == ["0 3 3", "1 3 3", "2 3 3", "lives", "lives"]


def test_a_process_that_a_rank_starts_is_told_how_to_run_alone(site: Site, hydra: str) -> None:
    child = site.program("from aiompi import MPI; print(MPI.COMM_WORLD.size)", "child.py")
    parent = site.program(
        "import os, subprocess, sys\nfrom aiompi import MPI\nMPI.COMM_WORLD.Barrier()\n"
        f"if MPI.COMM_WORLD.rank == 0:\n  for extra in ({{}}, {{'AIOMPI_ENGINE': 'none'}}):\n"
        f"    subprocess.run([sys.executable, {child!r}], env=os.environ | extra)\n"
    )
    result = site.start(hydra, "-n", "2", sys.executable, parent).finish()
    assert (result.code, result.out) == (0, "1\n")
    assert "AIOMPI_ENGINE=none" in result.err


@pytest.mark.parametrize(("end", "left"), [("", ["finalized.0", "finalized.1"]), ("comm.Abort(3)", ["aborted"])])
def test_an_engine_of_another_distribution(site: Site, tmp_path: Path, end: str, left: list[str]) -> None:
    site.program(ENGINE, "their_engine.py")
    about = site.directory / "their_engine-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: their-engine\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[aiompi.engines]\ntheirs = their_engine:Directory\n")
    place = tmp_path / "place"
    place.mkdir()
    environ = {"AIOMPI_ENGINE": "theirs", "THEIR_SIZE": "2", "THEIR_PLACE": str(place)}
    environ["PYTHONPATH"] = os.pathsep.join([str(site.directory), *ROOTS])
    program = site.program(f"{HELLO}\ncomm.Barrier()\nif comm.rank: {end or 'pass'}\ncomm.Barrier()")
    ranks = [site.start(sys.executable, program, env=environ | {"THEIR_RANK": str(rank)}) for rank in range(2)]
    results = [rank.finish() for rank in ranks]
    assert [result.lines for result in results] == [["0 2 1"], ["1 2 1"]]
    assert (results[1].code, any(result.code for result in results)) == ((3, True) if end else (0, False))
    assert sorted(path.name for path in place.iterdir() if path.name.startswith(("aborted", "finalized"))) == left
