"""Start-up only, with a recorded client of another implementation on the other side (IMPI 0.0, section 5.1)."""

from __future__ import annotations

import asyncio
import struct

import pytest

from aiompi_launcher.conformance.results import Verdict
from aiompi_launcher.conformance.session import Limits, Session
from aiompi_launcher.conformance.setup import Setup
from aiompi_launcher.conformance.wire.packet import HEADER, WITH_DATA, Kind, decode
from aiompi_launcher.conformance.wire.startup import LABELS
from support.limits import LIMIT
from support.recordings import Connection, connections

IMPI, COLL, DONE = b"IMPI", b"COLL", b"DONE"
H_PORT, P_IPV6, P_PID = 0x2100, 0x3000, 0x3100
BARRIER_TAG = 110
RANK = 1  # of the recorded client


def of_client(job: str) -> Connection:
    """What the client of this rank said to its server."""
    said = IMPI + struct.pack(">II", 4, RANK)
    (found,) = (connection for connection in connections(job) if said in connection.sent)
    return found


def packets(data: bytes) -> list[bytes]:
    found = []
    while data:
        packet = decode(data[:HEADER])
        end = HEADER + (packet.len if packet.type in WITH_DATA else 0)
        found.append(data[:end])
        data = data[end:]
    return found


async def labels(reader: asyncio.StreamReader) -> dict[int, bytes]:
    """What a server tells of the simulated client and of the recorded one, up to DONE."""
    await reader.readexactly(8)  # the answer to AUTH
    values = {}
    while True:
        code, length = struct.unpack(">4sI", await reader.readexactly(8))
        payload = await reader.readexactly(length)
        if code == DONE:
            return values
        if code == COLL:
            values[int.from_bytes(payload[:4])] = payload[8:]


async def perform(job: str, address: tuple[str, int]) -> None:
    """Be the recorded client: its start-up, the barrier of its MPI_Finalize, its end.

    All is as it was recorded but for the process to which the barrier goes, which is another one now.
    """
    said = of_client(job).sent
    (channel,) = (connection.sent for connection in connections(job) if connection.between_hosts)
    barrier = next(packet for packet in reversed(packets(channel[4:])) if decode(packet[:HEADER]).tag == BARRIER_TAG)
    fini = packets(channel[4:])[-1]
    assert decode(fini).type == Kind.FINI

    server, to_server = await asyncio.open_connection(*address)
    to_server.write(said[:-8])
    told = await labels(server)
    port = int.from_bytes(told[H_PORT][:4])
    host, to_host = await asyncio.open_connection("127.0.0.2", port, local_addr=("127.0.0.1", 0))
    to_host.write(channel[:4])
    to_host.write(barrier[:32] + told[P_IPV6][:16] + told[P_PID][:8] + barrier[56:])
    await host.readexactly(HEADER)
    to_host.write(fini)
    await host.read()
    to_server.write(said[-8:])
    await server.read()
    for writer in (to_host, to_server):
        writer.close()
        await writer.wait_closed()


@pytest.mark.spec("I5.1-8", "I5.1-9")
@pytest.mark.parametrize(("job", "procs"), [("showcase", 1), ("showcase_fixed", 2)])
@pytest.mark.asyncio
async def test_recorded_clients_pass_startup_only(job: str, procs: int):
    session = Session(Setup(procs=procs, iut_procs=procs), Limits(startup=LIMIT, quiet=LIMIT))
    client = asyncio.create_task(perform(job, await session.open()))
    try:
        results = [await session.start(), await session.startup_only()]
        await client
    finally:
        client.cancel()
        await session.close()
    assert [result.verdict for result in results] == [Verdict.PASS] * 2, results
    steps = [step.text for step in results[-1].steps]
    assert sum("> AUTH, mask 0x1" in text for text in steps) == 2
    assert sum(text.startswith("client 1 > COLL") for text in steps) == len(LABELS)
    assert sum(f"tag={BARRIER_TAG}" in text for text in steps) == 2
    assert steps.index("client 1 > DONE") < steps.index("client 1 > FINI")
