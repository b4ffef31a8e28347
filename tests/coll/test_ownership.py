"""Each rank gets objects of its own from every collective: no change is seen in another, nor in what was given."""

from __future__ import annotations

import numpy as np
import pytest

from aiompi.coll import objects
from aiompi.comm.topology import Cartesian
from aiompi.constants import PROC_NULL, ROOT
from aiompi.objects import Codec
from aiompi.op import NO_OP, REPLACE
from coll.test_intercomm import Between
from support.cases import cases
from support.sharing import sharing

#: what a rank gives; arrays travel inside the message, or beside it
GIVEN = {
    "list": lambda rank: [[rank], {"nested": [rank]}],
    "array": lambda rank: np.full(3, rank),
    "large array": lambda rank: [np.full(100_000, rank)],
    "array of objects": lambda rank: np.array([[rank], None], object),
    "bytearray": lambda rank: bytearray([rank]) * 100_000,
    "pickled": lambda rank: {"pickled": int, "mutable": [rank]},
}
#: operations whose result is one of their operands
OPERATIONS = {"first": lambda a, b: a, "last": lambda a, b: b, "NO_OP": NO_OP, "REPLACE": REPLACE}


def started(comm, codec, give, op, root):
    """Start every collective on objects; return the arguments and the request of each."""
    mine, each = give(comm.rank), [give(comm.rank) for _ in comm.targets]
    calls = {
        "bcast": (mine, root), "scatter": (each, root), "gather": (mine, root), "allgather": (mine,),
        "alltoall": (each,), "reduce": (mine, op, root), "allreduce": (mine, op),
    }  # fmt: skip
    if comm.remote is None:
        comm.topology = Cartesian((comm.size,), (True,))
        calls |= {
            "scan": (mine, op), "exscan": (mine, op), "neighbor_allgather": (mine,), "neighbor_alltoall": ([mine] * 2,),
        }  # fmt: skip
    return {name: (arguments[0], getattr(objects, name)(comm, codec, *arguments)) for name, arguments in calls.items()}


def check(world, comms, give, op, root):
    codec = Codec()
    calls = [started(comm, codec, give, op, root(comm)) for comm in comms]
    world.run()
    for name in calls[0]:
        given = {(rank, "gave"): mine[name][0] for rank, mine in enumerate(calls)}
        found = {(rank, "got"): mine[name][1].result() for rank, mine in enumerate(calls)}
        assert not sharing(given | found), name
        for result in found.values():
            if isinstance(result, list) and "reduce" not in name:
                assert not sharing(dict(enumerate(result))), f"items of the result of {name}"


@cases("kind", GIVEN)
@pytest.mark.parametrize("operation", OPERATIONS)
@cases("size", [1, 2, 3])
@cases("limit", [0, 65536])
def test_of_one_group(kind, operation, size, limit, world):
    ranks = world(size, eager_limit=limit)
    check(ranks, ranks.comms, GIVEN[kind], OPERATIONS[operation], lambda comm: size - 1)


@cases("kind", GIVEN)
@pytest.mark.parametrize("operation", OPERATIONS)
@cases("sizes", [(1, 1), (1, 2), (2, 1)])
def test_of_two_groups(kind, operation, sizes, world):
    between = Between(world, sizes)
    first, second = between.sides

    def root(comm):
        return 0 if comm in second else ROOT if comm.rank == 0 else PROC_NULL

    check(between.world, [*first, *second], GIVEN[kind], OPERATIONS[operation], root)


def test_that_sharing_is_seen():
    memory, inner = np.zeros(3), [1]
    named = {"a": memory, "b": [memory[1:]], "c": (inner,), "d": {1: inner}, "e": [1]}
    assert sharing(named) == [("a", "b"), ("c", "d")]
