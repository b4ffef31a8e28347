# Written by aiompi/face/generate from generate/native/sending.py: edit this file.
"""Sends of the asyncio face (chapter 3)."""

from __future__ import annotations

from typing import Any

from aiompi.datatype.buffer.address import BufferAutomatic
from aiompi.engine import AwaitableCall, Mode, PersistentRequest, Request
from aiompi.face.common import attach
from aiompi.face.native.handle import Handle
from aiompi.objects import Codec
from aiompi.typing import BufSpec


class ObjectSends(Handle):
    """The sends of objects; each starts at once."""

    __slots__ = ()

    _codec: Codec

    def isend(self, obj: object, dest: int, tag: int = 0) -> Request[None]:
        """Start to send an object, standard mode (section 3.4).

        Args:
            obj: any object that can be pickled; it must not be changed before the send is complete: large arrays in it
                are not copied. An object of many items is encoded in slices, between which the event loop runs; later
                messages wait until the encoding is done.
            dest: rank, or PROC_NULL.
            tag: 0..TAG_UB.

        Returns:
            A request, which can be awaited any number of times.

        Raises:
            InvalidRankError, InvalidTagError: an argument is out of range.
            InvalidTypeError: the object cannot be turned into a message.
            ProcessFailedError: awaiting it: the other rank has failed.

        Example:
            request = world.isend([1, 2.5], dest=1)
            await request
        """
        core, codec = self._admitted, self._codec
        if codec.is_large(obj):
            return core.isend_encoded(codec.dumps_in_steps(obj), dest, tag)
        payload, nbytes = codec.dumps(obj)
        return core.isend(payload, nbytes, dest, tag)

    def ibsend(self, obj: object, dest: int, tag: int = 0) -> Request[None]:
        """Start to send an object, buffered mode (sections 3.4 and 3.6).

        The send is complete when the message is in the attached buffer: at once, unless the object has many items.

        Args:
            obj: any object that can be pickled; it must not be changed before the send is complete.
            dest: rank, or PROC_NULL.
            tag: 0..TAG_UB.

        Returns:
            A request, which can be awaited any number of times.

        Raises:
            InvalidRankError, InvalidTagError: an argument is out of range.
            InvalidTypeError: the object cannot be turned into a message.
            InvalidBufferError: the attached buffer has too little room, or no buffer is attached.
            ProcessFailedError: awaiting it: the other rank has failed.
        """
        return self._isend_object(obj, dest, tag, Mode.BUFFERED)

    def issend(self, obj: object, dest: int, tag: int = 0) -> Request[None]:
        """Start to send an object, synchronous mode (section 3.4).

        The send is complete when a receive has matched it.

        Args:
            obj: any object that can be pickled; it must not be changed before the send is complete.
            dest: rank, or PROC_NULL.
            tag: 0..TAG_UB.

        Returns:
            A request, which can be awaited any number of times.

        Raises:
            InvalidRankError, InvalidTagError: an argument is out of range.
            InvalidTypeError: the object cannot be turned into a message.
            ProcessFailedError: awaiting it: the other rank has failed.
        """
        return self._isend_object(obj, dest, tag, Mode.SYNCHRONOUS)

    def irsend(self, obj: object, dest: int, tag: int = 0) -> Request[None]:
        """Start to send an object, ready mode (section 3.4).

        The matching receive must be posted already.

        Args:
            obj: any object that can be pickled; it must not be changed before the send is complete.
            dest: rank, or PROC_NULL.
            tag: 0..TAG_UB.

        Returns:
            A request, which can be awaited any number of times.

        Raises:
            InvalidRankError, InvalidTagError: an argument is out of range.
            InvalidTypeError: the object cannot be turned into a message.
            OtherError: awaiting it: no receive was posted.
            ProcessFailedError: awaiting it: the other rank has failed.
        """
        return self._isend_object(obj, dest, tag, Mode.READY)

    def send(self, obj: object, dest: int, tag: int = 0) -> AwaitableCall[None]:
        """Send an object, standard mode (section 3.4).

        Args:
            obj: any object that can be pickled; it must not be changed before the send is complete: large arrays in it
                are not copied. An object of many items is encoded in slices, between which the event loop runs; later
                messages wait until the encoding is done.
            dest: rank, or PROC_NULL.
            tag: 0..TAG_UB.

        Returns:
            A request, to be awaited once.

        Raises:
            InvalidRankError, InvalidTagError: an argument is out of range.
            InvalidTypeError: the object cannot be turned into a message.
            ProcessFailedError: awaiting it: the other rank has failed.

        Cancelling:
            Cancelling the await, as a time limit does, withdraws the message unless a receive has matched it.

        Example:
            async with asyncio.timeout(10):
                await world.send({"answer": 42}, dest=1, tag=7)
        """
        core, codec = self._core, self._codec
        sent = core.own_send_object(codec, obj, dest, tag)
        if sent is not None:
            return sent
        if codec.is_large(obj):
            return AwaitableCall(core.isend_encoded(codec.dumps_in_steps(obj), dest, tag))
        payload, nbytes = codec.dumps(obj)
        return core.own_send(payload, nbytes, dest, tag)

    def bsend(self, obj: object, dest: int, tag: int = 0) -> AwaitableCall[None]:
        """Send an object, buffered mode (sections 3.4 and 3.6).

        The send is complete when the message is in the attached buffer: at once, unless the object has many items.

        Args:
            obj: any object that can be pickled; it must not be changed before the send is complete.
            dest: rank, or PROC_NULL.
            tag: 0..TAG_UB.

        Returns:
            A request, to be awaited once.

        Raises:
            InvalidRankError, InvalidTagError: an argument is out of range.
            InvalidTypeError: the object cannot be turned into a message.
            InvalidBufferError: the attached buffer has too little room, or no buffer is attached.
            ProcessFailedError: awaiting it: the other rank has failed.

        Cancelling:
            Cancelling the await, as a time limit does, withdraws the message unless a receive has matched it.
        """
        return AwaitableCall(self._isend_object(obj, dest, tag, Mode.BUFFERED))

    def ssend(self, obj: object, dest: int, tag: int = 0) -> AwaitableCall[None]:
        """Send an object, synchronous mode (section 3.4).

        The send is complete when a receive has matched it.

        Args:
            obj: any object that can be pickled; it must not be changed before the send is complete.
            dest: rank, or PROC_NULL.
            tag: 0..TAG_UB.

        Returns:
            A request, to be awaited once.

        Raises:
            InvalidRankError, InvalidTagError: an argument is out of range.
            InvalidTypeError: the object cannot be turned into a message.
            ProcessFailedError: awaiting it: the other rank has failed.

        Cancelling:
            Cancelling the await, as a time limit does, withdraws the message unless a receive has matched it.
        """
        return AwaitableCall(self._isend_object(obj, dest, tag, Mode.SYNCHRONOUS))

    def rsend(self, obj: object, dest: int, tag: int = 0) -> AwaitableCall[None]:
        """Send an object, ready mode (section 3.4).

        The matching receive must be posted already.

        Args:
            obj: any object that can be pickled; it must not be changed before the send is complete.
            dest: rank, or PROC_NULL.
            tag: 0..TAG_UB.

        Returns:
            A request, to be awaited once.

        Raises:
            InvalidRankError, InvalidTagError: an argument is out of range.
            InvalidTypeError: the object cannot be turned into a message.
            OtherError: awaiting it: no receive was posted.
            ProcessFailedError: awaiting it: the other rank has failed.

        Cancelling:
            Cancelling the await, as a time limit does, withdraws the message unless a receive has matched it.
        """
        return AwaitableCall(self._isend_object(obj, dest, tag, Mode.READY))

    def _isend_object(self, obj: object, dest: int, tag: int, mode: Mode) -> Request[None]:
        core, codec = self._admitted, self._codec
        if codec.is_large(obj):
            return core.isend_encoded(codec.dumps_in_steps(obj), dest, tag, mode)
        payload, nbytes = codec.dumps(obj)
        return core.isend(payload, nbytes, dest, tag, mode)


class BufferSends(Handle):
    """The sends of buffers, and the memory for buffered sends (section 3.6); each send starts at once."""

    __slots__ = ()

    def Isend(self, buf: BufSpec, dest: int, tag: int = 0) -> Request[None]:
        """Start to send a buffer, standard mode (section 3.4).

        Args:
            buf: a buffer specification: an object with the buffer protocol, `[buf, type]`, `[buf, count, type]`; it
                must not be changed before the send is complete.
            dest: rank, or PROC_NULL.
            tag: 0..TAG_UB.

        Returns:
            A request, which can be awaited any number of times.

        Raises:
            InvalidBufferError, InvalidCountError, InvalidTypeError: the buffer specification is wrong.
            InvalidRankError, InvalidTagError: an argument is out of range.
            ProcessFailedError: awaiting it: the other rank has failed.

        Example:
            request = world.Isend(np.arange(10.0), dest=1)
            await request
        """
        core = self._core
        sent: Request[None] | None = core.isend_short(buf, dest, tag)
        if sent is not None:
            return sent
        memory = core.conversion.to_send(buf, dest)
        return core.isend((memory,), len(memory), dest, tag)

    def Ibsend(self, buf: BufSpec, dest: int, tag: int = 0) -> Request[None]:
        """Start to send a buffer, buffered mode (sections 3.4 and 3.6).

        The send is complete at once: the message waits in the attached buffer.

        Args:
            buf: a buffer specification: an object with the buffer protocol, `[buf, type]`, `[buf, count, type]`; it
                must not be changed before the send is complete.
            dest: rank, or PROC_NULL.
            tag: 0..TAG_UB.

        Returns:
            A request, which can be awaited any number of times.

        Raises:
            InvalidBufferError, InvalidCountError, InvalidTypeError: the buffer specification is wrong.
            InvalidRankError, InvalidTagError: an argument is out of range.
            InvalidBufferError: the attached buffer has too little room, or no buffer is attached.
            ProcessFailedError: awaiting it: the other rank has failed.
        """
        return self._isend_buffer(buf, dest, tag, Mode.BUFFERED)

    def Issend(self, buf: BufSpec, dest: int, tag: int = 0) -> Request[None]:
        """Start to send a buffer, synchronous mode (section 3.4).

        The send is complete when a receive has matched it.

        Args:
            buf: a buffer specification: an object with the buffer protocol, `[buf, type]`, `[buf, count, type]`; it
                must not be changed before the send is complete.
            dest: rank, or PROC_NULL.
            tag: 0..TAG_UB.

        Returns:
            A request, which can be awaited any number of times.

        Raises:
            InvalidBufferError, InvalidCountError, InvalidTypeError: the buffer specification is wrong.
            InvalidRankError, InvalidTagError: an argument is out of range.
            ProcessFailedError: awaiting it: the other rank has failed.
        """
        return self._isend_buffer(buf, dest, tag, Mode.SYNCHRONOUS)

    def Irsend(self, buf: BufSpec, dest: int, tag: int = 0) -> Request[None]:
        """Start to send a buffer, ready mode (section 3.4).

        The matching receive must be posted already.

        Args:
            buf: a buffer specification: an object with the buffer protocol, `[buf, type]`, `[buf, count, type]`; it
                must not be changed before the send is complete.
            dest: rank, or PROC_NULL.
            tag: 0..TAG_UB.

        Returns:
            A request, which can be awaited any number of times.

        Raises:
            InvalidBufferError, InvalidCountError, InvalidTypeError: the buffer specification is wrong.
            InvalidRankError, InvalidTagError: an argument is out of range.
            OtherError: awaiting it: no receive was posted.
            ProcessFailedError: awaiting it: the other rank has failed.
        """
        return self._isend_buffer(buf, dest, tag, Mode.READY)

    def Send(self, buf: BufSpec, dest: int, tag: int = 0) -> AwaitableCall[None]:
        """Send a buffer, standard mode (section 3.4).

        Args:
            buf: a buffer specification: an object with the buffer protocol, `[buf, type]`, `[buf, count, type]`; it
                must not be changed before the send is complete.
            dest: rank, or PROC_NULL.
            tag: 0..TAG_UB.

        Returns:
            A request, to be awaited once.

        Raises:
            InvalidBufferError, InvalidCountError, InvalidTypeError: the buffer specification is wrong.
            InvalidRankError, InvalidTagError: an argument is out of range.
            ProcessFailedError: awaiting it: the other rank has failed.

        Cancelling:
            Cancelling the await, as a time limit does, withdraws the message unless a receive has matched it.

        Example:
            async with asyncio.timeout(10):
                await world.Send(np.arange(10.0), dest=1, tag=7)
        """
        core = self._core
        sent = core.own_send_short(buf, dest, tag)
        if sent is not None:
            return sent
        memory = core.conversion.to_send(buf, dest)
        return core.own_send((memory,), len(memory), dest, tag)

    def Bsend(self, buf: BufSpec, dest: int, tag: int = 0) -> AwaitableCall[None]:
        """Send a buffer, buffered mode (sections 3.4 and 3.6).

        The send is complete at once: the message waits in the attached buffer.

        Args:
            buf: a buffer specification: an object with the buffer protocol, `[buf, type]`, `[buf, count, type]`; it
                must not be changed before the send is complete.
            dest: rank, or PROC_NULL.
            tag: 0..TAG_UB.

        Returns:
            A request, to be awaited once.

        Raises:
            InvalidBufferError, InvalidCountError, InvalidTypeError: the buffer specification is wrong.
            InvalidRankError, InvalidTagError: an argument is out of range.
            InvalidBufferError: the attached buffer has too little room, or no buffer is attached.
            ProcessFailedError: awaiting it: the other rank has failed.

        Cancelling:
            Cancelling the await, as a time limit does, withdraws the message unless a receive has matched it.
        """
        return AwaitableCall(self._isend_buffer(buf, dest, tag, Mode.BUFFERED))

    def Ssend(self, buf: BufSpec, dest: int, tag: int = 0) -> AwaitableCall[None]:
        """Send a buffer, synchronous mode (section 3.4).

        The send is complete when a receive has matched it.

        Args:
            buf: a buffer specification: an object with the buffer protocol, `[buf, type]`, `[buf, count, type]`; it
                must not be changed before the send is complete.
            dest: rank, or PROC_NULL.
            tag: 0..TAG_UB.

        Returns:
            A request, to be awaited once.

        Raises:
            InvalidBufferError, InvalidCountError, InvalidTypeError: the buffer specification is wrong.
            InvalidRankError, InvalidTagError: an argument is out of range.
            ProcessFailedError: awaiting it: the other rank has failed.

        Cancelling:
            Cancelling the await, as a time limit does, withdraws the message unless a receive has matched it.
        """
        return AwaitableCall(self._isend_buffer(buf, dest, tag, Mode.SYNCHRONOUS))

    def Rsend(self, buf: BufSpec, dest: int, tag: int = 0) -> AwaitableCall[None]:
        """Send a buffer, ready mode (section 3.4).

        The matching receive must be posted already.

        Args:
            buf: a buffer specification: an object with the buffer protocol, `[buf, type]`, `[buf, count, type]`; it
                must not be changed before the send is complete.
            dest: rank, or PROC_NULL.
            tag: 0..TAG_UB.

        Returns:
            A request, to be awaited once.

        Raises:
            InvalidBufferError, InvalidCountError, InvalidTypeError: the buffer specification is wrong.
            InvalidRankError, InvalidTagError: an argument is out of range.
            OtherError: awaiting it: no receive was posted.
            ProcessFailedError: awaiting it: the other rank has failed.

        Cancelling:
            Cancelling the await, as a time limit does, withdraws the message unless a receive has matched it.
        """
        return AwaitableCall(self._isend_buffer(buf, dest, tag, Mode.READY))

    def Send_init(self, buf: BufSpec, dest: int, tag: int = 0) -> PersistentRequest[None]:
        """Bind the arguments of `Isend`; each start sends the current contents of the buffer (section 3.9).

        Args:
            buf: a buffer specification: an object with the buffer protocol, `[buf, type]`, `[buf, count, type]`; it
                must not be changed before a run is complete.
            dest: rank, or PROC_NULL.
            tag: 0..TAG_UB.

        Returns:
            An inactive persistent request; `start` starts it, and `await` waits for it.

        Raises:
            InvalidBufferError, InvalidCountError, InvalidTypeError: the buffer specification is wrong.
            InvalidRankError, InvalidTagError: an argument is out of range.
            ProcessFailedError: awaiting it: the other rank has failed.
        """
        core = self._admitted
        return core.send_init(core.conversion.prepare(buf, dest), dest, tag, Mode.STANDARD)

    def Bsend_init(self, buf: BufSpec, dest: int, tag: int = 0) -> PersistentRequest[None]:
        """Bind the arguments of `Ibsend`; each start sends the current contents of the buffer (section 3.9).

        Args:
            buf: a buffer specification: an object with the buffer protocol, `[buf, type]`, `[buf, count, type]`; it
                must not be changed before a run is complete.
            dest: rank, or PROC_NULL.
            tag: 0..TAG_UB.

        Returns:
            An inactive persistent request; `start` starts it, and `await` waits for it.

        Raises:
            InvalidBufferError, InvalidCountError, InvalidTypeError: the buffer specification is wrong.
            InvalidRankError, InvalidTagError: an argument is out of range.
            InvalidBufferError: the attached buffer has too little room, or no buffer is attached.
            ProcessFailedError: awaiting it: the other rank has failed.
        """
        core = self._admitted
        return core.send_init(core.conversion.prepare(buf, dest), dest, tag, Mode.BUFFERED)

    def Ssend_init(self, buf: BufSpec, dest: int, tag: int = 0) -> PersistentRequest[None]:
        """Bind the arguments of `Issend`; each start sends the current contents of the buffer (section 3.9).

        Args:
            buf: a buffer specification: an object with the buffer protocol, `[buf, type]`, `[buf, count, type]`; it
                must not be changed before a run is complete.
            dest: rank, or PROC_NULL.
            tag: 0..TAG_UB.

        Returns:
            An inactive persistent request; `start` starts it, and `await` waits for it.

        Raises:
            InvalidBufferError, InvalidCountError, InvalidTypeError: the buffer specification is wrong.
            InvalidRankError, InvalidTagError: an argument is out of range.
            ProcessFailedError: awaiting it: the other rank has failed.
        """
        core = self._admitted
        return core.send_init(core.conversion.prepare(buf, dest), dest, tag, Mode.SYNCHRONOUS)

    def Rsend_init(self, buf: BufSpec, dest: int, tag: int = 0) -> PersistentRequest[None]:
        """Bind the arguments of `Irsend`; the matching receive must be posted before each start (section 3.9).

        Args:
            buf: a buffer specification: an object with the buffer protocol, `[buf, type]`, `[buf, count, type]`; it
                must not be changed before a run is complete.
            dest: rank, or PROC_NULL.
            tag: 0..TAG_UB.

        Returns:
            An inactive persistent request; `start` starts it, and `await` waits for it.

        Raises:
            InvalidBufferError, InvalidCountError, InvalidTypeError: the buffer specification is wrong.
            InvalidRankError, InvalidTagError: an argument is out of range.
            OtherError: awaiting it: no receive was posted.
            ProcessFailedError: awaiting it: the other rank has failed.
        """
        core = self._admitted
        return core.send_init(core.conversion.prepare(buf, dest), dest, tag, Mode.READY)

    def _isend_buffer(self, buf: BufSpec, dest: int, tag: int, mode: Mode) -> Request[None]:
        core = self._admitted
        memory = core.conversion.to_send(buf, dest)
        return core.isend((memory,), len(memory), dest, tag, mode)

    def Attach_buffer(self, buf: BufSpec | BufferAutomatic) -> None:
        """Give memory to the buffered sends of this communicator (MPI_Comm_attach_buffer, MPI-4.1).

        Args:
            buf: writable memory. Each message takes its length and BSEND_OVERHEAD bytes of it. None: each message gets
                new memory.

        Raises:
            InvalidBufferError: a buffer is attached already, or `buf` is read-only.
        """
        attach(self._admitted.attachment, buf)

    def Detach_buffer(self) -> Request[Any]:
        """Take the attached memory back when the messages in it have left (MPI_Comm_detach_buffer, MPI-4.1).

        Returns:
            A request whose result is the object that was attached.

        Raises:
            InvalidBufferError: no buffer is attached.
        """
        return self._admitted.attachment.detach()

    def Flush_buffer(self) -> Request[None]:
        """Wait until all messages that are now in the attached buffer have left (MPI_Comm_flush_buffer, MPI-4.1).

        Returns:
            A request.

        Raises:
            InvalidBufferError: no buffer is attached.
        """
        return self._admitted.attachment.flush()
