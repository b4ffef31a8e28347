"""Collectives on objects: results by every algorithm; what is serialised and when, what is shared and refused."""

from __future__ import annotations

import operator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiompi.coll import objects
from aiompi.coll.registry import COLLECTIVES
from aiompi.errors import InvalidArgumentError, InvalidOpError, InvalidRootError
from aiompi.op import MAX, MAXLOC, OP_NULL, SUM, Op


def plainly(name, rank, size, root):
    """Arguments of a call, and its result here: what each rank contributes is a list of its own length."""
    everyone = [[r] * r for r in range(size)]
    row, column = [[rank, *mine] for mine in everyone], [[r, *everyone[rank]] for r in range(size)]
    upto = [[i for i in range(r + 1) for _ in range(i)] for r in range(size)]
    join, mine, is_root = (lambda a, b: a + b), everyone[rank], rank == root
    return {
        "bcast": ((mine, root), everyone[root]),
        "scatter": ((everyone if is_root else None, root), mine),
        "gather": ((mine, root), everyone if is_root else None),
        "allgather": ((mine,), everyone),
        "alltoall": ((row,), column),
        "reduce": ((mine, join, root), upto[-1] if is_root else None),
        "allreduce": ((mine, join), upto[-1]),
        "scan": ((mine, join), upto[rank]),
        "exscan": ((mine, join), upto[rank - 1] if rank else None),
    }[name]


@pytest.mark.parametrize(
    ("name", "algorithm"),
    [
        (name, algorithm)
        for name, collective in COLLECTIVES.items()
        for algorithm, entry in collective.algorithms.items()
        if entry.any_form and entry.order_safe and hasattr(objects, name)  # `join` does not commute
    ],
)
@given(size=st.integers(1, 9), root=st.integers(0, 8), seed=st.integers(0, 2**32), limit=st.sampled_from([0, 65536]))
def test_every_algorithm(name, algorithm, size, root, seed, limit, world, new_codec):
    root, codec, ranks = root % size, new_codec(), world(size, seed, eager_limit=limit)
    calls = [plainly(name, rank, size, root) for rank in range(size)]
    found = ranks.results(lambda comm: getattr(objects, name)(comm, codec, *calls[comm.rank][0], algorithm=algorithm))
    assert found == [result for _, result in calls]


@pytest.mark.parametrize("size", [1, 2, 7])
def test_a_broadcast_object_is_passed_on_in_serialised_form(size, world, codec):
    found = world(size).results(lambda comm: objects.bcast(comm, codec, [comm.rank], size // 2))
    assert found == [[size // 2]] * size
    assert (codec.dumped, codec.loaded) == (1, size)


def test_the_root_of_a_broadcast_keeps_what_cannot_be_changed(world, codec):
    assert world(2).results(lambda comm: objects.bcast(comm, codec, "text", 0)) == ["text"] * 2
    assert (codec.dumped, codec.loaded) == (1, 1)


@pytest.mark.parametrize("size", [1, 2, 7])
def test_allgather_serialises_each_object_once(size, world, codec):
    world(size).results(lambda comm: objects.allgather(comm, codec, [comm.rank]))
    assert (codec.dumped, codec.loaded) == (size, size * size)


@pytest.mark.parametrize("size", [1, 2, 5])
@pytest.mark.parametrize("op", [operator.iadd, lambda a, b: a.extend(b) or a, Op.Create(lambda a, b, _: a + b), SUM])
def test_the_objects_of_callers_stay_as_they_are(size, op, world, codec):
    mine = [[rank] for rank in range(size)]
    ranks = world(size)
    total = [*range(size)]
    for found in (
        ranks.results(lambda comm: objects.allreduce(comm, codec, mine[comm.rank], op)),
        ranks.results(lambda comm: objects.reduce(comm, codec, mine[comm.rank], op, 0))[:1],
        ranks.results(lambda comm: objects.scan(comm, codec, mine[comm.rank], op))[-1:],
        [[*found, size - 1] for found in ranks.results(lambda c: objects.exscan(c, codec, mine[c.rank], op))[1:][-1:]],
    ):
        assert all(result == total for result in found)
        for result in found:
            result.append("changed")
    first = ranks.results(lambda comm: objects.scan(comm, codec, mine[comm.rank], op))[0]
    first.append("changed")
    assert mine == [[rank] for rank in range(size)]


@pytest.mark.parametrize("size", [1, 2, 5])
def test_a_sum_of_lists_has_nothing_of_those_of_callers(size, world, codec):
    mine = [[[rank]] for rank in range(size)]
    for found in world(size).results(lambda comm: objects.allreduce(comm, codec, mine[comm.rank], SUM)):
        assert found == [[rank] for rank in range(size)]
        for item in found:
            item.append("changed")
    assert mine == [[[rank]] for rank in range(size)]


def test_an_object_that_a_predefined_operation_chooses_is_no_callers(world, codec):
    mine = [[1], [3], [2]]
    for found in world(3).results(lambda comm: objects.allreduce(comm, codec, mine[comm.rank], MAX)):
        found.append("changed")
    assert mine == [[1], [3], [2]]


def test_arrays_in_results_are_writable(world, codec):
    ranks = world(3)
    for found in ranks.results(lambda comm: objects.allgather(comm, codec, np.arange(3))):
        for array in found:
            array += 1


@pytest.mark.spec("S4.1-4")
def test_arguments_for_the_root_are_ignored_elsewhere(world, codec):
    ranks = world(3)
    unpicklable = lambda: None  # noqa: E731
    assert ranks.results(lambda comm: objects.bcast(comm, codec, 1 if comm.rank == 2 else unpicklable, 2)) == [1, 1, 1]
    found = ranks.results(lambda comm: objects.scatter(comm, codec, "abc" if comm.rank == 2 else 5, 2))
    assert found == ["a", "b", "c"]


def test_operations_on_objects(world, codec):
    ranks = world(5)
    assert ranks.results(lambda comm: objects.allreduce(comm, codec, comm.rank, SUM)) == [10] * 5
    pairs = [(3, 0), (7, 1), (1, 2), (7, 3), (2, 4)]
    assert ranks.results(lambda comm: objects.allreduce(comm, codec, pairs[comm.rank], MAXLOC)) == [(7, 1)] * 5
    assert ranks.results(lambda comm: objects.reduce(comm, codec, comm.rank, max, 3)) == [None, None, None, 4, None]


@pytest.mark.spec("S4.4-3")
@pytest.mark.parametrize(
    ("operation", "call"),
    [
        ("bcast", lambda comm, codec: objects.bcast(comm, codec, 1, 2)),
        ("scatter", lambda comm, codec: objects.scatter(comm, codec, [1, 2], -1)),
        ("gather", lambda comm, codec: objects.gather(comm, codec, 1, 2)),
        ("reduce", lambda comm, codec: objects.reduce(comm, codec, 1, SUM, 2)),
    ],
)
def test_a_root_out_of_range(operation, call, world, codec):
    with pytest.raises(InvalidRootError, match=f"{operation} on WORLD, rank 1: root -?\\d is not in 0..1"):
        call(world(2).comms[1], codec)


@pytest.mark.parametrize("call", [objects.alltoall, lambda comm, codec, items: objects.scatter(comm, codec, items, 1)])
@pytest.mark.parametrize(
    ("items", "given"), [([], "0 objects"), ([1], "1 objects"), ((1, 2, 3), "3 objects"), (None, "None")]
)
def test_there_must_be_one_object_per_rank(call, items, given, world, codec):
    with pytest.raises(InvalidArgumentError, match=f"on WORLD, rank 1: expected 2 objects, one per rank, got {given}"):
        call(world(2).comms[1], codec, items)
    assert codec.dumped == 0


def test_one_object_is_no_sequence(world, codec):
    with pytest.raises(
        TypeError, match=r"on WORLD, rank 1: sendobj is 5: expected a sequence of 2 objects, one per rank"
    ):
        objects.alltoall(world(2).comms[1], codec, 5)


@pytest.mark.parametrize("op", [None, "SUM", OP_NULL])
def test_what_is_no_operation(op, world, codec):
    comm = world(1).comms[0]
    with pytest.raises(InvalidOpError, match=r"^reduce on WORLD, rank 0: "):
        objects.reduce(comm, codec, 1, op, 0)
    with pytest.raises(InvalidOpError, match=r"^allreduce on WORLD, rank 0: "):
        objects.allreduce(comm, codec, 1, op)


def test_an_object_that_cannot_be_serialised_is_refused_by_the_call(world, codec):
    ranks = world(2)
    with pytest.raises((AttributeError, TypeError), match=r"lambda|pickle"):
        objects.bcast(ranks.comms[0], codec, lambda: None, 0)
    assert not ranks.deliver_one()
