"""Communicators: a group and a context of its own (sections 5.2 and 5.4)."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Coroutine, Generator, Iterator
from operator import index
from typing import Any, Final, SupportsIndex, TypeAlias, TypeVar

from aiompi.base.arguments import integer
from aiompi.comm.attribute import COMMUNICATOR_KEYVALS, Attributes
from aiompi.comm.channel import EXTENSION_TAG, Channel, Route, run_after
from aiompi.comm.contexts import AGREEMENTS, ContextIds
from aiompi.comm.conversion import NATIVE_FORM, Conversion
from aiompi.comm.errhandler import ERRORS_RETURN, Errhandler
from aiompi.comm.group import Group
from aiompi.comm.placement import Placement
from aiompi.comm.session import SessionState
from aiompi.constants import (
    ANY_SOURCE,
    ANY_TAG,
    CONGRUENT,
    CONTEXT_SELF,
    CONTEXT_WORLD,
    IDENT,
    PROC_NULL,
    TAG_UB,
    UNEQUAL,
)
from aiompi.core import CommunicatorBase, Span
from aiompi.core.mode import SENDS
from aiompi.engine import (
    Engine,
    Message,
    Mode,
    PersistentRequest,
    Receive,
    Request,
    Scattered,
    ScatteredReceive,
    Schedule,
)  # fmt: skip
from aiompi.engine.bsend import AttachedBuffer, Attachment, BufferedSend, send_in_steps
from aiompi.engine.endpoint import Endpoint
from aiompi.engine.matching import Matcher
from aiompi.engine.probe import MatchedProbe, Probe
from aiompi.engine.receive import Decode
from aiompi.engine.scattered import MatchedReceive, MatchedScatteredReceive
from aiompi.engine.send import Send
from aiompi.engine.slices import SendQueue
from aiompi.errors import InvalidBufferError, InvalidCommError, InvalidRankError, InvalidRootError, InvalidTagError
from aiompi.status import Status, check_status
from aiompi.wire.frame import Payload

T = TypeVar("T")
#: type of a rank or a tag in a call of the program
Integer: TypeAlias = SupportsIndex

_STANDARD: Final = Mode.STANDARD
_BUFFERED: Final = Mode.BUFFERED


class Communicator(CommunicatorBase[Receive]):
    """The communicator behind every face: it checks and starts point-to-point operations, and starts collectives.

    Args:
        engine: of this rank.
        group: the members; this rank must be one.
        context_id: context of point-to-point traffic; collectives use the next one (IMPI 0.0, section 4.3).
        name: for error messages and MPI_Comm_get_name; may be empty.
        remote: remote group of an intercommunicator; ranks of sends and receives refer to it (section 5.6).
        ids: context identifiers of this process, for communicators made from this one.

    Attributes:
        rank: rank of this process in the group.
        size: size of the group.
        targets: numbers of the processes (see `aiompi.engine.processes`), by the ranks that sends and receives name.
        native: True if no message passes through IMPI hosts. Otherwise the communicator spans clients, and chapter 4
            of IMPI 0.0 defines what its collectives send.
        shares_memory: True if all members can read shared memory of each other.
        hosts, spans_hosts: ranks by host (`Engine.hosts`); True if there are several hosts, one of them with several
            ranks.
        tag_ub: largest tag of a message, the same on all communicators.
        conversion: data representation of the user's buffers in messages.
        attachment: buffer for buffered sends on this communicator; if none is attached, the session's buffer is used.
        session: session, or World Model, from which the communicator comes; None if there is none.
        attributes: values that the program caches on the communicator (section 5.7).
        errhandler: handler called when a call fails (section 7.2).
        topology: arrangement of the processes, if there is one (chapter 6).
        route: route of the collectives.
        shm_sync: how its collectives use slots.
        slots: the slots of its members, once they have some, for calls with common arguments.
        hints: hints of the program, by key (MPI_Comm_set_info, MPI-3).
        matcher: queues of its point-to-point messages.
        collectives: number of collectives that have been started.
        is_revoked: True if a rank has revoked it (Comm.Revoke).
        agreements: number of the next agreement on it (aiompi.comm.recovery).
        agreeing: queues of agreements, if several jobs share the communicator; otherwise None.
    """

    __slots__ = (
        "collectives", "freed", "_latest", "_met", "_placement", "_refusal", "agreeing", "agreements", "attachment",
        "attributes", "conversion", "errhandler", "group", "hints", "hosts", "ids", "is_revoked", "shm_sync", "name",
        "native", "remote", "route", "session", "shares_memory", "size", "slots", "spans_hosts", "topology",
    )  # fmt: skip

    _receive_class = Receive
    _send_class = Send

    engine: Engine
    matcher: Matcher

    def __init__(
        self,
        engine: Engine,
        group: Group,
        context_id: int,
        name: str,
        remote: Group | None = None,
        ids: ContextIds | None = None,
    ) -> None:
        self.engine, self.context_id, self.name = engine, context_id, name
        self.group, self.remote, self.rank, self.size = group, remote, group.rank, group.size
        self.ids = ids or ContextIds()
        self.targets = group.members if remote is None else remote.members
        self.route = Route(self)
        self._reach = len(self.targets)
        self._met = engine.processes.retain(self.everybody())
        self._peers: list[Endpoint | SendQueue | None] = [None] * self._reach
        self.collectives = self.agreements = 0
        self._latest: Request[Any] | None = None
        self._placement: Placement | None = None
        self.native = engine.universe is None or self.placement.native
        self.matcher = self._open_contexts()
        self.agreeing = engine.open_agreements(AGREEMENTS | context_id, self.everybody()) if self._met else None
        self.hosts = engine.hosts(self.targets) if remote is None and self.native else []
        self.shares_memory = len(self.hosts) == 1 and engine.share_memory(self.targets[:1])
        self.spans_hosts = 1 < len(self.hosts) < self.size
        self.freed = self.is_revoked = False
        self._refusal: Exception | None = None  # why no collective can start any more
        self.tag_ub = TAG_UB if engine.universe is None else engine.universe.tagub
        self.conversion = self._conversion()
        self.attachment = Attachment(engine)
        self.session: SessionState | None = None
        self.attributes = Attributes(COMMUNICATOR_KEYVALS)
        self.errhandler: Errhandler = ERRORS_RETURN
        self.topology: Any = None
        self.shm_sync: Any = None
        self.slots: Any = None
        self.hints: dict[str, str] = {}
        if self.native:
            engine.failure.watch(self)

    def _open_contexts(self) -> Matcher:
        """Tell the engine the sources that messages of members may carry; `Channel` defines them for collectives."""
        own, other = self.group.index, (self.remote or self.group).index
        both = self.size + (remote_size := 0 if self.remote is None else self.remote.size)
        more = [(remote_size, own), (both, other), (2 * both, own)] if self.native else [(0, own)]
        self.engine.open_context(self.context_id + 1, other, *more)
        return self.engine.open_context(self.context_id, other)

    def everybody(self) -> list[int]:
        """Return the processes of both groups."""
        return [*self.group.members, *(() if self.remote is None else self.remote.members)]

    def _conversion(self) -> Conversion:
        return NATIVE_FORM

    def _start_send(self, payload: Payload, nbytes: int, dest: Integer, tag: Integer, mode: Mode) -> Request[None]:
        if type(dest) is not int or type(tag) is not int:
            dest, tag = self._integers("dest", dest, tag)
        if not 0 <= tag <= self.tag_ub:
            raise InvalidTagError(f"{self.label}, rank {self.rank}: tag {tag} of a send is not in 0..{self.tag_ub}")
        if 0 <= dest < self._reach:
            peer = self._peers[dest] or self._peer(dest)
            if mode is _BUFFERED:
                return self._ibsend(peer, payload, nbytes, tag)
            return peer.send(payload, nbytes, self.context_id, self.rank, tag, mode)
        if dest != PROC_NULL or self.freed or self.is_revoked:
            raise self._bad_rank("destination", dest)
        return self.engine.completed_send

    def isend_encoded(
        self, steps: Generator[None, None, tuple[Payload, int]], dest: Integer, tag: Integer, mode: Mode = _STANDARD
    ) -> Request[None]:
        """Start a send whose message is still to be made; later sends to the same rank wait for it.

        Args:
            steps: makes the memory of the message in pieces, and returns it with the total length.
            dest, tag, mode: see `send`. In buffered mode the send is complete when the message is in the buffer.
        """
        if mode is _BUFFERED:
            buffered = send_in_steps(
                self.engine, self._buffer(), steps, lambda steps: self.isend_encoded(steps, dest, tag)
            )
            buffered.describe(SENDS[mode], self, index(dest), index(tag))
            return buffered
        dest, tag = self._integers("dest", dest, tag)
        peer = self.reached(dest)
        if peer is None:
            return self.isend((), 0, dest, tag, mode)
        queue = self._peers[dest]
        if not isinstance(queue, SendQueue):
            queue = self._peers[dest] = SendQueue(peer, functools.partial(self._peers.__setitem__, dest, peer))
        queue.expect(steps)
        try:
            return self.isend((), 0, dest, tag, mode)
        finally:
            queue.expect(None)

    def _ibsend(self, peer: Endpoint | SendQueue, payload: Payload, nbytes: int, tag: int) -> BufferedSend:
        """Send a copy, made in the attached buffer."""
        buffer = self._buffer()
        copy, start = buffer.copy(payload, nbytes)
        send = peer.send((copy,), nbytes, self.context_id, self.rank, tag)
        buffer.hold(send, start)
        if send.done() and (error := send.exception()) is not None:
            raise error
        self.engine.disown(send)
        return BufferedSend(self.engine, send)

    def _buffer(self) -> AttachedBuffer:
        """Return the buffer attached to the communicator, or else to its session or the process."""
        session = self.session
        buffer = self.attachment.buffer or (self.engine if session is None else session).attachment.buffer
        if buffer is None:
            needs = "needs an attached buffer with room for each message and BSEND_OVERHEAD more"
            raise InvalidBufferError(f"{self.label}, rank {self.rank}: a buffered send {needs}")
        return buffer

    def send_init(
        self, message: Callable[[], tuple[Payload, int]], dest: Integer, tag: Integer, mode: Mode
    ) -> PersistentRequest[None]:
        """Bind the arguments of a send (section 3.9).

        Args:
            message: function called at each start; it returns the memory in pieces, and their total length.
            dest, tag, mode: see `isend`.

        Raises:
            InvalidRankError, InvalidTagError: an argument is out of range.
        """
        dest, tag = self._integers("dest", dest, tag)
        if not 0 <= tag <= self.tag_ub:
            raise InvalidTagError(f"{self.label}, rank {self.rank}: tag {tag} of a send is not in 0..{self.tag_ub}")
        if dest != PROC_NULL and not 0 <= dest < self._reach:
            raise self._bad_rank("destination", dest)
        request = PersistentRequest(self.engine, lambda: self.isend(*message(), dest, tag, mode), lambda: None)
        request.describe(f"persistent {SENDS[mode]}", self, dest, tag)
        return request

    def recv_init(self, memory: memoryview | Scattered, source: Integer, tag: Integer) -> PersistentRequest[Status]:
        """Bind the arguments of a receive (section 3.9); see `irecv`."""
        source, tag = self._integers("source", source, tag)
        self._peer_rank(source, tag)
        request = PersistentRequest(self.engine, lambda: self.irecv(memory, source, tag), Status)
        request.describe("persistent recv from", self, source, tag)
        return request

    def _start_receive(
        self,
        memory: memoryview | Scattered | None,
        source: Integer,
        tag: Integer,
        decode: Decode | None,
        status: Status | None,
    ) -> Receive:
        if type(source) is not int or type(tag) is not int:
            source, tag = self._integers("source", source, tag)
        peer_rank = self._peer_rank(source, tag)
        if status is not None:
            check_status(status)
        if memory is None or isinstance(memory, (Span, memoryview)):
            receive = Receive(self.engine, self.matcher, memory, source, tag, peer_rank, decode, status)
        else:
            receive = ScatteredReceive(self.engine, self.matcher, memory, source, tag, peer_rank, status)
        receive.describe("recv from", self, source, tag)
        if source == PROC_NULL:
            receive.source = PROC_NULL
            receive.complete()
        else:
            self.engine.receive(receive)
        return receive

    def recv_arrived(self, source: Any, tag: Any, decode: Decode, status: Status | None) -> Request[Any] | None:
        """Receive the object of an arrived message, in half the time of `irecv`; None if `irecv` must be called."""
        usual = type(source) is int and type(tag) is int and (status is None or isinstance(status, Status))
        if not (usual and self._reach and ANY_SOURCE <= source < self._reach and ANY_TAG <= tag <= self.tag_ub):
            return None
        receive = self.engine.receive_arrived(self.matcher, source, tag, decode, status)
        if receive is not None:
            receive.describe("recv from", self, source, tag)
        return receive

    def mprobe(self, source: Integer, tag: Integer, wrap: Callable[[Message | None], T]) -> Request[T]:
        """Start waiting for a message, and extract it for `imrecv` (MPI_Mprobe, MPI-3).

        Args:
            wrap: function that makes the result from the message; its argument is None for PROC_NULL.
        """
        source, tag = self._integers("source", source, tag)
        probe = MatchedProbe(self.engine, self.matcher, source, tag, self._peer_rank(source, tag), wrap)
        probe.describe("mprobe of", self, source, tag)
        if source == PROC_NULL:
            probe.complete(wrap(None))
        else:
            self.engine.probe(probe)
        return probe

    def improbe(self, source: Integer, tag: Integer) -> tuple[bool, Message | None]:
        """Extract the message that a receive would match now (MPI_Improbe, MPI-3).

        Returns:
            (flag, message): flag is True if there is one; message is None for PROC_NULL.
        """
        source, tag = self._integers("source", source, tag)
        peer_rank = self._peer_rank(source, tag)
        if source == PROC_NULL:
            return True, None
        message = self.engine.iprobe(self.matcher, source, tag, peer_rank)
        if message is not None:
            message.extract()
        return message is not None, message

    def envelope(self, message: Message | None) -> Status:
        """Return the status of a message that a probe has extracted; None is the message from PROC_NULL."""
        return Status.of(source=PROC_NULL) if message is None else message.envelope()

    def imrecv(
        self,
        message: Message | None,
        memory: memoryview | Scattered | None,
        decode: Decode | None = None,
        status: Status | None = None,
        keep: Callable[[Message], object] = Message.put_back,
    ) -> Receive:
        """Start receiving a message that a probe has extracted (MPI_Imrecv, MPI-3).

        Args:
            message: is received once; None is the message from PROC_NULL.
            memory, decode, status: see `irecv`.
            keep: function that takes the message back when the receive is withdrawn.
        """
        if message is None:
            return self.irecv(memory, PROC_NULL, ANY_TAG, decode, status)
        envelope = message.source, message.tag, message.peer.rank
        if status is not None:
            check_status(status)
        receive: MatchedReceive | MatchedScatteredReceive
        if memory is None or isinstance(memory, (Span, memoryview)):
            receive = MatchedReceive(self.engine, self.matcher, memory, *envelope, decode, status)
        else:
            receive = MatchedScatteredReceive(self.engine, self.matcher, memory, *envelope, status)
        receive.keep = keep
        receive.describe("mrecv from", self, message.source, message.tag)
        self.engine.receive_matched(message, receive)
        return receive

    def probe(self, source: Integer, tag: Integer) -> Request[Status]:
        """Start waiting for a message without receiving it (section 3.8)."""
        source, tag = self._integers("source", source, tag)
        probe = Probe(self.engine, self.matcher, source, tag, self._peer_rank(source, tag))
        probe.describe("probe of", self, source, tag)
        if source == PROC_NULL:
            probe.complete(Status.of(source=PROC_NULL))
        else:
            self.engine.probe(probe)
        return probe

    def iprobe(self, source: Integer, tag: Integer) -> Status | None:
        """Return the envelope of the message that a receive would get now, or None (section 3.8)."""
        source, tag = self._integers("source", source, tag)
        peer_rank = self._peer_rank(source, tag)
        if source == PROC_NULL:
            return Status.of(source=PROC_NULL)
        message = self.engine.iprobe(self.matcher, source, tag, peer_rank)
        return None if message is None else message.envelope()

    def _peer_rank(self, source: int, tag: int) -> int:
        """Check the source and tag of a receive; return the process number of the source, or ANY_SOURCE."""
        if not 0 <= tag <= self.tag_ub and tag != ANY_TAG:
            raise InvalidTagError(f"{self.label}, rank {self.rank}: tag {tag} of a receive is not in 0..{self.tag_ub}")
        if 0 <= source < self._reach:
            return self.targets[source]
        if source in (ANY_SOURCE, PROC_NULL) and not self.freed and not self.is_revoked:
            return ANY_SOURCE
        raise self._bad_rank("source", source)

    def _integers(self, role: str, rank: Integer, tag: Integer) -> tuple[int, int]:
        """Return a rank and a tag as ints. The program may pass other integers, such as NumPy's."""
        try:
            return index(rank), index(tag)
        except TypeError:
            wrong = {name: given for name, given in ((role, rank), ("tag", tag)) if not hasattr(given, "__index__")}
            given = ", ".join(f"{name} is {value!r}" for name, value in wrong.items())
            raise TypeError(f"{self.label}, rank {self.rank}: {given}: expected an integer") from None

    def _bad_rank(self, role: str, rank: int) -> Exception:
        if (self.freed or self.is_revoked) and self._refusal is not None:
            return self._refusal
        ranks = "the ranks of this communicator" if self.remote is None else "the ranks of the remote group"
        return InvalidRankError(
            f"{self.label}, rank {self.rank}: {role} {rank} is not in 0..{self._reach - 1}, {ranks}"
        )

    def _gone(self) -> InvalidCommError:
        """Return the error of a persistent request that is started after the communicator was freed."""
        return InvalidCommError(f"{self.label}, rank {self.rank}: the communicator has been freed")

    def _peer(self, rank: int) -> Endpoint:
        peer = self._peers[rank] = self.engine.peer(self.targets[rank])
        return peer

    def reached(self, rank: Integer) -> Endpoint | None:
        """Return the endpoint of a rank; None for PROC_NULL and for invalid ranks."""
        number = index(rank) if hasattr(rank, "__index__") else PROC_NULL
        peer = self._peers[number] or self._peer(number) if 0 <= number < self._reach else None
        return peer.peer if isinstance(peer, SendQueue) else peer

    @property
    def label(self) -> str:
        """Name of the communicator in error messages."""
        return self.name or f"communicator {self.context_id}"

    def checked_root(self, root: Integer, operation: str) -> int:
        """Return the root of a collective as an int. The program may pass another integer, such as NumPy's.

        Raises:
            InvalidRootError, TypeError: root is not a rank of this communicator, or not an integer.
        """
        if type(root) is int and 0 <= root < self.size:
            return root  # the usual case, without making the text of a message
        if not 0 <= (number := integer(root, f"{self.where(operation)}: root")) < self.size:
            raise InvalidRootError(f"{self.where(operation)}: root {root} is not in 0..{self.size - 1}")
        return number

    def where(self, operation: str) -> str:
        """Return the operation, the communicator and this rank, for error messages."""
        return f"{operation} on {self.label}, rank {self.rank}"

    @property
    def placement(self) -> Placement:
        """The IMPI clients and hosts of the members, followed by those of the remote group."""
        if self._placement is None:
            remote = () if self.remote is None else self.remote.members
            self._placement = Placement.of(self.engine.universe, (*self.group.members, *remote))
        return self._placement

    def channel(self, operation: str, note: int = 0) -> Channel:
        """Return the channel of the next collective.

        Args:
            operation: name of the collective, for error messages.
            note: number that its messages carry beside their content.

        Raises:
            InvalidCommError: the communicator has been freed.
            ProcessFailedError, RevokedError: a member has failed, or the communicator is revoked.
        """
        if self._refusal is not None:
            raise self._refusal
        if not self.native:
            return Channel(self, EXTENSION_TAG, operation, note)
        number = self.collectives
        self.collectives = (number + 1) % TAG_UB
        channel = Channel(self, number, operation, note)
        channel.ordered = self.shares_memory
        return channel

    def bound_channel(self, operation: str, note: int = 0) -> Channel:
        """Return the channel for all runs of a persistent collective; see `channel`."""
        channel = self.channel(operation, note)
        channel.ordered = False
        if self.native:
            return channel
        self.collectives += 1
        return channel.bound(self.collectives - 1)

    def start(self, algorithm: Callable[[Channel], Coroutine[Any, None, T]], operation: str) -> Schedule[T]:
        """Start the next collective of this communicator, on a channel of its own.

        Args:
            algorithm: function that makes the coroutine, which communicates through the channel only.
            operation: name of the collective, for error messages.
        """
        return self.start_on(self.channel(operation), algorithm)

    def start_on(self, channel: Channel, algorithm: Callable[[Channel], Coroutine[Any, None, T]]) -> Schedule[T]:
        """Start a collective on the channel that was just made for it.

        On a communicator that spans clients, a collective begins when the previous one has ended at this rank, because
        the tags of chapter 4 of IMPI 0.0 do not distinguish one call from the next.
        """
        if self.native:
            return Schedule(self.engine, algorithm(channel), self, channel.operation)
        before = self._latest
        if before is None or before.done():
            schedule = self.run(algorithm(channel), channel.operation)
        else:
            schedule = self.run(run_after(before, Request(self.engine), channel, algorithm), channel.operation)
        self._latest = None if schedule.done() else schedule
        return schedule

    def run(self, coroutine: Coroutine[Any, None, T], call: str = "") -> Schedule[T]:
        """Start a coroutine that communicates through channels of this communicator, and keep the communicator alive.

        Raises:
            InvalidCommError: the communicator has been freed.
            JobAbortedError: the job has ended.
        """
        error = self._refusal if self.freed else self.engine.error
        if error is not None:
            coroutine.close()
            raise error
        return Schedule(self.engine, coroutine, self, call)

    def compare(self, other: Communicator) -> int:
        """IDENT, CONGRUENT, SIMILAR or UNEQUAL (MPI_Comm_compare, sections 5.4.1 and 5.6.1)."""
        if self is other:
            return IDENT
        if self.remote is None or other.remote is None:
            alike = self.group.Compare(other.group) if self.remote is other.remote else UNEQUAL
        else:
            alike = max(self.group.Compare(other.group), self.remote.Compare(other.remote))
        return CONGRUENT if alike == IDENT else alike

    @property
    def predefined(self) -> bool:
        """True for COMM_WORLD and COMM_SELF, which live as long as the process."""
        return self.context_id in (CONTEXT_WORLD, CONTEXT_SELF)

    def release(self, refusal: Exception | None = None) -> None:
        """Refuse new operations, by default as freed; drop the contexts after pending operations (MPI_Comm_free)."""
        self.freed, self._reach, self.slots, self._refusal = True, 0, None, refusal or self._gone()
        self.engine.failure.forget(self)
        self._retire()

    # Failures (aiompi.engine.seams.Community).

    def has(self, rank: int) -> bool:
        return rank in self.group.index or (self.remote is not None and rank in self.remote.index)

    def member_failed(self, error: Exception) -> None:
        if self._refusal is None:
            self.slots, self._refusal = None, error
            self.engine.failure.end_context(self.context_id + 1, error)

    def ended(self, error: Exception) -> None:
        self.slots, self._refusal = None, error

    def revoked(self, error: Exception, source: int) -> None:
        if not self.is_revoked and not self.freed:
            self.is_revoked, self._reach, self.slots, self._refusal = True, 0, None, error
            if self.agreeing is not None:  # before a failing operation frees the communicator and forgets its members
                self.engine.failure.spread_revocation(self.context_id, self._met, source)
            for context in (self.context_id, self.context_id + 1):
                self.engine.failure.end_context(context, error)

    def _retire(self, _: object = None) -> None:
        pending = next(self.pending(), None)
        if pending is not None:
            pending.when_done(self._retire)
            return
        for context_id in (self.context_id, self.context_id + 1, AGREEMENTS | self.context_id):
            matcher = self.engine.contexts.get(context_id)
            if matcher is not None and not matcher.arrivals and not matcher.early:
                del self.engine.contexts[context_id]
        self.engine.processes.release(self._met)

    def pending(self) -> Iterator[Request[Any]]:
        """Yield the operations that still use the queues of the contexts, or processes of other jobs."""
        engine, matchers = self.engine, (self.matcher, self.route.matcher)
        yield from (schedule for schedule in engine.schedules if schedule.owner is self)
        for matcher in matchers:
            yield from matcher.posted()
            yield from matcher.probes
        for send in itertools.chain(engine.sends.values(), engine.held_sends):
            if send.context in (self.context_id, self.context_id + 1) and not send.done():
                yield send
        for peer in filter(None, map(engine.known_peer, self._met)):
            targets = (landing.target for landing in peer.landings)
            yield from (target for target in targets if isinstance(target, Receive) and target.matcher in matchers)

    def __repr__(self) -> str:
        remote = "" if self.remote is None else f", remote group of {self.remote.size}"
        return f"<{self.label}: rank {self.rank} of {self.size}{remote}>"
