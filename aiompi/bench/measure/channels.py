"""The works of libraries that send Python objects through asynchronous channels.

Each library provides a `Channel` class and a function that connects two channels. From these, `works` makes the
library's works, which run on uvloop.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Iterable
from contextlib import AbstractAsyncContextManager
from typing import Any, Final, Protocol, TypeAlias

import uvloop

from aiompi.bench.measure import payloads
from aiompi.bench.measure.turns import timed_async


class Channel(Protocol):
    """One end of a channel between two processes."""

    async def put(self, data: bytes) -> None:
        """Send bytes."""

    async def get(self) -> Any:
        """Receive bytes."""

    async def put_object(self, obj: Any) -> None:
        """Send any object."""

    async def get_object(self) -> Any:
        """Receive any object."""


#: connects two processes that share a socket already, as ranks 0 and 1
Connect: TypeAlias = Callable[[socket.socket, int], AbstractAsyncContextManager[Channel]]
#: the part of one process in a number of iterations
Loop: TypeAlias = Callable[[int], Awaitable[None]]


def latency(channel: Channel, rank: int, nbytes: int) -> Loop:
    """Make round trips of messages."""
    return _to_and_fro(channel.put, channel.get, payloads.data(nbytes), rank)


def objects(channel: Channel, rank: int, payload: str, nbytes: int = payloads.ARRAY) -> Loop:
    """Make round trips of objects."""
    return _to_and_fro(channel.put_object, channel.get_object, payloads.make(payload, nbytes), rank)


def _to_and_fro(
    put: Callable[[Any], Awaitable[None]], get: Callable[[], Awaitable[Any]], message: Any, rank: int
) -> Loop:
    async def lead(n: int) -> None:
        for _ in range(n):
            await put(message)
            await get()

    async def follow(n: int) -> None:
        for _ in range(n):
            await get()
            await put(message)

    return follow if rank else lead


def bandwidth(channel: Channel, rank: int, nbytes: int, window: int) -> Loop:
    """Send windows of messages, and wait for the answers."""
    messages, token = [payloads.data(nbytes)] * window, payloads.data(1)

    async def lead(n: int) -> None:
        for _ in range(n):
            await _put_all(channel, messages)
            await channel.get()

    async def follow(n: int) -> None:
        for _ in range(n):
            await _get_all(channel, window)
            await channel.put(token)

    return follow if rank else lead


def bandwidth_both_ways(channel: Channel, rank: int, nbytes: int, window: int) -> Loop:
    """Send windows of messages in both directions at the same time, and answers."""
    messages, token = [payloads.data(nbytes)] * window, payloads.data(1)

    async def loop(n: int) -> None:
        for _ in range(n):
            await asyncio.gather(_put_all(channel, messages), _get_all(channel, window))
            await (channel.put(token) if rank else channel.get())

    return loop


async def _put_all(channel: Channel, messages: Iterable[bytes]) -> None:
    for message in messages:
        await channel.put(message)


async def _get_all(channel: Channel, count: int) -> None:
    for _ in range(count):
        await channel.get()


_LOOPS: Final = (latency, bandwidth, bandwidth_both_ways, objects)


def works(connect: Connect) -> dict[str, Callable[..., Any]]:
    """Return the works of a library by name."""
    return {loop.__name__: _work(connect, loop) for loop in _LOOPS}


def _work(connect: Connect, make: Callable[..., Loop]) -> Callable[..., list[float]]:
    async def run(sock: socket.socket, rank: int, iterations: int, blocks: int, arguments: dict[str, Any]) -> Any:
        async with connect(sock, rank) as channel:
            return await timed_async(make(channel, rank, **arguments), iterations, blocks)

    def work(sock: socket.socket, rank: int, *, iterations: int, blocks: int, **arguments: Any) -> list[float]:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            seconds: list[float] = runner.run(run(sock, rank, iterations, blocks, arguments))
        return seconds

    return work
