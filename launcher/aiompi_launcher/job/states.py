"""The state of a job: its ranks, their world, and the phase of the job."""

from __future__ import annotations

import dataclasses
import enum
import os
import signal
from typing import Any, Final

from aiompi.base.words import ranks_do
from aiompi.wire import control
from aiompi.wire.hello import NAMESPACE_BYTES, new_key, pair_keys
from aiompi.wire.look import Look
from aiompi_launcher.job.actions import Action
from aiompi_launcher.spec import EXIT_FAILURE, EXIT_SIGNAL


def quoted(text: str) -> str:
    """Return a text of another process, changed so that no line looks like a line of the launcher.

    Control characters are escaped, and all lines but the first are indented.
    """
    lines = ("".join(c if c.isprintable() else ascii(c)[1:-1] for c in line) for line in text.splitlines())
    return "\n    ".join(lines)


class RankState(enum.Enum):
    """State of a rank; see `aiompi_launcher.job.table`."""

    EXPECTED = enum.auto()
    JOINED = enum.auto()
    CARDED = enum.auto()
    RUNNING = enum.auto()
    FINALIZING = enum.auto()
    FINALIZED = enum.auto()
    LEFT = enum.auto()
    LOST = enum.auto()
    FAILED = enum.auto()


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """The world of the ranks of a job.

    Attributes:
        first: world rank of the first rank of the job.
        size: number of ranks of the world.
        key: secret from which the keys of pairs of ranks are derived; no rank knows it.
        address, universe: as in control.Welcome.
        hosts: address of the IMPI host of each rank of the job; empty if ranks need no host.
        job: id of the job; empty if the launcher chooses one.
    """

    first: int = 0
    size: int
    key: bytes = dataclasses.field(default_factory=new_key, repr=False)
    address: str = ""
    universe: dict[str, Any] = dataclasses.field(default_factory=dict, repr=False)
    hosts: tuple[str, ...] = ()
    job: bytes = b""

    def welcome(self, rank: Rank, directory: str) -> control.Welcome:
        """Return the answer to a joining rank. If the rank's location has no directory, the answer has `directory`."""
        return control.Welcome(
            rank.number,
            self.size,
            rank.location.directory or directory,
            keys=pair_keys(self.key, rank.number, range(self.size)),
            address=rank.location.address or self.address,
            host=self.hosts[rank.number - self.first] if self.hosts else "",
            universe=self.universe,
            process=rank.number,
        )


@dataclasses.dataclass(slots=True)
class Location:
    """Where a rank runs; empty for a rank on the machine of the launcher.

    Attributes:
        host: name of the host.
        directory, address: as in control.Welcome. The address may become known late.
    """

    host: str = ""
    directory: str = ""
    address: str = ""


class JobPhase(enum.Enum):
    """Phase of the job."""

    RUNNING = enum.auto()
    FAILING = enum.auto()  # a rank has failed; its exit status or the end of its connection is awaited
    ENDING = enum.auto()  # processes are being ended
    ENDED = enum.auto()


# States in which a rank takes part in communication.
INSIDE: Final = frozenset({RankState.RUNNING, RankState.FINALIZING})

# States of a rank after its part in communication.
AFTER: Final = frozenset({RankState.FINALIZED, RankState.LEFT})

# States in which a rank waits for other ranks, or may need them.
ACTIVE: Final = frozenset({RankState.JOINED, RankState.CARDED, RankState.RUNNING, RankState.FINALIZING})

# States in which a stuck rank delays others.
WATCHED: Final = ACTIVE | {RankState.EXPECTED}


class Rank:
    """One rank of the job.

    Attributes:
        number: number of the process in the job; equal to its rank in the first world.
        state: state of the control protocol.
        pid: id of the rank's process; 0 while it is unknown.
        joiner: id of the process that has joined, possibly a child of the started process; 0 before it joins.
        namespace: pid namespace of `joiner`.
        connected: True while its control connection is open.
        status: exit status of the process, negative for a signal; None while the process runs.
        card: its business card.
        error: why the launcher has closed its connection, or why the rank ends.
        last_line: last line on standard error of the process; "" if the process still runs or has succeeded.
        reported: True if the other ranks of a surviving job have been told of the failure of this rank.
        expelled: True if the job has excluded the rank although its process may be alive.
        revocations: number of communicators that the rank has revoked.
        obituaries: total bytes of the rank's reports of failures in jobs that the rank has spawned.
        location: where it runs.
        looked: (number of the last control.LookRequest that the rank has answered, the look in this answer); the look
            is None if it could not be read.
    """

    def __init__(self, number: int) -> None:
        self.number = number
        self.state = RankState.EXPECTED
        self.pid = 0
        self.joiner = 0
        self.namespace = ""
        self.connected = False
        self.status: int | None = None
        self.card: control.BusinessCard = {}
        self.error = ""
        self.last_line = ""
        self.reported = self.expelled = False
        self.revocations = self.obituaries = 0
        self.location = Location()
        self.looked: tuple[int, Look | None] = (0, None)

    @property
    def label(self) -> str:
        """Name of the rank in messages."""
        return f"rank {self.number}" + (f" on {self.location.host}" if self.location.host else "")

    def settled(self, spawned: bool, ending: bool) -> bool:
        """Return True if the job need not wait for it any more.

        Args:
            spawned: the launcher has started its process.
            ending: the job ends in any case.
        """
        if not spawned:
            ended = (RankState.FINALIZED, RankState.LEFT, RankState.FAILED)
            return (ending or self.state in ended) and not self.connected
        if ending:
            return not self.pid or self.status is not None
        return self.status is not None and not self.connected


class JobState:
    """The state that the parts of the table of a job share.

    Args:
        size: number of ranks; they are the whole world unless `enrol` is called.
        directory: directory for the sockets of the ranks; empty if ranks must create a directory of their own.
        spawned: True if the launcher starts the processes; otherwise they join from elsewhere.
        survives: True if the job goes on when a rank fails.
        heartbeat: seconds after which a stuck rank counts as failed; 0 for never.

    Attributes:
        id: of the job, 16 bytes.
        namespace: see `control.Welcome`.
        introduced: True once all ranks of the world know each other.
        fencing: True once all ranks have finalized or left.
        signum: signal that the launcher got, 0 for none.
        code: exit code of the launcher.
        lost_code: exit code for the first failure that the job survives; the launcher exits with it if no rank is left.
    """

    def __init__(
        self, size: int, *, directory: str, spawned: bool, survives: bool = False, heartbeat: float = 0.0
    ) -> None:
        self.ranks = [Rank(number) for number in range(size)]
        self.phase = JobPhase.RUNNING
        self.id = os.urandom(NAMESPACE_BYTES)
        self.world = World(size=size)
        self.directory, self.spawned, self.survives = directory, spawned, survives
        self.heartbeat, self.namespace = heartbeat, ""
        self.introduced = self.fencing = False
        self.signum = self.code = self.lost_code = 0
        self._actions: list[Action] = []

    @property
    def ending(self) -> bool:
        """True once a rank has failed, a signal has come, or the job is ending for another reason."""
        return self.phase is not JobPhase.RUNNING or self.signum != 0

    @property
    def goes_on(self) -> bool:
        """True if the job would go on after a failure of a rank now."""
        return self.survives and self.introduced and not self.ending

    def actions(self) -> list[Action]:
        """Return the actions to perform now, in this order."""
        actions, self._actions = self._actions, []
        return actions

    def act(self, *actions: Action) -> None:
        """Ask for actions."""
        self._actions += actions

    def rank(self, number: int) -> Rank:
        """Return the rank with a number."""
        return self.ranks[number - self.world.first]

    def inside(self, rank: Rank) -> list[Rank]:
        """Return the other ranks that take part in communication."""
        return [other for other in self.ranks if other is not rank and other.connected and other.state in INSIDE]

    def watched(self) -> list[Rank]:
        """Return the ranks that would delay others if they were stuck."""
        return [rank for rank in self.ranks if rank.state in WATCHED and (rank.pid or rank.joiner)]


def describe(rank: Rank) -> str:
    """Describe how a rank has ended, as the rest of a sentence."""
    if rank.error:
        return rank.error
    if rank.status is not None and rank.status < 0:
        return f"was killed by signal {-rank.status}{_signal_name(-rank.status)}"
    if rank.status:
        return f"exited with status {rank.status}"
    if rank.status == 0:
        return "exited with status 0 without calling Finalize"
    return "closed its connection to the launcher without calling Finalize"


def exit_code(rank: Rank) -> int:
    """Return the exit code of the launcher for a rank that has failed."""
    if not rank.status or rank.expelled:
        return EXIT_FAILURE
    return rank.status if rank.status > 0 else EXIT_SIGNAL - rank.status


def _signal_name(signum: int) -> str:
    try:
        return f" ({signal.Signals(signum).name})"
    except ValueError:  # a real-time signal
        return ""


def absence(number: int, waiting: list[int]) -> str:
    """Return the message for a job that ends because ranks wait for a rank that has ended without joining."""
    others = ranks_do(waiting, "wait")
    return (
        f"rank {number} exited with status 0 without ever joining the job, while {others} for it in init: either all "
        "ranks of a job use MPI or none"
    )
