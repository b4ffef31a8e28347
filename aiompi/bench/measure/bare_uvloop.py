"""Measurements of bare protocols on uvloop, the floor (lower bound) for event loops in Python."""

from __future__ import annotations

import asyncio
import pickle
import socket
import struct
import time
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final, TypeVar, cast

import uvloop

from aiompi.bench.measure import payloads
from aiompi.bench.measure.turns import timed_async

_LENGTH: Final = struct.Struct("<Q")

T = TypeVar("T")
Exchange_T = TypeVar("Exchange_T", bound="Exchange")


class Exchange(asyncio.Protocol):
    """A protocol that makes round trips; subclasses define the form of messages.

    Args:
        rank: 0 begins, 1 answers.
    """

    transport: asyncio.Transport
    end: asyncio.Future[None]
    closed: asyncio.Future[None]

    def __init__(self, rank: int) -> None:
        self.rank = rank
        self.count = self.goal = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.closed = asyncio.get_running_loop().create_future()

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed.set_result(None)

    async def close(self) -> None:
        """Return when everything has been sent."""
        self.transport.close()
        await self.closed

    async def run(self, rounds: int) -> None:
        """Make this many more round trips."""
        self.goal += rounds
        if self.rank == 0:
            self.send()
        if self.count < self.goal:  # the first message may arrive before this call
            self.end = asyncio.get_running_loop().create_future()
            await self.end

    def received(self) -> None:
        """Handle a complete message."""
        self.count += 1
        if self.rank or self.count < self.goal:
            self.send()
        if self.count == self.goal:
            self.end.set_result(None)

    def send(self) -> None:
        """Send a message."""
        raise NotImplementedError


class Bytes(Exchange):
    """A protocol with messages of a fixed number of bytes.

    Args:
        sent: messages that are sent one after the other.
        expected: number of bytes that the peer sends.
    """

    def __init__(self, rank: int, sent: Sequence[bytes], expected: int) -> None:
        super().__init__(rank)
        self._sent = sent
        self._missing = self._expected = expected

    def data_received(self, data: bytes) -> None:
        self._missing -= len(data)
        if self._missing == 0:
            self._missing = self._expected
            self.received()

    def send(self) -> None:
        for message in self._sent:
            self.transport.write(message)


class Pickles(Exchange):
    """A protocol with pickled objects, each after its length."""

    def __init__(self, rank: int, obj: Any) -> None:
        super().__init__(rank)
        self._obj = obj
        self._expect_length()

    def _expect_length(self) -> None:
        self._chunks: list[bytes] = []
        self._missing = _LENGTH.size

    def data_received(self, data: bytes) -> None:
        self._chunks.append(data)
        self._missing -= len(data)
        if self._missing > 0:
            return
        data = b"".join(self._chunks)  # a single chunk is not copied
        (length,) = _LENGTH.unpack_from(data)
        self._missing = _LENGTH.size + length - len(data)
        if self._missing:
            self._chunks = [data]
            return
        self._obj = pickle.loads(memoryview(data)[_LENGTH.size :])
        self._expect_length()
        self.received()

    def send(self) -> None:
        data = pickle.dumps(self._obj, pickle.HIGHEST_PROTOCOL)
        self.transport.writelines((_LENGTH.pack(len(data)), data))


def _run(coroutine: Coroutine[Any, Any, T]) -> T:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(coroutine)


async def _connect(sock: socket.socket, protocol: Callable[[], Exchange_T]) -> Exchange_T:
    loop = asyncio.get_running_loop()
    copy = sock.dup()  # the transport closes its socket, so it gets a copy
    return (await loop.create_unix_connection(protocol, sock=copy))[1]


async def _timed(sock: socket.socket, protocol: Callable[[], Exchange], iterations: int, blocks: int) -> list[float]:
    exchange = await _connect(sock, protocol)
    seconds = await timed_async(exchange.run, iterations, blocks)
    await exchange.close()
    return seconds


def latency(sock: socket.socket, rank: int, nbytes: int, iterations: int, blocks: int) -> list[float]:
    """Seconds per round trip of a message."""
    return _run(_timed(sock, lambda: Bytes(rank, [payloads.data(nbytes)], nbytes), iterations, blocks))


def bandwidth(sock: socket.socket, rank: int, nbytes: int, window: int, iterations: int, blocks: int) -> list[float]:
    """Seconds per window of messages and the answer to them."""
    sent, expected = ([bytes(1)], nbytes * window) if rank else ([payloads.data(nbytes)] * window, 1)
    return _run(_timed(sock, lambda: Bytes(rank, sent, expected), iterations, blocks))


def objects(
    sock: socket.socket, rank: int, payload: str, iterations: int, blocks: int, nbytes: int = payloads.ARRAY
) -> list[float]:
    """Seconds per round trip of a pickled object."""
    return _run(_timed(sock, lambda: Pickles(rank, payloads.make(payload, nbytes)), iterations, blocks))


def idle(sock: socket.socket, rank: int, seconds: float) -> float:
    """CPU seconds that a process has used while its loop waited for a byte."""

    async def wait() -> float:
        exchange = await _connect(sock, lambda: Bytes(rank, [bytes(1)], 1))
        start = time.process_time()
        if rank == 0:
            time.sleep(seconds)
        await exchange.run(1)
        used = time.process_time() - start
        await exchange.close()
        return used

    return _run(wait())


WORKS: Final = {work.__name__: work for work in (latency, bandwidth, objects, idle)}
