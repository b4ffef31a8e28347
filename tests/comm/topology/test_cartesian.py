"""Grids: coordinates of processes, their neighbours, and the subgrids that remain when dimensions are dropped."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiompi import errors
from aiompi.comm.topology import Cartesian
from aiompi.constants import CART, PROC_NULL, UNDEFINED
from support.cases import cases

DIMS = st.lists(st.integers(1, 4), max_size=4)


@st.composite
def grids(draw: st.DrawFn) -> Cartesian:
    dims = draw(DIMS)
    periods = draw(st.lists(st.booleans(), min_size=len(dims), max_size=len(dims)))
    return Cartesian.create(dims, periods, math.prod(dims))


@pytest.mark.spec("S6.2-1", "S6.2-2")
def test_ranks_are_row_major() -> None:
    grid = Cartesian.create([2, 2], False, 4)
    assert [grid.coords(rank) for rank in range(4)] == [[0, 0], [0, 1], [1, 0], [1, 1]]
    assert (grid.kind, grid.ndims, grid.nnodes) == (CART, 2, 4)


@pytest.mark.spec("S6.5.4-5")
@given(grids())
def test_ranks_and_coordinates(grid: Cartesian) -> None:
    """Each is the inverse of the other, and the ranks of all coordinates in their order are 0, 1, ..."""
    assert [grid.coords(rank) for rank in range(grid.nnodes)] == [
        list(coords) for coords in itertools.product(*map(range, grid.dims))
    ]
    assert [grid.rank(grid.coords(rank)) for rank in range(grid.nnodes)] == list(range(grid.nnodes))


@pytest.mark.spec("S6.5.4-5")
@given(grids(), st.data())
def test_periodic_coordinates_wrap(grid: Cartesian, data: st.DataObject) -> None:
    coords = [data.draw(st.integers(-10, 10)) for _ in grid.dims]
    outside = [not p and not 0 <= c < d for c, d, p in zip(coords, grid.dims, grid.periods, strict=True)]
    if any(outside):
        with pytest.raises(errors.InvalidArgumentError, match=f"in direction {outside.index(True)} is not in 0"):
            grid.rank(coords)
    else:
        assert grid.coords(grid.rank(coords)) == [c % d for c, d in zip(coords, grid.dims, strict=True)]


@pytest.mark.spec("S6.5.5-1", "S6.5.5-2", "S6.5.5-3")
@given(grids(), st.integers(-9, 9))
def test_shift(grid: Cartesian, disp: int) -> None:
    """The coordinate changes by disp, circular where the grid is, and beyond an open border there is nobody."""
    for rank, direction in itertools.product(range(grid.nnodes), range(grid.ndims)):
        coords, dim = grid.coords(rank), grid.dims[direction]
        expected = []
        for step in (-disp, disp):
            there = [*coords]
            there[direction] += step
            inside = 0 <= there[direction] < dim
            there[direction] %= dim
            expected.append(grid.rank(there) if inside or grid.periods[direction] else PROC_NULL)
        assert list(grid.shift(rank, direction, disp)) == expected
        assert grid.shift(rank, direction, disp) == grid.shift(rank, direction, -disp)[::-1]
        assert grid.shift(rank, direction, 0) == (rank, rank)


@pytest.mark.spec("S6.5.5-2")
def test_shift_over_borders() -> None:
    grid = Cartesian.create([3, 2], [True, False], 6)
    assert grid.shift(0, 0, 1) == (4, 2)
    assert grid.shift(0, 0, 7) == (4, 2)
    assert grid.shift(0, 1, 1) == (PROC_NULL, 1)
    assert grid.shift(1, 1, 1) == (0, PROC_NULL)
    for direction in (-1, 2):
        with pytest.raises(errors.InvalidDimsError, match=f"direction {direction} in a grid of 2"):
            grid.shift(0, direction, 1)


@pytest.mark.spec("S6.5.1-5")
def test_hypercube() -> None:
    """A torus with two processes along each dimension: the ranks of neighbours differ in one bit."""
    cube = Cartesian.create([2] * 4, True, 16)
    for rank in range(16):
        assert [cube.shift(rank, direction, 1) for direction in range(4)] == [
            (rank ^ bit, rank ^ bit) for bit in (8, 4, 2, 1)
        ]


@pytest.mark.spec("S6.5.6-1")
@pytest.mark.parametrize(
    ("keep", "number", "dims"), [([True, False, True], 3, (2, 4)), ([False, False, True], 6, (4,))]
)
def test_sub_grids_of_the_standard(keep: list[bool], number: int, dims: tuple[int, ...]) -> None:
    """Example 6.5: of 2 x 3 x 4."""
    grid = Cartesian.create([2, 3, 4], [True, False, True], 24)
    parts = [grid.sub(rank, keep) for rank in range(24)]
    assert {part.dims for part, _ in parts} == {dims}
    assert {part.periods for part, _ in parts} == {(True,) * len(dims)}
    assert len({tuple(ranks) for _, ranks in parts}) == number


@pytest.mark.spec("S6.5.6-1", "S6.5.6-2")
@given(grids(), st.data())
def test_sub_grids(grid: Cartesian, data: st.DataObject) -> None:
    """One for each combination of coordinates that are cut, with those that are kept in their order."""
    keep = [data.draw(st.booleans()) for _ in grid.dims]
    found: set[tuple[int, ...]] = set()
    for rank in range(grid.nnodes):
        part, ranks = grid.sub(rank, keep)
        coords = grid.coords(rank)
        assert part.coords(ranks.index(rank)) == [coord for coord, kept in zip(coords, keep, strict=True) if kept]
        assert part.periods == tuple(p for p, kept in zip(grid.periods, keep, strict=True) if kept)
        assert len({tuple(c for c, kept in zip(grid.coords(r), keep, strict=True) if not kept) for r in ranks}) == 1
        assert len(ranks) == part.nnodes
        found.add(tuple(ranks))
    assert sorted(rank for ranks in found for rank in ranks) == list(range(grid.nnodes))
    if all(keep):
        assert part == grid
        assert ranks == list(range(grid.nnodes))


@pytest.mark.spec("S6.5.7-1")
@cases(("dims", "used"), [([2, 2], 4), ([5], 5), ([], 1), ([1, 3], 3)])
def test_processes_that_are_left_over(dims: list[int], used: int) -> None:
    grid = Cartesian.create(dims, None, 5)
    assert grid.nnodes == used
    assert [grid.map(rank) for rank in range(5)] == [*range(used), *[UNDEFINED] * (5 - used)]


def test_neighbors() -> None:
    """The one before and the one behind in each dimension, as sources and as destinations."""
    grid = Cartesian.create([3, 2], [True, False], 6)
    for rank in range(6):
        expected = [*grid.shift(rank, 0, 1), *grid.shift(rank, 1, 1)]
        assert grid.neighbors(rank) == (expected, expected)
    assert Cartesian.create([], None, 1).neighbors(0) == ([], [])


@cases(("periods", "expected"), [(None, False), (False, False), (True, True), ([1, 0], None)])
def test_periods(periods: Any, expected: bool | None) -> None:
    grid = Cartesian.create([2, 2], periods, 4)
    assert grid.periods == ((True, False) if expected is None else (expected, expected))


@pytest.mark.spec("S6.5.1-3")
def test_errors() -> None:
    with pytest.raises(errors.InvalidDimsError, match="a grid of 3 x 2 processes: there are only 5"):
        Cartesian.create([3, 2], False, 5)
    for dims in ([2, 0], [-1]):
        with pytest.raises(errors.InvalidDimsError, match="must be positive"):
            Cartesian.create(dims, False, 5)
    for periods in ([], [True] * 2):
        with pytest.raises(errors.InvalidArgumentError, match="periods for 1 dimensions"):
            Cartesian.create([5], periods, 5)
    grid = Cartesian.create([2, 2], True, 4)
    for rank in (-1, 4):
        with pytest.raises(errors.InvalidRankError, match=r"is not in 0\.\.3"):
            grid.coords(rank)
    for call in (lambda: grid.rank([0]), lambda: grid.sub(0, [True] * 3)):
        with pytest.raises(errors.InvalidArgumentError, match=r"dimensions"):
            call()


def test_arguments_of_another_kind_are_named() -> None:
    grid: Any = Cartesian.create([2, 2], True, 4)
    create: Any = Cartesian.create
    for call, text in (
        (lambda: create(4, None, 4), "dims is 4: expected a sequence of integers"),
        (lambda: create([2, None], None, 4), r"dims\[1\] is None: expected an integer"),
        (lambda: create([2], 3, 4), "periods is 3: expected a sequence of booleans"),
        (lambda: grid.coords("x"), "rank is 'x': expected an integer"),
        (lambda: grid.rank([0, "x"]), r"coords\[1\] is 'x': expected an integer"),
        (lambda: grid.shift(0, "x", 1), "direction is 'x': expected an integer"),
        (lambda: grid.shift(0, 1, "x"), "disp is 'x': expected an integer"),
        (lambda: grid.sub(0, 1), "remain_dims is 1: expected a sequence of booleans"),
    ):
        with pytest.raises(TypeError, match=text):
            call()
