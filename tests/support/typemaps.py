"""Layouts beside the plainest model of them: the list of the addresses of all bytes, in packed order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from hypothesis import strategies as st

from aiompi.datatype.layout.layout import Layout


class Modelled(NamedTuple):
    """A layout, and where each byte of its packed stream lies in memory."""

    layout: Layout
    addresses: list[int]

    def repeat(self, count: int, stride: int) -> Modelled:
        addresses = [index * stride + address for index in range(count) for address in self.addresses]
        return Modelled(self.layout.repeat(count, stride), addresses)

    def shift(self, nbytes: int) -> Modelled:
        return Modelled(self.layout.shift(nbytes), [address + nbytes for address in self.addresses])

    def place(self, displacements: Sequence[int], lengths: Sequence[int] | int, extent: int) -> Modelled:
        times = [lengths] * len(displacements) if isinstance(lengths, int) else lengths
        addresses = [
            displacement + index * extent + address
            for displacement, count in zip(displacements, times, strict=True)
            for index in range(count)
            for address in self.addresses
        ]
        where = np.array(displacements, np.int64)
        counts = lengths if isinstance(lengths, int) else np.array(lengths, np.int64)
        return Modelled(self.layout.place(where, counts, extent), addresses)


def concat(parts: Sequence[Modelled]) -> Modelled:
    addresses = [address for part in parts for address in part.addresses]
    return Modelled(Layout.concat(part.layout for part in parts), addresses)


_MOST = 3000
_LEAVES = st.integers(0, 9).map(lambda nbytes: Modelled(Layout.run(nbytes), list(range(nbytes))))
_STRIDES = st.integers(-40, 40) | st.sampled_from([-600, -8, 0, 8, 16, 24, 600])


def _repeated(inner: st.SearchStrategy[Modelled]) -> st.SearchStrategy[Modelled]:
    return st.builds(Modelled.repeat, inner, st.integers(0, 5), _STRIDES)


def _contiguous(inner: st.SearchStrategy[Modelled]) -> st.SearchStrategy[Modelled]:
    """Copies without a gap between them, as a type whose extent is its size has them."""
    return st.builds(lambda part, count: part.repeat(count, part.layout.ub - part.layout.lb), inner, st.integers(0, 5))


def _shifted(inner: st.SearchStrategy[Modelled]) -> st.SearchStrategy[Modelled]:
    return st.builds(Modelled.shift, inner, _STRIDES)


@st.composite
def _placed(draw: st.DrawFn, inner: st.SearchStrategy[Modelled]) -> Modelled:
    part = draw(inner)
    displacements = draw(st.lists(_STRIDES, max_size=20))
    many = st.lists(st.integers(0, 6), min_size=len(displacements), max_size=len(displacements))
    extent = draw(st.just(part.layout.size) | _STRIDES)
    return part.place(displacements, draw(st.integers(0, 3) | many), extent)


@st.composite
def _placed_regularly(draw: st.DrawFn, inner: st.SearchStrategy[Modelled]) -> Modelled:
    """Displacements with a regularity that may be broken at one place."""
    part = draw(inner)
    rows, columns = draw(st.integers(1, 4)), draw(st.integers(1, 4))
    step, row = draw(_STRIDES), draw(_STRIDES)
    displacements = [i * row + j * step for i in range(rows) for j in range(columns)]
    if draw(st.booleans()):
        displacements[draw(st.integers(0, len(displacements) - 1))] += draw(_STRIDES)
    return part.place(displacements, draw(st.integers(1, 3)), draw(st.just(part.layout.size) | _STRIDES))


def _joined(inner: st.SearchStrategy[Modelled]) -> st.SearchStrategy[Modelled]:
    return st.lists(inner, max_size=12).map(concat)


def _fields(inner: st.SearchStrategy[Modelled]) -> st.SearchStrategy[Modelled]:
    """Copies of one part at different places, as the fields of a struct."""
    return st.builds(
        lambda part, places: concat([part.shift(at) for at in places]), inner, st.lists(_STRIDES, max_size=12)
    )


def _nested(inner: st.SearchStrategy[Modelled]) -> st.SearchStrategy[Modelled]:
    made = st.one_of(
        _repeated(inner), _contiguous(inner), _shifted(inner), _placed(inner), _placed_regularly(inner),
        _joined(inner), _fields(inner),
    )  # fmt: skip
    return made.filter(lambda part: len(part.addresses) <= _MOST)


#: layouts of any nesting
LAYOUTS: st.SearchStrategy[Modelled] = st.recursive(_LEAVES, _nested, max_leaves=8)


def of_elements(kind: object, memory_nbytes: int, packed_nbytes: int) -> st.SearchStrategy[Modelled]:
    """Layouts of any nesting of elements with a packed form of their own; the model has one address per element."""
    leaf = Modelled(Layout.element(kind, memory_nbytes, packed_nbytes), [0])
    return st.recursive(st.just(leaf), _nested, max_leaves=8)
