"""`python -m aiompi.bench faults`: jobs whose ranks are killed, stopped and cut off from each other meanwhile.

Each job is a storm of operations with known results (`measure.storm`). A seed decides everything about it but the
course of time. Afterwards this module checks what the survivors say, how long they took, and that nothing is left.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import itertools
import json
import os
import random
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from aiompi.bench import arguments
from aiompi.bench.contender import LAUNCHER, BenchError
from aiompi.bench.results import show

TRANSPORTS: Final = ("shared_memory", "unix", "tcp")
WAYS: Final = ("blocking", "native", "serve")
KINDS: Final = ("kill", "stop", "pause", "cut")
HEARTBEAT: Final = 0.5
#: seconds beyond the heartbeat that a job may take after its last injection
LIMIT: Final = 5.0
_START: Final = 60.0  # seconds for all ranks to be there
_PAUSE: Final = 0.15  # seconds of a stop that is too short to be noticed
_STORM: Final = 0.15  # seconds of the storm per injection
_AFTER: Final = 1.15  # the last injections hit the end of the job
_MOST: Final = 5  # injections in a job
_MARK: Final = "FAULTS_OF"
_KEY: Final = bytes(range(16)).hex()

_EPILOG: Final = """\
Each line is an injection that was missed or a job in which something is wrong; the table says how many were injected.
kill: SIGKILL. stop: SIGSTOP, until the rank is expelled (AIOMPI_HEARTBEAT=0.5). pause: SIGSTOP for less. cut: a link
between two living ranks is shut down or reset. blocking, native: the face of a launched job; serve: its members join.
After each job: all survivors name the same members; only ranks that were hit are missing; all results were right; the
job ends within 5 s beyond the heartbeat; no process, file, link, and no more descriptors are left.
`--seed N --count 1` repeats the job with this seed. A run ends after --count injections or --seconds.
"""


class Injection(NamedTuple):
    """What is done to which rank, how many seconds after all ranks are there; `other` is the other end of a link."""

    delay: float
    kind: str
    rank: int
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

    @classmethod
    def of(cls, seed: int, transports: Sequence[str], ways: Sequence[str], kinds: Sequence[str]) -> Plan:
        """Return the job with a seed."""
        numbers = random.Random(seed)
        transport, way = numbers.choice(transports), numbers.choice(ways)
        size = numbers.randrange(3, 8)
        count = numbers.randrange(1, min(size - 1, _MOST) + 1)
        seconds = 0.2 + _STORM * count
        victims = numbers.sample(range(size), size)
        injections = []
        for victim in victims[:count]:
            kind = numbers.choice(kinds)
            delay = numbers.uniform(0.0, _AFTER * seconds)
            other = numbers.choice([rank for rank in range(size) if rank != victim])
            injections.append(Injection(delay, kind, victim, other, numbers.random() < 0.5))
        return cls(seed, transport, way, size, seconds, tuple(sorted(injections)))


@dataclasses.dataclass
class Outcome:
    """What has happened in a job.

    Attributes:
        wrong: what is wrong.
        injected: how often each kind was injected.
        recovery: seconds from a kill to the end of the next sum of all survivors, if nothing else happened.
        said: what ranks have printed; errors: the rest of the output.
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
        directory: an empty one, for all its files.
    """

    def __init__(self, plan: Plan, directory: Path) -> None:
        self._plan = plan
        self._directory = directory
        self.outcome = Outcome()
        self._environ = {
            **{name: value for name, value in os.environ.items() if not name.startswith("AIOMPI_")},
            _MARK: str(directory),
            "XDG_RUNTIME_DIR": str(directory),
            "TMPDIR": str(directory),
            "AIOMPI_TRANSPORTS": plan.transport,
            "AIOMPI_HEARTBEAT": str(HEARTBEAT),
            "AIOMPI_KEY": _KEY,
        }
        self._pipes: dict[int, tuple[subprocess.Popen[bytes], str, bytearray]] = {}
        self._processes: list[subprocess.Popen[bytes]] = []
        self._pids: dict[int, int] = {}  # rank -> descriptor of its process
        self._killed_at = 0.0
        self._last = 0.0

    def run(self) -> Outcome:
        """Run it to its end."""
        try:
            self._start()
            self._inject()
            self._finish()
            self._check()
        except TimeoutError as error:
            self.outcome.wrong.append(str(error))
            self._dump()
        finally:
            for descriptor in self._pids.values():
                os.close(descriptor)
            self._clean_up()
        return self.outcome

    def _start(self) -> None:
        plan = self._plan
        cuts = [[one.delay, one.rank, one.other, one.reset] for one in plan.injections if one.kind == "cut"]
        face = "blocking" if plan.way == "blocking" else "native"
        work = {"seed": plan.seed, "seconds": plan.seconds, "face": face, "address": "", "cuts": cuts}
        rank = (sys.executable, "-m", "aiompi.bench.measure.storm")
        if plan.way == "serve":
            launcher = self._popen((*LAUNCHER, "--serve", str(plan.size)))
            assert launcher.stdout is not None
            work["address"] = launcher.stdout.readline().decode().strip()
            for _ in range(plan.size):
                self._popen((*rank, json.dumps(work)))
        else:
            self._popen((*LAUNCHER, "-n", str(plan.size), "--on-failure=continue", *rank, json.dumps(work)))
        deadline = time.monotonic() + _START
        while len(self._pids) < plan.size:
            if not self._read(deadline):
                raise TimeoutError("the ranks did not start")

    def _popen(self, command: Sequence[str]) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            command, env=self._environ, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        self._processes.append(process)
        for pipe, name in ((process.stdout, "out"), (process.stderr, "err")):
            assert pipe is not None
            self._pipes[pipe.fileno()] = process, name, bytearray()
        return process

    def _read(self, deadline: float) -> bool:
        """Read what is there, or wait for some; return False at the deadline, and if all output has ended."""
        ready, _, _ = select.select([*self._pipes], [], [], max(0.0, deadline - time.monotonic()))
        for descriptor in ready:
            _, name, buffer = self._pipes[descriptor]
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
            fields = json.loads(line)
        except ValueError:
            self.outcome.wrong.append(f"it has printed {line!r}")
            return
        if "pid" in fields:
            with contextlib.suppress(ProcessLookupError):
                self._pids[fields["rank"]] = os.pidfd_open(fields["pid"])
        else:
            self.outcome.said.append(fields)

    def _inject(self) -> None:
        begin = time.monotonic()
        todo = [(one.delay, one.kind, one.rank) for one in self._plan.injections]
        for one in self._plan.injections:
            if one.kind in ("stop", "pause"):
                length = _PAUSE if one.kind == "pause" else 1.5 * HEARTBEAT + 0.5
                todo.append((one.delay + length, "continue", one.rank))
        for delay, kind, rank in sorted(todo):
            while (left := begin + delay - time.monotonic()) > 0:
                if not self._read(begin + delay):
                    time.sleep(max(0.0, min(left, 0.01)))
            self._hit(kind, rank)
        self._last = max(begin + self._plan.seconds, time.monotonic())

    def _hit(self, kind: str, rank: int) -> None:
        signum = {"kill": signal.SIGKILL, "continue": signal.SIGCONT, "cut": 0}.get(kind, signal.SIGSTOP)
        now = time.monotonic()
        try:
            signal.pidfd_send_signal(self._pids[rank], signum)
        except ProcessLookupError:
            return  # too late
        if kind != "continue":
            self.outcome.injected[kind] += 1
        if kind == "kill":
            self._killed_at = now

    def _finish(self) -> None:
        deadline = self._last + HEARTBEAT + LIMIT
        while self._read(deadline):
            pass
        if self._pipes:
            raise TimeoutError(f"it hangs: {LIMIT:g} s beyond the heartbeat")
        for process in self._processes:
            process.wait(LIMIT)

    def _check(self) -> None:
        plan, outcome = self._plan, self.outcome
        wrong = outcome.wrong
        hit = {one.rank for one in plan.injections if one.kind != "pause"}
        hit |= {one.other for one in plan.injections if one.kind == "cut"}
        ends = {fields["rank"]: fields for fields in outcome.said if "rank" in fields}
        members = {tuple(fields["members"]) for fields in ends.values()}
        missing = {*range(plan.size)} - {*ends}
        if len(members) > 1:
            wrong.append(f"survivors disagree on the members: {sorted(members)}")
        if not missing <= hit or not ends:
            wrong.append(f"ranks {sorted(missing - hit)} are missing, which were not hit")
        most = sum(one.kind != "pause" for one in plan.injections)
        if len(missing) > most:
            wrong.append(f"{len(missing)} ranks are missing, more than {most} were hit")
        for rank, fields in ends.items():
            before, after = fields["descriptors"]
            living = len(fields["members"])
            if fields["stale"] or after > before + 2 * (living - 1) - (plan.size - living):
                wrong.append(f"rank {rank} has kept links to {fields['stale']}, descriptors {before} -> {after}")
        self._check_end(hit)
        kinds = [one.kind for one in plan.injections]
        if kinds == ["kill"] and missing:
            outcome.recovery = max(fields["first_after"] for fields in ends.values()) - self._killed_at

    def _check_end(self, hit: set[int]) -> None:
        wrong, errors = self.outcome.wrong, self.outcome.errors
        launcher = self._processes[0].returncode
        late = "after it had finalized" in errors
        if launcher and not late:
            wrong.append(f"the launcher has exited with status {launcher}")
        named = {line.split()[2] for line in errors.splitlines() if line.startswith("aiompi-launch: rank ")}
        if not named <= {str(rank) for rank in hit} and not late:
            wrong.append(f"the launcher reports ranks {sorted(named)}")
        if unexpected := [line for line in errors.splitlines() if not line.startswith("aiompi-launch: rank ")]:
            wrong.append("\n    ".join(["unexpected output:", *unexpected]))
        if left := [*self._left()]:
            wrong.append(f"processes are left: {left}")
        if files := os.listdir(self._directory):
            wrong.append(f"files are left: {files}")

    def _left(self) -> Iterator[int]:
        mark = f"{_MARK}={self._directory}".encode()
        for name in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError):
                if mark in Path("/proc", name, "environ").read_bytes().split(b"\0"):
                    yield int(name)

    def _dump(self) -> None:
        """Have all ranks write where they are."""
        for descriptor in self._pids.values():
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(descriptor, signal.SIGUSR1)
        end = time.monotonic() + 0.5
        while self._pipes and time.monotonic() < end:
            self._read(end)

    def _clean_up(self) -> None:
        for process in self._processes:
            with process:
                process.kill()
        for pid in self._left():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def main(argv: Sequence[str]) -> None:
    """Entry point of `python -m aiompi.bench faults`.

    Raises:
        BenchError: something went wrong in a job.
    """
    chosen = _parser().parse_args(argv)
    injected: Counter[tuple[str, str, str]] = Counter()
    recovery: list[float] = []
    failures = jobs = 0
    begin = time.monotonic()
    for seed in itertools.count(chosen.seed):
        if sum(injected.values()) >= chosen.count or time.monotonic() - begin > chosen.seconds:
            break
        plan = Plan.of(seed, chosen.transports, chosen.ways, chosen.kinds)
        with tempfile.TemporaryDirectory(prefix="f", ignore_cleanup_errors=True) as directory:
            outcome = Trial(plan, Path(directory)).run()
        jobs += 1
        for kind, count in outcome.injected.items():
            injected[plan.transport, plan.way, kind] += count
        recovery += [] if outcome.recovery is None else [outcome.recovery]
        if outcome.wrong:
            failures += 1
            show("\n".join([f"seed {seed}: {plan}", *(f"  {text}" for text in outcome.wrong)]))
            show("    " + outcome.errors.replace("\n", "\n    ") if chosen.verbose else "")
        elif chosen.verbose:
            show(f"seed {seed}: {plan.transport} {plan.way} {plan.size} ranks, {dict(outcome.injected)}")
    _summarize(injected, recovery, jobs, chosen.seed)
    if failures:
        raise BenchError(f"{failures} of {jobs} jobs went wrong")


def _summarize(injected: Mapping[tuple[str, str, str], int], recovery: list[float], jobs: int, seed: int) -> None:
    show(f"{sum(injected.values())} injections in {jobs} jobs, seeds {seed} to {seed + jobs - 1}")
    for transport, way in sorted({key[:2] for key in injected}):
        counts = "".join(f"{kind:>8} {injected.get((transport, way, kind), 0):4}" for kind in KINDS)
        show(f"{transport:14}{way:10}{counts}")
    if recovery:
        ordered = sorted(recovery)
        median, high = ordered[len(ordered) // 2], ordered[min(len(ordered) - 1, int(0.99 * len(ordered)))]
        show(
            f"from a kill to the next sum of all survivors: median {1e3 * median:.1f} ms, "
            f"99th percentile {1e3 * high:.1f} ms, of {len(ordered)}"
        )


def _parser() -> argparse.ArgumentParser:
    parser = arguments.parser("faults", "Kill, stop and cut off ranks while they communicate.", _EPILOG)
    parser.add_argument(
        "--count", type=arguments.count(10**6), default=100, metavar="N", help="injections (%(default)s)"
    )
    parser.add_argument("--seconds", type=arguments.positive, default=3600.0, help="at most (%(default)g)")
    parser.add_argument(
        "--seed", type=int, default=1, help="of the first job; each next one has the next (%(default)s)"
    )
    for name, known in (("transports", TRANSPORTS), ("ways", WAYS), ("kinds", KINDS)):
        kind = arguments.list_of(arguments.name(known))
        parser.add_argument(f"--{name}", type=kind, default=list(known), metavar="NAME,...", help=", ".join(known))
    parser.add_argument(
        "-v", "--verbose", action="store_true", help="report each job, and all output of those that fail"
    )
    return parser
