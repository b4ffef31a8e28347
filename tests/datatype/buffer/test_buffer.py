"""Buffers of derived types, of numpy's structured types, and at absolute addresses."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from aiompi.datatype.buffer.address import BOTTOM, Free_address, Get_address
from aiompi.datatype.buffer.buffer import Buffer, blocks
from aiompi.datatype.buffer.bufspec import memory_to_receive, memory_to_send, resolve_recv, resolve_send
from aiompi.datatype.buffer.disjoint import shares_memory
from aiompi.datatype.datatype import Datatype
from aiompi.datatype.predefined import BYTE, DOUBLE, DOUBLE_INT, INT, LONG
from aiompi.errors import ERR_TYPE, InvalidBufferError, InvalidCountError, InvalidTypeError
from support.cases import cases

FIVE = np.arange(5.0)
COLUMN = DOUBLE.Create_vector(3, 1, 4).Commit()
NEGATIVE = DOUBLE.Create_vector(2, 1, -2).Commit()  # items 0 and -2


@pytest.mark.spec("S3.12.5-1")
def test_items_of_a_derived_type_are_an_extent_apart() -> None:
    table = np.arange(12.0).reshape(3, 4)
    column = COLUMN.Create_resized(0, 8).Commit()
    buffer = resolve_send([table, 2, column])
    assert (buffer.count, buffer.nbytes, buffer.contiguous) == (2, 48, False)
    assert np.frombuffer(buffer.packed()).tolist() == [0, 4, 8, 1, 5, 9]
    resolve_recv([table, (2, 2), column]).unpack(buffer.packed())
    assert table.tolist() == [[0, 1, 0, 1], [4, 5, 4, 5], [8, 9, 8, 9]]


def test_the_count_of_a_derived_type_is_inferred_from_its_extent() -> None:
    pairs = DOUBLE.Create_resized(0, 16).Commit()
    assert resolve_send([np.arange(6.0), pairs]).count == 3
    with pytest.raises(InvalidCountError, match=r"sendbuf is 40 bytes.*not a whole number of .* of 16 bytes"):
        resolve_send([FIVE, pairs])
    for extent in (0, -8):
        odd = DOUBLE.Create_resized(0, extent).Commit()
        with pytest.raises(InvalidCountError, match=f"sendbuf: the number of items of .* their extent is {extent}"):
            resolve_send([FIVE, odd])
        assert resolve_send([None, odd]).count == 0


def test_a_derived_type_without_gaps_is_the_memory_itself() -> None:
    row = DOUBLE.Create_contiguous(2).Commit()
    buffer = resolve_recv([FIVE, (1, 1), row])
    assert buffer.contiguous
    assert buffer.view == FIVE[2:4].tobytes()
    assert np.shares_memory(buffer.view, FIVE)
    later = DOUBLE.Create_indexed([2], [3]).Commit()
    assert memory_to_send([FIVE, 1, later]) == FIVE[3:].tobytes()


@pytest.mark.spec("S3.12.5-7", "S3.12.5-3")
@cases("nbytes", [0, 8, 12, 48])
def test_gaps_keep_their_bytes(nbytes: int) -> None:
    memory = bytearray(b"\xff" * 96)
    target = memory_to_receive([memory, 2, COLUMN.Create_resized(0, 8).Commit()])
    assert isinstance(target, Buffer)
    target.unpack(memoryview(bytes(nbytes)))
    offsets = [8 * item + 32 * row + byte for item in (0, 1) for row in range(3) for byte in range(8)]
    assert {i for i, byte in enumerate(memory) if byte != 0xFF} == set(offsets[:nbytes])


@pytest.mark.parametrize(
    ("rest", "says"),
    [
        ([1, NEGATIVE], r"buf holds 40 bytes, but 1 items of .*, after 0 skipped, reach from byte -16 to byte 8"),
        ([2, COLUMN], r"buf holds 40 bytes, but 2 items of .* reach from byte 0 to byte 144"),
        ([(1, 1), COLUMN], r"reach from byte 72 to byte 144"),
        ([1, DOUBLE.Create_hindexed([1], [36]).Commit()], r"reach from byte 36 to byte 44"),
    ],
)
@pytest.mark.parametrize("resolve", [resolve_send, resolve_recv])
def test_every_byte_must_be_in_the_memory(resolve: Any, rest: list[Any], says: str) -> None:
    with pytest.raises(InvalidBufferError, match=says):
        resolve([FIVE, *rest], "buf")


def test_bounds_are_those_of_the_data() -> None:
    nine = np.arange(9.0)
    assert resolve_send([nine, 1, COLUMN]).packed() == nine[::4].tobytes()
    lower = NEGATIVE.Create_resized(0, 8).Commit()
    assert np.frombuffer(resolve_send([nine, (2, 2), lower]).packed()).tolist() == [2, 0, 3, 1]
    shorter = DOUBLE_INT.Create_contiguous(2).Commit()
    assert resolve_send([bytes(28), 1, shorter]).nbytes == 24


@pytest.mark.spec("S3.12.4-1")
def test_a_type_must_be_committed_and_not_freed() -> None:
    type_ = INT.Create_vector(2, 1, 2)
    for resolve in resolve_send, resolve_recv:
        with pytest.raises(InvalidTypeError, match=r"type in buf.* is not committed; call its Commit\(\)") as caught:
            resolve([bytearray(12), 1, type_], "buf")
        assert caught.value.error_class == ERR_TYPE
    type_.Commit()
    buffer = resolve_recv([bytearray(12), 1, type_])
    type_.Free()
    with pytest.raises(InvalidTypeError, match="type in buf is MPI_DATATYPE_NULL, or was freed"):
        resolve_send([bytearray(12), 1, type_], "buf")
    buffer.unpack(memoryview(b"abcdefgh"))
    assert bytes(buffer.packed()) == b"abcdefgh"


@pytest.mark.spec("S3.2.2-2")
def test_negative_count_of_a_derived_type() -> None:
    with pytest.raises(InvalidCountError, match="count in sendbuf is -2"):
        resolve_send([FIVE, -2, COLUMN])


@pytest.mark.spec("D4.1.11-3")
def test_types_of_no_size() -> None:
    nothing = DOUBLE.Create_contiguous(0).Create_resized(-8, 24).Commit()
    for resolve in resolve_send, resolve_recv:
        buffer = resolve([FIVE, 100, nothing])
        assert (buffer.count, buffer.nbytes, bytes(buffer.packed())) == (100, 0, b"")
    assert bytes(resolve_send([FIVE, 0, COLUMN]).packed()) == b""


@pytest.mark.spec("S3.12.4-3")
def test_one_type_serves_many_buffers() -> None:
    for start in range(3):
        table = np.arange(start, start + 12.0)
        assert np.frombuffer(resolve_send([table, 1, COLUMN]).packed()).tolist() == [start, start + 4, start + 8]


# Structured types of numpy.


def test_records_travel_without_their_padding() -> None:
    dtype = np.dtype([("a", "i1"), ("b", "f8", 2), ("c", "S3")], align=True)
    source = np.zeros(2, dtype)
    source["a"], source["b"], source["c"] = [1, 2], [[3, 4], [5, 6]], [b"xyz", b"uvw"]
    buffer = resolve_send(source)
    assert (buffer.count, buffer.nbytes) == (2, 2 * 20)
    assert buffer.packed() == b"".join(row["a"].tobytes() + row["b"].tobytes() + bytes(row["c"]) for row in source)
    target = np.full(2, b"\xff" * dtype.itemsize, f"V{dtype.itemsize}").view(dtype)
    resolve_recv(target).unpack(buffer.packed())
    assert all((target[field] == source[field]).all() for field in "abc")
    assert target.view("u1").reshape(2, -1)[:, 1:8].tolist() == [[255] * 7] * 2


def test_packed_records_are_sent_from_their_memory() -> None:
    source = np.zeros(3, [("a", "i1"), ("b", "f8"), ("c", [("d", "i2"), ("e", "c8")])])
    assert np.shares_memory(resolve_send(source).view, source)
    assert np.shares_memory(memory_to_send(source), source)


def test_structures_of_ctypes() -> None:
    class Point(ctypes.Structure):
        _fields_ = [("kind", ctypes.c_char), ("x", ctypes.c_double)]

    points = (Point * 2)(Point(b"a", 1.5), Point(b"b", 2.5))
    buffer = resolve_recv(points)
    assert (buffer.count, buffer.datatype.extent, buffer.nbytes) == (2, 16, 18)
    assert buffer.packed() == b"a" + np.float64(1.5).tobytes() + b"b" + np.float64(2.5).tobytes()


# Absolute addresses.


@pytest.fixture
def scattered() -> Iterator[tuple[np.ndarray[Any, Any], bytearray, Datatype]]:
    """Two variables, and the type of both: three doubles, and one byte of four."""
    doubles, letters = np.arange(3.0), bytearray(b"abcd")
    places = [Get_address(doubles), Get_address(letters) + 2]
    type_ = Datatype.Create_struct([3, 1], places, [DOUBLE, BYTE]).Commit()
    yield doubles, letters, type_
    Free_address(doubles)
    Free_address(letters)


@pytest.mark.spec("S3.12.2-2", "S3.12.6-1")
def test_bottom(scattered: Any) -> None:
    doubles, letters, type_ = scattered
    buffer = resolve_send([BOTTOM, 1, type_])
    assert (buffer.count, buffer.nbytes, buffer.contiguous) == (1, 25, False)
    assert memory_to_send([BOTTOM, 1, type_]) == np.arange(3.0).tobytes() + b"c"
    target = memory_to_receive([BOTTOM, 1, type_])
    assert isinstance(target, Buffer)
    for received in (25, 24, 12, 0):
        doubles[:], letters[:] = -1, b"abcd"
        target.unpack(memoryview(bytes(25))[:received])
        assert doubles.tobytes() == bytes(24)[:received] + np.full(3, -1.0).tobytes()[received:]
        assert letters == (b"ab\0d" if received == 25 else b"abcd")


def test_bottom_with_one_variable_is_its_memory() -> None:
    doubles = np.arange(3.0)
    type_ = DOUBLE.Create_hindexed([2], [Get_address(doubles[1:])]).Commit()
    buffer = resolve_recv([BOTTOM, 1, type_])
    assert buffer.contiguous
    assert np.shares_memory(buffer.view, doubles[1:])
    assert shares_memory(buffer, resolve_send(doubles[2:]))
    assert not shares_memory(buffer, resolve_send(doubles[:1]))
    Free_address(doubles)


def test_items_at_absolute_addresses_are_an_extent_apart() -> None:
    doubles = np.arange(6.0)
    type_ = DOUBLE.Create_hindexed([1], [Get_address(doubles)]).Create_resized(0, 16).Commit()
    buffer = resolve_send([BOTTOM, (2, 1), type_])
    assert np.frombuffer(buffer.packed()).tolist() == [2, 4]
    assert [np.frombuffer(block.packed()).tolist() for block in blocks(buffer, 2)] == [[2], [4]]
    Free_address(doubles)


@pytest.mark.parametrize(
    ("spec", "error", "says"),
    [
        (BOTTOM, InvalidTypeError, r"buf is BOTTOM without a datatype; pass it, as in \[BOTTOM, 1, type\]"),
        ([BOTTOM, 1], InvalidTypeError, "buf is BOTTOM without a datatype"),
        ([BOTTOM, 1, DOUBLE], InvalidBufferError, "buf"),
    ],
)
def test_bottom_needs_count_type_and_known_addresses(spec: Any, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        resolve_send(spec, "buf")


# External32, in which user data goes to other implementations.

PADDED = Datatype.Create_struct([1, 1], [0, 8], [INT.Create_contiguous(1), DOUBLE]).Create_resized(0, 16).Commit()


@pytest.mark.spec("I1.2.2-1", "I1.2.2-2")
def test_a_message_in_external32() -> None:
    """Elements in the order of the type map, big-endian, without gaps; an INT and a DOUBLE are 12 bytes."""
    memory = np.zeros(3, "i4, i4, f8")
    memory["f0"], memory["f1"], memory["f2"] = [1, 2, 3], -7, [1.0, 0.5, -2.0]
    buffer = resolve_send([memory, (2, 1), PADDED])
    message = bytes.fromhex("00000002 3fe0000000000000 00000003 c000000000000000")
    assert (bytes(buffer.to_external32()), buffer.external_nbytes) == (message, 24)
    place = np.full(3, -7, "i4, i4, f8")
    resolve_recv([place, (2, 1), PADDED]).from_external32(memoryview(message))
    assert place.tolist() == [(-7, -7, -7.0), (2, -7, 0.5), (3, -7, -2.0)]


def test_what_lies_as_it_travels() -> None:
    """Bytes do; not with gaps, nor what has another form in external32."""
    memory = np.zeros(24, "u1")
    assert resolve_recv(memory).lies_external
    assert not resolve_recv(memory[::2]).lies_external
    assert not resolve_recv(memory.view("i4")).lies_external
    assert not resolve_recv([memory, 1, PADDED]).lies_external


def test_a_shorter_message_in_external32_leaves_the_rest_alone() -> None:
    place = np.full(2, 9, "i")
    resolve_recv(place).from_external32(memoryview(bytes.fromhex("00000001 0000")))
    assert place.tolist() == [1, 9]


@pytest.mark.spec("I1.2.2-1")
def test_a_long_is_shorter_in_external32() -> None:
    longs = np.array([1, -2], "l")
    buffer = resolve_send([longs, LONG])
    assert (bytes(buffer.to_external32()), buffer.external_nbytes) == (bytes.fromhex("00000001 fffffffe"), 8)
    place = np.zeros(2, "l")
    resolve_recv([place, LONG]).from_external32(buffer.to_external32())
    assert place.tolist() == [1, -2]


@pytest.mark.spec("I1.2.2-5")
def test_bytes_are_not_copied_for_external32() -> None:
    memory = bytearray(b"abc")
    message = resolve_send([memory, BYTE]).to_external32()
    memory[0] = ord("x")
    assert bytes(message) == b"xbc"


def test_items_at_absolute_addresses_in_external32() -> None:
    one, two = np.array([1], "i"), np.array([2.0])
    place, other = np.zeros(1, "i"), np.zeros(1)

    def spec(*arrays: Any) -> Any:
        where = [Get_address(array) for array in arrays]
        return [BOTTOM, 1, Datatype.Create_struct([1, 1], where, [INT, DOUBLE]).Commit()]

    message = resolve_send(spec(one, two)).to_external32()
    assert bytes(message) == bytes.fromhex("00000001 4000000000000000")
    resolve_recv(spec(place, other)).from_external32(message)
    assert (place.tolist(), other.tolist()) == ([1], [2.0])
