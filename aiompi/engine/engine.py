"""The engine: the state of one rank. It holds contexts, peers, sends in progress and arriving messages.

Receives and probes are started in `aiompi.engine.receiving`, sends in `aiompi.engine.endpoint`. Failures are in
`aiompi.engine.failure`, waiting in `aiompi.core.progress`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Coroutine, Hashable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from aiompi.base.attached import ByClass
from aiompi.core import Request
from aiompi.engine.bsend import Attachment
from aiompi.engine.credit import NO_CREDIT
from aiompi.engine.endpoint import Endpoint
from aiompi.engine.environment import Environment
from aiompi.engine.failure import FailureHandler
from aiompi.engine.matching import Matcher, Sources
from aiompi.engine.message import Landing
from aiompi.engine.peer import Peer
from aiompi.engine.processes import FIRST_MET, Processes
from aiompi.engine.receiving import Receiving
from aiompi.engine.schedule import Schedule, settled
from aiompi.engine.seams import Driver
from aiompi.engine.send import Send
from aiompi.engine.single_copy import CopyQueue
from aiompi.engine.withheld import WithholdingEndpoint
from aiompi.errors import ProcessFailedError
from aiompi.settings import Settings

if TYPE_CHECKING:
    from aiompi.core._native import SlotExchange
    from aiompi.engine.gateway import Gateway
    from aiompi.engine.slices import HeldSend
    from aiompi.impi.universe import Universe

T = TypeVar("T")


class Engine(Receiving):
    """One rank.

    Args:
        rank: rank in the world.
        size: number of ranks in the world.
        settings: limits of the protocols.
        driver: how this rank waits.
        environment: interface to the job and its transports; by default the environment of a rank without a job.

    Attributes:
        universe: the IMPI clients of the job, None without IMPI.
        gateway: carries messages to ranks of other IMPI clients; None if this rank has a link of its own to every rank.
        processes: the processes that this rank knows.
        windows: eager window of each rank: the bytes of eager messages that the rank accepts from each other rank.
        shm_domains: by rank, a value that is equal for ranks that read each other's memory, None for a rank whose
            memory no other rank reads.
        contexts: the queues of receives and messages by context id.
        arriving: the landings of messages that this rank has asked for, by drqid.
        slot_exchanges: calls of slot collectives in which this rank waits for other ranks.
        spins, yields_core: how a blocking call waits, as told to the driver.
        copy_queue: messages that are being copied between memory of this rank and of peers.
        failure: fails operations whose peers are gone.
        survives: True if the job goes on when a rank fails.
        closing: True if this rank starts no operation any more.
        finished: True if this rank has also told its peers that it closes.
        parted: True if this rank has told its peers in other jobs that it is closing.
        unawaited: sends for which no call waits: buffered sends, and sends whose request was freed. This rank does not
            end before they are complete.
        held_sends: sends whose messages are still being encoded, and the sends that wait behind them.
        completed_send: one completed request that many sends return: sends whose message has already left, and sends to
            PROC_NULL.
        attachment: the buffer of the process for buffered sends.
        outside: objects that are no ranks and can complete operations of this rank, such as a thread that reads a file.
        attached: state of higher layers, such as the threads that wait for disks.
        farewell: how error messages describe a peer that has ended in good order.
        lenient: True if small standard sends to a finalized rank succeed and their messages are lost. Other
            implementations allow such sends too, because their finalized ranks stay until all ranks have finalized.
    """

    driver: Driver
    schedules: set[Schedule[Any]]
    sends: dict[int, Send]
    assisted: dict[int, Callable[[], bool]]

    def __init__(
        self, rank: int, size: int, settings: Settings, driver: Driver, environment: Environment | None = None
    ) -> None:
        super().__init__(rank, driver)
        self.environment = environment or Environment()
        self.settings = settings
        self.eager_limit = settings.eager_limit
        self.shm_eager_limit = settings.shm_eager_limit
        self.brief_limit = min(settings.eager_limit, settings.shm_eager_limit)
        self.tcp_eager_limit = max(settings.eager_limit, settings.tcp_eager_limit)
        self.contexts: dict[int, Matcher] = {}
        self.arriving: dict[int, Landing] = {}
        self.slot_exchanges: list[SlotExchange] = []
        self.spins = self.yields_core = False
        self.copy_queue = CopyQueue(driver)
        self.failure = FailureHandler(self)
        self.closing = self.finished = self.parted = self.lenient = self.survives = False
        self.farewell = "has finalized: it sends and receives nothing more"
        self.unawaited: set[Send] = set()
        self.held_sends: set[HeldSend] = set()
        self.attachment = Attachment(self)
        self.attached = ByClass()
        self.outside: set[object] = set()
        self.completed_send: Request[None] = Request(self)
        self.completed_send.complete()
        self.next_id = itertools.count(1).__next__
        self.join_world(rank, size)

    def join_world(self, rank: int, size: int, universe: Universe | None = None) -> None:
        """Take a place in the world, before any communication.

        Args:
            rank: rank in the world.
            size: number of ranks in the world.
            universe: the IMPI clients of the job, None without IMPI.
        """
        self.rank = rank
        self.size = size
        self.universe = universe
        self.gateway: Gateway | None = None
        self.windows = [self.settings.eager_window] * size
        self.shm_domains: list[Hashable] = [None] * size
        self.processes = Processes(self)
        self._peers: dict[int, Endpoint] = {}
        self.withholding: set[WithholdingEndpoint] = set()

    def peer(self, rank: int) -> Endpoint:
        """Return the endpoint of a process, which may be this one, by its number (see `Processes`).

        For a process that this rank has forgotten, the result is a new endpoint whose `error` is set.
        """
        peer = self._peers.get(rank)
        if peer is None:
            peer = self._make_peer(rank)
            if peer.error is None:
                self._peers[rank] = peer
        return peer

    def _make_peer(self, rank: int) -> Endpoint:
        if self.gateway is not None and rank < FIRST_MET and self.gateway.reaches(rank):
            return self.gateway.make_peer(rank)
        window = self.windows[rank] if rank < FIRST_MET else self.processes.cards.get(rank, {}).get("window", 0)
        peer = Peer(self, rank, window if self.error is None else NO_CREDIT)
        if not self.processes.knows(rank):
            peer.error = ProcessFailedError(f"{self.processes.label(rank)} cannot be reached")
            peer.check_sends()
        return peer

    def known_peer(self, rank: int) -> Endpoint | None:
        """Return the endpoint of a process, None if this rank has not communicated with it."""
        return self._peers.get(rank)

    def peers(self) -> list[Endpoint]:
        """Return the endpoints of the processes that this one has communicated with."""
        return [self._peers[rank] for rank in sorted(self._peers)]

    def look(self) -> None:
        """Find out which messages their receivers have copied.

        A call that is about to fail because a buffer is full calls this method first. A receiver may already have told
        another rank, through shared memory, that it has copied a message.
        """
        for peer in self.peers():
            peer.look()

    def forget(self, rank: int) -> Endpoint | None:
        """Remove and return the endpoint of a process to which no communicator refers; None if it has no endpoint."""
        peer = self._peers.pop(rank, None)
        if peer is not None:
            self.failure.drop(peer)
        return peer

    def shm_domain(self, rank: int) -> Hashable:
        """Return a value that is equal for processes that read each other's memory; None for private memory."""
        return self.shm_domains[rank] if rank < FIRST_MET else self.environment.home(self.processes.cards[rank])

    def share_memory(self, ranks: Iterable[int]) -> bool:
        """Return True if all these processes read each other's memory. All of them get the same result."""
        domains = {self.shm_domain(rank) for rank in ranks}
        return len(domains) == 1 and None not in domains

    def hosts(self, members: Iterable[int]) -> list[list[int]]:
        """Return, for each group of members that share memory, a list of their indices in `members`."""
        found: dict[Hashable, list[int]] = {}
        for rank, member in enumerate(members):
            domain = self.shm_domain(member)
            found.setdefault((rank,) if domain is None else domain, []).append(rank)
        return list(found.values())

    def undelivered(self) -> list[Send]:
        """Return the incomplete sends to other ranks. No other rank receives a send of this rank to itself."""
        return [send for send in {*self.sends.values(), *self.unawaited} if send.peer.rank != self.rank]

    def at_rest(self) -> bool:
        """Return True if no operation of this rank is in progress."""
        begun = self.schedules, self.sends, self.arriving, self.unawaited, self.held_sends, self.slot_exchanges
        waiting = any(next(matcher.posted(), None) or matcher.probes for matcher in self.contexts.values())
        return not any(begun) and not waiting

    async def encoded(self) -> None:
        """Wait until the messages of all sends so far have been encoded and handed to their peers."""
        await settled([send.encoding for send in self.held_sends if send.encoding is not None])

    def disown(self, request: Request[Any]) -> None:
        if isinstance(request, Send) and not request.done():
            self.unawaited.add(request)
            request.when_done(lambda _: self.unawaited.remove(request))
        super().disown(request)

    def matcher(self, context: int) -> Matcher:
        """Return the queues of a context. Messages may come before this rank knows the communicator."""
        matcher = self.contexts.get(context)
        if matcher is None:
            matcher = self.contexts[context] = Matcher(context)
        return matcher

    def open_context(self, context: int, sources: Mapping[int, int], *more: Sources) -> Matcher:
        """Open the queues of a context, for a communicator that this rank has made, and return them.

        If a message has already arrived with a source that does not belong to its sender, the connection to the sender
        breaks.

        Args:
            sources: by rank in the world, the source that the messages of each member carry.
            more: other sources that messages may carry.
        """
        matcher = self.matcher(context)
        matcher.open(sources, *more)
        for message in matcher.unexpected():
            peer = message.peer
            if isinstance(peer, Peer) and not matcher.admits(peer.rank, message.source):
                peer.refuse(message)
        return matcher

    def open_agreements(self, context: int, members: Iterable[int]) -> Matcher | None:
        """Return the queues for agreements of processes of several jobs; None if all members belong to this job."""
        in_order = sorted(members, key=self.processes.name)  # the same order at all members
        if not any(map(self.processes.is_stranger, in_order)):
            return None
        return self.open_context(context, {number: place for place, number in enumerate(in_order)})

    def spawn(self, coroutine: Coroutine[Any, None, T], owner: object = None) -> Schedule[T]:
        """Start a coroutine that awaits requests, and note its owner with it."""
        return Schedule(self, coroutine, owner)

    def close(self) -> None:
        """Start no operation any more.

        From now on this rank does not check for deadlocks, because a message of the agent, for example, can end its
        wait.
        """
        self.closing = True
        self.driver.set_deadlock_check(None)

    def finish(self) -> None:
        """Tell every peer, including peers that connect later, that this rank starts no operation any more."""
        self.close()
        self.finished = True
        self._tell_end()

    def part(self) -> None:
        """Tell the processes of other jobs that this rank starts no operation any more: no agent tells them."""
        self.close()
        self.parted = True
        self._tell_end()

    def ends_for(self, rank: int) -> bool:
        """Return True if a process has been told, or will be told, that this rank starts no operation any more."""
        return self.finished or (self.parted and self.processes.is_stranger(rank))

    def _tell_end(self) -> None:
        for peer in self.peers():
            if peer.rank != self.rank and self.ends_for(peer.rank):
                peer.fini()

    def fatal(self, error: BaseException) -> None:
        self.environment.fatal(error)

    def unfit(self, error: Exception) -> None:
        """Fail every operation, now and later: this rank can no longer communicate with its job.

        The cause lies within this process, such as a lack of descriptors.
        """
        if self.error is None:
            self.environment.unfit(error)
        self.failure.abort(error)
