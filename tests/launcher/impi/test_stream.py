"""Streams of packets: what goes in comes out, however it is cut, and a stream that cannot send says so."""

from __future__ import annotations

import asyncio
import errno
import mmap
import random
import socket
import struct
from collections.abc import AsyncIterator, Callable, Iterable, Iterator

import pytest
import pytest_asyncio

from aiompi.impi import slots
from aiompi.impi.packet import HEADER_BYTES, Packet, PacketReader, PacketType
from aiompi.impi.slots import SharedPackets
from aiompi_launcher.impi import buffers
from aiompi_launcher.impi import stream as streams
from aiompi_launcher.impi.buffers import BUFFER_BYTES, Chunk
from aiompi_launcher.impi.splitter import PacketSplitter
from aiompi_launcher.impi.stream import PacketStream
from support.limits import LIMIT

pytestmark = pytest.mark.asyncio

MAXDATALEN = 2 * BUFFER_BYTES
SLOTS = 16  # of a direction, with such packets


def packet(data: bytes, kind: PacketType = PacketType.DATA) -> bytes:
    return Packet(kind, len(data), pk_msglen=len(data)).pack() + data


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(LIMIT):
        while not condition():
            await asyncio.sleep(0)


def memory() -> tuple[SharedPackets, SharedPackets]:
    """What a rank and its host share."""
    made = mmap.mmap(-1, slots.nbytes(MAXDATALEN))
    return SharedPackets(made, MAXDATALEN, rank=True), SharedPackets(made, MAXDATALEN, rank=False)


class Relay:
    """Two streams, of which the second sends what the first receives; the sockets `near` and `far` are the ends.

    Args:
        sharing: which of the ends are ranks that share memory with the relay.
    """

    def __init__(self, sharing: str = "") -> None:
        self.near, inward = socket.socketpair()
        self.far, outward = socket.socketpair()
        for sock in (self.near, self.far, inward, outward):
            sock.setblocking(False)
        self.ends: list[Exception | None] = []
        self.outward_socket = outward
        self.near_memory, inward_memory = memory() if "near" in sharing else (None, None)
        self.far_memory, outward_memory = memory() if "far" in sharing else (None, None)
        blind = PacketSplitter(MAXDATALEN, lambda *_: None)
        self.outward = PacketStream(outward, blind, self.ends.append, outward_memory)
        splitter = PacketSplitter(
            MAXDATALEN,
            lambda _, chunks: self.outward.send(chunks),
            lambda _: self.outward.slot(),
            inward_memory.inbound if inward_memory else None,
        )
        self.inward = PacketStream(inward, splitter, self.ends.append)

    def stream(self, packets: Iterable[bytes]) -> bytes:
        """What the near end writes."""
        stream = b""
        for whole in packets:
            slot = self.near_memory.outbound.take() if self.near_memory and len(whole) > slots.LONG else None
            if slot is not None:
                slot.write([whole])
            stream += whole if slot is None else slot.reference
        return stream

    async def pass_on(self, portions: Iterable[bytes], nbytes: int) -> bytes:
        """Write portions one after the other; returns the `nbytes` of packets that come out."""
        loop = asyncio.get_running_loop()
        reading = asyncio.create_task(self._read(nbytes))
        for portion in portions:
            await loop.sock_sendall(self.near, portion)
            await asyncio.sleep(0)  # the portion is read before the next one comes
        async with asyncio.timeout(LIMIT):
            return await reading

    async def _read(self, nbytes: int) -> bytes:
        loop, packets = asyncio.get_running_loop(), bytearray()
        reader = PacketReader(MAXDATALEN, lambda _, whole: packets.extend(whole))
        reader.slots = self.far_memory.inbound if self.far_memory else None
        while len(packets) < nbytes and (count := await loop.sock_recv_into(self.far, reader.get_buffer())):
            reader.buffer_updated(count)
        return bytes(packets)

    def close(self) -> None:
        self.inward.close()
        self.outward.close()
        self.near.close()
        self.far.close()


@pytest_asyncio.fixture
async def relay(request: pytest.FixtureRequest) -> AsyncIterator[Relay]:
    made = Relay(getattr(request, "param", ""))
    yield made
    made.close()


def cut(stream: bytes, chance: random.Random, sizes: tuple[int, ...]) -> Iterator[bytes]:
    start = 0
    while start < len(stream):
        end = start + chance.randint(1, chance.choice(sizes))
        yield stream[start:end]
        start = end


@pytest.fixture
def bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few blocks are kept, so that one that is used too early is soon another's."""
    monkeypatch.setattr(buffers, "_spare", [])
    monkeypatch.setattr(buffers, "_SPARE_BUFFERS", 2)


@pytest.mark.usefixtures("bounded")
@pytest.mark.spec("I3.1-1")
@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize(
    ("lengths", "sizes"),
    [
        ((0, 1, 127, 128, 129, 3000), (1, 2, 50)),
        ((0, 1, 20_000, BUFFER_BYTES - 128, BUFFER_BYTES), (100, 2**20)),
        ((MAXDATALEN, 0), (2000, 50_000, 2**20)),
    ],
    ids=["small", "blocks", "longest"],
)
@pytest.mark.parametrize("relay", ["", "near", "far", "near and far"], indirect=True)
async def test_any_packets_in_any_portions(
    relay: Relay, seed: int, lengths: tuple[int, ...], sizes: tuple[int, ...]
) -> None:
    chance = random.Random(seed)
    sent = [packet(chance.randbytes(chance.choice(lengths))) for _ in range(12)]
    whole = b"".join(sent)
    assert await relay.pass_on(cut(relay.stream(sent), chance, sizes), len(whole)) == whole
    assert relay.ends == []
    for shared in (relay.near_memory, relay.far_memory):
        assert shared is None or len(list(iter(shared.outbound.take, None))) == SLOTS, "they are free again"


@pytest.mark.usefixtures("bounded")
async def test_a_packet_in_single_bytes_while_nobody_reads(relay: Relay) -> None:
    """Each byte would be a part of its own; there are more of them than a system call takes."""
    data = packet(b"0123456789" * 300)
    relay.outward_socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1)
    assert await relay.pass_on([bytes([byte]) for byte in data], len(data)) == data


async def test_more_packets_than_a_system_call_takes_wait_for_their_reader(relay: Relay) -> None:
    data = b"".join(packet(struct.pack(">I", number)) for number in range(5000))
    relay.outward_socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1)
    await asyncio.get_running_loop().sock_sendall(relay.near, data)
    assert relay.outward.backlog > 0
    assert await relay.pass_on([], len(data)) == data
    assert relay.outward.backlog == 0


@pytest.mark.parametrize("relay", ["near"], indirect=True)
@pytest.mark.parametrize(
    ("header", "cause"),
    [
        (Packet(PacketType.DATA, MAXDATALEN + 1, pk_msglen=2**40), "were agreed upon"),
        (Packet(PacketType.DATA, 2, pk_msglen=1), "brings 2 bytes of a message that has 1"),
        (Packet(9), "there is no such type"),
    ],
)
async def test_packets_in_slots_are_checked(relay: Relay, header: Packet, cause: str) -> None:
    await relay.pass_on([relay.stream([header.pack() + bytes(slots.LONG)])], 0)
    await until(lambda: relay.ends)
    assert cause in str(relay.ends[0])


@pytest.mark.parametrize("relay", ["near"], indirect=True)
async def test_a_header_in_a_slot_cannot_change_after_it_was_checked(relay: Relay) -> None:
    relay.outward_socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1)
    assert relay.near_memory is not None
    data = packet(bytes(MAXDATALEN))
    slot = relay.near_memory.outbound.take()
    assert slot is not None
    slot.write([data])
    await asyncio.get_running_loop().sock_sendall(relay.near, packet(bytes(2**18)) + slot.reference)
    await until(lambda: relay.outward.backlog > MAXDATALEN)
    slot.write([b"\xff" * HEADER_BYTES])
    assert (await relay.pass_on([], 2**18 + HEADER_BYTES + len(data)))[-len(data) :] == data


@pytest.mark.parametrize("relay", ["far"], indirect=True)
async def test_packets_that_find_no_slot_pass_through_the_socket(relay: Relay) -> None:
    """The rank does not read: what comes for it is read all the same."""
    sent = [packet(bytes([number]) * MAXDATALEN) for number in range(SLOTS + 4)]
    await asyncio.get_running_loop().sock_sendall(relay.near, b"".join(sent))
    await until(lambda: relay.outward.backlog > MAXDATALEN)
    assert await relay.pass_on([], sum(map(len, sent))) == b"".join(sent)


@pytest.mark.parametrize("relay", ["far"], indirect=True)
@pytest.mark.parametrize("first", [200, MAXDATALEN + 400])
async def test_slots_of_packets_that_stay_incomplete_are_free_again(relay: Relay, first: int) -> None:
    assert relay.far_memory is not None
    data = packet(bytes(MAXDATALEN)) * 2
    await asyncio.get_running_loop().sock_sendall(relay.near, data[:first])
    relay.near.close()
    await until(lambda: relay.ends)
    assert "in the middle of a packet" in str(relay.ends[0])
    free = len(list(iter(relay.outward.slot, None)))
    assert free == SLOTS - (first > MAXDATALEN), "all but that of the packet that the rank has not read"


class Counting(PacketSplitter):
    """Counts how often something was read."""

    reads = 0

    def updated(self, nbytes: int) -> None:
        self.reads += 1
        super().updated(nbytes)


@pytest.fixture
def channel() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Both ends of a connection between hosts."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        near = socket.create_connection(listener.getsockname())
        far, _ = listener.accept()
    with near, far:
        near.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for sock in (near, far):
            sock.setblocking(False)
        yield near, far


@pytest.mark.parametrize(("kernel", "patient"), [((6, 1), True), ((5, 9), True), ((5, 8), False), ((4, 18), False)])
async def test_segments_of_a_long_packet_waken_nobody_where_the_kernel_is_good_for_it(
    channel: tuple[socket.socket, socket.socket],
    monkeypatch: pytest.MonkeyPatch,
    kernel: tuple[int, int],
    patient: bool,
) -> None:
    monkeypatch.setattr(streams, "kernel", lambda: kernel)
    near, far = channel
    got: list[Packet] = []
    splitter = Counting(MAXDATALEN, lambda found, _: got.append(found))
    stream = PacketStream(far, splitter, got.clear)
    data = packet(bytes(2**17))
    for start in range(0, len(data), 2**12):
        await asyncio.get_running_loop().sock_sendall(near, data[start : start + 2**12])
        for _ in range(3 if start else 2 * streams._POLLS):
            await asyncio.sleep(0)
    await until(lambda: len(got) == 1)
    assert (splitter.reads < 5) == patient, "its header, with what has come by then, and its end"
    near.send(packet(b"short"))
    await until(lambda: len(got) == 2)
    stream.close()


async def test_the_rest_of_a_long_packet_is_looked_for_for_a_while(
    channel: tuple[socket.socket, socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "kernel", lambda: (6, 1))
    near, far = channel
    got: list[Packet] = []
    splitter = Counting(MAXDATALEN, lambda found, _: got.append(found))
    stream = PacketStream(far, splitter, got.clear)
    data = packet(bytes(2**17))
    for count in range(1, 4):
        near.send(data[:1000] if count == 1 else bytes(1000))
        await until(lambda count=count: splitter.reads == count)
    for _ in range(2 * streams._POLLS):
        await asyncio.sleep(0)
    near.send(bytes(1000))
    for _ in range(2 * streams._POLLS):
        await asyncio.sleep(0)
    assert splitter.reads == 3, "it sleeps until all of the packet is there"
    await asyncio.get_running_loop().sock_sendall(near, data[4000:] + packet(b"short"))
    await until(lambda: len(got) == 2)
    near.send(packet(b"shorter"))
    await until(lambda: len(got) == 3)
    stream.close()


@pytest.mark.parametrize("size", [50, 3000])
async def test_a_long_packet_in_small_segments_for_which_there_is_no_room(
    channel: tuple[socket.socket, socket.socket], size: int
) -> None:
    """Each of them takes far more memory of the kernel than it has bytes."""
    near, far = channel
    far.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2**15)
    got: list[Packet] = []
    stream = PacketStream(far, PacketSplitter(MAXDATALEN, lambda found, _: got.append(found)), got.clear)
    data = packet(bytes(2**18))
    for start in range(0, len(data), size):
        await asyncio.get_running_loop().sock_sendall(near, data[start : start + size])
    await until(lambda: got)
    stream.close()


class Exhausted(socket.socket):
    """A socket for which the kernel has no memory."""

    def sendmsg(self, *_: object) -> int:  # type: ignore[override]
        raise OSError(errno.ENOBUFS, "No buffer space available")


async def test_a_packet_that_cannot_be_sent_ends_the_stream() -> None:
    """Nobody would miss it otherwise, while its receiver waits for ever."""
    near, far = socket.socketpair()
    ends: list[Exception | None] = []
    stream = PacketStream(Exhausted(fileno=far.detach()), PacketSplitter(MAXDATALEN, lambda *_: None), ends.append)
    with near:
        stream.send([Chunk(packet(b"lost"))])
        assert ends == [], "it is reported later: the sender is not ready for it"
        await asyncio.sleep(0)
        assert [type(end) for end in ends] == [OSError]
        assert near.recv(1) == b""


async def test_what_came_before_the_end_counts_although_sending_fails() -> None:
    near, far = socket.socketpair()
    got: list[Packet] = []
    ended = asyncio.Event()
    far.setblocking(False)
    stream = PacketStream(far, PacketSplitter(MAXDATALEN, lambda found, _: got.append(found)), lambda _: ended.set())
    near.sendall(packet(b"last words"))
    near.close()
    stream.send([Chunk(packet(b"to nobody"))])
    async with asyncio.timeout(LIMIT):
        await ended.wait()
    assert [found.pk_len for found in got] == [len(b"last words")]
