"""Bounds: alignment, markers, resizing (sections 3.12.2 and 3.12.3; 4.1.6 to 4.1.8 of MPI-3.1)."""

from __future__ import annotations

import numpy as np
import pytest

from aiompi.datatype import BYTE, CHAR, DOUBLE, INT, LB, LONG_DOUBLE, UB, Datatype
from aiompi.datatype.bounds import EMPTY, Bounds
from support.cases import cases
from support.datatype_model import addresses


def bounds(datatype: Datatype) -> tuple[int, int, int]:
    assert datatype.lb + datatype.extent == datatype.ub
    return datatype.lb, datatype.ub, datatype.extent


@pytest.mark.spec("S3.12-4", "S3.12-5", "D4.1-2")
@cases(
    ("types", "displacements", "expected"),
    [
        ([DOUBLE, CHAR], [0, 8], (0, 16, 16)),
        ([CHAR, DOUBLE], [0, 1], (0, 16, 16)),
        ([DOUBLE, CHAR], [4, 12], (4, 20, 16)),  # the extent is padded, wherever the item begins
        ([INT, CHAR], [0, 4], (0, 8, 8)),
        ([CHAR, INT], [-3, 0], (-3, 5, 8)),
        ([CHAR, CHAR], [0, 4], (0, 5, 5)),
        ([CHAR, LONG_DOUBLE], [16, 0], (0, 32, 32)),
    ],
)
def test_padding_is_part_of_the_upper_bound(
    types: list[Datatype], displacements: list[int], expected: tuple[int, int, int]
) -> None:
    assert bounds(Datatype.Create_struct([1, 1], displacements, types)) == expected


@pytest.mark.spec("S3.12-4")
@cases("code", ["i1, i8", "i8, i1", "i2, i1, i4", "i1, c16, i4", "i4, g", "?, f4, U1"])
def test_structs_are_as_long_as_those_of_c(code: str) -> None:
    dtype = np.dtype(code, align=True)
    assert dtype.fields is not None
    fields = [dtype.fields[name] for name in dtype.names or ()]
    types = [Datatype.fromcode(field[0].char) for field in fields]
    struct = Datatype.Create_struct([1] * len(types), [field[1] for field in fields], types)
    assert (struct.extent, struct.alignment) == (dtype.itemsize, dtype.alignment)


@pytest.mark.spec("S3.12.3-2", "S3.12.3-3")
def test_a_marked_bound_is_not_padded() -> None:
    struct = Datatype.Create_struct([1, 1, 1], [-3, 0, 6], [LB, INT, UB])
    assert bounds(struct) == (-3, 6, 9)
    assert bounds(struct.Create_contiguous(2)) == (-3, 15, 18)


def test_one_marked_bound_leaves_the_other() -> None:
    assert bounds(Datatype.Create_struct([1, 1], [-3, 0], [LB, INT])) == (-3, 5, 8)
    assert bounds(Datatype.Create_struct([1, 1], [2, 13], [INT, UB])) == (2, 13, 11)


@pytest.mark.spec("S3.12.3-2")
def test_the_outermost_of_several_markers_counts() -> None:
    assert bounds(Datatype.Create_struct([2, 1, 1, 1], [4, -8, 6, 2], [UB, LB, UB, LB])) == (-8, 6, 14)


@pytest.mark.spec("S3.12.3-4")
def test_inherited_markers_can_be_widened_but_not_cancelled() -> None:
    inner = Datatype.Create_struct([1, 1, 1], [-8, 0, 8], [LB, INT, UB])
    assert bounds(Datatype.Create_struct([1, 1, 1], [-4, 0, 4], [LB, inner, UB])) == (-8, 8, 16)
    assert bounds(Datatype.Create_struct([1, 1, 1], [-16, 0, 16], [LB, inner, UB])) == (-16, 16, 32)
    assert bounds(Datatype.Create_struct([1, 1], [100, 200], [inner, INT])) == (92, 108, 16)


@pytest.mark.spec("S3.12.3-1", "D4.1.6-1")
def test_markers_do_not_travel() -> None:
    plain = Datatype.Create_struct([2], [0], [INT])
    marked = Datatype.Create_struct([1, 2, 1], [-4, 0, 16], [LB, INT, UB])
    assert (marked.size, marked.signature, marked.layout.size) == (plain.size, plain.signature, plain.layout.size)
    assert [c.tolist() for c in marked.layout.runs()] == [c.tolist() for c in plain.layout.runs()]
    assert (LB.size, LB.extent, UB.size, UB.extent) == (0, 0, 0, 0)


@pytest.mark.spec("D4.1-1")
def test_what_occurs_zero_times_has_no_effect_on_bounds() -> None:
    marked = Datatype.Create_struct([1, 1, 1], [-3, 0, 6], [LB, INT, UB])
    for nothing in (
        marked.Create_contiguous(0), marked.Create_vector(0, 3, 2), marked.Create_vector(3, 0, 2),
        marked.Create_indexed([], []), marked.Create_indexed([0, 0], [5, 9]), marked.Create_hindexed_block(0, [7]),
        marked.Create_indexed_block(2, []), Datatype.Create_struct([], [], []),
        Datatype.Create_struct([0, 0], [50, 70], [UB, DOUBLE]),
    ):  # fmt: skip
        assert (*bounds(nothing), nothing.size, nothing.alignment) == (0, 0, 0, 0, 1)
    some = Datatype.Create_struct([1, 0, 0, 0], [0, 100, -100, 100], [CHAR, DOUBLE, LB, UB])
    assert (*bounds(some), some.alignment) == (0, 1, 1, 1)
    assert bounds(INT.Create_indexed([0, 1], [-9, 1])) == (4, 8, 4)


def test_markers_alone_make_an_item_of_no_bytes() -> None:
    assert bounds(Datatype.Create_struct([1, 1], [-3, 6], [LB, UB])) == (-3, 6, 9)
    assert bounds(Datatype.Create_struct([1], [-3], [LB])) == (-3, -3, 0)
    assert bounds(Datatype.Create_struct([1], [6], [UB])) == (6, 6, 0)


@pytest.mark.spec("D4.1.6-2", "D4.1.7-1")
def test_resized() -> None:
    resized = INT.Create_resized(-3, 9)
    assert resized.Get_extent() == (-3, 9)
    assert bounds(resized) == (-3, 6, 9)
    assert bounds(resized.Create_contiguous(2)) == (-3, 15, 18)


@pytest.mark.spec("D4.1.7-2")
@cases(("lb", "extent"), [(0, 100), (4, 2), (0, 0), (0, -8), (-50, 3)])
def test_resizing_erases_earlier_markers(lb: int, extent: int) -> None:
    marked = Datatype.Create_struct([1, 2, 1], [-1000, 0, 1000], [LB, INT, UB])
    resized = marked.Create_resized(lb, extent)
    assert bounds(resized) == (lb, lb + extent, extent)
    assert (resized.size, resized.true_lb, resized.true_extent) == (8, 0, 8)
    assert addresses(resized.Create_contiguous(2))[::4] == [0, 4, extent, extent + 4]


@pytest.mark.spec("D4.1.7-3")
def test_the_new_extent_spaces_copies() -> None:
    column = DOUBLE.Create_vector(3, 1, 4).Create_resized(0, 8)
    assert addresses(column.Create_contiguous(4))[::8] == [8 * (4 * row + at) for at in range(4) for row in range(3)]


@pytest.mark.spec("D4.1.8-1", "D4.1.8-2")
def test_true_extent_is_that_of_the_data() -> None:
    pair = Datatype.Create_struct([1, 1], [0, 8], [DOUBLE, CHAR])
    assert pair.Get_true_extent() == (0, 9)
    assert Datatype.Create_struct([1, 1, 1], [-32, 4, 64], [LB, pair, UB]).Get_true_extent() == (4, 9)
    assert pair.Create_resized(-7, 100).Get_true_extent() == (0, 9)
    assert INT.Create_subarray([10], [2], [3]).Get_true_extent() == (12, 8)
    assert INT.Create_vector(3, 1, -2).Get_true_extent() == (-16, 20)
    assert BYTE.Create_contiguous(0).Get_true_extent() == (0, 0)


@pytest.mark.spec("D4.1.5-2")
def test_sizes_are_not_limited() -> None:
    huge = DOUBLE.Create_contiguous(2**62).Create_contiguous(8)
    assert (huge.Get_size(), huge.Get_extent()) == (2**68, (0, 2**68))


def test_nothing_added_is_nothing() -> None:
    assert Bounds.concat([]) == EMPTY
    assert (EMPTY.lb, EMPTY.ub) == (0, 0)
    assert EMPTY.shift(7).repeat(3, 5) == EMPTY
