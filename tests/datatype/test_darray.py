"""Distributed arrays (section 4.1.4 of MPI-3.1), against a list of the owner of each index."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiompi.constants import (
    DISTRIBUTE_BLOCK,
    DISTRIBUTE_CYCLIC,
    DISTRIBUTE_DFLT_DARG,
    DISTRIBUTE_NONE,
    ORDER_C,
    ORDER_FORTRAN,
)
from aiompi.datatype import INT, SHORT, Datatype
from aiompi.errors import InvalidArgumentError, MPIError
from support.cases import cases
from support.datatype_model import addresses_of, basic, check


class Dimension(NamedTuple):
    gsize: int
    distrib: int
    darg: int
    psize: int

    def owned(self, process: int) -> list[int]:
        """Indices: block after block is dealt to one process after the other."""
        default = {DISTRIBUTE_BLOCK: math.ceil(self.gsize / self.psize), DISTRIBUTE_CYCLIC: 1}
        block = default.get(self.distrib, self.gsize)
        if self.darg != DISTRIBUTE_DFLT_DARG and self.distrib != DISTRIBUTE_NONE:
            block = self.darg
        return [i for i in range(self.gsize) if i // block % self.psize == process]


def part(rank: int, dims: Sequence[Dimension], order: int, element: Datatype = SHORT) -> Datatype:
    gsizes, distribs, dargs, psizes = zip(*dims, strict=True)
    return element.Create_darray(math.prod(psizes), rank, gsizes, distribs, dargs, psizes, order)


@st.composite
def dimensions(draw: st.DrawFn) -> Dimension:
    gsize, psize = draw(st.integers(1, 9)), draw(st.integers(1, 4))
    distrib = draw(st.sampled_from([DISTRIBUTE_BLOCK, DISTRIBUTE_CYCLIC, DISTRIBUTE_NONE]))
    if distrib == DISTRIBUTE_NONE:
        return Dimension(gsize, distrib, draw(st.integers(-1, 3)), 1)
    least = math.ceil(gsize / psize) if distrib == DISTRIBUTE_BLOCK else 1
    return Dimension(gsize, distrib, draw(st.just(DISTRIBUTE_DFLT_DARG) | st.integers(least, 12)), psize)


@pytest.mark.spec("D4.1.4-1", "D4.1.4-2", "D4.1.4-4", "D4.1.4-5", "D4.1.4-6", "D4.1.4-7")
@settings(max_examples=100, deadline=None)
@given(st.lists(dimensions(), min_size=1, max_size=3), st.sampled_from([ORDER_C, ORDER_FORTRAN]))
def test_parts(dims: list[Dimension], order: int) -> None:
    gsizes = [dim.gsize for dim in dims]
    found: list[int] = []
    grid = itertools.product(*(range(dim.psize) for dim in dims))  # row-major
    for rank, position in enumerate(grid):
        made = part(rank, dims, order)
        owned = [dim.owned(process) for dim, process in zip(dims, position, strict=True)]
        model = basic(SHORT)
        entries = model.selected(gsizes, owned, order)
        check(model._replace(datatype=made, entries=entries))
        assert made.Get_extent() == (0, 2 * math.prod(gsizes))
        found += addresses_of([entry for entry in entries if entry[0] is SHORT])
    assert sorted(found) == list(range(2 * math.prod(gsizes)))


@pytest.mark.spec("D4.1.4-4")
def test_blocks_of_a_given_length_are_a_cyclic_distribution() -> None:
    for rank in range(3):
        block, cyclic = (part(rank, [Dimension(10, distrib, 4, 3)], ORDER_C) for distrib in (1, 2))
        assert [c.tolist() for c in block.layout.runs()] == [c.tolist() for c in cyclic.layout.runs()]


def test_a_process_that_owns_nothing() -> None:
    dims = [Dimension(4, DISTRIBUTE_BLOCK, 3, 3)]
    sizes = [part(rank, dims, ORDER_C).size for rank in range(3)]
    assert sizes == [6, 2, 0]
    nothing = part(2, dims, ORDER_C)
    assert (nothing.Get_extent(), nothing.Get_true_extent(), nothing.signature.count) == ((0, 8), (0, 0), 0)


@pytest.mark.spec("D4.1.4-9")
def test_large_parts_are_a_few_strided_blocks() -> None:
    dims = [
        Dimension(100, DISTRIBUTE_CYCLIC, 10, 2),
        Dimension(200, DISTRIBUTE_NONE, 0, 1),
        Dimension(300, DISTRIBUTE_BLOCK, DISTRIBUTE_DFLT_DARG, 3),
    ]
    for rank in range(6):
        made = part(rank, dims, ORDER_FORTRAN, INT)
        assert (made.signature.count, made.extent) == (50 * 200 * 100, 4 * 6_000_000)
        assert len(made.layout.blocks) == 1
    assert len(part(0, [Dimension(10**6 + 3, DISTRIBUTE_CYCLIC, 5, 2)] * 2, ORDER_C).layout.blocks) <= 4


@pytest.mark.parametrize("element", [INT.Create_resized(-4, 12), INT.Create_vector(2, 1, 2)])
def test_elements_of_any_extent(element: Datatype) -> None:
    made = part(1, [Dimension(5, DISTRIBUTE_CYCLIC, 2, 2)], ORDER_C, element)
    assert made.Get_extent() == (0, 5 * element.extent)
    firsts = np.array([2, 3]) * element.extent
    assert made.layout.lb == firsts[0]
    assert made.size == 2 * element.size


GOOD = {
    "size": 6,
    "rank": 0,
    "gsizes": [8, 9],
    "distribs": [DISTRIBUTE_BLOCK, DISTRIBUTE_CYCLIC],
    "dargs": [DISTRIBUTE_DFLT_DARG, 2],
    "psizes": [2, 3],
    "order": ORDER_C,
}


@pytest.mark.spec("D4.1.4-1", "D4.1.4-3")
@cases(
    ("wrong", "message"),
    [
        ({"size": 5}, "size is 5, but a grid of .* has 6 processes"),
        ({"rank": 6}, "rank is 6: expected 0 to 5"),
        ({"rank": -1}, "rank is -1: expected 0 to 5"),
        ({"psizes": [-2, -3]}, r"psizes\[0\] is -2"),
        ({"gsizes": [8, 0]}, r"gsizes\[1\] is 0"),
        ({"distribs": [9, DISTRIBUTE_CYCLIC]}, r"distribs\[0\] is 9"),
        ({"distribs": [DISTRIBUTE_NONE, DISTRIBUTE_CYCLIC]}, r"psizes\[0\] is 2: expected 1"),
        ({"dargs": [3, 2]}, r"dargs\[0\] is 3: 2 blocks .* do not cover the 8"),
        ({"dargs": [4, 0]}, r"dargs\[1\] is 0"),
        ({"dargs": [4]}, "dargs has 1"),
        ({"order": 5}, "order is 5"),
        ({"size": 1, "gsizes": [], "distribs": [], "dargs": [], "psizes": []}, "at least 1 dimension"),
    ],
)
def test_errors(wrong: dict[str, object], message: str) -> None:
    INT.Create_darray(**GOOD)  # type: ignore[arg-type]
    with pytest.raises(MPIError, match=message) as caught:
        INT.Create_darray(**(GOOD | wrong))  # type: ignore[arg-type]
    assert issubclass(caught.type, InvalidArgumentError)
