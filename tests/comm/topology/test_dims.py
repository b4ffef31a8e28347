"""Distributing processes over the dimensions of a grid."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiompi import errors
from aiompi.comm.topology import Compute_dims
from support.cases import cases


@pytest.mark.spec("S6.5.2-1", "S6.5.2-2", "S6.5.2-3", "S6.5.2-6")
@cases(
    ("nnodes", "dims", "expected"),
    [
        (6, [0, 0], [3, 2]),
        (7, [0, 0], [7, 1]),
        (6, [0, 3, 0], [2, 3, 1]),
        (12, [0, 0], [4, 3]),
        (8, [0, 0, 0], [2, 2, 2]),
        (1, [0, 0, 0], [1, 1, 1]),
        (16, [0, 2, 0], [4, 2, 2]),
        (24, 3, [4, 3, 2]),
        (1024, (0, 0), [32, 32]),
        (720720, 6, [13, 11, 10, 9, 8, 7]),
        (2**31 - 1, 2, [2**31 - 1, 1]),
    ],
)
def test_vectors(nnodes: int, dims: int | list[int], expected: list[int]) -> None:
    assert Compute_dims(nnodes, dims) == expected


@pytest.mark.spec("S6.5.2-5")
@cases(("nnodes", "dims"), [(6, [3, 2]), (6, [1, 6, 1]), (1, []), (1, [1])])
def test_nothing_to_do(nnodes: int, dims: list[int]) -> None:
    given = [*dims]
    assert Compute_dims(nnodes, given) == dims
    assert given == dims


@pytest.mark.spec("S6.5.2-3", "S6.5.2-4")
@cases(
    ("nnodes", "dims", "text"),
    [
        (7, [0, 3, 0], r"7 processes cannot be distributed over a grid of \[0, 3, 0\]"),
        (6, [0, -1], "no negative one"),
        (6, [2, 2], "6 processes cannot be distributed"),
        (12, [2, 2], "12 processes cannot be distributed"),
        (2, [], "2 processes cannot be distributed"),
        (0, [0], "at least one"),
        (-3, 2, "at least one"),
    ],
)
def test_errors(nnodes: int, dims: list[int], text: str) -> None:
    with pytest.raises(errors.InvalidDimsError, match=text):
        Compute_dims(nnodes, dims)


def factorisations(nnodes: int, count: int, largest: int) -> list[tuple[int, ...]]:
    """All non-increasing ones, by trying every factor."""
    if count == 0:
        return [()] if nnodes == 1 else []
    return [
        (factor, *rest)
        for factor in range(1, largest + 1)
        if nnodes % factor == 0
        for rest in factorisations(nnodes // factor, count - 1, factor)
    ]


@pytest.mark.spec("S6.5.2-1", "S6.5.2-2")
@given(st.integers(1, 300), st.lists(st.sampled_from([0, 0, 0, 1, 2, 3]), max_size=4))
def test_as_equal_as_possible(nnodes: int, dims: list[int]) -> None:
    """No other way has a smaller difference between the largest and the smallest, or a smaller largest one."""
    nnodes *= math.prod(dim for dim in dims if dim)
    wanted = [position for position, dim in enumerate(dims) if dim == 0]
    if not wanted:
        dims, wanted = [*dims, 0], [len(dims)]
    grid = Compute_dims(nnodes, dims)
    assert math.prod(grid) == nnodes
    assert [given for given, dim in zip(grid, dims, strict=True) if dim] == [dim for dim in dims if dim]
    found = tuple(grid[position] for position in wanted)
    ways = factorisations(math.prod(found), len(found), math.prod(found))
    assert found == min(ways)
    assert found[0] - found[-1] == min(way[0] - way[-1] for way in ways)
