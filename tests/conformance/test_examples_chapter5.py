"""The examples of chapter 5 of MPI-1.1, each with the outcome that the text gives it.

Where the listings have slips, the tests do what the text describes. `test_examples_blocking` runs them once more, in
the blocking face.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import aiompi
from aiompi import ANY_SOURCE, COMM_NULL, SUM, Comm, Intercomm, Intracomm, Request
from aiompi.MPI import BYTE, INT
from support.spmd import on_ranks


def ints(*values: int) -> np.ndarray[Any, Any]:
    return np.array(values, np.int32)


# Section 5.5: motivating examples.


@pytest.mark.spec("S5.4.1-1", "S5.2.4-1")
@on_ranks(5)
async def test_example_5_5_1a(comm: Intracomm) -> None:
    """Current practice: each process prints its rank."""
    told = f"{comm.Get_rank()} of {comm.Get_size()}"
    assert await comm.allgather(told) == [f"{rank} of 5" for rank in range(5)]


@pytest.mark.spec("S5.2.4-1")
@on_ranks(6)
async def test_example_5_5_1b(comm: Intracomm) -> None:
    """Messages between even ranks and their successors."""
    data = ints(comm.rank)
    if comm.rank % 2 == 0:
        await comm.Send([data, INT], dest=comm.rank + 1, tag=0)
    else:
        await comm.Recv([data, INT], source=comm.rank - 1, tag=0)
        assert data[0] == comm.rank - 1


@pytest.mark.spec("S5.2.4-1")
@on_ranks(4)
async def test_example_5_5_2(comm: Intracomm) -> None:
    """A collective in the whole of the world."""
    data = bytearray(b"something" if comm.rank == 0 else 9)
    await comm.Bcast([data, 9, BYTE], root=0)
    assert data == b"something"


@pytest.mark.spec("S5.3.2-7", "S5.4.2-3", "S5.4.3-2", "S5.3.3-1", "S5.5-1")
@on_ranks(4)
async def test_example_5_5_3(comm: Intracomm) -> None:
    """One reduction among the slaves, one in the whole world; the group is freed long before."""
    group = comm.Get_group()
    slaves = group.Excl([0])
    part = await comm.Create(slaves)
    group.Free()
    slaves.Free()
    send, result = ints(comm.rank, 1), ints(-1, -1)
    if comm.rank != 0:
        await part.Reduce([send, INT], [result, INT], SUM, root=1)
        assert result.tolist() == ([6, 3] if comm.rank == 2 else [-1, -1])
        await part.Free()
    else:
        assert part == COMM_NULL
    await comm.Reduce([send, INT], [result, INT], SUM, root=0)
    if comm.rank == 0:
        assert result.tolist() == [6, 4]


@pytest.mark.spec("S5.3.2-6", "S5.5-1", "S5.2.2-1")
@on_ranks(9)
async def test_example_5_5_4(comm: Intracomm) -> None:
    """Receives from anyone are pending in a communicator while 50 reductions run in it."""
    even = await comm.Create(comm.group.Incl([2, 4, 6, 8]))
    if not even:
        return
    found = ints(-1)
    receive = even.Irecv([found, INT], source=ANY_SOURCE, tag=12345)
    send = even.Isend([ints(even.rank), INT], dest=(even.rank + 1) % 4, tag=12345)
    for i in range(50):
        total = ints(0)
        await even.Reduce([ints(i), INT], [total, INT], SUM, root=i % 4)
        assert total[0] == (4 * i if even.rank == i % 4 else 0)
    await send
    await receive
    assert found[0] == (even.rank - 1) % 4
    await even.Free()


class Library:
    """One that communicates in a context of its own, and while the user does other things."""

    def __init__(self, comm: Intracomm) -> None:
        self.comm = comm
        self._requests: list[Request[Any]] = []

    @classmethod
    async def create(cls, comm: Intracomm) -> Library:
        return cls(await comm.Dup())

    def begin(self, data: int) -> None:
        successor, predecessor = ((self.comm.rank + step) % self.comm.size for step in (1, -1))
        self._requests = [self.comm.irecv(source=predecessor, tag=0), self.comm.isend(data, successor, 0)]

    async def end(self) -> Any:
        received, sent = self._requests
        await sent
        return await received

    async def free(self) -> None:
        await self.comm.Free()


@pytest.mark.spec("S5.4.2-1", "S5.4.2-2", "S5.4.3-2", "S5.5-1")
@on_ranks(3)
async def test_example_5_5_5(comm: Intracomm) -> None:
    """Two instances of a library, a reduction between start and end, and messages that would match theirs."""
    a, b = await Library.create(comm), await Library.create(comm)
    wildcard = comm.irecv(source=ANY_SOURCE, tag=0)
    a.begin(comm.rank)
    b.begin(10 * comm.rank)
    assert await comm.reduce(comm.rank, SUM, root=0) == (3 if comm.rank == 0 else None)
    predecessor = (comm.rank - 1) % 3
    assert await b.end() == 10 * predecessor
    assert await a.end() == predecessor
    assert not wildcard.done()
    await comm.Barrier()
    await comm.send("user", (comm.rank + 1) % 3, 0)
    assert await wildcard == "user"
    for library in (a, b):
        await library.free()


async def serve(comm: Intracomm) -> list[int]:
    """The call of a library whose process 0 receives a message of every other process, in order of arrival."""
    if comm.rank != 0:
        await comm.send(comm.rank, 0, 0)
        return []
    return [await comm.recv(source=ANY_SOURCE, tag=0) for _ in range(1, comm.size)]


async def two_groups(comm: Intracomm, a: list[int], b: list[int]) -> tuple[Intracomm, Intracomm]:
    return await comm.Create(comm.group.Incl(a)), await comm.Create(comm.group.Incl(b))


@pytest.mark.spec("S5.5-1", "S5.2.2-1")
@on_ranks(3)
async def test_example_5_5_6a(comm: Intracomm) -> None:
    """With one client in each communicator its messages keep the calls apart."""
    comm_a, comm_b = await two_groups(comm, [0, 1], [0, 2])
    if comm_b:
        found = await serve(comm_b)
    if comm_a:
        assert await serve(comm_a) == ([1] if comm.rank == 0 else [])
    if comm_b:
        found += await serve(comm_b)
        assert found == ([1, 1] if comm.rank == 0 else [])


@on_ranks(4)
async def test_example_5_5_6b(comm: Intracomm) -> None:
    """Back-masking: the second message of a fast client goes to the first call, unless a barrier is between."""
    _, comm_b = await two_groups(comm, [0, 1], [0, 2, 3])
    if comm.rank == 3:
        await comm.recv(source=2)
    if comm_b:
        found = [await serve(comm_b), await serve(comm_b)]
        if comm.rank == 0:
            assert found == [[1, 1], [2, 2]]
    if comm.rank == 2:
        await comm.send("both of mine are sent", 3)


@pytest.mark.spec("S5.5-1", "S4.3-1")
@on_ranks(4)
async def test_example_5_5_6c(comm: Intracomm) -> None:
    """With a barrier in each call, every call gets its own messages."""
    _, comm_b = await two_groups(comm, [0, 1], [0, 2, 3])
    if comm_b:
        for _ in range(5):
            found = await serve(comm_b)
            await comm_b.Barrier()
            assert sorted(found) == ([1, 2] if comm.rank == 0 else [])


# Section 5.6.3: intercommunicators.


async def exchange(inter: Intercomm, name: str) -> Any:
    """What the process of the same rank in the other group says."""
    return await inter.sendrecv(name, inter.rank, source=inter.rank)


@pytest.mark.spec("S5.4.2-6", "S5.6-1", "S5.6.2-1", "S5.6.2-4", "S5.6.2-8")
@on_ranks(6)
async def test_example_5_6_3_pipeline(comm: Intracomm) -> None:
    """Three groups in a line: 0 - 1 - 2."""
    key = comm.rank % 3
    part = await comm.Split(key, comm.rank)
    inters = {}
    if key == 0:
        inters[1] = await part.Create_intercomm(0, comm, 1, 1)
    elif key == 1:
        inters[0] = await part.Create_intercomm(0, comm, 0, 1)
        inters[2] = await part.Create_intercomm(0, comm, 2, 12)
    else:
        inters[1] = await part.Create_intercomm(0, comm, 1, 12)
    for other in sorted(inters):
        assert await exchange(inters[other], f"group {key}") == f"group {other}"
        await inters[other].Free()
    await part.Free()


@pytest.mark.spec("S5.4.2-6", "S5.6-1", "S5.6-5", "S5.6.2-1", "S5.6.2-4", "S5.6.2-8")
@on_ranks(6)
async def test_example_5_6_3_ring(comm: Intracomm) -> None:
    """Three groups, each of which is connected with both others."""
    key = comm.rank % 3
    part = await comm.Split(key, comm.rank)
    tags = {frozenset({0, 1}): 1, frozenset({1, 2}): 12, frozenset({0, 2}): 2}
    order = {0: (1, 2), 1: (0, 2), 2: (0, 1)}[key]
    inters = [await part.Create_intercomm(0, comm, other, tags[frozenset({key, other})]) for other in order]
    for inter, other in zip(inters, order, strict=True):
        assert await exchange(inter, f"group {key}") == f"group {other}"
    for inter in inters:
        await inter.Free()
    await part.Free()


SERVER_KEY = Comm.Create_keyval()


async def init_server(comm: Intracomm, server: int) -> Intracomm:
    """Set the server apart; the clients keep what leads to it as an attribute of their communicator."""
    is_server = comm.rank == server
    part: Intracomm = await comm.Split(is_server, comm.rank)
    other = server if not is_server else next(rank for rank in range(comm.size) if rank != server)
    part.Set_attr(SERVER_KEY, await part.Create_intercomm(0, comm, other, 7))
    return part


async def name_service(clients: Intercomm, calls: int) -> None:
    """Tell the two that ask for the same name about each other."""
    waiting: dict[str, int] = {}
    for _ in range(calls):
        status = aiompi.Status()
        name = await clients.recv(source=ANY_SOURCE, status=status)
        if name not in waiting:
            waiting[name] = status.source
        else:
            other = waiting.pop(name)
            await clients.send(other, status.source)
            await clients.send(status.source, other)
    assert waiting == {}


async def connect_by_name(part: Intracomm, clients: Intracomm, name: str) -> Intercomm:
    """An intercommunicator with the group that gives the same name."""
    partner = 0
    if part.rank == 0:
        server: Intercomm = clients.Get_attr(SERVER_KEY)
        await server.send(name, 0)
        partner = await server.recv(source=0)
    return await part.Create_intercomm(0, clients, partner, 9)


@pytest.mark.spec("S5.6-2", "S5.6.2-1", "S5.7.1-11", "S5.3.1-2")
@on_ranks(7)
async def test_example_5_6_3_name_service(comm: Intracomm) -> None:
    """Groups find each other by a name that a server knows."""
    clients = await init_server(comm, server=6)
    if comm.rank == 6:
        await name_service(clients.Get_attr(SERVER_KEY), calls=4)
    else:
        color = comm.rank % 3
        part = await clients.Split(color)
        for name, partners in (("a", {0: 1, 1: 0}), ("b", {1: 2, 2: 1})):
            if color in partners:
                inter = await connect_by_name(part, clients, name)
                assert await exchange(inter, f"{color}") == f"{partners[color]}"
                ranks = inter.Get_remote_group().Translate_ranks(group=clients.group)
                assert ranks == [partners[color], partners[color] + 3]
                await inter.Free()
    await clients.Get_attr(SERVER_KEY).Free()
    await clients.Free()


# Section 5.7.2: attributes.


class Stuff:
    """What a collective module keeps with the communicators that it serves."""

    def __init__(self) -> None:
        self.references = 1
        self.freed = False


def copy_stuff(comm: Comm, keyval: int, stuff: Stuff) -> Stuff:
    stuff.references += 1
    return stuff


def delete_stuff(comm: Comm, keyval: int, stuff: Stuff) -> None:
    stuff.references -= 1
    stuff.freed = stuff.references == 0


@pytest.mark.spec("S5.7.1-2", "S5.7.1-3", "S5.7.1-6", "S5.7.1-11", "S5.4.3-1", "S5.7-2")
@on_ranks(2)
async def test_example_5_7_2(comm: Intracomm) -> None:
    """Duplicates share reference-counted data, which goes with the last of them."""
    keyval = Comm.Create_keyval(copy_stuff, delete_stuff)

    def efficient_global_op(comm: Intracomm) -> Stuff:
        stuff = comm.Get_attr(keyval)
        if stuff is None:
            stuff = Stuff()
            comm.Set_attr(keyval, stuff)
        return stuff  # type: ignore[no-any-return]

    first = await comm.Dup()
    stuff = efficient_global_op(first)
    assert efficient_global_op(first) is stuff
    second = await first.Dup()
    assert efficient_global_op(second) is stuff
    assert stuff.references == 2
    other = await second.Split()
    assert other.Get_attr(keyval) is None
    await other.Free()
    await first.Free()
    assert (stuff.references, stuff.freed) == (1, False)
    await second.Free()
    assert stuff.freed
    Comm.Free_keyval(keyval)
