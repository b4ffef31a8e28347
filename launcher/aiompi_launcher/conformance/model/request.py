"""Requests and statuses of simulated processes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from aiompi_launcher.conformance.model.comm import Comm
from aiompi_launcher.conformance.model.datatype import Datatype
from aiompi_launcher.conformance.model.engine import ANY, Message, Receive, Send
from aiompi_launcher.conformance.script import MPIFailure

PROC_NULL = -2


@dataclass(frozen=True, slots=True)
class Status:
    """The status of an operation; `length` is the length of the message in bytes, in external32."""

    source: int = ANY
    tag: int = ANY
    length: int = 0
    cancelled: bool = False
    error: int = 0


@dataclass(frozen=True, slots=True)
class Target:
    """The destination of a message."""

    comm: Comm
    memory: memoryview
    count: int
    datatype: Datatype

    def store(self, message: Message) -> Status:
        """Unpack a message.

        Raises:
            MPIFailure: it is too long.
        """
        self.comm.proc.host.observer.matched(self.comm, message)
        room = self.count * self.datatype.wire_size
        self.datatype.unpack(bytes(message.data[:room]), self.memory)
        if message.length > room and not self.comm.has("truncates-silently"):
            raise MPIFailure("MPI_ERR_TRUNCATE", f"a message of {message.length} bytes for {room}")
        return Status(message.lsrank, message.tag, message.length)


class Request:
    """An operation. An object of this class is complete from the start; subclasses may complete later."""

    @property
    def done(self) -> bool:
        return True

    async def wait(self) -> Status:
        return Status()

    def cancel(self) -> None:
        """Start to cancel the operation."""


class NullRequest(Request):
    """A request for MPI_PROC_NULL."""

    async def wait(self) -> Status:
        return Status(source=PROC_NULL)


class SendRequest(Request):
    def __init__(self, comm: Comm, send: Send) -> None:
        self._comm = comm
        self._send = send
        self._cancelling: asyncio.Future[bool] | None = None

    @property
    def done(self) -> bool:
        if self._cancelling is not None:
            return self._cancelling.done() and (self._cancelling.result() or self._send.done.done())
        return self._send.done.done()

    async def wait(self) -> Status:
        if self._cancelling is not None and await self._cancelling:
            return Status(cancelled=True)
        await self._send.done
        return Status()

    def cancel(self) -> None:
        if self._cancelling is None:
            self._cancelling = self._comm.proc.cancel(self._send)


class ReceiveRequest(Request):
    def __init__(self, receive: Receive, target: Target) -> None:
        self._receive = receive
        self._target = target

    @property
    def done(self) -> bool:
        return self._receive.done.done()

    async def wait(self) -> Status:
        if self._receive.done.cancelled():
            return Status(cancelled=True)
        return self._target.store(await self._receive.done)

    def cancel(self) -> None:
        self._target.comm.proc.withdraw(self._receive)


class PersistentRequest(Request):
    """A persistent request, which starts another request each time."""

    def __init__(self, start: Callable[[], Request]) -> None:
        self._start = start
        self._current: Request | None = None

    def start(self) -> None:
        self._current = self._start()

    @property
    def done(self) -> bool:
        return self._current is None or self._current.done

    async def wait(self) -> Status:
        current, self._current = self._current, None
        return Status() if current is None else await current.wait()

    def cancel(self) -> None:
        if self._current is not None:
            self._current.cancel()
