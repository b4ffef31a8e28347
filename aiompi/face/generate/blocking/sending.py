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

    def isend(self, obj, dest, tag):
        """...

        As in mpi4py, the object may be changed at once.

        Args:
            obj: any object that can be pickled; arrays in it are copied unless they have been sent at once.
        """
        return Request._denote(_start_copy(self._admitted, obj, dest, tag, Mode.STANDARD))

    def issend(self, obj, dest, tag):
        """
        Args:
            obj: any object that can be pickled; arrays in it are copied unless they have been sent at once.
        """
        return Request._denote(_start_copy(self._admitted, obj, dest, tag, Mode.SYNCHRONOUS))

    def irsend(self, obj, dest, tag):
        """
        Args:
            obj: any object that can be pickled; arrays in it are copied unless they have been sent at once.
        """
        return Request._denote(_start_copy(self._admitted, obj, dest, tag, Mode.READY))

    def send(self, obj, dest, tag):
        """
        Args:
            obj: any object that can be pickled.
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

    def _isend_object(self, obj: object, dest: int, tag: int, mode: Mode) -> EngineRequest[None]:
        return start_object(self._admitted, obj, dest, tag, mode)


class BufferSends(Handle):
    """The sends of buffers, and the memory for buffered ones (section 3.6)."""

    __slots__ = ()

    def Isend(self, buf, dest, tag):
        core = self._core
        sent: Request[None] | None = core.isend_short(buf, dest, tag, Request)
        if sent is not None:
            return sent
        memory = core.conversion.to_send(buf, dest)
        return Request._denote(core.isend((memory,), len(memory), dest, tag))

    def Send(self, buf, dest, tag):
        if ASYNCIO_EVENTS in modules and loop_is_running():
            self._entered("Send(buf, dest)")
        core = self._core
        if core.send_short(buf, dest, tag):
            return
        memory = core.conversion.to_send(buf, dest)
        request = core.send((memory,), len(memory), dest, tag)
        if not request._done or request._error is not None:
            self._finish(request)

    def _isend_buffer(self, buf: BufSpec, dest: int, tag: int, mode: Mode) -> EngineRequest[None]:
        core = self._admitted
        memory = core.conversion.to_send(buf, dest)
        return core.isend((memory,), len(memory), dest, tag, mode)

    def Detach_buffer(self) -> Any:
        """
        Returns:
            The object that was attached.

        Raises:
            BlockingCallError: an event loop is running in this thread.
        """
        return self._finish(self._entered("Detach_buffer()").attachment.detach())

    def Flush_buffer(self) -> None:
        """Wait until the messages in the attached buffer have left (MPI_Comm_flush_buffer, MPI-4.1).

        Raises:
            BlockingCallError: an event loop is running in this thread.
        """
        self._finish(self._entered("Flush_buffer()").attachment.flush())

    def Iflush_buffer(self) -> Request[None]:
        """Start a `Flush_buffer` (MPI_Comm_iflush_buffer, MPI-4.1)."""
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
