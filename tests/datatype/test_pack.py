"""Packing units: native and external32."""

from __future__ import annotations

import array
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiompi.datatype import pack
from aiompi.datatype.buffer import address
from aiompi.datatype.buffer.address import BOTTOM, Get_address
from aiompi.datatype.predefined import (
    BYTE,
    CHAR,
    DATATYPE_NULL,
    DOUBLE,
    DOUBLE_INT,
    FLOAT,
    INT,
    LB,
    LONG,
    PACKED,
    SHORT,
    Datatype,
)
from aiompi.errors import (
    ERR_ARG,
    ERR_TRUNCATE,
    ERR_TYPE,
    InvalidArgumentError,
    InvalidBufferError,
    InvalidCommError,
    InvalidCountError,
    InvalidTypeError,
    TruncationError,
)
from support.cases import cases


class Comm:
    """What packing asks of a communicator."""

    rank = 0
    group = ()

    def __init__(self, representation: str | None = None) -> None:
        if representation is not None:
            self.representation = representation


COLUMN = DOUBLE.Create_vector(4, 1, 3).Commit()
RESIZED_COLUMN = COLUMN.Create_resized(0, 8).Commit()
PADDED = Datatype.Create_struct([1, 1], [0, 8], [DOUBLE, CHAR]).Commit()


@pytest.mark.spec("S3.13-1", "S3.13-2", "S3.13-6")
def test_a_unit_is_the_message_of_all_that_was_packed() -> None:
    numbers, text = np.array([1, 2, 3], np.int32), b"abcde"
    unit = bytearray(b"\xee" * 20)
    position = INT.Pack(numbers, unit, 0, Comm())
    assert position == 12
    position = CHAR.Pack(text, unit, position, Comm())
    assert position == 17
    assert bytes(unit) == numbers.tobytes() + text + b"\xee" * 3

    first, rest, back = np.zeros(1, np.int32), np.zeros(2, np.int32), bytearray(5)
    position = INT.Unpack(unit, 0, first, Comm())
    assert position == 4
    position = INT.Create_contiguous(2).Commit().Unpack(unit, position, rest, Comm())
    position = CHAR.Unpack(unit, position, back, Comm())
    assert (position, first.tolist(), rest.tolist(), bytes(back)) == (17, [1], [2, 3], text)


@pytest.mark.spec("S3.13-3")
def test_example_3_37() -> None:
    """The unit of two packed integers is what a receive of 2 INT expects."""
    i, j, buff = np.array([7], np.int32), np.array([-8], np.int32), bytearray(1000)
    position = INT.Pack(i, buff, 0)
    position = INT.Pack(j, buff, position)
    assert np.frombuffer(buff[:position], np.int32).tolist() == [7, -8]


@pytest.fixture
def addressed() -> Iterator[Callable[[Any], int]]:
    """Get_address of what is forgotten again after the test."""
    taken: list[Any] = []

    def take(location: Any) -> int:
        taken.append(location)
        return Get_address(location)

    yield take
    for location in taken:
        address.Free_address(location)


@pytest.mark.spec("S3.13-10", "S3.13-6", "S3.12.2-2")
def test_example_3_38(addressed: Callable[[Any], int]) -> None:
    """i and a[0] ... a[i-1] are packed at once through absolute addresses, and unpacked in two steps."""
    i, a = np.array([100], np.int32), np.arange(1000, dtype=np.float32)
    newtype = Datatype.Create_struct([1, int(i[0])], [addressed(i), addressed(a)], [INT, FLOAT]).Commit()
    buff = bytearray(1000)
    position = newtype.Pack(BOTTOM, buff, 0)
    assert position == 404

    i2, a2 = np.zeros(1, np.int32), np.zeros(1000, np.float32)
    position = INT.Unpack(buff, 0, [i2, 1])
    position = FLOAT.Unpack(buff, position, [a2, int(i2[0])])
    assert position == 404
    assert a2.tolist() == [*range(100)] + 900 * [0]


@pytest.mark.spec("S3.13-10")
def test_absolute_addresses(addressed: Callable[[Any], int]) -> None:
    x, y = bytearray(8), array.array("d", [0, 0])
    both = Datatype.Create_struct([1, 1], [addressed(x), addressed(y) + 8], [INT, DOUBLE]).Commit()
    message = np.int32(5).tobytes() + np.float64(2.5).tobytes()
    assert both.Unpack(message, 0, [BOTTOM, 1]) == 12
    assert (int(x[0]), y.tolist()) == (5, [0, 2.5])
    unit = bytearray(24)
    assert both.Pack([BOTTOM, 0], unit, 3) == 3
    assert both.Pack(BOTTOM, unit, 0) == 12
    assert unit[:12] == message
    assert both.Pack_external("external32", BOTTOM, unit, 0) == 12
    assert unit[:12] == bytes.fromhex("00000005 4004000000000000")
    assert both.Unpack_external("external32", bytes.fromhex("00000006 3ff0000000000000"), 0, BOTTOM) == 12
    assert (int(x[0]), y.tolist()) == (6, [0, 1.0])

    row = INT.Create_hindexed([1], [addressed(x)]).Create_resized(0, 4).Commit()
    assert row.Pack([BOTTOM, (1, 1)], unit, 0) == 4
    assert unit[:4] == x[4:8]
    with pytest.raises(InvalidBufferError, match="inbuf"):
        row.Pack([BOTTOM, (1, 2)], unit, 0)


@pytest.mark.spec("S3.13-8")
def test_example_3_39() -> None:
    """Every rank packs a count and so many characters; the root cuts the concatenated units apart again."""
    texts = [b"", b"to be", b"or not", b"x" * 100]
    units = []
    for text in texts:
        room = INT.Pack_size(1, Comm()) + CHAR.Pack_size(len(text), Comm())
        lbuf = bytearray(room)
        position = INT.Pack(np.array([len(text)], np.int32), lbuf, 0, Comm())
        position = CHAR.Pack([text, len(text)], lbuf, position, Comm())
        assert position <= room
        units.append(bytes(lbuf[:position]))

    rbuf, cbuf = b"".join(units), bytearray(sum(map(len, texts)))
    start = concat_pos = 0
    for unit in units:
        count = np.zeros(1, np.int32)
        position = INT.Unpack(memoryview(rbuf)[start:], 0, count, Comm())
        CHAR.Unpack(memoryview(rbuf)[start:], position, memoryview(cbuf)[concat_pos : concat_pos + count[0]], Comm())
        concat_pos += int(count[0])
        start += len(unit)
    assert bytes(cbuf) == b"".join(texts)


@pytest.mark.spec("S3.13-4", "S3.13-5", "S3.13-10")
def test_derived_types() -> None:
    matrix = np.arange(12.0).reshape(4, 3)
    unit = bytearray(200)
    assert COLUMN.Pack(matrix.reshape(-1)[1:], unit, 0) == 32
    assert np.frombuffer(unit, "d", 4).tolist() == [1, 4, 7, 10]
    target = np.full((4, 3), -1.0)
    assert RESIZED_COLUMN.Unpack(np.array([*range(8)], "d"), 0, [target, (2, 1)]) == 64
    assert target.tolist() == [[-1, 0, 4], [-1, 1, 5], [-1, 2, 6], [-1, 3, 7]]


@cases(
    ("datatype", "nbytes", "count"),
    [
        (INT, 11, 2), (INT, 12, 3), (INT, 3, 0), (INT, 0, 0),
        (DOUBLE_INT, 47, 2), (DOUBLE_INT, 48, 3),
        (COLUMN, 80, 1), (COLUMN, 79, 0), (COLUMN, 8 * 20, 2),
        (RESIZED_COLUMN, 80, 1), (RESIZED_COLUMN, 96, 3), (RESIZED_COLUMN, 72, 0),
        (INT.Create_contiguous(0).Commit(), 10, 0),
    ],
)  # fmt: skip
@pytest.mark.spec("D4.1.7-3")
def test_without_a_count_all_whole_items_are_meant(datatype: Datatype, nbytes: int, count: int) -> None:
    unit, memory = bytearray(1000), bytearray(nbytes)
    assert datatype.Pack(memory, unit, 0) == count * datatype.size
    assert datatype.Unpack(unit, 0, memory) == count * datatype.size
    external = datatype.Pack_external_size("external32", count)
    assert datatype.Pack_external("external32", memory, unit, 0) == external
    assert datatype.Unpack_external("external32", unit, 0, memory) == external


def test_a_count_does_not_follow_from_extent_0() -> None:
    still = INT.Create_resized(0, 0).Commit()
    with pytest.raises(InvalidCountError, match=r"inbuf.*\[buf, count\]"):
        still.Pack(bytes(8), bytearray(8), 0)
    unit = bytearray(8)
    assert still.Pack([b"abcd", 2], unit, 0) == 8
    assert unit == b"abcdabcd"


def test_counts_and_displacements() -> None:
    numbers, unit = np.arange(6, dtype=np.int16), bytearray(12)
    assert SHORT.Pack([numbers, 2], unit, 0) == 4
    assert SHORT.Pack((numbers, (3, 1)), unit, 4) == 10
    assert np.frombuffer(unit, np.int16).tolist() == [0, 1, 1, 2, 3, 0]
    assert SHORT.Unpack(np.array([7, 8], np.int16), 0, [numbers, (2, np.int64(3))]) == 4
    assert numbers.tolist() == [0, 1, 2, 7, 8, 5]


@cases(
    ("spec", "error"),
    [
        ([bytes(8), -1], InvalidCountError),
        ([bytes(8), 3], InvalidBufferError),
        ([bytes(8), (1, 2)], InvalidBufferError),
        ([bytes(8), (1, -1)], InvalidBufferError),
        ([bytes(8), 1, 2], TypeError),
        ([bytes(8), 1.0], TypeError),
        ([bytes(8), (1, "2")], TypeError),
        ([bytes(8)], TypeError),
        ([], TypeError),
        (5, TypeError),
        (None, TypeError),
        (np.array([None]), InvalidTypeError),
    ],
)
def test_wrong_specifications_are_named(spec: object, error: type[Exception]) -> None:
    unit = bytearray(b"\xee" * 64)
    with pytest.raises(error, match="inbuf"):
        INT.Pack(spec, unit, 0)
    assert unit == b"\xee" * 64
    if isinstance(spec, list) and spec:
        spec[0] = bytearray(8)
    with pytest.raises(error, match="outbuf"):
        INT.Unpack(unit, 0, spec)


@pytest.mark.spec("S3.13-9", "D4.3-3")
@pytest.mark.parametrize("form", ["native", "external32"])
@pytest.mark.parametrize("position", [5, 8, 9, 2**70])
def test_no_room_and_no_input(form: str, position: int) -> None:
    comm, unit, memory = Comm(form), bytearray(b"\xee" * 8), np.array([1], np.int32)
    with pytest.raises(TruncationError, match=f"{position}.*outbuf") as caught:
        INT.Pack(memory, unit, position, comm)
    assert caught.value.error_class == ERR_TRUNCATE
    assert unit == b"\xee" * 8
    with pytest.raises(TruncationError, match=f"{position}.*inbuf"):
        INT.Unpack(unit, position, memory, comm)
    assert memory[0] == 1


def test_wrong_positions() -> None:
    calls: list[Callable[[Any], int]] = [
        lambda position: INT.Pack(bytes(4), bytearray(8), position),
        lambda position: INT.Unpack(bytes(8), position, bytearray(4)),
    ]
    for call in calls:
        with pytest.raises(InvalidArgumentError, match="position is -1") as caught:
            call(-1)
        assert caught.value.error_class == ERR_ARG
        with pytest.raises(TypeError, match="position is 'x'"):
            call("x")
        assert call(np.int64(4)) == 8


@pytest.mark.spec("S3.13-12")
def test_nothing_is_packed_anywhere() -> None:
    assert INT.Pack([b"", 0], bytearray(4), 4) == 4
    assert INT.Unpack(b"", 0, bytearray()) == 0
    with pytest.raises(TruncationError):
        INT.Pack(b"", bytearray(4), 5)


def test_read_only_memory_is_not_written() -> None:
    with pytest.raises(InvalidBufferError, match="outbuf is read-only"):
        INT.Pack(bytes(4), bytes(4), 0)
    for fixed in (bytes(4), np.broadcast_to(np.int32(1), (3, 4))):
        with pytest.raises(InvalidBufferError, match="outbuf is read-only"):
            INT.Unpack(bytes(100), 0, fixed)


@pytest.mark.spec("S3.12.4-1")
def test_types_that_are_not_usable() -> None:
    freed = INT.Create_contiguous(2).Commit()
    freed.Free()
    for datatype in (INT.Create_contiguous(2), freed, DATATYPE_NULL, LB):
        calls: list[Callable[[], int]] = [
            partial(datatype.Pack, bytes(8), bytearray(8), 0),
            partial(datatype.Unpack, bytes(8), 0, bytearray(8)),
            partial(datatype.Pack_external, "external32", bytes(8), bytearray(8), 0),
            partial(datatype.Unpack_external, "external32", bytes(8), 0, bytearray(8)),
        ]
        for call in calls:
            with pytest.raises(InvalidTypeError, match="datatype") as caught:
                call()
            assert caught.value.error_class == ERR_TYPE


@pytest.mark.spec("S3.12.5-4")
def test_what_overlaps_is_packed_but_not_unpacked() -> None:
    twice = INT.Create_indexed([2, 2], [0, 1]).Commit()
    numbers, unit = np.array([1, 2, 3], np.int32), bytearray(16)
    assert twice.Pack(numbers, unit, 0) == 16
    assert np.frombuffer(unit, np.int32).tolist() == [1, 2, 2, 3]
    with pytest.raises(InvalidTypeError, match="overlap"):
        twice.Unpack(unit, 0, numbers)
    assert RESIZED_COLUMN.Pack([np.arange(12.0), 3], bytearray(96), 0) == 96
    close = INT.Create_resized(0, 2).Commit()
    assert close.Unpack(unit, 0, [numbers, 1]) == 4
    with pytest.raises(InvalidTypeError, match="overlap"):
        close.Unpack(unit, 0, [numbers, 2])


@pytest.mark.spec("S3.12.5-7")
def test_unpacking_leaves_gaps_alone() -> None:
    memory = bytearray(b"\xee" * 40)
    assert PADDED.Unpack(bytes(18), 0, [memory, 2]) == 18
    assert memory == bytes(9) + b"\xee" * 7 + bytes(9) + b"\xee" * 15


def test_arrays_that_are_not_contiguous() -> None:
    matrix = np.arange(12, dtype=np.int32).reshape(3, 4)
    unit = bytearray(48)
    assert INT.Pack(matrix[:, 1::2], unit, 0) == 24
    assert np.frombuffer(unit, np.int32, 6).tolist() == [1, 3, 5, 7, 9, 11]
    assert INT.Pack_external("external32", matrix[::-1], unit, 0) == 48
    assert np.frombuffer(unit, ">i4").tolist() == matrix[::-1].reshape(-1).tolist()
    assert INT.Pack(matrix.T, unit, 0) == 48
    assert np.frombuffer(unit, np.int32).tolist() == [*range(12)], "Fortran order is contiguous too"
    assert INT.Unpack(np.arange(100, 104, dtype=np.int32), 0, [matrix[:, ::3], (4, 1)]) == 16
    assert matrix.tolist() == [[0, 1, 2, 100], [101, 5, 6, 102], [103, 9, 10, 11]]
    assert BYTE.Pack(memoryview(b"abcdef")[::2], unit, 0) == 3
    assert unit[:3] == b"ace"
    items = np.zeros((4, 2), np.dtype("f8, S1", align=True))
    assert PADDED.Unpack(np.arange(36, dtype=np.uint8), 0, items[:, 1]) == 36
    assert [bytes(item) for item in items["f1"][:, 1]] == [b"\x08", b"\x11", b"\x1a", b"#"]
    assert items[:, 0].tolist() == 4 * [(0.0, b"")]
    with pytest.raises(InvalidBufferError, match=r"inbuf is not contiguous.*gaps"):
        COLUMN.Pack(np.zeros((8, 6))[:, ::2], unit, 0)
    with pytest.raises(InvalidBufferError, match="outbuf is not contiguous"):
        INT.Pack(matrix, matrix[:, ::2], 0)


def test_units_in_typed_memory() -> None:
    unit = np.zeros(3, np.int32)
    assert BYTE.Pack(b"abcdefgh", unit, 2) == 10
    assert unit.tobytes() == b"\0\0abcdefgh\0\0"
    back = bytearray(4)
    assert PACKED.Unpack(array.array("i", unit.tolist()), 5, back) == 9
    assert back == b"defg"


@pytest.mark.spec("S3.13-8", "D4.2-1", "D4.3-2")
@cases(
    ("datatype", "native", "external"),
    [
        (INT, 4, 4),
        (LONG, 8, 4),
        (PADDED, 9, 9),
        (DOUBLE_INT, 12, 12),
        (COLUMN, 32, 32),
        (INT.Create_vector(3, 1, 2), 12, 12),
    ],
)
def test_sizes(datatype: Datatype, native: int, external: int) -> None:
    for count in (0, 1, 7, 10**12):
        assert datatype.Pack_size(count) == count * native
        assert datatype.Pack_size(count, Comm()) == count * native
        assert datatype.Pack_size(count, Comm("external32")) == count * external
        assert datatype.Pack_external_size("external32", count) == count * external
    with pytest.raises(InvalidCountError, match="count is -1"):
        datatype.Pack_size(-1)
    with pytest.raises(InvalidCountError, match="count is -1"):
        datatype.Pack_external_size("external32", -1)


def test_there_is_no_size_of_nothing() -> None:
    with pytest.raises(InvalidTypeError, match="DATATYPE_NULL"):
        DATATYPE_NULL.Pack_size(1)


@pytest.mark.spec("D4.3-1", "D4.3-3", "D4.3-6", "D4.3-7")
def test_external_units() -> None:
    unit = bytearray(b"\xee" * 20)
    position = LONG.Pack_external("external32", np.array([1, -2]), unit, 1)
    assert position == 9
    position = PADDED.Pack_external(
        "external32", np.array([(1.0, b"A")], np.dtype("f8, S1", align=True)), unit, position
    )
    assert position == 18
    assert unit.hex(" ", 4) == bytes.fromhex("ee 00000001 fffffffe 3ff0000000000000 41 eeee").hex(" ", 4)
    numbers, pair = np.zeros(2, np.int64), np.zeros(1, np.dtype("f8, S1", align=True))
    position = LONG.Unpack_external("external32", unit, 1, numbers)
    assert PADDED.Unpack_external("external32", unit, position, pair) == 18
    assert (numbers.tolist(), pair.tolist()) == ([1, -2], [(1.0, b"A")])


@pytest.mark.spec("D4.3-4")
def test_unknown_data_representations() -> None:
    calls: list[Callable[[], int]] = [
        lambda: INT.Pack_external("native", bytes(4), bytearray(4), 0),
        lambda: INT.Unpack_external("native", bytes(4), 0, bytearray(4)),
        lambda: INT.Pack_external_size("native", 1),
    ]
    for call in calls:
        with pytest.raises(InvalidArgumentError, match="datarep is 'native'"):
            call()


def test_the_communicator_chooses_the_representation() -> None:
    unit, numbers = bytearray(12), np.array([1, -2])
    assert LONG.Pack(numbers, unit, 0, Comm("external32")) == 8
    assert unit[:8] == bytes.fromhex("00000001 fffffffe")
    back = np.zeros(2, np.int64)
    assert LONG.Unpack(unit, 0, back, Comm("external32")) == 8
    assert back.tolist() == [1, -2]
    assert pack.representation_of(None) is pack.representation_of(Comm()) is pack.NATIVE
    assert pack.representation_of(Comm("external32")) is pack.EXTERNAL32


@pytest.mark.parametrize("comm", [0, "MPI_COMM_WORLD", INT])
def test_what_is_not_a_communicator(comm: object) -> None:
    calls: list[Callable[[], int]] = [
        lambda: INT.Pack(bytes(4), bytearray(4), 0, comm),
        lambda: INT.Unpack(bytes(4), 0, bytearray(4), comm),
        lambda: INT.Pack_size(1, comm),
    ]
    for call in calls:
        with pytest.raises(InvalidCommError, match="comm is"):
            call()


@given(data=st.data())
@pytest.mark.spec("S3.13-6", "S3.13-1", "D4.3-6")
def test_units_in_other_groupings(data: st.DataObject) -> None:
    """However the elements are grouped for packing and for unpacking, they come out in order."""
    form = data.draw(st.sampled_from(["native", "external32"]))
    comm, n = Comm(form), data.draw(st.integers(0, 20))
    values = np.arange(n) * 7 - 50

    def grouping() -> Iterator[tuple[int, int]]:
        start = 0
        while start < n:
            stop = data.draw(st.integers(start + 1, n))
            yield start, stop
            start = stop

    unit, position = bytearray(LONG.Pack_size(n, comm)), 0
    for start, stop in grouping():
        position = LONG.Create_contiguous(stop - start).Commit().Pack(values[start:stop], unit, position, comm)
    assert position == len(unit)
    back, position = np.zeros_like(values), 0
    for start, stop in grouping():
        position = LONG.Unpack(unit, position, [back, (stop - start, start)], comm)
    assert position == len(unit)
    assert back.tolist() == values.tolist()
