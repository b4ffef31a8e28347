"""The sockets of an IMPI host: hosts of other clients and ranks are played by the tests."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from aiompi.errors import AuthenticationError
from aiompi.impi import slots
from aiompi.impi.auth import Credentials
from aiompi.impi.label import TLS_VERSION, VERSION_0_0
from aiompi.impi.packet import HEADER_BYTES, Packet, PacketType, pack_proc, unpack
from aiompi.impi.slots import SharedPackets
from aiompi.impi.universe import Universe, host_identifier, place_clients, place_hosts, place_procs
from aiompi.net import interfaces, tls
from aiompi.settings import Settings
from aiompi.wire import hello, memory
from aiompi_launcher.impi import newcomers
from aiompi_launcher.impi.buffers import BUFFER_BYTES
from aiompi_launcher.impi.host import CONGESTION, HostAgent, HostContext
from aiompi_launcher.job.rendezvous import RendezvousError
from aiompi_launcher.net import listen
from aiompi_launcher.net.listen import listen_tcp
from support.descriptors import no_more_descriptors
from support.limits import LIMIT
from support.middle import certificates

KEY = bytes(range(32))
DATALEN = 64 * 2**10
HIWATER = 1000
FINI = Packet(PacketType.FINI).pack()


def address(host: int) -> str:
    return f"127.0.0.{host + 2}"


def proc(rank: int) -> bytes:
    return pack_proc(host_identifier("192.0.2.1"), rank)


def packet(source: int, dest: int, data: bytes = b"", kind: PacketType = PacketType.DATA) -> bytes:
    header = Packet(kind, len(data), proc(source), proc(dest), pk_msglen=len(data))
    return header.pack() + data


class Channel:
    """The far end of a connection: a host of another client, or a rank."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def packet(self) -> bytes:
        """The next packet, whole."""
        header = await self.reader.readexactly(HEADER_BYTES)
        return header + await self.reader.readexactly(unpack(header).pk_len)

    async def expect(self, data: bytes) -> None:
        assert await self.reader.readexactly(len(data)) == data

    async def end(self) -> None:
        assert await self.reader.read() == b""
        self.close()

    def close(self) -> None:
        self.writer.close()


async def modest(link: Channel) -> None:
    """Have no memory for long packets."""
    await link.send(slots.NOT_SHARED)


def handing_over(*descriptors: int, said: bytes = slots.SHARED) -> Callable[[Channel], Awaitable[None]]:
    """Hand over something."""

    async def introduce(link: Channel) -> None:
        with socket.socket(fileno=os.dup(link.writer.get_extra_info("socket").fileno())) as sock:
            socket.send_fds(sock, [said], descriptors)

    return introduce


class Place:
    """A host with rank `rank` of four, each of a client of its own with one rank, and all that is around it."""

    def __init__(
        self,
        home: Path,
        rank: int,
        *,
        settings: Settings | None = None,
        credentials: Credentials | None = None,
        encrypting: bool = False,
    ) -> None:
        versions = (VERSION_0_0, TLS_VERSION) if encrypting else (VERSION_0_0,)
        self.rank = rank
        self.said: list[str] = []
        self.failures: list[str] = []
        self.channels: list[Channel] = []
        self.listeners = [listen_tcp(address(host)) for host in range(4)]
        rows = [
            (host_identifier(address(h)), listener.getsockname()[1], 1) for h, listener in enumerate(self.listeners)
        ]
        hosts = place_hosts([1] * 4, rows)
        self.universe = Universe(
            clients=place_clients(hosts, [versions] * 4), hosts=hosts,
            procs=place_procs(hosts, [(host_identifier("192.0.2.1"), rank) for rank in range(4)]),
            version=VERSION_0_0, native=False, datalen=DATALEN, tagub=32767, xsize=1024, maxlinear=4,
            ackmark=2, hiwater=HIWATER,
        )  # fmt: skip
        self.agent = HostAgent(
            self.universe,
            rank,
            self.listeners[rank],
            settings or Settings(),
            HostContext(directory="", key=KEY, observer=self, credentials=credentials or Credentials()),
        )
        self.path = str(home / "host")
        self.agent.serve(interfaces.listen_unix(self.path), KEY)

    # What the agent tells.

    def say(self, text: str) -> None:
        self.said.append(text)

    def fail(self, reason: str) -> None:
        self.failures.append(reason)

    # Connections of ranks and hosts.

    def connecting(self, timeout: float = LIMIT) -> asyncio.Task[None]:
        return asyncio.create_task(self.agent.connect(timeout))

    async def dial(self, host: int, source: str = "", greeting: bytes | None = None) -> Channel:
        """Connect to the agent as another host."""
        target = self.universe.hosts[self.rank]
        local = (source or address(host), 0)
        channel = Channel(*await asyncio.open_connection(target.address, target.port, local_addr=local))
        self.channels.append(channel)
        await channel.send(struct.pack(">I", host) if greeting is None else greeting)
        return channel

    async def accept(self, host: int) -> Channel:
        """Let the agent connect to another host."""
        listener = self.listeners[host]
        listener.setblocking(False)
        sock, (peer, _) = await asyncio.get_running_loop().sock_accept(listener)
        assert peer == address(self.rank), "it comes from where it has published to be"
        self.channels.append(Channel(*await asyncio.open_connection(sock=sock)))
        await self.channels[-1].expect(struct.pack(">I", self.rank))
        return self.channels[-1]

    async def join(
        self, rank: int | None = None, key: bytes = KEY, introduce: Callable[[Channel], Awaitable[object]] = modest
    ) -> Channel:
        """Connect to the agent as its rank.

        Args:
            introduce: says whether there is memory for long packets.
        """
        rank = self.rank if rank is None else rank
        link = Channel(*await asyncio.open_unix_connection(self.path))
        self.channels.append(link)
        handshake = hello.Connector(
            hello.rank_key(key, rank),
            role=hello.ROLE_HOST,
            rank=rank,
            target=hello.RANK_AGENT,
            channel=hello.Protection.LOCAL,
        )
        await link.send(handshake.data_to_send())
        handshake.receive_data(await link.reader.readexactly(handshake.needed))
        await link.send(handshake.data_to_send())
        await introduce(link)
        return link

    async def up(self) -> tuple[list[Channel], Channel]:
        """Host 1 with its channels to the hosts 0, 2 and 3, and its rank."""
        connecting = self.connecting()
        channels = [await self.accept(0), await self.dial(2), await self.dial(3)]
        await connecting
        return channels, await self.join()

    def close(self) -> None:
        self.agent.close()
        for channel in self.channels:
            channel.close()
        for listener in self.listeners:
            listener.close()


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Newcomers have all the time of this process, which does all at once."""
    monkeypatch.setattr(newcomers, "_GREETING", LIMIT)


@pytest_asyncio.fixture
async def place(home: Path) -> AsyncIterator[Callable[..., Place]]:
    """Makes a host: `place(rank)`."""
    made: list[Place] = []

    def make(rank: int, **options: Any) -> Place:
        made.append(Place(home, rank, **options))
        return made[-1]

    yield make
    for found in made:
        found.close()
    await asyncio.sleep(0)


pytestmark = pytest.mark.asyncio


# The dance.


@pytest.mark.spec("I2.3.8-2", "I2.3.8-3", "I2.3.8-4", "I2.3.8-8", "I2.3.8-10", "I3.9-1")
async def test_the_dance(place: Callable[..., Place]) -> None:
    """Hosts of higher ranks may come before the lower ones have been connected to; their order means nothing."""
    here = place(2)
    third = await here.dial(3)
    connecting = here.connecting()
    zero = await here.accept(0)
    one = await here.accept(1)
    await connecting
    link = await here.join()
    for rank, channel in ((0, zero), (1, one), (3, third)):
        await channel.send(packet(rank, 2, b"hello"))
        await link.expect(packet(rank, 2, b"hello"))
        await link.send(packet(2, rank, b"you, too"))
        await channel.expect(packet(2, rank, b"you, too"))
    with pytest.raises(ConnectionRefusedError):
        await here.dial(3)
    assert (here.said, here.failures) == ([], [])


@pytest.mark.spec("I2.3.8-6", "I2.3.8-7")
@pytest.mark.parametrize(
    ("host", "greeting", "source", "cause"),
    [
        (1, b"\0\0\0\0", "", "host rank 0 is not one of those that connect to host 0"),
        (1, b"\0\0\0\4", "", "host rank 4 is not one of those"),
        (1, b"\1\0\0\0", "", "(1 with its bytes swapped: integers of IMPI are big-endian)"),
        (1, b"GET / HTTP/1.0\r\n\r\n", "", "host rank 1195725856 is not one of those"),
        (1, b"\0\0\0\1", "127.0.0.9", f"should connect from the address that it has published, {address(1)}"),
        (1, b"\0\0\0\1", address(2), "should connect from the address that it has published"),
    ],
    ids=["itself", "nobody", "little-endian", "another protocol", "from elsewhere", "from another host"],
)
async def test_strangers_are_dropped(
    place: Callable[..., Place], host: int, greeting: bytes, source: str, cause: str
) -> None:
    here = place(0)
    connecting = here.connecting()
    stranger = await here.dial(host, source, greeting)
    with contextlib.suppress(ConnectionResetError):
        await stranger.end()
    assert cause in here.said[0]
    assert here.said[0].startswith(f"dropped a connection from {source or address(host)} to the IMPI host: ")
    for rank in (3, 2, 1):
        await here.dial(rank)
    await connecting
    assert here.failures == []


@pytest.mark.parametrize("site_has", ["no certificates", "certificates"])
async def test_a_host_that_has_no_key_has_no_channel_over_tls(
    place: Callable[..., Place], tmp_path: Path, site_has: str
) -> None:
    files = certificates(tmp_path) if site_has == "certificates" else {}
    settings = Settings(tls="on", **files)
    here = place(0, settings=settings, credentials=Credentials(key=5, tls="on"))
    connecting = here.connecting()
    stranger = await here.dial(1, greeting=b"")
    await stranger.writer.start_tls(tls.context(settings, server=False))
    binding = tls.binding(stranger.writer.get_extra_info("ssl_object"))
    await stranger.send(Credentials(key=6, tls="on").proof(b"connector", binding))
    with contextlib.suppress(ConnectionError):
        assert await stranger.reader.read() == b""
    connecting.cancel()
    assert "could not prove that it has IMPI_AUTH_KEY" in here.said[0]


async def test_a_host_that_speaks_in_clear_is_refused_on_one_host_too(place: Callable[..., Place]) -> None:
    """The clients have said to their server that their hosts encrypt, so that this is something else."""
    here = place(0, credentials=Credentials(key=5, tls="auto"), encrypting=True)
    connecting = here.connecting()
    stranger = await here.dial(1)
    with contextlib.suppress(ConnectionError):
        assert await stranger.reader.read() == b""
    connecting.cancel()
    assert "host 1 did not encrypt its channel: AIOMPI_TLS must suit on all hosts" in here.said[0]


@pytest.mark.spec("I2.3.8-6")
async def test_strangers_that_say_nothing(place: Callable[..., Place], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(newcomers, "_GREETING", 0.05)
    here = place(0)
    connecting = here.connecting()
    silent = await here.dial(1, greeting=b"")
    hasty = await here.dial(1, greeting=b"\0\0\0")
    hasty.writer.write_eof()
    await hasty.end()
    await silent.end()
    monkeypatch.setattr(newcomers, "_GREETING", LIMIT)
    for said in ("without its host rank", "it did not identify itself in time"):
        assert any(said in text for text in here.said)
    for rank in (1, 2, 3):
        await here.dial(rank)
    await connecting


@pytest.mark.parametrize("greeting", [b"", b"\0"], ids=["silent", "begun"])
async def test_a_crowd_of_strangers_pushes_out_its_oldest(
    place: Callable[..., Place], monkeypatch: pytest.MonkeyPatch, greeting: bytes
) -> None:
    monkeypatch.setattr(newcomers, "MAX_NEWCOMERS", 3)
    here = place(0)
    connecting = here.connecting()
    strangers = [await here.dial(1, greeting=greeting) for _ in range(5)]
    await strangers[0].end()
    await strangers[1].end()
    for rank in (1, 2, 3):
        await here.dial(rank)
    await connecting


async def test_a_crowd_of_strangers_pushes_out_none_that_has_begun(
    place: Callable[..., Place], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(newcomers, "MAX_NEWCOMERS", 3)
    monkeypatch.setattr(listen, "_BEGUN", LIMIT)
    here = place(0)
    connecting = here.connecting()
    slow = [await here.dial(rank, greeting=b"\0\0\0") for rank in (1, 2)]
    strangers = [await here.dial(1, greeting=b"") for _ in range(4)]
    for stranger in strangers[:3]:
        await stranger.end()
    for rank, channel in enumerate(slow, 1):
        await channel.send(bytes([rank]))
    await here.dial(3)
    await connecting


async def test_a_flood_of_strangers_keeps_out_no_host_and_no_rank(
    place: Callable[..., Place], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The strangers stay silent. A host and a rank that come meanwhile are slow to prove themselves."""
    monkeypatch.setattr(listen, "_BEGUN", LIMIT)
    monkeypatch.setattr(listen, "_PERIOD", LIMIT)
    here = place(0)
    connecting = here.connecting()
    ended, most, count = False, 0, 0
    target = (address(0), here.universe.hosts[0].port)

    async def flood() -> None:
        nonlocal most, count
        with contextlib.ExitStack() as stack:
            while not ended:
                sock = stack.enter_context(socket.socket())
                sock.setblocking(False)
                with contextlib.suppress(OSError):
                    sock.connect_ex(target)
                count += 1
                most = max(most, len(here.agent._new_hosts or ()))
                await asyncio.sleep(0)
                if count % 500 == 0:
                    stack.pop_all().close()

    async def hesitate(rank: Channel) -> None:
        await asyncio.sleep(0.5)
        await modest(rank)

    flooding = asyncio.create_task(flood())
    while count < 300:
        await asyncio.sleep(0.01)
    link = asyncio.create_task(here.join(introduce=hesitate))
    slow = [await here.dial(rank, greeting=b"\0\0\0") for rank in (1, 2, 3)]
    await asyncio.sleep(0.5)
    for rank, channel in enumerate(slow, 1):
        await channel.send(bytes([rank]))
    await connecting
    ended = True
    await flooding
    await slow[0].send(packet(1, 0, b"hello"))
    await (await link).expect(packet(1, 0, b"hello"))
    assert most <= newcomers.MAX_NEWCOMERS
    assert len(here.said) <= 5, "the others are counted"
    assert here.failures == []


async def test_strangers_make_room_when_descriptors_run_out(place: Callable[..., Place]) -> None:
    here = place(0)
    connecting = here.connecting()
    strangers = [await here.dial(1, greeting=b"") for _ in range(2)]
    while len(here.agent._new_hosts or ()) < 2:
        await asyncio.sleep(0)
    late = socket.create_connection((address(0), here.universe.hosts[0].port), source_address=(address(1), 0))
    with late, no_more_descriptors():
        late.sendall(struct.pack(">I", 1))
        while 1 not in here.agent._channels:
            await asyncio.sleep(0)
        await strangers[0].end()
        assert here.said == [f"dropped a connection from {address(1)} to the IMPI host: descriptors ran out"]
    connecting.cancel()


@pytest.mark.spec("I2.3.8-6")
async def test_a_host_that_comes_twice(place: Callable[..., Place]) -> None:
    here = place(0)
    connecting = here.connecting()
    first = await here.dial(1)
    link = await here.join()
    await first.send(packet(1, 0))
    await link.expect(packet(1, 0))
    again = await here.dial(1)
    await again.end()
    assert "host 1 has connected already" in here.said[0]
    await here.dial(2)
    await here.dial(3)
    await connecting
    await first.send(packet(1, 0, b"still here"))
    await link.expect(packet(1, 0, b"still here"))


async def test_a_setting_lets_hosts_come_from_anywhere(place: Callable[..., Place]) -> None:
    here = place(0, settings=Settings(impi_any_source=True))
    connecting = here.connecting()
    for rank in (1, 2, 3):
        await here.dial(rank, "127.0.0.9")
    await connecting


async def test_hosts_that_do_not_come_in_time(place: Callable[..., Place], monkeypatch: pytest.MonkeyPatch) -> None:
    here = place(1)
    connecting = here.connecting(1000)
    await here.accept(0)
    await here.dial(3)
    while here.agent._channels.keys() != {0, 3}:
        await asyncio.sleep(0)
    loop = asyncio.get_running_loop()
    now = loop.time
    monkeypatch.setattr(loop, "time", lambda: now() + 1000)
    with pytest.raises(RendezvousError, match=f"no connection with host 2 of client 2 at {address(2)} within 1000 s"):
        await connecting


async def test_a_host_that_is_not_there(place: Callable[..., Place]) -> None:
    here = place(1)
    here.listeners[0].close()
    with pytest.raises(RendezvousError, match=r"host 0 of client 0 at .*, port \d+: Connection refused"):
        await here.agent.connect(5)


# Ranks.


@pytest.mark.parametrize(
    ("rank", "key"), [(1, bytes(32)), (0, KEY), (7, KEY)], ids=["key", "rank of another", "no rank"]
)
async def test_a_rank_that_is_none(place: Callable[..., Place], rank: int, key: bytes) -> None:
    here = place(1)
    with contextlib.suppress(AuthenticationError, ConnectionError, asyncio.IncompleteReadError):
        await here.join(rank, key)
    with contextlib.suppress(ConnectionError):
        await here.channels[-1].send(bytes(hello.PROOF_BYTES))  # where it has noticed itself that the key is wrong
        await here.channels[-1].end()
    assert "dropped a connection from this machine" in here.said[0]
    await here.up()


@pytest.mark.parametrize(
    ("nbytes", "said"),
    [(None, slots.SHARED), (None, b"?"), (4096, slots.SHARED)],
    ids=["no memory", "nonsense", "too little memory"],
)
async def test_a_rank_that_hands_over_something_else(
    place: Callable[..., Place], nbytes: int | None, said: bytes
) -> None:
    here = place(1)
    descriptors = [] if nbytes is None else [memory.create(nbytes)[0]]
    link = await here.join(introduce=handing_over(*descriptors, said=said))
    for descriptor in descriptors:
        os.close(descriptor)
    await link.end()
    assert "dropped a connection from this machine" in here.said[0]
    await here.up()


@pytest.mark.spec("I3.1-1", "I3.1-4")
async def test_long_packets_pass_through_memory_of_the_rank(place: Callable[..., Place]) -> None:
    """Only to and from the rank; it may be slow, and then they come through the socket."""
    here = place(1)
    fd, made = memory.create(slots.nbytes(DATALEN))
    shared = SharedPackets(made, DATALEN, rank=True)
    connecting = here.connecting()
    channels = [await here.accept(0), await here.dial(2), await here.dial(3)]
    await connecting
    link = await here.join(introduce=handing_over(fd))
    os.close(fd)

    slot = shared.outbound.take()
    assert slot is not None
    data = packet(1, 2, bytes(DATALEN))
    slot.write([data])
    await link.send(packet(1, 2, b"before") + slot.reference + packet(1, 2, b"behind"))
    await channels[1].expect(packet(1, 2, b"before") + data + packet(1, 2, b"behind"))

    count = len(list(iter(shared.outbound.take, None)))
    sent = [packet(2, 1, bytes([number]) * DATALEN) for number in range(count + 3)]
    for data in sent:
        await channels[1].send(data)
    got = []
    for number in range(len(sent)):
        whole = await link.reader.readexactly(HEADER_BYTES)
        found = shared.inbound.referred(whole, 0)
        if found is None:
            whole += await link.reader.readexactly(DATALEN)
            assert number >= count
        got.append(whole if found is None else bytes(found.view[: HEADER_BYTES + DATALEN]))
    assert got == sent
    assert here.failures == []


async def test_packets_wait_for_a_rank_that_is_not_here_yet(place: Callable[..., Place]) -> None:
    here = place(0)
    connecting = here.connecting()
    channels = [await here.dial(rank) for rank in (1, 2, 3)]
    await connecting
    early = [packet(1, 0, bytes([number])) for number in range(3)]
    await channels[0].send(b"".join(early))
    await asyncio.sleep(0)
    link = await here.join()
    await channels[0].send(packet(1, 0, b"late"))
    await link.expect(b"".join(early) + packet(1, 0, b"late"))


async def test_a_rank_that_speaks_nonsense(place: Callable[..., Place]) -> None:
    here = place(1)
    _, link = await here.up()
    await link.send(packet(2, 3))
    await link.end()
    assert "rank 1 broke the protocol towards its IMPI host" in here.failures[0]


# Traffic.


@pytest.mark.spec("I3.1-1", "I1.2.3-4")
async def test_packets_pass_unchanged_one_byte_at_a_time(place: Callable[..., Place]) -> None:
    here = place(1)
    (zero, *_), link = await here.up()
    junk = bytearray(b"\xff" * HEADER_BYTES)
    junk[:8] = struct.pack(">II", PacketType.SYNCACK, 128)
    junk[8:56] = proc(0) + proc(1)
    stream = packet(0, 1, b"data") + junk + packet(0, 1) + packet(0, 1, b"more than pieces of one system call" * 90)
    for byte in stream:
        await zero.send(bytes([byte]))
        await asyncio.sleep(0)  # the agent reads it
    async with asyncio.timeout(LIMIT):
        await link.expect(stream)


@pytest.mark.spec("I3.1-1", "I1.2.3-4")
@pytest.mark.parametrize("size", [1, 999, 40_000])
async def test_a_long_packet_comes_in_portions_and_is_passed_on_with_its_last_byte(
    place: Callable[..., Place], size: int
) -> None:
    here = place(1)
    (zero, *_), link = await here.up()
    data = packet(0, 1, random.Random(size).randbytes(DATALEN))
    end = max(len(data) - 3 * size, 0)
    await zero.send(data[:end])
    for _ in range(10):
        await asyncio.sleep(0)
    for start in range(end, len(data), size):
        await zero.send(data[start : start + size])
        await asyncio.sleep(0.001)
    async with asyncio.timeout(LIMIT):
        await link.expect(data)
        await zero.send(packet(0, 1, b"next"))
        await link.expect(packet(0, 1, b"next"))


@pytest.mark.spec("I2.4-8")
async def test_a_host_that_dies_within_a_packet(place: Callable[..., Place]) -> None:
    here = place(1)
    (zero, *_), _ = await here.up()
    await zero.send(packet(0, 1, bytes(DATALEN))[:-1000])
    for _ in range(10):
        await asyncio.sleep(0)
    zero.close()
    async with asyncio.timeout(LIMIT):
        while not here.failures:
            await asyncio.sleep(0.001)
    assert "the connection ended in the middle of a packet" in here.failures[0]


@pytest.mark.spec("I3.1-2", "I3.1-3")
async def test_both_ways_at_once(place: Callable[..., Place]) -> None:
    """Neither side reads before it has written everything, which is more than the sockets hold."""
    here = place(1)
    (_, two, _), link = await here.up()
    for channel in (two, link):
        channel.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1)
        channel.writer.transport.set_write_buffer_limits(0)
        channel.writer.transport.pause_reading()  # type: ignore[attr-defined]
    there = b"".join(packet(1, 2, bytes([number]) * DATALEN) for number in range(40))
    back = b"".join(packet(2, 1, bytes([number]) * DATALEN) for number in range(40))
    await asyncio.gather(link.send(there), two.send(back))
    for channel in (two, link):
        channel.writer.transport.resume_reading()  # type: ignore[attr-defined]
    await asyncio.gather(two.expect(there), link.expect(back))


async def test_packets_of_any_size_come_out_as_they_went_in(place: Callable[..., Place]) -> None:
    """From three hosts at once, to a rank that reads in fits and starts: memory is used again, but not too early."""
    here = place(1)
    channels, link = await here.up()
    chance = random.Random(7)
    sources = dict(zip((0, 2, 3), channels, strict=True))
    sent = {
        rank: [packet(rank, 1, chance.randbytes(chance.choice((0, 1, 5000, DATALEN)))) for _ in range(100)]
        for rank in sources
    }
    writing = [asyncio.create_task(channel.send(b"".join(sent[rank]))) for rank, channel in sources.items()]
    got: dict[int, list[bytes]] = {rank: [] for rank in sources}
    for number in range(300):
        if number % 50 == 0:
            await asyncio.wait(writing, timeout=0.01)
        whole = await link.packet()
        got[unpack(whole).pk_src[-1]].append(whole)
    assert got == sent
    await asyncio.gather(*writing)


@pytest.mark.spec("I3.1-3", "I3.1-4")
async def test_a_host_that_does_not_read_holds_up_nobody_else(place: Callable[..., Place]) -> None:
    """Its rank is read no more once much is waiting; what it sends itself, and what goes to others, passes."""
    here = place(1)
    (zero, two, three), link = await here.up()
    three.writer.transport.pause_reading()  # type: ignore[attr-defined]
    flood = packet(1, 3, bytes(DATALEN))
    count = 3 * CONGESTION // len(flood) + 200
    sending = asyncio.create_task(link.send(flood * count))
    stream = here.agent._channels[3]
    while stream.backlog <= CONGESTION:
        await asyncio.sleep(0)
    for _ in range(1000):
        await asyncio.sleep(0)
    assert stream.backlog <= CONGESTION + BUFFER_BYTES + len(flood)
    assert not sending.done()
    for channel, rank in ((zero, 0), (two, 2), (three, 3)):
        await channel.send(packet(rank, 1, b"ping"))
        await link.expect(packet(rank, 1, b"ping"))
    three.writer.transport.resume_reading()  # type: ignore[attr-defined]
    for _ in range(count):
        assert await three.packet() == flood
    await sending


@pytest.mark.parametrize(
    ("data", "cause"),
    [
        (b"\xff" * HEADER_BYTES, "no such type"),
        (Packet(0, DATALEN + 1, proc(0), proc(1), pk_msglen=2**63).pack(), f"{DATALEN} were agreed upon"),
        (Packet(0, 2, proc(0), proc(1), pk_msglen=1).pack(), "brings 2 bytes of a message that has 1"),
        (packet(2, 1), "does not come from one of its processes"),
        (packet(0, 3), "is not for a process of host 1"),
        (FINI + packet(0, 1), "came after FINI"),
        (FINI + FINI, "FINI came twice"),
        (b"".join(packet(0, 1) for _ in range(4 * HIWATER + 1)), "is one too many"),
    ],
    ids=["garbage", "too long", "inconsistent", "forged", "misdirected", "after FINI", "FINI twice", "flood"],
)  # fmt: skip
async def test_a_host_that_breaks_the_protocol(place: Callable[..., Place], data: bytes, cause: str) -> None:
    here = place(1)
    (zero, *_), link = await here.up()
    link.writer.transport.pause_reading()  # type: ignore[attr-defined]
    await zero.send(data)
    with contextlib.suppress(ConnectionResetError):
        await zero.end()
    assert here.failures[0].startswith(f"host 0 of client 0 at {address(0)} broke the protocol: ")
    assert cause in here.failures[0]


# The end.


@pytest.mark.spec("I2.4-3", "I2.4-4", "I3.8-2", "I3.8-7")
async def test_fini(place: Callable[..., Place]) -> None:
    """FINI goes out behind the last packet of the rank; the channels stay open until the others have sent it, too."""
    here = place(1)
    channels, link = await here.up()
    await link.send(packet(1, 0, b"last words") + FINI)
    finishing = asyncio.create_task(here.agent.finish())
    await channels[0].expect(packet(1, 0, b"last words") + FINI)
    for channel in channels[1:]:
        await channel.expect(FINI)
    for channel, rank in ((channels[0], 0), (channels[2], 3)):
        await channel.send(FINI)
        await channel.end()
        assert not finishing.done(), rank
    await channels[1].send(packet(2, 1, b"for nobody") + FINI)
    await link.expect(packet(2, 1, b"for nobody"))
    await channels[1].end()
    await finishing
    assert here.failures == []


async def test_packets_for_a_host_that_has_finished_are_dropped(place: Callable[..., Place]) -> None:
    """It should have waited for our FINI, but nothing depends on that."""
    here = place(1)
    (zero, two, _), link = await here.up()
    await zero.send(FINI)
    zero.close()
    while 0 in here.agent._channels:
        await asyncio.sleep(0)
    await link.send(packet(1, 0, b"too late") + packet(1, 2, b"in time"))
    await two.expect(packet(1, 2, b"in time"))
    assert here.failures == []


@pytest.mark.spec("I2.4-3")
async def test_no_fini_before_the_rank_has_ended(place: Callable[..., Place]) -> None:
    here = place(1)
    (zero, *_), link = await here.up()
    finishing = asyncio.create_task(here.agent.finish())
    await zero.send(packet(0, 1, b"?"))
    await link.expect(packet(0, 1, b"?"))
    await link.send(packet(1, 0, b"!"))
    await zero.expect(packet(1, 0, b"!"))
    await link.send(FINI)
    await zero.expect(FINI)
    finishing.cancel()


@pytest.mark.spec("I2.4-5", "I3.8-3")
async def test_packets_for_a_rank_that_has_ended_are_acknowledged(place: Callable[..., Place]) -> None:
    here = place(1)
    (zero, *_), link = await here.up()
    link.close()
    finishing = asyncio.create_task(here.agent.finish())
    await zero.expect(FINI)
    await zero.send(packet(0, 1, b"one") + packet(0, 1, b"two"))
    ack = unpack(await zero.packet())
    assert (ack.pk_type, ack.pk_src, ack.pk_dest) == (PacketType.PROTOACK, proc(1), proc(0))
    finishing.cancel()


@pytest.mark.spec("I2.4-8")
@pytest.mark.parametrize("said", [True, False])
async def test_a_host_that_dies(place: Callable[..., Place], said: bool) -> None:
    here = place(1)
    (zero, *_), link = await here.up()
    await link.send(FINI)
    finishing = asyncio.create_task(here.agent.finish()) if said else None
    if said:
        await zero.expect(FINI)
    zero.close()
    reason = f"host 0 of client 0 at {address(0)} has died: it closed the connection without FINI"
    if finishing is not None:
        with pytest.raises(RendezvousError, match=reason):
            await finishing
    while not here.failures:
        await asyncio.sleep(0)
    assert here.failures == [reason]


@pytest.mark.spec("I2.4-9")
async def test_a_job_that_fails_says_no_fini(place: Callable[..., Place]) -> None:
    here = place(1)
    channels, link = await here.up()
    here.agent.close()
    for channel in (*channels, link):
        with contextlib.suppress(ConnectionResetError):  # for what the agent had not read yet
            await channel.end()


# Anything at all.


@pytest.mark.parametrize("seed", range(20))
async def test_whatever_a_host_sends(place: Callable[..., Place], seed: int) -> None:
    """Damaged packets pass, or end the channel with a reason; nothing is raised, and other channels live on."""
    raised: list[dict[str, object]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: raised.append(context))
    chance = random.Random(seed)
    here = place(1)
    (zero, two, _), link = await here.up()
    stream = bytearray(
        b"".join(packet(0, 1, bytes(chance.randrange(300)), PacketType(chance.randrange(7))) for _ in range(9))
    )
    for _ in range(seed % 4):
        stream[chance.randrange(len(stream))] = chance.randrange(256)
    await zero.send(bytes(stream[: chance.randrange(len(stream))]))
    zero.close()
    while not here.failures:
        await asyncio.sleep(0)
    assert here.failures[0].startswith("host 0 of client 0")
    await two.send(packet(2, 1, b"end of test"))
    heard = b""
    while not heard.endswith(b"end of test"):
        heard += await link.reader.read(DATALEN)
    assert raised == []
