"""The measurements of `publications` with Redis pub/sub: redis-py's asyncio client, uvloop, Unix socket; see `pair`."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import subprocess
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, Final

import uvloop
from redis.asyncio import Redis
from redis.asyncio.client import PubSub
from redis.exceptions import ConnectionError as NotYetError

from aiompi.bench.measure.publications import TEXT, TOPICS
from aiompi.bench.measure.turns import timed_async

#: publications in a pipeline
WINDOW: Final = 100

#: cores of the server: all, because the server is not bound to a core
_CORES: Final = os.sched_getaffinity(0)
_PAUSE: Final = 0.01


class Redises:
    """A client of one of two processes, and its subscription.

    Args:
        client: client of the server that both processes use.
        subscription: of this process.
        sock: the socket between the two processes.
    """

    def __init__(self, client: Redis, subscription: PubSub, sock: socket.socket) -> None:
        self.client = client
        self._messages = subscription.listen()
        self._sock = sock

    async def get(self) -> None:
        """Get the next message."""
        while (await anext(self._messages))["type"] != "message":
            pass

    async def together(self) -> None:
        """Wait for the other process."""
        self._sock.sendall(b"\n")
        self._sock.recv(1)


@contextlib.contextmanager
def _server(sock: socket.socket, rank: int) -> Iterator[str]:
    """Return a context in which rank 0 runs a server without persistence; both ranks get the path of its socket."""
    if rank:
        with sock.makefile() as lines:
            path = lines.readline().strip()
        yield path
        return
    with tempfile.TemporaryDirectory() as directory:
        path = str(Path(directory) / "redis")
        options = ("--port", "0", "--unixsocket", path, "--save", "", "--appendonly", "no", "--dir", directory)
        with subprocess.Popen(["redis-server", *options], stdout=subprocess.DEVNULL) as server:
            os.sched_setaffinity(server.pid, _CORES)
            try:
                sock.sendall(path.encode() + b"\n")
                yield path
            finally:
                server.terminate()


@contextlib.asynccontextmanager
async def _connected(sock: socket.socket, rank: int, topic: str | None) -> AsyncIterator[Redises]:
    with _server(sock, rank) as path:
        async with Redis(unix_socket_path=path) as client, client.pubsub() as subscription:
            while True:
                with contextlib.suppress(NotYetError):
                    await client.ping()
                    break
                await asyncio.sleep(_PAUSE)
            ends = Redises(client, subscription, sock)
            if topic is not None:
                await subscription.subscribe(topic)
            await ends.together()
            yield ends
            await ends.together()


async def publications(sock: socket.socket, rank: int, iterations: int, blocks: int) -> list[float]:
    """Seconds per publication, with one await each."""
    async with _connected(sock, rank, TOPICS[0] if rank else None) as ends:

        async def loop(n: int) -> None:
            for _ in range(n):
                await (ends.get() if rank else ends.client.publish(TOPICS[0], TEXT))

        return await timed_async(loop, iterations, blocks, ends.together)


async def pipelined_publications(sock: socket.socket, rank: int, iterations: int, blocks: int) -> list[float]:
    """Seconds per pipeline of publications."""
    async with _connected(sock, rank, TOPICS[0] if rank else None) as ends:

        async def lead(n: int) -> None:
            for _ in range(n):
                pipeline = ends.client.pipeline(transaction=False)
                for _ in range(WINDOW):
                    pipeline.publish(TOPICS[0], TEXT)
                await pipeline.execute()

        async def follow(n: int) -> None:
            for _ in range(n * WINDOW):
                await ends.get()

        return await timed_async(follow if rank else lead, iterations, blocks, ends.together)


async def answered_publications(sock: socket.socket, rank: int, iterations: int, blocks: int) -> list[float]:
    """Seconds per publication and its answer, which is another publication."""
    to, back = TOPICS if rank == 0 else TOPICS[::-1]
    async with _connected(sock, rank, back) as ends:

        async def lead(n: int) -> None:
            for _ in range(n):
                await ends.client.publish(to, TEXT)
                await ends.get()

        async def follow(n: int) -> None:
            for _ in range(n):
                await ends.get()
                await ends.client.publish(to, TEXT)

        return await timed_async(follow if rank else lead, iterations, blocks, ends.together)


def _on_uvloop(work: Callable[..., Awaitable[Any]]) -> Callable[..., Any]:
    def run(sock: socket.socket, rank: int, **arguments: Any) -> Any:
        async def main() -> Any:
            return await work(sock, rank, **arguments)

        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(main())

    return run


WORKS: Final[dict[str, Callable[..., Any]]] = {
    work.__name__: _on_uvloop(work) for work in (publications, pipelined_publications, answered_publications)
}
