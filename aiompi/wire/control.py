"""Messages between a rank and the launcher's agent over the control socket.

After the hello (role ROLE_CONTROL, target RANK_AGENT, the connector's rank or RANK_ANY) both directions carry
messages of this table, each as a 4-byte big-endian length and a msgpack array [code, field, ...]:

    rank                                        agent
    Join(pid, namespace)                  -->
                                          <--   Welcome(rank, size, directory, ...)
    Card(card)                            -->
                                          <--   Cards(cards)        when every rank of the job has sent its card
      ... the program runs; any time: Abort(code, reason) -->, <-- Abort(code, reason), <-- Left(process) ...
      ... and when a rank has waited for a long time: Report(0, report) -->,
      <-- ReportRequest(number) to all others, Report(number, report) --> ...
      ... and while the user watches the job: <-- LookRequest(number), Looked(number, look) --> each second ...
      ... and in a job that goes on after failures: Failed(process, cause) -->, <-- Failed(process, cause),
      Revoke(context, process) -->, <-- Revoke(context, process), Agree(context, number, ...) -->, <-- Agreed(...) ...
      ... and when a link breaks to a process that is not known to have ended: Suspect(process, cause) --> ...
      ... and when a process has failed in a job that the rank has spawned: Obituary(...) -->; then to all other ranks:
      <-- Obituary(...) ...
    Finalize()                            -->
                                          <--   Finalized()         when every rank has finalized or left
    Leave()                               -->                       instead of Finalize: the rank waits for no others

In an open job (`aiompi-launch --serve` without a number) a process first becomes a member, and later a rank:

    member                                      agent
    Enter(pid, host, attributes, ...)     -->
                                          <--   Entered(member, members), and then MembershipChange(...) at any time
    Assemble(number, at_least, within)    -->
                                          <--   Assembled(number, generation, rank, members)   to each member of a world
      ... each member of the world connects once more, as a rank of the world: Join(pid, generation) ...
                                          <--   Outdated(generation, cause)     when the world should be assembled again
    Inquire(number)                       -->                       when the member has waited for some seconds
                                          <--   Awaiting(number, cause, others)
    Withdraw(number)                      -->                       when the member no longer wants a world
    Leave(), Failed(member, cause)        -->

The rank closes the connection, never the agent. End of file before Finalize or Leave means that the rank has died.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from itertools import chain
from types import GenericAlias
from typing import Any, Final, NamedTuple, TypeAlias, TypedDict, TypeGuard, cast

import msgpack

from aiompi.errors import RemoteProtocolError
from aiompi.settings import MAX_WINDOW
from aiompi.wire.hello import NO_NAMESPACE

MAX_MESSAGE: Final = 64 * 2**20  # bytes: the cards of some 100,000 ranks
#: most bytes of a message of a rank or a member: an agreement or a wait report of 100,000 ranks
MAX_FROM_RANK: Final = 2 * 2**20
#: most bytes of the attributes of a member, which all members get
MAX_ATTRIBUTES: Final = 2**16
#: most characters of a text; `encode` shortens longer ones
MAX_TEXT: Final = 2**16
#: most levels of lists and dicts inside a field
MAX_DEPTH: Final = 32
#: most characters of the cause of a failure in another job
MAX_OBITUARY: Final = 2**12
_CAUSE: Final = 200  # most characters of the reason why a message cannot be read
_LENGTH: Final = struct.Struct("!I")


class BusinessCard(TypedDict, total=False):
    """The published addresses of a rank; empty if other ranks reach it only through its IMPI host.

    Attributes:
        window: bytes that each other rank may send eagerly to this one.
        host: name of its machine, unique among machines.
        appnum: number of the section of the launcher's command line that started the rank; missing without a command
            line.
        transports: name of each listening transport -> its address, in the form of that transport.
    """

    window: int
    host: str
    appnum: int
    transports: dict[str, Any]


_CARD: Final[dict[str, type[Any]]] = {"window": int, "host": str, "appnum": int, "transports": dict}


def is_card(value: object) -> TypeGuard[BusinessCard]:
    """Return True for a business card. The transports check the addresses in it."""
    return (
        isinstance(value, dict)
        and all(type(field) is _CARD.get(name) for name, field in value.items())
        and 0 <= value.get("window", 0) <= MAX_WINDOW
        and all(type(name) is str for name in value.get("transports", ()))
    )


class Join(NamedTuple):
    """A rank joins.

    Attributes:
        pid: id of the rank's process.
        namespace: pid namespace of `pid` (`aiompi.wire.liveness.namespace`).
        world: generation of the rank's world in an open job; 0 in any other job.
    """

    pid: int
    namespace: str = ""
    world: int = 0


class Welcome(NamedTuple):
    """The rank of the process, and the properties of its job.

    Attributes:
        rank: in the world.
        size: of the world.
        directory: for sockets; empty if the ranks share no directory.
        keys: for connections with each rank of the world, in rank order (`aiompi.wire.hello.pair_keys`).
        address: address of this machine, for ranks on other machines; empty if all ranks are on this machine.
        host: address of the rank's IMPI host, "unix:PATH"; empty in a job without an IMPI server.
        universe: an `aiompi.impi.universe.Universe`, packed; empty in a job without an IMPI server.
        survives: True if the job goes on when a rank fails.
        heartbeat: seconds after which a peer counts as cut off if its machine does not answer; 0 for never.
        job: id of the job, 16 bytes.
        process: number of the process in the job; other messages name the process by this number. The processes of a
            world have consecutive numbers. In the first world of a job the numbers are the ranks.
        namespace: pid namespace of the agent, which itself checks for stopped processes in this namespace. A rank in
            another namespace has a companion that reports a stop (`aiompi.job.companion`). If `namespace` is empty, no
            companion reports.
    """

    rank: int
    size: int
    directory: str
    keys: bytes = b""
    address: str = ""
    host: str = ""
    universe: dict[str, Any] = {}
    survives: bool = False
    heartbeat: float = 0.0
    job: bytes = NO_NAMESPACE
    process: int = 0
    namespace: str = ""

    def __repr__(self) -> str:  # without the keys
        return f"Welcome(rank={self.rank}, size={self.size})"


class Card(NamedTuple):
    """The business card of the rank."""

    card: BusinessCard


class Cards(NamedTuple):
    """Cards of all ranks, in rank order. A card is empty if other ranks reach the rank only through its IMPI host."""

    cards: list[BusinessCard]


class Abort(NamedTuple):
    """The job ends: `code` becomes its exit status, `reason` names the rank and the cause."""

    code: int
    reason: str


class Left(NamedTuple):
    """A process has left the job in good order and will send nothing more."""

    process: int


class Finalize(NamedTuple):
    """The rank calls Finalize, and waits until all other ranks do."""


class Finalized(NamedTuple):
    """All ranks have finalized or left: the rank may end."""


class Leave(NamedTuple):
    """The rank ends without waiting for others."""


class ReportRequest(NamedTuple):
    """Ask a rank for a wait report."""

    number: int


class Report(NamedTuple):
    """A wait report of the rank.

    Attributes:
        number: number of the request that the report answers; 0 if there was no request.
        report: an `aiompi.wire.wait_report.WaitReport`, packed.
    """

    number: int
    report: dict[str, Any]


class LookRequest(NamedTuple):
    """Ask a rank what it does now; from the first such question on, the rank counts its messages.

    Attributes:
        number: number of the question; 0 ends the questions, and has no answer.
    """

    number: int


class Looked(NamedTuple):
    """The answer to LookRequest.

    Attributes:
        number: as in `LookRequest`.
        look: the fields of an `aiompi.wire.look.Look`.
    """

    number: int
    look: list[Any]


class Failed(NamedTuple):
    """A process has failed, and the job goes on. A rank sends this message before it ends with an error."""

    process: int
    cause: str


class Suspect(NamedTuple):
    """The rank has lost its link to a process for an unknown reason. The agent decides if the process has failed."""

    process: int
    cause: str


class Obituary(NamedTuple):
    """Processes of a spawned job have failed. The job's launcher reports this to the process that has spawned the job.

    Attributes:
        job: id of the spawned job.
        everybody: True if the job has ended with all its processes.
        process: number of the failed process, if the job has not ended.
        cause: of the failure.
        starter: the process that has spawned the job, by its number in its own job.
    """

    job: bytes
    everybody: bool
    process: int
    cause: str
    starter: int = 0


class Revoke(NamedTuple):
    """A process revokes the communicator with this context id (Comm.Revoke)."""

    context: int
    process: int


class Agree(NamedTuple):
    """The contribution of a rank to an agreement of a communicator (Comm.Agree, Comm.Shrink).

    Attributes:
        context: id of the communicator.
        number: index of the agreement on the communicator, the same at all members.
        members: all members of the communicator; each member sends the same list.
        flag: 64 bits; the result is the bitwise AND of the flags of all members.
        proposal: a number; the result is the largest proposal.
        acknowledged: the failed members that this rank has acknowledged.
    """

    context: int
    number: int
    members: list[int]
    flag: int
    proposal: int
    acknowledged: list[int]


class Agreed(NamedTuple):
    """The result of an agreement, the same at each member.

    Attributes:
        context, number: as in `Agree`.
        flag, proposal: the results.
        failed: the members that had failed or left, in the order in which they ended.
        acknowledged: True if each contributing member had acknowledged all failed members.
    """

    context: int
    number: int
    flag: int
    proposal: int
    failed: list[int]
    acknowledged: bool


class MemberCard(TypedDict):
    """A member of a job that is open.

    Attributes:
        id: its number, never given to another member.
        host: name of its machine.
        since: when the member joined, in seconds since the epoch, by the clock of the agent.
        attributes: the attributes with which it joined.
    """

    id: int
    host: str
    since: float
    attributes: dict[str, Any]


class Enter(NamedTuple):
    """A process becomes a member. `pid` and `namespace` are as in `Join`; `host` is the name of the machine."""

    pid: int
    namespace: str
    host: str
    attributes: dict[str, Any]


class Entered(NamedTuple):
    """The process is member number `member`; `members` are all members, itself included.

    `heartbeat` and `namespace` are as in `Welcome`.
    """

    member: int
    members: list[MemberCard]
    heartbeat: float = 0.0
    namespace: str = ""


class MembershipChange(NamedTuple):
    """A member has joined, left or failed, as `kind` says; `cause` is the cause of a failure."""

    kind: str
    member: MemberCard
    cause: str


class Assemble(NamedTuple):
    """The member leaves its world and asks for a new one.

    Attributes:
        number: of the call, from 1 on.
        at_least: size of the world that it wants.
        within: seconds that it waits, infinite for no limit.
    """

    number: int
    at_least: int
    within: float


class Withdraw(NamedTuple):
    """The member no longer asks for a world, or does not join the assembled world."""

    number: int


class Assembled(NamedTuple):
    """The answer to Assemble.

    Attributes:
        number: as in `Assemble`.
        generation: generation of the world, from 1 on; 0 if there is no world.
        rank: rank of the member in the world.
        members: the ids of all members of the world, by rank.
        cause: why there is no world.
    """

    number: int
    generation: int
    rank: int
    members: list[int]
    cause: str


class Inquire(NamedTuple):
    """The member asks for which other members its call `number` of Assemble waits."""

    number: int


class Awaiting(NamedTuple):
    """The answer to Inquire.

    Attributes:
        number: as in `Inquire`.
        cause: why there is no world yet.
        others: True if members of another world have to ask for a new world first.
    """

    number: int
    cause: str
    others: bool


class Outdated(NamedTuple):
    """A world should be assembled again, because a member of it has ended or another member asks for a world."""

    generation: int
    cause: str


Message: TypeAlias = (
    Join | Welcome | Card | Cards | Abort | Left | Finalize | Finalized | Leave | ReportRequest | Report
    | Failed | Revoke | Agree | Agreed | Suspect
    | Enter | Entered | MembershipChange | Assemble | Withdraw | Assembled | Outdated
    | Inquire | Awaiting | Obituary | LookRequest | Looked
)  # fmt: skip

# Code on the wire -> message and the types of its fields.
Table: TypeAlias = Mapping[int, tuple[type[Any], tuple[Any, ...]]]
MESSAGES: Final[Table] = {
    1: (Join, (int, str, int)),
    2: (Welcome, (int, int, str, bytes, str, str, dict, bool, float, bytes, int, str)),
    3: (Card, (BusinessCard,)),
    4: (Cards, (GenericAlias(list, dict),)),
    5: (Abort, (int, str)),
    6: (Left, (int,)),
    7: (Finalize, ()),
    8: (Finalized, ()),
    9: (Leave, ()),
    10: (ReportRequest, (int,)),
    11: (Report, (int, dict)),
    12: (Failed, (int, str)),
    13: (Revoke, (int, int)),
    14: (Agree, (int, int, list[int], int, int, list[int])),
    15: (Agreed, (int, int, int, int, list[int], bool)),
    16: (Suspect, (int, str)),
    17: (Enter, (int, str, str, dict)),
    18: (Entered, (int, GenericAlias(list, dict), float, str)),
    19: (MembershipChange, (str, dict, str)),
    20: (Assemble, (int, int, float)),
    21: (Withdraw, (int,)),
    22: (Assembled, (int, int, int, list[int], str)),
    23: (Outdated, (int, str)),
    24: (Inquire, (int,)),
    25: (Awaiting, (int, str, bool)),
    26: (Obituary, (bytes, bool, int, str, int)),
    27: (LookRequest, (int,)),
    28: (Looked, (int, list)),
}
#: most bytes of messages that the agent keeps or forwards
_LONGEST: Final[dict[type[Any], int]] = {
    Card: 2**16, Enter: MAX_ATTRIBUTES + 2**10, Obituary: 4 * MAX_OBITUARY + 2**10, Looked: 2**12,
}  # fmt: skip
#: levels of lists and dicts that the agent adds around a field of a rank or a member when it forwards the field
_AROUND: Final[dict[type[Any], int]] = {Cards: 1, Entered: 2, MembershipChange: 1}
_SURROGATES: Final = "surrogatepass"  # paths and texts of exceptions may hold bytes that are not UTF-8
_CODES: Final = {message: code for code, (message, _) in MESSAGES.items()}


def encode(message: Any, codes: Mapping[type[Any], int] = _CODES, end: bytes = b"") -> bytes:
    """Return a message as bytes. Texts in it are shortened to MAX_TEXT.

    Args:
        message: a named tuple.
        codes: code of each class.
        end: bytes behind each message.
    """
    body: bytes = msgpack.packb([codes[type(message)], *map(_brief, message)], unicode_errors=_SURROGATES)
    return _LENGTH.pack(len(body)) + body + end


def _brief(field: Any) -> Any:
    return field[: MAX_TEXT - 3] + "..." if type(field) is str and len(field) > MAX_TEXT else field


class Decoder:
    """Reads messages from a byte stream that may be split anywhere.

    Args:
        table: the messages, in the form of MESSAGES.
        end: bytes behind each message.
        most: most bytes of a message.
    """

    def __init__(self, table: Table = MESSAGES, end: bytes = b"", most: int = MAX_MESSAGE) -> None:
        self._buffer = bytearray()
        self._most = most
        self._table = table
        self._end = len(end)

    def receive_data(self, data: bytes) -> list[Any]:
        """Add bytes from the stream; return the messages that are now complete.

        Raises:
            RemoteProtocolError: the bytes are no message; the connection must be closed.
        """
        self._buffer += data
        messages = []
        while (message := self._next()) is not None:
            messages.append(message)
        return messages

    def receive_first(self, data: bytes) -> tuple[Any, bytes]:
        """Add bytes from the stream; return the first message, and the bytes behind it, which are not decoded.

        Both are empty (None, and no bytes) while the message is not complete.

        Raises:
            RemoteProtocolError: the bytes are no message; the connection must be closed.
        """
        self._buffer += data
        message = self._next()
        if message is None:
            return None, b""
        rest = bytes(self._buffer)
        self._buffer.clear()
        return message, rest

    def _next(self) -> object:
        if len(self._buffer) < _LENGTH.size:
            return None
        (length,) = _LENGTH.unpack_from(self._buffer)
        if length > self._most:
            raise RemoteProtocolError(f"control message of {length} bytes; at most {self._most} are allowed")
        end = _LENGTH.size + length
        if len(self._buffer) < end + self._end:
            return None
        body = bytes(self._buffer[_LENGTH.size : end])
        del self._buffer[: end + self._end]
        return _decode(body, self._table)


def _decode(body: bytes, table: Table) -> object:
    try:
        code, *fields = msgpack.unpackb(body, unicode_errors=_SURROGATES)  # msgpack bounds the depth before it recurses
        if type(code) is not int:
            raise TypeError(f"code {code!r}")
        message, types = table[code]
    except Exception as error:
        raise RemoteProtocolError(f"control message cannot be read: {type(error).__name__}: {error}"[:_CAUSE]) from None
    if len(body) > (longest := _LONGEST.get(message, MAX_MESSAGE)):
        raise RemoteProtocolError(
            f"control message {message.__name__} of {len(body)} bytes; at most {longest} are allowed"
        )
    most = MAX_DEPTH + _AROUND.get(message, 0)
    if any(is_deep(field, most) for field in fields):
        raise RemoteProtocolError(f"control message {message.__name__} is nested deeper than {most} levels")
    if len(fields) != len(types) or not all(map(_fits, fields, types)):
        raise RemoteProtocolError(f"control message {message.__name__} has wrong fields")
    return message(*fields)


def is_deep(value: object, most: int = MAX_DEPTH) -> bool:
    """Return True if lists and dicts are nested deeper than `most` levels. This searches breadth first."""
    level: list[Any] = [value]
    for _ in range(most + 1):
        inner: list[Iterable[Any]] = [
            each.values() if type(each) is dict else each for each in level if type(each) in (list, dict)
        ]
        if not inner:
            return False
        level = [*chain.from_iterable(inner)]
    return True


def _fits(field: object, expected: Any) -> bool:
    """Return True if a field and its items are exactly of the expected types (a bool is not an int)."""
    if expected is BusinessCard:
        return is_card(field)
    if isinstance(expected, GenericAlias):
        (kind,) = expected.__args__
        return isinstance(field, list) and all(type(item) is kind for item in field)
    return type(field) is expected and not (expected is str and len(cast(str, field)) > MAX_TEXT)
