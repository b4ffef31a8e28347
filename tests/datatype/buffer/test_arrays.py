"""Arrays that are not contiguous are sent and received as they lie."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.lib.stride_tricks import as_strided

from aiompi.datatype.buffer.arrays import Cells, bytes_of
from aiompi.datatype.buffer.buffer import Buffer, blocks
from aiompi.datatype.buffer.bufspec import memory_to_receive, memory_to_send, resolve_recv, resolve_send
from aiompi.datatype.codes import from_dtype
from aiompi.datatype.datatype import Datatype
from aiompi.datatype.layout.layout import Layout
from aiompi.datatype.predefined import BYTE, DOUBLE, DOUBLE_INT, FLOAT, INT, INT64_T, LONG, SHORT, UINT8_T
from aiompi.errors import InvalidBufferError, InvalidCountError, InvalidTypeError
from support.cases import cases

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]

RECORD = np.dtype({"names": ["a", "b"], "formats": ["i2", "f8"], "offsets": [1, 16], "itemsize": 27})
TYPES = [np.dtype(code) for code in ("u1", "i4", "f8", "c16", "M8[s]")] + [RECORD, DOUBLE_INT.dtype]


def packed_type(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The elements of a numpy type without gaps."""
    return np.dtype([(name, dtype[name]) for name in dtype.names]) if dtype.names else dtype


def assign(target: Array, message: bytes) -> None:
    """Let numpy put a message into an array, element by element in C order."""
    source = np.frombuffer(message, packed_type(target.dtype)).reshape(target.shape)
    for field in target.dtype.names or (...,):
        target[field] = source[field]


def message_of(array: Array) -> bytes:
    """What numpy says is in an array, in C order."""
    message = np.empty(array.shape, packed_type(array.dtype))
    for field in array.dtype.names or (...,):
        message[field] = array[field]
    return message.tobytes()


def scrambled(shape: tuple[int, ...], dtype: np.dtype[Any], seed: int) -> Array:
    nbytes = int(np.prod(shape)) * dtype.itemsize
    return np.frombuffer(bytearray(np.random.default_rng(seed).bytes(nbytes)), dtype).reshape(shape)


@st.composite
def views(draw: st.DrawFn) -> tuple[Array, Callable[[Array], Array]]:
    """An array, and a slice of it that is not contiguous, with any steps, directions and order of the axes."""
    shape = draw(st.lists(st.integers(1, 5), min_size=1, max_size=4))
    steps = tuple(
        slice(draw(st.integers(0, n - 1)), None, draw(st.integers(1, 3)))
        if draw(st.booleans())
        else slice(draw(st.integers(0, n - 1)), None, -1)
        for n in shape
    )
    axes = draw(st.permutations(range(len(shape))))
    array = scrambled(tuple(shape), draw(st.sampled_from(TYPES)), 0)
    return array, lambda whole: whole[steps].transpose(axes)


@pytest.mark.spec("S3.12-2", "S3.12.5-1")
@given(case=views())
def test_elements_are_sent_in_c_order_of_the_indices(case: tuple[Array, Callable[[Array], Array]]) -> None:
    whole, take = case
    view = take(whole)
    buffer = resolve_send(view)
    assert (buffer.count, buffer.datatype) == (view.size, from_dtype(view.dtype))
    expected = message_of(view.T if view.flags.f_contiguous else view)
    assert buffer.packed() == memory_to_send(view) == expected
    assert buffer.nbytes == len(expected)


@pytest.mark.spec("S3.12.5-3", "S3.12.5-7")
@given(case=views(), cut=st.floats(0, 1))
def test_a_message_of_any_length_changes_its_elements_and_nothing_else(
    case: tuple[Array, Callable[[Array], Array]], cut: float
) -> None:
    whole, take = case
    view, expected = take(whole), scrambled(whole.shape, whole.dtype, 0)  # copy() would lose what is in gaps

    def ordered(array: Array) -> Array:
        return array.T if view.flags.f_contiguous else array

    message = message_of(scrambled(view.shape, view.dtype, 1))
    received = message[: round(cut * len(message))]
    assign(ordered(take(expected)), received + message_of(ordered(view))[len(received) :])
    resolve_recv(view).unpack(memoryview(received))
    assert bytes_of(whole) == bytes_of(expected)


def test_contiguous_arrays_are_taken_in_the_order_of_memory() -> None:
    source = np.asfortranarray(np.arange(6, dtype="i").reshape(2, 3))
    assert resolve_send(source).array().tolist() == [0, 3, 1, 4, 2, 5]
    assert resolve_send(source.data).array().tolist() == [0, 3, 1, 4, 2, 5]
    target = np.zeros((2, 3), "i", order="F")
    resolve_recv(target).view[:] = resolve_send(source).view
    assert target.tolist() == source.tolist()
    turned = np.arange(24).reshape(2, 3, 4).transpose(1, 0, 2)  # without gaps, but in neither order
    assert resolve_send(turned).packed() == turned.tobytes()


def test_broadcast_arrays_can_be_sent_only() -> None:
    row = np.broadcast_to(np.arange(3.0), (2, 3))
    assert resolve_send(row).packed() == row.tobytes()
    with pytest.raises(InvalidBufferError, match="halo is read-only"):
        resolve_recv(row, "halo")
    for shape, strides in [((2, 3), (0, 8)), ((2, 3), (8, 8)), ((5,), (4,))]:
        array = as_strided(np.zeros(6), shape, strides)
        assert resolve_send(array).packed() == array.tobytes()
        with pytest.raises(InvalidBufferError, match="halo cannot receive: elements of the array share memory"):
            resolve_recv(array, "halo")


def test_memory_of_other_objects_may_be_strided_too() -> None:
    memory = bytearray(b"abcdef")
    assert bytes(memory_to_send(memoryview(memory)[::-2])) == b"fdb"
    assert resolve_send(memoryview(memory)[::2]).datatype is UINT8_T
    target = memory_to_receive(memoryview(memory)[::2])
    assert isinstance(target, Buffer)
    target.unpack(memoryview(b"xyz"))
    assert memory == b"xbydzf"
    with pytest.raises(InvalidBufferError, match="recvbuf is read-only"):
        resolve_recv(memoryview(b"abcd")[::2])


def test_subclasses_are_taken_as_the_array_they_hold() -> None:
    masked = np.ma.masked_array(np.arange(6.0), mask=[True, False] * 3)
    assert memory_to_send(masked[::2]) == np.array([0.0, 2, 4]).tobytes()


@pytest.mark.parametrize(
    ("rest", "count", "values"),
    [
        ([INT], 6, [0, 2, 4, 6, 8, 10]),
        ([4], 4, [0, 2, 4, 6]),
        ([(2, 3)], 2, [6, 8]),
        ([(None, 4)], 2, [8, 10]),
        ([(0, 6), "i"], 0, []),
        ([2, FLOAT], 2, [0, 2]),
        ([BYTE], 24, [0, 2, 4, 6, 8, 10]),
        ([(8, 4), BYTE], 8, [2, 4]),
        ([SHORT], 12, [0, 2, 4, 6, 8, 10]),
        ([(2, 1), INT64_T], 2, [4, 6, 8, 10]),
    ],
)
@pytest.mark.parametrize("resolve", [resolve_send, resolve_recv])
def test_specifications_of_part_of_an_array(resolve: Any, rest: list[Any], count: int, values: list[int]) -> None:
    source = np.arange(12, dtype="i")[::2].reshape(2, 3)
    buffer = resolve([source, *rest])
    assert buffer.count == count
    assert np.frombuffer(buffer.packed(), "i").tolist() == values
    assert buffer.nbytes == 4 * len(values)


def test_bytes_within_elements() -> None:
    source = np.array([0x0201, 0, 0x0403, 0, 0x0605], "<u2")[::2]
    assert resolve_send([source, (3, 1), BYTE]).packed() == bytes([2, 3, 4])


def test_a_derived_type_without_gaps_is_cut_out_of_the_elements() -> None:
    three = DOUBLE.Create_contiguous(3).Commit()
    source = np.arange(24.0).reshape(12, 2)[:, 1]
    assert resolve_send([source, three]).count == 4
    assert np.frombuffer(resolve_send([source, (2, 1), three]).packed()).tolist() == [7, 9, 11, 13, 15, 17]


def test_types_that_make_no_sense_in_the_elements_are_refused() -> None:
    source = np.arange(12.0)[::2]
    for type_ in (
        DOUBLE.Create_vector(2, 1, 2),
        DOUBLE_INT.Dup(),
        DOUBLE.Create_hindexed([1], [4]).Create_resized(0, 8),
    ):
        type_.Commit()
        with pytest.raises(
            InvalidBufferError, match=r"halo .*not contiguous, of shape \(6,\).* does not fit its elements of 8"
        ):
            resolve_send([source, 1, type_], "halo")


def test_too_small_arrays_and_parts_of_items() -> None:
    source = np.arange(12.0)[::2]
    with pytest.raises(InvalidBufferError, match="halo holds 48 bytes, but 7 items of MPI_DOUBLE take 56"):
        resolve_send([source, 7], "halo")
    with pytest.raises(InvalidBufferError, match="holds 48 bytes, but 8 items of MPI_DOUBLE in 4 blocks take 64"):
        resolve_send([source, 2], nblocks=4)
    with pytest.raises(InvalidBufferError, match="holds 48 bytes, but 7 items"):
        resolve_send([source, (None, 7), DOUBLE])
    with pytest.raises(InvalidCountError, match="40 bytes, which is not a whole number of MPI_LONG_DOUBLE of 16"):
        resolve_send([source[:5], "g"])


def test_items_without_data() -> None:
    nothing = INT.Create_contiguous(0).Commit()
    source = np.arange(12.0)[::2]
    assert resolve_send([source, 3, nothing]).nbytes == 0
    assert resolve_recv([source, nothing]).count == 0


@cases("n", [1, 2, 3, 4, 6, 12])
def test_blocks_need_not_be_rows(n: int) -> None:
    source = np.arange(48).reshape(4, 3, 4)[::2, :, ::-2]
    cut = blocks(resolve_recv(source), n)
    assert [np.frombuffer(block.packed(), int).tolist() for block in cut] == source.reshape(n, -1).tolist()
    cut[-1].unpack(memoryview(np.full(12 // n, -1).tobytes()))
    assert (source.reshape(n, -1)[-1] == -1).all()
    assert source.reshape(n, -1)[:-1].min(initial=0) == 0


def test_rows_of_a_part_of_a_table_are_contiguous() -> None:
    table = np.arange(12.0).reshape(3, 4)
    whole = resolve_recv(table[:, :2])
    assert not whole.contiguous
    rows = blocks(whole, 3)
    assert all(row.contiguous and np.shares_memory(row.view, table[i]) for i, row in enumerate(rows))
    with pytest.raises(InvalidBufferError, match="not contiguous; use packed"):
        _ = whole.view
    with pytest.raises(InvalidBufferError, match="not contiguous; use packed"):
        whole.array()


@given(
    shape=st.lists(st.integers(1, 4), min_size=0, max_size=4),
    ends=st.tuples(st.floats(0, 1), st.floats(0, 1)),
    turned=st.booleans(),
)
def test_cells_give_any_range_of_them(shape: list[int], ends: tuple[float, float], turned: bool) -> None:
    cells = np.arange(int(np.prod(shape)), dtype="u1").reshape(shape)
    cells = cells.T if turned else cells
    start, stop = sorted(round(end * cells.size) for end in ends)
    layout = Cells(Layout.run(1), cells.shape, cells.strides).layout(start, stop)
    offsets, packed, lengths = layout.runs()
    found = [offset + i for offset, length in zip(offsets, lengths, strict=True) for i in range(length)]
    assert found == cells.ravel()[start:stop].tolist()
    assert layout.size == stop - start
    assert packed.tolist() == np.cumsum([0, *lengths])[:-1].tolist()


@pytest.mark.parametrize(
    "array",
    [np.arange(6)[::2], np.arange(6)[::-1], np.zeros((3, 3))[:, 1], np.zeros((4, 4))[:2, :2]],
    ids=["step", "reversed", "column", "corner"],
)
def test_bytes_of_an_array_are_those_of_contiguous_ones(array: Array) -> None:
    with pytest.raises(InvalidBufferError, match=r"halo is not contiguous: its shape is .*ascontiguousarray"):
        bytes_of(array, "halo")
    assert bytes_of(np.ascontiguousarray(array)) == array.tobytes()


def test_references_to_objects_are_refused() -> None:
    for spec in (np.array([None] * 4)[::2], [np.zeros(4, [("a", "i8"), ("b", "O")])[::2], BYTE]):
        with pytest.raises(InvalidTypeError, match="halo holds references to Python objects"):
            resolve_send(spec, "halo")


@pytest.mark.spec("I1.2.2-1")
@pytest.mark.parametrize(
    ("whole", "cut", "datatype"),
    [
        (np.arange(12, dtype="i4").reshape(4, 3), np.s_[:, 1], INT),
        (np.arange(24, dtype="i2").reshape(2, 3, 4), np.s_[::-1, :, ::2], SHORT),
        (np.arange(6, dtype="i8"), np.s_[::2], INT),  # two items in each element
        (np.arange(16, dtype="i4").reshape(2, 2, 4), np.s_[:, 0, ::2], INT.Create_contiguous(2).Commit()),
        (np.arange(9, dtype="i4"), np.s_[::3], BYTE),
        (np.arange(8, dtype="l"), np.s_[::-2], LONG),
    ],
)
@pytest.mark.parametrize("missing", [0, 1, 4, 5])
def test_elements_in_external32(whole: Array, cut: Any, datatype: Datatype, missing: int) -> None:
    """The same message as of the elements one after the other; also one that ends too early."""
    dense = np.ascontiguousarray(whole[cut])
    buffer = resolve_send([whole[cut], datatype])
    message = buffer.to_external32()
    assert bytes(message) == bytes(resolve_send([dense, datatype]).to_external32())
    assert len(message) == buffer.external_nbytes
    place, plain = np.full_like(whole, 77), np.full_like(dense, 77)
    for array in (place[cut], plain):
        resolve_recv([array, datatype]).from_external32(message[: len(message) - missing])
    assert (place[cut] == plain).all()
    place[cut] = 77
    assert (place == 77).all()
