"""Server and clients joined in memory."""

from __future__ import annotations

import pytest

from aiompi.errors import AuthenticationError, RemoteProtocolError
from aiompi.impi import auth
from aiompi.impi.auth import Credentials
from aiompi.impi.client import Client, ClientState, PrivateLabel, Started
from aiompi.impi.label import FIRST_PRIVATE, ClientPart, HostPart, ProcPart
from aiompi.impi.local import SoloJob, pump
from aiompi.impi.server import AllStarted, Authenticated, ClientFinished, JobFinished, Server, ServerConnection
from aiompi.impi.universe import Universe

HOST = bytes(10) + b"\xff\xff\x7f\0\0\1"
KEY = Credentials(key=2**64 - 1)


def part(rank: int, nprocs: int = 1, native: bool = False) -> ClientPart:
    procs = tuple(ProcPart(HOST, 100 * rank + proc) for proc in range(nprocs))
    return ClientPart(hosts=(HostPart(HOST, 5000 + rank, procs=procs),), native=native)


def links(server: Server, parts: list[ClientPart]) -> list[tuple[Client, ServerConnection]]:
    return [
        (Client(rank, KEY, one), server.add_connection(f"client {rank}", now=0.0)) for rank, one in enumerate(parts)
    ]


@pytest.mark.parametrize("native", [False, True])
@pytest.mark.parametrize("nprocs", [1, 4, 64])
def test_a_job_of_one_client(nprocs: int, native: bool) -> None:
    job = SoloJob(part(0, nprocs, native))
    assert job.universe.size == nprocs
    assert job.universe.hosts[0].procs == range(nprocs)
    assert AllStarted in map(type, job.server.events())
    assert job.finish() == [ClientFinished(0), JobFinished()]


@pytest.mark.spec("I2.2.2-4", "I2.3.5-19", "I2.3.5-25", "I2.3.6-2")
@pytest.mark.parametrize("count", [1, 2, 3, 5, 8, 32])
def test_all_clients_see_the_same_universe_in_any_order_of_start(count: int) -> None:
    server = Server(count, KEY)
    pairs = links(server, [part(rank, nprocs=rank + 1) for rank in range(count)])
    events = pump(reversed(pairs))
    universes: list[Universe] = [event.universe for event in events if isinstance(event, Started)]
    assert len(universes) == count
    assert len(set(universes)) == 1
    expected = [100 * rank + proc for rank in range(count) for proc in range(rank + 1)]
    assert [proc.pid for proc in universes[0].procs] == expected
    for client, _ in pairs:
        client.finish()
    pump(pairs)
    assert server.finished


@pytest.mark.parametrize("count", [2, 3, 5])
def test_aiompi_clients_exchange_private_labels(count: int) -> None:
    server = Server(count, KEY)
    pairs = links(server, [part(rank, native=True) for rank in range(count)])
    pump(pairs)
    for client, _ in pairs:
        assert client.may_submit
        if client.rank != 1:
            client.submit(FIRST_PRIVATE, bytes([client.rank]) * client.rank)
        client.done()
    events = pump(pairs)
    cards = [event for event in events if isinstance(event, PrivateLabel)]
    expected = {rank: bytes([rank]) * rank for rank in range(count) if rank != 1}
    assert cards == [PrivateLabel(FIRST_PRIVATE, expected)] * count
    assert all(client.state is ClientState.RUNNING for client, _ in pairs)


def test_one_foreign_client_and_nobody_waits_for_private_labels() -> None:
    server = Server(3, KEY)
    pairs = links(server, [part(0, native=True), part(1), part(2, native=True)])
    events = pump(pairs)
    assert sum(isinstance(event, Started) for event in events) == 3


@pytest.mark.spec("I2.3.3-21", "I2.3.3-22")
def test_a_wrong_key_reaches_the_user_of_the_client() -> None:
    server = Server(1, KEY)
    client = Client(0, Credentials(key=1), part(0))
    with pytest.raises(AuthenticationError, match="wrong key"):
        pump([(client, server.add_connection("here", now=0.0))])
    assert not server.failed


def test_no_common_method_reaches_the_user_of_the_client() -> None:
    server = Server(1, KEY)
    client = Client(0, Credentials(none=True), part(0))
    with pytest.raises(AuthenticationError, match="accepts none of IMPI_AUTH_NONE"):
        pump([(client, server.add_connection("here", now=0.0))])


@pytest.mark.spec("I2.3.4-5")
def test_a_taken_rank_reaches_the_user_of_the_second_client() -> None:
    server = Server(2, KEY)
    first, second = Client(0, KEY, part(0)), Client(0, KEY, part(0))
    with pytest.raises(RemoteProtocolError, match="client rank 0 is taken"):
        pump([(first, server.add_connection("a", now=0.0)), (second, server.add_connection("b", now=0.0))])
    assert first.state is ClientState.JOINING


@pytest.mark.spec("I2.3.3-7")
def test_tls_is_chosen_where_both_have_it() -> None:
    """The handshake is left to the caller; the key follows, and nothing may precede it in clear."""
    for tls, other, method in [("auto", "auto", auth.TLS), ("auto", "off", auth.KEY), ("on", "auto", auth.TLS)]:
        server = Server(1, Credentials(key=7, tls=tls))
        client = Client(0, Credentials(key=7, tls=other), part(0))
        link = server.add_connection("a peer", now=0.0)
        pump([(client, link)])
        assert (client.state is ClientState.SECURING) == (method == auth.TLS)
        if method == auth.TLS:
            assert client.data_to_send() == b""
            client.secured(b"a channel")
            link.secured()
            link.receive_data(client.data_to_send())
            assert link.data_to_send() == b"", "the proof waits for what it is about"
            link.bind(b"a channel")
            pump([(client, link)])
        assert client.size == 1
        assert Authenticated(link, method) in server.events()


@pytest.mark.parametrize("early", [b"\0", bytes(7)])
def test_what_precedes_the_handshake_in_clear(early: bytes) -> None:
    server = Server(1, Credentials(key=7, tls="on"))
    client = Client(0, Credentials(key=7, tls="on"), part(0))
    link = server.add_connection("a peer", now=0.0)
    link.receive_data(client.data_to_send() + early)
    link.secured()
    assert "went on in clear" in str(server.events())
    client.receive_data(link.data_to_send() + early)
    with pytest.raises(RemoteProtocolError, match="went on in clear"):
        client.secured(b"a channel")


@pytest.mark.parametrize(
    ("key", "binding"), [(8, b"a channel"), (7, b"another channel")], ids=["another key", "another channel"]
)
def test_proofs_of_the_key_over_tls(key: int, binding: bytes) -> None:
    """A server that cannot prove the key gets nothing but a proof, and a client that cannot gets nothing."""
    server, client = Server(1, Credentials(key=key, tls="on")), Client(0, Credentials(key=7, tls="on"), part(0))
    link = server.add_connection("a peer", now=0.0)
    pump([(client, link)])
    client.secured(b"a channel")
    link.secured()
    link.bind(binding)
    proof = client.data_to_send()
    assert len(proof) == auth.PROOF_BYTES
    assert (7).to_bytes(8) not in proof
    link.receive_data(proof)
    assert "wrong key" in str(server.events())
    assert link.data_to_send() == b""
    with pytest.raises(AuthenticationError, match="could not prove that it has IMPI_AUTH_KEY"):
        client.receive_data(server.credentials.proof(b"server", binding))
    assert client.data_to_send() == b""
