"""Vector specifications: one block per rank."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from aiompi.datatype.buffer.address import BOTTOM
from aiompi.datatype.buffer.vector import (
    resolve_typed_recv,
    resolve_typed_send,
    resolve_vector_recv,
    resolve_vector_send,
)
from aiompi.datatype.predefined import BYTE, DATATYPE_NULL, DOUBLE, INT
from aiompi.errors import InvalidArgumentError, InvalidBufferError, InvalidCountError, InvalidTypeError

RESOLVE = [resolve_vector_send, resolve_vector_recv]
RESOLVE_TYPED = [resolve_typed_send, resolve_typed_recv]
NINE = np.arange(9, dtype="i")


@pytest.mark.parametrize("resolve", RESOLVE)
@pytest.mark.parametrize("kind", [list, tuple])
@pytest.mark.parametrize(
    ("rest", "values"),
    [
        ([[2, 1, 3]], [[0, 1], [2], [3, 4, 5]]),
        ([(2, 1, 3)], [[0, 1], [2], [3, 4, 5]]),
        ([np.array([2, 1, 3])], [[0, 1], [2], [3, 4, 5]]),
        ([2], [[0, 1], [2, 3], [4, 5]]),
        ([np.int64(2)], [[0, 1], [2, 3], [4, 5]]),
        ([([2, 1, 3], [7, 0, 2])], [[7, 8], [0], [2, 3, 4]]),
        ([([1, 2, 1], 3)], [[0], [3, 4], [6]]),
        ([(2, 3)], [[0, 1], [3, 4], [6, 7]]),
        ([(2, None)], [[0, 1], [2, 3], [4, 5]]),
        ([(None, 3)], [[0, 1, 2], [3, 4, 5], [6, 7, 8]]),
        ([([0, 0, 1], [99, -5, 8])], [[], [], [8]]),
        ([INT], [[0, 1, 2], [3, 4, 5], [6, 7, 8]]),
        (["i"], [[0, 1, 2], [3, 4, 5], [6, 7, 8]]),
        ([None], [[0, 1, 2], [3, 4, 5], [6, 7, 8]]),
        ([[1, 0, 2], "i"], [[0], [], [1, 2]]),
        ([([1, 0, 2], [2, 0, 4]), INT], [[2], [], [4, 5]]),
        ([[1, 0, 2], [2, 0, 4], INT], [[2], [], [4, 5]]),
        ([[1, 0, 2], None, INT], [[0], [], [1, 2]]),
        ([None, None, INT], [[0, 1, 2], [3, 4, 5], [6, 7, 8]]),
    ],
)
def test_forms(resolve: Any, kind: Any, rest: list[Any], values: list[list[int]]) -> None:
    buffers = resolve(kind([NINE, *rest]), "recvbuf", 3)
    assert [buffer.array().tolist() for buffer in buffers] == values
    assert all(buffer.datatype is INT for buffer in buffers)
    assert all(np.shares_memory(buffer.view, NINE) for buffer in buffers if buffer.count)


@pytest.mark.parametrize("resolve", RESOLVE)
def test_memory_alone_is_cut_into_equal_blocks(resolve: Any) -> None:
    assert [buffer.array().tolist() for buffer in resolve(NINE, "buf", 3)] == [[0, 1, 2], [3, 4, 5], [6, 7, 8]]
    assert [buffer.count for buffer in resolve(None, "buf", 2)] == [0, 0]
    with pytest.raises(InvalidCountError, match=r"buf holds 9 items of MPI_INT, .* 2 equal blocks.*\[buf, counts\]"):
        resolve(NINE, "buf", 2)


def test_blocks_of_an_array_that_is_not_contiguous() -> None:
    buffers = resolve_vector_send([NINE[::-2], [2, 0, 3]], "sendbuf", 3)
    assert [np.frombuffer(buffer.packed(), "i").tolist() for buffer in buffers] == [[8, 6], [], [4, 2, 0]]


def test_displacements_count_extents() -> None:
    column = INT.Create_vector(3, 1, 3).Create_resized(0, 4).Commit()
    buffers = resolve_vector_recv([NINE, ([1, 1], [2, 0]), column], "recvbuf", 2)
    for buffer, value in zip(buffers, (-1, -2), strict=True):
        buffer.unpack(memoryview(np.full(3, value, "i").tobytes()))
    assert NINE.reshape(3, 3).tolist() == [[-2, 1, -1], [-2, 4, -1], [-2, 7, -1]]
    NINE[:] = np.arange(9)


@pytest.mark.spec("S4.5-5")
@pytest.mark.parametrize(
    "spec",
    [
        [NINE, ([2, 2, 2], 1)],
        [NINE, ([1, 1, 4], [3, 8, 5])],
        [NINE, ([1, 1, 1], [0, 1, 0]), INT.Create_vector(3, 1, 3).Create_resized(0, 4).Commit()],
        [NINE[::2], ([1, 2, 1], [0, 1, 2])],
    ],
    ids=["stride", "one end", "columns", "array"],
)
def test_blocks_that_receive_must_not_overlap(spec: Any) -> None:
    assert len(resolve_vector_send(spec, "sendbuf", 3)) == 3
    with pytest.raises(InvalidBufferError, match="blocks of recvbuf overlap"):
        resolve_vector_recv(spec, "recvbuf", 3)


@pytest.mark.spec("S3.12.5-4")
def test_overlapping_and_read_only_receive_blocks() -> None:
    twice = INT.Create_vector(2, 2, 1).Commit()
    with pytest.raises(InvalidTypeError, match="type in recvbuf cannot receive"):
        resolve_vector_recv([NINE, [1, 1], twice], "recvbuf", 2)
    with pytest.raises(InvalidBufferError, match="recvbuf is read-only"):
        resolve_vector_recv([b"ab", [1, 1]], "recvbuf", 2)


@pytest.mark.parametrize("resolve", RESOLVE)
@pytest.mark.parametrize(
    ("spec", "error", "says"),
    [
        ([NINE, [1, 2]], InvalidArgumentError, "counts in buf has 2 entries: expected 3, one for each rank"),
        ([NINE, ([1] * 3, [0] * 4)], InvalidArgumentError, "displs in buf has 4 entries: expected 3"),
        ([NINE, [1, -2, 1]], InvalidCountError, r"counts in buf are \[1, -2, 1\]: expected 0 or more"),
        ([NINE, -1], InvalidCountError, "counts in buf are -1"),
        ([NINE, [4, 4, 4]], InvalidBufferError, "buf holds 36 bytes, but 12 items of MPI_INT take 48"),
        ([NINE, (1, [0, 1, 9])], InvalidBufferError, "buf holds 36 bytes, but 10 items of MPI_INT take 40"),
        ([NINE, (1, [0, 1, -1])], InvalidBufferError, "after -1 skipped, reach from byte -4 to byte 0"),
        ([NINE[::2], (1, [0, 1, -1])], InvalidBufferError, "buf holds 20 bytes"),
        ([NINE, [1, 1, 1], DATATYPE_NULL], InvalidTypeError, "type in buf is MPI_DATATYPE_NULL"),
        ([NINE, [1, 1, 1], INT.Create_contiguous(2)], InvalidTypeError, "type in buf.* is not committed"),
        ([NINE], TypeError, "list of 1 items, not a vector specification"),
        ([NINE, 1, 1, BYTE, 1], TypeError, "list of 5 items"),
        ([NINE, "x!"], InvalidTypeError, "unknown type code"),
        ([NINE, 1.5], TypeError, "counts in buf is 1.5: expected an integer"),
        ([NINE, [1, "2", 3]], TypeError, "counts in buf is '2'"),
        ([NINE, "iii", DOUBLE], TypeError, "counts in buf is 'iii'"),
        ([NINE, (1, "a")], TypeError, "displs in buf is 'a'"),
        ([3, 1], TypeError, "memory in buf is 3: expected bytes"),
    ],
)
def test_refused(resolve: Any, spec: Any, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        resolve(spec, "buf", 3)


# A datatype for each rank.


@pytest.mark.parametrize("resolve", RESOLVE_TYPED)
@pytest.mark.parametrize("kind", [list, tuple])
@pytest.mark.parametrize(
    ("rest", "messages"),
    [
        ([([2, 1, 1], [0, 9, 16]), ["i", BYTE, DOUBLE]], [b"\0\1\2\3\4\5\6\7", b"\x09", bytes(range(16, 24))]),
        ([(2, 1, 1), (0, 9, 16), (INT, "B", DOUBLE)], [b"\0\1\2\3\4\5\6\7", b"\x09", bytes(range(16, 24))]),
        ([1, [0, 5, 9], [INT, INT, INT]], [b"\0\1\2\3", b"\5\6\7\x08", b"\x09\x0a\x0b\x0c"]),
        ([([2, 0, 1], [3, 99, 1]), [BYTE, DOUBLE, BYTE]], [b"\3\4", b"", b"\1"]),
        ([([2, 0, 1], [3, 99, 1]), [BYTE, DATATYPE_NULL, BYTE]], [b"\3\4", b"", b"\1"]),
    ],
)
def test_typed_forms(resolve: Any, kind: Any, rest: list[Any], messages: list[bytes]) -> None:
    memory = bytearray(range(32))
    blocks = resolve(kind([memory, *rest]), "buf", 3)
    assert [bytes(block.packed()) for block in blocks] == messages


@pytest.mark.parametrize("memory", [None, BOTTOM, bytearray(8)])
def test_types_of_blocks_without_items_may_be_null(memory: Any) -> None:
    for resolve in RESOLVE_TYPED:
        assert [block.nbytes for block in resolve([memory, [0, 0], [0, 8], [DATATYPE_NULL] * 2], "buf", 2)] == [0, 0]
    for resolve in RESOLVE:
        blocks = resolve([None, [0, 0], DATATYPE_NULL], "buf", 2), resolve([None, 0, DATATYPE_NULL], "buf", 2)
        assert [block.nbytes for block in itertools.chain(*blocks)] == [0] * 4


@pytest.mark.parametrize("resolve", [resolve_typed_send, resolve_typed_recv])
def test_no_blocks_at_all(resolve: Any) -> None:
    """As on a process without neighbours."""
    assert resolve([bytearray(8), ([], []), []], "buf", 0) == []
    with pytest.raises(InvalidArgumentError, match="0 entries: expected 1"):
        resolve([bytearray(8), ([], []), [INT]], "buf", 1)


def test_one_item_of_each_type_at_the_start() -> None:
    second = INT.Create_hindexed([1], [4]).Commit()
    assert [block.packed().tolist() for block in resolve_typed_send([bytes(range(8)), [INT, second]], "buf", 2)] == [
        [0, 1, 2, 3],
        [4, 5, 6, 7],
    ]


def test_items_of_a_type_with_gaps_from_any_byte_on() -> None:
    memory = bytearray(20)
    hole = INT.Create_resized(0, 8).Commit()
    (block,) = resolve_typed_recv([memory, [2], [5], [hole]], "buf", 1)
    block.unpack(memoryview(b"abcdefgh"))
    assert memory == bytes(5) + b"abcd" + bytes(4) + b"efgh" + bytes(3)


@pytest.mark.parametrize("resolve", RESOLVE_TYPED)
@pytest.mark.parametrize(
    ("spec", "error", "says"),
    [
        (bytearray(8), TypeError, "with a datatype for each rank"),
        ([bytearray(8), INT], TypeError, "with a datatype for each rank"),
        ([bytearray(8), 1, INT], TypeError, "with a datatype for each rank"),
        ([bytearray(8), [INT]], InvalidArgumentError, "types in buf has 1 entries: expected 2"),
        ([bytearray(8), [INT, None]], TypeError, "types in buf has None"),
        ([bytearray(8), ([1], [0, 4]), [INT, INT]], InvalidArgumentError, "counts in buf has 1 entries"),
        ([bytearray(8), ([1, 1], [0]), [INT, INT]], InvalidArgumentError, "displs in buf has 1 entries"),
        ([bytearray(8), ([1, -1], [0, 4]), [INT, INT]], InvalidCountError, "counts in buf are"),
        ([bytearray(8), ([1, 1], [0, 5]), [INT, INT]], InvalidBufferError, "to byte 9"),
        ([bytearray(8), ([1, 1], [-1, 4]), [INT, INT]], InvalidBufferError, "from byte -1"),
        ([bytearray(8), ([1, 1], [0, 4]), [INT, DATATYPE_NULL]], InvalidTypeError, "type in buf"),
        ([bytearray(8), ([1, 1], [0, 4]), [INT, "?!"]], InvalidTypeError, "unknown type code"),
    ],
)
def test_typed_refused(resolve: Any, spec: Any, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        resolve(spec, "buf", 2)


@pytest.mark.spec("S4.5-5")
def test_typed_blocks_that_receive_must_not_overlap() -> None:
    spec = [bytearray(8), ([1, 1], [0, 3]), [INT, INT]]
    with pytest.raises(InvalidBufferError, match="blocks of buf overlap"):
        resolve_typed_recv(spec, "buf", 2)
    assert len(resolve_typed_send(spec, "buf", 2)) == 2


@pytest.mark.parametrize("table", [lambda: bytearray(128), lambda: np.zeros(16)])
def test_interleaved_blocks(table: Any) -> None:
    """Each column of a table is a block. The same layouts overlap at other displacements."""
    column = DOUBLE.Create_vector(4, 1, 4).Create_resized(0, 8).Commit()
    for _ in range(2):
        blocks = resolve_typed_recv([table(), [1, 1], [8, 24], [column, column]], "buf", 2)
        assert [block.bounds for block in blocks] == [(8, 112), (24, 128)]
        with pytest.raises(InvalidBufferError, match="blocks of buf overlap"):
            resolve_typed_recv([table(), [1, 1], [8, 8], [column, column]], "buf", 2)
        with pytest.raises(InvalidBufferError, match="blocks of buf overlap"):
            resolve_typed_recv([table(), [1, 2], [8, 0], [column, column]], "buf", 2)


def test_blocks_that_were_valid_are_checked_again_where_it_matters() -> None:
    """The second call with equal types is spared the checks, but not one with other memory, types or displacements."""

    def half(start: int) -> Any:
        return BYTE.Create_subarray([8], [4], [start]).Commit()

    for _ in range(2):
        first, second = types = [half(0), half(4)]
        memory, each = bytearray(range(8)), ([1, 1], [0, 0])
        for resolve in RESOLVE_TYPED:
            blocks = resolve([memory, each, types], "buf", 2)
            assert [bytes(block.packed()) for block in blocks] == [bytes(range(4)), bytes(range(4, 8))]
            assert [block.datatype for block in blocks] == types
        with pytest.raises(InvalidBufferError, match="holds 7 bytes"):
            resolve_typed_recv([memory[:7], each, types], "buf", 2)
        with pytest.raises(InvalidBufferError, match="read-only"):
            resolve_typed_recv([bytes(memory), each, types], "buf", 2)
        assert len(resolve_typed_send([memory, each, [first, first]], "buf", 2)) == 2
        with pytest.raises(InvalidBufferError, match="blocks of buf overlap"):
            resolve_typed_recv([memory, each, [first, first]], "buf", 2)
        second.Free()
        with pytest.raises(InvalidTypeError, match="was freed"):
            resolve_typed_recv([memory, each, types], "buf", 2)
