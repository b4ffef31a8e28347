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
        self._posted: dict[tuple[int, int], deque[Receive]] = {}
        self._wildcards = 0
        self._unexpected: dict[tuple[int, int], deque[Message]] = {}
        self._arrivals: OrderedDict[int, Message] = OrderedDict()
        self._order = 0
        self.probes: list[Probe] = []

    def post(self, receive: Receive) -> None:
        """Wait for a message."""
        key = (receive.want_source, receive.want_tag)
        if key[0] == ANY_SOURCE or key[1] == ANY_TAG:
            self._wildcards += 1
        self._order += 1
        receive.order = self._order
        bucket = self._posted.get(key)
        if bucket is None:
            self._posted[key] = deque((receive,))
        else:
            bucket.append(receive)

    def take_posted(self, source: int, tag: int) -> Receive | None:
        """The first posted receive that matches an incoming message.

        It is no longer posted, and its order is from now on the one of the message.
        """
        key = (source, tag)
        bucket = self._posted.get(key)
        if self._wildcards:
            for wild in ((source, ANY_TAG), (ANY_SOURCE, tag), (ANY_SOURCE, ANY_TAG)):
                other = self._posted.get(wild)
                if other is not None and (bucket is None or other[0].order < bucket[0].order):
                    key, bucket = wild, other
        if bucket is None:
            return None
        receive = bucket.popleft()
        if not bucket:
            del self._posted[key]
        if self._wildcards and (key[0] == ANY_SOURCE or key[1] == ANY_TAG):
            self._wildcards -= 1
        self._order += 1
        receive.order = self._order
        return receive

    def withdraw(self, receive: Receive) -> bool:
        """Take back a posted receive; False when it has been matched."""
        key = (receive.want_source, receive.want_tag)
        bucket = self._posted.get(key)
        if bucket is None or receive not in bucket:
            return False
        bucket.remove(receive)
        if not bucket:
            del self._posted[key]
        if key[0] == ANY_SOURCE or key[1] == ANY_TAG:
            self._wildcards -= 1
        return True

    def posted(self) -> Iterator[Receive]:
        """All posted receives; the caller may withdraw them meanwhile."""
        return iter([receive for bucket in self._posted.values() for receive in bucket])

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
