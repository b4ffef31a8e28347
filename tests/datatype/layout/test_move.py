"""Packing and unpacking of layouts of any nesting, byte by byte."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiompi.datatype.layout import move
from aiompi.datatype.layout.layout import EMPTY, Layout
from aiompi.datatype.layout.move import pack, unpack
from aiompi.errors import InvalidBufferError
from support.cases import cases
from support.typemaps import LAYOUTS, Modelled, of_elements

Integers = np.ndarray[Any, np.dtype[np.int64]]

MARGIN: Final = 3
KIND: Final = object()
NATIVE: Final = np.dtype("<u4")
HALF: Final = np.dtype(">u2")


def random_bytes(count: int) -> bytearray:
    return bytearray(np.random.default_rng(count).integers(0, 256, count, np.uint8))


def memory_of(layout: Layout) -> tuple[bytearray, int]:
    """Memory in which a layout lies, all bytes random, and the position of address 0 in it."""
    return random_bytes(layout.ub - layout.lb + 2 * MARGIN), MARGIN - layout.lb


def packed(layout: Layout, memory: bytearray, base: int) -> bytearray:
    out = bytearray(layout.size)
    pack(layout, memoryview(memory), base, memoryview(out))
    return out


@given(LAYOUTS)
def test_pack(modelled: Modelled) -> None:
    layout, addresses = modelled
    memory, base = memory_of(layout)
    out = bytearray(layout.size + 1)
    pack(layout, memoryview(memory), base, memoryview(out))
    assert out == bytes(memory[base + address] for address in addresses) + b"\0"


@given(LAYOUTS, st.floats(0, 1))
def test_unpack_any_first_part_and_touch_nothing_else(modelled: Modelled, share: float) -> None:
    layout, addresses = modelled
    memory, base = memory_of(layout)
    payload = random_bytes(int(share * layout.size))
    # Where bytes of a layout overlap, any of them may win.
    allowed = [{byte} for byte in memory]
    written: set[int] = set()
    for address, byte in zip(addresses, payload, strict=False):
        place = base + address
        allowed[place] = (allowed[place] if place in written else set()) | {byte}
        written.add(place)
    unpack(layout, memoryview(payload), memoryview(memory), base)
    assert all(byte in bytes_ for byte, bytes_ in zip(memory, allowed, strict=True))


@given(LAYOUTS)
def test_pieces_of_a_message(modelled: Modelled) -> None:
    """A layout that is a part of a packed stream reads and writes that part only."""
    layout, addresses = modelled
    memory, base = memory_of(layout)
    part = Layout.of(layout.size, layout.blocks[::2])
    out = bytearray(layout.size)
    pack(part, memoryview(memory), base, memoryview(out))
    mine = [False] * layout.size
    for _, start, length in zip(*(column.tolist() for column in part.runs()), strict=True):
        mine[start : start + length] = [True] * length
    assert out == bytes(memory[base + at] if own else 0 for at, own in zip(addresses, mine, strict=True))


def spread(count: int, step: int) -> Integers:
    """Displacements of which no two neighbours have the same distance, in no order, multiples of `step`."""
    rng = np.random.default_rng(count)
    return rng.permutation(np.flatnonzero(rng.random(3 * count) < 0.5)[:count]) * step


def any_of(numbers: Sequence[int], count: int) -> Integers:
    """Some of the numbers, in no order."""
    return np.random.default_rng(count).choice(np.array(numbers), count)


MANY: Final = 150_000
DOUBLE: Final = Layout.run(8)
IRREGULAR: Final[dict[str, Callable[[], Layout]]] = {
    "doubles": lambda: DOUBLE.place(spread(MANY, 8), 1, 8),
    "doubles in order": lambda: DOUBLE.place(np.sort(spread(MANY, 24)), 1, 8),
    "unaligned": lambda: DOUBLE.place(spread(MANY, 9), 1, 8),
    "5 bytes": lambda: Layout.run(5).place(spread(MANY, 6), 1, 5),
    "different lengths": lambda: DOUBLE.place(spread(MANY, 32), any_of(range(4), MANY), 8),
    "different bytes": lambda: Layout.run(1).place(spread(MANY, 7), any_of(range(1, 7), MANY), 1),
    "few lengths, longer": lambda: DOUBLE.place(spread(20_000, 400), any_of([20, 30, 47], 20_000), 8),
    "many lengths, longer": lambda: DOUBLE.place(spread(2000, 400), any_of(range(1, 50), 2000), 8),
    "long": lambda: DOUBLE.place(spread(100, 9000), any_of(range(100, 1000), 100), 8),
    "long and short": lambda: DOUBLE.place(spread(1000, 1600), any_of([1, 2, 200], 1000), 8),
    "two sizes": lambda: Layout.concat([DOUBLE, Layout.run(4).shift(12)]).place(spread(MANY, 16), 1, 16),
    "repeated": lambda: DOUBLE.place(spread(1000, 8), 1, 8).repeat(30, 40_000),
    "repeated, different lengths": lambda: DOUBLE.place(spread(1000, 24), any_of(range(1, 4), 1000), 8).repeat(
        30, 100_000
    ),
    "repeated often": lambda: DOUBLE.place(spread(10, 8), 1, 8).repeat(1000, 300),
    "repeated often, different lengths": lambda: DOUBLE.place(spread(10, 24), any_of(range(1, 4), 10), 8).repeat(
        1000, 900
    ),
    "repeated in no order": lambda: DOUBLE.place(spread(100, 8), 1, 8).place(spread(100, 3000), 1, 8),
    "strided": lambda: DOUBLE.repeat(3, 16).place(spread(10_000, 48), 1, 48),
    "strided, different numbers": lambda: DOUBLE.repeat(2, 16).place(spread(1000, 1000), any_of(range(31), 1000), 32),
    "backwards": lambda: DOUBLE.repeat(3, -16).place(spread(10_000, 48), 1, 48),
}


@pytest.mark.parametrize("name", IRREGULAR)
@pytest.mark.parametrize("share", [1, 0.37], ids=["whole", "prefix"])
def test_many_irregular_blocks(name: str, share: float) -> None:
    layout = IRREGULAR[name]()
    assert not layout.overlapping()
    memory, base = memory_of(layout)
    starts, _, lengths = layout.runs()
    addresses = np.repeat(starts + lengths - np.cumsum(lengths), lengths) + np.arange(layout.size) + base
    assert packed(layout, memory, base) == np.frombuffer(memory, np.uint8)[addresses].tobytes()

    nbytes = int(share * layout.size)
    payload = random_bytes(nbytes)
    expected = np.frombuffer(memory, np.uint8).copy()
    expected[addresses[:nbytes]] = np.frombuffer(payload, np.uint8)
    unpack(layout, memoryview(payload), memoryview(memory), base)
    assert memory == expected.tobytes()


def test_arrays_are_memory_too() -> None:
    column = DOUBLE.repeat(3, 16)
    values = np.arange(6.0)
    out = np.zeros(24, np.uint8)
    pack(column, values.view(np.uint8), 8, out)
    assert out.view(float).tolist() == [1, 3, 5]
    unpack(column, out, values.view(np.uint8), 0)
    assert values.tolist() == [1, 1, 3, 3, 5, 5]


def test_working_memory_is_bounded() -> None:
    """Also where a prefix ends inside of every dimension."""
    layout = DOUBLE.repeat(100, 16).repeat(100, 3200).repeat(20, 640_000)
    memory, payload = bytearray(layout.ub), bytearray(layout.size)
    for nbytes in (layout.size, layout.size * 5 // 7):
        tracemalloc.start()
        unpack(layout, memoryview(payload)[:nbytes], memoryview(memory), 0)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 50_000


OUTSIDE: Final[Sequence[tuple[Layout, int]]] = [
    (DOUBLE.repeat(2, 8), -1),
    (DOUBLE.repeat(2, 8), 5),
    (DOUBLE.repeat(2, 12), 1),
    (DOUBLE.repeat(2, -8), 7),
    (DOUBLE.place(np.array([0, 3, 11]), 1, 8), 2),
    (Layout.run(1).place(np.array([0, 1, 3, 4, 7, 9, 12, 13, 20]), 1, 1).repeat(2, 1), 0),
    (DOUBLE, 10**30),
]


@cases(("layout", "base"), OUTSIDE)
def test_nothing_outside_of_the_memory_is_touched(layout: Layout, base: int) -> None:
    memory = random_bytes(20)
    before, out = bytes(memory), bytearray(layout.size)
    with pytest.raises(InvalidBufferError, match="of a buffer of 20 bytes; pass a larger buffer"):
        pack(layout, memoryview(memory), base, memoryview(out))
    assert not any(out)
    with pytest.raises(InvalidBufferError, match="of a buffer of 20 bytes; pass a larger buffer"):
        unpack(layout, memoryview(out), memoryview(memory), base)
    assert memory == before


def test_only_what_arrives_must_be_within_the_memory() -> None:
    memory = bytearray(20)
    unpack(DOUBLE.repeat(5, 8), memoryview(b"0123456789"), memoryview(memory), 1)
    assert memory == b"\x000123456789" + bytes(9)


def test_nothing_needs_no_memory() -> None:
    pack(EMPTY, memoryview(b""), 7, memoryview(b""))
    unpack(EMPTY, memoryview(b""), memoryview(bytearray()), -7)
    unpack(DOUBLE, memoryview(b""), memoryview(bytearray()), 0)


def test_no_room_for_the_message() -> None:
    with pytest.raises(InvalidBufferError, match="the packed form is 16 bytes, but there is room for 15"):
        pack(DOUBLE.repeat(2, 9), memoryview(bytes(30)), 0, memoryview(bytearray(15)))


def test_too_long_a_message() -> None:
    with pytest.raises(InvalidBufferError, match="a message of 17 bytes cannot be unpacked into 16"):
        unpack(DOUBLE.repeat(2, 9), memoryview(bytes(17)), memoryview(bytearray(30)), 0)


@pytest.mark.parametrize("memory", [memoryview(bytes(30)), np.frombuffer(bytes(30), np.uint8)], ids=["view", "array"])
def test_read_only_memory(memory: move.Memory) -> None:
    with pytest.raises(InvalidBufferError, match="read-only"):
        unpack(DOUBLE.repeat(2, 9), memoryview(bytes(16)), memory, 0)


def halves(layout: Layout, memory: bytearray, base: int) -> bytearray:
    """Elements of 4 bytes packed as their upper 2 bytes, byte order reversed."""
    out = bytearray(layout.size)
    move.check(layout, memoryview(memory), base, memoryview(out))
    for block in layout.blocks:
        assert block.kind is KIND
        for inside, outside in move.views(
            block, memoryview(memory), base, memoryview(out), (NATIVE, HALF), unpacking=False
        ):
            outside[...] = inside >> 16
    return out


@given(of_elements(KIND, 4, 2))
def test_elements_with_a_form_of_their_own(modelled: Modelled) -> None:
    layout, addresses = modelled
    memory, base = memory_of(layout)
    upper = [memory[base + address + 2 : base + address + 4] for address in addresses]
    assert halves(layout, memory, base) == b"".join(bytes(reversed(half)) for half in upper)


@given(of_elements(KIND, 4, 2).filter(lambda modelled: not modelled.layout.overlapping()), st.floats(0, 1))
def test_whole_elements_of_a_prefix(modelled: Modelled, share: float) -> None:
    layout, addresses = modelled
    memory, base = memory_of(layout)
    payload = random_bytes(int(share * layout.size))
    expected = bytearray(memory)
    for index, address in enumerate(addresses[: len(payload) // 2]):
        expected[base + address : base + address + 4] = (payload[2 * index + 1], payload[2 * index], 0, 0)
    view, prefix = memoryview(memory), layout.prefix(len(payload))
    move.check(prefix, view, base, memoryview(payload), unpacking=True)
    for block in prefix.blocks:
        for inside, outside in move.views(block, view, base, memoryview(payload), (NATIVE, HALF), unpacking=True):
            inside[...] = outside
    assert memory == expected


@pytest.mark.parametrize("repetitions", [1, 3, 400])
def test_many_irregular_elements(repetitions: int) -> None:
    layout = Layout.element(KIND, 4, 2).place(spread(40_000 // repetitions, 8), 1, 4)
    layout = layout.repeat(repetitions, layout.ub)
    memory = random_bytes(layout.ub)
    starts, _, _ = layout.runs()
    values = np.ndarray((layout.ub - 3,), "<u4", memory, strides=(1,))[starts]
    assert halves(layout, memory, 0) == (values >> 16).astype(">u2").tobytes()


def test_elements_must_lie_within_the_memory() -> None:
    layout = Layout.element(KIND, 4, 2).repeat(3, 4)
    message = memoryview(bytearray(6))
    with pytest.raises(InvalidBufferError, match="bytes 0 to 11 of a buffer of 11 bytes"):
        move.check(layout, memoryview(bytearray(11)), 0, message)
    with pytest.raises(InvalidBufferError, match="the packed form is 6 bytes, but there is room for 5"):
        move.check(layout, memoryview(bytearray(12)), 0, message[:5])
    move.check(layout, memoryview(bytes(12)), 0, message)
    with pytest.raises(InvalidBufferError, match="read-only"):
        move.check(layout, memoryview(bytes(12)), 0, message, unpacking=True)
