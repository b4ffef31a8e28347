"""`Matcher`: matches messages and receives of one context (sections 3.2.4 and 3.5), and keeps the probes that wait."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import TYPE_CHECKING, TypeAlias

from aiompi.constants import ANY_SOURCE, ANY_TAG
from aiompi.core import MatchQueues

if TYPE_CHECKING:
    from aiompi.engine.message import Message
    from aiompi.engine.peer import Peer
    from aiompi.engine.probe import Probe
    from aiompi.engine.receive import Receive

#: an offset, and a mapping: rank of the world -> the source number in its messages, minus the offset
Sources: TypeAlias = tuple[int, Mapping[int, int]]


class Matcher(MatchQueues["Receive", "Message"]):
    """Posted receives, unexpected messages and waiting probes of one context.

    Attributes:
        context: id of the context.
        opener: the peer whose message opened the context before this rank had made the communicator.
        acknowledged: ranks of the world whose failure does not end receives from any source.
    """

    __slots__ = ("_more_sources", "acknowledged", "context", "opener")

    probes: list[Probe]

    def __init__(self, context: int) -> None:
        super().__init__()
        self.context = context
        self._more_sources: tuple[Sources, ...] = ()
        self.opener: Peer | None = None
        self.acknowledged: set[int] = set()

    def open(self, sources: Mapping[int, int], *more: Sources) -> None:
        """Record that this rank has made the communicator, and which source numbers its members' messages may carry."""
        self.sources = sources
        self._more_sources = more
        if self.opener is not None:
            self.opener.contexts_opened -= 1
            self.opener = None

    def admits(self, rank: int, source: int) -> bool:
        """Return True if messages of a rank of the world may carry this source number."""
        if not self.sources:
            return source >= 0  # the rest is checked once there is a communicator
        if self.sources.get(rank) == source:
            return True
        return any(rank in ranks and ranks[rank] + added == source for added, ranks in self._more_sources)

    def find(self, source: int, tag: int) -> Message | None:
        """Return the message of `find_unexpected`; if it finds none, the first early message of this source and tag."""
        message = self.find_unexpected(source, tag) if self.arrivals else None
        if message is not None or not self.early or tag == ANY_TAG:
            return message
        if source != ANY_SOURCE:
            return next(iter(self.early.get((source, tag), ())), None)
        return next((found[0] for (_, of_tag), found in self.early.items() if of_tag == tag), None)

    def unexpected(self) -> Iterator[Message]:
        """Iterate over all unexpected messages, early ones last; the caller may remove them meanwhile."""
        return chain(super().unexpected(), [message for found in self.early.values() for message in found])

    def add_unexpected(self, message: Message) -> None:
        """Append to the queue a message for which no receive is posted, and notify the probes that wait for it."""
        if message.early:
            self.early.setdefault((message.source, message.tag), []).append(message)
        else:
            self.keep(message)
        if self.probes:
            self.announce(message)

    def remove(self, message: Message) -> None:
        """Remove an unexpected message, which may be early."""
        if not message.early:
            self.remove_unexpected(message)
            return
        key = (message.source, message.tag)
        found = self.early[key]
        found.remove(message)
        if not found:
            del self.early[key]

    def holds_early(self, message: Message) -> bool:
        """Return True if an early message is still in the queue of unexpected messages."""
        return message in self.early.get((message.source, message.tag), ())

    def take_tagged(self, source: int, tag: int) -> Receive | None:
        """Take the first posted receive that matches an early message; a receive with ANY_TAG never matches one."""
        posted = filter(None, (self.first_posted(source, tag), self.first_posted(ANY_SOURCE, tag)))
        receive = min(posted, key=lambda receive: receive.order, default=None)
        if receive is not None:
            self.withdraw(receive)
            receive.resume()
        return receive

    def waits_for(self, rank: int, tag: int) -> bool:
        """Return True if a receive or a probe whose tag equals `tag` waits for a rank; ANY_TAG equals only itself."""
        sources = {ANY_SOURCE, *self._sources_of(rank)}
        return any(self.first_posted(source, tag) is not None for source in sources) or any(
            probe.want_tag == tag and probe.want_source in sources for probe in self.probes
        )

    def knows(self, rank: int) -> bool:
        """Return True if a rank of the world may send messages in this context."""
        return bool(self._sources_of(rank))

    def _sources_of(self, rank: int) -> list[int]:
        found = [ranks[rank] + added for added, ranks in self._more_sources if rank in ranks]
        if rank in self.sources:
            found.append(self.sources[rank])
        return found

    def put_back(self, message: Message) -> None:
        """Give a message of a withdrawn receive to the next matching receive, or make it unexpected again."""
        if message.early:
            receive = self.take_tagged(message.source, message.tag)
            self.early.setdefault((message.source, message.tag), []).insert(0, message)
        else:
            receive = self.take_posted(message.source, message.tag)
            self.restore(message)
        if receive is not None:
            message.peer.match(message, receive)
        else:
            self.announce(message)

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
        """Withdraw and return the receives and probes that wait for one rank (None: all). The caller fails them.

        Args:
            any_source: True to withdraw also receives and probes of any source that could match a message of that rank.
                Receives that `stay` are kept.
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
