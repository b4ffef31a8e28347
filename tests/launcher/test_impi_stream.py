"""Streams of packets: what goes in comes out, however it is cut, and a stream that cannot send says so."""

from __future__ import annotations

import asyncio
import errno
import random
import socket
import struct
from collections.abc import Iterator

import pytest

from aiompi.impi.packet import Packet, PacketType
from aiompi_launcher import impi_stream
from aiompi_launcher.impi_stream import _BLOCK_BYTES, PacketStream

pytestmark = pytest.mark.asyncio

MAXDATALEN = 2 * _BLOCK_BYTES


def packet(data: bytes, kind: PacketType = PacketType.DATA) -> bytes:
    return Packet(kind, len(data), pk_msglen=len(data)).pack() + data


class Relay:
    """Two streams, of which the second sends what the first receives; the sockets `near` and `far` are the ends."""

    def __init__(self) -> None:
        self.near, inward = socket.socketpair()
        self.far, outward = socket.socketpair()
        for sock in (self.near, self.far, inward, outward):
            sock.setblocking(False)
        self.ends: list[Exception | None] = []
        self.outward_socket = outward
        self.outward = PacketStream(outward, MAXDATALEN, lambda *_: None, self.ends.append)
        self.inward = PacketStream(inward, MAXDATALEN, lambda _, pieces: self.outward.send(pieces), self.ends.append)

    async def pass_on(self, portions: Iterator[bytes], nbytes: int) -> bytes:
        """Write portions one after the other; returns the `nbytes` that come out."""
        loop = asyncio.get_running_loop()
        reading = asyncio.create_task(self._read(nbytes))
        for portion in portions:
            await loop.sock_sendall(self.near, portion)
            await asyncio.sleep(0)  # the portion is read before the next one comes
        async with asyncio.timeout(10):
            return await reading

    async def _read(self, nbytes: int) -> bytes:
        loop, data = asyncio.get_running_loop(), b""
        while len(data) < nbytes and (piece := await loop.sock_recv(self.far, 2**20)):
            data += piece
        return data

    def close(self) -> None:
        self.inward.close()
        self.outward.close()
        self.near.close()
        self.far.close()


def cut(stream: bytes, chance: random.Random, sizes: tuple[int, ...]) -> Iterator[bytes]:
    start = 0
    while start < len(stream):
        end = start + chance.randint(1, chance.choice(sizes))
        yield stream[start:end]
        start = end


@pytest.fixture
def bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few blocks are kept, so that one that is used too early is soon another's."""
    monkeypatch.setattr(impi_stream, "_spare", [])
    monkeypatch.setattr(impi_stream, "_SPARE_BLOCKS", 2)


@pytest.mark.usefixtures("bounded")
@pytest.mark.spec("I3.1-1")
@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize(
    ("lengths", "sizes"),
    [
        ((0, 1, 127, 128, 129, 3000), (1, 2, 50)),
        ((0, 1, 20_000, _BLOCK_BYTES - 128, _BLOCK_BYTES), (100, 2**20)),
        ((MAXDATALEN, 0), (2000, 50_000, 2**20)),
    ],
    ids=["small", "blocks", "longest"],
)
async def test_any_packets_in_any_portions(seed: int, lengths: tuple[int, ...], sizes: tuple[int, ...]) -> None:
    chance = random.Random(seed)
    sent = b"".join(packet(chance.randbytes(chance.choice(lengths))) for _ in range(12))
    relay = Relay()
    try:
        assert await relay.pass_on(cut(sent, chance, sizes), len(sent)) == sent
        assert relay.ends == []
    finally:
        relay.close()


@pytest.mark.usefixtures("bounded")
async def test_a_packet_in_single_bytes_while_nobody_reads() -> None:
    """Each byte would be a piece of its own; there are more of them than a system call takes."""
    data = packet(b"0123456789" * 300)
    relay = Relay()
    relay.outward_socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1)
    try:
        assert await relay.pass_on(iter([bytes([byte]) for byte in data]), len(data)) == data
    finally:
        relay.close()


async def test_more_packets_than_a_system_call_takes_wait_for_their_reader() -> None:
    data = b"".join(packet(struct.pack(">I", number)) for number in range(5000))
    relay = Relay()
    relay.outward_socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1)
    loop = asyncio.get_running_loop()
    try:
        await loop.sock_sendall(relay.near, data)
        assert relay.outward.backlog > 0
        assert await relay.pass_on(iter(()), len(data)) == data
        assert relay.outward.backlog == 0
    finally:
        relay.close()


class Exhausted(socket.socket):
    """A socket for which the kernel has no memory."""

    def sendmsg(self, *_: object) -> int:  # type: ignore[override]
        raise OSError(errno.ENOBUFS, "No buffer space available")


async def test_a_packet_that_cannot_be_sent_ends_the_stream() -> None:
    """Nobody would miss it otherwise, while its receiver waits for ever."""
    near, far = socket.socketpair()
    ends: list[Exception | None] = []
    stream = PacketStream(Exhausted(fileno=far.detach()), MAXDATALEN, lambda *_: None, ends.append)
    with near:
        stream.send([(packet(b"lost"), None)])
        assert ends == [], "it is told afterwards: who sends is not ready for it"
        await asyncio.sleep(0)
        assert [type(end) for end in ends] == [OSError]
        assert near.recv(1) == b""


async def test_what_came_before_the_end_counts_although_sending_fails() -> None:
    near, far = socket.socketpair()
    got: list[Packet] = []
    ended = asyncio.Event()
    far.setblocking(False)
    stream = PacketStream(far, MAXDATALEN, lambda found, _: got.append(found), lambda _: ended.set())
    near.sendall(packet(b"last words"))
    near.close()
    stream.send([(packet(b"to nobody"), None)])
    async with asyncio.timeout(5):
        await ended.wait()
    assert [found.pk_len for found in got] == [len(b"last words")]
