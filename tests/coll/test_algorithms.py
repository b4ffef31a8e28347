"""Every algorithm in the registry, both forms, 1 to 9 ranks, any root, against a plain evaluation."""

from __future__ import annotations

import functools
import itertools
import operator

import numpy as np
import pytest

from aiompi.coll import buffers, objects
from aiompi.coll.accumulator import ObjectAccumulator, VectorAccumulator
from aiompi.coll.registry import COLLECTIVES
from aiompi.coll.select import select
from aiompi.datatype import IN_PLACE, TWOINT, resolve_recv, resolve_send
from aiompi.op import SUM, Op
from support.cases import cases

PRIME = 251


@functools.cache
def drawn(rank, count, salt):
    return np.random.default_rng([rank, count, salt]).integers(0, PRIME, count)


def numbers(rank, count, salt=0):
    return drawn(rank, count, salt).copy()


def compose(left, right, datatype):
    """Composition of affine maps x -> a x + b modulo a prime, as pairs (a, b): associative, and does not commute."""
    if datatype is None:
        return (left[0] * right[0] % PRIME, (left[0] * right[1] + left[1]) % PRIME)
    f, g = np.frombuffer(left, TWOINT.dtype), np.frombuffer(right, TWOINT.dtype)
    a, b = f["value"] * g["value"] % PRIME, (f["value"] * g["index"] + f["index"]) % PRIME
    g["value"], g["index"] = a, b
    return None


COMPOSE = Op.Create(compose)


def maps(rank, count):
    return mapped(rank, count).copy()


@functools.cache
def mapped(rank, count):
    pairs = np.empty(count, TWOINT.dtype)
    pairs["value"], pairs["index"] = numbers(rank, count, 1) % (PRIME - 1) + 1, numbers(rank, count, 2)
    return pairs


@functools.cache
def composed(size, count):
    columns = zip(*(maps(rank, count).tolist() for rank in range(size)), strict=True)
    return np.array([functools.reduce(lambda f, g: compose(f, g, None), column) for column in columns], TWOINT.dtype)


def gathered(size, count):
    return np.concatenate([numbers(rank, count) for rank in range(size)])


def barrier(world, size, root, count):
    requests = world.start(buffers.barrier, [rank for rank in range(size) if rank != root])
    world.run()
    assert not any(request.done() for request in requests)
    requests += world.start(buffers.barrier, [root])
    world.run()
    assert [request.result() for request in requests] == [None] * size


def bcast(world, size, root, count):
    arrays = [numbers(rank, count) for rank in range(size)]
    world.results(lambda comm: buffers.bcast(comm, arrays[comm.rank], root))
    assert all(np.array_equal(array, numbers(root, count)) for array in arrays)


def scatter(world, size, root, count):
    whole = numbers(root, size * count)
    parts = [np.full(count, -1) for _ in range(size)]
    world.results(lambda comm: buffers.scatter(comm, whole if comm.rank == root else None, parts[comm.rank], root))
    assert np.array_equal(np.concatenate(parts), whole)


def gather(world, size, root, count):
    whole = np.full(size * count, -1)

    def call(comm):
        return buffers.gather(comm, numbers(comm.rank, count), whole if comm.rank == root else None, root)

    world.results(call)
    assert np.array_equal(whole, gathered(size, count))


def allgather(world, size, root, count):
    wholes = [np.full(size * count, -1) for _ in range(size)]
    world.results(lambda comm: buffers.allgather(comm, numbers(comm.rank, count), wholes[comm.rank]))
    assert all(np.array_equal(whole, gathered(size, count)) for whole in wholes)


def alltoall(world, size, root, count):
    outgoing = np.array([numbers(rank, size * count).reshape(size, count) for rank in range(size)])
    incoming = np.full((size, size, count), -1)
    world.results(lambda comm: buffers.alltoall(comm, outgoing[comm.rank], incoming[comm.rank]))
    assert np.array_equal(incoming, outgoing.swapaxes(0, 1))


def reduce(world, size, root, count):
    total, whole = np.full(count, -1), np.empty(count, TWOINT.dtype)

    def call(comm):
        return buffers.reduce(comm, numbers(comm.rank, count), total if comm.rank == root else None, SUM, root)

    world.results(call)
    assert np.array_equal(total, sum(numbers(rank, count) for rank in range(size)))
    world.results(lambda comm: buffers.reduce(comm, maps(comm.rank, count), whole, COMPOSE, root))
    assert np.array_equal(whole, composed(size, count))


def allreduce(world, size, root, count):
    totals = [np.full(count, -1) for _ in range(size)]
    world.results(lambda comm: buffers.allreduce(comm, numbers(comm.rank, count), totals[comm.rank], SUM))
    assert all(np.array_equal(total, sum(numbers(rank, count) for rank in range(size))) for total in totals)
    wholes = [maps(rank, count) for rank in range(size)]
    world.results(lambda comm: buffers.allreduce(comm, IN_PLACE, wholes[comm.rank], COMPOSE))
    assert all(np.array_equal(whole, composed(size, count)) for whole in wholes)


def started(comm, collective, value, result, op, *args):
    """Start a reduction with the algorithm that the settings name, without the checks of arguments."""
    buffer = resolve_send(value)
    accumulator = VectorAccumulator(buffer, None if result is None else resolve_recv(result), op)
    algorithm = select(comm, COLLECTIVES[collective], buffer.nbytes, commute=op.commute)

    async def run(channel):
        await algorithm(channel, accumulator, *args)
        accumulator.finish()

    return comm.start(run, collective)


def reduce_scatter(world, size, root, count):
    counts = [(count + rank) % 4 * min(count, 3) for rank in range(size)]
    total, stops = sum(counts), list(itertools.accumulate(counts))
    for op, contribution, expected in (
        (SUM, numbers, sum(numbers(rank, total) for rank in range(size))),
        (COMPOSE, maps, composed(size, total)),
    ):
        parts = [np.empty(part, expected.dtype) for part in counts]
        world.results(
            lambda comm: started(comm, "reduce_scatter", contribution(comm.rank, total), parts[comm.rank], op, counts)
        )
        for part, count, stop in zip(parts, counts, stops, strict=True):
            assert np.array_equal(part, expected[stop - count : stop])


def scan(world, size, root, count):
    wholes = [np.empty(count, TWOINT.dtype) for rank in range(size)]
    world.results(lambda comm: started(comm, "scan", maps(comm.rank, count), wholes[comm.rank], COMPOSE))
    assert all(np.array_equal(wholes[rank], composed(rank + 1, count)) for rank in range(size))


def exscan(world, size, root, count):
    wholes = [np.empty(count, TWOINT.dtype) for rank in range(size)]
    world.results(lambda comm: started(comm, "exscan", maps(comm.rank, count), wholes[comm.rank], COMPOSE))
    assert all(np.array_equal(wholes[rank], composed(rank, count)) for rank in range(1, size))


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


# What each collective must do with buffers and with objects.
BUFFERS = {
    "barrier": barrier, "bcast": bcast, "scatter": scatter, "gather": gather, "allgather": allgather,
    "alltoall": alltoall, "reduce": reduce, "allreduce": allreduce, "reduce_scatter": reduce_scatter, "scan": scan,
    "exscan": exscan,
}  # fmt: skip
OBJECTS = {
    "bcast": bcast_object, "scatter": scatter_objects, "gather": gather_objects, "allgather": allgather_objects,
    "alltoall": alltoall_objects, "reduce": reduce_objects, "allreduce": allreduce_objects, "scan": scan_objects,
    "exscan": exscan_objects,
}  # fmt: skip
ROOTED = {"barrier", "bcast", "scatter", "gather", "reduce"}


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
    assert BUFFERS.keys() == OBJECTS.keys() | {"barrier", "reduce_scatter"} == COLLECTIVES.keys()


@pytest.mark.spec(
    "S4.1-9", "S4.2-2", "S4.3-1", "S4.4-1", "S4.4-4", "S4.5-1", "S4.5-2", "S4.5-3", "S4.6-1", "S4.6-2", "S4.7-1",
    "S4.8-1", "S4.9.1-1", "S4.9.1-4", "S4.9.1-8", "S4.9.4-3",
)  # fmt: skip
@every_algorithm(BUFFERS)
@all_sizes
@eager_and_not
def test_buffers(collective, algorithm, size, eager_limit, world):
    ranks = world(size, seed=size, eager_limit=eager_limit, coll={collective: algorithm})
    for root in roots(collective, size):
        for count in (0, 1, 7) if root == 0 else (7,):
            BUFFERS[collective](ranks, size, root, count)


@every_algorithm(OBJECTS, lambda traits: traits.any_form and traits.order_safe)
@all_sizes
@eager_and_not
def test_objects(collective, algorithm, size, eager_limit, world, codec):
    ranks = world(size, seed=size, eager_limit=eager_limit, coll={collective: algorithm})
    for root in roots(collective, size):
        OBJECTS[collective](ranks, size, root, codec)
