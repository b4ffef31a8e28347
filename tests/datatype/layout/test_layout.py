"""Layouts of any nesting against the list of the addresses of their bytes, and what is merged in them."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Final

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiompi.datatype.layout.layout import EMPTY, Dim, Layout, Part, ScatteredRuns, StridedBlock
from aiompi.errors import InvalidArgumentError
from support.cases import cases
from support.typemaps import LAYOUTS, Modelled

DOUBLE = Layout.run(8)
COLUMN = StridedBlock(0, 0, (Dim(4, 32, 8),), 8)
LONG = object()


def addresses_of(layout: Layout) -> list[int]:
    """Where each byte of the packed stream lies in memory, by the runs."""
    memory, packed, lengths = layout.runs()
    addresses: list[int] = []
    for start, packed_start, length in zip(memory.tolist(), packed.tolist(), lengths.tolist(), strict=True):
        assert packed_start == len(addresses)
        addresses += range(start, start + length)
    return addresses


def irregular(count: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Displacements of doubles, ascending, with and without gaps."""
    return np.flatnonzero(np.random.default_rng(0).random(2 * count) < 0.6)[:count] * 16


@given(LAYOUTS)
def test_runs_in_packed_order(modelled: Modelled) -> None:
    assert addresses_of(modelled.layout) == modelled.addresses


@given(LAYOUTS)
def test_size_and_bounds(modelled: Modelled) -> None:
    layout, addresses = modelled
    assert layout.size == len(addresses)
    assert (layout.lb, layout.ub) == ((min(addresses), max(addresses) + 1) if addresses else (0, 0))


@given(LAYOUTS)
def test_contiguous(modelled: Modelled) -> None:
    layout, addresses = modelled
    in_order = addresses == list(range(layout.lb, layout.ub))
    assert layout.contiguous == in_order


@given(LAYOUTS)
def test_overlapping(modelled: Modelled) -> None:
    layout, addresses = modelled
    assert layout.overlapping() == (len(set(addresses)) < len(addresses))
    assert layout.overlapping() == (len(set(addresses)) < len(addresses)), "the second answer is the first"


@given(LAYOUTS, st.floats(0, 1.1))
def test_prefix(modelled: Modelled, share: float) -> None:
    layout, addresses = modelled
    nbytes = int(share * layout.size)
    prefix = layout.prefix(nbytes)
    assert prefix.size == min(nbytes, layout.size)
    assert addresses_of(prefix) == addresses[:nbytes]
    assert (prefix.lb, prefix.ub) == ((min(addresses[:nbytes]), max(addresses[:nbytes]) + 1) if prefix.size else (0, 0))


def test_nothing() -> None:
    nothing = [
        EMPTY, Layout.run(0), DOUBLE.repeat(0, 8), EMPTY.repeat(3, 8), EMPTY.shift(5), Layout.concat([]),
        Layout.concat([EMPTY, EMPTY]), DOUBLE.place([], 1, 8), DOUBLE.place([0, 8], 0, 8), EMPTY.place([0, 8], 1, 8),
        DOUBLE.place([0, 8], [0, 0], 8), DOUBLE.prefix(0), DOUBLE.prefix(-1),
    ]  # fmt: skip
    for layout in nothing:
        assert (layout.size, layout.lb, layout.ub, layout.blocks) == (0, 0, 0, ())
        assert layout.contiguous
        assert not layout.overlapping()
        assert [len(column) for column in layout.runs()] == [0, 0, 0]


SAME: Final[dict[str, tuple[Layout, Part]]] = {
    "contiguous": (DOUBLE.repeat(3, 8).repeat(2, 24), StridedBlock(0, 0, (), 48)),
    "vector of all": (DOUBLE.repeat(2, 8).repeat(4, 16), StridedBlock(0, 0, (), 64)),
    "struct without gaps": (
        Layout.concat([DOUBLE, Layout.run(4).shift(8), DOUBLE.shift(12)]),
        StridedBlock(0, 0, (), 20),
    ),
    "repeated struct": (Layout.concat([DOUBLE, Layout.run(4).shift(8)]).repeat(3, 12), StridedBlock(0, 0, (), 36)),
    "indexed neighbours": (DOUBLE.place([8, 24, 32], [2, 1, 3], 8), StridedBlock(8, 0, (), 48)),
    "indexed vector": (DOUBLE.place([0, 32, 64, 96], 1, 8), COLUMN),
    "hindexed of one more": (DOUBLE.place([0, 32, 64, 96], [1, 1, 1, 1], 8), COLUMN),
    "zero lengths are nothing": (DOUBLE.place([0, 7, 32, 64, 96], [1, 0, 1, 1, 1], 8), COLUMN),
    "two halves": (Layout.concat([DOUBLE.repeat(2, 32), DOUBLE.repeat(2, 32).shift(64)]), COLUMN),
    "one more": (Layout.concat([DOUBLE.repeat(3, 32), DOUBLE.shift(96)]), COLUMN),
    "struct of doubles": (Layout.concat([DOUBLE.shift(at) for at in (0, 32, 64, 96)]), COLUMN),
    "matrix of columns": (
        DOUBLE.repeat(4, 32).place([0, 8, 16], 1, 0),
        StridedBlock(0, 0, (Dim(3, 8, 32), Dim(4, 32, 8)), 8),
    ),
    "indexed matrix": (
        DOUBLE.place([100, 120, 140, 500, 520, 540], 1, 8),
        StridedBlock(100, 0, (Dim(2, 400, 24), Dim(3, 20, 8)), 8),
    ),
    "rows of a matrix": (DOUBLE.repeat(2, 32).repeat(3, 64), StridedBlock(0, 0, (Dim(6, 32, 8),), 8)),
    "elements": (
        Layout.concat([Layout.element(LONG, 8, 4).shift(8 * i) for i in range(5)]).repeat(2, 40),
        StridedBlock(0, 0, (Dim(10, 8, 4),), 8, LONG, 4),
    ),
}


@pytest.mark.parametrize(("layout", "block"), SAME.values(), ids=SAME)
def test_the_same_in_few_words(layout: Layout, block: Part) -> None:
    assert layout.blocks == (block,)


def test_fields_of_an_array_of_structs_are_strided() -> None:
    struct = Layout.concat([Layout.run(4), DOUBLE.shift(8)])
    assert struct.repeat(1000, 16).blocks == (
        StridedBlock(0, 0, (Dim(1000, 16, 12),), 4),
        StridedBlock(8, 4, (Dim(1000, 16, 12),), 8),
    )


def test_kinds_stay_apart() -> None:
    short = object()
    parts = [Layout.element(LONG, 8, 4), Layout.element(short, 8, 4).shift(8), DOUBLE.shift(16)]
    blocks = Layout.concat(parts).blocks
    assert [(block.kind, block.packed) for block in blocks if isinstance(block, StridedBlock)] == [
        (LONG, 0),
        (short, 4),
        (None, 8),
    ]


def test_irregular_blocks_are_one_scatter() -> None:
    where = irregular(100)
    (block,) = DOUBLE.place(where, 1, 8).blocks
    assert isinstance(block, ScatteredRuns)
    assert block.offsets.tolist() == where.tolist()
    assert block.packed.tolist() == list(range(0, 800, 8))
    assert block.runs == 8
    (repeated,) = DOUBLE.place(where, 1, 8).repeat(5, 10_000).blocks
    assert isinstance(repeated, ScatteredRuns)
    assert repeated.dims == (Dim(5, 10_000, 800),)
    assert len(repeated.offsets) == 100
    (placed,) = DOUBLE.place(where, 1, 8).place([3, 10_003, 20_003], 1, 8).blocks
    assert isinstance(placed, ScatteredRuns)
    assert placed.dims == (Dim(3, 10_000, 800),)
    assert placed.offsets.tolist() == (where + 3).tolist()


def test_many_fields_are_one_scatter() -> None:
    layout = Layout.concat([Layout.run(8).shift(int(at)) for at in irregular(50)])
    assert [type(block) for block in layout.repeat(1000, 2000).blocks] == [ScatteredRuns]


def test_different_numbers_of_strided_copies_are_not_listed_one_by_one() -> None:
    times = np.arange(1, 1001) * 10**6
    layout = DOUBLE.repeat(2, 16).place(np.arange(1000) * 10**12, times, 32)
    assert layout.size == 16 * int(times.sum())
    assert sum(len(block.offsets) if isinstance(block, ScatteredRuns) else 1 for block in layout.blocks) < 1000 * 30


def test_a_million_blocks() -> None:
    """Build and keep what is in proportion to the blocks: two numbers for each."""
    where, lengths = irregular(1_000_000), np.ones(1_000_000, np.int64)
    tracemalloc.start()
    layout = DOUBLE.place(where, lengths, 8)
    kept, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert layout.size == 8_000_000
    assert kept < 17e6
    assert peak < 80e6


def test_counts_beyond_memory() -> None:
    """A layout costs nothing by what it describes."""
    layout = DOUBLE.repeat(2**30, 16).repeat(2**20, 2**35)
    assert layout.size == 2**53
    assert not layout.overlapping()
    assert layout.prefix(2**52 + 3).size == 2**52 + 3


@cases(
    "build",
    [
        lambda: DOUBLE.repeat(2**60, 8),
        lambda: DOUBLE.repeat(3, -(2**61)),
        lambda: DOUBLE.repeat(3, 16).shift(2**62),
        lambda: DOUBLE.place([0, 2**62], 1, 8),
        lambda: DOUBLE.place([0, 8], 2**60, 8),
        lambda: DOUBLE.place([0, 8], [1, 2**60], 0),
        lambda: DOUBLE.repeat(2, 16).place([0, 8], [1, 2], 2**61),
        lambda: DOUBLE.place(irregular(10), 1, 8).shift(-(2**62) - 10_000),
        lambda: Layout.concat([Layout.run(2**61)] * 3),
    ],
)
def test_beyond_64_bits(build: Callable[[], Layout]) -> None:
    with pytest.raises(InvalidArgumentError, match="too much for addresses of 64 bits"):
        build()


def test_very_different_lengths_are_not_too_long() -> None:
    layout = DOUBLE.place(np.arange(100) * 2**32, [2**58, *[1] * 99], 0)
    assert layout.size == 8 * (2**58 + 99)


OVERLAPPING: Final[dict[str, tuple[Layout, bool]]] = {
    "stride of the run": (DOUBLE.repeat(2**40, 9), False),
    "less": (DOUBLE.repeat(2**40, 7), True),
    "zero": (DOUBLE.repeat(2, 0), True),
    "backwards": (DOUBLE.repeat(2**40, -8), False),
    "backwards, less": (DOUBLE.repeat(2**40, -7), True),
    "columns of a matrix": (DOUBLE.repeat(2**20, 2**23).repeat(2**20, 8), False),
    "columns and one more": (DOUBLE.repeat(2**10, 2**13).repeat(2**10 + 1, 8), True),
    "interleaved": (DOUBLE.repeat(10, 48).repeat(6, 8), False),
    "interleaved, regular, wider than the stride": (DOUBLE.repeat(2, 24).repeat(2, 16), False),
    "interleaved, on itself": (DOUBLE.repeat(2, 32).repeat(3, 16), True),
    "structs": (Layout.concat([Layout.run(4), DOUBLE.shift(8)]).repeat(2**40, 16), False),
    "structs too close": (Layout.concat([Layout.run(4), DOUBLE.shift(8)]).repeat(2**10, 15), True),
    "structs in gaps": (Layout.concat([Layout.run(4), DOUBLE.shift(24)]).repeat(2**20, 16), False),
    "fields on each other": (Layout.concat([Layout.run(5), DOUBLE.shift(4)]).repeat(2, 16), True),
    "far apart": (DOUBLE.place([0, 2**50, 5, 2**40], 1, 8).repeat(2, 16), True),
    "far apart, free": (DOUBLE.place([0, 2**50, 8, 2**40], 1, 8).repeat(2, 16), False),
    "irregular": (DOUBLE.place(irregular(1000), 1, 8), False),
    "irregular, in gaps": (DOUBLE.place(irregular(1000), 1, 8).repeat(2, 8), False),
    "irregular, twice": (DOUBLE.place(np.append(irregular(1000), 16 * 500), 2, 8), True),
    "irregular, repeated": (DOUBLE.place(irregular(1000), 1, 8).repeat(100, 40_000), False),
    "irregular, repeated on itself": (DOUBLE.place(irregular(1000), 1, 8).repeat(100, 16), True),
}


@pytest.mark.parametrize(("layout", "expected"), OVERLAPPING.values(), ids=OVERLAPPING)
def test_overlapping_by_example(layout: Layout, expected: bool) -> None:
    assert layout.overlapping() is expected


def test_repr() -> None:
    assert repr(DOUBLE.repeat(4, 32)) == "Layout(32 bytes in [0, 104), 1 blocks)"
