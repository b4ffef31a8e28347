"""Reductions with any operation, type, size, root and order of arrival, against numpy."""

from __future__ import annotations

import array
import functools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiompi import op as ops
from aiompi.coll import buffers, objects
from aiompi.datatype import FLOAT, IN_PLACE
from aiompi.errors import LocalProtocolError
from aiompi.op import Op

NUMPY = {
    "MPI_MAX": np.maximum, "MPI_MIN": np.minimum, "MPI_SUM": np.add, "MPI_PROD": np.multiply,
    "MPI_LAND": np.logical_and, "MPI_LOR": np.logical_or, "MPI_LXOR": np.logical_xor,
    "MPI_BAND": np.bitwise_and, "MPI_BOR": np.bitwise_or, "MPI_BXOR": np.bitwise_xor,
}  # fmt: skip
OPERATIONS = [op for op in (getattr(ops, name) for name in ops.predefined.__all__) if op and op._valid.types]

sizes = st.integers(1, 9)
counts = st.sampled_from([0, 1, 2, 7])
seeds = st.integers(0, 2**32)


@st.composite
def operations(draw):
    """An operation and a datatype for which it is defined."""
    op = draw(st.sampled_from(OPERATIONS))
    types = [datatype for group in op._valid.types.values() for datatype in group]
    return op, draw(st.sampled_from(sorted(types, key=lambda datatype: datatype.name)))


def small(rng, datatype, size, count):
    """Return vectors of all ranks, shape (size, count), with numbers small enough for exact results in every type."""
    vectors = np.zeros((size, count), datatype.dtype)
    for field in datatype.dtype.names or (...,):
        vectors[field] = rng.integers(0, 3, (size, count))
    return vectors


def evaluate(op, vectors):
    """Combination of the rows by numpy."""
    if op.name in NUMPY:
        return functools.reduce(lambda a, b: NUMPY[op.name](a, b).astype(a.dtype), vectors)
    sign = -1 if op.name == "MPI_MAXLOC" else 1
    best = [min(column.tolist(), key=lambda pair: (sign * pair[0], pair[1])) for column in vectors.T]
    return np.array(best, vectors.dtype)


@pytest.mark.spec("S4.9.1-1", "S4.9.1-7", "S4.9.1-8", "S4.9.2-1", "S4.9.3-1")
@given(operation=operations(), size=sizes, count=counts, seed=seeds, root=st.integers(0, 8), in_place=st.booleans())
def test_reduce(operation, size, count, seed, root, in_place, world):
    op, datatype = operation
    root %= size
    vectors = small(np.random.default_rng(seed), datatype, size, count)
    before, result = vectors.copy(), np.zeros(count, datatype.dtype)
    if in_place:
        result[:] = vectors[root]

    def call(comm):
        send = IN_PLACE if in_place and comm.rank == root else [vectors[comm.rank], datatype]
        return buffers.reduce(comm, send, [result, datatype], op, root)

    world(size, seed).results(call)
    assert np.array_equal(result, evaluate(op, before))
    assert np.array_equal(vectors, before)


@pytest.mark.spec("S4.9.2-1", "S4.9.3-1", "S4.9.6-1")
@given(operation=operations(), size=sizes, count=counts, seed=seeds, in_place=st.booleans())
def test_allreduce(operation, size, count, seed, in_place, world):
    op, datatype = operation
    vectors = small(np.random.default_rng(seed), datatype, size, count)
    before, results = vectors.copy(), vectors.copy()

    def call(comm):
        send = IN_PLACE if in_place else [vectors[comm.rank], datatype]
        return buffers.allreduce(comm, send, [results[comm.rank], datatype], op)

    world(size, seed).results(call)
    assert all(np.array_equal(result, evaluate(op, before)) for result in results)
    assert np.array_equal(vectors, before)


def test_bytes_are_combined_as_numbers(world):
    """BYTE is accepted: a program may have bytes in one rank, and an array in another."""
    sent = [b"\x01\x02", array.array("B", [3, 255]), np.array([5, 6], np.uint8)]
    received = [bytearray(2), array.array("B", [0, 0]), memoryview(bytearray(2))]
    world(3).results(lambda comm: buffers.allreduce(comm, sent[comm.rank], received[comm.rank], ops.SUM))
    assert [bytes(result) for result in received] == [b"\x09\x07"] * 3


@pytest.mark.spec("S4.9.1-4", "S4.9.4-3")
@given(texts=st.lists(st.text(max_size=3), min_size=1, max_size=9), seed=seeds, created=st.booleans())
def test_objects_are_combined_in_rank_order(texts, seed, created, world, new_codec):
    codec, ranks = new_codec(), world(len(texts), seed)
    op = Op.Create(lambda a, b, datatype: a + b) if created else lambda a, b: a + b
    whole = "".join(texts)
    assert ranks.results(lambda comm: objects.allreduce(comm, codec, texts[comm.rank], op)) == [whole] * len(texts)
    results = ranks.results(lambda comm: objects.reduce(comm, codec, texts[comm.rank], op, len(texts) - 1))
    assert results == [None] * (len(texts) - 1) + [whole]


@pytest.mark.spec("S4.9.4-1", "S4.9.4-2")
@pytest.mark.parametrize("size", range(2, 10))
def test_a_function_gets_the_lower_ranks_first_and_the_datatype_of_the_call(size, world):
    def keep_left(invec, inoutvec, datatype):
        assert datatype is FLOAT
        left, right = np.frombuffer(invec, "f"), np.frombuffer(inoutvec, "f")
        assert len(left) == len(right) <= 3
        spans.append((left[0], right[0]))
        right[:] = left

    spans = []
    results = np.zeros((size, 3), "f")
    world(size).results(
        lambda comm: buffers.allreduce(
            comm, [np.full(3, comm.rank, "f"), FLOAT], [results[comm.rank], FLOAT], Op.Create(keep_left)
        )
    )
    assert all(left < right for left, right in spans)
    assert np.array_equal(results, np.zeros((size, 3)))


def test_an_exception_in_the_function_ends_the_reduction_at_its_caller(world, codec):
    def fail(a, b, datatype):
        raise ZeroDivisionError("no")

    ranks = world(2)
    result = np.zeros(1)
    requests = ranks.start(lambda comm: buffers.reduce(comm, np.ones(1), result, Op.Create(fail), 0))
    requests += ranks.start(lambda comm: objects.reduce(comm, codec, 1, Op.Create(fail), 0))
    ranks.run()
    for request in requests[::2]:
        with pytest.raises(ZeroDivisionError):
            request.result()
    assert requests[1].result() is requests[3].result() is None


@pytest.mark.spec("S4.9.4-5")
def test_a_function_must_not_start_a_collective(world, new_codec):
    """Neither a new one, nor one whose arguments were bound before."""
    ranks, codec = world(2), new_codec()
    comm, bound = ranks.comms[0], ranks.start(buffers.barrier.init)[0]
    for start in (lambda: buffers.barrier(comm), lambda: objects.allgather(comm, codec, 1), bound.start):
        op = Op.Create(lambda left, right, datatype, start=start: start())
        root, other = ranks.start(lambda comm, op=op: buffers.reduce(comm, np.ones(1), np.zeros(1), op, 0))
        ranks.run()
        with pytest.raises(LocalProtocolError, match=r"rank 0: a function .* must not communicate \(section 4\.9\.4\)"):
            root.result()
        assert other.result() is None
    assert not bound.active
    assert ranks.results(buffers.barrier) == [None, None]
