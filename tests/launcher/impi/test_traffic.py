"""Jobs of several clients whose ranks use IMPI with each other, as processes."""

from __future__ import annotations

import pytest

from support.jobs import FACES, Running, Site, in_face

ENV = {"IMPI_AUTH_KEY": "5678", "AIOMPI_IMPI_NATIVE": "0", "AIOMPI_IMPI_DATALEN": "1000"}

#: Everyone sends to everyone, short and long, and receives in some order; then a collective.
EXCHANGE = """
import numpy as np
from aiompi.datatype import DOUBLE, LONG
from aiompi.status import Status
rank, size = comm.rank, comm.size
others = [other for other in range(size) if other != rank]
sent, got = [], {}
for count in (0, 3, 700):
    for other in others:
        sent.append(comm.Isend(np.arange(count) + rank + 0.5, other, count))
        sent.append(comm.Issend([np.arange(count, dtype="l") - rank, LONG], other, 1000 + count))
        sent.append(comm.isend({"from": rank, "data": bytes(5 * count)}, other, 2000 + count))
for count in (700, 3, 0):
    for other in reversed(others):
        status, doubles, longs = Status(), np.zeros(count), np.zeros(count, "l")
        await comm.Recv([longs, LONG], other, 1000 + count, status)
        assert (longs == np.arange(count) - other).all()
        assert status.Get_count(LONG) == status.Get_elements(LONG) == count
        await comm.Recv(doubles, other, count, status)
        assert (doubles == np.arange(count) + other + 0.5).all()
        assert status.Get_count(DOUBLE) == count
        assert await comm.recv(source=other, tag=2000 + count) == {"from": other, "data": bytes(5 * count)}
for request in sent:
    await request.WAIT
assert await comm.allreduce(rank) == size * (size - 1) // 2
print("fine")
"""


def job(site: Site, sizes: list[int], text: str, env: dict[str, str] | None = None) -> tuple[Running, list[Running]]:
    """Start a server and its clients, the last one first."""
    server = site.launch("--server", str(len(sizes)), env=ENV)
    server.expect("\n")
    address, program = server.out.strip(), site.program(text)
    clients = [
        site.launch(
            "--client",
            str(rank),
            address,
            "--bind",
            f"127.0.0.{rank + 1}",
            "-n",
            str(size),
            program,
            env=ENV | (env or {}),
        )
        for rank, size in reversed(list(enumerate(sizes)))
    ]
    return server, clients


@pytest.mark.spec("I1.1-1", "I1.2.2-3", "I2.4-1", "I2.4-2", "I2.4-3", "I3.7.1-2", "I3.7.2-1")
@pytest.mark.parametrize(("face", "sizes"), [("native", [1, 2]), ("blocking", [2, 1, 1])])
def test_messages_of_every_rank_to_every_rank(site: Site, face: str, sizes: list[int]) -> None:
    text = in_face(face, EXCHANGE).replace("request.WAIT", "request" if face == "native" else "request.wait()")
    server, clients = job(site, sizes, text)
    for client, size in zip(clients, reversed(sizes), strict=True):
        result = client.finish()
        assert (result.code, result.lines, result.err) == (0, ["fine"] * size, "")
    assert server.finish().code == 0


@pytest.mark.spec("I2.4-8", "I2.4-9")
@pytest.mark.parametrize("face", FACES)
def test_a_rank_that_dies_ends_the_job_at_all_clients(site: Site, face: str) -> None:
    body = """
        if comm.rank == 0:
            await comm.recv(source=1)
            os.kill(os.getpid(), signal.SIGKILL)
        await comm.send(None, dest=0)
        await comm.recv(source=0)
    """
    server, clients = job(site, [1, 1], in_face(face, body))
    for client in clients:
        assert client.finish().code != 0
    assert server.finish().code == 1
