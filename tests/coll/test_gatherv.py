"""Gatherv (section 4.5): blocks of different sizes, anywhere."""

from __future__ import annotations

import numpy as np
import pytest

from aiompi.coll import buffers
from aiompi.datatype import BYTE, IN_PLACE, INT
from aiompi.errors import (
    InvalidArgumentError,
    InvalidBufferError,
    InvalidCountError,
    InvalidRootError,
    InvalidTypeError,
    TruncationError,
)

SIZES = [1, 2, 3, 5, 7, 9]
every_world = pytest.mark.parametrize(("size", "eager_limit"), [(n, limit) for n in SIZES for limit in (0, 65536)])


def gatherv(ranks, send, receive, root):
    """Make the call on all ranks; `send` is by rank."""
    return ranks.results(
        lambda comm: buffers.gatherv(comm, send[comm.rank], receive if comm.rank == root else None, root)
    )


def table_of(rank, rows=5, columns=6):
    return np.arange(rows * columns, dtype="i").reshape(rows, columns) + 1000 * rank


@pytest.mark.spec("S4.5-6", "S4.5-7")
@every_world
def test_blocks_of_any_size_follow_each_other(size, eager_limit, world):
    ranks = world(size, seed=size, eager_limit=eager_limit)
    for root in range(size):
        counts = [(rank + root) % 3 for rank in range(size)]
        parts = [np.full(counts[rank], rank, "i") for rank in range(size)]
        whole = np.full(sum(counts) + 2, -1, "i")
        assert gatherv(ranks, parts, [whole, counts], root) == [None] * size
        assert whole.tolist() == [rank for rank in range(size) for _ in range(counts[rank])] + [-1, -1]


@pytest.mark.spec("S4.5-6")
@pytest.mark.parametrize("size", SIZES)
def test_displacements_in_any_order(size, world):
    counts = [rank % 3 for rank in range(size)]
    displs = [4 * (size - 1 - rank) for rank in range(size)]
    whole = np.full(4 * size, -1, "i")
    parts = [np.full(n, rank, "i") for rank, n in enumerate(counts)]
    gatherv(world(size), parts, [whole, (counts, displs), "i"], 0)
    for rank in range(size):
        assert whole[displs[rank] :][:4].tolist() == [rank] * counts[rank] + [-1] * (4 - counts[rank])


@pytest.mark.spec("S4.5-8")
@pytest.mark.parametrize("size", SIZES)
def test_blocks_a_stride_apart(size, world):
    """Example 4.5."""
    whole = np.full((size, 7), -1, "i")
    gatherv(world(size), [np.arange(5, dtype="i") + 10 * rank for rank in range(size)], [whole, (5, 7), INT], size - 1)
    assert whole[:, :5].tolist() == [list(range(10 * rank, 10 * rank + 5)) for rank in range(size)]
    assert (whole[:, 5:] == -1).all()


@pytest.mark.spec("S4.5-5", "S4.5-8")
def test_a_stride_less_than_a_block_is_refused(world):
    """Example 4.5, in its wrong form."""
    ranks = world(3)
    with pytest.raises(InvalidBufferError, match="Gatherv on WORLD, rank 0: blocks of recvbuf overlap"):
        buffers.gatherv(ranks.comms[0], np.zeros(5, "i"), [np.zeros(30, "i"), (5, 4), INT], 0)
    assert not ranks.deliver_one()


@pytest.mark.spec("S4.5-8", "S3.12-6")
@pytest.mark.parametrize("size", SIZES)
def test_the_first_column_of_each(size, world):
    """Example 4.6."""
    column = INT.Create_vector(5, 1, 6).Commit()
    whole = np.full((size, 7), -1, "i")
    gatherv(world(size), [[table_of(rank), 1, column] for rank in range(size)], [whole, (5, 7), INT], 0)
    assert whole[:, :5].tolist() == [table_of(rank)[:, 0].tolist() for rank in range(size)]


@pytest.mark.spec("S4.5-8", "S3.12-6")
@pytest.mark.parametrize("size", [1, 2, 3, 5])
@pytest.mark.parametrize("resized", [False, True])
def test_columns_that_become_shorter(size, resized, world):
    """Examples 4.7 and 4.8: 5 - i elements of column i from rank i, by a vector or by one integer of a row's extent."""

    def contribution(rank):
        memory = table_of(rank).ravel()[rank:]
        if resized:
            return [memory, 5 - rank, INT.Create_resized(0, 24).Commit()]
        return [memory, 1, INT.Create_vector(5 - rank, 1, 6).Commit()]

    whole = np.full((size, 8), -1, "i")
    counts = [5 - rank for rank in range(size)]
    gatherv(world(size), [contribution(rank) for rank in range(size)], [whole, (counts, 8), INT], size - 1)
    for rank in range(size):
        assert whole[rank, : 5 - rank].tolist() == table_of(rank)[: 5 - rank, rank].tolist()
        assert (whole[rank, 5 - rank :] == -1).all()


@pytest.mark.spec("S4.5-8")
@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_strides_of_any_length(size, world):
    """Example 4.9: the gap after each block is different."""
    counts, strides = [5 - rank for rank in range(size)], [5 + 2 * rank for rank in range(size)]
    displs = [sum(strides[:rank]) for rank in range(size)]
    whole = np.full(sum(strides), -1, "i")
    gatherv(world(size), [table_of(rank)[: counts[rank], rank] for rank in range(size)], [whole, (counts, displs)], 0)
    for rank in range(size):
        assert whole[displs[rank] :][: counts[rank]].tolist() == table_of(rank)[: counts[rank], rank].tolist()
        assert (whole[displs[rank] + counts[rank] : displs[rank] + strides[rank]] == -1).all()


@pytest.mark.spec("S4.5-8")
@pytest.mark.parametrize("size", SIZES)
def test_lengths_that_the_root_must_ask_for(size, world):
    """Example 4.10."""
    ranks, lengths = world(size), np.zeros(size, "i")
    ranks.results(lambda comm: buffers.gather(comm, np.array([comm.rank * 2], "i"), lengths, 0))
    whole = np.zeros(lengths.sum(), "i")
    gatherv(ranks, [np.full(2 * rank, rank, "i") for rank in range(size)], [whole, lengths], 0)
    assert whole.tolist() == [rank for rank in range(size) for _ in range(2 * rank)]


@pytest.mark.spec("S4.5-6", "S3.12-6")
@pytest.mark.parametrize("size", [2, 3, 5])
def test_blocks_that_interleave(size, world):
    """Each contribution becomes a column of the root's table."""
    whole = np.full((5, size + 1), -1, "i")
    column = INT.Create_vector(5, 1, size + 1).Create_resized(0, 4).Commit()
    displs = list(range(size))[::-1]
    gatherv(world(size), [np.arange(5, dtype="i") + 10 * rank for rank in range(size)], [whole, (1, displs), column], 0)
    assert whole[:, size - 1 :: -1].T[:size].tolist() == [list(range(10 * r, 10 * r + 5)) for r in range(size)]
    assert (whole[:, size] == -1).all()


@pytest.mark.parametrize("root", range(3))
@pytest.mark.parametrize("kind", [INT, INT.Create_resized(0, 8).Commit()], ids=["dense", "gaps"])
def test_in_place(kind, root, world):
    whole = np.full(24, -1, "i")
    extent = kind.extent // 4
    displs, counts = [7, 0, 3], [2, 3, 1]
    for i in range(counts[root]):
        whole[(displs[root] + i) * extent] = root
    send = [IN_PLACE if rank == root else np.full(counts[rank], rank, "i") for rank in range(3)]
    gatherv(world(3), send, [whole, (counts, displs), kind], root)
    expected = np.full(24, -1, "i")
    for rank in range(3):
        expected[[(displs[rank] + i) * extent for i in range(counts[rank])]] = rank
    assert whole.tolist() == expected.tolist()


@pytest.mark.spec("S4.1-4", "S4.5-3")
@pytest.mark.parametrize("garbage", [None, object(), IN_PLACE, b"read-only"])
def test_the_receive_buffer_is_ignored_except_at_the_root(garbage, world):
    whole = bytearray(3)
    world(3).results(
        lambda comm: buffers.gatherv(comm, bytes([comm.rank]), [whole, 1] if comm.rank == 1 else garbage, 1)
    )
    assert whole == b"\0\1\2"


REFUSED = [
    (bytes(1), [bytearray(4), [1, 1, 1]], InvalidArgumentError, "counts in recvbuf has 3 entries: expected 2"),
    (bytes(1), [bytearray(4), ([1, 1], [0])], InvalidArgumentError, "displs in recvbuf has 1 entries: expected 2"),
    (bytes(1), [bytearray(4), [1, -1]], InvalidCountError, "counts in recvbuf"),
    (bytes(1), [bytearray(4), [1, 4]], InvalidBufferError, "recvbuf holds 4 bytes, but 5 items"),
    (bytes(1), [bytearray(3), BYTE], InvalidCountError, "recvbuf holds 3 items .* 2 equal blocks"),
    (bytes(2), [bytearray(4), [1, 1]], InvalidCountError, "sendbuf has 2 bytes for a rank, recvbuf 1"),
    (bytes(1), [bytes(4), [1, 1]], InvalidBufferError, "recvbuf is read-only"),
    (bytes(1), [bytearray(16), [1, 1], INT.Create_vector(2, 1, 2)], InvalidTypeError, "is not committed"),
    (None, IN_PLACE, InvalidBufferError, "recvbuf cannot be IN_PLACE"),
    (None, [bytearray(2)], TypeError, "not a vector specification"),
]


@pytest.mark.parametrize(("send", "receive", "error", "message"), REFUSED)
def test_bad_arguments_at_the_root(send, receive, error, message, world):
    ranks = world(2)
    with pytest.raises(error, match=f"^Gatherv on WORLD, rank 0: .*{message}"):
        buffers.gatherv(ranks.comms[0], send, receive, 0)
    assert not ranks.deliver_one()


@pytest.mark.spec("S2.2-2")
def test_memory_that_is_sent_must_not_receive(world):
    memory = np.zeros(6, "i")
    comm = world(2).comms[0]
    with pytest.raises(InvalidBufferError, match="sendbuf and recvbuf share memory"):
        buffers.gatherv(comm, memory[4:], [memory, ([2, 2], [0, 3])], 0)
    buffers.gatherv(comm, memory[4:], [memory, ([2, 2], [0, 2])], 0)


def test_bad_arguments_elsewhere(world):
    comm = world(2).comms[1]
    with pytest.raises(InvalidBufferError, match="Gatherv on WORLD, rank 1: sendbuf cannot be IN_PLACE"):
        buffers.gatherv(comm, IN_PLACE, None, 0)
    with pytest.raises(InvalidRootError, match=r"Gatherv on WORLD, rank 1: root 2 is not in 0\.\.1"):
        buffers.gatherv(comm, b"", None, 2)


@pytest.mark.spec("S4.5-7", "S4.1-3")
@pytest.mark.parametrize(("sent", "error"), [(3, TruncationError), (1, InvalidCountError)])
def test_another_amount_than_the_root_expects(sent, error, world):
    ranks = world(2)
    requests = ranks.start(
        lambda comm: buffers.gatherv(comm, bytes(sent if comm.rank else 1), [bytearray(3), [1, 2]], 0)
    )
    ranks.run()
    with pytest.raises(error, match=f"Gatherv on WORLD, rank 0: rank 1 sent {sent} bytes where 2 are expected"):
        requests[0].result()
