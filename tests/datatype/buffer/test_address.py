"""Addresses, and what BOTTOM finds at them."""

from __future__ import annotations

import array
import copy
import ctypes
import gc
import mmap
import pickle
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiompi.datatype.buffer import address
from aiompi.datatype.buffer.address import BOTTOM, Aint_add, Aint_diff, Get_address, Registry
from aiompi.datatype.layout import move
from aiompi.datatype.layout.layout import Layout
from aiompi.errors import ERR_BUFFER, InvalidBufferError, InvalidTypeError


@pytest.fixture
def registry() -> Registry:
    return Registry()


@pytest.fixture(autouse=True)
def nothing_stays() -> Iterator[None]:
    """Tests of the registry of the process leave it as they found it."""
    before = len(address.registry)
    yield
    gc.collect()
    assert len(address.registry) == before


def struct(*runs: tuple[int, int]) -> Layout:
    """Layout of runs (address, nbytes), in this order in the message."""
    return Layout.concat([Layout.run(nbytes).shift(start) for start, nbytes in runs])


def read(registry: Registry, layout: Layout) -> bytes:
    message = bytearray(layout.size)
    for piece in registry.resolve(layout, False, "buf"):
        move.pack(piece.layout, piece.memory, piece.base, memoryview(message))
    return bytes(message)


def write(registry: Registry, layout: Layout, message: bytes) -> None:
    for piece in registry.resolve(layout, True, "buf"):
        move.unpack(piece.layout, memoryview(message), piece.memory, piece.base)


@pytest.mark.spec("S3.12.2-1", "D4.1.5-1")
def test_example_3_25() -> None:
    """REAL A(100,100); MPI_ADDRESS(A(1,1), I1); MPI_ADDRESS(A(10,10), I2); DIFF = I2 - I1"""
    a = np.zeros((100, 100), np.float32, order="F")
    i1, i2 = Get_address(a[0:, 0:]), Get_address(a[9:, 9:])
    assert Aint_diff(i2, i1) == 909 * 4
    assert Aint_diff(i1, i2) == -909 * 4


@pytest.mark.spec("D4.1.5-1")
@given(base=st.integers(-(2**62), 2**62), other=st.integers(-(2**62), 2**62))
def test_arithmetic(base: int, other: int) -> None:
    assert Aint_add(base, Aint_diff(other, base)) == other
    assert Aint_diff(Aint_add(base, 5), base) == 5


def test_arithmetic_takes_integers_only() -> None:
    assert Aint_add(np.int64(3), np.int32(4)) == 7
    with pytest.raises(TypeError):
        Aint_add(3, 4.0)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        Aint_diff("3", 4)  # type: ignore[arg-type]


def test_bottom_is_the_integer_0() -> None:
    assert BOTTOM == 0
    assert int(BOTTOM) == 0
    assert Aint_add(BOTTOM, 8) == 8
    assert repr(BOTTOM) == "BOTTOM"
    assert copy.deepcopy(BOTTOM) is BOTTOM
    assert pickle.loads(pickle.dumps(BOTTOM)) is BOTTOM


class Pair(ctypes.Structure):
    _fields_ = [("first", ctypes.c_int), ("second", ctypes.c_double)]


OWNERS: dict[str, Any] = {
    "numpy": lambda: np.arange(32, dtype=np.uint8),
    "numpy, Fortran order": lambda: np.arange(16, dtype=np.int16).reshape(2, 8, order="F"),
    "array": lambda: array.array("i", range(8)),
    "bytearray": lambda: bytearray(range(32)),
    "ctypes array": lambda: (ctypes.c_int * 8)(*range(8)),
    "ctypes structure": lambda: Pair(1, 2.0),
    "mmap": lambda: mmap.mmap(-1, 32),
}


@pytest.mark.parametrize("make", OWNERS.values(), ids=OWNERS)
@pytest.mark.spec("S3.12.2-2")
def test_memory_of_every_kind(registry: Registry, make: Any) -> None:
    owner = make()
    content = owner.tobytes("A") if isinstance(owner, np.ndarray) else bytes(memoryview(owner))
    start = registry.add(owner)
    layout = struct((start + 8, 4), (start, 4))
    assert read(registry, layout) == content[8:12] + content[:4]
    write(registry, layout, b"eighzero")
    after = np.frombuffer(owner.T.copy() if isinstance(owner, np.ndarray) else owner, np.uint8).tobytes()
    assert after == b"zero" + content[4:8] + b"eigh" + content[12:]


VIEWS: dict[str, tuple[Any, Any, int]] = {
    "slice": (lambda: np.zeros(10, np.int32), lambda it: it[3:], 12),
    "slice of a slice": (lambda: np.zeros((4, 4)), lambda it: it[1:][:, 2], 48),
    "reversed": (lambda: np.zeros(10, np.int32), lambda it: it[::-1], 36),
    "transposed": (lambda: np.zeros((3, 5), np.int16), lambda it: it.T[2:], 4),
    "other type": (lambda: np.zeros(4), lambda it: it.view(np.uint8)[5:], 5),
    "read-only": (lambda: np.zeros(4), lambda it: np.broadcast_to(it[1:], (2, 3)), 8),
    "strided trick": (lambda: np.zeros(9), lambda it: np.lib.stride_tricks.sliding_window_view(it, 3)[2:], 16),
    "memoryview": (lambda: bytearray(8), lambda it: memoryview(it)[3:], 3),
    "strided memoryview": (lambda: bytearray(8), lambda it: memoryview(it)[6::-2], 6),
    "numpy over array": (lambda: array.array("d", [0] * 4), lambda it: np.frombuffer(it)[2:], 16),
    "memoryview of numpy": (lambda: np.zeros(4), lambda it: memoryview(it)[1:], 8),
    "ctypes over bytearray": (lambda: bytearray(8), lambda it: (ctypes.c_int * 1).from_buffer(it, 4), 4),
    "element of ctypes": (Pair * 3, lambda it: it[2], 32),
}


@pytest.mark.parametrize(("make", "view", "offset"), VIEWS.values(), ids=VIEWS)
@pytest.mark.spec("D4.1.12-1")
def test_views_have_the_addresses_of_their_storage(registry: Registry, make: Any, view: Any, offset: int) -> None:
    owner = make()
    start = registry.add(view(owner))
    assert registry.add(owner) == start - offset
    assert len(registry) == 1
    nbytes = memoryview(owner).nbytes
    assert read(registry, struct((start - offset, nbytes))) == bytes(nbytes)


def test_what_has_no_memory(registry: Registry) -> None:
    with pytest.raises(TypeError, match="int, which has no buffer protocol"):
        registry.add(7)
    with pytest.raises(InvalidTypeError, match="references to Python objects"):
        registry.add(np.array([None]))
    released = memoryview(b"")
    released.release()
    with pytest.raises(ValueError, match="released"):
        registry.add(released)


def test_empty_memory_has_an_address_only(registry: Registry) -> None:
    empty = np.empty(0)
    assert isinstance(registry.add(empty), int)
    assert isinstance(registry.add(bytearray()), int)
    assert len(registry) == 0


def test_datetimes_and_structs_of_numpy(registry: Registry) -> None:
    times = np.array(["2020-01-01", "2021-01-01"], "M8[s]")
    records = np.zeros(3, [("a", "i4"), ("b", "f8")])
    layout = struct((registry.add(times[1:]), 8), (registry.add(records["b"][2:]), 8))
    write(registry, layout, times[:1].tobytes() + np.float64(1.5).tobytes())
    assert times[1] == times[0]
    assert records["b"].tolist() == [0, 0, 1.5]


@pytest.mark.spec("S3.12.6-1", "S3.12.2-2")
def test_separately_allocated_variables(registry: Registry) -> None:
    n, values, name = np.array([3], np.int32), array.array("d", [1.5, 2.5]), bytearray(b"abcdefgh")
    layout = struct((registry.add(values), 16), (registry.add(n), 4), (registry.add(memoryview(name)[2:]), 3))
    assert read(registry, layout) == values.tobytes() + n.tobytes() + b"cde"
    write(registry, layout, np.array([8.0, 9.0]).tobytes() + np.int32(7).tobytes() + b"XYZ")
    assert (n[0], values.tolist(), bytes(name)) == (7, [8.0, 9.0], b"abXYZfgh")


def test_a_message_may_end_early(registry: Registry) -> None:
    first, second = bytearray(4), bytearray(4)
    layout = struct((registry.add(first), 4), (registry.add(second), 4))
    write(registry, layout, b"abcdef")
    assert bytes(first + second) == b"abcdef\0\0"


def test_variables_at_regular_distances(registry: Registry) -> None:
    """The displacements of two variables are always regular; the layout still falls apart by storage."""
    both = mmap.mmap(-1, 64)
    halves = [np.ndarray(16, np.uint8, both, offset) for offset in (0, 40)]
    start = registry.add(both)
    del both
    layout = Layout.run(4).repeat(2, 40).shift(start)
    assert len(registry.resolve(layout, True, "buf")) == 1
    write(registry, layout, b"abcdefgh")
    assert [half[:4].tobytes() for half in halves] == [b"abcd", b"efgh"]

    apart = [np.zeros(8, np.uint8), np.zeros(8, np.uint8)]
    a, b = (registry.add(it) for it in apart)
    layout = Layout.run(2).repeat(3, 3).repeat(2, b - a).shift(a)
    assert len(registry.resolve(layout, True, "buf")) == 2
    write(registry, layout, b"abcdefABCDEF")
    assert [it.tobytes() for it in apart] == [b"ab\0cd\0ef", b"AB\0CD\0EF"]


def test_many_displacements_in_many_storages(registry: Registry) -> None:
    rng = np.random.default_rng(1)
    storages = [np.arange(1000, dtype=np.int32) + 1000 * i for i in range(20)]
    starts = np.array([registry.add(it) for it in storages])
    which, where = rng.integers(20, size=100_000), rng.integers(1000, size=100_000)
    layout = Layout.run(4).place(starts[which] + 4 * where, 1, 4)
    assert np.array_equal(np.frombuffer(read(registry, layout), np.int32), which * 1000 + where)


@pytest.mark.parametrize(("offset", "nbytes"), [(-1, 4), (6, 4), (8, 1), (-100, 200)])
def test_beyond_the_storage(registry: Registry, offset: int, nbytes: int) -> None:
    memory = bytearray(8)
    layout = struct((registry.add(memory), 4), (registry.add(memory) + offset, nbytes))
    with pytest.raises(InvalidBufferError, match=r"sendbuf.*Get_address") as caught:
        registry.resolve(layout, False, "sendbuf")
    assert caught.value.error_class == ERR_BUFFER


def test_variables_that_are_neighbours_by_chance(registry: Registry) -> None:
    """Their runs become one in the layout, which no storage contains."""
    whole = (ctypes.c_ubyte * 32)(*range(32))
    start = ctypes.addressof(whole)
    variables = [(ctypes.c_ubyte * 8).from_address(start + at) for at in (0, 8, 16)]
    assert [registry.add(it) for it in variables] == [start, start + 8, start + 16]
    layout = struct((start + 4, 4), (start + 8, 8), (start + 16, 2), (start, 2))
    assert len(registry.resolve(layout, False, "buf")) == 3
    assert read(registry, layout) == bytes([*range(4, 18), 0, 1])
    write(registry, layout, bytes(range(100, 116)))
    assert bytes(whole)[:18] == bytes([114, 115, 2, 3, *range(100, 114)])
    for beyond in (struct((start + 4, 21)), struct((start - 1, 9))):
        with pytest.raises(InvalidBufferError, match="buf"):
            registry.resolve(beyond, False, "buf")


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
def test_overlapping_storages(registry: Registry, order: tuple[int, ...]) -> None:
    """Of several owners of one memory each is enough, also when the others are gone."""
    whole = (ctypes.c_ubyte * 16)(*range(16))
    start = ctypes.addressof(whole)
    windows = [(0, 10), (5, 11), (2, 6)]
    owners: list[Any] = [(ctypes.c_ubyte * n).from_address(start + at) for at, n in windows]
    for i in order:
        registry.add(owners[i])
    assert len(registry) == 3
    for at, n in [*windows, (6, 4), (9, 5), (3, 2)]:
        assert read(registry, struct((start + at, n))) == bytes(range(at, at + n))
    owners[0] = None
    assert read(registry, struct((start + 3, 4))) == bytes(range(3, 7))
    with pytest.raises(InvalidBufferError):
        registry.resolve(struct((start, 4)), False, "buf")


@pytest.mark.parametrize("make", [make for name, make in OWNERS.items() if name != "bytearray"])
def test_freed_memory(registry: Registry, make: Any) -> None:
    owner = make()
    layout = struct((registry.add(owner), 4))
    registry.resolve(layout, False, "buf")
    del owner
    gc.collect()
    assert len(registry) == 0
    with pytest.raises(InvalidBufferError, match=r"buf.*address 0x"):
        registry.resolve(layout, False, "buf")


def test_pieces_keep_the_memory(registry: Registry) -> None:
    owner = np.arange(4, dtype=np.uint8)
    pieces = registry.resolve(struct((registry.add(owner), 4)), False, "buf")
    del owner
    gc.collect()
    assert bytes(pieces[0].memory) == bytes(range(4))


def test_memory_that_moved(registry: Registry) -> None:
    owner = array.array("b", bytes(16))
    layout = struct((registry.add(owner), 4))
    pieces = registry.resolve(layout, True, "buf")
    with pytest.raises(BufferError):
        owner.extend(bytes(100_000))
    del pieces
    owner.extend(bytes(10_000_000))
    with pytest.raises(InvalidBufferError):
        registry.resolve(layout, True, "buf")
    layout = struct((registry.add(owner), 4))
    write(registry, layout, b"abcd")
    assert owner[:4].tobytes() == b"abcd"


def test_what_moved_does_not_hide_what_is_there(registry: Registry) -> None:
    """The record of memory that was since given back covers that of its new owner."""
    region = mmap.mmap(-1, 4096)
    start = registry.add(region)
    view = (ctypes.c_ubyte * 8).from_address(start + 8)
    registry.add(view)
    region.close()
    pieces = registry.resolve(struct((start + 8, 8)), False, "buf")
    assert [(piece.base, len(piece.memory)) for piece in pieces] == [(-start - 8, 8)]
    assert len(registry) == 1


def test_what_cannot_be_weakly_referenced_is_kept(registry: Registry) -> None:
    memory = bytearray(b"abcdefgh")
    layout = struct((registry.add(memory), 4))
    with pytest.raises(BufferError):
        memory.extend(b"more")
    registry.release(memoryview(memory)[2:])
    memory.extend(b"more")
    with pytest.raises(InvalidBufferError):
        registry.resolve(layout, False, "buf")
    registry.release(memory)

    del memory
    layout = struct((registry.add(b"constant" * 100), 8))
    gc.collect()
    assert read(registry, layout) == b"constant"


def test_read_only_memory_is_not_written(registry: Registry) -> None:
    fixed = np.arange(4, dtype=np.uint8)
    fixed.flags.writeable = False
    for memory in (bytes(8), fixed):
        layout = struct((registry.add(memory), 4))
        assert read(registry, layout) == bytes(memory)[:4]
        with pytest.raises(InvalidBufferError, match=r"recvbuf.*read-only"):
            registry.resolve(layout, True, "recvbuf")


def test_nothing_needs_no_memory(registry: Registry) -> None:
    assert read(registry, Layout.run(8).repeat(0, 8)) == b""
    with pytest.raises(InvalidBufferError, match="not within memory"):
        registry.resolve(Layout.run(8), False, "buf")


def test_registering_again_changes_nothing(registry: Registry) -> None:
    memory = np.zeros(8)
    addresses = {registry.add(memory) for _ in range(3)}
    assert addresses == {memory.ctypes.data}
    assert len(registry) == 1


def test_layouts_that_are_used_again(registry: Registry) -> None:
    memories = [np.full(100, i, np.uint8) for i in range(3)]
    a, b, c = (registry.add(it) for it in memories)
    layouts = [struct((a + i, 1), (c + i, 1), (b, i + 1)) for i in range(40)]
    for _ in range(2):
        for i, layout in enumerate(layouts):
            assert read(registry, layout) == bytes([0, 2, *(i + 1) * [1]])
    memories[1][0] = 7
    assert read(registry, layouts[0]) == bytes([0, 2, 7])
    registry.release(memories[2])
    with pytest.raises(InvalidBufferError):
        registry.resolve(layouts[0], False, "buf")


def test_the_registry_of_the_process() -> None:
    memory = bytearray(8)
    start = Get_address(memory)
    (piece,) = address.registry.resolve(struct((start, 8)), True, "buf")
    assert (piece.base, len(piece.memory)) == (-start, 8)
    del piece
    address.Free_address(memory)
    with pytest.raises(InvalidBufferError):
        address.registry.resolve(struct((start, 8)), True, "buf")
