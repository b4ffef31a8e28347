"""A job with a client of another implementation, which the test plays: what it says, and when it says nothing."""

from __future__ import annotations

import contextlib
import socket
import struct
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from aiompi.impi.auth import Credentials
from aiompi.impi.client import Client, ClientState
from aiompi.impi.label import ClientPart, HostPart, ProcPart
from aiompi.impi.packet import HEADER_BYTES, Packet, PacketType, unpack
from aiompi.impi.universe import Universe
from support.limits import LIMIT, expires

KEY = {"IMPI_AUTH_KEY": "5678"}
UP = ["join", "card", "cards", "print=up"]
DOWN = ["finalize", "finalized"]
#: as historic peers write it: 12 zero bytes
ADDRESS = "127.0.0.7"
HERE = bytes(12) + socket.inet_aton(ADDRESS)
#: FINI as a historic peer sends it: junk in every field that does not count
FINI = Packet(PacketType.FINI, 128, bytes(16) + b"\xff" * 8, bytes(16) + b"\xff" * 8, pk_msglen=128, pk_tag=-1).pack()


class Foreign:
    """A client of one proc.

    Attributes:
        client: its conversation with the server.
        listener: of its host.
    """

    def __init__(self, address: str, rank: int) -> None:
        host, _, port = address.rpartition(":")
        self.listener = socket.create_server((ADDRESS, 0))
        part = ClientPart((HostPart(HERE, self.listener.getsockname()[1], (ProcPart(HERE, 4711),)),))
        self.client = Client(rank, Credentials(key=5678), part)
        self.server = socket.create_connection((host, int(port)), timeout=LIMIT)
        self.open = [self.listener, self.server]
        self.flush()

    def flush(self) -> None:
        self.server.sendall(self.client.data_to_send())

    def meet(self) -> Universe:
        """Go through the start-up."""
        while self.client.state is not ClientState.RUNNING:
            data = self.server.recv(65536)
            assert data
            self.client.receive_data(data)
            self.flush()
        assert self.client.universe is not None
        return self.client.universe

    def meet_if_possible(self) -> None:
        """The same, unless the other client has no more time."""
        with contextlib.suppress(AssertionError, ConnectionError):
            self.meet()

    def dial(self, host: int, rank: int) -> socket.socket:
        """Connect to a host, and say our host rank."""
        target = self.meet().hosts[host]
        channel = socket.create_connection((target.address, target.port), LIMIT, (ADDRESS, 0))
        self.open.append(channel)
        channel.sendall(struct.pack(">I", rank))
        return channel

    def accept(self) -> tuple[socket.socket, int]:
        """Let a host connect; the host rank that it says."""
        self.listener.settimeout(LIMIT)
        channel, _ = self.listener.accept()
        channel.settimeout(LIMIT)
        self.open.append(channel)
        (rank,) = struct.unpack(">I", read(channel, 4))
        return channel, rank

    def close(self) -> None:
        for sock in self.open:
            sock.close()


def read(channel: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count and (piece := channel.recv(count - len(data))):
        data += piece
    return data


class Job:
    """A server, aiompi as one of two clients, and the foreign one as the other."""

    def __init__(self, launch: Any) -> None:
        self._launch = launch
        self.server = launch.start("--server", "2", env=KEY)
        self.address = self.server.line()
        self.foreigners: list[Foreign] = []

    def start(self, rank: int, *words: str, stdin: int = subprocess.DEVNULL, **env: str) -> Any:
        return self._launch.start("--client", str(rank), self.address, *words, env=KEY | env, stdin=stdin)

    def foreign(self, rank: int) -> Foreign:
        self.foreigners.append(Foreign(self.address, rank))
        return self.foreigners[-1]


@pytest.fixture
def job(launch: Any) -> Iterator[Callable[[], Job]]:
    jobs: list[Job] = []

    def make() -> Job:
        jobs.append(Job(launch))
        return jobs[-1]

    yield make
    for found in jobs:
        for foreign in found.foreigners:
            foreign.close()


@pytest.mark.spec("I2.3.8-1", "I2.3.8-2", "I2.3.8-3", "I2.3.8-11", "I2.4-3", "I2.4-4", "I2.4-6", "I3.8-5")
@pytest.mark.parametrize("first", [True, False], ids=["they connect", "we connect"])
def test_from_the_dance_to_the_end(job: Callable[[], Job], rank: str, first: bool) -> None:
    """Ranks leave Init when the channel is up, and the server hears FINI when the channel has been closed.

    The dance does not wait for ranks, or a client whose ranks come up slowly would look dead to the hosts of others.
    """
    here = job()
    ours, theirs = (0, 1) if first else (1, 0)
    running = here.start(ours, "-n", "2", rank, "read", *UP, *DOWN, "print=down", stdin=subprocess.PIPE)
    foreign = here.foreign(theirs)
    universe = foreign.meet()
    assert not universe.native
    assert universe.clients[ours].versions[0] == (0, 0)
    if first:
        channel = foreign.dial(0, 1)
    else:
        channel, host = foreign.accept()
        assert host == 1
    running.process.stdin.write("\n")
    running.process.stdin.flush()
    assert [running.line(), running.line()] == ["up", "up"]
    assert unpack(read(channel, HEADER_BYTES)) == Packet(PacketType.FINI)
    foreign.client.finish()
    foreign.flush()
    assert here.server.process.poll() is None
    channel.sendall(FINI)
    assert read(channel, 1) == b""
    channel.close()
    result = running.end()
    assert (result.returncode, result.stdout, result.stderr) == (0, "down\n" * 2, "")
    assert here.server.end().returncode == 0


def test_channels_that_must_be_encrypted(job: Callable[[], Job], rank: str) -> None:
    """A client with AIOMPI_TLS=on does not speak to hosts of other implementations."""
    here = job()
    running = here.start(1, rank, *UP, *DOWN, AIOMPI_TLS="on")
    here.foreign(0).meet()
    result = running.end()
    assert result.returncode == 1
    assert "does not encrypt its channels, and AIOMPI_TLS=on" in result.stderr


@pytest.mark.spec("I2.3.8-11")
def test_a_host_that_never_connects(job: Callable[[], Job], rank: str) -> None:
    def is_given_up(seconds: float) -> bool:
        here = job()
        running = here.start(0, rank, *UP, AIOMPI_CONNECT_TIMEOUT=str(seconds))
        here.foreign(1).meet_if_possible()
        result = running.end()
        assert (result.returncode, result.stdout) == (1, "")
        return f"no connection with host 1 of client 1 at {ADDRESS} within {seconds:g} s" in result.stderr

    assert expires(is_given_up)


@pytest.mark.spec("I2.4-8")
@pytest.mark.parametrize("last_words", [b"", b"\0" * 100, b"\xff" * HEADER_BYTES], ids=["death", "half", "garbage"])
def test_a_channel_that_ends(job: Callable[[], Job], rank: str, last_words: bytes) -> None:
    here = job()
    running = here.start(0, rank, *UP, "pause")
    foreign = here.foreign(1)
    channel = foreign.dial(0, 1)
    assert running.line() == "up"
    channel.sendall(last_words)
    channel.close()
    result = running.end()
    assert result.returncode == 1
    assert f"host 1 of client 1 at {ADDRESS}" in result.stderr
    assert read(foreign.server, 1) == b"", "the server tells the others"
    assert here.server.end().returncode == 1


@pytest.mark.spec("I2.3.7-4")
def test_a_foreign_client_that_leaves_the_server(job: Callable[[], Job], rank: str) -> None:
    here = job()
    running = here.start(0, rank, *UP, "pause")
    foreign = here.foreign(1)
    foreign.dial(0, 1)
    assert running.line() == "up"
    foreign.server.close()
    assert running.end().returncode == 1
    assert "client 1 at 127.0.0.1:" in here.server.end().stderr


@pytest.mark.spec("I1.2.3-6")
def test_an_address_that_others_cannot_reach_is_reported(job: Callable[[], Job], monkeypatch: Any) -> None:
    monkeypatch.setattr(f"{__name__}.HERE", bytes(10) + b"\xff\xff" + bytes([192, 0, 2, 1]))

    def is_reported(seconds: float) -> bool:
        here = job()
        running = here.start(1, "true", AIOMPI_CONNECT_TIMEOUT=str(seconds))
        here.foreign(0).meet_if_possible()
        result = running.end()
        assert result.returncode == 1
        return "warning: client 1 is at 127.0.0.1, where other machines cannot reach it" in result.stderr

    assert expires(is_reported)
