"""Matching: which message meets which receive (sections 3.2.4 and 3.5).

A `Matcher` holds the posted receives and the unexpected messages of one context. Receives are hashed by (source, tag)
with their wildcards as given, messages by their (source, tag). Both carry the order in which they came. For an incoming
message the at most four keys under which a receive can be are looked up, and the receive that was posted first wins. A
receive that is the only one is not hashed. A receive without wildcards looks up one key. A receive with wildcards goes
through the messages in order of arrival.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, TypeAlias

from aiompi.constants import ANY_SOURCE, ANY_TAG

if TYPE_CHECKING:
    from aiompi.engine.message import Message
    from aiompi.engine.peer import Peer
    from aiompi.engine.probe import Probe
    from aiompi.engine.receive import Receive

#: a number, and by ranks of the world the sources that messages of these ranks carry when the number is subtracted
Sources: TypeAlias = tuple[int, Mapping[int, int]]


class Matcher:
    """Posted receives, unexpected messages and waiting probes of one context.

    Attributes:
        context: its id.
        arrivals: the unexpected messages by their order.
        probes: the waiting probes.
        sources: by rank of the world, the source of its messages; empty until there is a communicator.
        opener: the peer whose message came before there was a communicator.
        acknowledged: ranks of the world whose failure does not end receives from any source.
        error: why nothing can be received in this context any more, None if it can.
    """

    __slots__ = (
        "_disordered", "_more_sources", "_only", "_order", "_posted", "_unexpected", "_wildcards", "acknowledged",
        "arrivals", "context", "error", "opener", "probes", "sources"
    )  # fmt: skip

    def __init__(self, context: int) -> None:
        self.context = context
        self._only: Receive | None = None
        # A receive that is alone under its key, the usual case, needs no queue. Queues are by order.
        self._posted: dict[tuple[int, int], Receive | OrderedDict[int, Receive]] = {}
        self._wildcards = 0
        self._unexpected: dict[tuple[int, int], OrderedDict[int, Message]] = {}
        self.arrivals: OrderedDict[int, Message] = OrderedDict()
        self._disordered: dict[int, OrderedDict[int, Message]] = {}  # queues of messages to be sorted, by their id()
        self._order = 0
        self.probes: list[Probe] = []
        self.sources: Mapping[int, int] = {}
        self._more_sources: tuple[Sources, ...] = ()
        self.opener: Peer | None = None
        self.acknowledged: set[int] = set()
        self.error: Exception | None = None

    def open(self, sources: Mapping[int, int], *more: Sources) -> None:
        """Note that there is a communicator, and which sources the messages of its members may carry."""
        self.sources = sources
        self._more_sources = more
        if self.opener is not None:
            self.opener.contexts_opened -= 1
            self.opener = None

    def admits(self, rank: int, source: int) -> bool:
        """Return True if messages of a rank of the world may carry this source."""
        if not self.sources:
            return source >= 0  # the rest is checked once there is a communicator
        if self.sources.get(rank) == source:
            return True
        return any(rank in ranks and ranks[rank] + added == source for added, ranks in self._more_sources)

    def post(self, receive: Receive) -> None:
        """Post a receive."""
        self._order = receive.order = self._order + 1
        if self._only is not None:
            self._enter(self._only)
        elif not self._posted:
            self._only = receive
            return
        self._enter(receive)

    def _enter(self, receive: Receive) -> None:
        source, tag = receive.want_source, receive.want_tag
        if source == ANY_SOURCE or tag == ANY_TAG:
            self._wildcards += 1
        self._only = None  # no call between this and the next line, in which a signal handler could raise
        posted = self._posted.setdefault((source, tag), receive)
        if posted is not receive:
            if not isinstance(posted, OrderedDict):
                self._posted[source, tag] = posted = OrderedDict({posted.order: posted})
            posted[receive.order] = receive

    def take_posted(self, source: int, tag: int) -> Receive | None:
        """Take the first posted receive that matches an incoming message; None if there is none.

        It is no longer posted, and its `order` is the order of the message from now on.
        """
        only = self._only
        if only is not None:
            wanted = only.want_source
            if wanted != source and wanted != ANY_SOURCE:
                return None
            wanted = only.want_tag
            if wanted != tag and wanted != ANY_TAG:
                return None
            if only._done:
                only.resume()
            self._only = None
            self._order = only.order = self._order + 1
            return only
        key = self._first_posted(source, tag) if self._wildcards else (source, tag)
        posted = self._posted.get(key)
        if posted is None:
            return None
        if isinstance(posted, OrderedDict):
            _, receive = posted.popitem(last=False)
            if not posted:
                del self._posted[key]
        else:
            receive = posted
            del self._posted[key]
        if key[0] == ANY_SOURCE or key[1] == ANY_TAG:
            self._wildcards -= 1
        if receive._done:
            receive.resume()
        self._order = receive.order = self._order + 1
        return receive

    def _first_posted(self, source: int, tag: int) -> tuple[int, int]:
        """Return the key of the receive that the message gets, when some receives have wildcards."""
        if len(self._posted) == 1:  # as with many receives that have the same arguments
            (only,) = self._posted
            fits = only[0] in (source, ANY_SOURCE) and only[1] in (tag, ANY_TAG)
            return only if fits else (source, tag)
        first, order = (source, tag), 0
        for key in ((source, tag), (source, ANY_TAG), (ANY_SOURCE, tag), (ANY_SOURCE, ANY_TAG)):
            posted = self._posted.get(key)
            if posted is None:
                continue
            receive = next(iter(posted.values())) if isinstance(posted, OrderedDict) else posted
            if not order or receive.order < order:
                first, order = key, receive.order
        return first

    def withdraw(self, receive: Receive) -> bool:
        """Withdraw a posted receive; return False if it has been matched."""
        if self._only is receive:
            self._only = None
            return True
        key = (receive.want_source, receive.want_tag)
        posted = self._posted.get(key)
        if isinstance(posted, OrderedDict) and posted.get(receive.order) is receive:
            del posted[receive.order]
            if not posted:
                del self._posted[key]
        elif posted is receive:
            del self._posted[key]
        else:
            return False
        if key[0] == ANY_SOURCE or key[1] == ANY_TAG:
            self._wildcards -= 1
        return True

    def posted(self) -> Iterator[Receive]:
        """Iterate over all posted receives; the caller may withdraw them meanwhile."""
        if self._only is not None:
            return iter([self._only])
        if not self._posted:
            return iter(())
        found = self._posted.values()
        return iter([r for each in found for r in (each.values() if isinstance(each, OrderedDict) else (each,))])

    def unexpected(self) -> Iterator[Message]:
        """Iterate over all unexpected messages in order of arrival; the caller may remove them meanwhile."""
        if self._disordered:
            self._sort()
        return iter(list(self.arrivals.values()))

    def add_unexpected(self, message: Message) -> None:
        """Keep a message for which no receive is posted, behind all others."""
        self._order += 1
        message.order = self._order
        key = (message.source, message.tag)
        place = self._unexpected.get(key)
        if place is None:
            place = self._unexpected[key] = OrderedDict()
        place[message.order] = self.arrivals[message.order] = message
        if self.probes:
            self.announce(message)

    def restore(self, message: Message) -> None:
        """Put a message back where it was before it was matched, so that no later one of its sender is ahead of it."""
        order = message.order
        place = self._unexpected.setdefault((message.source, message.tag), OrderedDict())
        for queue in (place, self.arrivals):
            if queue and next(reversed(queue)) > order:
                queue[order] = message
                if next(iter(queue)) > order:
                    queue.move_to_end(order, last=False)
                else:
                    # Sorted at the next look-up: thousands of receives may be withdrawn at once, and each comes here.
                    self._disordered[id(queue)] = queue
            else:
                queue[order] = message

    def _sort(self) -> None:
        queues = list(self._disordered.values())
        for queue in queues:
            for order in sorted(queue):
                queue.move_to_end(order)
        self._disordered.clear()

    def put_back(self, message: Message) -> None:
        """Give a message whose receive was withdrawn to the next receive, or make it unexpected again."""
        receive = self.take_posted(message.source, message.tag)
        self.restore(message)
        if receive is not None:
            message.peer.match(message, receive)
        else:
            self.announce(message)

    def find_unexpected(self, source: int, tag: int) -> Message | None:
        """Return the message that a receive with these arguments would get now (section 3.8); None if there is none."""
        if self._disordered:
            self._sort()
        if source != ANY_SOURCE and tag != ANY_TAG:
            place = self._unexpected.get((source, tag))
            return next(iter(place.values())) if place else None
        for message in self.arrivals.values():
            if source in (ANY_SOURCE, message.source) and tag in (ANY_TAG, message.tag):
                return message
        return None

    def remove_unexpected(self, message: Message) -> None:
        """Remove a message that has been matched, or recalled by its sender."""
        key = (message.source, message.tag)
        place = self._unexpected[key]
        del place[message.order]
        if not place:
            del self._unexpected[key]
        del self.arrivals[message.order]

    def announce(self, message: Message) -> None:
        """Complete the probes that wait for an unexpected message."""
        found = []
        for probe in self.probes:
            if probe.matches(message):
                found.append(probe)
                if probe.takes:
                    message.extract()
                    break
        self.probes = [probe for probe in self.probes if probe not in found]
        for probe in found:
            probe.found(message)

    def withdraw_all(self, rank: int | None = None, any_source: bool = False) -> list[Receive | Probe]:
        """Withdraw all receives and probes, or those of one rank of the world, and return them for the caller to fail.

        Args:
            any_source: True to withdraw also those of any source that could get a message of that rank, without those
                that stay.
        """
        ranks = {rank, ANY_SOURCE} if any_source and rank in self.sources else {rank}
        receives = [
            receive
            for receive in self.posted()
            if rank is None or (receive.peer_rank in ranks and not (receive.stays and receive.peer_rank == ANY_SOURCE))
        ]
        for receive in receives:
            self.withdraw(receive)
        probes = [probe for probe in self.probes if rank is None or probe.peer_rank in ranks]
        self.probes = [probe for probe in self.probes if probe not in probes]
        return [*receives, *probes]
