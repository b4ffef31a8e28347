"""The algorithms of the simulated processes, against the worked examples of the specification (IMPI 0.0, chapter 4)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from aiompi_launcher.conformance.journal import Journal
from aiompi_launcher.conformance.lower import LowerTester
from aiompi_launcher.conformance.model import collective, tags
from aiompi_launcher.conformance.model.client import Client, Part
from aiompi_launcher.conformance.model.collective import (
    btree_children,
    btree_parent,
    btree_size,
    htree_children,
    htree_parent,
)
from aiompi_launcher.conformance.model.comm import Comm
from aiompi_launcher.conformance.model.host import Host
from aiompi_launcher.conformance.server import Server
from aiompi_launcher.conformance.wire.packet import WITH_DATA, Packet

Sent = tuple[int, int, int]  # from, to, bytes
ROOT = 5


class Recorder(LowerTester):
    """Records sender, receiver and size of messages."""

    def __init__(self, tag: int) -> None:
        super().__init__(Journal())
        self.sent: list[Sent] = []
        self._tag = tag

    def packet_sent(self, host: Host, peer: int, packet: Packet) -> None:
        super().packet_sent(host, peer, packet)
        ranks = {proc.identity: proc.rank for proc in host.universe.procs}
        if packet.type in WITH_DATA and packet.tag == self._tag:
            assert packet.cid == 1
            self.sent.append((ranks[packet.src], ranks[packet.dest], packet.msglen))


async def messages(
    tag: int, call: Callable[[Comm], Awaitable[object]], sizes: tuple[int, ...] = (2,) * 6
) -> list[Sent]:
    """The messages between clients of a collective on COMM_WORLD, of clients of these sizes."""
    recorder = Recorder(tag)
    server = Server(len(sizes), Journal())
    await server.start("127.0.0.1")
    parts = [Part(rank, (f"127.0.0.{2 + rank}",), size) for rank, size in enumerate(sizes)]
    clients = [Client(part, recorder) for part in parts]
    try:
        await asyncio.gather(*(client.start(*server.address) for client in clients))
        procs = [proc for client in clients for host in client.hosts for proc in host.procs.values()]
        await asyncio.gather(*(call(Comm(proc, 0, list(range(len(procs))))) for proc in procs))
    finally:
        for client in clients:
            client.close()
        server.close()
        await asyncio.gather(server.closed(), *(client.closed() for client in clients))
    assert recorder.journal.errors == []
    return recorder.sent


@pytest.mark.spec("I4.10-4")
@pytest.mark.asyncio
async def test_barrier():
    sent = await messages(tags.BARRIER, collective.barrier)
    up, down = sent[:5], sent[5:]
    assert sorted(up) == sorted([(8, 0, 0), (10, 2, 0), (6, 2, 0), (4, 0, 0), (2, 0, 0)])
    assert sorted(down) == sorted([(0, 2, 0), (0, 4, 0), (0, 8, 0), (2, 6, 0), (2, 10, 0)])


@pytest.mark.spec("I4.11-4")
@pytest.mark.asyncio
async def test_bcast():
    sent = await messages(tags.BCAST, lambda comm: collective.bcast(comm, b"1234567", ROOT))
    assert sorted(sent) == sorted((a, b, 7) for a, b in [(5, 6), (5, 8), (5, 0), (6, 10), (6, 2)])


@pytest.mark.spec("I4.12-7")
@pytest.mark.asyncio
async def test_gather():
    gathered: list[list[bytes]] = []

    async def gather(comm: Comm) -> None:
        blocks = await collective.gather(comm, comm.rank.to_bytes(4), ROOT)
        if blocks:
            gathered.append(blocks)

    sent = await messages(tags.GATHER, gather)
    assert sorted(sent) == sorted([(6, 5, 8), (10, 8, 8), (8, 5, 16), (2, 0, 8), (0, 5, 16)])
    assert gathered == [[rank.to_bytes(4) for rank in range(12)]]


@pytest.mark.spec("I4.16-5")
@pytest.mark.asyncio
async def test_reduce():
    sums: list[int] = []

    async def reduce(comm: Comm) -> None:
        add = lambda a, b: (int.from_bytes(a) + int.from_bytes(b)).to_bytes(4)  # noqa: E731
        result = await collective.reduce(comm, comm.rank.to_bytes(4), add, True, ROOT)
        if result:
            sums.append(int.from_bytes(result))

    sent = await messages(tags.REDUCE, reduce)
    assert sorted(sent) == sorted((a, b, 4) for a, b in [(6, 5), (10, 8), (2, 0), (8, 5), (0, 5)])
    assert sums == [66]


@pytest.mark.spec("I4.22-3", "I4.22-4")
@pytest.mark.asyncio
async def test_alltoall():
    """Clients of 3, 3 and 2 processes, blocks of 4 bytes: 36 bytes between the larger ones, 24 to and from the last."""
    received: dict[int, list[bytes]] = {}

    async def alltoall(comm: Comm) -> None:
        blocks = [bytes((0, 0, comm.rank, dest)) for dest in range(comm.size)]
        received[comm.rank] = await collective.alltoall(comm, blocks)

    sent = await messages(tags.ALLTOALL, alltoall, (3, 3, 2))
    assert sorted(sent) == [(0, 3, 36), (0, 6, 24), (3, 0, 36), (3, 6, 24), (6, 0, 24), (6, 3, 24)]
    assert received == {rank: [bytes((0, 0, source, rank)) for source in range(8)] for rank in range(8)}


@pytest.mark.spec("I4.10-3", "I4.12-5")
def test_trees():
    assert [htree_parent(v) for v in range(1, 8)] == [0, 0, 1, 0, 1, 2, 3]
    assert [btree_parent(v) for v in range(1, 8)] == [0, 0, 2, 0, 4, 4, 6]
    for size in range(1, 20):
        for children, parent in ((htree_children, htree_parent), (btree_children, btree_parent)):
            below = {v: children(v, size) for v in range(size)}
            assert sorted(child for found in below.values() for child in found) == list(range(1, size))
            assert all(parent(child) == v for v, found in below.items() for child in found)
        for v in range(size):
            assert btree_size(v, size) == 1 + sum(btree_size(child, size) for child in btree_children(v, size))
