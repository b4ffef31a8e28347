"""A send that is withdrawn while its link sends its memory."""

from __future__ import annotations

import socket

from aiompi.engine import Engine
from aiompi.settings import Settings
from aiompi.transport.sockets import Unix
from aiompi.transport.stream import StreamLink
from aiompi.transport.template import Site
from aiompi.wire.frame import HEADER_BYTES
from support.worlds import NoDriver, pattern

NBYTES = 2**20


class Watching(NoDriver):
    """A driver that ignores descriptors: the test calls the callbacks of the link."""

    def add_reader(self, fd: int, callback: object) -> None: ...

    def add_writer(self, fd: int, callback: object) -> None: ...

    def remove_reader(self, fd: int) -> None: ...

    def remove_writer(self, fd: int) -> None: ...


def test_link_copies_what_has_not_left() -> None:
    near, far = socket.socketpair()
    near.setblocking(False)
    engine = Engine(0, 2, Settings(eager_limit=2 * NBYTES), Watching())
    peer = engine.peer(1)
    link = StreamLink(Unix(engine, Site()), peer)
    peer.adopt(link)
    link.open(near)
    memory = [bytearray(pattern(NBYTES)) for _ in range(2)]
    sends = [peer.send((memoryview(m)[:10], memoryview(m)[10:]), NBYTES, 0, 0, 0) for m in memory]
    assert not any(send.done() for send in sends)
    sends[0].withdraw()
    memory[0][:] = bytes(NBYTES)
    received = bytearray()
    with near, far:
        while len(received) < 2 * (HEADER_BYTES + NBYTES):
            received += far.recv(2**16)
            link._writable()
    first, second = received[: HEADER_BYTES + NBYTES], received[HEADER_BYTES + NBYTES :]
    assert first[HEADER_BYTES:] == pattern(NBYTES)
    assert second[HEADER_BYTES:] == pattern(NBYTES)
    assert all(send.done() for send in sends)
