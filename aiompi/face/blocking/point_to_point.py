"""Point-to-point communication of the blocking face (chapter 3).

`aiompi.face.native.point_to_point` describes the arguments and what is raised.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any, TypeVar

from aiompi import engine
from aiompi.comm import Communicator
from aiompi.constants import ANY_SOURCE, ANY_TAG
from aiompi.core.allocation import joined
from aiompi.datatype.buffer.address import BufferAutomatic
from aiompi.engine import Mode, Scattered, Send
from aiompi.engine import Request as EngineRequest
from aiompi.engine.sendrecv import sendrecv
from aiompi.face.blocking.handle import Handle
from aiompi.face.blocking.message import Message
from aiompi.face.blocking.process import process, wait
from aiompi.face.blocking.request_kinds import Prequest
from aiompi.face.blocking.requests import Request
from aiompi.face.common import attach
from aiompi.face.persistent import PersistentSends
from aiompi.status import Status
from aiompi.typing import Buffer, BufSpec

T = TypeVar("T")


class PointToPoint(Handle, PersistentSends[Prequest[None]]):
    """Sends, receives and probes of a communicator."""

    __slots__ = ()

    # Buffers.

    def Isend(self, buf: BufSpec, dest: int, tag: int = 0) -> Request[None]:
        """Start sending a buffer specification, standard mode (section 3.7)."""
        core = self._admitted
        memory = core.conversion.to_send(buf, dest)
        return Request._denote(core.isend((memory,), len(memory), dest, tag))

    def Ibsend(self, buf: BufSpec, dest: int, tag: int = 0) -> Request[None]:
        """Start sending a buffer specification, buffered mode (sections 3.4 and 3.6)."""
        return Request._denote(_start_buffer(self._admitted, buf, dest, tag, Mode.BUFFERED))

    def Issend(self, buf: BufSpec, dest: int, tag: int = 0) -> Request[None]:
        """Start sending a buffer specification, synchronous mode (section 3.4)."""
        return Request._denote(_start_buffer(self._admitted, buf, dest, tag, Mode.SYNCHRONOUS))

    def Irsend(self, buf: BufSpec, dest: int, tag: int = 0) -> Request[None]:
        """Start sending a buffer specification, ready mode (section 3.4): the receive must be posted."""
        return Request._denote(_start_buffer(self._admitted, buf, dest, tag, Mode.READY))

    def Irecv(self, buf: BufSpec, source: int = ANY_SOURCE, tag: int = ANY_TAG) -> Request[Status]:
        """Start a receive into a writable buffer specification (section 3.7)."""
        core = self._admitted
        receive = core.irecv(core.conversion.to_receive(buf), source, tag)
        if source == ANY_SOURCE:
            receive.stay()
        return Request._denote(receive)

    def Send(self, buf: BufSpec, dest: int, tag: int = 0) -> None:
        """Send a buffer specification, standard mode (section 3.2.1)."""
        core = self._entered("Send(buf, dest)")
        if core.send_short(buf, dest, tag):
            return
        memory = core.conversion.to_send(buf, dest)
        request = core.send((memory,), len(memory), dest, tag)
        if not request._done or request._error is not None:
            self._finish(request)

    def Bsend(self, buf: BufSpec, dest: int, tag: int = 0) -> None:
        """Send a buffer specification, buffered mode (sections 3.4 and 3.6)."""
        self._finish(_start_buffer(self._entered("Bsend(buf, dest)"), buf, dest, tag, Mode.BUFFERED))

    def Ssend(self, buf: BufSpec, dest: int, tag: int = 0) -> None:
        """Send a buffer specification, synchronous mode (section 3.4)."""
        self._finish(_start_buffer(self._entered("Ssend(buf, dest)"), buf, dest, tag, Mode.SYNCHRONOUS))

    def Rsend(self, buf: BufSpec, dest: int, tag: int = 0) -> None:
        """Send a buffer specification, ready mode (section 3.4): the receive must be posted."""
        self._finish(_start_buffer(self._entered("Rsend(buf, dest)"), buf, dest, tag, Mode.READY))

    def Recv(self, buf: BufSpec, source: int = ANY_SOURCE, tag: int = ANY_TAG, status: Status | None = None) -> None:
        """Receive into a writable buffer specification (section 3.2.4).

        Raises:
            TruncationError: the message is longer than the buffer.
        """
        core = self._entered("Recv(buf, source)")
        request = core.irecv(core.conversion.to_receive(buf), source, tag, None, status)
        if not request._done:
            wait(request)
        if status is not None or request._error is not None:
            request.result()

    def Sendrecv(
        self,
        sendbuf: BufSpec,
        dest: int,
        sendtag: int = 0,
        recvbuf: BufSpec = None,
        source: int = ANY_SOURCE,
        recvtag: int = ANY_TAG,
        status: Status | None = None,
    ) -> None:
        """Send one buffer and receive into another, without deadlock (section 3.10)."""
        core = self._entered("Sendrecv(...)")
        self._exchange(
            *_begun(core, *core.conversion.to_exchange(sendbuf, recvbuf, dest), dest, sendtag, source, recvtag, status)
        )

    def Sendrecv_replace(
        self,
        buf: BufSpec,
        dest: int,
        sendtag: int = 0,
        source: int = ANY_SOURCE,
        recvtag: int = ANY_TAG,
        status: Status | None = None,
    ) -> None:
        """Send what is in a buffer, and receive into the same (section 3.10)."""
        core = self._entered("Sendrecv_replace(...)")
        self._exchange(*_begun(core, *core.conversion.to_replace(buf, dest), dest, sendtag, source, recvtag, status))

    def Isendrecv(
        self,
        sendbuf: BufSpec,
        dest: int,
        sendtag: int = 0,
        recvbuf: BufSpec = None,
        source: int = ANY_SOURCE,
        recvtag: int = ANY_TAG,
    ) -> Request[Status]:
        """Start to send one buffer and to receive into another (MPI_Isendrecv, MPI-4); see `Sendrecv`."""
        core = self._admitted
        memory = core.conversion.to_exchange(sendbuf, recvbuf, dest)
        return Request._denote(sendrecv(*_begun(core, *memory, dest, sendtag, source, recvtag)))

    def Isendrecv_replace(
        self, buf: BufSpec, dest: int, sendtag: int = 0, source: int = ANY_SOURCE, recvtag: int = ANY_TAG
    ) -> Request[Status]:
        """Start to send what is in a buffer, and to receive into the same (MPI_Isendrecv_replace, MPI-4)."""
        core = self._admitted
        memory = core.conversion.to_replace(buf, dest)
        return Request._denote(sendrecv(*_begun(core, *memory, dest, sendtag, source, recvtag)))

    def _exchange(self, receive: EngineRequest[T], send: Callable[[], EngineRequest[None]]) -> T:
        try:
            sending = send()
            del send  # an error keeps this frame, and shall not keep the memory
            self._finish(sending)
            del sending
        except BaseException:
            receive.withdraw()
            raise
        return self._finish(receive)

    # Persistent requests (section 3.9).

    def Recv_init(self, buf: BufSpec, source: int = ANY_SOURCE, tag: int = ANY_TAG) -> Prequest[Status]:
        """Bind the arguments of `Irecv` (section 3.9)."""
        return Prequest._denote(self._admitted.recv_init(self._core.conversion.to_receive(buf), source, tag))

    # Python objects.

    def isend(self, obj: object, dest: int, tag: int = 0) -> Request[None]:
        """Start sending an object, standard mode (section 3.7).

        As in mpi4py, the object may be changed at once: arrays in it are copied unless they have been sent already.
        """
        return Request._denote(_start_copy(self._admitted, obj, dest, tag, Mode.STANDARD))

    def ibsend(self, obj: object, dest: int, tag: int = 0) -> Request[None]:
        """Start sending an object, buffered mode (sections 3.4 and 3.6)."""
        return Request._denote(_start_object(self._admitted, obj, dest, tag, Mode.BUFFERED))

    def issend(self, obj: object, dest: int, tag: int = 0) -> Request[None]:
        """Start sending an object, synchronous mode (section 3.4); see `isend`."""
        return Request._denote(_start_copy(self._admitted, obj, dest, tag, Mode.SYNCHRONOUS))

    def irsend(self, obj: object, dest: int, tag: int = 0) -> Request[None]:
        """Start sending an object, ready mode (section 3.4): the receive must be posted; see `isend`."""
        return Request._denote(_start_copy(self._admitted, obj, dest, tag, Mode.READY))

    def irecv(self, buf: Buffer | None = None, source: int = ANY_SOURCE, tag: int = ANY_TAG) -> Request[Any]:
        """Start receiving an object of any size (section 3.7).

        Args:
            buf: ignored: objects of any size are received without a buffer.
        """
        receive = self._admitted.irecv(None, source, tag, process.codec.loads)
        if source == ANY_SOURCE:
            receive.stay()
        return Request._denote(receive)

    def send(self, obj: object, dest: int, tag: int = 0) -> None:
        """Send an object, standard mode (section 3.2.1)."""
        core = self._entered("send(obj, dest)")
        payload, nbytes = process.codec.dumps(obj)
        request = core.send(payload, nbytes, dest, tag)
        if not request._done or request._error is not None:
            self._finish(request)

    def bsend(self, obj: object, dest: int, tag: int = 0) -> None:
        """Send an object, buffered mode (sections 3.4 and 3.6)."""
        self._finish(_start_object(self._entered("bsend(obj, dest)"), obj, dest, tag, Mode.BUFFERED))

    def ssend(self, obj: object, dest: int, tag: int = 0) -> None:
        """Send an object, synchronous mode (section 3.4)."""
        self._finish(_start_object(self._entered("ssend(obj, dest)"), obj, dest, tag, Mode.SYNCHRONOUS))

    def rsend(self, obj: object, dest: int, tag: int = 0) -> None:
        """Send an object, ready mode (section 3.4): the receive must be posted."""
        self._finish(_start_object(self._entered("rsend(obj, dest)"), obj, dest, tag, Mode.READY))

    def recv(
        self, buf: Buffer | None = None, source: int = ANY_SOURCE, tag: int = ANY_TAG, status: Status | None = None
    ) -> Any:
        """Receive an object of any size (section 3.2.4).

        Args:
            buf: ignored, with a warning: objects of any size are received without a buffer.
        """
        if buf is not None:
            _warn_of_buffer("buf")
        request = self._entered("recv(source)").irecv(None, source, tag, process.codec.loads, status)
        if not request._done:
            wait(request)
        return request.result()

    def sendrecv(
        self,
        sendobj: object,
        dest: int,
        sendtag: int = 0,
        recvbuf: BufSpec = None,
        source: int = ANY_SOURCE,
        recvtag: int = ANY_TAG,
        status: Status | None = None,
    ) -> Any:
        """Send an object and receive another, without deadlock (section 3.10).

        Args:
            recvbuf: ignored, with a warning: objects of any size are received without a buffer.
        """
        if recvbuf is not None:
            _warn_of_buffer("recvbuf")
        received = self._entered("sendrecv(...)").irecv(None, source, recvtag, process.codec.loads, status)
        return self._exchange(received, lambda: _start_object(self._admitted, sendobj, dest, sendtag, Mode.STANDARD))

    # Probes (section 3.8).

    def Probe(self, source: int = ANY_SOURCE, tag: int = ANY_TAG, status: Status | None = None) -> bool:
        """Wait for a message without receiving it (MPI_Probe, section 3.8).

        Returns:
            True.
        """
        envelope = self._finish(self._entered("probe(source, tag)").probe(source, tag))
        if status is not None:
            status.assign(envelope)
        return True

    def Iprobe(self, source: int = ANY_SOURCE, tag: int = ANY_TAG, status: Status | None = None) -> bool:
        """Look for a message without receiving it (MPI_Iprobe, section 3.8).

        Returns:
            True if there is a message that a receive would get now.
        """
        envelope = self._admitted.iprobe(source, tag)
        if envelope is None:
            process.driver.poll()
            envelope = self._admitted.iprobe(source, tag)
        if envelope is not None and status is not None:
            status.assign(envelope)
        return envelope is not None

    def Mprobe(self, source: int = ANY_SOURCE, tag: int = ANY_TAG, status: Status | None = None) -> Message:
        """Wait for a message and take it: no receive but the message's own can get it (MPI_Mprobe, MPI-3)."""
        core = self._entered("mprobe(source, tag)")
        return self._finish(core.mprobe(source, tag, lambda message: self._taken(message, status)))

    def Improbe(self, source: int = ANY_SOURCE, tag: int = ANY_TAG, status: Status | None = None) -> Message | None:
        """Take the message that a receive would get now, None if there is none (MPI_Improbe, MPI-3)."""
        found, message = self._admitted.improbe(source, tag)
        if not found:
            process.driver.poll()
            found, message = self._admitted.improbe(source, tag)
        return self._taken(message, status) if found else None

    def _taken(self, message: engine.Message | None, status: Status | None) -> Message:
        if status is not None:
            status.assign(self._core.envelope(message))  # progress may call this while the rank sleeps
        return Message._of(self._core, message)

    probe = Probe
    iprobe = Iprobe
    mprobe = Mprobe
    improbe = Improbe

    # Memory for buffered mode (section 3.6).

    def Attach_buffer(self, buf: BufSpec | BufferAutomatic) -> None:
        """Give memory to the buffered sends of this communicator (MPI_Comm_attach_buffer, MPI-4.1)."""
        attach(self._admitted.attachment, buf)

    def Detach_buffer(self) -> Any:
        """Take the attached memory back when the messages in it have left (MPI_Comm_detach_buffer, MPI-4.1)."""
        return self._finish(self._entered("Detach_buffer()").attachment.detach())

    def Flush_buffer(self) -> None:
        """Wait until the messages in the attached buffer have left (MPI_Comm_flush_buffer, MPI-4.1)."""
        self._finish(self._entered("Flush_buffer()").attachment.flush())

    def Iflush_buffer(self) -> Request[None]:
        """Start to wait until the messages in the attached buffer have left (MPI_Comm_iflush_buffer, MPI-4.1)."""
        return Request._denote(self._admitted.attachment.flush())


def _begun(
    core: Communicator,
    memory: bytes | memoryview,
    target: memoryview | Scattered,
    dest: int,
    sendtag: int,
    source: int,
    recvtag: int,
    status: Status | None = None,
) -> tuple[engine.Receive, Callable[[], EngineRequest[None]]]:
    """Start a receive, and return it with a function that starts the send; no frame keeps the buffers then."""
    receive = core.irecv(target, source, recvtag, None, status)
    return receive, functools.partial(core.send, (memory,), len(memory), dest, sendtag)


def _start_buffer(core: Communicator, buf: BufSpec, dest: int, tag: int, mode: Mode) -> EngineRequest[None]:
    memory = core.conversion.to_send(buf, dest)
    return core.isend((memory,), len(memory), dest, tag, mode)


def _start_object(core: Communicator, obj: object, dest: int, tag: int, mode: Mode) -> EngineRequest[None]:
    payload, nbytes = process.codec.dumps(obj)
    return core.isend(payload, nbytes, dest, tag, mode)


def _start_copy(core: Communicator, obj: object, dest: int, tag: int, mode: Mode) -> EngineRequest[None]:
    """Start a send of an object that may be changed before it has been sent."""
    payload, nbytes = process.codec.dumps(obj)
    own = len(payload) == 1 and type(payload[0]) is bytes
    if not own and nbytes > core.engine.shm_eager_limit:
        payload, own = [joined(payload, nbytes)], True  # from which the receiver may copy it later
    request = core.isend(payload, nbytes, dest, tag, mode)
    if not own and isinstance(request, Send) and not request.released and not request.done():
        request.detach()
    return request


def _warn_of_buffer(name: str) -> None:
    warnings.warn(f"the argument {name!r} is deprecated: objects of any size are received without", UserWarning, 3)
