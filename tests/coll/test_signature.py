"""Ranks that do not agree on the collective, the root or the operation get an error that names both calls."""

from __future__ import annotations

import re

import numpy as np
import pytest

from aiompi import create
from aiompi.coll import buffers, neighborhood, objects, registry, signature
from aiompi.coll.signature import CONSTRUCTORS, NAMES, OPERATIONS, Signature
from aiompi.errors import InvalidCountError, InvalidOpError, InvalidRootError, OtherError
from aiompi.op import MAX, SUM, Op
from support.cases import cases

EVERY = [
    *(Signature(name, root) for name in (*NAMES, *CONSTRUCTORS) for root in (None, 0, 1, 2**31 - 1)),
    *(Signature("Reduce", 3, operation) for operation in (*OPERATIONS, "")),
    *(Signature("Reduce_scatter", None, "MPI_SUM", lengths) for lengths in (1, 2**16 - 1)),
]


@cases("given", EVERY)
def test_a_signature_is_a_number(given):
    assert 0 < given.note < 2**64
    assert Signature.from_note(given.note) == given


def test_numbers_do_not_change():
    """They travel between processes."""
    assert Signature("Barrier").note == 1
    assert Signature("Bcast", 0).note == 0x10002
    assert Signature("Reduce", 1, "MPI_MAX").note == 0x2000C | OPERATIONS.index("MPI_MAX") + 1 << 8
    assert Signature("exscan", None, "").note == 0xFF1A
    assert Signature("Comm_split").note == 0x82
    assert signature.digest([1, 3]) == 20370


def test_every_collective_has_a_signature():
    of_buffers = [*buffers.__all__, *neighborhood.__all__]
    of_objects = [name for name in vars(objects) if name.capitalize() in NAMES]
    assert set(NAMES) == {name.capitalize() for name in of_buffers} | set(of_objects)


def everyone(ranks, calls):
    requests = [call(comm) for call, comm in zip(calls, ranks.comms, strict=True)]
    ranks.run()
    return requests


def bcast(root, count=3):
    return lambda comm: buffers.bcast(comm, np.zeros(count), root)


def reduce(op, root=0):
    return lambda comm: buffers.allreduce(comm, np.ones(2), np.zeros(2), op)


CASES = {
    "collective": (
        [bcast(0, 2), lambda comm: buffers.scatter(comm, None, np.zeros(2), 0)],
        OtherError, "Scatter on WORLD, rank 1: rank 0 has called Bcast with root 0, this rank Scatter with root 0",
    ),
    "collective of another length": (
        [bcast(0, 2), buffers.barrier], OtherError,
        "Barrier on WORLD, rank 1: rank 0 has called Bcast with root 0, this rank Barrier",
    ),
    "root": (
        [bcast(0), bcast(0), bcast(0), bcast(2)], InvalidRootError,
        "Bcast on WORLD, rank 3: rank 2 has called Bcast with root 0, this rank Bcast with root 2",
    ),
    "operation": (
        [reduce(SUM), reduce(MAX)], InvalidOpError,
        "Allreduce on WORLD, rank 1: rank 0 has called Allreduce with MPI_SUM, this rank Allreduce with MPI_MAX",
    ),
    "operation of the user": (
        [reduce(Op.Create(lambda a, b, datatype: None)), reduce(SUM)], InvalidOpError,
        "Allreduce on WORLD, rank 1: rank 0 has called Allreduce with an operation of the user, this rank Allreduce "
        "with MPI_SUM",
    ),
    "constructor": (
        [create.dup, lambda comm: create.split(comm, 0, 0)], OtherError,
        "Comm_split on WORLD, rank 1: rank 0 has called Comm_dup, this rank Comm_split",
    ),
    "constructor and collective": (
        [bcast(0), create.dup], OtherError,
        "Comm_dup on WORLD, rank 1: rank 0 has called Bcast with root 0, this rank Comm_dup",
    ),
}  # fmt: skip


@pytest.mark.spec("S4.1-1", "S4.4-3", "S4.9.1-2", "S4.12-1")
@cases("eager_limit", [0, 65536])
@cases("late", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_disagreement(case, late, eager_limit, world):
    calls, error, message = CASES[case]
    ranks = world(len(calls), eager_limit=eager_limit)
    requests = [None] * len(calls)
    for rank in range(len(calls)):
        requests[rank] = calls[rank](ranks.comms[rank])
        if late:
            ranks.run()
    ranks.run()
    failures = [request.exception() for request in requests if request.done() and request.exception() is not None]
    assert failures
    assert all(type(failure) is error for failure in failures)
    assert any(re.search(message, str(failure)) for failure in failures)
    assert all("all ranks must call the same collectives in the same order" in str(failure) for failure in failures)


@pytest.mark.spec("S4.10-2", "S4.1-3")
@pytest.mark.parametrize("algorithm", registry.REDUCE_SCATTER.algorithms)
@pytest.mark.parametrize("counts", [[[1, 3, 2], [3, 1, 2], [1, 3, 2]], [[2, 2, 0], [3, 3, 3], [2, 2, 0]]])
def test_lengths_of_blocks_that_differ(algorithm, counts, world):
    call = buffers.reduce_scatter.using(algorithm)

    def scatter(comm):
        own = counts[comm.rank]
        return call(comm, np.ones(sum(own)), np.zeros(own[comm.rank]), own, SUM)

    ranks = world(3)
    told = [request for request in everyone(ranks, [scatter] * 3) if request.done() and request._error is not None]
    assert told
    for request in told:
        with pytest.raises(InvalidCountError, match=r"rank \d has passed other lengths of blocks than this rank"):
            request.result()


@pytest.mark.spec("S4.1-1")
def test_objects_and_buffers_do_not_go_together(world, codec):
    ranks = world(2)
    requests = everyone(
        ranks,
        [lambda comm: objects.bcast(comm, codec, "text", 0), lambda comm: buffers.bcast(comm, bytearray(4), 0)],
    )
    with pytest.raises(OtherError, match="rank 0 has called bcast with root 0, this rank Bcast with root 0"):
        requests[1].result()


def test_persistent_collectives_are_compared_too(world):
    ranks = world(2)
    requests = [buffers.bcast.init(ranks.comms[0], bytearray(2), 0)]
    requests.append(buffers.scatter.init(ranks.comms[1], None, bytearray(2), 0))
    for request in requests:
        request.start()
    ranks.run()
    with pytest.raises(OtherError, match="rank 0 has called Bcast"):
        requests[1].result()


def test_a_collective_of_a_later_version():
    error = signature.disagreement("Bcast on WORLD, rank 1", 0, 255, Signature("Bcast", 0).note)
    assert type(error) is OtherError
    assert "rank 0 has called a collective that is not known here, this rank Bcast with root 0" in str(error)
