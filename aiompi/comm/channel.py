"""Channels: the context, tag and members through which one collective call communicates."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

from aiompi.comm.group import Group
from aiompi.core.pure.recorder import PART, shown
from aiompi.engine import Message, MessageListener, Mode, Receive, Request, room
from aiompi.wire.frame import Payload

if TYPE_CHECKING:
    from aiompi.comm.communicator import Communicator

T = TypeVar("T")

#: tag of the collectives that IMPI 0.0 does not define, on communicators that span clients. IMPI's own tags are 110 to
#: 230. These collectives run one after the other, so one tag is enough.
EXTENSION_TAG: Final = 300
#: tag of the messages of these collectives within the local group of an intercommunicator
LOCAL_GROUP_TAG: Final = 301
#: tag of messages within a client
CLIENT_TAG: Final = 302
#: tag of messages among members that make a communicator without the other members
PART_TAG: Final = 303

#: from this bit on, 32 bits of a note hold the root + 1, or 0 for no root; `aiompi.coll.signature` has the other bits
ROOT: Final = 16

#: distance between the tags of persistent collectives: added to a tag above once for the first persistent collective,
#: twice for the second, and so on
BOUND_TAGS: Final = 512


class Route:
    """The destinations of the messages of a channel, and the source that these messages carry.

    Args:
        comm: communicator.
        members: process numbers of the destinations; by default the processes that the communicator reaches.
        rank: rank of this process among the members; by default its rank in the communicator.
        offset: added to the source of messages, to separate channels with the same context and tag.
        sources: for each member, the source that its messages carry; by default the member's rank plus `offset`.
        point_to_point: True for messages in the context of point-to-point communication.

    Attributes:
        engine: of this rank.
        members, rank, offset, sources: as above.
        size: number of members.
        context_id, matcher: of the messages.
        source: the source that messages of this rank carry.
    """

    __slots__ = ("context_id", "engine", "matcher", "members", "offset", "rank", "size", "source", "sources")

    def __init__(
        self,
        comm: Communicator,
        members: Sequence[int] | None = None,
        rank: int | None = None,
        offset: int = 0,
        sources: Sequence[int] | None = None,
        *,
        point_to_point: bool = False,
    ) -> None:
        self.engine = comm.engine
        self.members = comm.targets if members is None else members
        self.context_id = comm.context_id if point_to_point else comm.context_id + 1
        self.matcher = comm.engine.matcher(self.context_id)
        self.offset = offset
        self.rank = comm.rank if rank is None else rank
        self.size = len(self.members)
        self.sources = sources
        self.source = self.rank + offset if sources is None else sources[self.rank]


def root_of(note: int) -> int | None:
    """Return the root in the note of a collective; None if the note has no root."""
    root = note >> ROOT & 0xFFFFFFFF
    return root - 1 if root else None


class Channel:
    """The collective context of a communicator, and the tag that one call uses in this context.

    All members call collectives in the same order (section 4.1). So the number of a call serves as its tag, and several
    calls can be in progress at once. On an intercommunicator the channel leads to the remote group, and `local` to the
    local group. On a communicator that spans IMPI clients, algorithms use the tags of IMPI (see `tagged`). A persistent
    collective adds a number to these tags.

    Args:
        comm: communicator.
        number: the tag.
        operation: name of the call, for error messages.
        note: see below.
        route: other destinations than the processes that the communicator reaches.

    Attributes:
        comm: communicator.
        rank: rank of this process in its group.
        size: number of processes that the channel reaches: the size of the group, or of the remote group.
        tag: tag of the messages.
        operation: name of the call.
        note: number that messages carry beside their content, for receives to compare; 0 for none.
        ordered: True if all members make the same calls in the same order, so that they can use slots.
    """

    __slots__ = ("_added", "operation", "_route", "comm", "ordered", "note", "rank", "size", "tag")

    def __init__(
        self, comm: Communicator, number: int, operation: str, note: int = 0, route: Route | None = None
    ) -> None:
        if route is None:
            route = comm.route
        self.comm = comm
        self.operation = operation
        self._route = route
        self.tag = number
        self._added = 0
        self.rank = route.rank
        self.size = route.size
        self.note = note
        self.ordered = False

    @property
    def room(self) -> int:
        """Bytes of the slot of each member in shared memory."""
        return room(self.comm.context_id)

    @property
    def hosts(self) -> list[list[int]]:
        """The ranks of each host; a rank that shares memory with no other rank counts as a separate host."""
        return self.comm.hosts or [[rank] for rank in range(self.size)]

    @property
    def local(self) -> Channel:
        """The channel to the local group; on an intracommunicator the channel itself."""
        comm = self.comm
        if comm.remote is None:
            return self
        if comm.native:
            route = Route(comm, comm.group.members, offset=comm.remote.size)
            return Channel(comm, self.tag, self.operation, self.note, route)
        return self._like(LOCAL_GROUP_TAG, Route(comm, comm.group.members, self.rank))

    def bound(self, number: int) -> Channel:
        """Return the channel for persistent collective number 0, 1, ..., over IMPI clients."""
        added = (1 + number % (self.comm.tag_ub // BOUND_TAGS - 1)) * BOUND_TAGS
        channel = self._like(self.tag + added, self._route)
        channel._added = added
        return channel

    def tagged(self, tag: int, *, point_to_point: bool = False) -> Channel:
        """Return a channel of the same call with another tag.

        Args:
            tag: tag of the messages.
            point_to_point: True for messages in the context of point-to-point communication.
        """
        route = self._route
        if point_to_point:
            route = Route(self.comm, route.members, route.rank, route.offset, route.sources, point_to_point=True)
        return self._like(tag, route)

    def among(self, ranks: Sequence[int]) -> Channel:
        """Return a channel for the members that belong to this rank's IMPI client.

        Args:
            ranks: ranks of these members, ascending; in the channel these members have the ranks 0, 1, ....
        """
        members = [self._route.members[rank] for rank in ranks]
        return self._like(CLIENT_TAG, Route(self.comm, members, ranks.index(self.rank), sources=ranks))

    def part(self, ranks: Sequence[int]) -> Channel:
        """Return a channel of the same call for some of the members, one of which is this rank.

        Args:
            ranks: ranks of these members; in the channel these members have the ranks 0, 1, ....
        """
        route = self._route
        sources = [rank + route.offset if route.sources is None else route.sources[rank] for rank in ranks]
        members = [route.members[rank] for rank in ranks]
        return self._like(self.tag - self._added, Route(self.comm, members, ranks.index(self.rank), sources=sources))

    def _like(self, tag: int, route: Route) -> Channel:
        """Return a channel of the same call over IMPI clients."""
        channel = Channel(self.comm, tag + self._added, self.operation, self.note, route)
        channel._added = self._added
        return channel

    @classmethod
    def between_leaders(cls, comm: Communicator, tag: int, operation: str) -> Channel:
        """Return a channel between two leaders, which agree on a tag (section 5.6.2).

        If the leaders belong to different IMPI clients, their messages are in the collective context, by the general
        rule of section 4.3 of IMPI 0.0. If the setting `impi_leaders_collective` is off, they are in the point-to-point
        context.
        """
        if comm.native:
            return cls(comm, tag, operation, route=Route(comm, offset=_everyone(comm)))
        collective = comm.engine.settings.impi_leaders_collective
        return cls(comm, tag, operation).tagged(tag, point_to_point=not collective)

    @classmethod
    def within(cls, comm: Communicator, group: Group, tag: int, operation: str) -> Channel:
        """Return a channel for the members in `group`, with their ranks in `group`. These members agree on a tag.

        Over IMPI clients constructors run one after the other, so one tag is enough.
        """
        added = 2 * _everyone(comm) if comm.native else 0
        sources = [added + rank for rank in group.Translate_ranks(None, comm.group)]
        route = Route(comm, group.members, group.rank, sources=sources)
        return cls(comm, tag if comm.native else PART_TAG, operation, route=route)

    @property
    def where(self) -> str:
        """Name of the call and the communicator, for error messages."""
        return self.comm.where(self.operation)

    def isend(self, payload: Payload, nbytes: int, dest: int) -> Request[None]:
        """Start sending `nbytes`, in pieces, to a rank."""
        route = self._route
        peer = route.engine.peer(route.members[dest])
        recorder = route.engine.recorder
        if recorder is None:
            return peer.send(payload, nbytes, route.context_id, route.source, self.tag, Mode.STANDARD, self.note)
        handle = recorder.start(PART, route.context_id, shown(route.members[dest]), self.tag, nbytes)
        request = peer.send(payload, nbytes, route.context_id, route.source, self.tag, Mode.STANDARD, self.note)
        recorder.sent(handle, request, peer)
        return request

    def multicast(self, payload: Payload, nbytes: int, dests: Sequence[int]) -> list[Request[None]]:
        """Start sending the same `nbytes`, in pieces, to several ranks."""
        return [self.isend(payload, nbytes, dest) for dest in dests]

    def irecv(self, memory: memoryview | None, source: int) -> Receive:
        """Start a receive from a rank; without memory, the completed request has the message in `data`."""
        route = self._route
        carried = source + route.offset if route.sources is None else route.sources[source]
        receive = Receive(route.engine, route.matcher, memory, carried, self.tag, route.members[source])
        route.engine.receive(receive)
        return receive

    def alarm(self) -> MessageListener:
        """Return a listener for messages without a receive at this rank; see `alert`."""
        return MessageListener(self._route.engine, self._route.matcher, self.size)

    def alert(self, alarm: MessageListener, notify: Callable[[Message], object]) -> None:
        """Call `notify` with each message of this call that no receive has matched, until the alarm is unset."""
        alarm.set(self.tag, notify)


def _everyone(comm: Communicator) -> int:
    """Return the number of processes in both groups of a communicator. All ranks are smaller than this number."""
    return comm.size + (0 if comm.remote is None else comm.remote.size)


async def run_after(
    before: Request[Any],
    gate: Request[None],
    channel: Channel,
    algorithm: Callable[[Channel], Coroutine[Any, None, T]],
) -> T:
    """Run a collective after an earlier collective has ended, whether the earlier one has succeeded or failed."""
    before.when_done(lambda _: gate.complete())
    await gate
    return await algorithm(channel)
