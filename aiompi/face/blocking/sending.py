# Written by aiompi/face/generate from native/sending.py, generate/blocking/sending.py: edit these files.
"""Sends of the blocking face (chapter 3)."""

from __future__ import annotations

from sys import modules
from typing import Any

from aiompi.comm import Communicator
from aiompi.core.allocation import joined
from aiompi.datatype.buffer.address import BufferAutomatic
from aiompi.driver.threads import ASYNCIO_EVENTS, loop_is_running
from aiompi.engine import Mode, Send
from aiompi.engine import Request as EngineRequest
from aiompi.face.blocking.handle import Handle
from aiompi.face.blocking.process import process
from aiompi.face.blocking.request_kinds import Prequest
from aiompi.face.blocking.requests import Request
from aiompi.face.common import attach
from aiompi.typing import BufSpec


class ObjectSends(Handle):
    """The sends of objects."""

    __slots__ = ()

    def _isend_object(self, obj: object, dest: int, tag: int, mode: Mode) -> EngineRequest[None]:
        return start_object(self._admitted, obj, dest, tag, mode)

    def isend(self, obj: object, dest: int, tag: int = 0) -> Request[None]:
        """Start to send an object, standard mode (section 3.4).

        As in mpi4py, the object may be changed at once.

        Args:
            obj: any object that can be pickled; arrays in it are copied unless they have been sent at once.
            dest: rank, or PROC_NULL.
            tag: 0..TAG_UB.

        Returns:
            A request; `Wait` or `Test` completes it.

        Raises:
            InvalidRankError, InvalidTagError: an argument is out of range.
            InvalidTypeError: the object cannot be turned into a message.
            ProcessFailedError: completing it: the other rank has failed.
        """
        return Request._denote(_start_copy(self._admitted, obj, dest, tag, Mode.STANDARD))

    def ibsend(self, obj: object, dest: int, tag: int = 0) -> Request[None]:
        """Start to send an object, buffered mode (sections 3.4 and 3.6).

        The send is complete when the message is in the attached buffer: at once, unless the object has many items.

        Args:
            obj: any object that can be pickled; it must not be changed before the send is complete.
            dest: rank, or PROC_NULL.
            tag: 0..TAG_UB.

        Returns:
            A request; `Wait` or `Test` completes it.

        Raises:
            InvalidRankError, InvalidTagError: an argument is out of range.
            InvalidTypeError: the object cannot be turned into a message.
            InvalidBufferError: the attached buffer has too little room, or no buffer is attached.
            ProcessFailedError: completing it: the other rank has failed.
        """
        return Request._denote(self._isend_object(obj, dest, tag, Mode.BUFFERED))

    def issend(self, obj: object, dest: int, tag: int = 0) -> Request[None]:
        """Start to send an object, synchronous mode (section 3.4).

        The send is complete when a receive has matched it.

        Args:
            obj: any object that can be pickled; arrays in it are copied unless they have been sent at once.
            dest: rank, or PROC_NULL.
            tag: 0..TAG_UB.

        Returns:
            A request; `Wait` or `Test` completes it.

        Raises:
            InvalidRankError, InvalidTagError: an argument is out of range.
            InvalidTypeError: the object cannot be turned into a message.
            ProcessFailedError: completing it: the other rank has failed.
        """
        return Request._denote(_start_copy(self._admitted, obj, dest, tag, Mode.SYNCHRONOUS))

    def irsend(self, obj: object, dest: int, tag: int = 0) -> Request[None]:
        """Start to send an object, ready mode (section 3.4).

        The matching receive must be posted already.

        Args:
            obj: any object that can be pickled; arrays in it are copied unless they have been sent at once.
            dest: rank, or PROC_NULL.
            tag: 0..TAG_UB.

        Returns:
            A request; `Wait` or `Test` completes it.

        Raises:
            InvalidRankError, InvalidTagError: an argument is out of range.
            InvalidTypeError: the object cannot be turned into a message.
            OtherError: completing it: no receive was posted.
            ProcessFailedError: completing it: the other rank has failed.
        """
        return Request._denote(_start_copy(self._admitted, obj, dest, tag, Mode.READY))

    def send(self, obj: object, dest: int, tag: int = 0) -> None:
        """Send an object, standard mode (section 3.4).

        Args:
            obj: any object that can be pickled.
            dest: rank, or PROC_NULL.
            tag: 0..TAG_UB.

        Raises:
            InvalidRankError, InvalidTagError: an argument is out of range.
            InvalidTypeError: the object cannot be turned into a message.
            ProcessFailedError: the other rank has failed.
            BlockingCallError: an event loop is running in this thread.

        Example:
            comm.send({"answer": 42}, dest=1, tag=7)
        """
        if ASYNCIO_EVENTS in modules and loop_is_running():
            self._entered("send(obj, dest)")
        core = self._core
        if core.send_object(process.codec, obj, dest, tag):
            return
        payload, nbytes = process.codec.dumps(obj)
        request = core.send(payload, nbytes, dest, tag)
        if not request._done or request._error is not None:
            self._finish(request)

    def bsend(self, obj: object, dest: int, tag: int = 0) -> None:
        """Send an object, buffered mode (sections 3.4 and 3.6).

        The send is complete when the message is in the attached buffer: at once, unless the object has many items.

        Args:
            obj: any object that can be pickled; it must not be changed before the send is complete.
            dest: rank, or PROC_NULL.
            tag: 0..TAG_UB.

        Raises:
            InvalidRankError, InvalidTagError: an argument is out of range.
            InvalidTypeError: the object cannot be turned into a message.
            InvalidBufferError: the attached buffer has too little room, or no buffer is attached.
            ProcessFailedError: the other rank has failed.
            BlockingCallError: an event loop is running in this thread.
        """
        self._entered("bsend(obj, dest, tag)")
        self._finish(self._isend_object(obj, dest, tag, Mode.BUFFERED))

    def ssend(self, obj: object, dest: int, tag: int = 0) -> None:
        """Send an object, synchronous mode (section 3.4).

        The send is complete when a receive has matched it.

        Args:
            obj: any object that can be pickled; it must not be changed before the send is complete.
            dest: rank, or PROC_NULL.
            tag: 0..TAG_UB.

        Raises:
            InvalidRankError, InvalidTagError: an argument is out of range.
            InvalidTypeError: the object cannot be turned into a message.
            ProcessFailedError: the other rank has failed.
            BlockingCallError: an event loop is running in this thread.
        """
        self._entered("ssend(obj, dest, tag)")
        self._finish(self._isend_object(obj, dest, tag, Mode.SYNCHRONOUS))

    def rsend(self, obj: object, dest: int, tag: int = 0) -> None:
        """Send an object, ready mode (section 3.4).

        The matching receive must be posted already.

        Args:
            obj: any object that can be pickled; it must not be changed before the send is complete.
            dest: rank, or PROC_NULL.
            tag: 0..TAG_UB.

        Raises:
            InvalidRankError, InvalidTagError: an argument is out of range.
            InvalidTypeError: the object cannot be turned into a message.
            OtherError: no receive was posted.
            ProcessFailedError: the other rank has failed.
            BlockingCallError: an event loop is running in this thread.
        """
        self._entered("rsend(obj, dest, tag)")
        self._finish(self._isend_object(obj, dest, tag, Mode.READY))


class BufferSends(Handle):
    """The sends of buffers, and the memory for buffered ones (section 3.6)."""

    __slots__ = ()

    def _isend_buffer(self, buf: BufSpec, dest: int, tag: int, mode: Mode) -> EngineRequest[None]:
        core = self._admitted
        memory = core.conversion.to_send(buf, dest)
        return core.isend((memory,), len(memory), dest, tag, mode)

    def Isend(self, buf: BufSpec, dest: int, tag: int = 0) -> Request[None]:
        """Start to send a buffer, standard mode (section 3.4).

        Args:
            buf: a buffer specification: an object with the buffer protocol, `[buf, type]`, `[buf, count, type]`; it
                must not be changed before the send is complete.
            dest: rank, or PROC_NULL.
            tag: 0..TAG_UB.

        Returns:
            A request; `Wait` or `Test` completes it.

        Raises:
            InvalidBufferError, InvalidCountError, InvalidTypeError: the buffer specification is wrong.
            InvalidRankError, InvalidTagError: an argument is out of range.
            ProcessFailedError: completing it: the other rank has failed.
        """
        core = self._core
        sent: Request[None] | None = core.isend_short(buf, dest, tag, Request)
        if sent is not None:
            return sent
        memory = core.conversion.to_send(buf, dest)
        return Request._denote(core.isend((memory,), len(memory), dest, tag))

    def Ibsend(self, buf: BufSpec, dest: int, tag: int = 0) -> Request[None]:
        """Start to send a buffer, buffered mode (sections 3.4 and 3.6).

        The send is complete at once: the message waits in the attached buffer.

        Args:
            buf: a buffer specification: an object with the buffer protocol, `[buf, type]`, `[buf, count, type]`; it
                must not be changed before the send is complete.
            dest: rank, or PROC_NULL.
            tag: 0..TAG_UB.

        Returns:
            A request; `Wait` or `Test` completes it.

        Raises:
            InvalidBufferError, InvalidCountError, InvalidTypeError: the buffer specification is wrong.
            InvalidRankError, InvalidTagError: an argument is out of range.
            InvalidBufferError: the attached buffer has too little room, or no buffer is attached.
            ProcessFailedError: completing it: the other rank has failed.
        """
        return Request._denote(self._isend_buffer(buf, dest, tag, Mode.BUFFERED))

    def Issend(self, buf: BufSpec, dest: int, tag: int = 0) -> Request[None]:
        """Start to send a buffer, synchronous mode (section 3.4).

        The send is complete when a receive has matched it.

        Args:
            buf: a buffer specification: an object with the buffer protocol, `[buf, type]`, `[buf, count, type]`; it
                must not be changed before the send is complete.
            dest: rank, or PROC_NULL.
            tag: 0..TAG_UB.

        Returns:
            A request; `Wait` or `Test` completes it.

        Raises:
            InvalidBufferError, InvalidCountError, InvalidTypeError: the buffer specification is wrong.
            InvalidRankError, InvalidTagError: an argument is out of range.
            ProcessFailedError: completing it: the other rank has failed.
        """
        return Request._denote(self._isend_buffer(buf, dest, tag, Mode.SYNCHRONOUS))

    def Irsend(self, buf: BufSpec, dest: int, tag: int = 0) -> Request[None]:
        """Start to send a buffer, ready mode (section 3.4).

        The matching receive must be posted already.

        Args:
            buf: a buffer specification: an object with the buffer protocol, `[buf, type]`, `[buf, count, type]`; it
                must not be changed before the send is complete.
            dest: rank, or PROC_NULL.
            tag: 0..TAG_UB.

        Returns:
            A request; `Wait` or `Test` completes it.

        Raises:
            InvalidBufferError, InvalidCountError, InvalidTypeError: the buffer specification is wrong.
            InvalidRankError, InvalidTagError: an argument is out of range.
            OtherError: completing it: no receive was posted.
            ProcessFailedError: completing it: the other rank has failed.
        """
        return Request._denote(self._isend_buffer(buf, dest, tag, Mode.READY))

    def Send(self, buf: BufSpec, dest: int, tag: int = 0) -> None:
        """Send a buffer, standard mode (section 3.4).

        Args:
            buf: a buffer specification: an object with the buffer protocol, `[buf, type]`, `[buf, count, type]`; it
                must not be changed before the send is complete.
            dest: rank, or PROC_NULL.
            tag: 0..TAG_UB.

        Raises:
            InvalidBufferError, InvalidCountError, InvalidTypeError: the buffer specification is wrong.
            InvalidRankError, InvalidTagError: an argument is out of range.
            ProcessFailedError: the other rank has failed.
            BlockingCallError: an event loop is running in this thread.

        Example:
            comm.Send(np.arange(10.0), dest=1, tag=7)
        """
        if ASYNCIO_EVENTS in modules and loop_is_running():
            self._entered("Send(buf, dest)")
        core = self._core
        if core.send_short(buf, dest, tag):
            return
        memory = core.conversion.to_send(buf, dest)
        request = core.send((memory,), len(memory), dest, tag)
        if not request._done or request._error is not None:
            self._finish(request)

    def Bsend(self, buf: BufSpec, dest: int, tag: int = 0) -> None:
        """Send a buffer, buffered mode (sections 3.4 and 3.6).

        The send is complete at once: the message waits in the attached buffer.

        Args:
            buf: a buffer specification: an object with the buffer protocol, `[buf, type]`, `[buf, count, type]`; it
                must not be changed before the send is complete.
            dest: rank, or PROC_NULL.
            tag: 0..TAG_UB.

        Raises:
            InvalidBufferError, InvalidCountError, InvalidTypeError: the buffer specification is wrong.
            InvalidRankError, InvalidTagError: an argument is out of range.
            InvalidBufferError: the attached buffer has too little room, or no buffer is attached.
            ProcessFailedError: the other rank has failed.
            BlockingCallError: an event loop is running in this thread.
        """
        self._entered("Bsend(buf, dest, tag)")
        self._finish(self._isend_buffer(buf, dest, tag, Mode.BUFFERED))

    def Ssend(self, buf: BufSpec, dest: int, tag: int = 0) -> None:
        """Send a buffer, synchronous mode (section 3.4).

        The send is complete when a receive has matched it.

        Args:
            buf: a buffer specification: an object with the buffer protocol, `[buf, type]`, `[buf, count, type]`; it
                must not be changed before the send is complete.
            dest: rank, or PROC_NULL.
            tag: 0..TAG_UB.

        Raises:
            InvalidBufferError, InvalidCountError, InvalidTypeError: the buffer specification is wrong.
            InvalidRankError, InvalidTagError: an argument is out of range.
            ProcessFailedError: the other rank has failed.
            BlockingCallError: an event loop is running in this thread.
        """
        self._entered("Ssend(buf, dest, tag)")
        self._finish(self._isend_buffer(buf, dest, tag, Mode.SYNCHRONOUS))

    def Rsend(self, buf: BufSpec, dest: int, tag: int = 0) -> None:
        """Send a buffer, ready mode (section 3.4).

        The matching receive must be posted already.

        Args:
            buf: a buffer specification: an object with the buffer protocol, `[buf, type]`, `[buf, count, type]`; it
                must not be changed before the send is complete.
            dest: rank, or PROC_NULL.
            tag: 0..TAG_UB.

        Raises:
            InvalidBufferError, InvalidCountError, InvalidTypeError: the buffer specification is wrong.
            InvalidRankError, InvalidTagError: an argument is out of range.
            OtherError: no receive was posted.
            ProcessFailedError: the other rank has failed.
            BlockingCallError: an event loop is running in this thread.
        """
        self._entered("Rsend(buf, dest, tag)")
        self._finish(self._isend_buffer(buf, dest, tag, Mode.READY))

    def Send_init(self, buf: BufSpec, dest: int, tag: int = 0) -> Prequest[None]:
        """Bind the arguments of `Isend`; each start sends the current contents of the buffer (section 3.9).

        Args:
            buf: a buffer specification: an object with the buffer protocol, `[buf, type]`, `[buf, count, type]`; it
                must not be changed before a run is complete.
            dest: rank, or PROC_NULL.
            tag: 0..TAG_UB.

        Returns:
            An inactive persistent request; `Start` starts it.

        Raises:
            InvalidBufferError, InvalidCountError, InvalidTypeError: the buffer specification is wrong.
            InvalidRankError, InvalidTagError: an argument is out of range.
            ProcessFailedError: completing it: the other rank has failed.
        """
        core = self._admitted
        return Prequest._denote(core.send_init(core.conversion.prepare(buf, dest), dest, tag, Mode.STANDARD))

    def Bsend_init(self, buf: BufSpec, dest: int, tag: int = 0) -> Prequest[None]:
        """Bind the arguments of `Ibsend`; each start sends the current contents of the buffer (section 3.9).

        Args:
            buf: a buffer specification: an object with the buffer protocol, `[buf, type]`, `[buf, count, type]`; it
                must not be changed before a run is complete.
            dest: rank, or PROC_NULL.
            tag: 0..TAG_UB.

        Returns:
            An inactive persistent request; `Start` starts it.

        Raises:
            InvalidBufferError, InvalidCountError, InvalidTypeError: the buffer specification is wrong.
            InvalidRankError, InvalidTagError: an argument is out of range.
            InvalidBufferError: the attached buffer has too little room, or no buffer is attached.
            ProcessFailedError: completing it: the other rank has failed.
        """
        core = self._admitted
        return Prequest._denote(core.send_init(core.conversion.prepare(buf, dest), dest, tag, Mode.BUFFERED))

    def Ssend_init(self, buf: BufSpec, dest: int, tag: int = 0) -> Prequest[None]:
        """Bind the arguments of `Issend`; each start sends the current contents of the buffer (section 3.9).

        Args:
            buf: a buffer specification: an object with the buffer protocol, `[buf, type]`, `[buf, count, type]`; it
                must not be changed before a run is complete.
            dest: rank, or PROC_NULL.
            tag: 0..TAG_UB.

        Returns:
            An inactive persistent request; `Start` starts it.

        Raises:
            InvalidBufferError, InvalidCountError, InvalidTypeError: the buffer specification is wrong.
            InvalidRankError, InvalidTagError: an argument is out of range.
            ProcessFailedError: completing it: the other rank has failed.
        """
        core = self._admitted
        return Prequest._denote(core.send_init(core.conversion.prepare(buf, dest), dest, tag, Mode.SYNCHRONOUS))

    def Rsend_init(self, buf: BufSpec, dest: int, tag: int = 0) -> Prequest[None]:
        """Bind the arguments of `Irsend`; the matching receive must be posted before each start (section 3.9).

        Args:
            buf: a buffer specification: an object with the buffer protocol, `[buf, type]`, `[buf, count, type]`; it
                must not be changed before a run is complete.
            dest: rank, or PROC_NULL.
            tag: 0..TAG_UB.

        Returns:
            An inactive persistent request; `Start` starts it.

        Raises:
            InvalidBufferError, InvalidCountError, InvalidTypeError: the buffer specification is wrong.
            InvalidRankError, InvalidTagError: an argument is out of range.
            OtherError: completing it: no receive was posted.
            ProcessFailedError: completing it: the other rank has failed.
        """
        core = self._admitted
        return Prequest._denote(core.send_init(core.conversion.prepare(buf, dest), dest, tag, Mode.READY))

    def Attach_buffer(self, buf: BufSpec | BufferAutomatic) -> None:
        """Give memory to the buffered sends of this communicator (MPI_Comm_attach_buffer, MPI-4.1).

        Args:
            buf: writable memory. Each message takes its length and BSEND_OVERHEAD bytes of it. None: each message gets
                new memory.

        Raises:
            InvalidBufferError: a buffer is attached already, or `buf` is read-only.
        """
        attach(self._admitted.attachment, buf)

    def Detach_buffer(self) -> Any:
        """Take the attached memory back when the messages in it have left (MPI_Comm_detach_buffer, MPI-4.1).

        Returns:
            The object that was attached.

        Raises:
            InvalidBufferError: no buffer is attached.
            BlockingCallError: an event loop is running in this thread.
        """
        return self._finish(self._entered("Detach_buffer()").attachment.detach())

    def Flush_buffer(self) -> None:
        """Wait until the messages in the attached buffer have left (MPI_Comm_flush_buffer, MPI-4.1).

        Raises:
            InvalidBufferError: no buffer is attached.
            BlockingCallError: an event loop is running in this thread.
        """
        self._finish(self._entered("Flush_buffer()").attachment.flush())

    def Iflush_buffer(self) -> Request[None]:
        """Start a `Flush_buffer` (MPI_Comm_iflush_buffer, MPI-4.1).

        Returns:
            A request; `Wait` or `Test` completes it.

        Raises:
            InvalidBufferError: no buffer is attached.
        """
        return Request._denote(self._admitted.attachment.flush())


def start_object(core: Communicator, obj: object, dest: int, tag: int, mode: Mode) -> EngineRequest[None]:
    payload, nbytes = process.codec.dumps(obj)
    return core.isend(payload, nbytes, dest, tag, mode)


def _start_copy(core: Communicator, obj: object, dest: int, tag: int, mode: Mode) -> EngineRequest[None]:
    """Start a send of an object that may be changed before it has been sent."""
    payload, nbytes = process.codec.dumps(obj)
    own = len(payload) == 1 and type(payload[0]) is bytes
    if not own and nbytes > core.engine.shm_eager_limit:
        payload, own = [joined(payload, nbytes)], True  # the receiver may copy from this memory later
    request = core.isend(payload, nbytes, dest, tag, mode)
    if not own and isinstance(request, Send) and not request.released and not request.done():
        request.detach()
    return request
