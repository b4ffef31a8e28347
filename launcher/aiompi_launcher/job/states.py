"""What the state table of a job works with: states of a rank, events, and actions that it wants performed."""

from __future__ import annotations

import dataclasses
import enum
import signal
from typing import Any, Final, NamedTuple, TypeAlias

from aiompi.wire import control
from aiompi.wire.hello import new_key, pair_keys
from aiompi_launcher.spec import EXIT_FAILURE, EXIT_SIGNAL


def quoted(text: str) -> str:
    """Return a text of another process so that none of its lines looks like one of the launcher.

    Control characters are escaped, and all lines but the first are indented.
    """
    lines = ("".join(c if c.isprintable() else ascii(c)[1:-1] for c in line) for line in text.splitlines())
    return "\n    ".join(lines)


class RankState(enum.Enum):
    """State of a rank; see the top of the module."""

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
    """The world that the ranks of a job are part of.

    Attributes:
        first: world rank of the first rank of the job.
        size: of the world.
        key: from which the keys of the ranks for each other follow; no rank knows it.
        address, universe: as in control.Welcome.
        hosts: address of the IMPI host of each rank of the job; empty if ranks need none.
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
        """Return what a rank of the job gets of the world when it joins; `directory` if its place has no other."""
        return control.Welcome(
            rank.number,
            self.size,
            rank.place.directory or directory,
            keys=pair_keys(self.key, rank.number, range(self.size)),
            address=rank.place.address or self.address,
            host=self.hosts[rank.number - self.first] if self.hosts else "",
            universe=self.universe,
            process=rank.number,
        )


@dataclasses.dataclass(slots=True)
class Place:
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

# States in which a rank that is stuck holds up others.
WATCHED: Final = ACTIVE | {RankState.EXPECTED}


#: most communicators that a rank may revoke in one world; each is kept for ranks that do not read
MAX_REVOCATIONS: Final = 2**16

#: most bytes of reports of failures in spawned jobs that a rank has passed on in one world; each may wait to be read
MAX_OBITUARIES: Final = 2**20


class Closed(NamedTuple):
    """Event: the connection of a rank has ended, for an `error` if it says what the rank or its host did."""

    error: str = ""


class Send(NamedTuple):
    """Action: send a message to a rank."""

    rank: int
    message: control.Message


class Hangup(NamedTuple):
    """Action: close the connection to a rank once everything is sent."""

    rank: int


class Signal(NamedTuple):
    """Action: send a signal to the process group of a rank, or to those of all ranks."""

    signum: int
    rank: int | None = None


class StartTimer(NamedTuple):
    """Action: call `expired(key)` after `seconds`."""

    key: str
    seconds: float


class Publish(NamedTuple):
    """Action: all ranks have joined; exchange cards with the other clients, then call `introduce`."""

    cards: list[control.BusinessCard]


class Fence(NamedTuple):
    """Action: all ranks have finalized or left; call `fenced` when this holds in the whole world."""


class Report(NamedTuple):
    """Action: tell the user why the job ends; `rank` is the culprit, None if no rank is."""

    rank: int | None
    text: str


class End(NamedTuple):
    """Action: the job is over; `code` is the exit code of the launcher."""

    code: int


class Note(NamedTuple):
    """Action: print a message; the job goes on. `rank` is the one that it is about, if there is one."""

    text: str
    rank: int | None = None


class Loss(NamedTuple):
    """Action: say why a rank has failed; the job goes on without it."""

    rank: int
    text: str


Action: TypeAlias = Send | Hangup | Signal | StartTimer | Publish | Fence | Report | Note | Loss | End


#: why a process cannot become a member
NOT_OPEN: Final = "the number of its ranks is fixed: be one of them by aiompi.init(address, key)"


class Refused(Exception):
    """A connection cannot become a rank of the job; the message says why."""


class Rank:
    """One rank of the job.

    Attributes:
        number: number of the process in the job, which is its rank in the world in the first world.
        state: state of the control protocol.
        pid: id of its process, 0 while unknown.
        joiner: id of the process that has joined, possibly a child of the one that was started; 0 before.
        namespace: in which `joiner` counts.
        connected: True while its control connection is open.
        status: exit status of its process, negative for a signal, None while it runs.
        card: its business card.
        error: why the launcher has closed its connection, or why the rank ends.
        last_line: of its standard error, "" while it runs.
        reported: True if the others know that it has failed, in a job that goes on.
        expelled: True if the job has excluded it although its process may be alive.
        revocations: how many communicators it has revoked.
        obituaries: bytes of its reports of failures in jobs that it has spawned.
        place: where it runs.
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
        self.place = Place()

    @property
    def label(self) -> str:
        """Name of the rank in messages."""
        return f"rank {self.number}" + (f" on {self.place.host}" if self.place.host else "")

    def settled(self, spawned: bool, ending: bool) -> bool:
        """Return True if the job need not wait for it any more.

        Args:
            spawned: the launcher has started its process.
            ending: the job ends whatever its ranks do.
        """
        if not spawned:
            ended = (RankState.FINALIZED, RankState.LEFT, RankState.FAILED)
            return (ending or self.state in ended) and not self.connected
        if ending:
            return not self.pid or self.status is not None
        return self.status is not None and not self.connected


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
    """Return why a job ends where ranks wait for one that has ended without ever joining."""
    them = ", ".join(map(str, waiting[:8])) + (", ..." if len(waiting) > 8 else "")
    verb = f"rank {them} waits" if len(waiting) == 1 else f"ranks {them} wait"
    return (
        f"rank {number} exited with status 0 without ever joining the job, while {verb} for it in init: either all "
        "ranks of a job use MPI or none"
    )
