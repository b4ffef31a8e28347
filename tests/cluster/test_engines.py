"""Programs that the engines people have start on three machines are ranks of one job."""

from __future__ import annotations

import dataclasses
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from jobs import ROOTS
from machines import Machines

from aiompi.compat import STAND_IN

SIZE = 4
HELLO = """
import socket
from mpi4py import MPI
comm = MPI.COMM_WORLD
names = comm.gather(socket.gethostname(), root=0)
total = comm.allreduce(comm.rank)
if comm.rank == 0:
    print(comm.size, total, *names)
"""
NATIVE = """
import socket, aiompi
async def main(world):
    names = await world.gather(socket.gethostname(), root=0)
    total = await world.allreduce(world.rank)
    if world.rank == 0:
        print(world.size, total, *names)
aiompi.run(main)
"""
FAILS = """
import os, signal, sys
from aiompi import MPI
comm = MPI.COMM_WORLD
comm.Barrier()
if comm.rank == 2:
    if sys.argv[1] == "raise":
        raise ValueError("no luck")
    if sys.argv[1] == "abort":
        comm.Abort(7)
    os.kill(os.getpid(), signal.SIGKILL)
while comm.rank == 1:
    sum(range(1000))
comm.Barrier()
"""


@dataclasses.dataclass
class Engine:
    """A command that starts SIZE processes, as few as possible on each of three machines.

    Attributes:
        machines: on the first of which it runs.
        command: words before the program.
        kills: True if it ends all processes when one is killed. It may lose what the agent prints then.
    """

    machines: Machines
    command: list[str]
    kills: bool = True
    environ: dict[str, str] = dataclasses.field(default_factory=dict)

    def run(self, program: Path, *argv: str, **environ: str) -> subprocess.CompletedProcess[str]:
        command = [*self.command, sys.executable, str(program), *argv]
        return self.machines[0].run(*command, env=self.environ | environ, limit=40.0)


def hydra(request: pytest.FixtureRequest) -> Engine:
    mpiexec = request.getfixturevalue("hydra")
    machines = request.getfixturevalue("machines")
    return Engine(machines, [mpiexec, "-hosts", "node1,node2,node3", "-ppn", "1", "-n", str(SIZE)])


def srun_pmi2(request: pytest.FixtureRequest) -> Engine:
    return Engine(request.getfixturevalue("slurm"), ["srun", "-N3", f"-n{SIZE}", "--mpi=pmi2"], kills=False)


ENGINES: list[Callable[[pytest.FixtureRequest], Engine]] = [hydra, srun_pmi2]


@pytest.fixture(params=ENGINES, ids=lambda engine: engine.__name__)
def engine(request: pytest.FixtureRequest) -> Engine:
    made: Engine = request.param(request)
    return made


@pytest.mark.parametrize("text", [HELLO, NATIVE], ids=["mpi4py", "native"])
def test_processes_are_ranks_of_one_job(engine: Engine, tmp_path: Path, text: str) -> None:
    program = tmp_path / "app.py"
    program.write_text(text)
    done = engine.run(program, PYTHONPATH=f"{STAND_IN}:{':'.join(ROOTS)}")
    assert (done.returncode, done.stderr) == (0, ""), done
    size, total, *names = done.stdout.split()
    assert (size, total) == ("4", "6")
    assert sorted(set(names)) == ["node1", "node2", "node3"]


@pytest.mark.parametrize(
    ("how", "report"), [("raise", "rank 2 failed: ValueError: no luck"), ("abort", r"rank 2 called MPI_Abort\(7\)")]
)
def test_a_rank_that_fails_ends_the_job_although_another_computes(
    engine: Engine, tmp_path: Path, how: str, report: str
) -> None:
    program = tmp_path / "app.py"
    program.write_text(FAILS)
    done = engine.run(program, how)
    assert done.returncode != 0
    assert re.search(report, done.stderr), done


def test_a_rank_that_is_killed_ends_the_job_although_another_computes(engine: Engine, tmp_path: Path) -> None:
    program = tmp_path / "app.py"
    program.write_text(FAILS)
    done = engine.run(program, "kill")
    assert done.returncode != 0
    assert engine.kills or "rank 2 closed its connection" in done.stderr, done
