"""A process that only forwards bytes between two sockets: the floor for a host between processes.

`python -m aiompi.bench.measure.relay DESCRIPTOR DESCRIPTOR` runs until one of them ends. It works as the launcher does:
non-blocking sockets, read when an event loop says so.
"""

from __future__ import annotations

import asyncio
import socket
import sys
from typing import Final

_READ: Final = 64 * 2**10


class Direction:
    """Forwards bytes in one direction."""

    def __init__(self, source: socket.socket, target: socket.socket, ended: asyncio.Event) -> None:
        self._source = source
        self._target = target
        self._ended = ended
        self._loop = asyncio.get_running_loop()
        self._memory = memoryview(bytearray(_READ))
        self._rest = self._memory[:0]
        self._loop.add_reader(source, self._readable)

    def _readable(self) -> None:
        nbytes = self._source.recv_into(self._memory)
        if not nbytes:
            self._ended.set()
            return
        self._rest = self._memory[:nbytes]
        self._writable()
        if self._rest:
            self._loop.remove_reader(self._source)
            self._loop.add_writer(self._target, self._writable)

    def _writable(self) -> None:
        try:
            self._rest = self._rest[self._target.send(self._rest) :]
        except BlockingIOError:
            return
        if not self._rest:
            self._loop.remove_writer(self._target)
            self._loop.add_reader(self._source, self._readable)


async def relay(one: socket.socket, other: socket.socket) -> None:
    """Forward bytes in both directions until one side ends."""
    ended = asyncio.Event()
    for sock in (one, other):
        sock.setblocking(False)
    directions = Direction(one, other, ended), Direction(other, one, ended)
    await ended.wait()
    del directions


def main(*descriptors: str) -> None:
    """Run a relay between two inherited sockets."""
    one, other = (socket.socket(fileno=int(descriptor)) for descriptor in descriptors)
    with one, other:
        asyncio.run(relay(one, other))


if __name__ == "__main__":
    main(*sys.argv[1:])
