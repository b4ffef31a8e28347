"""The native face: everything is awaited, in the application's own event loop.

Names are mpi4py's: upper case first letters for buffers, lower case for Python objects. Every call starts its
operation at once. The i-forms return a `Request`, which can be awaited any number of times and which cancelling
an await leaves alone. The others return something to be awaited once, which owns the operation: cancelling or
timing out the await withdraws it, and loses no message.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from aiompi.coll import buffers, objects
from aiompi.comm import Communicator
from aiompi.constants import ANY_SOURCE, ANY_TAG
from aiompi.datatype import memory_to_receive, memory_to_send
from aiompi.engine import Mode, Owned, OwnedReceive, Request
from aiompi.engine.pt2pt import Receive
from aiompi.errors import JobAbortedError
from aiompi.face.common import Membership
from aiompi.op import SUM, Op
from aiompi.runtime import Runtime
from aiompi.status import Status


class Intracomm(Membership):
    """A communicator of the native face (chapter 5).

    Ranks are those of its group, tags are 0..TAG_UB. Errors of arguments are raised by the call itself, errors of
    the communication by the await; both are `aiompi.Exception`s.
    """

    __slots__ = ("_codec", "_core", "_runtime")

    def __init__(self, runtime: Runtime, core: Communicator) -> None:
        self._runtime = runtime
        self._core = core
        self._codec = runtime.codec

    # Point-to-point, Python objects.

    def isend(self, obj: Any, dest: int, tag: int = 0) -> Request[None]:
        """Start sending an object, standard mode (section 3.4).

        Args:
            obj: must not be changed before the request is complete; large arrays in it are not copied.
            dest: rank, or PROC_NULL.
            tag: 0..TAG_UB.

        Raises:
            InvalidRankError, InvalidTagError: an argument is out of range.
            InvalidTypeError: the object cannot be turned into a message.
        """
        payload, nbytes = self._codec.dumps(obj)
        return self._core.isend(payload, nbytes, dest, tag)

    def issend(self, obj: Any, dest: int, tag: int = 0) -> Request[None]:
        """Start sending an object, synchronous mode: complete not before a receive has matched it (section 3.4)."""
        payload, nbytes = self._codec.dumps(obj)
        return self._core.isend(payload, nbytes, dest, tag, mode=Mode.SYNCHRONOUS)

    def irecv(self, source: int = ANY_SOURCE, tag: int = ANY_TAG, status: Status | None = None) -> Request[Any]:
        """Start receiving an object of any size (section 3.7).

        Args:
            source: rank, ANY_SOURCE or PROC_NULL.
            tag: 0..TAG_UB or ANY_TAG.
            status: filled with the envelope when the result is taken.

        Returns:
            A request whose result is the object, None from PROC_NULL.
        """
        return self._core.irecv(None, source, tag, self._codec.loads, status)

    def send(self, obj: Any, dest: int, tag: int = 0) -> Owned[None]:
        """Send an object, standard mode; see `isend`."""
        return Owned(self.isend(obj, dest, tag))

    def ssend(self, obj: Any, dest: int, tag: int = 0) -> Owned[None]:
        """Send an object, synchronous mode; see `issend`."""
        return Owned(self.issend(obj, dest, tag))

    def recv(self, source: int = ANY_SOURCE, tag: int = ANY_TAG, status: Status | None = None) -> OwnedReceive[Any]:
        """Receive an object of any size; see `irecv`."""
        return OwnedReceive(self.irecv(source, tag, status))

    def sendrecv(
        self,
        sendobj: Any,
        dest: int,
        sendtag: int = 0,
        source: int = ANY_SOURCE,
        recvtag: int = ANY_TAG,
        status: Status | None = None,
    ) -> Owned[Any]:
        """Send an object and receive another, without deadlock (section 3.10); see `isend` and `irecv`."""
        receive = self._core.irecv(None, source, recvtag, self._codec.loads, status)
        return _exchange(receive, lambda: self.isend(sendobj, dest, sendtag))

    # Point-to-point, buffers.

    def Isend(self, buf: Any, dest: int, tag: int = 0) -> Request[None]:
        """Start sending a buffer, standard mode (section 3.7).

        Args:
            buf: a buffer specification: an object with the buffer protocol, `[buf, type]`, `[buf, count, type]`.
                It must not be changed before the request is complete.
            dest: rank, or PROC_NULL.
            tag: 0..TAG_UB.

        Raises:
            InvalidBufferError, InvalidCountError, InvalidTypeError, InvalidRankError, InvalidTagError.
        """
        memory = memory_to_send(buf)
        return self._core.isend((memory,), len(memory), dest, tag)

    def Issend(self, buf: Any, dest: int, tag: int = 0) -> Request[None]:
        """Start sending a buffer, synchronous mode (section 3.4); see `Isend`."""
        memory = memory_to_send(buf)
        return self._core.isend((memory,), len(memory), dest, tag, mode=Mode.SYNCHRONOUS)

    def Irecv(self, buf: Any, source: int = ANY_SOURCE, tag: int = ANY_TAG) -> Request[Status]:
        """Start receiving into a buffer (section 3.7).

        Args:
            buf: a writable buffer specification, at least as long as the message; not to be touched before the
                request is complete.
            source: rank, ANY_SOURCE or PROC_NULL.
            tag: 0..TAG_UB or ANY_TAG.

        Returns:
            A request whose result is the Status. It fails with TruncationError when the message is too long.
        """
        return self._core.irecv(memory_to_receive(buf), source, tag)

    def Send(self, buf: Any, dest: int, tag: int = 0) -> Owned[None]:
        """Send a buffer, standard mode; see `Isend`."""
        return Owned(self.Isend(buf, dest, tag))

    def Ssend(self, buf: Any, dest: int, tag: int = 0) -> Owned[None]:
        """Send a buffer, synchronous mode; see `Issend`."""
        return Owned(self.Issend(buf, dest, tag))

    def Recv(
        self, buf: Any, source: int = ANY_SOURCE, tag: int = ANY_TAG, status: Status | None = None
    ) -> OwnedReceive[Status]:
        """Receive into a buffer; see `Irecv`. Once the await was cancelled, the content of the buffer is undefined."""
        return OwnedReceive(self._core.irecv(memory_to_receive(buf), source, tag, None, status))

    def Sendrecv(
        self,
        sendbuf: Any,
        dest: int,
        sendtag: int = 0,
        recvbuf: Any = None,
        source: int = ANY_SOURCE,
        recvtag: int = ANY_TAG,
        status: Status | None = None,
    ) -> Owned[Status]:
        """Send a buffer and receive into another, without deadlock (section 3.10); see `Isend` and `Irecv`."""
        receive = self._core.irecv(memory_to_receive(recvbuf), source, recvtag, None, status)
        return _exchange(receive, lambda: self.Isend(sendbuf, dest, sendtag))

    # Probe.

    def probe(self, source: int = ANY_SOURCE, tag: int = ANY_TAG) -> Owned[Status]:
        """Wait for a message without receiving it; its Status (section 3.8)."""
        return Owned(self._core.probe(source, tag))

    def iprobe(self, source: int = ANY_SOURCE, tag: int = ANY_TAG) -> Status | None:
        """Status of the message that a receive would get now, None if there is none (section 3.8)."""
        return self._core.iprobe(source, tag)

    Probe = probe
    Iprobe = iprobe

    # Collectives (chapter 4). An await that is cancelled leaves them running: the other ranks need them.

    def barrier(self) -> Request[None]:
        """Complete when every rank has called it (section 4.3)."""
        return buffers.barrier(self._core)

    Barrier = barrier

    def bcast(self, obj: Any, root: int = 0) -> Request[Any]:
        """The root's object, on every rank (section 4.4). `obj` is ignored elsewhere."""
        return objects.bcast(self._core, self._codec, obj, root)

    def scatter(self, sendobj: Sequence[Any] | None, root: int = 0) -> Request[Any]:
        """Item i of the root's sequence, on rank i (section 4.6). `sendobj` has `size` items at the root."""
        return objects.scatter(self._core, self._codec, sendobj, root)

    def gather(self, sendobj: Any, root: int = 0) -> Request[list[Any] | None]:
        """The objects of all ranks in rank order at the root, None elsewhere (section 4.5)."""
        return objects.gather(self._core, self._codec, sendobj, root)

    def allgather(self, sendobj: Any) -> Request[list[Any]]:
        """The objects of all ranks in rank order (section 4.7)."""
        return objects.allgather(self._core, self._codec, sendobj)

    def alltoall(self, sendobj: Sequence[Any]) -> Request[list[Any]]:
        """Item r of every rank's sequence, on rank r, in rank order (section 4.8)."""
        return objects.alltoall(self._core, self._codec, sendobj)

    def reduce(self, sendobj: Any, op: Op | Callable[[Any, Any], Any] = SUM, root: int = 0) -> Request[Any]:
        """The objects of all ranks combined in rank order, at the root; None elsewhere (section 4.9)."""
        return objects.reduce(self._core, self._codec, sendobj, op, root)

    def allreduce(self, sendobj: Any, op: Op | Callable[[Any, Any], Any] = SUM) -> Request[Any]:
        """The objects of all ranks combined in rank order, on every rank (section 4.9.6)."""
        return objects.allreduce(self._core, self._codec, sendobj, op)

    def Bcast(self, buf: Any, root: int = 0) -> Request[None]:
        """Fill the buffer of every rank with the root's (section 4.4)."""
        return buffers.bcast(self._core, buf, root)

    def Scatter(self, sendbuf: Any, recvbuf: Any, root: int = 0) -> Request[None]:
        """Block i of the root's buffer goes to rank i (section 4.6).

        Args:
            sendbuf: at the root (size, count) items, C order; ignored elsewhere.
            recvbuf: (count,) items; IN_PLACE at the root leaves its block where it is.
            root: rank.
        """
        return buffers.scatter(self._core, sendbuf, recvbuf, root)

    def Gather(self, sendbuf: Any, recvbuf: Any, root: int = 0) -> Request[None]:
        """The buffers of all ranks become the blocks of the root's (section 4.5).

        Args:
            sendbuf: (count,) items; IN_PLACE at the root when its block is in place.
            recvbuf: at the root (size, count) items, C order; ignored elsewhere.
            root: rank.
        """
        return buffers.gather(self._core, sendbuf, recvbuf, root)

    def Allgather(self, sendbuf: Any, recvbuf: Any) -> Request[None]:
        """The buffers of all ranks become the blocks of everyone's (section 4.7).

        Args:
            sendbuf: (count,) items, or IN_PLACE.
            recvbuf: (size, count) items, C order.
        """
        return buffers.allgather(self._core, sendbuf, recvbuf)

    def Alltoall(self, sendbuf: Any, recvbuf: Any) -> Request[None]:
        """Block r of every rank goes to rank r (section 4.8).

        Args:
            sendbuf: (size, count) items, C order, or IN_PLACE.
            recvbuf: (size, count) items, C order.
        """
        return buffers.alltoall(self._core, sendbuf, recvbuf)

    def Reduce(self, sendbuf: Any, recvbuf: Any, op: Op = SUM, root: int = 0) -> Request[None]:
        """Combine the buffers of all ranks element by element, into the root's (section 4.9).

        Args:
            sendbuf: (count,) items, or IN_PLACE at the root.
            recvbuf: (count,) items at the root; ignored elsewhere.
            op: operation, defined for the datatype.
            root: rank.
        """
        return buffers.reduce(self._core, sendbuf, recvbuf, op, root)

    def Allreduce(self, sendbuf: Any, recvbuf: Any, op: Op = SUM) -> Request[None]:
        """Combine the buffers of all ranks element by element, into everyone's (section 4.9.6).

        Args:
            sendbuf: (count,) items, or IN_PLACE.
            recvbuf: (count,) items.
            op: operation, defined for the datatype.
        """
        return buffers.allreduce(self._core, sendbuf, recvbuf, op)

    ibarrier, ibcast, iscatter, igather = barrier, bcast, scatter, gather
    iallgather, ialltoall, ireduce, iallreduce = allgather, alltoall, reduce, allreduce
    Ibarrier, Ibcast, Iscatter, Igather = barrier, Bcast, Scatter, Gather
    Iallgather, Ialltoall, Ireduce, Iallreduce = Allgather, Alltoall, Reduce, Allreduce

    def Abort(self, errorcode: int = 1) -> NoReturn:
        """End all ranks of the job (section 7.5).

        A process that a launcher started ends here, with this exit status; one that has joined gets the exception.

        Raises:
            JobAbortedError: this process was not started by a launcher.
        """
        reason = f"rank {self._runtime.engine.rank} called Abort({errorcode})"
        self._runtime.abort(errorcode, reason)
        if self._runtime.launched:
            self._runtime.exit(errorcode)
        raise JobAbortedError(reason)

    def __repr__(self) -> str:
        return repr(self._core)

    def __reduce__(self) -> NoReturn:
        raise TypeError("a communicator means something only in its own process (section 2.4.1)")


def _exchange(receive: Receive, start_send: Callable[[], Request[None]]) -> Owned[Any]:
    """A receive, and the send that belongs to it: if that cannot be started, the receive must not stay behind."""
    try:
        return Owned(_Exchange(start_send(), receive))
    except BaseException:
        receive.withdraw()
        raise


class _Exchange(Request[Any]):
    """A send and a receive that belong together: complete when both are."""

    __slots__ = ("_pending", "_receive", "_send")

    def __init__(self, send: Request[None], receive: Receive) -> None:
        super().__init__(send._engine)
        self._send = send
        self._receive = receive
        pending = [part for part in (send, receive) if not part.done()]
        self._pending = len(pending)
        for part in pending:
            part.when_done(self._part_done)
        if not pending:
            self.complete()

    def _part_done(self, _: Request[Any]) -> None:
        self._pending -= 1
        if self._pending == 0:
            self.complete()

    def exception(self) -> BaseException | None:
        return self._send.exception() or self._receive.exception()

    def result(self) -> Any:
        self._send.result()
        return self._receive.result()

    def withdraw(self) -> None:
        self._receive.withdraw()
        self._send.withdraw()
