"""The state of one rank: its contexts, its peers, what it sends and what is arriving."""

from __future__ import annotations

import contextlib
import itertools
from collections import deque
from collections.abc import Callable, Coroutine, Hashable, Iterable
from types import FrameType
from typing import TYPE_CHECKING, Any, Final, TypeVar

from aiompi.constants import ANY_SOURCE
from aiompi.engine.bsend import Attachment
from aiompi.engine.copies import Copies
from aiompi.engine.endpoint import Endpoint
from aiompi.engine.match import Matcher
from aiompi.engine.message import Landing, Message
from aiompi.engine.peer import Peer
from aiompi.engine.probe import Probe
from aiompi.engine.receive import Receive
from aiompi.engine.request import Request
from aiompi.engine.schedule import Schedule, Turn
from aiompi.engine.seams import Driver, Failable, Link, SlotProvider
from aiompi.engine.send import Send
from aiompi.engine.shm_sync import SlotExchange, SlotExchanges
from aiompi.errors import LocalProtocolError
from aiompi.settings import Settings

if TYPE_CHECKING:
    from aiompi.engine.gateway import Gateway
    from aiompi.impi.universe import Universe

T = TypeVar("T")

#: awaits of what is complete already, between which an event loop gets a turn. Each costs some microseconds, or the
#: copy of a message; without a turn a task that is served promptly would keep all else of its loop from running.
_AWAITS_PER_TURN: Final = 16

_PACKAGE: Final = __name__.partition(".")[0]


def _is_ours(frame: FrameType) -> bool:
    return str(frame.f_globals.get("__name__")).partition(".")[0] == _PACKAGE


class Engine:
    """One rank.

    Args:
        rank: in the world.
        size: ranks in the world.
        settings: limits of the protocols.
        driver: how this rank waits.

    Attributes:
        universe: which IMPI clients the world is made of, None without IMPI.
        gateway: the way to ranks of other clients, None where all ranks are reached by links of their own.
        windows: bytes of eager memory that each rank grants to each other.
        connect: makes the link to a peer when the first frame is sent to it; given by the runtime.
        slot_provider: makes slots that other ranks read, None if there is no shared memory.
        uncrowded: whether there is a core for each rank of this host.
        wake_callbacks: by rank, the wake-up callback for each peer that was recently asleep.
        homes: by rank, equal of those who read each other's memory; None: of those whose memory nobody reads.
        peer_lost: judges a connection that broke, by `peer.gone` or `peer.part`; given by the runtime.
        rounds: those in which this rank has posted, and others have not.
        copies: what is being copied between memory of this rank and of peers.
        assisting: by srqid, the parts among them that copy messages of this rank.
        stepping: whether a schedule is being stepped right now.
        schedules: the schedules that have not ended.
        ended: turns, schedules among them, whose waiters are being told that they have ended.
        error: set when the job is over; every operation then fails with it.
        closing: whether this rank starts no operation any more.
        finished: whether this rank has told its peers that it starts no operation any more.
        unattended: sends that complete without anybody who waits: buffered ones, and those whose request was freed;
            this rank does not end before them.
        departed: the request of every message that had left when its send returned, and of those to PROC_NULL.
        attachment: the buffer of the process for buffered sends.
        lenient: whether small messages in standard mode to ranks that have finalized are lost, as in implementations
            where such ranks stay until all have, instead of being errors.
        fatal: ends the job because of an error that no call can report; given by the runtime.
        troubled: whether that is so, or a peer has left or died: starting an operation then takes a closer look.
        failures: how many operations have failed so far.
    """

    def __init__(self, rank: int, size: int, settings: Settings, driver: Driver) -> None:
        self.settings = settings
        self.driver = driver
        self.eager_limit = settings.eager_limit
        self.shm_eager_limit = settings.shm_eager_limit
        self.contexts: dict[int, Matcher] = {}
        self.sends: dict[int, Send] = {}
        self.arriving: dict[int, Landing] = {}
        self.rounds = SlotExchanges(driver)
        self.copies = Copies(driver)
        self.assisting: dict[int, Callable[[], bool]] = {}
        self.schedules: set[Schedule[Any]] = set()
        self.ended: deque[Turn[Any]] = deque()
        self.stepping = False
        self._awaits = 0
        self.error: Exception | None = None
        self.failures = 0
        self.troubled = False
        self.closing = self.finished = self.lenient = False
        self.unattended: set[Send] = set()
        self._missed: list[Endpoint] = []  # who is gone and had not finalized
        self.attachment = Attachment(self)
        self._dropped: deque[Callable[[], object]] = deque()  # what undoes it
        self.departed: Request[None] = Request(self)  # of every message that has left at once
        self.departed.complete()
        self.fatal: Callable[[BaseException], object] = self._ignore
        self.next_id = itertools.count(1).__next__
        self.connect: Callable[[Endpoint], Link] = self._unconnected
        self.slot_provider: SlotProvider | None = None
        self.uncrowded = False
        self.wake_callbacks: dict[int, Callable[[], object]] = {}
        self.peer_lost: Callable[[Endpoint, str], object] = Endpoint.gone
        self.enrol(rank, size)

    def enrol(self, rank: int, size: int, universe: Universe | None = None) -> None:
        """Take a place in the world, before any communication.

        Args:
            rank: in the world.
            size: ranks in the world.
            universe: which IMPI clients the world is made of, None without IMPI.
        """
        self.rank = rank
        self.size = size
        self.universe = universe
        self.gateway: Gateway | None = None
        self.windows = [self.settings.eager_window] * size
        self.homes: list[Hashable] = [None] * size
        self._peers: list[Endpoint | None] = [None] * size

    def peer(self, rank: int) -> Endpoint:
        """Another rank of the world, or this one."""
        peer = self._peers[rank]
        if peer is None:
            gateway = self.gateway
            if gateway is not None and gateway.leads_to(rank):
                peer = gateway.peer(rank)
            else:
                peer = Peer(self, rank, self.windows[rank])
            self._peers[rank] = peer
        return peer

    def peers(self) -> list[Endpoint]:
        """The ranks that this one has had to do with."""
        return [peer for peer in self._peers if peer is not None]

    def share_memory(self, ranks: Iterable[int]) -> bool:
        """Whether all of these read each other's memory; every rank of the world knows the same."""
        homes = {self.homes[rank] for rank in ranks}
        return len(homes) == 1 and None not in homes

    def deserted(self) -> bool:
        """Whether all other ranks have left or died, and nothing that they had begun is still to come."""
        others = [peer for rank, peer in enumerate(self._peers) if rank != self.rank]
        begun: list[Landing | Send] = [*self.arriving.values(), *self.sends.values()]
        if any(operation.peer.rank != self.rank for operation in begun):
            return False
        return all(peer is not None and peer.deserted for peer in others)

    def turn_due(self) -> bool:
        """Whether a task that awaits what is complete already lets the event loop have a turn first."""
        if self.stepping or not self.driver.background:
            return False
        self._awaits += 1
        if self._awaits < _AWAITS_PER_TURN:
            return False
        self._awaits = 0
        return True

    def undelivered(self) -> list[Send]:
        """The sends that are not complete; without those to this rank itself, of which nobody else can receive any."""
        return [send for send in {*self.sends.values(), *self.unattended} if send.peer.rank != self.rank]

    def disown(self, request: Request[Any]) -> None:
        """Let a request complete by itself (MPI_Request_free); if it fails, nobody but the job can be told."""
        if request.done():
            self._check_disowned(request)
            return
        if isinstance(request, Send):
            self.unattended.add(request)
            request.when_done(lambda _: self.unattended.remove(request))
        request.when_done(self._check_disowned)

    def _check_disowned(self, request: Request[Any]) -> None:
        error = request.untold_error()
        if error is not None and self.error is None:
            self.fatal(error)

    def _ignore(self, error: BaseException) -> None:
        """An engine without a job has nobody to tell."""

    def matcher(self, context: int) -> Matcher:
        """The queues of a context; messages may come before this rank knows the communicator."""
        matcher = self.contexts.get(context)
        if matcher is None:
            matcher = self.contexts[context] = Matcher(context)
        return matcher

    def spawn(self, coroutine: Coroutine[Any, None, T], owner: object = None) -> Schedule[T]:
        """Start a coroutine of requests, for somebody who is to find it among the schedules."""
        return Schedule(self, coroutine, owner)

    async def settled(self, requests: Iterable[Request[Any]]) -> None:
        """Wait until requests are complete, however they end."""
        for request in list(requests):
            with contextlib.suppress(Exception):
                await request

    def refuse_nested(self) -> None:
        """Refuse a call of the user if it is made by a function that a schedule has called.

        Raises:
            LocalProtocolError: it is.
        """
        if self.stepping:
            raise LocalProtocolError(
                f"rank {self.rank}: a function that is called in the midst of an operation, such as that of a "
                "reduction, must not communicate (section 4.9.4); let it compute only"
            )

    def drop(self, undo: Callable[[], object], where: FrameType | None = None) -> None:
        """Undo something that nobody refers to any more; for finalizers.

        Garbage is collected in any thread, and in the midst of everything. So it is undone at once only where that is
        the program's own doing; otherwise before the next receive or probe, or in the next turn.

        Args:
            where: what the finalizer has interrupted, if it may be undone at once.
        """
        if where is not None and self.driver.in_own_thread and not _is_ours(where):
            undo()
            return
        self._dropped.append(undo)
        self.driver.call_soon_threadsafe(self._clear_up)

    def _clear_up(self) -> None:
        while self._dropped:
            self._dropped.popleft()()

    def receive(self, receive: Receive) -> None:
        """Start a receive: match it with an unexpected message, or post it."""
        if self._dropped:
            self._clear_up()
        if self.error is not None:
            receive.fail(self.error)
            return
        matcher = receive.matcher
        try:
            if matcher.arrivals:
                message = matcher.find_unexpected(receive.want_source, receive.want_tag)
                if message is not None:
                    message.peer.match(message, receive)
                    return
            if self.troubled:
                error = self._hopeless(receive.peer_rank, receive.matcher)
                if error is not None:
                    receive.fail(error)
                    return
            matcher.post(receive)
        except BaseException:
            # Nobody else has it, so nothing may come into its memory any more.
            if not receive.cancel() and receive.landing is not None:
                receive.withdraw()
            raise

    def convene(self, current: SlotExchange) -> None:
        """Wait for the others of a round, if they can still come."""
        error = None
        if self.troubled:
            error = next(filter(None, map(self._hopeless, current.absent())), None)
        if error is None:
            self.rounds.add(current)
        else:
            current.fail(error)

    def receive_matched(self, message: Message, receive: Receive) -> None:
        """Start to receive a message that a probe has taken."""
        if self.error is not None:
            receive.fail(self.error)
        elif (loss := message.loss) is not None:
            receive.fail(loss)
        else:
            message.peer.deliver(message, receive)

    def probe(self, probe: Probe) -> None:
        """Start a probe."""
        if self._dropped:
            self._clear_up()
        message = probe.matcher.find_unexpected(probe.want_source, probe.want_tag)
        error = self._hopeless(probe.peer_rank, probe.matcher)
        if message is not None:
            if probe.takes:
                message.extract()
            probe.found(message)
        elif error is not None:
            probe.fail(error)
        else:
            probe.matcher.probes.append(probe)

    def iprobe(self, matcher: Matcher, source: int, tag: int, peer_rank: int) -> Message | None:
        """The message that a receive would get now (MPI_Iprobe, section 3.8).

        Raises:
            ProcessFailedError: there is none, and none can come.
        """
        if self._dropped:
            self._clear_up()
        message = matcher.find_unexpected(source, tag)
        if message is not None:
            return message
        error = self._hopeless(peer_rank, matcher)
        if error is not None:
            raise error
        return None

    def _hopeless(self, rank: int, matcher: Matcher | None = None) -> Exception | None:
        if self.error is not None:
            return self.error
        if rank == ANY_SOURCE:
            return None if matcher is None else self._miss(matcher)
        peer = self._peers[rank]
        if peer is None:
            return None
        return peer.error or peer.farewell

    def _miss(self, matcher: Matcher) -> Exception | None:
        """Why a receive from anybody might wait without end: the message for it may be that of a peer that is gone."""
        missed = (peer for peer in self._missed if peer.farewell is None and peer.rank in matcher.sources)
        return next((peer.error for peer in missed), None)

    def expect_nothing(self, peer: Endpoint, error: Exception) -> None:
        """Fail what waits for a peer that starts no operation any more."""
        self._trouble()
        self._dismiss(peer, [send for send in self._unanswered(peer) if not send.recalling], error)

    def give_up(self, peer: Endpoint, error: Exception) -> None:
        """Fail what waits for a peer that will not answer."""
        self._trouble()
        if peer.farewell is None:
            self._missed.append(peer)
        doomed = peer.abandon()
        for matcher in self.contexts.values():
            for message in matcher.unexpected():
                if message.peer is peer and message.data is None:
                    matcher.remove_unexpected(message)
        self._dismiss(peer, [*doomed, *self._unanswered(peer)], error)

    def _trouble(self) -> None:
        self.troubled = True
        if not self.closing:
            self.driver.set_deadlock_check(self.deserted)

    def _unanswered(self, peer: Endpoint) -> list[Send]:
        return [request for request in self.sends.values() if request.peer is peer]

    def _dismiss(self, peer: Endpoint, doomed: list[Failable], error: Exception) -> None:
        """Fail some operations with a peer, and all receives, probes and rounds that wait for it.

        Those from anybody wait for it as well, unless it has finalized: the message that they want may be its.
        """
        missed = peer.error is not None and peer.farewell is None
        self.rounds.poll()
        for current in self.rounds:
            if peer.rank in current.absent():
                self.rounds.remove(current)
                doomed = [*doomed, current]
        for matcher in self.contexts.values():
            doomed = [*doomed, *matcher.dismiss(peer.rank, missed)]
        for request in doomed:
            if isinstance(request, Send):
                self.sends.pop(request.srqid, None)
        self._fail(doomed, error)

    def close(self) -> None:
        """Start no operation any more: what this rank waits for from now on does not come from other ranks alone."""
        self.closing = True
        self.driver.set_deadlock_check(None)

    def finish(self) -> None:
        """Tell every peer, also one that connects later, that this rank starts no operation any more."""
        self.close()
        self.finished = True
        for peer in self.peers():
            if peer.rank != self.rank:
                peer.fini()

    def abort(self, error: Exception) -> None:
        """End all communication: every request fails with the error, now and later."""
        if self.error is not None:
            return
        self.error = error
        self.troubled = True
        doomed: list[Failable] = [*self.sends.values(), *self.rounds]
        self.rounds.clear()
        for peer in self.peers():
            doomed += peer.abandon()
        for matcher in self.contexts.values():
            doomed += matcher.dismiss()
        self.sends.clear()
        self.arriving.clear()
        self._fail(doomed, error)

    def inherit(self, error: Exception) -> None:
        """The same in the copy of a fork, which leaves alone what its parent copies meanwhile."""
        for peer in self.peers():
            for landing in peer.landings:
                landing.offer = None
        self.abort(error)

    def _fail(self, doomed: Iterable[Failable], error: Exception) -> None:
        """Tell those that nothing refers to any more; schedules among those that wait may start new operations."""
        for request in doomed:
            request.fail(error)

    def _unconnected(self, peer: Endpoint) -> Link:
        raise LocalProtocolError(f"rank {self.rank} has no way to rank {peer.rank}: it is not initialised")
