"""Every algorithm that serves objects, and those of barriers: 1 to 9 ranks, any root.

`test_properties` has those on buffers.
"""

from __future__ import annotations

import operator

import pytest

from aiompi.coll import buffers, objects
from aiompi.coll.accumulator import ObjectAccumulator
from aiompi.coll.registry import COLLECTIVES
from aiompi.coll.select import select
from support.cases import cases


def bcast_object(world, size, root, codec):
    found = world.results(lambda comm: objects.bcast(comm, codec, {"from": comm.rank}, root))
    assert found == [{"from": root}] * size


def scatter_objects(world, size, root, codec):
    items = ["x" * rank for rank in range(size)]
    found = world.results(lambda comm: objects.scatter(comm, codec, items if comm.rank == root else None, root))
    assert found == items


def gather_objects(world, size, root, codec):
    found = world.results(lambda comm: objects.gather(comm, codec, "x" * comm.rank, root))
    assert found == [["x" * i for i in range(size)] if rank == root else None for rank in range(size)]


def allgather_objects(world, size, root, codec):
    found = world.results(lambda comm: objects.allgather(comm, codec, "x" * comm.rank))
    assert found == [["x" * rank for rank in range(size)]] * size


def alltoall_objects(world, size, root, codec):
    found = world.results(lambda comm: objects.alltoall(comm, codec, ["x" * comm.rank + "y" * i for i in range(size)]))
    assert found == [["x" * i + "y" * rank for i in range(size)] for rank in range(size)]


def reduce_objects(world, size, root, codec):
    found = world.results(lambda comm: objects.reduce(comm, codec, [comm.rank], operator.add, root))
    assert found == [list(range(size)) if rank == root else None for rank in range(size)]


def combined(comm, collective, codec, value):
    """Start a reduction of objects with the algorithm that the settings name."""
    accumulator = ObjectAccumulator(value, operator.add, codec)
    algorithm = select(comm, COLLECTIVES[collective], commute=False)

    async def run(channel):
        await algorithm(channel, accumulator)
        return accumulator.value

    return comm.start(run, collective)


def scan_objects(world, size, root, codec):
    found = world.results(lambda comm: combined(comm, "scan", codec, [comm.rank]))
    assert found == [list(range(rank + 1)) for rank in range(size)]


def exscan_objects(world, size, root, codec):
    found = world.results(lambda comm: combined(comm, "exscan", codec, [comm.rank]))
    assert found[1:] == [list(range(rank)) for rank in range(1, size)]


def allreduce_objects(world, size, root, codec):
    found = world.results(lambda comm: objects.allreduce(comm, codec, [comm.rank], operator.add))
    assert found == [list(range(size))] * size


# What each collective must do with objects.
OBJECTS = {
    "bcast": bcast_object, "scatter": scatter_objects, "gather": gather_objects, "allgather": allgather_objects,
    "alltoall": alltoall_objects, "reduce": reduce_objects, "allreduce": allreduce_objects, "scan": scan_objects,
    "exscan": exscan_objects,
}  # fmt: skip
ROOTED = {"bcast", "scatter", "gather", "reduce"}


def every_algorithm(names, serves=lambda algorithm: True):
    """Of these collectives."""
    return pytest.mark.parametrize(("collective", "algorithm"), [
        (name, algorithm) for name in names for algorithm, traits in COLLECTIVES[name].algorithms.items()
        if serves(traits)
    ])  # fmt: skip


def roots(collective, size):
    return sorted({0, 1, size // 2, size - 1} & {*range(size)}) if collective in ROOTED else [0]


all_sizes = cases("size", range(1, 10))
eager_and_not = cases("eager_limit", (0, 65536))


def test_no_collective_is_left_out():
    assert OBJECTS.keys() | {"barrier", "reduce_scatter"} == COLLECTIVES.keys()


@pytest.mark.spec("S4.1-9", "S4.3-1")
@every_algorithm(["barrier"])
@all_sizes
def test_barrier(collective, algorithm, size, world):
    """No rank leaves before the last one has come, whichever that is."""
    ranks = world(size, seed=size, coll={collective: algorithm})
    for last in range(size):
        requests = ranks.start(buffers.barrier, [rank for rank in range(size) if rank != last])
        ranks.run()
        assert not any(request.done() for request in requests)
        requests += ranks.start(buffers.barrier, [last])
        ranks.run()
        assert [request.result() for request in requests] == [None] * size


@every_algorithm(OBJECTS, lambda traits: traits.any_form and traits.order_safe)
@all_sizes
@eager_and_not
def test_objects(collective, algorithm, size, eager_limit, world, codec):
    ranks = world(size, seed=size, eager_limit=eager_limit, coll={collective: algorithm})
    for root in roots(collective, size):
        OBJECTS[collective](ranks, size, root, codec)
