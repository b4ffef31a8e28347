"""Blocks of arrays (section 4.1.3 of MPI-3.1), against numpy's slices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from aiompi.constants import ORDER_C, ORDER_F, ORDER_FORTRAN
from aiompi.datatype import BYTE, DOUBLE, INT, SHORT
from aiompi.errors import InvalidArgumentError, MPIError
from support.cases import cases
from support.datatype_model import addresses

SHAPES = [
    ([7], [3], [2]),
    ([4, 5], [2, 3], [1, 2]),
    ([4, 5], [4, 3], [0, 1]),
    ([3, 4, 5], [2, 2, 2], [1, 1, 1]),
    ([2, 3, 2, 3], [1, 3, 1, 2], [1, 0, 0, 1]),
]


@pytest.mark.spec("D4.1.3-1", "D4.1.3-2", "D4.1.3-3")
@pytest.mark.parametrize(("order", "letter"), [(ORDER_C, "C"), (ORDER_FORTRAN, "F")])
@pytest.mark.parametrize(("sizes", "subsizes", "starts"), SHAPES)
def test_block(sizes: list[int], subsizes: list[int], starts: list[int], order: int, letter: Any) -> None:
    block = SHORT.Create_subarray(sizes, subsizes, starts, order)
    assert block.Get_extent() == (0, 2 * np.prod(sizes))
    assert block.size == 2 * np.prod(subsizes)
    positions = np.arange(np.prod(sizes)).reshape(sizes, order=letter)
    chosen = positions[tuple(slice(at, at + n) for at, n in zip(starts, subsizes, strict=True))]
    assert addresses(block)[::2] == [2 * at for at in sorted(chosen.flatten().tolist())]


@pytest.mark.spec("D4.1.3-5")
def test_a_dimension_at_a_time() -> None:
    plane = INT.Create_subarray([4, 6], [2, 3], [1, 2])
    row = INT.Create_subarray([6], [3], [2])
    assert addresses(row.Create_subarray([4], [2], [1])) == addresses(plane)
    assert row.Create_subarray([4], [2], [1]).Get_extent() == plane.Get_extent() == (0, 96)
    column = INT.Create_subarray([4], [2], [1])
    fortran = INT.Create_subarray([4, 6], [2, 3], [1, 2], ORDER_F)
    assert addresses(column.Create_subarray([6], [3], [2])) == addresses(fortran)


@pytest.mark.spec("D4.1.3-6")
@pytest.mark.parametrize("order", [ORDER_C, ORDER_F])
def test_the_whole_array_is_contiguous(order: int) -> None:
    whole = DOUBLE.Create_subarray([3, 4, 5], [3, 4, 5], [0, 0, 0], order)
    assert whole.layout.contiguous
    assert whole.Get_extent() == DOUBLE.Create_contiguous(60).Get_extent()
    assert whole.signature == DOUBLE.Create_contiguous(60).signature


def test_bounds_are_those_of_the_array_whatever_the_elements_are() -> None:
    element = INT.Create_resized(-2, 10)
    block = element.Create_subarray([4, 4], [2, 2], [1, 1])
    assert block.Get_extent() == (0, 160)
    assert addresses(block)[::4] == [50, 60, 90, 100]


def test_huge_arrays() -> None:
    face = BYTE.Create_subarray([10**6] * 3, [10**6, 1, 10**6], [0, 5, 0])
    assert (face.size, face.extent, len(face.layout.blocks)) == (10**12, 10**18, 1)


@pytest.mark.spec("D4.1.3-4")
@cases(
    ("sizes", "subsizes", "starts", "order", "message"),
    [
        ([4, 5], [0, 3], [1, 2], ORDER_C, r"subsizes\[0\] is 0: expected 1 to 4"),
        ([4, 5], [2, 6], [1, 0], ORDER_C, r"subsizes\[1\] is 6: expected 1 to 5"),
        ([4, 5], [2, 3], [-1, 2], ORDER_C, r"starts\[0\] is -1: expected 0 to 2"),
        ([4, 5], [2, 3], [1, 3], ORDER_C, r"starts\[1\] is 3: expected 0 to 2"),
        ([0], [0], [0], ORDER_C, r"subsizes\[0\] is 0"),
        ([], [], [], ORDER_C, "at least 1 dimension"),
        ([4, 5], [2], [0, 0], ORDER_C, "subsizes has 1"),
        ([4], [2], [0], 7, "order is 7: expected ORDER_C or ORDER_FORTRAN"),
    ],
)
def test_errors(sizes: list[int], subsizes: list[int], starts: list[int], order: int, message: str) -> None:
    with pytest.raises(MPIError, match=message) as caught:
        INT.Create_subarray(sizes, subsizes, starts, order)
    assert issubclass(caught.type, InvalidArgumentError)
