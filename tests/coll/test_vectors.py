"""Scatterv, Allgatherv, Alltoallv, Alltoallw and Reduce_scatter: what is refused, and what is ignored."""

from __future__ import annotations

import numpy as np
import pytest

from aiompi.coll import buffers, objects
from aiompi.coll.registry import REDUCE_SCATTER
from aiompi.datatype import BYTE, DOUBLE, IN_PLACE, INT, SHORT
from aiompi.errors import (
    InvalidArgumentError,
    InvalidBufferError,
    InvalidCountError,
    InvalidOpError,
    InvalidRootError,
    InvalidTypeError,
    TruncationError,
)
from aiompi.op import OP_NULL, SUM

GARBAGE = object()


@pytest.mark.spec("S4.1-4", "S4.6-2")
@pytest.mark.parametrize("garbage", [None, GARBAGE, IN_PLACE, [bytearray(1), [1, 2]]])
def test_the_send_buffer_of_scatterv_is_ignored_except_at_the_root(garbage, world):
    parts = [bytearray(rank) for rank in range(3)]
    world(3).results(
        lambda comm: buffers.scatterv(comm, [b"abc", [0, 1, 2]] if comm.rank == 1 else garbage, parts[comm.rank], 1)
    )
    assert parts == [b"", b"a", b"bc"]


@pytest.mark.spec("S4.6-4")
def test_scatterv_may_send_the_same_memory_to_several_ranks(world):
    parts = [bytearray(2) for _ in range(3)]
    whole = [b"abcd", ([2, 2, 2], [0, 1, 2])]
    world(3).results(lambda comm: buffers.scatterv(comm, whole, parts[comm.rank], 0))
    assert parts == [b"ab", b"bc", b"cd"]


def test_alltoallv_may_send_the_same_memory_to_several_ranks(world):
    into = [bytearray(6) for _ in range(3)]
    world(3).results(
        lambda comm: buffers.alltoallv(comm, [bytes([comm.rank, 9]), (2, [0, 0, 0])], [into[comm.rank], 2])
    )
    assert into == [b"\0\x09\1\x09\2\x09"] * 3


def test_alltoallw_with_different_types_and_displacements_in_bytes(world):
    """Shorts, integers and doubles, depending on the pair of ranks, at offsets that are no whole number of items."""
    types = [SHORT, INT, DOUBLE]
    kinds = ["i2", "i4", "f8"]

    def layout(pairs):
        memory = bytearray(64)
        for (kind, number), displ in zip(pairs, (3, 17, 30), strict=True):
            memory[displ : displ + np.dtype(kind).itemsize] = np.array([number], kind).tobytes()
        return memory

    out = [layout([(kinds[max(rank, other)], 10 * rank + other) for other in range(3)]) for rank in range(3)]
    into = [bytearray(64) for _ in range(3)]

    def spec(memory, rank):
        return [memory, ([1, 1, 1], [3, 17, 30]), [types[max(rank, other)] for other in range(3)]]

    world(3).results(
        lambda comm: buffers.alltoallw(comm, spec(out[comm.rank], comm.rank), spec(into[comm.rank], comm.rank))
    )
    for rank in range(3):
        assert into[rank] == layout([(kinds[max(rank, other)], 10 * other + rank) for other in range(3)])


def test_alltoallw_with_one_item_of_each_type(world):
    """All blocks are at the start, as if sent by Bcast; the datatypes place them."""
    at = [INT.Create_hindexed([1], [8 * rank]).Commit() for rank in range(3)]
    into = np.full((3, 6), -1, "i")
    world(3).results(
        lambda comm: buffers.alltoallw(comm, [np.array([comm.rank], "i"), [INT] * 3], [into[comm.rank], at])
    )
    assert into.tolist() == [[0, -1, 1, -1, 2, -1]] * 3


@pytest.mark.spec("S4.10-2")
@pytest.mark.parametrize("counts", [[3, 0, 0], [0, 3, 0], [0, 0, 3], [0, 0, 0]])
@pytest.mark.parametrize("in_place", [False, True])
def test_segments_of_reduce_scatter_may_be_empty(counts, in_place, world):
    total = sum(counts)
    mine = [np.arange(total) + rank for rank in range(3)]
    into = [mine[rank] if in_place else np.full(counts[rank], -1) for rank in range(3)]
    world(3).results(
        lambda comm: buffers.reduce_scatter(
            comm, IN_PLACE if in_place else mine[comm.rank], into[comm.rank], counts, SUM
        )
    )
    for rank in range(3):
        assert into[rank][: counts[rank]].tolist() == (3 * np.arange(total) + 3)[: counts[rank]].tolist()


@pytest.mark.parametrize("algorithm", REDUCE_SCATTER.algorithms)
def test_all_of_reduce_scatter_may_come_to_one_rank_in_the_midst_of_its_memory(algorithm, world):
    mine = np.arange(5, dtype="i") + np.arange(3, dtype="i")[:, None]
    call = buffers.reduce_scatter.using(algorithm)
    world(3).results(lambda comm: call(comm, IN_PLACE, [mine[comm.rank], (3, 1), INT], [3, 0, 0], SUM))
    assert mine[0].tolist() == [0, 6, 9, 12, 4]


@pytest.mark.parametrize("garbage", [None, GARBAGE, np.zeros(7)])
def test_the_receive_buffer_of_exscan_is_ignored_on_rank_0(garbage, world):
    into = np.zeros((3, 1))
    world(3).results(lambda comm: buffers.exscan(comm, np.ones(1), into[comm.rank] if comm.rank else garbage, SUM))
    assert into.ravel().tolist() == [0, 1, 2]


def test_scans_of_objects(world, codec):
    ranks = world(4)
    assert ranks.results(lambda comm: objects.scan(comm, codec, "abcd"[comm.rank], SUM)) == ["a", "ab", "abc", "abcd"]
    assert ranks.results(lambda comm: objects.exscan(comm, codec, "abcd"[comm.rank], SUM)) == [None, "a", "ab", "abc"]
    for call in (objects.scan, objects.exscan):
        with pytest.raises(InvalidOpError, match=f"^{call.__name__} on WORLD, rank 0: "):
            call(ranks.comms[0], codec, 1, OP_NULL)


ones, more = np.ones(4), np.ones(4)
REFUSED = [
    ("Scatterv", lambda c: buffers.scatterv(c, [ones, [1]], np.ones(1), 0), InvalidArgumentError, "1 entries: .* 2"),
    ("Scatterv", lambda c: buffers.scatterv(c, [ones, [1, 1]], np.ones(2), 0), InvalidCountError, "8 bytes .* 16"),
    ("Scatterv", lambda c: buffers.scatterv(c, [ones, [1, 1]], ones[1:2], 0), InvalidBufferError, "share memory"),
    ("Scatterv", lambda c: buffers.scatterv(c, None, ones, 2), InvalidRootError, "root 2"),
    ("Scatterv", lambda c: buffers.scatterv(c, None, IN_PLACE, 1), InvalidBufferError, "cannot be IN_PLACE"),
    ("Allgatherv", lambda c: buffers.allgatherv(c, ones, [more, [3, 1]]), InvalidCountError, "32 bytes .* 24"),
    ("Allgatherv", lambda c: buffers.allgatherv(c, ones[:1], [ones, [1, 1]]), InvalidBufferError, "share memory"),
    ("Allgatherv", lambda c: buffers.allgatherv(c, ones[:2], [more, (2, 1)]), InvalidBufferError, "overlap"),
    ("Alltoallv", lambda c: buffers.alltoallv(c, [ones, [1, 2]], [more, [2, 1]]), InvalidCountError, "8 bytes .* 16"),
    ("Alltoallv", lambda c: buffers.alltoallv(c, [ones, [1, 1]], [ones, [1, 1]]), InvalidBufferError, "share memory"),
    ("Alltoallv", lambda c: buffers.alltoallv(c, [ones, [1, 4]], [more, [1, 1]]), InvalidBufferError, "holds 32 bytes"),
    ("Alltoallw", lambda c: buffers.alltoallw(c, ones, [more, 1, [0, 8], [DOUBLE] * 2]), TypeError, "for each rank"),
    ("Alltoallw", lambda c: buffers.alltoallw(c, IN_PLACE, [more, [DOUBLE]]), InvalidArgumentError, "types .* 1 ent"),
    ("Alltoallw", lambda c: buffers.alltoallw(c, IN_PLACE, [more, [None, DOUBLE]]), TypeError, "has None"),
    ("Alltoallw", lambda c: buffers.alltoallw(c, IN_PLACE, [more, [DOUBLE] * 2]), InvalidBufferError, "overlap"),
    ("Alltoallw", lambda c: buffers.alltoallw(c, IN_PLACE, [more, (1, [0, -8]), [DOUBLE] * 2]), InvalidBufferError, ""),
    (
        "Reduce_scatter",
        lambda c: buffers.reduce_scatter(c, ones, more[:2], [2, 1], SUM),
        InvalidCountError,
        "4 items, for which the ranks receive 3 together",
    ),
    (
        "Reduce_scatter",
        lambda c: buffers.reduce_scatter(c, ones, more, [2, 2], SUM),
        InvalidCountError,
        "holds 4 items",
    ),
    ("Reduce_scatter", lambda c: buffers.reduce_scatter(c, ones, more, [4], SUM), InvalidArgumentError, "1 entries"),
    ("Reduce_scatter", lambda c: buffers.reduce_scatter(c, ones, more, [5, -1], SUM), InvalidCountError, "-1"),
    ("Reduce_scatter", lambda c: buffers.reduce_scatter(c, IN_PLACE, more, None, SUM), InvalidArgumentError, "None"),
    ("Reduce_scatter", lambda c: buffers.reduce_scatter(c, ones, ones[:2], None, SUM), InvalidBufferError, "share"),
    (
        "Reduce_scatter_block",
        lambda c: buffers.reduce_scatter_block(c, ones, more, SUM),
        InvalidCountError,
        "4 items, for which the ranks receive 8 together",
    ),
    (
        "Reduce_scatter_block",
        lambda c: buffers.reduce_scatter_block(c, IN_PLACE, more[:3], SUM),
        InvalidCountError,
        "cannot be cut into 2",
    ),
    ("Scan", lambda c: buffers.scan(c, ones, np.ones(3), SUM), InvalidCountError, "4 items, recvbuf 3"),
    ("Scan", lambda c: buffers.scan(c, ones, np.ones(4, "i"), SUM), InvalidTypeError, "one datatype"),
    (
        "Scan",
        lambda c: buffers.scan(c, IN_PLACE, [bytearray(1), BYTE], SUM),
        InvalidOpError,
        "not defined for MPI_BYTE",
    ),
    ("Exscan", lambda c: buffers.exscan(c, ones, more, OP_NULL), InvalidOpError, "OP_NULL"),
]


@pytest.mark.spec("S2.2-2", "S4.5-5", "S4.10-2", "S4.11-3")
@pytest.mark.parametrize(("operation", "call", "error", "message"), REFUSED)
def test_bad_arguments_are_refused_by_the_call_and_nothing_is_sent(operation, call, error, message, world):
    ranks = world(2)
    with pytest.raises(error, match=f"^{operation} on WORLD, rank 0: .*{message}"):
        call(ranks.comms[0])
    assert not ranks.deliver_one()


MISMATCHED = {
    "Scatterv": lambda comm, n: buffers.scatterv(comm, [bytearray(2 * n), [n, n]], bytearray(n), 0),
    "Allgatherv": lambda comm, n: buffers.allgatherv(comm, bytearray(n), [bytearray(2 * n), [n, n]]),
    "Alltoallv": lambda comm, n: buffers.alltoallv(comm, [bytearray(2 * n), n], [bytearray(2 * n), n]),
    "Alltoallw": lambda comm, n: buffers.alltoallw(
        comm, [bytearray(n), n, 0, [BYTE] * 2], [bytearray(2 * n), n, [0, n], [BYTE] * 2]
    ),
    "Scan": lambda comm, n: buffers.scan(comm, np.zeros(n, "B"), np.zeros(n, "B"), SUM),
    "Exscan": lambda comm, n: buffers.exscan(comm, np.zeros(n, "B"), np.zeros(n, "B"), SUM),
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
