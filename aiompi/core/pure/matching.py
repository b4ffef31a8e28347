"""Matching: finds the receive for a message and the message for a receive (sections 3.2.4 and 3.5).

Receives are hashed by (source, tag), wildcards included; messages are hashed by their (source, tag). Receives and
messages are numbered in the order in which they came. An incoming message can match receives under at most four keys;
of these receives, the first posted wins. A receive that is the only one is not hashed. A receive without wildcards
looks up one key. A receive with wildcards goes through the messages in order of arrival.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from typing import Any, Generic, TypeVar

from aiompi.constants import ANY_SOURCE, ANY_TAG
from aiompi.core.pure.receive import PostedReceive


class MessageBase:
    """A message that has arrived, or was announced, before a receive for it was posted.

    Args:
        peer: the sender.
        matcher: the queues of its context.
        source, tag: envelope; the source is a rank of the communicator.
        length: bytes of the message.
        srqid: the sender's id for the message. The receiver sends this id to ask for a long message, or to acknowledge
            a synchronous one.
        rts: True if the message was announced, and the receiver must ask for it.
        sync: True if the receiver acknowledges the match.

    Attributes:
        order: its position among the unexpected messages.
        note: a number that the sender has sent to the receive, 0 if none.
        asked: True if this rank has asked for the announcement.
        early: True if the sender has sent an earlier message in this context, but has not announced that message yet.
        offer: the sender's memory from which a long message can be copied; None if the receiver must ask for it.
        data: payload of a complete eager message; None if this rank had no memory for it.
        landing: where the payload of an eager message is arriving.
        eager: bytes of credit to be returned when it is consumed.
    """

    __slots__ = (
        "asked", "data", "eager", "early", "landing", "length", "matcher", "note", "offer", "order", "peer", "rts",
        "source", "srqid", "sync", "tag",
    )  # fmt: skip

    def __init__(
        self, peer: Any, matcher: Any, source: int, tag: int, length: int, srqid: int, *, rts: bool, sync: bool
    ) -> None:
        self.peer = peer
        self.matcher = matcher
        self.source = source
        self.tag = tag
        self.order = 0
        self.length = length
        self.srqid = srqid
        self.rts = rts
        self.sync = sync
        self.asked = self.early = False
        self.note = 0
        self.eager = 0
        self.data: memoryview | None = None
        self.landing: Any = None
        self.offer: Any = None


R = TypeVar("R", bound=PostedReceive)
M = TypeVar("M", bound=MessageBase)


class MatchQueues(Generic[R, M]):
    """The posted receives and the unexpected messages of one context.

    Attributes:
        sources: world rank -> the source rank that its messages carry; empty until there is a communicator.
        probes: the waiting probes.
        error: why this context receives nothing any more; None as long as it receives.
        early: (source, tag) -> the early messages: unexpected messages that receives of this tag already match, but
            receives of ANY_TAG not yet (see `aiompi.engine.withheld`).
    """

    __slots__ = (
        "_arrivals", "_disordered", "_only", "_order", "_posted", "_unexpected", "_wildcards", "early", "error",
        "probes", "sources",
    )  # fmt: skip

    def __init__(self) -> None:
        self._only: R | None = None
        # A receive that is alone under its key, the usual case, needs no queue. Queues are by order.
        self._posted: dict[tuple[int, int], R | OrderedDict[int, R]] = {}
        self._wildcards = 0
        self._unexpected: dict[tuple[int, int], OrderedDict[int, M]] = {}
        self._arrivals: OrderedDict[int, M] = OrderedDict()
        self._disordered: dict[int, OrderedDict[int, M]] = {}  # queues of messages to be sorted, by their id()
        self._order = 0
        self.sources: Mapping[int, int] = {}
        self.early: dict[tuple[int, int], list[M]] = {}
        self.probes: list[Any] = []
        self.error: Exception | None = None

    @property
    def arrivals(self) -> int:
        """Number of unexpected messages."""
        return len(self._arrivals)

    def post(self, receive: R) -> None:
        """Post a receive."""
        self._order = receive.order = self._order + 1
        if self._only is not None:
            self._enter(self._only)
        elif not self._posted:
            self._only = receive
            return
        self._enter(receive)

    def _enter(self, receive: R) -> None:
        source, tag = receive.want_source, receive.want_tag
        if source == ANY_SOURCE or tag == ANY_TAG:
            self._wildcards += 1
        self._only = None  # no call before the next line: in a call a signal handler could raise
        posted = self._posted.setdefault((source, tag), receive)
        if posted is not receive:
            if not isinstance(posted, OrderedDict):
                self._posted[source, tag] = posted = OrderedDict({posted.order: posted})
            posted[receive.order] = receive

    def take_posted(self, source: int, tag: int) -> R | None:
        """Take the first posted receive that matches an incoming message; return None if no receive matches.

        The receive is no longer posted afterwards, and its `order` becomes the arrival number of the message.
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
        """Return the key of the first posted receive that matches a message, with or without wildcards."""
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

    def first_posted(self, source: int, tag: int) -> R | None:
        """Return the first posted receive with exactly this source and tag (or wildcards); None if none is posted."""
        only = self._only
        if only is not None:
            return only if (only.want_source, only.want_tag) == (source, tag) else None
        posted = self._posted.get((source, tag))
        return next(iter(posted.values())) if isinstance(posted, OrderedDict) else posted

    def withdraw(self, receive: R) -> bool:
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

    def posted(self) -> Iterator[R]:
        """Iterate over all posted receives; the caller may withdraw them during the iteration."""
        if self._only is not None:
            return iter([self._only])
        if not self._posted:
            return iter(())
        found = self._posted.values()
        return iter([r for each in found for r in (each.values() if isinstance(each, OrderedDict) else (each,))])

    def unexpected(self) -> Iterator[M]:
        """Iterate over all unexpected messages in order of arrival; the caller may remove them during the iteration."""
        if self._disordered:
            self._sort()
        return iter(list(self._arrivals.values()))

    def keep(self, message: M) -> None:
        """Append to the queue of unexpected messages a message for which no receive is posted."""
        self._order += 1
        message.order = self._order
        key = (message.source, message.tag)
        place = self._unexpected.get(key)
        if place is None:
            place = self._unexpected[key] = OrderedDict()
        place[message.order] = self._arrivals[message.order] = message

    def restore(self, message: M) -> None:
        """Put a matched message back in its place, so that no later message of its sender is ahead of it."""
        order = message.order
        place = self._unexpected.setdefault((message.source, message.tag), OrderedDict())
        for queue in (place, self._arrivals):
            if queue and next(reversed(queue)) > order:
                queue[order] = message
                if next(iter(queue)) > order:
                    queue.move_to_end(order, last=False)
                else:
                    # Sorted only at the next look-up, because thousands of receives may be withdrawn at once.
                    self._disordered[id(queue)] = queue
            else:
                queue[order] = message

    def _sort(self) -> None:
        queues = list(self._disordered.values())
        for queue in queues:
            for order in sorted(queue):
                queue.move_to_end(order)
        self._disordered.clear()

    def find_unexpected(self, source: int, tag: int) -> M | None:
        """Return the message that a receive with these arguments would match now (section 3.8), or None."""
        if self._disordered:
            self._sort()
        if source != ANY_SOURCE and tag != ANY_TAG:
            place = self._unexpected.get((source, tag))
            return next(iter(place.values())) if place else None
        for message in self._arrivals.values():
            if source in (ANY_SOURCE, message.source) and tag in (ANY_TAG, message.tag):
                return message
        return None

    def remove_unexpected(self, message: M) -> None:
        """Remove a message that has been matched, or recalled by its sender."""
        key = (message.source, message.tag)
        place = self._unexpected[key]
        del place[message.order]
        if not place:
            del self._unexpected[key]
        del self._arrivals[message.order]
