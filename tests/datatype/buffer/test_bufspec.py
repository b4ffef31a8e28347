"""Buffer specifications: what is accepted, what memory results, and what each refusal says."""

import array
import ctypes
import gc
import mmap
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiompi import datatype
from aiompi.datatype import (
    BYTE,
    DATATYPE_NULL,
    DOUBLE,
    DOUBLE_INT,
    IN_PLACE,
    INT,
    INT64_T,
    LB,
    SHORT,
    Buffer,
    Datatype,
    InPlace,
    blocks,
    bytes_of,
    resolve_recv,
    resolve_send,
)
from aiompi.datatype.handle import PREDEFINED
from aiompi.errors import ERR_COUNT, InvalidBufferError, InvalidCountError, InvalidTypeError
from support.cases import cases

NUMPY_TYPES = [
    "?", "i1", "u1", "h", "H", "i", "I", "l", "L", "q", "Q", "e", "f", "d", "g", "F", "D", "G", "S1", "U1",
    "M8[s]", "m8[ms]",
]  # fmt: skip


def described(buffer: Buffer) -> tuple[int, Datatype, int]:
    assert buffer.nbytes == buffer.count * buffer.datatype.size == buffer.packed().nbytes
    if buffer.contiguous:
        assert buffer.view.format == "B"
        assert buffer.view.ndim == 1
        assert buffer.nbytes == buffer.view.nbytes
    return buffer.count, buffer.datatype, buffer.nbytes


@pytest.mark.parametrize("resolve", [resolve_send, resolve_recv])
@cases("code", NUMPY_TYPES)
@cases("shape", [(), (1,), (6,), (2, 3), (0,), (3, 0)])
def test_numpy_array_aliases_its_memory(resolve: Any, code: str, shape: tuple[int, ...]) -> None:
    source = np.zeros(shape, code)
    buffer = resolve(source)
    assert described(buffer) == (source.size, datatype.from_dtype(code), source.nbytes)
    assert buffer.array().shape == (source.size,)
    if source.size:
        assert np.shares_memory(buffer.array(), source)
        assert not buffer.view.readonly


@pytest.mark.spec("S4.9.3-5")
@cases("pair", ["FLOAT_INT", "DOUBLE_INT", "SHORT_INT", "TWOREAL"])
def test_pairs_travel_without_their_padding(pair: str) -> None:
    type_ = getattr(datatype, pair)
    source = np.zeros(3, type_.dtype)
    source["value"], source["index"] = [1, 2, 3], [7, 8, 9]
    buffer = resolve_recv(source)
    assert described(buffer) == (3, type_, 3 * type_.size)
    assert np.shares_memory(buffer.array(), source)
    assert buffer.array()["value"].tolist() == [1, 2, 3]
    packed = np.dtype([(name, source.dtype[name]) for name in ("value", "index")])
    assert buffer.packed() == source.astype(packed).tobytes()


@cases(
    ("memory", "count", "type_"),
    [
        (b"abc", 3, "UINT8_T"),
        (bytearray(5), 5, "UINT8_T"),
        (b"", 0, "UINT8_T"),
        (memoryview(b"abcdefgh").cast("i"), 2, "INT"),
        (memoryview(bytes(12)).cast("B", (3, 4)), 12, "UINT8_T"),
        (array.array("d", [1, 2]), 2, "DOUBLE"),
        (array.array("h"), 0, "SHORT"),
        ((ctypes.c_int * 4)(), 4, "INT"),
        (ctypes.c_double(1), 1, "DOUBLE"),
        (np.float64(1), 1, "DOUBLE"),
        (np.ma.masked_array([1.0, 2.0]), 2, "DOUBLE"),
        (np.zeros(2).view(np.recarray), 2, "DOUBLE"),
        (None, 0, "BYTE"),
    ],
)
def test_any_object_with_the_buffer_protocol(memory: Any, count: int, type_: str) -> None:
    wanted = getattr(datatype, type_)
    assert described(resolve_send(memory)) == (count, wanted, count * wanted.size)


def test_mmap() -> None:
    with mmap.mmap(-1, 16) as memory:
        buffer = resolve_recv([memory, "d"])
        buffer.array()[:] = [1.5, 2.5]
        assert memory[:] == np.array([1.5, 2.5]).tobytes()
        buffer.view.release()


FIVE = np.arange(5.0)


@pytest.mark.parametrize("kind", [list, tuple])
@pytest.mark.parametrize(
    ("rest", "values", "type_"),
    [
        (["d"], [0, 1, 2, 3, 4], DOUBLE),
        ([DOUBLE], [0, 1, 2, 3, 4], DOUBLE),
        ([None], [0, 1, 2, 3, 4], DOUBLE),
        ([3], [0, 1, 2], DOUBLE),
        ([0], [], DOUBLE),
        ([np.int64(2)], [0, 1], DOUBLE),
        ([(2, 1)], [1, 2], DOUBLE),
        ([(None, 1)], [1, 2, 3, 4], DOUBLE),
        ([(2, None)], [0, 1], DOUBLE),
        ([2, "f8"], [0, 1], DOUBLE),
        ([None, DOUBLE], [0, 1, 2, 3, 4], DOUBLE),
        ([2, None], [0, 1], DOUBLE),
        ([(2, 3), "d"], [3, 4], DOUBLE),
        ([(0, 5), "d"], [], DOUBLE),
        ([2, 3, DOUBLE], [3, 4], DOUBLE),
        ([None, 4, DOUBLE], [4], DOUBLE),
        ([2, 1, "u8"], [0x3FF0000000000000, 0x4000000000000000], datatype.UINT64_T),
    ],
)
def test_specification(kind: Any, rest: list[Any], values: list[Any], type_: Datatype) -> None:
    for resolve in resolve_send, resolve_recv:
        buffer = resolve(kind([FIVE, *rest]))
        assert described(buffer) == (len(values), type_, len(values) * type_.size)
        assert buffer.array().tolist() == values
        assert not values or np.shares_memory(buffer.array(), FIVE)


@cases("type_", [type_ for type_ in PREDEFINED.values() if type_.is_committed])
def test_every_type_can_be_named(type_: Datatype) -> None:
    memory = bytearray(3 * type_.extent)
    buffer = resolve_recv([memory, 2, type_])
    assert described(buffer) == (2, type_, 2 * type_.size)
    assert buffer.array().dtype == type_.dtype
    assert described(resolve_recv([memory, type_])) == (3, type_, 3 * type_.size)


def test_none_with_a_type_is_empty_memory_of_that_type() -> None:
    assert described(resolve_send([None, INT])) == (0, INT, 0)
    assert described(resolve_recv([None, 0, INT])) == (0, INT, 0)
    with pytest.raises(InvalidBufferError, match="holds 0 bytes, but 3 items of MPI_INT take 12"):
        resolve_send([None, 3, INT])


def test_writes_reach_the_object() -> None:
    memory = bytearray(12)
    resolve_recv([memory, (1, 1), INT]).array()[:] = -1
    assert memory == bytes(4) + b"\xff" * 4 + bytes(4)


def test_memory_stays_exported_while_the_buffer_lives() -> None:
    memory = bytearray(8)
    buffer = resolve_recv(memory)
    with pytest.raises(BufferError):
        memory.append(1)
    del buffer
    gc.collect()
    memory.append(1)


def test_unaligned_memory() -> None:
    memory = bytearray(9)
    buffer = resolve_recv([memoryview(memory)[1:], DOUBLE])
    buffer.array()[0] = 1.5
    assert memory[1:] == np.float64(1.5).tobytes()


def read_only_array(shape: int) -> np.ndarray[Any, np.dtype[np.float64]]:
    memory = np.zeros(shape)
    memory.flags.writeable = False
    return memory


@pytest.mark.parametrize(
    "memory",
    [b"abc", b"", memoryview(b"abc"), memoryview(b""), read_only_array(2), read_only_array(0), np.float64(1)],
    ids=["bytes", "empty bytes", "view", "empty view", "array", "empty array", "scalar"],
)
def test_read_only_memory_cannot_receive(memory: Any) -> None:
    resolve_send(memory)
    for spec in memory, [memory, 0], [memory, BYTE]:
        with pytest.raises(InvalidBufferError, match="answer is read-only"):
            resolve_recv(spec, "answer")


def test_too_small_gives_both_figures() -> None:
    with pytest.raises(InvalidBufferError, match="sendbuf holds 40 bytes, but 6 items of MPI_DOUBLE take 48"):
        resolve_send([FIVE, 6])
    with pytest.raises(InvalidBufferError, match="holds 40 bytes, but 6 items of MPI_DOUBLE take 48"):
        resolve_send([FIVE, (2, 4)])
    with pytest.raises(InvalidBufferError, match="holds 40 bytes, but 6 items of MPI_DOUBLE take 48"):
        resolve_send([FIVE, (None, 6)])
    with pytest.raises(InvalidBufferError, match="holds 40 bytes, but 9 items of MPI_DOUBLE in 3 blocks take 72"):
        resolve_recv([FIVE, 3, DOUBLE], nblocks=3)


@pytest.mark.spec("S3.2.2-2")
def test_negative_count() -> None:
    for resolve in resolve_send, resolve_recv:
        with pytest.raises(InvalidCountError, match=r"count in .*buf is -1: expected 0 or more") as caught:
            resolve([FIVE, -1, DOUBLE])
        assert caught.value.error_class == ERR_COUNT
    with pytest.raises(InvalidCountError, match="displ in sendbuf is -2"):
        resolve_send([FIVE, (1, -2)])


def test_inferred_count_must_be_whole() -> None:
    with pytest.raises(InvalidCountError, match="sendbuf is 10 bytes, which is not a whole number of MPI_INT"):
        resolve_send([bytes(10), INT])
    with pytest.raises(InvalidCountError, match="not a whole number of MPI_DOUBLE_INT of 16 bytes"):
        resolve_send([bytes(40), DOUBLE_INT])
    assert resolve_send([bytes(10), 2, INT]).count == 2


@cases(
    ("spec", "says"),
    [
        (3, r"sendbuf is of type int, which has no buffer protocol.*lower-case"),
        ("text", "sendbuf is of type str"),
        ({}, "sendbuf is of type dict"),
        (IN_PLACE, "sendbuf is of type InPlace"),
        ([1.0, 2.0], "memory in sendbuf is 1.0: expected bytes.*the calls in lower case"),
        ([b"", 2.0], "count in sendbuf is 2.0"),
        ([[1, 2], 2], "sendbuf is of type list"),
        ([b""], "list of 1 items, not a buffer specification"),
        ([], "list of 0 items, not a buffer specification"),
        ((b"", 0, 0, BYTE, 0), "tuple of 5 items, not a buffer specification"),
        ([b"", 0, 0], "type in sendbuf is 0: expected a Datatype"),
        ([1, 2, 3], "the calls in lower case send it as an object"),
        ([b"", 0, int], "type in sendbuf is <class 'int'>: expected a Datatype"),
        ([b"", "d", 1], "count in sendbuf is 'd'"),
        ([b"", (0, 0, 0), BYTE], r"count in sendbuf is \(0, 0, 0\)"),
        ([b"", (0, 0), 0, BYTE], r"count in sendbuf is \(0, 0\)"),
        ([b"", (0, "1")], "displ in sendbuf is '1'"),
    ],
)
def test_not_a_specification(spec: Any, says: str) -> None:
    with pytest.raises(TypeError, match=says):
        resolve_send(spec)


@pytest.mark.parametrize("resolve", [resolve_send, resolve_recv])
@pytest.mark.parametrize("memory", [None, np.zeros(0), bytearray(8), np.zeros((4, 4))[:, 1]])
@pytest.mark.parametrize("rest", [(0,), (0, 0), ((0, 0),), ()])
def test_the_type_of_no_items_may_be_null(resolve: Any, memory: Any, rest: tuple[Any, ...]) -> None:
    freed = DOUBLE.Dup()
    freed.Free()
    if not rest and memory is not None and len(memory):
        return
    for null in (DATATYPE_NULL, freed):
        assert described(resolve([memory, *rest, null])) == (0, BYTE, 0)


@cases(
    ("spec", "says"),
    [
        ([b"", "?!"], "unknown type code"),
        ([b"", DATATYPE_NULL], "type in sendbuf is MPI_DATATYPE_NULL"),
        ([b"a", 1, DATATYPE_NULL], "type in sendbuf is MPI_DATATYPE_NULL"),
        ([b"a", 0, 1, DATATYPE_NULL], "type in sendbuf is MPI_DATATYPE_NULL"),
        ([None, 1, DATATYPE_NULL], "type in sendbuf is MPI_DATATYPE_NULL"),
        ([b"", 0, LB], "type in sendbuf is the marker MPI_LB"),
        (np.zeros(2, np.dtype("d").newbyteorder("S")), "native byte order"),
        ((ctypes.POINTER(ctypes.c_int) * 2)(), r"as in \[buffer, BYTE\]"),
        (np.array([None]), "references to Python objects.*lower-case"),
        ([np.array([None]), BYTE], "references to Python objects"),
        ([np.array([None]).data, BYTE], "references to Python objects"),
        ([np.zeros(1, [("a", "i8"), ("b", "O")]).data, BYTE], "references to Python objects"),
    ],
)
def test_wrong_type(spec: Any, says: str) -> None:
    with pytest.raises(InvalidTypeError, match=says):
        resolve_send(spec)


def test_raw_bytes_of_arrays_without_an_mpi_type() -> None:
    source = np.array([b"abc", b"de"])
    assert bytes(resolve_send([source, BYTE]).view) == b"abcde\0"
    stamps = np.array(["1970-01-01T00:00:07"], "M8[s]")
    assert resolve_send([stamps, INT64_T]).array().tolist() == [7]
    assert bytes(bytes_of(np.zeros(2, [("a", "i1"), ("b", "i2")]))) == bytes(6)


def test_blocks_share_the_memory_in_order() -> None:
    source = np.arange(6, dtype="h")
    cut = blocks(resolve_recv(source), 3)
    assert [block.array().tolist() for block in cut] == [[0, 1], [2, 3], [4, 5]]
    assert [described(block) for block in cut] == [(2, SHORT, 4)] * 3
    cut[1].array()[:] = 9
    assert source.tolist() == [0, 1, 9, 9, 4, 5]


def test_blocks_of_nothing() -> None:
    assert [described(block) for block in blocks(resolve_send([None, INT]), 4)] == [(0, INT, 0)] * 4


def test_blocks_must_be_equal() -> None:
    with pytest.raises(InvalidCountError, match=r"recvbuf holds 5 items of MPI_DOUBLE, .* into 2 equal blocks"):
        blocks(resolve_recv(FIVE), 2, "recvbuf")


def test_explicit_count_is_that_of_one_block() -> None:
    source = np.arange(7)
    buffer = resolve_recv([source, 2, "l"], nblocks=3)
    assert buffer.count == 6
    assert [block.array().tolist() for block in blocks(buffer, 3)] == [[0, 1], [2, 3], [4, 5]]
    assert resolve_recv(source[:6], nblocks=3).count == 6


def test_part() -> None:
    buffer = resolve_recv(np.arange(5.0))
    assert buffer.part(1, 3).array().tolist() == [1, 2, 3]
    assert described(buffer.part(5, 0)) == (0, DOUBLE, 0)


def test_array_of_read_only_memory_is_read_only() -> None:
    assert not resolve_send([b"abcd", INT]).array().flags.writeable


def test_array_needs_a_numpy_type() -> None:
    with pytest.raises(InvalidTypeError, match="MPI_DATATYPE_NULL has no numpy type"):
        Buffer(memoryview(b""), 0, DATATYPE_NULL).array()


def test_in_place_is_one_object() -> None:
    assert repr(IN_PLACE) == "IN_PLACE"
    assert isinstance(IN_PLACE, InPlace)
    assert pickle.loads(pickle.dumps(IN_PLACE)) is IN_PLACE


def test_repr_of_a_buffer() -> None:
    assert repr(resolve_send(FIVE)) == "Buffer(5 x MPI_DOUBLE, 40 bytes)"


@given(
    nbytes=st.integers(0, 64),
    count=st.none() | st.integers(-2, 10),
    displ=st.integers(-1, 10),
    type_=st.sampled_from([BYTE, SHORT, INT, DOUBLE, DOUBLE_INT]),
    nblocks=st.integers(1, 4),
)
def test_memory_is_exactly_the_items_asked_for(
    nbytes: int, count: int | None, displ: int, type_: Datatype, nblocks: int
) -> None:
    memory = bytes(range(nbytes))
    extent, padding = type_.extent, type_.extent - type_.true_extent
    start = displ * extent
    items = (nbytes - start) // extent if count is None else count * nblocks
    stop = start + items * extent - (padding if items else 0)
    whole = count is not None or (start <= nbytes and (nbytes - start) % extent == 0)
    legal = displ >= 0 and items >= 0 and whole and (stop if items else start) <= nbytes
    try:
        buffer = resolve_send([memory, (count, displ), type_], nblocks=nblocks)
    except (InvalidBufferError, InvalidCountError):
        assert not legal
    else:
        assert legal
        elements = [memory[start + i * extent :][: type_.size] for i in range(items)]
        assert buffer.packed() == b"".join(elements)
        assert buffer.count == items


@pytest.mark.parametrize("memory", [datatype.memory_to_send, datatype.memory_to_receive])
def test_memory_is_that_of_the_buffer(memory: Callable[[object], memoryview | Buffer]) -> None:
    fortran = np.arange(6000.0).reshape((2000, 3), order="F")
    for spec in (np.arange(3.0), fortran, fortran[:2].copy("F"), np.zeros(0), np.zeros(2, "M8[s]"), bytearray(3)):
        view = memory(spec)
        assert not isinstance(view, Buffer)
        assert bytes(view) == bytes(resolve_send(spec).view)
        assert memoryview(view).format == "B"


@pytest.mark.parametrize("memory", [datatype.memory_to_send, datatype.memory_to_receive])
def test_memory_with_references_is_refused(memory: Callable[[object], memoryview | Buffer]) -> None:
    with pytest.raises(InvalidTypeError, match="object"):
        memory(np.array([None, "x"], dtype=object))
    with pytest.raises(InvalidTypeError):
        memory(np.zeros(2, [("a", object), ("b", int)]))


@pytest.mark.parametrize("memory", [datatype.memory_to_send, datatype.memory_to_receive])
def test_the_short_way_takes_no_memory_that_is_not_the_message(memory: Callable[[object], memoryview | Buffer]) -> None:
    with pytest.raises(InvalidTypeError, match=r"native byte order; convert with array\.astype"):
        memory(np.zeros(2, np.dtype("d").newbyteorder("S")))
    pairs = np.zeros(2, DOUBLE_INT.dtype)
    assert len(datatype.memory_to_send(pairs)) == 24
    assert memory(pairs).nbytes == 24


def test_memory_to_receive_is_writable() -> None:
    array = np.zeros(3)
    array.flags.writeable = False
    for spec in (array, b"abc"):
        with pytest.raises(InvalidBufferError, match="read-only"):
            datatype.memory_to_receive(spec)
