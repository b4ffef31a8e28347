# Written by aiompi/face/generate from generate/native/receiving.py: edit this file.
"""Receives and probes of the asyncio face (chapter 3)."""

from __future__ import annotations

from functools import partial
from typing import Any

from aiompi import engine
from aiompi.constants import ANY_SOURCE, ANY_TAG
from aiompi.engine import AwaitableCall, PersistentRequest, Request
from aiompi.engine.sendrecv import sendrecv
from aiompi.face.native.message import Message
from aiompi.face.native.sending import BufferSends, ObjectSends
from aiompi.status import Status
from aiompi.typing import BufSpec


class Receives(ObjectSends, BufferSends):
    """The receives, alone and together with a send; each starts at once."""

    __slots__ = ()

    def irecv(self, source: int = ANY_SOURCE, tag: int = ANY_TAG, status: Status | None = None) -> Request[Any]:
        """Start to receive an object of any size (section 3.7).

        Args:
            source: rank, ANY_SOURCE or PROC_NULL.
            tag: 0..TAG_UB or ANY_TAG.
            status: filled with the envelope when the result is taken.

        Returns:
            A request whose result is the object; None from PROC_NULL.

        Raises:
            InvalidRankError, InvalidTagError: an argument is out of range.
            ProcessFailedError: awaiting it: the other rank has failed.

        Example:
            request = world.irecv(source=0)
            obj = await request
        """
        receive = self._admitted.irecv(None, source, tag, self._codec, status)
        if source == ANY_SOURCE:
            receive.stay()
        return receive

    def recv(self, source: int = ANY_SOURCE, tag: int = ANY_TAG, status: Status | None = None) -> AwaitableCall[Any]:
        """Receive an object of any size (section 3.2.4).

        Args:
            source: rank, ANY_SOURCE or PROC_NULL.
            tag: 0..TAG_UB or ANY_TAG.
            status: filled with the envelope of the message.

        Returns:
            A request, to be awaited once, whose result is the object; None from PROC_NULL.

        Raises:
            InvalidRankError, InvalidTagError: an argument is out of range.
            ProcessFailedError: awaiting it: the other rank has failed.

        Cancelling:
            Cancelling the await, as a time limit does, withdraws the receive. No message is lost: a message that has
            arrived stays for the next receive.

        Example:
            status = aiompi.Status()
            async with asyncio.timeout(10):
                obj = await world.recv(source=aiompi.ANY_SOURCE, tag=7, status=status)
        """
        return self._core.own_recv_object(self._codec, source, tag, status)

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
            TruncationError: awaiting it: the message is longer than the buffer.
            ProcessFailedError: awaiting it: the other rank has failed.

        Example:
            buf = np.empty(10)
            request = world.Irecv(buf, source=0)
            status = await request
        """
        core = self._core
        short: Request[Status] | None = core.irecv_short(buf, source, tag)
        if short is not None:
            return short
        receive = core.irecv(core.conversion.to_receive(buf), source, tag)
        if source == ANY_SOURCE:
            receive.stay()
        return receive

    def Recv(
        self, buf: BufSpec, source: int = ANY_SOURCE, tag: int = ANY_TAG, status: Status | None = None
    ) -> AwaitableCall[Status]:
        """Receive into a buffer (section 3.2.4).

        Args:
            buf: a writable buffer specification, at least as long as the message; it must not be touched before the
                receive is complete.
            source: rank, ANY_SOURCE or PROC_NULL.
            tag: 0..TAG_UB or ANY_TAG.
            status: filled with the envelope of the message.

        Returns:
            A request, to be awaited once, whose result is the Status.

        Raises:
            InvalidBufferError, InvalidCountError, InvalidTypeError: the buffer specification is wrong.
            InvalidRankError, InvalidTagError: an argument is out of range.
            TruncationError: awaiting it: the message is longer than the buffer.
            ProcessFailedError: awaiting it: the other rank has failed.

        Cancelling:
            Cancelling the await, as a time limit does, withdraws the receive. The content of the buffer is then
            undefined. No message is lost: a message that has arrived stays for the next receive.

        Example:
            buf = np.empty(10)
            async with asyncio.timeout(10):
                status = await world.Recv(buf, source=0)
        """
        core = self._core
        short = core.own_recv_short(buf, source, tag, status)
        return core.own_recv(core.conversion.to_receive(buf), source, tag, None, status) if short is None else short

    def sendrecv(
        self,
        sendobj: object,
        dest: int,
        sendtag: int = 0,
        source: int = ANY_SOURCE,
        recvtag: int = ANY_TAG,
        status: Status | None = None,
    ) -> AwaitableCall[Any]:
        """Send an object and receive another, without deadlock (section 3.10).

        Args:
            sendobj: any object that can be pickled; it must not be changed before the send is complete: large arrays in
                it are not copied. An object of many items is encoded in slices, between which the event loop runs;
                later messages wait until the encoding is done.
            dest: rank, or PROC_NULL.
            sendtag: 0..TAG_UB.
            source: rank, ANY_SOURCE or PROC_NULL.
            recvtag: 0..TAG_UB or ANY_TAG.
            status: filled with the envelope of the received message.

        Returns:
            A request, to be awaited once, whose result is the received object.

        Raises:
            InvalidRankError, InvalidTagError: an argument is out of range.
            InvalidTypeError: the object cannot be turned into a message.
            ProcessFailedError: awaiting it: the other rank has failed.

        Cancelling:
            Cancelling the await, as a time limit does, withdraws the send and the receive; a message that has arrived
            stays for the next receive.

        Example:
            right, left = (world.rank + 1) % world.size, (world.rank - 1) % world.size
            from_left = await world.sendrecv(world.rank, dest=right, source=left)
        """
        receive = self._admitted.irecv(None, source, recvtag, self._codec, status)
        return AwaitableCall(sendrecv(receive, lambda: self.isend(sendobj, dest, sendtag)))

    def Sendrecv(
        self,
        sendbuf: BufSpec,
        dest: int,
        sendtag: int = 0,
        recvbuf: BufSpec = None,
        source: int = ANY_SOURCE,
        recvtag: int = ANY_TAG,
        status: Status | None = None,
    ) -> AwaitableCall[Status]:
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

        Returns:
            A request, to be awaited once, whose result is the Status of the received message.

        Raises:
            InvalidBufferError: the buffers overlap.
            InvalidBufferError, InvalidCountError, InvalidTypeError: the buffer specification is wrong.
            InvalidRankError, InvalidTagError: an argument is out of range.
            TruncationError: awaiting it: the message is longer than the buffer.
            ProcessFailedError: awaiting it: the other rank has failed.

        Cancelling:
            Cancelling the await, as a time limit does, withdraws the send and the receive; a message that has arrived
            stays for the next receive.

        Example:
            right, left = (world.rank + 1) % world.size, (world.rank - 1) % world.size
            ours, theirs = np.ones(3), np.empty(3)
            await world.Sendrecv(ours, right, 0, theirs, left)
        """
        memory, target = self._admitted.conversion.to_exchange(sendbuf, recvbuf, dest)
        receive = self._core.irecv(target, source, recvtag, None, status)
        return AwaitableCall(sendrecv(receive, lambda: self._core.send((memory,), len(memory), dest, sendtag)))

    def Sendrecv_replace(
        self,
        buf: BufSpec,
        dest: int,
        sendtag: int = 0,
        source: int = ANY_SOURCE,
        recvtag: int = ANY_TAG,
        status: Status | None = None,
    ) -> AwaitableCall[Status]:
        """Send the content of a buffer, and receive into the same buffer (section 3.10).

        Args:
            buf: a writable buffer specification, at least as long as the received message; its content is sent and then
                replaced.
            dest: rank, or PROC_NULL.
            sendtag: 0..TAG_UB.
            source: rank, ANY_SOURCE or PROC_NULL.
            recvtag: 0..TAG_UB or ANY_TAG.
            status: filled with the envelope of the received message.

        Returns:
            A request, to be awaited once, whose result is the Status of the received message.

        Raises:
            InvalidBufferError, InvalidCountError, InvalidTypeError: the buffer specification is wrong.
            InvalidRankError, InvalidTagError: an argument is out of range.
            TruncationError: awaiting it: the message is longer than the buffer.
            ProcessFailedError: awaiting it: the other rank has failed.

        Cancelling:
            Cancelling the await, as a time limit does, withdraws the send and the receive; a message that has arrived
            stays for the next receive.

        Example:
            right, left = (world.rank + 1) % world.size, (world.rank - 1) % world.size
            row = np.full(3, world.rank)
            await world.Sendrecv_replace(row, right, 0, left)
        """
        memory, target = self._admitted.conversion.to_replace(buf, dest)
        receive = self._core.irecv(target, source, recvtag, None, status)
        return AwaitableCall(sendrecv(receive, lambda: self._core.send((memory,), len(memory), dest, sendtag)))

    def Recv_init(self, buf: BufSpec, source: int = ANY_SOURCE, tag: int = ANY_TAG) -> PersistentRequest[Status]:
        """Bind the arguments of `Irecv` (section 3.9).

        Args:
            buf: a writable buffer specification, at least as long as the message; it must not be touched before a run
                is complete.
            source: rank, ANY_SOURCE or PROC_NULL.
            tag: 0..TAG_UB or ANY_TAG.

        Returns:
            An inactive persistent request; `start` starts it, and `await` waits for it. Its result is the Status.

        Raises:
            InvalidBufferError, InvalidCountError, InvalidTypeError: the buffer specification is wrong.
            InvalidRankError, InvalidTagError: an argument is out of range.
            TruncationError: awaiting it: the message is longer than the buffer.
            ProcessFailedError: awaiting it: the other rank has failed.

        Example:
            request = world.Recv_init(np.empty(10), source=0)
            request.start()
            await request
        """
        return self._admitted.recv_init(self._core.conversion.to_receive(buf), source, tag)


class Probes(ObjectSends):
    """The probes (section 3.8)."""

    __slots__ = ()

    def probe(self, source: int = ANY_SOURCE, tag: int = ANY_TAG) -> AwaitableCall[Status]:
        """Wait for a message without receiving it (MPI_Probe, section 3.8).

        Args:
            source: rank, ANY_SOURCE or PROC_NULL.
            tag: 0..TAG_UB or ANY_TAG.

        Returns:
            A request, to be awaited once, whose result is the Status of the message.

        Raises:
            InvalidRankError, InvalidTagError: an argument is out of range.
            ProcessFailedError: awaiting it: the other rank has failed.

        Cancelling:
            Cancelling the await, as a time limit does, takes no message.

        Example:
            status = await world.probe(tag=7)
            obj = await world.recv(status.source, status.tag)
        """
        return AwaitableCall(self._admitted.probe(source, tag))

    def iprobe(self, source: int = ANY_SOURCE, tag: int = ANY_TAG) -> Status | None:
        """Look for a message without receiving it (MPI_Iprobe, section 3.8).

        Args:
            source: rank, ANY_SOURCE or PROC_NULL.
            tag: 0..TAG_UB or ANY_TAG.

        Returns:
            Status of the message that a receive would match now; None if no message matches.

        Raises:
            InvalidRankError, InvalidTagError: an argument is out of range.
        """
        return self._admitted.iprobe(source, tag)

    def mprobe(
        self, source: int = ANY_SOURCE, tag: int = ANY_TAG, status: Status | None = None
    ) -> AwaitableCall[Message]:
        """Wait for a message and take it: only the receives of the `Message` can get it (MPI_Mprobe, MPI-3).

        Args:
            source: rank, ANY_SOURCE or PROC_NULL.
            tag: 0..TAG_UB or ANY_TAG.
            status: filled with the envelope, which the message has as `status`, too.

        Returns:
            A request, to be awaited once, whose result is the message.

        Raises:
            InvalidRankError, InvalidTagError: an argument is out of range.
            ProcessFailedError: awaiting it: the other rank has failed.

        Cancelling:
            Cancelling the await, as a time limit does, takes no message.

        Example:
            message = await world.mprobe(source=0)
            obj = await message.recv()
        """
        return AwaitableCall(self._admitted.mprobe(source, tag, partial(self._taken, status=status)))

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
        return self._taken(message, status) if found else None

    def _taken(self, message: engine.Message | None, status: Status | None) -> Message:
        taken = Message(self._admitted, self._codec, message)
        if status is not None:
            status.assign(taken.status)
        return taken

    Probe = probe
    Iprobe = iprobe
    Mprobe = mprobe
    Improbe = improbe
