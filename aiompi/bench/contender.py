"""`Contender`: a command that starts two or more processes to measure, and `Conversation`: the started command.

The other functions return contenders: jobs of aiompi, MPICH and Open MPI, and pairs of processes with other libraries.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from types import TracebackType
from typing import Any, Final, NamedTuple, TypeAlias

from aiompi import core
from aiompi.bench.measure import turns
from aiompi.bench.measure.turns import Work

#: seconds to wait for an answer
PATIENCE: Final = 120.0
#: seconds that processes get to end by themselves: usually, and after an error
_GRACE: Final = 10.0
_SHORT_GRACE: Final = 1.0

#: measurements of the processes of a contender, by rank
Answer: TypeAlias = list[Any]

#: transports between ranks of one host, in the form of the core that is measured
TRANSPORTS: Final = ("shared_memory", "unix", "tcp") if core.form == "native" else ("unix", "tcp")

_MEASURE: Final = "aiompi.bench.measure"
LAUNCHER: Final = (sys.executable, "-m", "aiompi_launcher")


class BenchError(Exception):
    """A contender did not answer."""


class Contender(NamedTuple):
    """A group of processes to measure, called ranks.

    Attributes:
        name: name for messages and figures.
        command: command that starts the processes; see `aiompi.bench.measure.turns` for their input and output.
    """

    name: str
    command: tuple[str, ...]


def aiompi_job(processes: int, *variables: str, face: str = "blocking") -> Contender:
    """Return a job of aiompi.

    Args:
        processes: number of ranks.
        variables: environment variables of the ranks, as NAME=VALUE.
        face: "blocking" or "native".
    """
    job = (*LAUNCHER, "-n", str(processes), "-m", f"{_MEASURE}.{face}")
    return Contender(" ".join((face, *variables)), ("env", *variables, *job))


def forms() -> dict[str, tuple[str, ...]]:
    """Return the installed forms of the core: name -> environment variables that select the form."""
    names = ["pure"] if core.form == "pure" else ["pure", "native"]
    return {name: (f"AIOMPI_CORE={name}",) for name in names}


BLOCKING: Final = aiompi_job(2)
NATIVE: Final = aiompi_job(2, face="native")


def _pair(name: str, module: str) -> Contender:
    return Contender(name, (sys.executable, "-m", f"{_MEASURE}.pair", f"{_MEASURE}.{module}"))


SOCKET: Final = _pair("socket", "bare_socket")
UVLOOP: Final = _pair("uvloop", "bare_uvloop")
WAKE_UP: Final = _pair("eventfd", "bare_wake")


def mpich_job(processes: int, of: str = "") -> Contender:
    """Return a job of mpi4py with MPICH.

    Args:
        processes: number of ranks.
        of: "pkl5" for ranks that send objects with mpi4py.util.pkl5.

    Raises:
        BenchError: mpi4py or MPICH is not installed.
    """
    words = "-m", f"{_MEASURE}.mpi4py", *of.split()
    return Contender(of or "mpi4py", mpich_command(processes, *words))


def mpich_command(processes: int, *words: str) -> tuple[str, ...]:
    """Return the command that runs Python with these arguments and mpi4py with MPICH.

    Raises:
        BenchError: mpi4py or MPICH is not installed.
    """
    # `mpiexec` may belong to Open MPI, whose distribution installs the same name
    hydra = installed("mpich", "mpiexec.hydra")
    return _mpi4py_command(installed("mpich", "libmpi.so.12"), (hydra,), processes, *words)


def openmpi_job(processes: int) -> Contender:
    """Return a job of mpi4py with Open MPI.

    Raises:
        BenchError: mpi4py or Open MPI is not installed.
    """
    # Open MPI's own mpiexec only executes prterun, and the file `mpiexec` may belong to MPICH
    prterun = installed("openmpi", "prterun")
    # prterun does not pass the end of standard input to its ranks, so the kernel must end it when its parent is killed
    # Open MPI's windows over UCX print a warning at each start without a network for UCX, and no window within a host
    # uses UCX
    launcher = ("env", "OMPI_MCA_osc=^ucx", "setpriv", "--pdeathsig", "TERM", prterun)
    options = ("--allow-run-as-root", "--map-by", ":OVERSUBSCRIBE", "--bind-to", "none")
    words = "-m", f"{_MEASURE}.mpi4py"
    command = _mpi4py_command(installed("openmpi", "libmpi.so.40"), (*launcher, *options), processes, *words)
    return Contender("openmpi", command)


def _mpi4py_command(library: str, launcher: Sequence[str], processes: int, *words: str) -> tuple[str, ...]:
    installed("mpi4py", "__init__.py")
    return ("env", f"MPI4PY_LIBMPI={library}", *launcher, "-n", str(processes), sys.executable, *words)


def uvloop_pair() -> Contender:
    """Return two processes with a bare protocol on uvloop.

    Raises:
        BenchError: uvloop is not installed.
    """
    installed("uvloop", "__init__.py")
    return UVLOOP


def zmq_pair() -> Contender:
    """Return two processes with pyzmq's asyncio sockets on uvloop.

    Raises:
        BenchError: pyzmq or uvloop is not installed.
    """
    installed("pyzmq", "__init__.py")
    installed("uvloop", "__init__.py")
    return _pair("pyzmq", "pyzmq")


def distributed_pair() -> Contender:
    """Return two processes with comms of distributed on uvloop.

    Raises:
        BenchError: distributed or uvloop is not installed.
    """
    installed("distributed", "__init__.py")
    installed("uvloop", "__init__.py")
    return _pair("distributed", "distributed")


def redis_pair() -> Contender:
    """Return two processes with redis-py on uvloop, the first of which starts redis-server.

    Raises:
        BenchError: redis-server, redis-py or uvloop is not installed.
    """
    if shutil.which("redis-server") is None:
        raise BenchError("redis-server is not installed: apt install redis-server")
    installed("redis", "__init__.py")
    installed("uvloop", "__init__.py")
    return _pair("redis", "redis")


def installed(distribution: str, name: str) -> str:
    """Return the path of a file with this name in a distribution."""
    try:
        files = metadata.files(distribution) or []
    except metadata.PackageNotFoundError:
        files = []
    for file in files:
        if file.name == name:
            return str(Path(file.locate()).resolve())
    raise BenchError(
        f"{distribution} from PyPI is not installed: pip install {distribution}, or pip install 'aiompi[bench]' for all"
    )


def environment() -> dict[str, str]:
    """Return the environment for measured processes: a copy of `os.environ` that lets Python write bytecode files."""
    kept: Mapping[str, str] = os.environ
    return {name: value for name, value in kept.items() if name != "PYTHONDONTWRITEBYTECODE"}


class Conversation:
    """A started contender, which sleeps between its turns.

    Its processes form a session of their own. They end on request, or when their standard input ends.
    """

    def __init__(self, contender: Contender) -> None:
        self._contender = contender
        self._process = subprocess.Popen(
            contender.command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment(),
            start_new_session=True,
        )

    def ask(self, work: Work, patience: float = PATIENCE) -> Answer:
        """Begin a work and finish it; see `begin` and `finish`."""
        self.begin(work)
        return self.finish(patience)

    def begin(self, work: Work) -> None:
        """Make the contender start a work.

        Raises:
            BenchError: the contender has ended.
        """
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(work).encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise self._ended() from None

    def finish(self, patience: float = PATIENCE) -> Answer:
        """Return the measurements of the work that was begun.

        Args:
            patience: seconds to wait for the answer.

        Raises:
            BenchError: the contender has ended, does not answer, or its answer cannot be read.
        """
        assert self._process.stdout is not None
        if not select.select([self._process.stdout], [], [], patience)[0]:
            raise BenchError(f"{self._contender.name}: no answer within {patience:g} s")
        line = self._process.stdout.readline()
        if not line:
            raise self._ended()
        try:
            answer: Answer = json.loads(line)
        except ValueError:
            raise BenchError(f"{self._contender.name}: answered {line.decode(errors='replace').rstrip()!r}") from None
        return answer

    def _ended(self) -> BenchError:
        try:
            code = self._process.wait(_GRACE)
        except subprocess.TimeoutExpired:
            return BenchError(f"{self._contender.name}: closed its output instead of answering; see above")
        return BenchError(f"{self._contender.name}: ended with exit code {code} instead of answering; see above")

    def close(self, grace: float = _GRACE) -> None:
        """Ask the processes to end, so that they leave no files behind, and wait for them.

        Args:
            grace: seconds after which processes that have not ended are killed.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        if self._process.stdout.closed:  # it was closed before
            return
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(turns.NO_MORE)
            self._process.stdin.close()
        try:
            self._process.wait(grace)
        except subprocess.TimeoutExpired:
            self.kill()
        self._process.stdout.close()

    def kill(self) -> None:
        """Kill the processes; a launcher gets time to end its ranks."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_GRACE)
                return

    def __enter__(self) -> Conversation:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close(_GRACE if kind is None else _SHORT_GRACE)


def on_core(contender: Contender, core: int) -> Contender:
    """Return the contender with all its processes bound to one core from their start, so that they detect one core."""
    return Contender(contender.name, ("taskset", "--cpu-list", str(core), *contender.command))


@contextlib.contextmanager
def conversations(*contenders: Contender, processes: int = 2) -> Iterator[tuple[Conversation, ...]]:
    """Return a context with conversations with several contenders, in their order.

    Args:
        processes: processes per contender. The processes of a contender run on different cores if there are enough
            cores.
    """
    with contextlib.ExitStack() as stack:
        everyone = tuple(stack.enter_context(Conversation(contender)) for contender in contenders)
        bind(everyone, cores()[:processes])
        yield everyone


def cores() -> list[int]:
    """Return the numbers of the cores that this process may use."""
    return sorted(os.sched_getaffinity(0))


def apart(cores: Sequence[int], processes: int) -> list[int]:
    """Return cores by rank. Ranks r and r + processes // 2 have different cores if there are several.

    Args:
        cores: available cores.
        processes: number of ranks.
    """
    half = processes // 2
    shift = 1 if half % len(cores) == 0 else 0
    return [cores[(rank + (shift if rank >= half else 0)) % len(cores)] for rank in range(processes)]


def bind(everyone: Sequence[Conversation], cores: Sequence[int]) -> None:
    """Bind the processes of each contender to cores.

    Args:
        everyone: the conversations with all contenders.
        cores: cores by rank; further ranks start over at the first core.
    """
    for conversation in everyone:
        conversation.begin({"work": "bind", "cores": list(cores)})
    for conversation in everyone:
        conversation.finish()
