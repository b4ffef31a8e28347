"""`Trial`: one job of a campaign, from the start of its processes to the check that nothing is left.

A kind of job is a subclass: it starts the processes, and checks their results at the end.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
import os
import random
import select
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final, NamedTuple

HEARTBEAT: Final = 0.5
#: seconds beyond the heartbeat that a job may take after its last injection
LIMIT: Final = 5.0
START: Final = 120.0  # seconds for all processes to be there
_PAUSE: Final = 0.15  # seconds of a stop that is too short to be noticed
_STOP: Final = 1.5 * HEARTBEAT + 0.5
_STORM: Final = 0.15  # seconds of the storm per injection
_AFTER: Final = 1.15  # the last injections hit the end of the job
_MARK: Final = "FAULTS_OF"
_KEY: Final = bytes(range(16)).hex()
_SIGNALS: Final = {"kill": signal.SIGKILL, "continue": signal.SIGCONT, "leave": signal.SIGTERM, "cut": signal.SIGUSR2}


class Injection(NamedTuple):
    """One injection: its kind, its victim, and its delay in seconds after all processes have started.

    `other` is the other end of a link that is cut, and `reset` is True if the cut is a reset.
    """

    delay: float
    kind: str
    victim: int
    other: int = -1
    reset: bool = False


@dataclasses.dataclass(frozen=True)
class Plan:
    """A job with its injections."""

    seed: int
    transport: str
    way: str
    size: int
    seconds: float
    injections: tuple[Injection, ...]


@dataclasses.dataclass
class Outcome:
    """What has happened in a job.

    Attributes:
        wrong: what is wrong.
        injected: how often each kind was injected.
        recovery: seconds from a kill until all survivors have computed their next sum. Set only if this kill was the
            only injection.
        said: the reports that processes have printed.
        errors: what processes have written to stderr.
    """

    wrong: list[str] = dataclasses.field(default_factory=list)
    injected: Counter[str] = dataclasses.field(default_factory=Counter)
    recovery: float | None = None
    said: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    errors: str = ""


class Trial:
    """One job.

    Args:
        plan: what to do.
        directory: an empty directory, for all files of the job.

    Attributes:
        LONG: largest number of injections.
        STARTS: factor. The time limit is extended by this factor times the duration of the start, which tells how busy
            the machine is.
        PATIENCE: seconds that an injection waits for its victim.
        stopped: numbers of paused victims that count as stopped, because this process resumed them too late.
        outcome: what has happened so far.
    """

    LONG: ClassVar[int] = 5
    STARTS: ClassVar[int] = 1
    PATIENCE: ClassVar[float] = 0.0

    def __init__(self, plan: Plan, directory: Path) -> None:
        self.plan = plan
        self.directory = directory
        self.outcome = Outcome()
        self.environ = {
            **{name: value for name, value in os.environ.items() if not name.startswith("AIOMPI_")},
            _MARK: str(directory),
            "XDG_RUNTIME_DIR": str(directory),
            "TMPDIR": str(directory),
            "AIOMPI_TRANSPORTS": plan.transport,
            "AIOMPI_HEARTBEAT": str(HEARTBEAT),
            "AIOMPI_KEY": _KEY,
        }
        self.pids: dict[int, int] = {}  # number of a process -> its descriptor
        self.processes: list[subprocess.Popen[bytes]] = []
        self.killed_at = 0.0
        self.stopped: set[int] = set()
        self._pipes: dict[int, tuple[str, bytearray]] = {}
        self._last = 0.0
        self._starting = 0.0

    @classmethod
    def plan_of(cls, seed: int, transport: str, way: str, kinds: Sequence[str], numbers: random.Random) -> Plan:
        """Return the job of a seed; `numbers` is the generator that starts from the seed."""
        size = numbers.randrange(3, 8)
        count = numbers.randrange(1, min(size - 1, cls.LONG) + 1)
        seconds = 0.2 + _STORM * count
        victims = numbers.sample(range(size), size)
        injections = []
        for victim in victims[:count]:
            kind = numbers.choice(kinds)
            delay = numbers.uniform(0.0, _AFTER * seconds)
            other = numbers.choice([rank for rank in range(size) if rank != victim])
            injections.append(Injection(delay, kind, victim, other, numbers.random() < 0.5))
        return Plan(seed, transport, way, size, seconds, tuple(sorted(injections)))

    # What each kind of job defines.

    def start(self) -> None:
        """Start the processes."""
        raise NotImplementedError

    def finish(self) -> None:
        """Wait for the end, after the last injection."""
        self.wait_for_end()

    def check(self) -> None:
        """Check what the processes have said, and add to `outcome.wrong`."""
        raise NotImplementedError

    def hear(self, fields: dict[str, Any]) -> None:
        """Take what a process has said."""
        if "pid" in fields:
            with contextlib.suppress(ProcessLookupError):
                self.pids[fields["rank"]] = os.pidfd_open(fields["pid"])
        else:
            self.outcome.said.append(fields)

    def victim(self, number: int) -> int | None:
        """Return the descriptor of the process that an injection hits, None if it is gone."""
        return self.pids.get(number)

    # The course of a job.

    def run(self) -> Outcome:
        """Run the job to its end."""
        begin = time.monotonic()
        try:
            self.start()
            self._starting = self.STARTS * (time.monotonic() - begin)
            self._inject()
            self.finish()
            self.check()
            self.check_leftovers()
        except TimeoutError as error:
            self.outcome.wrong.append(str(error))
            self.check_leftovers()
            self._dump()
        finally:
            for descriptor in self.pids.values():
                os.close(descriptor)
            self.clean_up()
        return self.outcome

    def popen(self, command: Sequence[str]) -> subprocess.Popen[bytes]:
        """Start a process whose output this trial reads."""
        process = subprocess.Popen(
            command, env=self.environ, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        self.processes.append(process)
        for pipe, name in ((process.stdout, "out"), (process.stderr, "err")):
            assert pipe is not None
            self._pipes[pipe.fileno()] = name, bytearray()
        return process

    def popen_rank(self, module: str, **work: Any) -> subprocess.Popen[bytes]:
        """Start a program of `aiompi.bench.measure`."""
        return self.popen(program(module, **work))

    def await_processes(self, count: int) -> None:
        """Wait until `count` processes have said their pids.

        Raises:
            TimeoutError: fewer processes have come in time.
        """
        self.read_until(lambda: len(self.pids) >= count, time.monotonic() + START, "the ranks did not start")

    def read_until(self, condition: Any, deadline: float, failure: str) -> None:
        """Read what processes say until a condition is true.

        Raises:
            TimeoutError: the condition is not true at the deadline, or all output has ended.
        """
        while not condition():
            if not self._read(min(deadline, time.monotonic() + 0.1)) and (
                not self._pipes or time.monotonic() > deadline
            ):
                raise TimeoutError(failure)

    def _read(self, deadline: float) -> bool:
        """Wait for output and read it; return False if the deadline has passed or all output has ended."""
        ready, _, _ = select.select([*self._pipes], [], [], max(0.0, deadline - time.monotonic()))
        for descriptor in ready:
            name, buffer = self._pipes[descriptor]
            data = os.read(descriptor, 2**16)
            if not data:
                del self._pipes[descriptor]
            if name == "err":
                self.outcome.errors += data.decode(errors="replace")
                continue
            buffer += data
            *lines, rest = buffer.split(b"\n")
            buffer[:] = rest
            for line in lines:
                self._hear(bytes(line))
        return bool(ready and self._pipes)

    def _hear(self, line: bytes) -> None:
        try:
            self.hear(json.loads(line))
        except ValueError:
            self.outcome.wrong.append(f"it has printed {line!r}")

    def _inject(self) -> None:
        begin = time.monotonic()
        todo = sorted((one.delay, one.kind, one.victim, one.delay + self.PATIENCE) for one in self.plan.injections)
        pauses: dict[int, tuple[int, float]] = {}  # by descriptor, the number of the victim and the time
        while todo:
            delay, kind, number, latest = todo.pop(0)
            while (left := begin + delay - time.monotonic()) > 0:
                if not self._read(begin + delay):
                    time.sleep(max(0.0, min(left, 0.01)))
            if kind == "continue":
                self._continue(number, pauses)
            elif (descriptor := self.victim(number)) is None:
                if (again := time.monotonic() - begin + 0.02) < latest:
                    todo = sorted([*todo, (again, kind, number, latest)])
            elif self._hit(kind, descriptor) and kind in ("stop", "pause"):
                if kind == "pause":
                    pauses[descriptor] = number, time.monotonic()
                length = _PAUSE if kind == "pause" else _STOP
                todo = sorted([*todo, (time.monotonic() - begin + length, "continue", descriptor, 0.0)])
        self._last = max(begin + self.plan.seconds, time.monotonic())

    def _continue(self, descriptor: int, pauses: dict[int, tuple[int, float]]) -> None:
        self._hit("continue", descriptor)
        number, since = pauses.pop(descriptor, (0, math.inf))
        if time.monotonic() > since + HEARTBEAT:
            self.stopped.add(number)

    def _hit(self, kind: str, descriptor: int) -> bool:
        now = time.monotonic()
        try:
            signal.pidfd_send_signal(descriptor, _SIGNALS.get(kind, signal.SIGSTOP))
        except ProcessLookupError:
            return False  # too late
        if kind != "continue":
            self.outcome.injected[kind] += 1
        if kind == "kill":
            self.killed_at = now
        return True

    def wait_for_end(self) -> None:
        """Wait until all processes have ended.

        Raises:
            TimeoutError: a process has not ended in time.
        """
        deadline = self.deadline
        while self._read(deadline):
            pass
        if self._pipes:
            raise TimeoutError(f"it hangs: {LIMIT:g} s beyond the heartbeat")
        for process in self.processes:
            process.wait(LIMIT)

    @property
    def deadline(self) -> float:
        """Time by which the effects of the latest injection must be over. It includes the duration of a start."""
        return self._last + HEARTBEAT + LIMIT + self._starting

    def extend(self) -> None:
        """Restart the time limit, because this trial has just waited for processes to start."""
        self._last = time.monotonic()

    # The end.

    def check_leftovers(self) -> None:
        """Check that no process and no file is left."""
        for pid in self._left():
            with contextlib.suppress(OSError):
                state = Path("/proc", str(pid), "stat").read_text().split(")")[-1][:4]
                command = Path("/proc", str(pid), "cmdline").read_text().replace("\0", " ")
                self.outcome.wrong.append(f"process {pid} is left:{state} {command[:150]}")
        if files := os.listdir(self.directory):
            self.outcome.wrong.append(f"files are left: {files}")

    def check_errors(self, *expected: str) -> None:
        """Check that each line that processes wrote to stderr starts with one of these texts."""
        unexpected = [line for line in self.outcome.errors.splitlines() if not line.startswith(expected)]
        if unexpected:
            self.outcome.wrong.append("\n    ".join(["unexpected output:", *unexpected]))

    def _left(self) -> Iterator[int]:
        mark = f"{_MARK}={self.directory}".encode()
        for name in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError):
                if mark in Path("/proc", name, "environ").read_bytes().split(b"\0"):
                    yield int(name)

    def _dump(self) -> None:
        """Have all processes write their stacks."""
        for descriptor in self.pids.values():
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(descriptor, signal.SIGUSR1)
        end = time.monotonic() + 0.5
        while self._pipes and time.monotonic() < end:
            self._read(end)

    def clean_up(self) -> None:
        """End what is left."""
        for process in self.processes:
            with process:
                process.kill()
        for pid in self._left():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def program(module: str, **work: Any) -> tuple[str, ...]:
    """Return the command of a program of `aiompi.bench.measure`."""
    return sys.executable, "-m", f"aiompi.bench.measure.{module}", json.dumps(work)
