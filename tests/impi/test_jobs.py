"""Jobs of two and three IMPI clients with real processes: everything crosses from one client to the other, by IMPI and
by native connections, on one machine and on three."""

from __future__ import annotations

import os
import subprocess
import textwrap
from collections.abc import Iterator, Sequence
from typing import Final

import pytest

from support.jobs import LAUNCHER, Result, Running, Site
from support.limits import LIMIT

#: seconds for a job: many processes start
KEY: Final = {"IMPI_AUTH_KEY": "5678"}

#: What every client runs. The ranks print nothing but "ok": all that could be wrong is asserted.
PROGRAM: Final = """
    import numpy as np
    from aiompi import MPI

    world = MPI.COMM_WORLD
    rank, size = world.Get_rank(), world.Get_size()
    after, before = (rank + 1) % size, (rank - 1) % size

    # Messages of 0 bytes to several packets, in every mode, around the ring.
    for count in (0, 1, 100, 40_000, 300_000):
        tag, data, got = count // 10, np.full(count, rank, np.float64), np.empty(count, np.float64)
        for isend in (world.Isend, world.Issend):
            request = isend(data, after, tag=tag)
            status = MPI.Status()
            world.Probe(before, tag, status)
            assert status.Get_count(MPI.DOUBLE) == count
            world.Recv(got, before, tag, status)
            request.Wait()
            assert (status.Get_source(), status.Get_count(MPI.DOUBLE)) == (before, count)
            assert (got == before).all()

    # Many short messages at once, more than may be under way.
    requests = [world.isend((rank, number), after, tag=7) for number in range(60)]
    assert [world.recv(source=before, tag=7) for _ in range(60)] == [(before, number) for number in range(60)]
    MPI.Request.waitall(requests)

    # A message that is taken back.
    request = world.Issend(np.zeros(3), after, tag=99)
    request.Cancel()
    status = MPI.Status()
    request.Wait(status)
    assert status.Is_cancelled()
    world.Barrier()
    assert not world.Iprobe(MPI.ANY_SOURCE, 99)

    # Collectives, and communicators that cross the clients in another order.
    assert world.allreduce(rank) == size * (size - 1) // 2
    assert world.allgather(rank) == list(range(size))
    turned = world.Split(0, -rank)
    assert turned.bcast(rank if turned.rank == 0 else None, root=0) == size - 1
    total = np.empty(5, np.int32)
    turned.Allreduce(np.full(5, rank, np.int32), total, MPI.SUM)
    assert (total == size * (size - 1) // 2).all()

    # What the world knows of itself.
    color = world.Get_attr(MPI.IMPI_CLIENT_COLOR)
    own = world.Split(color, rank)
    assert own.Get_attr(MPI.IMPI_CLIENT_SIZE) == 1
    assert own.allreduce(1) == CLIENT_SIZES[color]
    assert world.Get_attr(MPI.IMPI_CLIENT_SIZE) == len(CLIENT_SIZES)
    assert world.Get_attr(MPI.TAG_UB) == TAG_UB
    print("ok")
"""


class Machine:
    """Where a client runs.

    Attributes:
        prefix: words before each command.
        address: by which others reach it.
    """

    def __init__(self, address: str, *prefix: str) -> None:
        self.prefix = prefix
        self.address = address


def run(site: Site, sizes: Sequence[int], env: dict[str, str], machines: Sequence[Machine] = ()) -> list[Result]:
    """Run PROGRAM as a job of several clients; the last one is started first.

    Args:
        sizes: number of ranks of each client.
        env: of all clients.
        machines: one for each; the server is on the first.
    """
    machines = machines or [Machine(f"127.0.0.{client + 1}") for client in range(len(sizes))]
    constants = f"CLIENT_SIZES, TAG_UB = {tuple(sizes)}, 2**31 - 1\n"
    program = site.program(constants + textwrap.dedent(PROGRAM))
    bind = ["--bind", machines[0].address]
    server = site.start(*machines[0].prefix, *LAUNCHER, "--server", str(len(sizes)), *bind, env=KEY)
    server.expect("\n")
    address = server.out.strip()
    running: list[Running] = []
    for client in reversed(range(len(sizes))):
        machine = machines[client]
        line = [
            *LAUNCHER,
            "--client",
            str(client),
            address,
            "--bind",
            machine.address,
            "-n",
            str(sizes[client]),
            program,
        ]
        running.insert(0, site.start(*machine.prefix, *line, env=KEY | env))
    results = [client.finish(LIMIT) for client in running]
    assert (server.finish(LIMIT).code, server.err) == (0, ""), results
    return results


def check(results: Sequence[Result], sizes: Sequence[int]) -> None:
    for result, size in zip(results, sizes, strict=True):
        assert (result.code, result.out, result.err) == (0, "ok\n" * size, ""), result


@pytest.mark.spec("I1.1-1", "I1.1-2", "I1.1-3", "I1.1-7", "I2.3.5-34")
@pytest.mark.parametrize(("sizes", "native"), [((3,), "0"), ((2, 3), "0"), ((2, 3), "1")], ids=str)
def test_everything_crosses(site: Site, sizes: tuple[int, ...], native: str) -> None:
    check(run(site, sizes, {"AIOMPI_IMPI_NATIVE": native}), sizes)


@pytest.mark.spec("I2.3.5-26", "I2.3.5-27", "I2.3.5-28", "I2.3.5-29", "I3.6-9", "I3.4-1")
def test_tight_limits(site: Site) -> None:
    """Small packets, strict alternation with acknowledgements, and other limits of collectives."""
    env = {"DATALEN": "1000", "ACKMARK": "1", "HIWATER": "1", "XSIZE": "16", "MAXLINEAR": "1"}
    env = {f"AIOMPI_IMPI_{name}": value for name, value in env.items()} | {"AIOMPI_IMPI_NATIVE": "0"}
    check(run(site, (1, 2, 1), env), (1, 2, 1))


def test_ranks_that_share_no_memory_with_their_host(site: Site) -> None:
    check(run(site, (2, 1), {"AIOMPI_IMPI_NATIVE": "0", "AIOMPI_TRANSPORTS": "unix"}), (2, 1))


def test_several_hosts_per_client(site: Site) -> None:
    program = site.program(f"CLIENT_SIZES, TAG_UB = (2, 3), 2**31 - 1\n{textwrap.dedent(PROGRAM)}")
    server = site.launch("--server", "2", env=KEY)
    server.expect("\n")
    running = [
        site.launch("--client", str(client), server.out.strip(), "--hosts-per-client", "2", "--bind",
                    f"127.0.0.{2 + client},127.0.0.{4 + client}", "-n", size, program,
                    env=KEY | {"AIOMPI_IMPI_NATIVE": "0"})
        for client, size in enumerate("23")
    ]  # fmt: skip
    check([client.finish(LIMIT) for client in running], (2, 3))
    assert server.finish(LIMIT).code == 0


# Three machines: network namespaces joined by a bridge where that is allowed, addresses of loopback elsewhere.


def ip(*words: str) -> bool:
    """Return True if the system lets us do that."""
    try:
        return subprocess.run(("ip", *words), check=False, capture_output=True).returncode == 0
    except FileNotFoundError:
        return False


def connect(hub: str, names: Sequence[str]) -> bool:
    """Make namespaces that are connected with each other; whether that is allowed."""
    done = ip("netns", "add", hub) and ip("-n", hub, "link", "add", "bridge", "type", "bridge")
    done = done and ip("-n", hub, "link", "set", "bridge", "up")
    for number, name in enumerate(names):
        port = f"port{number}"
        done = (
            done
            and ip("netns", "add", name)
            and ip("-n", name, "link", "add", "eth", "type", "veth", "peer", "name", port, "netns", hub)
            and ip("-n", name, "address", "add", f"10.213.7.{number + 1}/24", "dev", "eth")
            and ip("-n", name, "link", "set", "eth", "up")
            and ip("-n", name, "link", "set", "lo", "up")
            and ip("-n", hub, "link", "set", port, "master", "bridge", "up")
        )
    return done


@pytest.fixture
def machines() -> Iterator[list[Machine]]:
    hub, *names = [f"aiompi-{os.getpid()}-{name}" for name in ("hub", "a", "b", "c")]
    try:
        if connect(hub, names):
            yield [Machine(f"10.213.7.{n + 1}", "ip", "netns", "exec", name) for n, name in enumerate(names)]
        else:
            yield [Machine(f"127.0.0.{number}") for number in (2, 3, 4)]
    finally:
        for name in (hub, *names):
            ip("netns", "delete", name)


@pytest.mark.spec("I2.1-1", "I1.2.3-6")
@pytest.mark.parametrize("env", [{"AIOMPI_IMPI_NATIVE": "0"}, {"AIOMPI_TRANSPORTS": "tcp"}], ids=["IMPI", "native"])
def test_three_machines(site: Site, machines: list[Machine], env: dict[str, str]) -> None:
    check(run(site, (2, 1, 1), env, machines), (2, 1, 1))
