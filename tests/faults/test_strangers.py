"""Strangers connect to every port of a job and send garbage, nothing, or a huge length. The job is not affected."""

from __future__ import annotations

import contextlib
import os
import random
import socket
import struct
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from aiompi.impi.command import Code
from aiompi.wire.version import MAGIC, banner
from aiompi_launcher.start.directory import TOP
from support.jobs import FACES, KEY, Port, Running, Site, in_face
from support.machines import until
from support.worlds import STREAMS

FIRST_BYTES: Final = {
    "nothing": b"",
    "garbage": random.Random(0).randbytes(2**16),
    "an enormous length": b"\xff\xff\xff\xff" * 4,
    "another protocol": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "an IMPI command of enormous length": struct.pack(">ii", Code.AUTH, 2**31 - 1),
    "half a hello": MAGIC + bytes(10),
    "a hello without proof": banner() + bytes(60),
}
#: those that need no patience to be told from a slow rank
OBVIOUS: Final = ("garbage", "an enormous length", "another protocol")

#: Rank 2 does not join in before the test writes into the pipe that is named by the last argument.
PATIENT: Final = """
print("ready", comm.rank, flush=True)
if comm.rank == 2:
    print("busy", os.getpid(), flush=True)
    with open(sys.argv[-1]) as gate:
        gate.read()
print(await comm.allgather("x" * comm.rank), flush=True)
"""
ANSWER: Final = ["['', 'x', 'xx']"] * 3


class Gate:
    """A pipe that blocks a rank until the test opens it."""

    def __init__(self, directory: Path) -> None:
        self.path = str(directory / "gate")
        os.mkfifo(self.path)

    def hold(self) -> None:
        """Let the reader open it, and wait."""
        self._writer = open(self.path, "w")

    def open(self) -> None:
        self._writer.close()


@contextlib.contextmanager
def strangers(ports: list[Port]) -> Iterator[dict[str, list[socket.socket]]]:
    """Connect a stranger of each kind to each port; they stay until the port closes the connection."""
    with contextlib.ExitStack() as stack:
        connections: dict[str, list[socket.socket]] = {}
        for kind, data in FIRST_BYTES.items():
            connections[kind] = [stack.enter_context(port.connect()) for port in ports]
            for connection in connections[kind]:
                with contextlib.suppress(OSError):  # they are thrown out while they still talk
                    connection.sendall(data)
        yield connections


def is_thrown_out(connection: socket.socket) -> bool:
    """Wait for the end of the connection. Return True if no data came before."""
    try:
        return connection.recv(1) == b""
    except ConnectionError:
        return True


def hold_out(site: Site, job: Running, gate: Gate, count: int) -> None:
    """Run a job with this many ports and strangers, which must finish as it does without them."""
    job.expect("ready", 3)
    job.expect("busy")
    gate.hold()
    ports = site.ports()
    assert len(ports) == count, ports
    with strangers(ports) as connections:
        for kind in OBVIOUS:
            for connection, port in zip(connections[kind], ports, strict=True):
                assert f"busy {port.owner}" in job.out or is_thrown_out(connection)
        gate.open()
        result = job.finish()
    assert (result.code, result.err) == (0, "")
    assert result.lines[:3] == ANSWER


@pytest.mark.parametrize(
    ("face", "transport"), [*zip(FACES, sorted({"unix", "shared_memory"} & STREAMS.keys()), strict=False)]
)
def test_unix_sockets(site: Site, face: str, transport: str) -> None:
    """The ports are those of the launcher, one of which is for viewers, and of each rank."""
    gate = Gate(site.directory)
    program = site.program(in_face(face, PATIENT))
    job = site.launch("-n", "3", program, gate.path, env={"AIOMPI_TRANSPORTS": transport})
    hold_out(site, job, gate, 2 + 3)


def test_tcp_ports(site: Site) -> None:
    gate = Gate(site.directory)
    program = site.program(in_face("blocking", PATIENT))
    job = site.launch("-n", "3", program, gate.path, env={"AIOMPI_TRANSPORTS": "tcp"})
    hold_out(site, job, gate, 2 + 3)


#: Rank 0 waits for a rank that finalizes once a stranger has connected to rank 0. The argument is a pipe.
WAITS: Final = """
import select, socket, sys
from aiompi import MPI
from aiompi.job import failure_detector
from aiompi.wire.hello import ROLE_PEER, Connector, Protection
failure_detector.MANY_LOOKS = 10
world = MPI.COMM_WORLD
if world.rank == 0:
    processes = world._core.engine.processes
    card = processes.cards[0]["transports"]["tcp"]
    stranger = socket.create_connection((card[0], card[-1]))
    hello = Connector(
        bytes(32), role=ROLE_PEER, rank=1, target=0, channel=Protection.ENCRYPTED, namespace=processes.job
    ).data_to_send()
    stranger.sendall({words})
    while {words} == hello and not select.select([stranger], [], [], 0)[0]:
        world.Iprobe()  # until it has an answer
    with open(sys.argv[1], "w"):
        pass
    try:
        world.recv(source=1)
    except MPI.Exception as error:
        print(error)
    stranger.close()
else:
    with open(sys.argv[1]) as gate:
        gate.read()
MPI.Finalize()
"""


@pytest.mark.parametrize("words", ["hello[:40]", "hello"], ids=["half a hello", "as that rank"])
def test_a_stranger_does_not_hold_up_the_news_that_a_rank_has_left(site: Site, words: str) -> None:
    """It might have been that rank, whose messages are still to come. It may say so, if it knows the job."""
    env = {"AIOMPI_TRANSPORTS": "tcp", "AIOMPI_CONNECT_TIMEOUT": "3600"}
    program = site.program(WAITS.format(words=words))
    result = site.launch("-n", "2", program, Gate(site.directory).path, env=env).finish()
    assert (result.code, result.err) == (0, "")
    assert result.lines == ["rank 1 has finalized: it sends and receives nothing more"]


#: Both ranks of a job in one process; the second one begins to communicate when the first line comes.
TWO_JOINERS: Final = """
import asyncio, sys
import aiompi

async def rank(number, gate):
    async with aiompi.init(sys.argv[1], rank=number) as world:
        if number == 1:
            print("ready", flush=True)
            await gate
        return await world.allgather(number)

async def main():
    with open(sys.argv[2]) as file:
        gate = asyncio.create_task(asyncio.to_thread(file.read))
        print(await asyncio.gather(rank(0, gate), rank(1, gate)), flush=True)

asyncio.run(main())
"""


def test_ports_of_a_job_that_others_join(site: Site) -> None:
    """Those of the launcher, for ranks and for viewers; then also those of the ranks, one for each transport."""
    gate = Gate(site.directory)
    job, address = site.serve(2)
    until(lambda: len(site.ports()) == 2)
    for_ranks, for_viewers = sorted(site.ports(), key=lambda port: port.family == socket.AF_UNIX)
    assert ":".join(map(str, for_ranks.address)) == address
    assert os.path.basename(for_viewers.address) == TOP
    with strangers([for_ranks, for_viewers]) as early:
        assert all(is_thrown_out(connection) for kind in OBVIOUS for connection in early[kind])
        joiners = site.start(sys.executable, site.program(TWO_JOINERS), address, gate.path, env={"AIOMPI_KEY": KEY})
        gate.hold()
        joiners.expect("ready")
        ports = site.ports()
        assert len(ports) == 2 + 2 * len(STREAMS), ports
        with strangers(ports) as connections:
            assert all(is_thrown_out(connection) for kind in OBVIOUS for connection in connections[kind])
            gate.open()
            assert joiners.finish().out == "ready\n[[0, 1], [0, 1]]\n"
            result = job.finish()
    assert result.code == 0
    told = [line for line in result.err.splitlines() if "dropped a connection from 127.0.0.1:" in line]
    assert len(told) == len(result.err.splitlines()) >= 2 * len(OBVIOUS)


def test_port_of_an_impi_server(site: Site) -> None:
    server = site.launch("--server", "1", env={"IMPI_AUTH_KEY": "77"})
    server.expect("\n")
    with strangers(site.ports()) as connections:
        kinds = (*OBVIOUS, "an IMPI command of enormous length")
        assert all(is_thrown_out(connections[kind][0]) for kind in kinds)
        program = site.program(in_face("blocking", "print(await comm.allreduce(1))"))
        client = site.launch("--client", "0", server.out.strip(), "-n", "2", program, env={"IMPI_AUTH_KEY": "77"})
        result = client.finish()
        assert (result.code, result.lines, result.err) == (0, ["2", "2"], "")
        result = server.finish()
    assert result.code == 0
    told = [line for line in result.err.splitlines() if "dropped the connection from 127.0.0.1:" in line]
    assert len(told) >= len(kinds)
