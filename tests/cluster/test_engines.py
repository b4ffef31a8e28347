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
from machines import Machines, end, until
from pages import ROOT, programs

SIZE = 4
#: each rank says where it is, and how many ranks share memory with it
HELLO = """
from mpi4py import MPI
comm = MPI.COMM_WORLD
shared = comm.Split_type(MPI.COMM_TYPE_SHARED)
places = comm.gather((MPI.Get_processor_name(), shared.size), root=0)
total = comm.allreduce(comm.rank)
if comm.rank == 0:
    print(comm.size, total, *(word for place in places for word in place))
"""
#: a process with another key dials the agent while the job runs
STRANGER = """
import asyncio, aiompi
from aiompi.bootstrap.meeting import connect
from aiompi.settings import load
async def main(world):
    if world.rank == 3:
        host, port = world._runtime._agent._socket.getpeername()[:2]
        try:
            await asyncio.to_thread(connect, [host], port, bytes(32), 3, load(), 5.0)
        except aiompi.Exception as error:
            print(error)
    total = await world.allreduce(1)
    if world.rank == 0:
        print("total", total)
aiompi.run(main)
"""
#: the programs of the README
README = programs(ROOT / "README.md")
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
        ports: True if ranks reach the agent by TCP.
    """

    machines: Machines
    command: list[str]
    kills: bool = True
    ports: bool = True
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


def launcher(request: pytest.FixtureRequest) -> Engine:
    words = [sys.executable, "-m", "aiompi_launcher", "--hosts", "node1,node2:2,node3"]
    return Engine(request.getfixturevalue("machines"), words, ports=False)


ENGINES: list[Callable[[pytest.FixtureRequest], Engine]] = [
    launcher,
    hydra,
    srun_pmi2,
    srun_pmix,
    srun_alone,
    openmpi,
    pods,
]


@pytest.fixture(params=ENGINES, ids=lambda engine: engine.__name__)
def engine(request: pytest.FixtureRequest) -> Engine:
    made: Engine = request.param(request)
    return made


def test_a_program_of_mpi4py(engine: Engine, tmp_path: Path) -> None:
    program = tmp_path / "app.py"
    program.write_text(HELLO)
    done = engine.run("-m", "aiompi.compat", program)
    assert (done.returncode, done.stderr) == (0, ""), done
    size, total, *places = done.stdout.split()
    names, shared = places[::2], list(map(int, places[1::2]))
    assert (size, total, set(names)) == ("4", "6", {"node1", "node2", "node3"})
    assert shared == [names.count(name) for name in names]


@pytest.mark.parametrize("name", ["ring_async.py", "ring_blocking.py"])
def test_the_programs_of_the_readme(engine: Engine, tmp_path: Path, name: str) -> None:
    program = tmp_path / name
    program.write_text(README[name])
    done = engine.run(program)
    assert (done.returncode, done.stderr) == (0, ""), done
    expected = [f"rank {rank} got {(rank - 1) % SIZE}, the sum is 6" for rank in range(SIZE)]
    assert sorted(done.stdout.splitlines()) == expected


def test_a_process_with_another_key_is_refused(engine: Engine, tmp_path: Path) -> None:
    if engine.ports:
        program = tmp_path / "app.py"
        program.write_text(STRANGER)
        done = engine.run(program)
        assert (done.returncode, "total 4" in done.stdout) == (0, True), done
        assert "refuses this process" in done.stdout
        assert "the key of the job" in done.stderr


def test_a_rank_0_that_cannot_be_reached_is_named(machines: Machines) -> None:
    """What an engine cannot reach it says itself. An indexed Job only names the host of rank 0."""
    environ = {"WORLD_SIZE": "2", "MASTER_ADDR": "10.99.0.77", "JOB_COMPLETION_INDEX": "1", "AIOMPI_KEY": KEY}
    environ["AIOMPI_START_TIMEOUT"] = "1"
    done = machines[0].python("-c", "from aiompi import MPI; MPI.COMM_WORLD.rank", env=environ)
    assert done.returncode == 1
    assert "rank 1 cannot reach rank 0 at 10.99.0.77 port 29501 within 1 s: " in done.stderr


@pytest.mark.parametrize(
    ("how", "report"),
    [
        ("raise", "rank 2 failed: ValueError: no luck|rank 2 on node2 exited with status 1"),
        ("abort", r"rank 2( on node2)? called MPI_Abort\(7\)"),
    ],
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


#: each rank waits for one of another host
LOST = """
from aiompi import MPI
comm = MPI.COMM_WORLD
comm.Barrier()
print("running", flush=True)
comm.recv(source=(comm.rank + 1) % comm.size)
"""


@pytest.mark.parametrize(("loss", "limit"), [("cut", 20.0), ("kill", 4.0)])
@pytest.mark.parametrize("made", [hydra, openmpi, pods])
def test_a_host_that_is_lost(
    request: pytest.FixtureRequest,
    doomed: Machines,
    tmp_path: Path,
    made: Callable[[pytest.FixtureRequest], Engine],
    loss: str,
    limit: float,
) -> None:
    """Whatever the engine does, all ranks on both sides and the agent end soon."""
    program = tmp_path / "app.py"
    program.write_text(LOST)
    engine = dataclasses.replace(made(request), machines=doomed)
    words = [*engine.command, sys.executable, str(program)]
    if isinstance(engine, Pods):
        environ = {"WORLD_SIZE": "3", "MASTER_ADDR": "node1", "AIOMPI_KEY": KEY}
        started = [doomed[rank].popen(*words, env=environ | {"RANK": str(rank)}) for rank in range(3)]
    else:
        started = [doomed[0].popen(*words, env=engine.environ)]
    try:
        for number in range(SIZE if engine.command else 3):
            out = started[number if len(started) > 1 else 0].stdout
            assert out is not None
            assert out.readline() == "running\n"
        getattr(doomed[1], loss)()
        living = [machine for machine in doomed if machine.alive]
        until(lambda: not any(map(_ours, (line for each in living for line in each.processes().values()))), limit)
    finally:
        for process in started:
            end(process)
            process.wait()
            for pipe in (process.stdout, process.stderr):  # which programs of the engine may still hold
                assert pipe is not None
                pipe.close()


def _ours(command: str) -> bool:
    """Return True if this is the command of a rank or of an agent."""
    program, *words = command.split()
    return "python" in program and any(word.endswith("app.py") or word.startswith("aiompi_launcher") for word in words)
