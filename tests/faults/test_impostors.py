"""Ranks that have the keys which they were given, and speak for others."""

from __future__ import annotations

import pytest

from aiompi import core
from support.jobs import Site
from support.limits import LIMIT

#: Rank 2 of three connects to rank 1 and to the agent as rank 0, with all the keys that it has, and takes any proof.
RANKS = f"""
import os, socket
from aiompi import MPI
from aiompi.errors import AuthenticationError
from aiompi.wire import hello

def impersonate(path, keys, claimed, target, namespace, role=hello.ROLE_PEER):
    ends = set()
    for key in filter(None, keys):
        with socket.socket(socket.AF_UNIX) as sock:
            sock.connect(path)
            sock.settimeout({LIMIT})
            connector = hello.Connector(
                key, role=role, rank=claimed, target=target, channel=hello.Protection.LOCAL, namespace=namespace
            )
            connector._check = lambda *_: None
            sock.sendall(connector.data_to_send())
            connector.receive_data(sock.recv(connector.needed, socket.MSG_WAITALL))
            sock.sendall(connector.data_to_send())
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


#: Rank 0 reports that its link to rank 3 is broken, which is not so.
SLANDERS = """
from aiompi import MPI
from aiompi.wire import control
world = MPI.COMM_WORLD
world.Barrier()
if world.rank == 0:
    world._core.engine.environment.detector._ask(control.Suspect(3, "slander"))
    world.recv(source=1)
try:
    world.recv(source=0)
except MPI.Exception as error:
    assert error.Get_error_class() == MPI.ERR_PROC_FAILED, error
smaller = world.Shrink()
print(smaller.size, smaller.allreduce(world.rank))
"""


def test_a_rank_is_not_believed_that_others_are_lost(site: Site) -> None:
    result = site.launch("-n", "4", "--on-failure=continue", site.program(SLANDERS)).finish()
    assert (result.code, result.lines) == (0, ["3 6"] * 3)
    assert result.err == ("aiompi-launch: rank 0 has lost its link to rank 3: slander; the job goes on without it\n")


#: Rank 3 takes part in the next agreement, with other members than it has, and with a result that cannot be used.
MISLEADS = """
import os
from aiompi import MPI
from aiompi.wire import control
world = MPI.COMM_WORLD
core = world._core
world.Barrier()
if world.rank == 3:
    ask = core.engine.environment.detector._ask
    for number in range(core.agreements, core.agreements + 10):
        ask(control.Agree(core.context_id, number, [3, 0], 0, 2**64 - 1, []))
        ask(control.Agree(core.context_id, number, [0, 1, 3], 0, 2**64 - 1, []))
    for rank in range(3):
        world.send("it is said", dest=rank)
    for rank in range(3):
        world.recv(source=rank)  # it has left the barrier, and has heard
    os.kill(os.getpid(), 9)
world.recv(source=3)
world.send(None, dest=3)
smaller = world.Shrink()
print(smaller.size, smaller.allreduce(world.rank))
"""


def test_a_rank_that_names_other_members_of_an_agreement_harms_nobody(site: Site) -> None:
    result = site.launch("-n", "4", "--on-failure=continue", site.program(MISLEADS)).finish()
    assert result.lines == ["3 3"] * 3
    assert result.err == "aiompi-launch: rank 3 was killed by signal 9 (SIGKILL); the job goes on without it\n"


#: Rank 0 writes what it likes into the memory that it shares with rank 1, which receives from it and sends to it
#: meanwhile. The others do not use that memory.
SCRIBBLES = """
import gc, os, random, struct, sys
from aiompi import MPI
world, place = MPI.COMM_WORLD, sys.argv[1]
others = world.Split(world.rank > 1)
if world.rank == 0:
    world.recv(source=1)
chance = random.Random(place)
if world.rank == 0:
    links = [each for each in gc.get_objects() if type(each).__name__ == "RingLink" and each._segment is not None]
    segments = [each._segment for each in links if each.peer.rank == 1]
    places = {"words": range(0, 2048, 8), "headers": range(4096, 8192, 64)}[place]
    values = [0, 1, 2, 4, 7, 255, 0x101, 0x107, 0x204, 2**31, 2**32 + 1, 2**63, 2**64 - 1]
    for number in range(20_000):
        value = chance.choice(values) if chance.random() < 0.7 else chance.getrandbits(64)
        segment = chance.choice(segments)
        struct.pack_into("<Q", segment.memory, chance.choice(places), value)
        os.eventfd_write(segment._far_doorbell, 0)
    os.kill(os.getpid(), 9)
elif world.rank == 1:
    try:
        world.send("it is behind Split", dest=0)
        while True:
            received = world.irecv(source=0)
            world.send(bytes(chance.choice([10, 3000])), dest=0)
            received.wait()
    except MPI.Exception as error:
        assert error.Get_error_class() in (MPI.ERR_PROC_FAILED, MPI.ERR_OTHER), error
        os._exit(0)
else:
    for number in range(200):
        assert others.allreduce(number) == 2 * number
    print("well")
"""


@pytest.mark.skipif(core.form == "pure", reason="only the native core shares memory")
@pytest.mark.parametrize("place", ["words", "headers"])
def test_a_rank_that_scribbles_in_shared_memory_harms_no_others(site: Site, place: str) -> None:
    """The rank that shares the memory ends with an error of MPI, and not by a signal."""
    program = site.program(SCRIBBLES)
    result = site.launch("-n", "4", "--on-failure=continue", "-x", "AIOMPI_SPIN=0", program, place).finish()
    assert result.lines == ["well"] * 2, result
    assert "rank 1 was killed" not in result.err, result
    assert "rank 1 failed" not in result.err, result
