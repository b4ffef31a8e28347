# Written by aiompi/face/generate from native/receiving.py, generate/blocking/receiving.py: edit these files.
"""Receives and probes of the blocking face (chapter 3)."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from sys import modules
from typing import Any, TypeVar

from aiompi import engine
from aiompi.comm import Communicator
from aiompi.constants import ANY_SOURCE, ANY_TAG
from aiompi.driver.threads import ASYNCIO_EVENTS, loop_is_running
from aiompi.engine import Mode, Scattered
from aiompi.engine import Request as EngineRequest
from aiompi.engine.sendrecv import sendrecv
from aiompi.face.blocking.handle import Handle
from aiompi.face.blocking.message import Message
from aiompi.face.blocking.process import process, wait
from aiompi.face.blocking.request_kinds import Prequest
from aiompi.face.blocking.requests import Request
from aiompi.face.blocking.sending import start_object
from aiompi.status import Status
from aiompi.typing import Buffer, BufSpec

T = TypeVar("T")


class Receives(Handle):
    """The receives, alone and together with a send."""

    __slots__ = ()

    def _exchange(self, receive: EngineRequest[T], send: Callable[[], EngineRequest[None]]) -> T:
        try:
            sending = send()
            del send  # the traceback of an error keeps this frame, which must not keep the memory
            self._finish(sending)
            del sending
        except BaseException:
            receive.withdraw()
            raise
        return self._finish(receive)

    def irecv(self, buf: Buffer | None = None, source: int = ANY_SOURCE, tag: int = ANY_TAG) -> Request[Any]:
        """Start to receive an object of any size (section 3.7).

        Args:
            buf: ignored: objects of any size are received without a buffer.
            source: rank, ANY_SOURCE or PROC_NULL.
            tag: 0..TAG_UB or ANY_TAG.

        Returns:
            A request whose result is the object; None from PROC_NULL.

        Raises:
            InvalidRankError, InvalidTagError: an argument is out of range.
            ProcessFailedError: completing it: the other rank has failed.
        """
        receive = self._admitted.irecv(None, source, tag, process.codec.loads)
        if source == ANY_SOURCE:
            receive.stay()
        return Request._denote(receive)

    def recv(
        self, buf: Buffer | None = None, source: int = ANY_SOURCE, tag: int = ANY_TAG, status: Status | None = None
    ) -> Any:
        """Receive an object of any size (section 3.2.4).

        Args:
            buf: ignored, with a warning: objects of any size are received without a buffer.
            source: rank, ANY_SOURCE or PROC_NULL.
            tag: 0..TAG_UB or ANY_TAG.
            status: filled with the envelope of the message.

        Returns:
            The object; None from PROC_NULL.

        Raises:
            InvalidRankError, InvalidTagError: an argument is out of range.
            ProcessFailedError: the other rank has failed.
            BlockingCallError: an event loop is running in this thread.

        Example:
            status = MPI.Status()
            obj = comm.recv(source=MPI.ANY_SOURCE, tag=7, status=status)
        """
        if buf is not None:
            _warn_of_buffer("buf")
        if ASYNCIO_EVENTS in modules and loop_is_running():
            self._entered("recv(source)")
        request = self._core.recv_object(process.codec.loads, source, tag, status)
        if not request._done:
            wait(request)
        return request.result()

    def Irecv(self, buf: BufSpec, source: int = ANY_SOURCE, tag: int = ANY_TAG) -> Request[Status]:
        """Start to receive into a buffer (section 3.7).

        Args:
            buf: a writable buffer specification, at least as long as the message; it must not be touched before the
                receive is complete.
            source: rank, ANY_SOURCE or PROC_NULL.
            tag: 0..TAG_UB or ANY_TAG.

        Returns:
            A request whose result is the Status.

        Raises:
            InvalidBufferError, InvalidCountError, InvalidTypeError: the buffer specification is wrong.
            InvalidRankError, InvalidTagError: an argument is out of range.
            TruncationError: completing it: the message is longer than the buffer.
            ProcessFailedError: completing it: the other rank has failed.
        """
        core = self._core
        short: Request[Status] | None = core.irecv_short(buf, source, tag, Request)
        if short is not None:
            return short
        receive = core.irecv(core.conversion.to_receive(buf), source, tag)
        if source == ANY_SOURCE:
            receive.stay()
        return Request._denote(receive)

    def Recv(self, buf: BufSpec, source: int = ANY_SOURCE, tag: int = ANY_TAG, status: Status | None = None) -> None:
        """Receive into a buffer (section 3.2.4).

        Args:
            buf: a writable buffer specification, at least as long as the message; it must not be touched before the
                receive is complete.
            source: rank, ANY_SOURCE or PROC_NULL.
            tag: 0..TAG_UB or ANY_TAG.
            status: filled with the envelope of the message.

        Raises:
            InvalidBufferError, InvalidCountError, InvalidTypeError: the buffer specification is wrong.
            InvalidRankError, InvalidTagError: an argument is out of range.
            TruncationError: the message is longer than the buffer.
            ProcessFailedError: the other rank has failed.
            BlockingCallError: an event loop is running in this thread.

        Example:
            buf = np.empty(10)
            comm.Recv(buf, source=0)
        """
        if ASYNCIO_EVENTS in modules and loop_is_running():
            self._entered("Recv(buf, source)")
        core = self._core
        request = core.recv_short(buf, source, tag, status)
        if request is None:
            request = core.irecv(core.conversion.to_receive(buf), source, tag, None, status)
        if not request._done:
            wait(request)
        if status is not None or request._error is not None:
            request.result()

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
            sendobj: any object that can be pickled; it must not be changed before the send is complete: large arrays in
                it are not copied. An object of many items is encoded in slices, between which the event loop runs;
                later messages wait until the encoding is done.
            dest: rank, or PROC_NULL.
            sendtag: 0..TAG_UB.
            recvbuf: ignored, with a warning: objects of any size are received without a buffer.
            source: rank, ANY_SOURCE or PROC_NULL.
            recvtag: 0..TAG_UB or ANY_TAG.
            status: filled with the envelope of the received message.

        Returns:
            The received object.

        Raises:
            InvalidRankError, InvalidTagError: an argument is out of range.
            InvalidTypeError: the object cannot be turned into a message.
            ProcessFailedError: the other rank has failed.
            BlockingCallError: an event loop is running in this thread.

        Example:
            right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
            from_left = comm.sendrecv(comm.rank, dest=right, source=left)
        """
        if recvbuf is not None:
            _warn_of_buffer("recvbuf")
        received = self._entered("sendrecv(...)").irecv(None, source, recvtag, process.codec.loads, status)
        return self._exchange(received, lambda: start_object(self._admitted, sendobj, dest, sendtag, Mode.STANDARD))

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
        """Send a buffer and receive into another, without deadlock (section 3.10).

        Args:
            sendbuf: a buffer specification: an object with the buffer protocol, `[buf, type]`, `[buf, count, type]`; it
                must not be changed before the send is complete.
            dest: rank, or PROC_NULL.
            sendtag: 0..TAG_UB.
            recvbuf: a writable buffer specification, at least as long as the message, which must not overlap `sendbuf`.
            source: rank, ANY_SOURCE or PROC_NULL.
            recvtag: 0..TAG_UB or ANY_TAG.
            status: filled with the envelope of the received message.

        Raises:
            InvalidBufferError: the buffers overlap.
            InvalidBufferError, InvalidCountError, InvalidTypeError: the buffer specification is wrong.
            InvalidRankError, InvalidTagError: an argument is out of range.
            TruncationError: the message is longer than the buffer.
            ProcessFailedError: the other rank has failed.
            BlockingCallError: an event loop is running in this thread.

        Example:
            right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
            ours, theirs = np.ones(3), np.empty(3)
            comm.Sendrecv(ours, right, 0, theirs, left)
        """
        core = self._entered("Sendrecv(...)")
        self._exchange(
            *_begun(core, *core.conversion.to_exchange(sendbuf, recvbuf, dest), dest, sendtag, source, recvtag, status)
        )

    def Isendrecv(
        self,
        sendbuf: BufSpec,
        dest: int,
        sendtag: int = 0,
        recvbuf: BufSpec = None,
        source: int = ANY_SOURCE,
        recvtag: int = ANY_TAG,
    ) -> Request[Status]:
        """Start a `Sendrecv` (MPI_Isendrecv, MPI-4).

        Args:
            sendbuf: a buffer specification: an object with the buffer protocol, `[buf, type]`, `[buf, count, type]`; it
                must not be changed before the send is complete.
            dest: rank, or PROC_NULL.
            sendtag: 0..TAG_UB.
            recvbuf: a writable buffer specification, at least as long as the message, which must not overlap `sendbuf`.
            source: rank, ANY_SOURCE or PROC_NULL.
            recvtag: 0..TAG_UB or ANY_TAG.

        Returns:
            A request whose result is the Status of the received message.

        Raises:
            InvalidBufferError: the buffers overlap.
            InvalidBufferError, InvalidCountError, InvalidTypeError: the buffer specification is wrong.
            InvalidRankError, InvalidTagError: an argument is out of range.
            TruncationError: completing it: the message is longer than the buffer.
            ProcessFailedError: completing it: the other rank has failed.
        """
        core = self._admitted
        memory = core.conversion.to_exchange(sendbuf, recvbuf, dest)
        return Request._denote(sendrecv(*_begun(core, *memory, dest, sendtag, source, recvtag)))

    def Sendrecv_replace(
        self,
        buf: BufSpec,
        dest: int,
        sendtag: int = 0,
        source: int = ANY_SOURCE,
        recvtag: int = ANY_TAG,
        status: Status | None = None,
    ) -> None:
        """Send the content of a buffer, and receive into the same buffer (section 3.10).

        Args:
            buf: a writable buffer specification, at least as long as the received message; its content is sent and then
                replaced.
            dest: rank, or PROC_NULL.
            sendtag: 0..TAG_UB.
            source: rank, ANY_SOURCE or PROC_NULL.
            recvtag: 0..TAG_UB or ANY_TAG.
            status: filled with the envelope of the received message.

        Raises:
            InvalidBufferError, InvalidCountError, InvalidTypeError: the buffer specification is wrong.
            InvalidRankError, InvalidTagError: an argument is out of range.
            TruncationError: the message is longer than the buffer.
            ProcessFailedError: the other rank has failed.
            BlockingCallError: an event loop is running in this thread.

        Example:
            right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
            row = np.full(3, comm.rank)
            comm.Sendrecv_replace(row, right, 0, left)
        """
        core = self._entered("Sendrecv_replace(...)")
        self._exchange(*_begun(core, *core.conversion.to_replace(buf, dest), dest, sendtag, source, recvtag, status))

    def Isendrecv_replace(
        self, buf: BufSpec, dest: int, sendtag: int = 0, source: int = ANY_SOURCE, recvtag: int = ANY_TAG
    ) -> Request[Status]:
        """Start a `Sendrecv_replace` (MPI_Isendrecv_replace, MPI-4).

        Args:
            buf: a writable buffer specification, at least as long as the received message; its content is sent and then
                replaced.
            dest: rank, or PROC_NULL.
            sendtag: 0..TAG_UB.
            source: rank, ANY_SOURCE or PROC_NULL.
            recvtag: 0..TAG_UB or ANY_TAG.

        Returns:
            A request whose result is the Status of the received message.

        Raises:
            InvalidBufferError, InvalidCountError, InvalidTypeError: the buffer specification is wrong.
            InvalidRankError, InvalidTagError: an argument is out of range.
            TruncationError: completing it: the message is longer than the buffer.
            ProcessFailedError: completing it: the other rank has failed.
        """
        core = self._admitted
        memory = core.conversion.to_replace(buf, dest)
        return Request._denote(sendrecv(*_begun(core, *memory, dest, sendtag, source, recvtag)))

    def Recv_init(self, buf: BufSpec, source: int = ANY_SOURCE, tag: int = ANY_TAG) -> Prequest[Status]:
        """Bind the arguments of `Irecv` (section 3.9).

        Args:
            buf: a writable buffer specification, at least as long as the message; it must not be touched before a run
                is complete.
            source: rank, ANY_SOURCE or PROC_NULL.
            tag: 0..TAG_UB or ANY_TAG.

        Returns:
            An inactive persistent request; `Start` starts it.

        Raises:
            InvalidBufferError, InvalidCountError, InvalidTypeError: the buffer specification is wrong.
            InvalidRankError, InvalidTagError: an argument is out of range.
            TruncationError: completing it: the message is longer than the buffer.
            ProcessFailedError: completing it: the other rank has failed.
        """
        return Prequest._denote(self._admitted.recv_init(self._core.conversion.to_receive(buf), source, tag))


class Probes(Handle):
    """The probes (section 3.8)."""

    __slots__ = ()

    def _taken(self, message: engine.Message | None, status: Status | None) -> Message:
        if status is not None:
            status.assign(self._core.envelope(message))  # progress may call this while the rank sleeps
        return Message._of(self._core, message)

    def probe(self, source: int = ANY_SOURCE, tag: int = ANY_TAG, status: Status | None = None) -> bool:
        """Wait for a message without receiving it (MPI_Probe, section 3.8).

        Args:
            source: rank, ANY_SOURCE or PROC_NULL.
            tag: 0..TAG_UB or ANY_TAG.
            status: filled with the envelope of the message.

        Returns:
            True.

        Raises:
            InvalidRankError, InvalidTagError: an argument is out of range.
            ProcessFailedError: the other rank has failed.
            BlockingCallError: an event loop is running in this thread.

        Example:
            status = MPI.Status()
            comm.probe(tag=7, status=status)
            obj = comm.recv(source=status.source, tag=status.tag)
        """
        envelope = self._finish(self._entered("probe(source, tag)").probe(source, tag))
        if status is not None:
            status.assign(envelope)
        return True

    def iprobe(self, source: int = ANY_SOURCE, tag: int = ANY_TAG, status: Status | None = None) -> bool:
        """Look for a message without receiving it (MPI_Iprobe, section 3.8).

        Args:
            source: rank, ANY_SOURCE or PROC_NULL.
            tag: 0..TAG_UB or ANY_TAG.
            status: filled with the envelope of the message.

        Returns:
            True if there is a message that a receive would get now.

        Raises:
            InvalidRankError, InvalidTagError: an argument is out of range.
        """
        envelope = self._admitted.iprobe(source, tag)
        if envelope is None:
            process.driver.poll()
            envelope = self._admitted.iprobe(source, tag)
        if envelope is not None and status is not None:
            status.assign(envelope)
        return envelope is not None

    def mprobe(self, source: int = ANY_SOURCE, tag: int = ANY_TAG, status: Status | None = None) -> Message:
        """Wait for a message and take it: only the receives of the `Message` can get it (MPI_Mprobe, MPI-3).

        Args:
            source: rank, ANY_SOURCE or PROC_NULL.
            tag: 0..TAG_UB or ANY_TAG.
            status: filled with the envelope, which the message has as `status`, too.

        Returns:
            The message.

        Raises:
            InvalidRankError, InvalidTagError: an argument is out of range.
            ProcessFailedError: the other rank has failed.
            BlockingCallError: an event loop is running in this thread.

        Example:
            message = comm.mprobe(source=0)
            obj = message.recv()
        """
        core = self._entered("mprobe(source, tag)")
        return self._finish(core.mprobe(source, tag, lambda message: self._taken(message, status)))

    def improbe(self, source: int = ANY_SOURCE, tag: int = ANY_TAG, status: Status | None = None) -> Message | None:
        """Take the message that a receive would get now (MPI_Improbe, MPI-3).

        Only the receives of the `Message` can get it.

        Args:
            source: rank, ANY_SOURCE or PROC_NULL.
            tag: 0..TAG_UB or ANY_TAG.
            status: filled with the envelope, which the message has as `status`, too.

        Returns:
            The message; None if there is none.

        Raises:
            InvalidRankError, InvalidTagError: an argument is out of range.
        """
        found, message = self._admitted.improbe(source, tag)
        if not found:
            process.driver.poll()
            found, message = self._admitted.improbe(source, tag)
        return self._taken(message, status) if found else None

    Probe = probe
    Iprobe = iprobe
    Mprobe = mprobe
    Improbe = improbe


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
    """Start a receive; return the request and a function that starts the send. So no frame refers to the buffers."""
    receive = core.irecv(target, source, recvtag, None, status)
    return receive, functools.partial(core.send, (memory,), len(memory), dest, sendtag)


def _warn_of_buffer(name: str) -> None:
    warnings.warn(f"the argument {name!r} is deprecated: objects of any size are received without", UserWarning, 3)
