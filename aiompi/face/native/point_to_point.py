"""Point-to-point communication of the native face (chapter 3)."""

from __future__ import annotations

from functools import partial
from typing import Any

from aiompi import engine
from aiompi.constants import ANY_SOURCE, ANY_TAG
from aiompi.datatype.buffer.address import BufferAutomatic
from aiompi.engine import Mode, Owned, PersistentRequest, Request
from aiompi.engine.sendrecv import sendrecv
from aiompi.face.common import attach
from aiompi.face.native.handle import Handle
from aiompi.face.native.message import Message
from aiompi.face.persistent import PersistentSends
from aiompi.objects import Codec
from aiompi.status import Status
from aiompi.typing import BufSpec


class PointToPoint(Handle, PersistentSends[PersistentRequest[None]]):
    """Sends, receives and probes of a communicator; each starts at once."""

    __slots__ = ()

    _codec: Codec

    # Objects.

    def isend(self, obj: object, dest: int, tag: int = 0) -> Request[None]:
        """Start sending an object, standard mode (section 3.4).

        Args:
            obj: must not be changed before the request is complete: large arrays in it are not copied, and an object
                of many items is encoded in slices between turns of the event loop. Later messages stay behind it.
            dest: rank, or PROC_NULL.
            tag: 0..TAG_UB.

        Raises:
            InvalidRankError, InvalidTagError: an argument is out of range.
            InvalidTypeError: the object cannot be turned into a message.
        """
        core, codec = self._admitted, self._codec
        if codec.is_large(obj):
            return core.isend_encoded(codec.dumps_in_steps(obj), dest, tag)
        payload, nbytes = codec.dumps(obj)
        return core.isend(payload, nbytes, dest, tag)

    def ibsend(self, obj: object, dest: int, tag: int = 0) -> Request[None]:
        """Start sending an object, buffered mode: complete at once (sections 3.4 and 3.6); see `isend`.

        An object of many items is encoded in slices; then the send is complete when its message is in the buffer.

        Raises:
            InvalidBufferError: the attached buffer has not enough room, or there is none.
        """
        return self._isend_object(obj, dest, tag, Mode.BUFFERED)

    def issend(self, obj: object, dest: int, tag: int = 0) -> Request[None]:
        """Start sending an object, synchronous mode: complete not before a receive has matched it (section 3.4)."""
        return self._isend_object(obj, dest, tag, Mode.SYNCHRONOUS)

    def irsend(self, obj: object, dest: int, tag: int = 0) -> Request[None]:
        """Start sending an object, ready mode (section 3.4); see `isend`.

        The request fails with OtherError if no receive is posted.
        """
        return self._isend_object(obj, dest, tag, Mode.READY)

    def _isend_object(self, obj: object, dest: int, tag: int, mode: Mode) -> Request[None]:
        core, codec = self._admitted, self._codec
        if codec.is_large(obj):
            return core.isend_encoded(codec.dumps_in_steps(obj), dest, tag, mode)
        payload, nbytes = codec.dumps(obj)
        return core.isend(payload, nbytes, dest, tag, mode)

    def irecv(self, source: int = ANY_SOURCE, tag: int = ANY_TAG, status: Status | None = None) -> Request[Any]:
        """Start receiving an object of any size (section 3.7).

        Args:
            source: rank, ANY_SOURCE or PROC_NULL.
            tag: 0..TAG_UB or ANY_TAG.
            status: filled with the envelope when the result is taken.

        Returns:
            A request whose result is the object, None from PROC_NULL.
        """
        receive = self._admitted.irecv(None, source, tag, self._codec, status)
        if source == ANY_SOURCE:
            receive.stay()
        return receive

    def send(self, obj: object, dest: int, tag: int = 0) -> Owned[None]:
        """Send an object, standard mode; see `isend`."""
        core, codec = self._admitted, self._codec
        if codec.is_large(obj):
            return Owned(core.isend_encoded(codec.dumps_in_steps(obj), dest, tag))
        payload, nbytes = codec.dumps(obj)
        return core.own_send(payload, nbytes, dest, tag)

    def bsend(self, obj: object, dest: int, tag: int = 0) -> Owned[None]:
        """Send an object, buffered mode; see `ibsend`."""
        return Owned(self.ibsend(obj, dest, tag))

    def ssend(self, obj: object, dest: int, tag: int = 0) -> Owned[None]:
        """Send an object, synchronous mode; see `issend`."""
        return Owned(self.issend(obj, dest, tag))

    def rsend(self, obj: object, dest: int, tag: int = 0) -> Owned[None]:
        """Send an object, ready mode; see `irsend`."""
        return Owned(self.irsend(obj, dest, tag))

    def recv(self, source: int = ANY_SOURCE, tag: int = ANY_TAG, status: Status | None = None) -> Owned[Any]:
        """Receive an object of any size; see `irecv`."""
        core, codec = self._admitted, self._codec
        arrived = core.recv_arrived(source, tag, codec, status) if core.matcher.arrivals else None
        return core.own_recv(None, source, tag, codec, status) if arrived is None else Owned(arrived)

    def sendrecv(
        self,
        sendobj: object,
        dest: int,
        sendtag: int = 0,
        source: int = ANY_SOURCE,
        recvtag: int = ANY_TAG,
        status: Status | None = None,
    ) -> Owned[Any]:
        """Send an object and receive another, without deadlock (section 3.10); see `isend` and `irecv`."""
        receive = self._admitted.irecv(None, source, recvtag, self._codec, status)
        return Owned(sendrecv(receive, lambda: self.isend(sendobj, dest, sendtag)))

    # Buffers.

    def Isend(self, buf: BufSpec, dest: int, tag: int = 0) -> Request[None]:
        """Start sending a buffer, standard mode (section 3.7).

        Args:
            buf: a buffer specification: an object with the buffer protocol, `[buf, type]`, `[buf, count, type]`.
                It must not be changed before the request is complete.
            dest: rank, or PROC_NULL.
            tag: 0..TAG_UB.

        Raises:
            InvalidBufferError, InvalidCountError, InvalidTypeError, InvalidRankError, InvalidTagError.
        """
        core = self._admitted
        memory = core.conversion.to_send(buf, dest)
        return core.isend((memory,), len(memory), dest, tag)

    def Ibsend(self, buf: BufSpec, dest: int, tag: int = 0) -> Request[None]:
        """Start sending a buffer, buffered mode: complete at once (sections 3.4 and 3.6); see `Isend`.

        Raises:
            InvalidBufferError: also when the attached buffer has not enough room, or there is none.
        """
        return self._isend_buffer(buf, dest, tag, Mode.BUFFERED)

    def Issend(self, buf: BufSpec, dest: int, tag: int = 0) -> Request[None]:
        """Start sending a buffer, synchronous mode (section 3.4); see `Isend`."""
        return self._isend_buffer(buf, dest, tag, Mode.SYNCHRONOUS)

    def Irsend(self, buf: BufSpec, dest: int, tag: int = 0) -> Request[None]:
        """Start sending a buffer, ready mode (section 3.4); see `Isend`.

        The request fails with OtherError if no receive is posted.
        """
        return self._isend_buffer(buf, dest, tag, Mode.READY)

    def _isend_buffer(self, buf: BufSpec, dest: int, tag: int, mode: Mode) -> Request[None]:
        core = self._admitted
        memory = core.conversion.to_send(buf, dest)
        return core.isend((memory,), len(memory), dest, tag, mode)

    def Irecv(self, buf: BufSpec, source: int = ANY_SOURCE, tag: int = ANY_TAG) -> Request[Status]:
        """Start receiving into a buffer (section 3.7).

        Args:
            buf: a writable buffer specification, at least as long as the message; not to be touched before the
                request is complete.
            source: rank, ANY_SOURCE or PROC_NULL.
            tag: 0..TAG_UB or ANY_TAG.

        Returns:
            A request whose result is the Status. It fails with TruncationError when the message is too long.
        """
        receive = self._admitted.irecv(self._core.conversion.to_receive(buf), source, tag)
        if source == ANY_SOURCE:
            receive.stay()
        return receive

    def Send(self, buf: BufSpec, dest: int, tag: int = 0) -> Owned[None]:
        """Send a buffer, standard mode; see `Isend`."""
        core = self._admitted
        sent = core.own_send_short(buf, dest, tag)
        if sent is not None:
            return sent
        memory = core.conversion.to_send(buf, dest)
        return core.own_send((memory,), len(memory), dest, tag)

    def Bsend(self, buf: BufSpec, dest: int, tag: int = 0) -> Owned[None]:
        """Send a buffer, buffered mode; see `Ibsend`."""
        return Owned(self.Ibsend(buf, dest, tag))

    def Ssend(self, buf: BufSpec, dest: int, tag: int = 0) -> Owned[None]:
        """Send a buffer, synchronous mode; see `Issend`."""
        return Owned(self.Issend(buf, dest, tag))

    def Rsend(self, buf: BufSpec, dest: int, tag: int = 0) -> Owned[None]:
        """Send a buffer, ready mode; see `Irsend`."""
        return Owned(self.Irsend(buf, dest, tag))

    def Recv(
        self, buf: BufSpec, source: int = ANY_SOURCE, tag: int = ANY_TAG, status: Status | None = None
    ) -> Owned[Status]:
        """Receive into a buffer; see `Irecv`. Once the await was cancelled, the content of the buffer is undefined."""
        return self._admitted.own_recv(self._core.conversion.to_receive(buf), source, tag, None, status)

    def Sendrecv(
        self,
        sendbuf: BufSpec,
        dest: int,
        sendtag: int = 0,
        recvbuf: BufSpec = None,
        source: int = ANY_SOURCE,
        recvtag: int = ANY_TAG,
        status: Status | None = None,
    ) -> Owned[Status]:
        """Send a buffer and receive into another, without deadlock (section 3.10); see `Isend` and `Irecv`.

        Args:
            sendbuf: as `buf` of `Isend`.
            recvbuf: as `buf` of `Irecv`; it must not overlap `sendbuf`.

        Raises:
            InvalidBufferError: the buffers overlap.
        """
        memory, target = self._admitted.conversion.to_exchange(sendbuf, recvbuf, dest)
        receive = self._core.irecv(target, source, recvtag, None, status)
        return Owned(sendrecv(receive, lambda: self._core.send((memory,), len(memory), dest, sendtag)))

    def Sendrecv_replace(
        self,
        buf: BufSpec,
        dest: int,
        sendtag: int = 0,
        source: int = ANY_SOURCE,
        recvtag: int = ANY_TAG,
        status: Status | None = None,
    ) -> Owned[Status]:
        """Send what is in a buffer, and receive into the same (section 3.10)."""
        memory, target = self._admitted.conversion.to_replace(buf, dest)
        receive = self._core.irecv(target, source, recvtag, None, status)
        return Owned(sendrecv(receive, lambda: self._core.send((memory,), len(memory), dest, sendtag)))

    # Persistent requests: `start()` starts the operation, `await` waits for it (section 3.9).

    def Recv_init(self, buf: BufSpec, source: int = ANY_SOURCE, tag: int = ANY_TAG) -> PersistentRequest[Status]:
        """Bind the arguments of `Irecv`."""
        return self._admitted.recv_init(self._core.conversion.to_receive(buf), source, tag)

    # Probes (section 3.8).

    def probe(self, source: int = ANY_SOURCE, tag: int = ANY_TAG) -> Owned[Status]:
        """Wait for a message without receiving it (MPI_Probe, section 3.8).

        Returns:
            Its Status.
        """
        return Owned(self._admitted.probe(source, tag))

    def iprobe(self, source: int = ANY_SOURCE, tag: int = ANY_TAG) -> Status | None:
        """Look for a message without receiving it (MPI_Iprobe, section 3.8).

        Returns:
            Status of the message that a receive would get now; None if there is none.
        """
        return self._admitted.iprobe(source, tag)

    def mprobe(self, source: int = ANY_SOURCE, tag: int = ANY_TAG, status: Status | None = None) -> Owned[Message]:
        """Wait for a message and take it: no receive but the message's own can get it (MPI_Mprobe, MPI-3).

        Args:
            status: filled with the envelope, which the message has as `status`, too.
        """
        return Owned(self._admitted.mprobe(source, tag, partial(self._taken, status=status)))

    def improbe(self, source: int = ANY_SOURCE, tag: int = ANY_TAG, status: Status | None = None) -> Message | None:
        """Take the message that a receive would get now, None if there is none (MPI_Improbe, MPI-3); see `mprobe`."""
        found, message = self._admitted.improbe(source, tag)
        return self._taken(message, status) if found else None

    Probe = probe
    Iprobe = iprobe
    Mprobe = mprobe
    Improbe = improbe

    # Memory for buffered mode (section 3.6).

    def Attach_buffer(self, buf: BufSpec | BufferAutomatic) -> None:
        """Give memory to the buffered sends of this communicator (MPI_Comm_attach_buffer, MPI-4.1).

        Args:
            buf: writable memory; each message takes its length and BSEND_OVERHEAD. None: new memory for each.

        Raises:
            InvalidBufferError: one is attached already, or it is read-only.
        """
        attach(self._admitted.attachment, buf)

    def Detach_buffer(self) -> Request[Any]:
        """Take the attached memory back when the messages in it have left (MPI_Comm_detach_buffer, MPI-4.1).

        Returns:
            A request whose result is the object that was attached.

        Raises:
            InvalidBufferError: none is attached.
        """
        return self._admitted.attachment.detach()

    def Flush_buffer(self) -> Request[None]:
        """Complete when the messages that are now in the attached buffer have left (MPI_Comm_flush_buffer, MPI-4.1)."""
        return self._admitted.attachment.flush()

    def _taken(self, message: engine.Message | None, status: Status | None) -> Message:
        taken = Message(self._admitted, self._codec, message)
        if status is not None:
            status.assign(taken.status)
        return taken
