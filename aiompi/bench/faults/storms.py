"""The kinds of jobs in a campaign: each class defines processes, faults to inject, and checks of results."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import random
import select
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Final

from aiompi.bench.contender import LAUNCHER
from aiompi.bench.faults.trial import START, Injection, Plan, Trial, program

_MASTER: Final = -1  # number of the victim that has the pool


class Ranks(Trial):
    """Ranks that communicate, and continue when some of them fail. In the way "serve", they join a served job."""

    _also_reported: ClassVar[frozenset[str]] = frozenset()
    _reports: ClassVar[tuple[str, ...]] = ("aiompi-launch: rank ",)

    def work(self, address: str = "") -> dict[str, Any]:
        """Return the arguments of the program of a rank."""
        plan = self.plan
        cuts = [[one.victim, one.other, one.reset] for one in plan.injections if one.kind == "cut"]
        face = "blocking" if plan.way == "blocking" else "native"
        return {"seed": plan.seed, "seconds": plan.seconds, "face": face, "address": address, "cuts": cuts}

    def start(self) -> None:
        size = self.plan.size
        if self.plan.way == "serve":
            launcher = self.popen((*LAUNCHER, "--serve", str(size)))
            assert launcher.stdout is not None
            address = launcher.stdout.readline().decode().strip()
            for _ in range(size):
                self.popen_rank("storm", **self.work(address))
        else:
            self.popen((*LAUNCHER, "-n", str(size), "--on-failure=continue", *program("storm", **self.work())))
        self.await_processes(size)

    def check(self) -> None:
        plan, wrong = self.plan, self.outcome.wrong
        hits = [one for one in plan.injections if one.kind != "pause" or one.victim in self.stopped]
        hit = {one.victim for one in hits} | {one.other for one in hits if one.kind == "cut"}
        ends = {fields["rank"]: fields for fields in self.outcome.said if "rank" in fields}
        members = {tuple(fields["members"]) for fields in ends.values()}
        missing = {*range(plan.size)} - {*ends}
        if len(members) > 1:
            wrong.append(f"survivors disagree on the members: {sorted(members)}")
        if not missing <= hit or not ends:
            wrong.append(f"ranks {sorted(missing - hit)} are missing, which were not hit")
        if len(missing) > len(hits):
            wrong.append(f"{len(missing)} ranks are missing, more than {len(hits)} were hit")
        for rank, fields in ends.items():
            before, after = fields["descriptors"]
            living = len(fields["members"])
            if fields["stale"] or after > before + 2 * (living - 1) - (plan.size - living):
                kept = f"links to {fields['stale']}, descriptors {before} -> {after}: {sorted(fields['kept'])}"
                wrong.append(f"rank {rank} has kept {kept}")
        self._check_launcher(hit)
        if [one.kind for one in plan.injections] == ["kill"] and missing and ends:
            self.outcome.recovery = max(fields["first_after"] for fields in ends.values()) - self.killed_at

    def _check_launcher(self, hit: set[int]) -> None:
        wrong, errors = self.outcome.wrong, self.outcome.errors
        status = self.processes[0].returncode
        late = "after it had finalized" in errors
        if status and not late:
            wrong.append(f"the launcher has exited with status {status}")
        named = {line.split()[2] for line in errors.splitlines() if line.startswith("aiompi-launch: rank ")}
        if not named <= {str(rank) for rank in hit} | self._also_reported and not late:
            wrong.append(f"the launcher reports ranks {sorted(named)}")
        self.check_errors(*self._reports)


class Crowd(Trial):
    """Processes that come and go. An injection hits one of the processes that are there."""

    LONG = 10
    STARTS = 2

    @classmethod
    def plan_of(cls, seed: int, transport: str, way: str, kinds: Sequence[str], numbers: random.Random) -> Plan:
        count = numbers.randrange(4, cls.LONG + 1)
        seconds = 0.3 * count
        injections = [
            Injection(numbers.uniform(0.0, seconds), numbers.choice(kinds), numbers.randrange(60)) for _ in range(count)
        ]
        return Plan(seed, transport, way, numbers.randrange(2, 5), seconds, tuple(sorted(injections)))

    def hear(self, fields: dict[str, Any]) -> None:
        if set(fields) == {"pid"}:
            with contextlib.suppress(ProcessLookupError):
                self.pids[fields["pid"]] = os.pidfd_open(fields["pid"])
        else:
            self.outcome.said.append(fields)

    def living(self) -> list[int]:
        """Return the pids of the processes that have not ended."""
        descriptors = alive([*self.pids.values()])
        return [pid for pid, descriptor in self.pids.items() if descriptor in descriptors]

    def victim(self, number: int) -> int | None:
        living = self.living()
        return self.pids[living[number % len(living)]] if living else None

    def signal_all(self, signum: int) -> None:
        """Send a signal to all processes that are there."""
        for pid in self.living():
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self.pids[pid], signum)

    def check(self) -> None:
        for fields in self.outcome.said:
            if kept := fields.get("kept"):
                self.outcome.wrong.append(f"process {fields['of']} has kept descriptors: {kept}")


class Members(Crowd):
    """Members that come and go, and compute in each of their worlds. Half of the leaving members are replaced.

    Args:
        calm: True if they only add numbers.
    """

    def __init__(self, plan: Plan, directory: Path, calm: bool = False) -> None:
        super().__init__(plan, directory)
        self._calm = calm

    def start(self) -> None:
        launcher = self.popen((*LAUNCHER, "--serve"))
        assert launcher.stdout is not None
        self._address = launcher.stdout.readline().decode().strip()
        for _ in range(self.plan.size):
            self.add()
        self.await_processes(self.plan.size)

    def add(self) -> None:
        """Start another member."""
        self.popen_rank("elastic", kind="member", seed=self.plan.seed, address=self._address, calm=self._calm)

    def visit(self, count: int) -> subprocess.Popen[bytes]:
        """Start a process that joins, computes with the others and leaves, `count` times."""
        return self.popen_rank("elastic", kind="visitor", address=self._address, count=count)

    def await_world(self, count: int) -> float:
        """Wait until `count` members are in one world; return the time at which the last of them had its first sum.

        Raises:
            TimeoutError: these members have not come together in time.
        """
        late = "the members do not come together"
        self.read_until(lambda: len(self.living()) == count and self._in_one_world(), time.monotonic() + START, late)
        return max(float(fields["at"]) for fields in self._latest().values())

    def victim(self, number: int) -> int | None:
        if number % 2:
            self.add()
        return super().victim(number // 2)

    def finish(self) -> None:
        if not self.living():
            self.add()
        count = len(self.processes) - 1
        self.await_processes(count)
        self.extend()
        self.read_until(self._in_one_world, self.deadline, "the members do not come together")
        self.signal_all(signal.SIGINT)
        self.read_until(lambda: not self.living(), self.deadline, "the members do not leave")
        self.processes[0].terminate()
        self.wait_for_end()

    def _latest(self) -> dict[int, dict[str, Any]]:
        """Return pid -> latest report on its world, for each living process that has reported a world."""
        latest = {fields["of"]: fields for fields in self.outcome.said if "world" in fields}
        return {pid: latest[pid] for pid in self.living() if pid in latest}

    def _in_one_world(self) -> bool:
        latest, living = self._latest(), sorted(self.living())
        return all(pid in latest and latest[pid]["members"] == living for pid in living)

    def check(self) -> None:
        super().check()
        worlds: dict[int, list[int]] = {}
        for fields in self.outcome.said:
            if "world" in fields and worlds.setdefault(fields["world"], fields["members"]) != fields["members"]:
                self.outcome.wrong.append(f"members disagree on world {fields['world']}")
        self.check_errors("aiompi-launch: member ", "aiompi-launch: dropped a connection from 127.0.0.1:")


class Spawners(Ranks):
    """Ranks that start processes and compute with them, again and again. Half of the injections hit children."""

    STARTS = 2
    PATIENCE = 1.0  # until there is a child
    _also_reported = frozenset({"0", "1"})  # the children: their launchers write to stderr of their root
    _reports = (*Ranks._reports, "aiompi-launch: the last lines of stderr of rank ", "    aiompi-launch: rank ")

    def __init__(self, plan: Plan, directory: Path) -> None:
        super().__init__(plan, directory)
        self._children: list[int] = []  # descriptors
        self.environ["AIOMPI_ON_FAILURE"] = "continue" if plan.seed % 3 else ""  # in the jobs of the children

    @classmethod
    def plan_of(cls, seed: int, transport: str, way: str, kinds: Sequence[str], numbers: random.Random) -> Plan:
        plan = super().plan_of(seed, transport, way, kinds, numbers)
        injections = [
            one._replace(delay=4 * one.delay, victim=-1 if one.kind != "cut" and numbers.random() < 0.5 else one.victim)
            for one in plan.injections
        ]
        return dataclasses.replace(plan, seconds=4 * plan.seconds, injections=tuple(injections))

    def work(self, address: str = "") -> dict[str, Any]:
        return super().work(address) | {"face": ("blocking", "native")[self.plan.seed % 2], "spawns": True}

    def hear(self, fields: dict[str, Any]) -> None:
        if "child" in fields:
            with contextlib.suppress(ProcessLookupError):
                self._children.append(os.pidfd_open(fields["child"]))
        else:
            super().hear(fields)

    def victim(self, number: int) -> int | None:
        if number >= 0:
            return super().victim(number)
        return next(reversed(alive(self._children)), None)

    def clean_up(self) -> None:
        for descriptor in self._children:
            os.close(descriptor)
        super().clean_up()


class Pools(Crowd):
    """A process with a pool of workers, which are replaced when they fail.

    The plan's `way` selects the pool: "executor" an `MPIPoolExecutor`, "pool" an asyncio pool, and "open" a pool that
    external workers join. In the way "open", this trial starts the replacements. In some jobs, the last injection kills
    the process with the pool.
    """

    @classmethod
    def plan_of(cls, seed: int, transport: str, way: str, kinds: Sequence[str], numbers: random.Random) -> Plan:
        plan = super().plan_of(seed, transport, way, kinds, numbers)
        if numbers.random() < 0.2 and "kill" in kinds:
            last = Injection(0.9 * plan.seconds, "kill", _MASTER)
            plan = dataclasses.replace(plan, injections=(*plan.injections, last))
        return plan

    def start(self) -> None:
        self._port = ""
        plan = self.plan
        self.popen_rank("elastic", kind=plan.way, seed=plan.seed, size=plan.size, seconds=plan.seconds)
        self._master = os.pidfd_open(self.processes[0].pid)
        if plan.way == "open":
            self.read_until(lambda: self._port, time.monotonic() + START, "there is no port")
            for _ in range(plan.size):
                self._add()
        self.await_processes(plan.size)

    def _add(self) -> None:
        self.popen_rank("elastic", kind="worker", seed=self.plan.seed, port=self._port)

    def hear(self, fields: dict[str, Any]) -> None:
        if "port" in fields:
            self._port = fields["port"]
        else:
            super().hear(fields)

    def victim(self, number: int) -> int | None:
        if number == _MASTER:
            return self._master
        if self.plan.way == "open":
            self._add()
        return super().victim(number)

    def check(self) -> None:
        super().check()
        master = self.processes[0].returncode
        if master != (-signal.SIGKILL if self._ends_by_kill else 0):
            self.outcome.wrong.append(f"the process with the pool has ended with status {master}")
        self.check_errors("aiompi-launch: rank ")

    @property
    def _ends_by_kill(self) -> bool:
        return self.plan.injections[-1].victim == _MASTER

    def clean_up(self) -> None:
        os.close(self._master)
        super().clean_up()


_HITS: Final = ("kill", "stop", "pause", "cut")

#: way -> the kind of job, and what can be done to it
STORMS: Final[dict[str, tuple[type[Trial], tuple[str, ...]]]] = {
    "blocking": (Ranks, _HITS),
    "native": (Ranks, _HITS),
    "serve": (Ranks, _HITS),
    "members": (Members, (*_HITS, "leave")),
    "spawn": (Spawners, _HITS),
    "executor": (Pools, _HITS),
    "pool": (Pools, _HITS),
    "open": (Pools, ("kill", "pause", "cut", "leave")),
}


def alive(descriptors: list[int]) -> list[int]:
    """Return the descriptors of the processes that have not ended."""
    ended, _, _ = select.select(descriptors, [], [], 0)
    return [descriptor for descriptor in descriptors if descriptor not in ended]
