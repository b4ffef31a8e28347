"""Partitioned communication (chapter 4 of MPI-4.1): each part of a message is sent, and can be used, separately.

The partitions of a communicator have a context of their own. When a rank binds the arguments of a send, it sends an
announcement to the receiver: the number and the length of the partitions, and the tags of their messages. The receiver
matches the announcements with its own calls by source and tag, in the order of these calls. So both sides match when
they bind their arguments. Each partition of the sender is then one message, which the receiver takes straight into its
place.
"""

from __future__ import annotations

import functools
import struct
from typing import Any, Final, TypeVar

from aiompi.base.arguments import integer
from aiompi.comm.communicator import Communicator
from aiompi.comm.contexts import PARTITIONS
from aiompi.constants import PROC_NULL, TAG_UB
from aiompi.core.allocation import allocate
from aiompi.core.pure.recorder import ARRIVAL, PART, PRECV, PSEND, READY
from aiompi.datatype import Buffer, resolve_recv, resolve_send
from aiompi.datatype.buffer.buffer import AbsoluteBuffer
from aiompi.engine import PersistentRequest, Receive, Request
from aiompi.engine.matching import Matcher
from aiompi.errors import (
    InvalidArgumentError,
    InvalidBufferError,
    InvalidCountError,
    InvalidRequestError,
    InvalidTagError,
    OtherError,
    RemoteProtocolError,
    TruncationError,
)
from aiompi.status import Status

T_co = TypeVar("T_co", covariant=True)

#: announcement of a send: number of partitions, bytes of each, tag of the message of the first
_ANNOUNCEMENT: Final = struct.Struct("<QQI")
#: a sender may announce this many partitions even if the receiver has memory for fewer bytes; the receiver takes the
#: messages of all of them
_MOST: Final = 2**16


class PartitionedContext:
    """The context of the partitions of a communicator at one rank, made at its first use.

    Messages with partitions carry the rank of their sender plus an offset. So the tags of partitions do not collide
    with the tags of announcements, which the program chooses.

    Attributes:
        context_id, matcher: of the messages.
    """

    __slots__ = ("_free_tags", "comm", "context_id", "matcher")

    def __init__(self, comm: Communicator) -> None:
        self.comm = comm
        self.context_id = PARTITIONS | comm.context_id
        others = comm.group if comm.remote is None else comm.remote
        sources = others.index
        self.matcher: Matcher = comm.engine.open_context(self.context_id, sources, (others.size, sources))
        self._free_tags: dict[int, int] = {}  # by destination

    @classmethod
    def of(cls, comm: Communicator) -> PartitionedContext:
        """Return the context of a communicator.

        Raises:
            NotImplementedError: the communicator spans IMPI clients.
        """
        if not comm.native:
            raise NotImplementedError(f"{comm.label}: aiompi has no partitioned communication between IMPI clients")
        return comm.attached.of(cls) or comm.attached.put(cls(comm))

    def announce(self, dest: int, tag: int, partitions: int, nbytes: int) -> int:
        """Announce a send to its receiver; return the tag of the first partition.

        If the receiver is gone, the sends of the partitions fail.

        Raises:
            OtherError: all tags have been used.
        """
        first = self._free_tags.get(dest, 0)
        if first + partitions > TAG_UB:
            raise OtherError(
                f"{self.comm.where('Psend_init')}: {first} partitions have been bound to rank {dest}, and more than "
                f"{TAG_UB} cannot be told apart: bind persistent requests once, or duplicate the communicator"
            )
        self._free_tags[dest] = first + partitions
        message = _ANNOUNCEMENT.pack(partitions, nbytes, first)
        self._send(memoryview(message), dest, self.comm.rank, tag)
        return first

    def expect(self, source: int, tag: int) -> Receive:
        """Start to receive the announcement of a send."""
        return self._receive(None, source, source, tag)

    def refuse(self, source: int, wrong: RemoteProtocolError) -> None:
        """End the connection to a rank that has broken the protocol."""
        peer: Any = self.comm.engine.peer(self.comm.targets[source])
        peer.break_off(str(wrong))

    def send(self, memory: memoryview, dest: int, tag: int, run: int) -> Request[None]:
        """Start to send a partition; its record has the tag of the run."""
        process = self.comm.targets[dest]
        handle = self.record(READY, process, run, len(memory))
        return self._recorded(handle, memory, process, self.comm.rank + self.comm.group.size, tag)

    def receive(self, memory: memoryview, source: int, tag: int) -> Receive:
        """Start to receive a partition."""
        return self._receive(memory, source, source + len(self.comm.targets), tag)

    def _send(self, memory: memoryview, dest: int, carried: int, tag: int) -> Request[None]:
        process = self.comm.targets[dest]
        return self._recorded(self.record(PART, process, tag, len(memory)), memory, process, carried, tag)

    def record(self, kind: int, process: int, tag: int, nbytes: int) -> int:
        """Write the record of an operation that begins, if this rank is traced; return the handle, 0 for no record."""
        recorder = self.comm.engine.recorder
        return 0 if recorder is None else recorder.start(kind, self.context_id, process, tag, nbytes)

    def _recorded(self, handle: int, memory: memoryview, process: int, carried: int, tag: int) -> Request[None]:
        peer = self.comm.engine.peer(process)
        request = peer.send((memory,), len(memory), self.context_id, carried, tag)
        if handle and self.comm.engine.recorder is not None:
            self.comm.engine.recorder.sent(handle, request, peer)
        return request

    def _receive(self, memory: memoryview | None, source: int, carried: int, tag: int) -> Receive:
        comm = self.comm
        receive = Receive(comm.engine, self.matcher, memory, carried, tag, comm.targets[source], None, None)
        comm.engine.receive(receive)
        return receive


class _Run(Request[T_co]):
    """One run of a partitioned request.

    Attributes:
        peer_rank: number of the other process, for reports of jobs that hang.
    """

    __slots__ = ("_failure", "_missing", "_under_way", "peer_rank")

    def __init__(self, bound: _Bound, words: str, kind: int) -> None:
        comm, partner = bound.comm, bound.partner
        super().__init__(comm.engine)
        self.describe(words, comm, partner, bound.tag)
        self.peer_rank = PROC_NULL if partner == PROC_NULL else comm.targets[partner]
        self.traced = bound.context.record(kind, self.peer_rank, bound.tag, bound.buffer.nbytes)
        self._missing = 0
        self._under_way = 0
        self._failure: BaseException | None = None

    def _watch(self, message: Request[Any], partition: int) -> None:
        """Note a message that is under way."""
        self._under_way += 1
        if message.done():
            self._passed(partition, message)
        else:
            message.when_done(functools.partial(self._passed, partition))

    def _passed(self, partition: int, message: Request[Any]) -> None:
        self._under_way -= 1
        self._missing -= 1
        error = message.exception()
        if error is not None:
            self._failure = self._failure or error
        self._settle()

    def _settle(self) -> None:
        """End the run if no message is in transit, and a message has failed or all partitions are done."""
        if self._done or self._under_way:
            return
        if self._failure is not None:
            self.fail(self._failure)
        elif not self._missing:
            self.complete(self._outcome())

    def _outcome(self) -> Any:
        return None


class _SendRun(_Run[None]):
    """One run of a partitioned send."""

    __slots__ = ("_bound", "_ready")

    def __init__(self, bound: _BoundSend) -> None:
        super().__init__(bound, "partitioned send to", PSEND)
        self._bound = bound
        self._ready = bytearray(bound.partitions)
        self._missing = bound.partitions

    def ready(self, partitions: list[int]) -> None:
        """Send some partitions.

        Raises:
            InvalidArgumentError: one of the partitions was ready before, or is listed twice; no partition is sent.
        """
        for done, partition in enumerate(partitions):
            if self._ready[partition]:
                for undone in partitions[:done]:
                    self._ready[undone] = False
                raise InvalidArgumentError(
                    f"{self._bound.comm.where('Pready')}: partition {partition} was marked ready before in this run"
                )
            self._ready[partition] = True
        for partition in partitions:
            if not self._done:
                self._watch(self._bound.send(partition), partition)


class _ReceiveRun(_Run[Status]):
    """One run of a partitioned receive: it takes the messages of the sender's partitions.

    Attributes:
        missing: for each partition of the receiver, the number of the sender's partitions that overlap it and have not
            arrived.
    """

    __slots__ = ("_arrivals", "_bound", "_scratch", "_theirs", "missing")

    def __init__(self, bound: _BoundReceive) -> None:
        super().__init__(bound, "partitioned recv from", PRECV)
        self._bound = bound
        self._theirs = 0
        self.missing = [1] * bound.partitions
        self._arrivals: dict[int, Request[None]] = {}
        self._scratch: memoryview | None = None  # for memory with gaps
        if bound.partner == PROC_NULL:
            self.missing = [0] * bound.partitions
            self.complete(self._outcome())
        elif bound.announcement.done():
            self._announced(bound.announcement)
        else:
            bound.announcement.when_done(self._announced)

    def _announced(self, announcement: Request[Any]) -> None:
        """Start to receive the partitions: the sender has bound its arguments."""
        error = announcement.exception()
        if error is not None:
            self.fail(error)
            return
        bound = self._bound
        try:
            theirs, nbytes, first = bound.announced()
        except RemoteProtocolError as wrong:
            bound.context.refuse(bound.partner, wrong)
            self.fail(wrong)
            return
        self._theirs = self._missing = theirs
        self.missing = [len(_overlapping(mine, bound.partitions, theirs)) for mine in range(bound.partitions)]
        buffer = bound.buffer
        if theirs * nbytes != buffer.nbytes:
            kind = TruncationError if theirs * nbytes > buffer.nbytes else InvalidCountError
            self._failure = kind(
                f"{bound.comm.where('Precv_init')}: rank {bound.partner} sends {theirs} partitions of {nbytes} bytes "
                f"with tag {bound.tag}, and {bound.partitions} partitions of {bound.nbytes} bytes are expected: both "
                "sides must have the same number of bytes in all"
            )
            memory, nbytes = memoryview(bytearray()), 0  # the messages are taken nevertheless: the sender goes on
        elif buffer.contiguous:
            memory = buffer.view
        else:
            memory = self._scratch = allocate(buffer.nbytes)
        self._under_way += 1  # so that the run cannot end before all are posted
        for partition in range(theirs):
            place = memory[partition * nbytes : (partition + 1) * nbytes]
            self._watch(bound.context.receive(place, bound.partner, first + partition), partition)
        self._under_way -= 1
        self._settle()

    def _passed(self, partition: int, message: Request[Any]) -> None:
        if message.exception() is None and self._failure is None:
            for mine in _overlapping(partition, self._theirs, self._bound.partitions):
                self.missing[mine] -= 1
                if not self.missing[mine]:
                    self._arrived(mine)
        super()._passed(partition, message)

    def _arrived(self, partition: int) -> None:
        if self._scratch is not None:
            nbytes = self._bound.nbytes
            self._bound.part(partition).unpack(self._scratch[partition * nbytes : (partition + 1) * nbytes])
        waiting = self._arrivals.pop(partition, None)
        if waiting is not None:
            waiting.complete()

    def arrival(self, partition: int) -> Request[None]:
        """Return the request that is complete when a partition of the receiver has arrived."""
        waiting = self._arrivals.get(partition)
        if waiting is not None:
            return waiting
        waiting = Request(self._engine)
        bound = self._bound
        waiting.describe(f"partition {partition} from", bound.comm, bound.partner, bound.tag)
        waiting.traced = bound.context.record(ARRIVAL, self.peer_rank, bound.tag, bound.nbytes)
        if not self.missing[partition]:
            waiting.complete()
        elif self._done and self._error is not None:
            waiting.fail(self._error)
        else:
            self._arrivals[partition] = waiting
        return waiting

    def _outcome(self) -> Status:
        bound = self._bound
        return Status.of(bound.partner, bound.tag, bound.buffer.nbytes if self._theirs else 0)

    def _finish(self) -> None:
        waiting, self._arrivals = self._arrivals, {}
        super()._finish()
        for request in waiting.values():
            request.fail(self._error or InvalidRequestError("the run has ended"))

    @property
    def status(self) -> Status:
        return self._value if self._error is None and self._done else Status()


class _Bound:
    """The arguments of a partitioned request.

    Attributes:
        comm, buffer, partitions, partner, tag: the arguments; the partner is a rank or PROC_NULL.
        nbytes: bytes of one partition.
    """

    __slots__ = ("_items", "buffer", "comm", "context", "nbytes", "partitions", "partner", "tag")

    def __init__(self, comm: Communicator, buffer: Buffer, partitions: int, partner: int, tag: int) -> None:
        self.comm, self.buffer, self.partitions, self.partner, self.tag = comm, buffer, partitions, partner, tag
        self.context = PartitionedContext.of(comm)
        self._items = buffer.count // partitions
        self.nbytes = buffer.nbytes // partitions

    def part(self, partition: int) -> Buffer:
        """Return the items of a partition."""
        return self.buffer.part(partition * self._items, self._items)

    def _check(self) -> None:
        """Refuse a start on a communicator that was freed or revoked."""
        if self.comm.freed or self.comm.is_revoked:
            raise self.comm._bad_rank("partner", self.partner)


class _BoundSend(_Bound):
    """The arguments of a partitioned send, which has been announced to its receiver."""

    __slots__ = ("_first",)

    def __init__(self, comm: Communicator, buffer: Buffer, partitions: int, partner: int, tag: int) -> None:
        super().__init__(comm, buffer, partitions, partner, tag)
        self._first = 0 if partner == PROC_NULL else self.context.announce(partner, tag, partitions, self.nbytes)

    def start(self) -> _SendRun:
        self._check()
        return _SendRun(self)

    def send(self, partition: int) -> Request[None]:
        """Start to send a partition."""
        if self.partner == PROC_NULL:
            return self.comm.engine.completed_send
        if self.buffer.contiguous:
            memory = self.buffer.view[partition * self.nbytes : (partition + 1) * self.nbytes]
        else:
            memory = self.part(partition).packed()
        return self.context.send(memory, self.partner, self._first + partition, self.tag)


class _BoundReceive(_Bound):
    """The arguments of a partitioned receive.

    Attributes:
        announcement: receive for the announcement of the matching send.
    """

    __slots__ = ("announcement",)

    announcement: Receive

    def __init__(self, comm: Communicator, buffer: Buffer, partitions: int, partner: int, tag: int) -> None:
        super().__init__(comm, buffer, partitions, partner, tag)
        if partner != PROC_NULL:
            self.announcement = self.context.expect(partner, tag)

    def start(self) -> _ReceiveRun:
        self._check()
        return _ReceiveRun(self)

    def announced(self) -> tuple[int, int, int]:
        """Return the sender's number of partitions, the bytes of each partition, and the tag of the first partition.

        Raises:
            RemoteProtocolError: the message announces no possible send.
        """
        message = self.announcement.data or b""
        if len(message) != _ANNOUNCEMENT.size:
            raise RemoteProtocolError(f"{len(message)} bytes announce no partitions")
        partitions, nbytes, first = _ANNOUNCEMENT.unpack(message)
        if not 0 < partitions <= max(self.buffer.nbytes, _MOST) or first + partitions > TAG_UB:
            raise RemoteProtocolError(f"it has announced {partitions} partitions with tags from {first} on")
        return partitions, nbytes, first


class _Partitioned(PersistentRequest[T_co]):
    """What partitioned sends and receives have in common."""

    __slots__ = ("_arguments",)

    _arguments: _Bound

    def _partition(self, call: str, partition: int) -> int:
        """Check the number of a partition.

        Raises:
            InvalidArgumentError: there is no such partition.
        """
        where, partitions = self._arguments.comm.where(call), self._arguments.partitions
        number = integer(partition, f"{where}: partition")
        if not 0 <= number < partitions:
            raise InvalidArgumentError(f"{where}: partition {number} is not in 0..{partitions - 1}")
        return number

    def refuse_active(self, call: str) -> None:
        """Raise InvalidRequestError if the request is active."""
        if self.active:
            raise InvalidRequestError(
                f"{self._arguments.comm.where(call)}: the request is active, and partitions may be under way: complete "
                "it first (MPI-4.1, section 4.2.1)"
            )

    def cancel(self) -> bool:
        """Refuse to cancel an active request (MPI-4.1, section 4.2.1).

        Raises:
            InvalidRequestError: in every case: an active request cannot be cancelled, and an inactive request has no
                operation to cancel.
        """
        self.refuse_active("Cancel")
        return super().cancel()

    def free(self) -> None:
        """Free the request.

        Raises:
            InvalidRequestError: the request is active.
        """
        self.refuse_active("Free")
        super().free()


class PartitionedSend(_Partitioned[None]):
    """A persistent send whose partitions leave as they get ready; `Psend_init` returns it (MPI-4.1, section 4.2.1)."""

    __slots__ = ()

    def __init__(self, arguments: _BoundSend) -> None:
        super().__init__(arguments.comm.engine, "Psend_init", arguments.start, lambda: None)
        self._arguments = arguments
        self.describe("partitioned send to", arguments.comm, arguments.partner, arguments.tag)

    def ready(self, *partitions: int) -> None:
        """Send partitions, which must not be changed from now on (MPI_Pready, MPI_Pready_range, MPI_Pready_list).

        Another thread makes this call through the loop: `loop.call_soon_threadsafe(request.ready, partition)`.

        Args:
            partitions: their numbers, 0 or above; each once in a run.

        Raises:
            InvalidRequestError: the request has not been started.
            InvalidArgumentError: there is no such partition, or it is ready already; no partition is sent.

        Example:
            request.start()
            for partition in range(4):
                compute(partition)
                request.ready(partition)
            await request
        """
        self._engine.driver.check_thread()
        self._engine.refuse_nested()
        run = self.current
        if run is None:
            raise InvalidRequestError(
                f"{self._arguments.comm.where('Pready')}: the request is inactive: start it first"
            )
        assert isinstance(run, _SendRun)
        run.ready([self._partition("Pready", partition) for partition in partitions])


class PartitionedReceive(_Partitioned[Status]):
    """A persistent receive whose partitions can be awaited; `Precv_init` returns it (MPI-4.1, section 4.2.1)."""

    __slots__ = ()

    def __init__(self, arguments: _BoundReceive) -> None:
        super().__init__(arguments.comm.engine, "Precv_init", arguments.start, Status)
        self._arguments = arguments
        self.describe("partitioned recv from", arguments.comm, arguments.partner, arguments.tag)

    def arrived(self, partition: int) -> Request[None]:
        """Return a request that is complete when a partition has arrived, and may be used (MPI_Parrived).

        Args:
            partition: its number, 0 or above. The sender may have another number of partitions.

        Returns:
            A request; it is complete if the receive is inactive. `done()` tests it, and awaiting it waits. Awaiting it
            raises the error of the receive if that fails.

        Raises:
            InvalidArgumentError: there is no such partition.

        Example:
            request.start()
            for partition in range(4):
                await request.arrived(partition)
                use(partition)
            await request
        """
        number = self._partition("Parrived", partition)
        run = self.current
        if run is None:
            done: Request[None] = Request(self._engine)
            done.complete()
            return done
        assert isinstance(run, _ReceiveRun)
        return run.arrival(number)


def psend_init(comm: Communicator, spec: object, partitions: int, dest: int, tag: int) -> PartitionedSend:
    """Bind the arguments of a partitioned send (MPI_Psend_init).

    Raises:
        InvalidArgumentError, InvalidBufferError, InvalidCountError, InvalidRankError, InvalidTagError: an argument.
        NotImplementedError: the communicator spans IMPI clients.
    """
    number, partner, tag = _checked(comm, "Psend_init", partitions, dest, tag)
    buffer = _divisible(resolve_send(spec, "buf", number), number, comm.where("Psend_init"))
    return PartitionedSend(_BoundSend(comm, buffer, number, partner, tag))


def precv_init(comm: Communicator, spec: object, partitions: int, source: int, tag: int) -> PartitionedReceive:
    """Bind the arguments of a partitioned receive (MPI_Precv_init).

    Raises:
        InvalidArgumentError, InvalidBufferError, InvalidCountError, InvalidRankError, InvalidTagError: an argument.
        NotImplementedError: the communicator spans IMPI clients.
    """
    number, partner, tag = _checked(comm, "Precv_init", partitions, source, tag)
    buffer = _divisible(resolve_recv(spec, "buf", number), number, comm.where("Precv_init"))
    return PartitionedReceive(_BoundReceive(comm, buffer, number, partner, tag))


def _checked(comm: Communicator, call: str, partitions: int, partner: int, tag: int) -> tuple[int, int, int]:
    """Return number of partitions, partner and tag as ints; wildcards are refused (section 4.2.1)."""
    where = comm.where(call)
    number = integer(partitions, f"{where}: partitions")
    partner, tag = integer(partner, f"{where}: rank"), integer(tag, f"{where}: tag")
    if number < 1:
        raise InvalidArgumentError(f"{where}: {number} partitions: expected 1 or more")
    if not 0 <= tag <= comm.tag_ub:
        raise InvalidTagError(f"{where}: tag {tag} is not in 0..{comm.tag_ub}")
    if comm.freed or comm.is_revoked or not (partner == PROC_NULL or 0 <= partner < len(comm.targets)):
        raise comm._bad_rank("partner", partner)
    return number, partner, tag


def _divisible(buffer: Buffer, partitions: int, where: str) -> Buffer:
    """Check that a buffer can be cut into partitions, and return it."""
    if isinstance(buffer, AbsoluteBuffer):
        raise InvalidBufferError(f"{where}: absolute addresses have no partitions (section 4.2.3): pass the memory")
    if buffer.count % partitions:
        raise InvalidCountError(
            f"{where}: buf holds {buffer.count} items of {buffer.datatype}, which cannot be cut into {partitions} "
            "equal partitions"
        )
    return buffer


def _overlapping(partition: int, partitions: int, others: int) -> range:
    """Return the range of parts that overlap a partition, if the same buffer is also cut into `others` equal parts."""
    return range(partition * others // partitions, -(-(partition + 1) * others // partitions))
