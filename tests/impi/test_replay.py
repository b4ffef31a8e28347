"""Start-ups of another implementation, as recorded: our server answers its clients as its server did, byte for byte,
and our client gets through with what its server says."""

from __future__ import annotations

import re

import pytest

from aiompi.impi.auth import Credentials
from aiompi.impi.client import Client, ClientState, Started
from aiompi.impi.command import Code, CommandReader, decode_impi
from aiompi.impi.label import ClientPart, HostPart, ProcPart
from aiompi.impi.server import JobFinished, Server
from aiompi.impi.universe import Universe
from support.cases import cases
from support.recordings import JOBS, Connection, connections

KEY = 5678  # of the run `authkey`; the others have IMPI_AUTH_NONE
HERE = bytes(12) + bytes([127, 0, 0, 1])
PART = ClientPart((HostPart(HERE, 1, (ProcPart(HERE, 1),)),))


def clients(job: str) -> dict[int, Connection]:
    """Connections of the clients to their server, by client rank."""
    return {rank_of(found, job): found for found in connections(job) if not found.between_hosts}


def rank_of(connection: Connection, job: str) -> int:
    reader = CommandReader()
    reader.receive_data(connection.sent)
    reader.next_command([Code.AUTH])
    if job == "authkey":
        reader.next_bytes(8)
    command = reader.next_command([Code.IMPI])
    assert command is not None
    return decode_impi(command.payload)


def credentials(job: str) -> Credentials:
    return Credentials(key=KEY) if job == "authkey" else Credentials(none=True)


def without_fini(sent: bytes) -> bytes:
    return sent.removesuffix(b"FINI" + bytes(4))


@pytest.mark.parametrize("job", JOBS)
@pytest.mark.parametrize("step", [1, 7, 10**6])
def test_our_server_and_recorded_clients(job: str, step: int) -> None:
    recorded = clients(job)
    server = Server(len(recorded), credentials(job))
    ends = {rank: server.add_connection(str(rank), 0.0) for rank in recorded}
    answers = dict.fromkeys(ends, b"")
    longest = max(len(connection.sent) for connection in recorded.values())
    for start in range(0, longest, step):  # all clients talk at once
        for rank, end in ends.items():
            end.receive_data(without_fini(recorded[rank].sent)[start : start + step])
        for rank, end in ends.items():
            answers[rank] += end.data_to_send()
    assert answers == {rank: connection.answered for rank, connection in recorded.items()}
    for rank, end in ends.items():
        assert recorded[rank].sent.endswith(b"FINI" + bytes(4))
        end.receive_data(b"FINI" + bytes(4))
    assert JobFinished() in server.events()


@pytest.mark.parametrize("job", JOBS)
@pytest.mark.parametrize("step", [1, 7, 10**6])
def test_our_client_and_the_recorded_server(job: str, step: int) -> None:
    universes = set()
    for rank, connection in clients(job).items():
        client = Client(rank, credentials(job), PART)
        events = []
        for start in range(0, len(connection.answered), step):
            events += client.receive_data(connection.answered[start : start + step])
        assert client.state is ClientState.RUNNING
        (universe,) = (event.universe for event in events if isinstance(event, Started))
        universes.add(repr(universe))
        client.finish()
        assert client.data_to_send().endswith(b"FINI" + bytes(4))
    assert len(universes) == 1, "all clients see the same job"


@cases("job", JOBS)
def test_an_aiompi_client_that_would_rather_be_native(job: str) -> None:
    """One that knows its kin stays polite when there is none."""
    rank, connection = next(iter(clients(job).items()))
    client = Client(rank, credentials(job), ClientPart(PART.hosts, native=True))
    client.receive_data(connection.answered)
    assert client.state is ClientState.RUNNING
    assert client.universe is not None
    assert not client.universe.native
    assert not client.may_submit


@pytest.mark.spec("I2.3.8-3", "I2.3.8-5")
def test_recorded_hosts_dance_as_the_universe_says() -> None:
    """The higher host connects, from the address that it has published, and begins with its host rank."""
    universe = described("three_fixed")
    seen = set()
    for channel in connections("three_fixed"):
        if channel.between_hosts:
            dialling = int.from_bytes(channel.sent[:4])
            (accepting,) = (
                number
                for number, host in enumerate(universe.hosts)
                if f"{host.address}_{host.port}" == channel.acceptor
            )
            assert channel.connector.startswith(universe.hosts[dialling].address + "_")
            assert dialling > accepting
            seen.add((dialling, accepting))
    assert seen == {(1, 0), (2, 0), (2, 1)}


def described(job: str) -> Universe:
    rank, connection = next(iter(clients(job).items()))
    client = Client(rank, credentials(job), PART)
    client.receive_data(connection.answered)
    assert client.universe is not None
    return client.universe


def test_the_recordings_are_there() -> None:
    assert [len(clients(job)) for job in JOBS] == [2, 2, 2, 3]
    assert all(re.fullmatch(r"[\d.]+_\d+", found.acceptor) for job in JOBS for found in connections(job))
