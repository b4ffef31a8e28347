"""`Watch`: asks the ranks of a job what they do, each second, while there are viewers."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from aiompi.base.usage import Usage
from aiompi.wire import control, liveness
from aiompi.wire.look import INTERVAL, RUNS, Look
from aiompi_launcher.job.actions import Send
from aiompi_launcher.job.states import AFTER, INSIDE, JobState, Rank, RankState, describe, quoted

if TYPE_CHECKING:
    from aiompi_launcher.job.open_job import OpenJob

#: seconds until the first answers
_FIRST: Final = 0.4

#: a rank counts as computing after this many questions without an answer; the first answer takes longest
_SILENT: Final = 2

_STATES: Final = {
    RankState.EXPECTED: "starts", RankState.JOINED: "waits in init", RankState.CARDED: "waits in init",
    RankState.LOST: "failed", RankState.FAILED: "failed",
}  # fmt: skip


class Title(NamedTuple):
    """A job, as its launcher introduces it.

    Attributes:
        parent: process that has started the launcher.
        program: command of the job, or a text that says how the job is served.
        size: number of ranks, or of members at the time of the title.
        since: time of the start of the job, in seconds since the epoch.
    """

    parent: int
    program: str
    size: int
    since: float


class Looks(NamedTuple):
    """The ranks' present work: for each rank, a list of the fields of a `Look`."""

    looks: list[Any]


#: the messages of a launcher to a viewer
MESSAGES: Final[control.Table] = {1: (Title, (int, str, int, float)), 2: (Looks, (list,))}
CODES: Final = {message: code for code, (message, _) in MESSAGES.items()}


class Subject(Protocol):
    """The ranks of a job, for a `Watch`."""

    def ask(self, number: int) -> None:
        """Ask all ranks what they do; 0 for the end of the questions."""

    def looks(self, number: int) -> Iterable[Look]:
        """Return what the ranks do, from their answers to the question with this number."""


class Ranks:
    """The ranks of one world (protocol `Subject`).

    Args:
        job: state table of the job.
        send: sends a message to a rank.
    """

    def __init__(self, job: JobState, send: Callable[[Send], object]) -> None:
        self._job, self._send = job, send
        self._usages: dict[int, Usage] = {}
        self._namespace = liveness.namespace()
        self._host = os.uname().nodename

    def ask(self, number: int) -> None:
        message = control.LookRequest(number)
        for rank in self._job.ranks:
            if rank.connected and rank.state in INSIDE:
                self._send(Send(rank.number, message))

    def looks(self, number: int) -> Iterator[Look]:
        for rank in self._job.ranks:
            answered, look = rank.looked
            host = rank.location.host or rank.card.get("host", "") or self._host
            if rank.status is not None or rank.state not in INSIDE:
                yield Look(rank.number, host, *self._state(rank))
            elif look is not None and answered in (number, number - 1):  # the last answer may be on its way
                yield look._replace(rank=rank.number, host=host)
            else:
                cpu, memory, _ = self._usage(rank)
                yield Look(rank.number, host, "computes" if number > _SILENT else RUNS, cpu=cpu, memory=memory)

    def _state(self, rank: Rank) -> tuple[str, float, str]:
        failed = bool(rank.status) or rank.state in (RankState.LOST, RankState.FAILED)
        if failed:
            return "failed", 0.0, describe(rank)
        if rank.status == 0:
            return "ended", 0.0, ""
        return "left" if rank.state in AFTER else _STATES[rank.state], 0.0, ""

    def _usage(self, rank: Rank) -> tuple[float | None, int | None, bool]:
        """Return a rank's used cores, resident bytes, and True if it lives; (None, None, True) on another machine."""
        pid = rank.pid if self._job.spawned else rank.joiner
        if rank.location.host or not pid or (rank.joiner and rank.namespace != self._namespace):
            return None, None, True
        return self._usages.setdefault(pid, Usage(pid)).read(time.monotonic())


class OpenRanks:
    """The members of an open job, in its worlds or outside (protocol `Subject`).

    Args:
        job: the job.
    """

    def __init__(self, job: OpenJob) -> None:
        self._job = job
        self._ranks: dict[int, Ranks] = {}

    def _worlds(self) -> Mapping[int, Ranks]:
        worlds = self._job.worlds()
        self._ranks = {
            generation: self._ranks.get(generation) or Ranks(table, send)
            for generation, (table, _, send) in worlds.items()
        }
        return self._ranks

    def ask(self, number: int) -> None:
        for ranks in self._worlds().values():
            ranks.ask(number)

    def looks(self, number: int) -> Iterator[Look]:
        worlds, member_of = self._job.worlds(), {}
        for generation, ranks in self._worlds().items():
            members = worlds[generation][1]
            for look in ranks.looks(number):
                if (member := members.get(look.rank)) is not None:
                    member_of[member] = look
        for card in self._job.members.cards():
            look = member_of.get(card["id"]) or Look(-1, card["host"], "is in no world")
            yield look._replace(host=f"{quoted(card['host'])} (member {card['id']})")


class Watch:
    """Asks the ranks of a job what they do, while there are viewers.

    Args:
        subject: the ranks.
    """

    def __init__(self, subject: Subject) -> None:
        self._subject = subject
        self._viewers: list[Callable[[list[Look]], object]] = []
        self._number = 0
        self._timer: asyncio.TimerHandle | None = None

    def add(self, viewer: Callable[[list[Look]], object]) -> None:
        """Call a viewer each second with what the ranks do."""
        self._viewers.append(viewer)
        if self._timer is None:
            self._ask(_FIRST)

    def remove(self, viewer: Callable[[list[Look]], object]) -> None:
        """Call a viewer no more. Without viewers the ranks are not asked."""
        if viewer in self._viewers:
            self._viewers.remove(viewer)
        if not self._viewers and self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self._subject.ask(0)

    def looks(self) -> list[Look]:
        """Return what the ranks do, by their last answers."""
        return [*self._subject.looks(self._number)]

    def show(self) -> None:
        """Tell the viewers what the ranks do."""
        looks = self.looks()
        for viewer in [*self._viewers]:
            viewer(looks)

    def _ask(self, seconds: float) -> None:
        self._number += 1
        self._subject.ask(self._number)
        self._timer = asyncio.get_running_loop().call_later(seconds, self._expired)

    def _expired(self) -> None:
        self.show()
        if self._timer is not None:
            self._ask(INTERVAL)
