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

    def irecv(self, buf: Buffer | None = None, source=ANY_SOURCE, tag=ANY_TAG):
        """
        Args:
            buf: ignored: objects of any size are received without a buffer.
        """
        receive = self._admitted.irecv(None, source, tag, process.codec.loads)
        if source == ANY_SOURCE:
            receive.stay()
        return Request._denote(receive)

    def recv(self, buf: Buffer | None = None, source=ANY_SOURCE, tag=ANY_TAG, status=None):
        """
        Args:
            buf: ignored, with a warning: objects of any size are received without a buffer.

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

    def Irecv(self, buf, source, tag):
        core = self._core
        short: Request[Status] | None = core.irecv_short(buf, source, tag, Request)
        if short is not None:
            return short
        receive = core.irecv(core.conversion.to_receive(buf), source, tag)
        if source == ANY_SOURCE:
            receive.stay()
        return Request._denote(receive)

    def Recv(self, buf, source, tag, status):
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
        self, sendobj, dest, sendtag, recvbuf: BufSpec = None, source=ANY_SOURCE, recvtag=ANY_TAG, status=None
    ):
        """
        Args:
            recvbuf: ignored, with a warning: objects of any size are received without a buffer.
        """
        if recvbuf is not None:
            _warn_of_buffer("recvbuf")
        received = self._entered("sendrecv(...)").irecv(None, source, recvtag, process.codec.loads, status)
        return self._exchange(received, lambda: start_object(self._admitted, sendobj, dest, sendtag, Mode.STANDARD))

    def Sendrecv(self, sendbuf, dest, sendtag, recvbuf, source, recvtag, status):
        core = self._entered("Sendrecv(...)")
        self._exchange(
            *_begun(core, *core.conversion.to_exchange(sendbuf, recvbuf, dest), dest, sendtag, source, recvtag, status)
        )

    def Sendrecv_replace(self, buf, dest, sendtag, source, recvtag, status):
        core = self._entered("Sendrecv_replace(...)")
        self._exchange(*_begun(core, *core.conversion.to_replace(buf, dest), dest, sendtag, source, recvtag, status))

    def Isendrecv(self, sendbuf, dest, sendtag, recvbuf, source, recvtag) -> Request[Status]:
        """Start a `Sendrecv` (MPI_Isendrecv, MPI-4)."""
        core = self._admitted
        memory = core.conversion.to_exchange(sendbuf, recvbuf, dest)
        return Request._denote(sendrecv(*_begun(core, *memory, dest, sendtag, source, recvtag)))

    def Isendrecv_replace(self, buf, dest, sendtag, source, recvtag) -> Request[Status]:
        """Start a `Sendrecv_replace` (MPI_Isendrecv_replace, MPI-4)."""
        core = self._admitted
        memory = core.conversion.to_replace(buf, dest)
        return Request._denote(sendrecv(*_begun(core, *memory, dest, sendtag, source, recvtag)))

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


class Probes(Handle):
    """The probes (section 3.8)."""

    __slots__ = ()

    def probe(self, source, tag, status: Status | None = None) -> bool:
        """
        Args:
            status: filled with the envelope of the message.

        Returns:
            True.

        Example:
            status = MPI.Status()
            comm.probe(tag=7, status=status)
            obj = comm.recv(source=status.source, tag=status.tag)
        """
        envelope = self._finish(self._entered("probe(source, tag)").probe(source, tag))
        if status is not None:
            status.assign(envelope)
        return True

    def iprobe(self, source, tag, status: Status | None = None) -> bool:
        """
        Args:
            status: filled with the envelope of the message.

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

    def mprobe(self, source, tag, status):
        core = self._entered("mprobe(source, tag)")
        return self._finish(core.mprobe(source, tag, lambda message: self._taken(message, status)))

    def improbe(self, source, tag, status):
        found, message = self._admitted.improbe(source, tag)
        if not found:
            process.driver.poll()
            found, message = self._admitted.improbe(source, tag)
        return self._taken(message, status) if found else None

    def _taken(self, message: engine.Message | None, status: Status | None) -> Message:
        if status is not None:
            status.assign(self._core.envelope(message))  # progress may call this while the rank sleeps
        return Message._of(self._core, message)

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
