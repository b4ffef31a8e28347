"""Programs that the engines people have start on three machines are ranks of one job."""

from __future__ import annotations

import dataclasses
import math
import re
import site
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO

import pytest

from support.jobs import KEY, ROOTS
from support.limits import LIMIT
from support.machines import PATH, Machine, Machines, end, finish, until
from support.pages import ROOT

SIZE = 4
NODES = ["node1", "node2", "node3"]
LAUNCH = (sys.executable, "-m", "aiompi_launcher")
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
from aiompi.job.bootstrap.meeting import connect
from aiompi.settings import load
async def main(world):
    if world.rank == 3:
        host, port = world._runtime.agent._socket.getpeername()[:2]
        try:
            await asyncio.to_thread(connect, [host], port, bytes(32), 3, load(), 60.0)
        except aiompi.MPIError as error:
            print(error)
    total = await world.allreduce(1)
    if world.rank == 0:
        print("total", total)
aiompi.run(main)
"""
#: the page about engines, its first line that sets PYTHON, and its commands that engines of hosts understand
PAGE = (ROOT / "docs/pages/howto/engines.md").read_text()
PYTHON = re.findall(r"^export PYTHON=.*?(?=  )", PAGE, re.MULTILINE)[0]
COMMANDS = re.findall(r"(?:^|`)((?:mpiexec|mpirun|srun) -.*?app\.py)\b", PAGE, re.MULTILINE)
(SCRIPT,) = re.findall(r"^```text\n(#!.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
#: each rank says in which environment and where it is, and how many ranks share memory with it
WHERE = """
import sys
from aiompi import MPI
comm = MPI.COMM_WORLD
shared = comm.Split_type(MPI.COMM_TYPE_SHARED).size
print(comm.rank, comm.size, comm.allreduce(1), sys.prefix, MPI.Get_processor_name(), shared, flush=True)
"""
#: runs the script of the page to its end, and shows what it has printed
SUBMIT = "sbatch -Q -W -o out job.sh; cat out"
#: of the environment that each machine has for itself
ENVIRONMENT = "/run/environment"
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
    """A command that starts SIZE processes, as few as possible on each of some machines.

    Attributes:
        machines: on the first of which it runs.
        nodes: names of those on which it starts processes.
        command: words before the program.
        kills: True if it ends all processes when one is killed. It may lose what the agent prints then.
    """

    machines: Machines
    nodes: list[str]
    command: list[str]
    kills: bool = True

    def start(self, *argv: object, **environ: str) -> list[subprocess.Popen[str]]:
        """Run Python on the machines, with these variables in all its processes."""
        return [self.machines[0].popen(*self.command, *_in(environ), *map(str, argv), env=environ)]

    def run(self, *argv: object, **environ: str) -> subprocess.CompletedProcess[str]:
        """Run Python to its end; leave out a warning of PRRTE about the process group of ssh."""
        ended = [finish(process) for process in self.start(*argv, **environ)]
        err = re.sub(r"\[node1:\d+\] plm:ssh: Warning: setpgid.*\n", "", "".join(each.stderr for each in ended))
        out = "".join(each.stdout for each in ended)
        return subprocess.CompletedProcess(argv, max(abs(each.returncode) for each in ended), out, err)


def _in(environ: dict[str, str]) -> list[str]:
    """Return the begin of a command that runs Python with these variables."""
    return [*(("env", *(f"{name}={value}" for name, value in environ.items())) if environ else ()), sys.executable]


class Pods(Engine):
    """What an indexed Job of Kubernetes gives each pod; a machine is a pod, and the first has two.

    They start late, that of rank 0 last. Its name, by a headless Service, cannot be resolved before.
    """

    def start(self, *argv: object, **environ: str) -> list[subprocess.Popen[str]]:
        name = "hello-0.aiompi"
        given = {"WORLD_SIZE": str(SIZE), "MASTER_ADDR": name, "AIOMPI_KEY": KEY} | environ
        hosts = [machine.path("/etc/hosts") for machine in self.machines if machine.name in self.nodes]
        known = [path.read_text().replace(f"{self.machines[0].address} {name}\n", "") for path in hosts]
        pods = []
        for index in reversed(range(SIZE)):
            for path, text in zip(hosts, known, strict=True):
                path.write_text(text if index else f"{text}{self.machines[0].address} {name}\n")
            machine = self.machines[index % len(self.nodes)]
            pods.append(machine.popen(*_in(given | {"JOB_COMPLETION_INDEX": str(index)}), *map(str, argv)))
            time.sleep(0.2)
        return pods


Make = Callable[[pytest.FixtureRequest, Machines, list[str]], Engine]


def launcher(request: pytest.FixtureRequest, machines: Machines, nodes: list[str]) -> Engine:
    return Engine(machines, nodes, [*LAUNCH, "--hosts", _slots(nodes)])


def salloc(request: pytest.FixtureRequest, machines: Machines, nodes: list[str]) -> Engine:
    words = ["salloc", "-Q", f"-n{SIZE}", f"-N{len(nodes)}", f"-w{','.join(nodes)}", *LAUNCH]
    return Engine(machines, nodes, words)


def hydra(request: pytest.FixtureRequest, machines: Machines, nodes: list[str]) -> Engine:
    mpiexec = request.getfixturevalue("hydra")
    words = [mpiexec, "-hosts", ",".join(nodes), "-ppn", str(SIZE // len(nodes)), "-n", str(SIZE)]
    return Engine(machines, nodes, words)


def srun_pmi2(request: pytest.FixtureRequest, machines: Machines, nodes: list[str], mpi: str = "pmi2") -> Engine:
    words = ["srun", "-Q", f"-n{SIZE}", f"-N{len(nodes)}", f"-w{','.join(nodes)}", f"--mpi={mpi}"]
    return Engine(machines, nodes, words, kills=False)


def srun_pmix(request: pytest.FixtureRequest, machines: Machines, nodes: list[str]) -> Engine:
    return srun_pmi2(request, machines, nodes, "pmix")


def srun_alone(request: pytest.FixtureRequest, machines: Machines, nodes: list[str]) -> Engine:
    return srun_pmi2(request, machines, nodes, "none")


def openmpi(request: pytest.FixtureRequest, machines: Machines, nodes: list[str]) -> Engine:
    prterun = request.getfixturevalue("openmpi")
    words = [prterun, "--prefix", str(Path(prterun).parent.parent), "--allow-run-as-root", "--map-by", "node"]
    return Engine(machines, nodes, [*words, "--host", _slots(nodes), "-n", str(SIZE)])


def pods(request: pytest.FixtureRequest, machines: Machines, nodes: list[str]) -> Engine:
    return Pods(machines, nodes, [], kills=False)


def _slots(nodes: list[str]) -> str:
    return ",".join(f"{node}:{2 if len(nodes) == 2 or node == 'node2' else 1}" for node in nodes)


@pytest.fixture
def engine(request: pytest.FixtureRequest) -> Engine:
    make: Make = request.param
    machines: Machines = request.getfixturevalue("slurm" if "srun" in make.__name__ else "machines")
    return make(request, machines, NODES)


def named(value: Make | str) -> str:
    return value if isinstance(value, str) else value.__name__


def engines(*makes: Make) -> pytest.MarkDecorator:
    """Test with these engines. Each test has those that differ in what it is about."""
    return pytest.mark.parametrize("engine", makes, ids=named, indirect=True)


@engines(launcher, srun_pmi2, srun_pmix, pods)
def test_a_program_of_mpi4py(engine: Engine, tmp_path: Path) -> None:
    """The commands of the page start the same with other engines."""
    program = tmp_path / "app.py"
    program.write_text(HELLO)
    done = engine.run("-m", "aiompi.compat", program)
    assert (done.returncode, done.stderr) == (0, ""), done
    size, total, *places = done.stdout.split()
    names, shared = places[::2], list(map(int, places[1::2]))
    assert (size, total, set(names)) == ("4", "6", {"node1", "node2", "node3"})
    assert shared == [names.count(name) for name in names]


def own_environments(machines: Machines) -> None:
    """Give each machine an environment of its own, which on the second has another path, and a link."""
    for machine in machines:
        if machine.path(f"{ENVIRONMENT}/bin").exists() or machine.path("/run/elsewhere").exists():
            continue
        place = "/run/elsewhere" if machine is machines[1] else ENVIRONMENT
        assert machine.python("-m", "venv", "--without-pip", place).returncode == 0
        (packages,) = machine.path(place).glob("lib/python*/site-packages")
        (packages / "shared.pth").write_text("\n".join([*ROOTS, *site.getsitepackages()]))
        if place != ENVIRONMENT:
            machine.run("ln", "-s", place, ENVIRONMENT)


@pytest.mark.parametrize("command", [*COMMANDS, SUBMIT])
def test_the_commands_of_the_page(request: pytest.FixtureRequest, tmp_path: Path, command: str) -> None:
    """As they are there, on machines with environments of their own, where no login finds their Python."""
    machines: Machines = request.getfixturevalue("slurm" if command.startswith(("srun", "sbatch")) else "machines")
    own_environments(machines)
    for name, engine in (("mpiexec", hydra), ("mpirun", openmpi)):
        if command.startswith(name):
            words = engine(request, machines, NODES).command
            words = words[: words.index("--map-by")] if name == "mpirun" else words[:1]
            (tmp_path / name).write_text(f'#!/bin/sh\nexec {" ".join(words)} "$@"\n')
            (tmp_path / name).chmod(0o755)
    (tmp_path / "app.py").write_text(WHERE)
    (tmp_path / "job.sh").write_text(SCRIPT)
    path = f"{tmp_path}:{ENVIRONMENT}/bin:{PATH}"
    done = machines[0].run("sh", "-c", f"{PYTHON}\n{command}", env={"PATH": path}, cwd=str(tmp_path))
    assert done.returncode == 0, done
    said = sorted(line.split() for line in done.stdout.splitlines())
    assert [words[:4] for words in said] == [[str(rank), "4", "4", ENVIRONMENT] for rank in range(SIZE)], done
    several = command == SUBMIT or re.search(r"host|-N", command)
    names, shared = [words[4] for words in said], [int(words[5]) for words in said]
    assert set(names) == ({"node1", "node2", "node3"} if several else {"node1"})
    assert shared == [names.count(name) for name in names]


def test_hydra_with_a_port_in_place_of_a_socket(
    request: pytest.FixtureRequest, machines: Machines, tmp_path: Path
) -> None:
    program = tmp_path / "app.py"
    program.write_text(HELLO)
    engine = hydra(request, machines, NODES)
    engine.command.append("-pmi-port")
    done = engine.run("-m", "aiompi.compat", program)
    assert (done.returncode, done.stderr, done.stdout[:3]) == (0, "", "4 6"), done


@engines(srun_alone, pods)
def test_a_process_with_another_key_is_refused(engine: Engine, tmp_path: Path) -> None:
    """From ranks of the asyncio face; those of other engines are in `tests/job/bootstrap/test_jobs.py`."""
    program = tmp_path / "app.py"
    program.write_text(STRANGER)
    done = engine.run(program)
    assert (done.returncode, "total 4" in done.stdout) == (0, True), done
    assert "refuses this process" in done.stdout
    assert "the key of the job" in done.stderr


@engines(hydra, srun_alone, pods)
def test_an_agent_that_cannot_be_reached_is_named(engine: Engine, tmp_path: Path) -> None:
    """Hosts that the engine itself cannot reach are named by it; see test_hosts.py for the launcher."""
    program = tmp_path / "app.py"
    program.write_text("from aiompi import MPI; MPI.COMM_WORLD.rank")
    timeouts = {"AIOMPI_CONNECT_TIMEOUT": "1", "AIOMPI_START_TIMEOUT": "3"}
    done = engine.run(program, AIOMPI_BIND="127.0.0.1", **timeouts)
    assert done.returncode != 0
    cause = r"rank \d (cannot reach rank 0 at \S+ port \d+ within \d s|gets no credential of rank 0 on node1)"
    assert re.search(cause, done.stderr), done


#: how rank 2 ends: the engines, and what the user is told
ENDS: dict[str, tuple[list[Make], str]] = {
    "raise": ([srun_pmi2, openmpi, pods], "rank 2 failed: ValueError: no luck|rank 2 on node2 exited with status 1"),
    "abort": ([launcher, hydra, srun_pmix, srun_alone], r"rank 2( on node2)? called MPI_Abort\(7\)"),
    "kill": ([srun_pmix, openmpi, pods], "rank 2 closed its connection"),
}


@pytest.mark.parametrize(
    ("how", "engine"),
    [(how, make) for how, (makes, _) in ENDS.items() for make in makes],
    ids=named,
    indirect=["engine"],
)
def test_a_rank_that_fails_ends_the_job_although_another_computes(engine: Engine, how: str, tmp_path: Path) -> None:
    program = tmp_path / "app.py"
    program.write_text(FAILS)
    done = engine.run(program, how)
    assert done.returncode != 0
    assert (how == "kill" and engine.kills) or re.search(ENDS[how][1], done.stderr), done


#: On node1 the first rank waits, and a second one holds the GIL for long; on other hosts it is the other way round.
LOST = """
import ctypes, time
from aiompi import MPI
comm = MPI.COMM_WORLD
shared = comm.Split_type(MPI.COMM_TYPE_SHARED)
computes = (shared.rank == 0) != (MPI.Get_processor_name() == "node1")
if computes:
    time.sleep(3)  # a process watches it by then
print("running", flush=True)
if computes:
    ctypes.PyDLL(None).sleep(1000)
comm.recv(source=comm.size - 1 - comm.rank)
"""
#: seconds in which a lost host is noticed, on a busy machine too: without a heartbeat a silent connection ends in 60 s
SOON = 50.0
#: the engines that lose node3, which is killed, and those that then lose node2, which is cut off
LOSSES: dict[str, list[Make]] = {
    "kill": [launcher, hydra, srun_pmix, pods],
    "cut": [launcher, salloc, srun_pmi2, srun_alone, openmpi],
}
#: what is in the environment of all processes of a job
MARK = "ENGINE_OF_THE_TEST"


class Job:
    """A job of `LOST`.

    Attributes:
        name: of its engine.
        lines: what it has printed, with times.
        left: last time at which something of it was found on a host that is there.
    """

    def __init__(self, engine: Engine, name: str, program: Path, **environ: str) -> None:
        self.name = name
        self.lines: list[tuple[float, str]] = []
        self.left = 0.0
        self._started = engine.start(program, **{MARK: name}, **environ)
        pipes = [pipe for process in self._started for pipe in (process.stdout, process.stderr)]
        self._readers = [threading.Thread(target=self._read, args=[pipe]) for pipe in pipes]
        for reader in self._readers:
            reader.start()

    def _read(self, pipe: IO[str]) -> None:
        with pipe:
            self.lines.extend((time.monotonic(), line) for line in pipe)

    def runs(self) -> bool:
        return sum(line == "running\n" for _, line in self.lines) == SIZE

    def close(self) -> None:
        for process in self._started:
            end(process)
            process.wait(LIMIT)
        for reader in self._readers:
            reader.join(LIMIT)


@dataclasses.dataclass
class Outcome:
    """What has become of a job, in seconds since it has lost a host.

    Attributes:
        reported: its first words.
        ended: all its processes had ended, on all hosts that are there.
        said: all its words.
        files: what is left of it.
    """

    reported: float
    ended: float
    said: str
    files: list[str]


@pytest.fixture(scope="module")
def outcomes(request: pytest.FixtureRequest, expendable: Machines) -> dict[tuple[str, str], Outcome]:
    """Engine and loss -> outcome."""
    program = request.getfixturevalue("tmp_path_factory").mktemp("lost") / "app.py"
    program.write_text(LOST)
    found = {}
    # A host that is killed ends its connections, so that no heartbeat is needed.
    for nodes, loss, environ in ((NODES, "kill", {"AIOMPI_HEARTBEAT": "0"}), (NODES[:2], "cut", {})):
        jobs = [Job(make(request, expendable, nodes), make.__name__, program, **environ) for make in LOSSES[loss]]
        try:
            until(lambda: all(job.runs() for job in jobs))
            lost = time.monotonic()
            getattr(expendable[len(nodes) - 1], loss)()
            _watch(jobs, [machine for machine in expendable if machine.alive], lost + LIMIT)
        finally:
            for machine in expendable:
                machine.clean()  # an engine may wait for the host that is lost
            for job in jobs:
                job.close()
            expendable[0].run("scontrol", "update", f"NodeName={nodes[-1]}", "State=DOWN", "Reason=lost")
        files = [name for machine in expendable if machine.alive for name in machine.files() if "aiompi" in name]
        for job in jobs:
            words = [(moment - lost, line) for moment, line in job.lines if moment > lost]
            reported, _ = min(words, default=(math.inf, ""))
            said = "".join(f"{moment:.2f} {line}" for moment, line in words)
            found[job.name, loss] = Outcome(reported, max(0.0, job.left - lost), said, files)
    return found


def _watch(jobs: list[Job], machines: list[Machine], deadline: float) -> None:
    """Note until when processes of the jobs are left."""
    names = {job.name for job in jobs}
    while names and time.monotonic() < deadline:
        names = {_engine(pid) for machine in machines for pid in machine.processes()} - {""}
        for job in jobs:
            job.left = time.monotonic() if job.name in names else job.left
        time.sleep(0.5)


def _engine(pid: int) -> str:
    """Return the engine of a rank, an agent or a companion, empty for a process of an engine itself."""
    try:
        command, environ = (Path(f"/proc/{pid}/{name}").read_text().split("\0") for name in ("cmdline", "environ"))
    except OSError:
        return ""
    if not Path(command[0]).name.startswith("python"):
        return ""
    variables = dict(line.partition("=")[::2] for line in environ)
    return variables.get(MARK, "launcher")  # ssh passes no variables on


@pytest.mark.parametrize(
    ("loss", "make"), [(loss, make) for loss, makes in LOSSES.items() for make in makes], ids=named
)
def test_a_host_that_is_lost(outcomes: dict[tuple[str, str], Outcome], loss: str, make: Make) -> None:
    """The job reports it, and all its processes end, also on the host that is cut off, and whatever the engine does."""
    outcome = outcomes[make.__name__, loss]
    assert outcome.reported < SOON, outcome
    assert outcome.ended < SOON, outcome
    assert make is not launcher or "is lost with its host: " in outcome.said
    assert outcome.files == [], outcome
