"""Channels: what one collective call communicates through."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from aiompi.comm.group import Group
from aiompi.engine import Message, MessageListener, Mode, NotedReceive, Request
from aiompi.wire.frame import Payload

if TYPE_CHECKING:
    from aiompi.comm.communicator import Communicator

#: Of collectives that IMPI 0.0 does not define, on communicators that span clients: the tags of those that it does,
#: 110 to 230, are below. They run one after the other, so that one tag serves them all.
EXTENSION_TAG: Final = 300
#: of their messages within the own group of an intercommunicator
LOCAL_GROUP_TAG: Final = 301
#: of messages within a client
CLIENT_TAG: Final = 302
#: of messages among a part of the members who make a communicator by themselves
PART_TAG: Final = 303

#: what is added to all of these for the first persistent collective, twice for the second, and so on
BOUND_TAGS: Final = 512


class Route:
    """Whom messages of a channel reach, and what they carry as their source.

    Args:
        comm: communicator.
        members: world ranks that can be reached; by default those whom the communicator reaches.
        rank: of this process among those who communicate; by default the one in the communicator.
        offset: added to the ranks that messages carry as their source, so that channels in one context with one
            tag are apart.
        sources: instead of that, what messages of each member carry.
        point_to_point: whether they are in the context of point-to-point messages.

    Attributes:
        engine: of this rank.
        members, rank, offset, sources: as above.
        size: number of members.
        context_id, matcher: of the messages.
        source: what those of this rank carry.
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


class Channel:
    """The collective context of a communicator, and a tag of this call's own.

    Collectives are called in the same order by all members (section 4.1), so that counting them gives each a
    tag, and several can be under way at once. On an intercommunicator the channel leads to the remote group, and
    `local` to the own one. Where the communicator spans IMPI clients, tags are those of IMPI (see `tagged`), all with
    the same number added for a persistent collective.

    Args:
        comm: communicator.
        number: the tag.
        operation: name of the call, for messages.
        note: as below.
        route: to others than those whom the communicator reaches.

    Attributes:
        comm: communicator.
        rank: of this process in its group.
        size: number of processes that can be reached: of the group, or of the remote one.
        tag: of its messages.
        note: a number that messages carry beside their content, for receives to compare; 0: none.
        meets: whether all members make the same calls in the same order, so that they can meet in rounds.
    """

    __slots__ = ("_added", "_operation", "_route", "comm", "meets", "note", "rank", "size", "tag")

    def __init__(
        self, comm: Communicator, number: int, operation: str, note: int = 0, route: Route | None = None
    ) -> None:
        if route is None:
            route = comm.route
        self.comm = comm
        self._operation = operation
        self._route = route
        self.tag = number
        self._added = 0
        self.rank = route.rank
        self.size = route.size
        self.note = note
        self.meets = False

    @property
    def room(self) -> int:
        """Bytes that can be posted in a round."""
        return self.comm.room

    @property
    def local(self) -> Channel:
        """To the own group, which on an intracommunicator is the channel itself."""
        comm = self.comm
        if comm.remote is None:
            return self
        if comm.native:
            route = Route(comm, comm.group.members, offset=comm.remote.size)
            return Channel(comm, self.tag, self._operation, self.note, route)
        return self._like(LOCAL_GROUP_TAG, Route(comm, comm.group.members, self.rank))

    def bound(self, number: int) -> Channel:
        """The same for persistent collective number 0, 1, ..., over IMPI clients."""
        added = (1 + number % (self.comm.tag_ub // BOUND_TAGS - 1)) * BOUND_TAGS
        channel = self._like(self.tag + added, self._route)
        channel._added = added
        return channel

    def tagged(self, tag: int, *, point_to_point: bool = False) -> Channel:
        """The same with another tag.

        Args:
            tag: for its messages.
            point_to_point: whether they are in the context of point-to-point messages.
        """
        route = self._route
        if point_to_point:
            route = Route(self.comm, route.members, route.rank, route.offset, route.sources, point_to_point=True)
        return self._like(tag, route)

    def among(self, ranks: Sequence[int]) -> Channel:
        """For the members of this rank's IMPI client.

        Args:
            ranks: all of them, ascending; there they have ranks 0, 1, ....
        """
        members = [self._route.members[rank] for rank in ranks]
        return self._like(CLIENT_TAG, Route(self.comm, members, ranks.index(self.rank)))

    def _like(self, tag: int, route: Route) -> Channel:
        """A channel of the same call over IMPI clients."""
        channel = Channel(self.comm, tag + self._added, self._operation, self.note, route)
        channel._added = self._added
        return channel

    @classmethod
    def between_leaders(cls, comm: Communicator, tag: int, operation: str) -> Channel:
        """For two processes that communicate by themselves, and agree on a tag of their own (section 5.6.2).

        Between IMPI clients their messages are in the collective context, by the general rule of section 4.3 of
        IMPI 0.0, or with the setting `impi_leaders_collective` switched off in that of the user's messages.
        """
        if comm.native:
            return cls(comm, tag, operation, route=Route(comm, offset=_everyone(comm)))
        collective = comm.engine.settings.impi_leaders_collective
        return cls(comm, tag, operation).tagged(tag, point_to_point=not collective)

    @classmethod
    def within(cls, comm: Communicator, group: Group, tag: int, operation: str) -> Channel:
        """For a part of the members, who agree on a tag of their own; ranks are those in `group`.

        Over IMPI clients constructors run one after the other, so that their tags need not tell them apart.
        """
        if comm.native:
            return cls(comm, tag, operation, route=Route(comm, group.members, group.rank, 2 * _everyone(comm)))
        sources = group.Translate_ranks(None, comm.group)
        return cls(comm, PART_TAG, operation, route=Route(comm, group.members, group.rank, sources=sources))

    @property
    def where(self) -> str:
        """Which call this is, for messages."""
        return self.comm.where(self._operation)

    def isend(self, payload: Payload, nbytes: int, dest: int) -> Request[None]:
        """Start a send of `nbytes` in pieces to a rank."""
        route = self._route
        peer = route.engine.peer(route.members[dest])
        return peer.send(payload, nbytes, route.context_id, route.source, self.tag, Mode.STANDARD, self.note)

    def multicast(self, payload: Payload, nbytes: int, dests: Sequence[int]) -> list[Request[None]]:
        """Start sending the same `nbytes` in pieces to several ranks."""
        return [self.isend(payload, nbytes, dest) for dest in dests]

    def irecv(self, memory: memoryview | None, source: int) -> NotedReceive:
        """Start a receive from a rank; without memory the message is in `data` of the completed request."""
        route = self._route
        carried = source + route.offset if route.sources is None else route.sources[source]
        receive = NotedReceive(route.engine, route.matcher, memory, carried, self.tag, route.members[source])
        route.engine.receive(receive)
        return receive

    def alarm(self) -> MessageListener:
        """For messages of calls that nobody has asked for; see `alert`."""
        return MessageListener(self._route.engine, self._route.matcher, self.size)

    def alert(self, alarm: MessageListener, tell: Callable[[Message], object]) -> None:
        """Have somebody told of such a message of this call, until the alarm is unset."""
        alarm.set(self.tag, tell)


def _everyone(comm: Communicator) -> int:
    """Number of processes in both groups of a communicator: no rank reaches it."""
    return comm.size + (0 if comm.remote is None else comm.remote.size)
