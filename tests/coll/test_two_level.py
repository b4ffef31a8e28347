"""Collectives in two levels: right on any division of the ranks among hosts, and sparing between hosts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from aiompi.coll import buffers
from aiompi.coll.registry import COLLECTIVES
from aiompi.coll.select import Case, preferred
from aiompi.engine import Peer
from aiompi.op import MAX, SUM
from coll.wires import Wire, World
from support.cases import cases

#: by rank, its host
DIVISIONS = [
    (0, 0),
    (0, 1, 0),
    (0, 0, 1, 1),
    (0, 1, 0, 1, 2),
    (0, 0, 0, 1, 2, 2, 2),
    (2, 1, 0, 0, 1, 2, 2, 1),
    (0,) * 9,
]
COLL = {name: "two_level" for name, each in COLLECTIVES.items() if "two_level" in each.algorithms}


class Hosts(World):
    """A world that counts the bytes and messages between hosts."""

    def __init__(self, hosts: Sequence[int], **settings: Any) -> None:
        self.between: Counter[str] = Counter()
        self._numbers = hosts
        super().__init__(len(hosts), hosts=[f"host {number}" for number in hosts], **settings)

    def _wire(self, own: int, to: Peer) -> Wire:
        crosses = self._numbers[own] != self._numbers[to.engine.rank]
        return Wire(to, self.between if crosses else Counter())


def check(world: World, count: int, root: int) -> None:
    """Make each collective with blocks of `count` items, and compare the results."""
    size = world.size
    own = [np.arange(count) + 100 * rank for rank in range(size)]
    together = np.concatenate(own)
    total, rooms = sum(own), [np.full(count * size, -1) for _ in range(size)]
    world.results(buffers.barrier)
    blocks = [own[root].copy() if rank == root else np.full(count, -1) for rank in range(size)]
    world.results(lambda comm: buffers.bcast(comm, blocks[comm.rank], root))
    assert all((block == own[root]).all() for block in blocks)
    world.results(lambda comm: buffers.gather(comm, own[comm.rank], rooms[comm.rank], root))
    assert (rooms[root] == together).all()
    world.results(lambda comm: buffers.scatter(comm, together, blocks[comm.rank], root))
    assert (np.concatenate(blocks) == together).all()
    world.results(lambda comm: buffers.allgather(comm, own[comm.rank], rooms[comm.rank]))
    assert all((room == together).all() for room in rooms)
    sums = [np.full(count, -1) for _ in range(size)]
    world.results(lambda comm: buffers.reduce(comm, own[comm.rank], sums[comm.rank], SUM, root))
    assert (sums[root] == total).all()
    world.results(lambda comm: buffers.allreduce(comm, own[comm.rank], sums[comm.rank], SUM))
    assert all((each == total).all() for each in sums)
    matrix = np.arange(size * size * count).reshape(size, size, count)
    columns = [np.full((size, count), -1) for _ in range(size)]
    world.results(lambda comm: buffers.alltoall(comm, matrix[comm.rank].copy(), columns[comm.rank]))
    assert all((columns[rank] == matrix[:, rank]).all() for rank in range(size))


@pytest.mark.parametrize("hosts", DIVISIONS, ids=lambda hosts: "".join(map(str, hosts)))
@pytest.mark.parametrize("count", [0, 1, 1100])
def test_results_on_any_division(hosts: tuple[int, ...], count: int) -> None:
    for seed, root in enumerate({0, len(hosts) - 1, len(hosts) // 2}):
        check(Hosts(hosts, seed=seed, coll=COLL), count, root)


def test_long_blocks_on_three_hosts() -> None:
    check(Hosts((0, 1, 2, 0, 1, 2, 2), coll=COLL), 40_000, 4)


def test_several_calls_at_once_do_not_meet() -> None:
    world = Hosts((0, 0, 1, 1, 2, 0), coll=COLL)

    def calls(comm: Any) -> Any:
        rooms = [np.empty(3, int) for _ in range(4)]
        requests = [buffers.allreduce(comm, np.full(3, comm.rank * step), rooms[step], MAX) for step in range(4)]
        results.append((rooms, requests))
        return requests[-1]

    results: list[Any] = []
    world.results(calls)
    for rooms, requests in results:
        assert all(request.done() for request in requests)
        assert [room.tolist() for room in rooms] == [[5 * step] * 3 for step in range(4)]


def test_bytes_between_hosts_are_the_least_possible() -> None:
    """Three hosts with four ranks each, 1 MiB."""
    m, hosts = 2**20, 3
    world = Hosts([rank // 4 for rank in range(12)])
    value = np.ones(m // 8)

    def count(call: Callable[[Any], Any]) -> int:
        world.between.clear()
        world.results(call)
        return world.between["bytes"]

    everyone = np.empty(12 * m, "B")
    assert count(lambda comm: buffers.allreduce(comm, value, np.empty_like(value), SUM)) <= 1.1 * 2 * (hosts - 1) * m
    assert count(lambda comm: buffers.reduce(comm, value, np.empty_like(value), SUM, 5)) <= 1.1 * (hosts - 1) * m
    assert count(lambda comm: buffers.bcast(comm, value.copy(), 5)) <= 1.1 * (hosts - 1) * m
    assert count(lambda comm: buffers.allgather(comm, value[:8192], everyone[: 12 * 65536])) <= 1.1 * 2 * 12 * 65536


def test_long_blocks_cross_each_border_of_hosts_once() -> None:
    """An allgather of ranks whose neighbours are on other hosts is a ring in the order of hosts."""
    m, hosts, size = 2**17, 3, 12
    world = Hosts([rank % hosts for rank in range(size)])
    rooms = [np.empty(size * m, "B") for _ in range(size)]
    world.results(lambda comm: buffers.allgather(comm, np.full(m, comm.rank, "B"), rooms[comm.rank]))
    assert all((room.reshape(size, m)[:, -1] == range(size)).all() for room in rooms)
    assert world.between["bytes"] <= 1.01 * hosts * (size - 1) * m


def test_messages_between_hosts_are_few() -> None:
    world = Hosts([rank // 4 for rank in range(12)])
    block, blocks = np.zeros(8, "B"), np.zeros(96, "B")
    least = {
        "barrier": (buffers.barrier, 6),
        "gather": (lambda comm: buffers.gather(comm, block, blocks, 5), 2),
        "scatter": (lambda comm: buffers.scatter(comm, blocks, block.copy(), 5), 2),
        "alltoall": (lambda comm: buffers.alltoall(comm, blocks, blocks.copy()), 6),
        "bcast": (lambda comm: buffers.bcast(comm, block.copy(), 5), 2),
    }
    for name, (call, messages) in least.items():
        world.between.clear()
        world.results(call)
        assert world.between["messages"] == messages, name


@cases("name", COLL)
def test_two_levels_are_chosen_where_there_are_several_hosts(name: str) -> None:
    assert preferred(COLLECTIVES[name], Case(12, 64, hosts=True)) == "two_level"
    assert preferred(COLLECTIVES[name], Case(12, 64)) != "two_level"
    assert Hosts((0, 0, 1)).comms[0].spans_hosts
    assert not Hosts((0, 1, 2)).comms[0].spans_hosts
    assert Hosts((2, 1, 2)).comms[0].hosts == [[0, 2], [1]]
