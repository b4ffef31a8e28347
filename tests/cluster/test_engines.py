"""Programs that the engines people have start on three machines are ranks of one job."""

from __future__ import annotations

import dataclasses
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from jobs import KEY
from machines import Machines

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

    def run(self, *argv: object) -> subprocess.CompletedProcess[str]:
        """Run Python on the machines; leave out a warning of PRRTE about the process group of ssh."""
        done = self.machines[0].run(*self.command, sys.executable, *map(str, argv), env=self.environ, limit=40.0)
        done.stderr = re.sub(r"\[node1:\d+\] plm:ssh: Warning: setpgid.*\n", "", done.stderr)
        return done


class Pods(Engine):
    """What an indexed Job of Kubernetes gives each pod; a machine is a pod, and the first has two.

    They start late, that of rank 0 last. Its name, by a headless Service, cannot be resolved before.
    """

    def run(self, *argv: object) -> subprocess.CompletedProcess[str]:
        name = "hello-0.aiompi"
        environ = {"WORLD_SIZE": str(SIZE), "MASTER_ADDR": name, "AIOMPI_KEY": KEY}
        words = [sys.executable, *map(str, argv)]
        pods = []
        names = {machine.path("/etc/hosts"): machine.path("/etc/hosts").read_text() for machine in self.machines}
        for index in reversed(range(SIZE)):
            for path, text in names.items() if index == 0 else ():
                path.write_text(f"{text}{self.machines[0].address} {name}\n")
            machine = self.machines[index % len(self.machines)]
            pods.append(machine.popen(*words, env=environ | {"JOB_COMPLETION_INDEX": str(index)}))
            time.sleep(0.2)
        outputs = [pod.communicate(timeout=40.0) for pod in pods]
        for path, text in names.items():
            path.write_text(text)
        out, err = ("".join(texts) for texts in zip(*outputs, strict=True))
        return subprocess.CompletedProcess(words, max(abs(pod.returncode) for pod in pods), out, err)


def pods(request: pytest.FixtureRequest) -> Engine:
    return Pods(request.getfixturevalue("machines"), [], kills=False)


def hydra(request: pytest.FixtureRequest) -> Engine:
    mpiexec = request.getfixturevalue("hydra")
    machines = request.getfixturevalue("machines")
    return Engine(machines, [mpiexec, "-hosts", "node1,node2,node3", "-ppn", "1", "-n", str(SIZE)])


def srun_pmi2(request: pytest.FixtureRequest) -> Engine:
    return Engine(request.getfixturevalue("slurm"), ["srun", "-Q", "-N3", f"-n{SIZE}", "--mpi=pmi2"], kills=False)


def srun_pmix(request: pytest.FixtureRequest) -> Engine:
    return Engine(request.getfixturevalue("slurm"), ["srun", "-Q", "-N3", f"-n{SIZE}", "--mpi=pmix"], kills=False)


def srun_alone(request: pytest.FixtureRequest) -> Engine:
    return Engine(request.getfixturevalue("slurm"), ["srun", "-Q", "-N3", f"-n{SIZE}", "--mpi=none"], kills=False)


def openmpi(request: pytest.FixtureRequest) -> Engine:
    prterun = request.getfixturevalue("openmpi")
    hosts = request.getfixturevalue("tmp_path") / "hosts"
    hosts.write_text("".join(f"node{number} slots=2\n" for number in (1, 2, 3)))
    words = [prterun, "--prefix", str(Path(prterun).parent.parent), "--allow-run-as-root", "--hostfile", str(hosts)]
    return Engine(request.getfixturevalue("machines"), [*words, "-n", str(SIZE), "--map-by", "node"])


ENGINES: list[Callable[[pytest.FixtureRequest], Engine]] = [hydra, srun_pmi2, srun_pmix, srun_alone, openmpi, pods]


@pytest.fixture(params=ENGINES, ids=lambda engine: engine.__name__)
def engine(request: pytest.FixtureRequest) -> Engine:
    made: Engine = request.param(request)
    return made


@pytest.mark.parametrize(("words", "text"), [(["-m", "aiompi.compat"], HELLO), ([], NATIVE)], ids=["mpi4py", "native"])
def test_processes_are_ranks_of_one_job(engine: Engine, tmp_path: Path, words: list[str], text: str) -> None:
    program = tmp_path / "app.py"
    program.write_text(text)
    done = engine.run(*words, program)
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
