"""Matching: which message meets which receive (sections 3.2.4 and 3.5).

Per context, posted receives are hashed by (source, tag) with their wildcards as given, unexpected messages by their
(source, tag); both carry the order in which they came. An incoming message looks into the at most four places
where a receive for it can be, and the one posted first wins. A receive without wildcards looks into one place;
one with wildcards goes through the messages in order of arrival.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterator
from typing import TYPE_CHECKING

from aiompi.constants import ANY_SOURCE, ANY_TAG

if TYPE_CHECKING:
    from aiompi.engine.message import Message
    from aiompi.engine.pt2pt import Probe, Receive


class Matcher:
    """Posted receives, unexpected messages and waiting probes of one context."""

    __slots__ = ("_arrivals", "_order", "_posted", "_unexpected", "_wildcards", "probes")

    def __init__(self) -> None:
        # A receive alone in its place needs no queue, which is the usual case.
        self._posted: dict[tuple[int, int], Receive | deque[Receive]] = {}
        self._wildcards = 0
        self._unexpected: dict[tuple[int, int], deque[Message]] = {}
        self._arrivals: OrderedDict[int, Message] = OrderedDict()
        self._order = 0
        self.probes: list[Probe] = []

    def post(self, receive: Receive) -> None:
        """Wait for a message."""
        source, tag = receive.want_source, receive.want_tag
        if source == ANY_SOURCE or tag == ANY_TAG:
            self._wildcards += 1
        self._order = receive.order = self._order + 1
        posted = self._posted.setdefault((source, tag), receive)
        if posted is not receive:
            if isinstance(posted, deque):
                posted.append(receive)
            else:
                self._posted[source, tag] = deque((posted, receive))

    def take_posted(self, source: int, tag: int) -> Receive | None:
        """The first posted receive that matches an incoming message.

        It is no longer posted, and its order is from now on the one of the message.
        """
        key = self._first_posted(source, tag) if self._wildcards else (source, tag)
        posted = self._posted.pop(key, None)
        if posted is None:
            return None
        if isinstance(posted, deque):
            receive = posted.popleft()
            if posted:
                self._posted[key] = posted
        else:
            receive = posted
        self._order = receive.order = self._order + 1
        return receive

    def _first_posted(self, source: int, tag: int) -> tuple[int, int]:
        """Where the receive is posted that the message gets, when some have wildcards."""
        first, order = (source, tag), 0
        for key in ((source, tag), (source, ANY_TAG), (ANY_SOURCE, tag), (ANY_SOURCE, ANY_TAG)):
            posted = self._posted.get(key)
            if posted is None:
                continue
            receive = posted[0] if isinstance(posted, deque) else posted
            if not order or receive.order < order:
                first, order = key, receive.order
        if first[0] == ANY_SOURCE or first[1] == ANY_TAG:
            self._wildcards -= 1
        return first

    def withdraw(self, receive: Receive) -> bool:
        """Take back a posted receive; False when it has been matched."""
        key = (receive.want_source, receive.want_tag)
        posted = self._posted.get(key)
        if isinstance(posted, deque) and receive in posted:
            posted.remove(receive)
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
        """All posted receives; the caller may withdraw them meanwhile."""
        places = self._posted.values()
        return iter([r for place in places for r in (place if isinstance(place, deque) else (place,))])

    def unexpected(self) -> Iterator[Message]:
        """All unexpected messages in order of arrival; the caller may remove them meanwhile."""
        return iter(list(self._arrivals.values()))

    def add_unexpected(self, message: Message) -> None:
        """Keep a message for which no receive is posted, behind all others."""
        self._order += 1
        message.order = self._order
        key = (message.source, message.tag)
        bucket = self._unexpected.get(key)
        if bucket is None:
            self._unexpected[key] = deque((message,))
        else:
            bucket.append(message)
        self._arrivals[message.order] = message
        if self.probes:
            self.announce(message)

    def restore(self, message: Message) -> None:
        """Put a message back to where it was before it was matched: no later one of its sender is ahead of it."""
        bucket = self._unexpected.setdefault((message.source, message.tag), deque())
        index = next((i for i, other in enumerate(bucket) if other.order > message.order), len(bucket))
        bucket.insert(index, message)
        self._arrivals[message.order] = message
        self._arrivals = OrderedDict(sorted(self._arrivals.items()))

    def find_unexpected(self, source: int, tag: int) -> Message | None:
        """The message that a receive with these arguments would get now (section 3.8)."""
        if not self._arrivals:
            return None
        if source != ANY_SOURCE and tag != ANY_TAG:
            bucket = self._unexpected.get((source, tag))
            return bucket[0] if bucket else None
        for message in self._arrivals.values():
            if source in (ANY_SOURCE, message.source) and tag in (ANY_TAG, message.tag):
                return message
        return None

    def remove_unexpected(self, message: Message) -> None:
        """The message has been matched, or recalled by its sender."""
        key = (message.source, message.tag)
        bucket = self._unexpected[key]
        if bucket[0] is message:
            bucket.popleft()
        else:
            bucket.remove(message)
        if not bucket:
            del self._unexpected[key]
        del self._arrivals[message.order]

    def announce(self, message: Message) -> None:
        """Complete the probes that wait for an unexpected message."""
        found = [probe for probe in self.probes if probe.matches(message)]
        self.probes = [probe for probe in self.probes if probe not in found]
        for probe in found:
            probe.complete(message.envelope())

    def dismiss(self, rank: int | None = None) -> list[Receive | Probe]:
        """Take back what waits for a rank of the world, or for anything; the caller fails it."""
        receives = [receive for receive in self.posted() if rank in (None, receive.peer_rank)]
        for receive in receives:
            self.withdraw(receive)
        probes = [probe for probe in self.probes if rank in (None, probe.peer_rank)]
        self.probes = [probe for probe in self.probes if probe not in probes]
        return [*receives, *probes]
