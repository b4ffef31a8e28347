"""Arguments of the collectives on buffers: IN_PLACE, what is ignored, and what is refused."""

from __future__ import annotations

import re

import numpy as np
import pytest

from aiompi.coll import buffers
from aiompi.datatype import BYTE, IN_PLACE, INT
from aiompi.errors import (
    InvalidBufferError,
    InvalidCountError,
    InvalidOpError,
    InvalidRootError,
    InvalidTypeError,
    TruncationError,
)
from aiompi.op import OP_NULL, SUM

GARBAGE = object()
ROOTED = {
    "Bcast": lambda comm, root: buffers.bcast(comm, bytearray(1), root),
    "Scatter": lambda comm, root: buffers.scatter(comm, bytearray(3), bytearray(1), root),
    "Gather": lambda comm, root: buffers.gather(comm, bytearray(1), bytearray(3), root),
    "Reduce": lambda comm, root: buffers.reduce(comm, np.zeros(1), np.zeros(1), SUM, root),
}


@pytest.mark.parametrize("root", range(3))
def test_in_place_at_the_root(root, world):
    ranks = world(3)
    whole = np.arange(6).reshape(3, 2)
    parts = np.full((3, 2), -1)
    ranks.results(lambda comm: buffers.scatter(comm, whole, IN_PLACE if comm.rank == root else parts[comm.rank], root))
    assert np.array_equal(whole, np.arange(6).reshape(3, 2))
    assert all(np.array_equal(parts[rank], [-1, -1] if rank == root else whole[rank]) for rank in range(3))

    gathered = np.full((3, 2), -1)
    gathered[root] = whole[root]
    ranks.results(
        lambda comm: buffers.gather(comm, IN_PLACE if comm.rank == root else whole[comm.rank], gathered, root)
    )
    assert np.array_equal(gathered, whole)


def test_in_place_on_all_ranks(world):
    ranks = world(3)
    gathered = np.full((3, 3, 2), -1)
    for rank in range(3):
        gathered[rank, rank] = rank
    ranks.results(lambda comm: buffers.allgather(comm, IN_PLACE, gathered[comm.rank]))
    assert np.array_equal(gathered, np.broadcast_to(np.arange(3)[:, None], (3, 3, 2)))

    table = np.arange(18).reshape(3, 3, 2)
    expected = table.swapaxes(0, 1).copy()
    ranks.results(lambda comm: buffers.alltoall(comm, IN_PLACE, table[comm.rank]))
    assert np.array_equal(table, expected)


@pytest.mark.spec("S4.8-4")
def test_alltoall_twice_is_the_identity(world):
    ranks = world(4)
    table = np.arange(32).reshape(4, 4, 2)
    turned, back = np.zeros_like(table), np.zeros_like(table)
    ranks.results(lambda comm: buffers.alltoall(comm, table[comm.rank], turned[comm.rank]))
    ranks.results(lambda comm: buffers.alltoall(comm, turned[comm.rank], back[comm.rank]))
    assert np.array_equal(back, table)


@pytest.mark.spec("S4.1-4", "S4.5-3", "S4.6-2", "S4.9.1-1")
@pytest.mark.parametrize("garbage", [None, GARBAGE, IN_PLACE, np.zeros(1)])
def test_arguments_for_the_root_are_ignored_elsewhere(garbage, world):
    ranks = world(3)
    whole, parts, total = np.arange(3), np.zeros((3, 1), int), np.zeros(1, int)

    def at_root(comm, argument):
        return argument if comm.rank == 1 else garbage

    ranks.results(lambda comm: buffers.scatter(comm, at_root(comm, whole), parts[comm.rank], 1))
    assert np.array_equal(parts.ravel(), whole)
    whole[:] = -1
    ranks.results(lambda comm: buffers.gather(comm, parts[comm.rank], at_root(comm, whole), 1))
    assert np.array_equal(parts.ravel(), whole)
    ranks.results(lambda comm: buffers.reduce(comm, parts[comm.rank], at_root(comm, total), SUM, 1))
    assert total == [3]


@pytest.mark.spec("S4.5-2")
def test_an_explicit_count_is_the_one_of_a_block(world):
    ranks = world(3)
    whole = np.full(10, -1, "i")
    ranks.results(lambda comm: buffers.gather(comm, np.full(2, comm.rank, "i"), [whole, 2, INT], 0))
    assert whole.tolist() == [0, 0, 1, 1, 2, 2, -1, -1, -1, -1]


def test_the_root_of_a_broadcast_may_pass_constant_memory(world):
    into = bytearray(3)
    world(2).results(lambda comm: buffers.bcast(comm, into if comm.rank else b"abc", 0))
    assert into == b"abc"


@pytest.mark.spec("S4.4-3")
@pytest.mark.parametrize("operation", ROOTED)
@pytest.mark.parametrize("root", [-1, 3])
def test_a_root_out_of_range(operation, root, world):
    with pytest.raises(InvalidRootError, match=f"{operation} on WORLD, rank 2: root {root} is not in 0..2"):
        ROOTED[operation](world(3).comms[2], root)


ones = np.ones(4)
REFUSED = [
    ("Bcast", lambda comm: buffers.bcast(comm, b"constant", 1), InvalidBufferError, "buffer is read-only"),
    ("Bcast", lambda comm: buffers.bcast(comm, GARBAGE, 0), TypeError, "no buffer protocol"),
    ("Bcast", lambda comm: buffers.bcast(comm, [bytearray(3), 4, BYTE], 0), InvalidBufferError, "holds 3 bytes"),
    ("Bcast", lambda comm: buffers.bcast(comm, [bytearray(3), -1], 0), InvalidCountError, "count in buffer is -1"),
    ("Bcast", lambda comm: buffers.bcast(comm, [bytearray(3), "?!"], 0), InvalidTypeError, "unknown type code"),
    ("Scatter", lambda comm: buffers.scatter(comm, ones[:3], ones[3:], 0), InvalidCountError, "3 items .* 2 equal"),
    ("Scatter", lambda comm: buffers.scatter(comm, ones, np.ones(3), 0), InvalidCountError, "16 bytes .* recvbuf 24"),
    ("Scatter", lambda comm: buffers.scatter(comm, ones, ones[:2], 0), InvalidBufferError, "share memory"),
    ("Scatter", lambda comm: buffers.scatter(comm, None, IN_PLACE, 1), InvalidBufferError, "cannot be IN_PLACE"),
    ("Gather", lambda comm: buffers.gather(comm, np.ones(3), ones, 0), InvalidCountError, "24 bytes .* recvbuf 16"),
    ("Gather", lambda comm: buffers.gather(comm, ones[:2], ones, 0), InvalidBufferError, "share memory"),
    ("Gather", lambda comm: buffers.gather(comm, IN_PLACE, None, 1), InvalidBufferError, "cannot be IN_PLACE"),
    ("Allgather", lambda comm: buffers.allgather(comm, np.ones(1), np.ones(3)), InvalidCountError, "2 equal"),
    ("Allgather", lambda comm: buffers.allgather(comm, ones[:2], ones), InvalidBufferError, "share memory"),
    ("Alltoall", lambda comm: buffers.alltoall(comm, ones, np.ones(6)), InvalidCountError, "16 bytes .* recvbuf 24"),
    ("Alltoall", lambda comm: buffers.alltoall(comm, ones, ones), InvalidBufferError, "share memory"),
    ("Reduce", lambda comm: buffers.reduce(comm, ones, np.ones(3), SUM, 0), InvalidCountError, "4 items, recvbuf 3"),
    ("Reduce", lambda comm: buffers.reduce(comm, ones, np.ones(4, "i"), SUM, 0), InvalidTypeError, "one datatype"),
    ("Reduce", lambda comm: buffers.reduce(comm, ones, ones, SUM, 0), InvalidBufferError, "share memory"),
    ("Reduce", lambda comm: buffers.reduce(comm, ones, None, SUM, 0), InvalidTypeError, "one datatype"),
    ("Reduce", lambda comm: buffers.reduce(comm, ones, None, max, 1), InvalidOpError, "no reduction operation"),
    ("Reduce", lambda comm: buffers.reduce(comm, IN_PLACE, None, SUM, 1), InvalidBufferError, "cannot be IN_PLACE"),
    ("Allreduce", lambda comm: buffers.allreduce(comm, ones, np.ones(4), OP_NULL), InvalidOpError, "OP_NULL"),
    (
        "Allreduce",
        lambda comm: buffers.allreduce(comm, IN_PLACE, np.zeros(4, "S1"), SUM),
        InvalidOpError,
        "not defined",
    ),
    ("Allreduce", lambda comm: buffers.allreduce(comm, ones, IN_PLACE, SUM), InvalidBufferError, "cannot be IN_PLACE"),
]


@pytest.mark.parametrize(("operation", "call", "error", "message"), REFUSED)
def test_bad_arguments_are_refused_by_the_call_and_nothing_is_sent(operation, call, error, message, world):
    ranks = world(2)
    with pytest.raises(error, match=f"^{operation} on WORLD, rank 0: .*{message}"):
        call(ranks.comms[0])
    assert not ranks.deliver_one()


@pytest.mark.spec("S4.9.2-2")
def test_operations_are_refused_on_types_for_which_they_are_not_defined(world):
    with pytest.raises(InvalidOpError, match=re.escape("MPI_SUM is not defined for MPI_BYTE")):
        buffers.reduce(world(1).comms[0], [b"abc", BYTE], [bytearray(3), BYTE], SUM, 0)


MISMATCHED = {
    "Bcast": lambda comm, n: buffers.bcast(comm, bytearray(n), 0),
    "Scatter": lambda comm, n: buffers.scatter(comm, bytearray(2 * n), bytearray(n), 0),
    "Gather": lambda comm, n: buffers.gather(comm, bytearray(n), bytearray(2 * n), 1),
    "Allgather": lambda comm, n: buffers.allgather(comm, bytearray(n), bytearray(2 * n)),
    "Alltoall": lambda comm, n: buffers.alltoall(comm, bytearray(2 * n), bytearray(2 * n)),
    "Reduce": lambda comm, n: buffers.reduce(comm, np.zeros(n, "B"), np.zeros(n, "B"), SUM, 1),
    "Allreduce": lambda comm, n: buffers.allreduce(comm, np.zeros(n, "B"), np.zeros(n, "B"), SUM),
}


@pytest.mark.spec("S4.1-3")
@pytest.mark.parametrize("operation", MISMATCHED)
@pytest.mark.parametrize(("sent", "expected", "error"), [(3, 2, TruncationError), (2, 3, InvalidCountError)])
def test_different_counts_are_reported_with_both_figures_where_data_arrive(operation, sent, expected, error, world):
    ranks = world(2)
    requests = ranks.start(lambda comm: MISMATCHED[operation](comm, expected if comm.rank else sent))
    ranks.run()
    message = f"{operation} on WORLD, rank 1: rank 0 sent {sent} bytes where {expected} are expected"
    with pytest.raises(error, match=message):
        requests[1].result()
