"""Ranks that have the keys which they were given, and speak for others."""

from __future__ import annotations

import pytest
from jobs import Site

#: Rank 2 of three connects to rank 1 and to the agent as rank 0, with all the keys that it has, and takes any proof.
RANKS = """
import os, socket
from aiompi import MPI
from aiompi.errors import AuthenticationError
from aiompi.wire import hello

def impersonate(path, keys, claimed, target, namespace, role=hello.ROLE_PEER):
    ends = set()
    for key in filter(None, keys):
        with socket.socket(socket.AF_UNIX) as sock:
            sock.connect(path)
            sock.settimeout(5)
            connector = hello.Connector(key, role=role, rank=claimed, target=target, namespace=namespace)
            connector._check = lambda *_: None
            sock.sendall(connector.data_to_send())
            connector.receive_data(sock.recv(connector.needed, socket.MSG_WAITALL))
            sock.sendall(connector.data_to_send())
            sock.settimeout(1)
            try:
                ends.add("dropped" if sock.recv(1) == b"" else "answered")
            except ConnectionResetError:
                ends.add("dropped")
            except TimeoutError:
                ends.add("accepted")
    print(*ends)

def known(space):
    size = hello.PAIR_KEY_BYTES
    return [space.key, space.pairs, *(space.pairs[at : at + size] for at in range(0, len(space.pairs), size))]
"""
IN_A_JOB = (
    RANKS
    + """
world = MPI.COMM_WORLD
world.Barrier()
if world.rank == 2:
    processes = world._core.engine.processes
    path = processes.cards[1]["transports"]["unix"][0]
    keys = [bytes.fromhex(os.environ["AIOMPI_KEY"]), *known(processes.namespaces[processes.job])]
    impersonate(path, keys, 0, 1, processes.job)
    agent = os.environ["AIOMPI_CONTROL"].removeprefix("unix:")
    impersonate(agent, keys, 0, hello.RANK_AGENT, hello.NO_NAMESPACE, hello.ROLE_CONTROL)
    world.send("from 2", 1)
elif world.rank == 1:
    assert world.recv(source=2) == "from 2"
    assert not world.iprobe()
world.Barrier()
"""
)
#: The second child connects to the first parent as the first child, and the second parent to the first as that child.
BETWEEN_JOBS = (
    RANKS
    + """
import sys
parent = MPI.Comm.Get_parent()
spawned = parent != MPI.COMM_NULL
other = parent if spawned else MPI.COMM_WORLD.Spawn(sys.executable, [__file__], maxprocs=2)
other.allgather(other.rank)
if other.rank == 1:
    processes = other._core.engine.processes
    (space,) = [space for space in processes.namespaces.values() if space.pairs and space.id != processes.job]
    children = [space.own - 1, space.own] if spawned else sorted(space.members)
    parents = sorted(space.members) if spawned else [space.own - 1, space.own]
    number = space.members[parents[0]] if spawned else 0
    path = processes.cards[number]["transports"]["unix"][0]
    impersonate(path, known(space), children[0], parents[0], space.id)
other.allgather(other.rank)
other.Disconnect()
"""
)


@pytest.mark.parametrize(("program", "size"), [(IN_A_JOB, 3), (BETWEEN_JOBS, 2)], ids=["in a job", "between jobs"])
def test_no_rank_speaks_for_another_one(site: Site, program: str, size: int) -> None:
    result = site.ok(size, program, env={"AIOMPI_TRANSPORTS": "unix,loopback"})
    assert set(result.lines) == {"dropped"}
