"""The plainest model of a datatype: the list of its entries, each a basic type or marker and a displacement."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from hypothesis import strategies as st

from aiompi import datatype as mpi
from aiompi.constants import ORDER_C, ORDER_FORTRAN
from aiompi.datatype import LB, UB, Datatype

Entry = tuple[Datatype, int]


class Model(NamedTuple):
    """A datatype, and the entries that it must have."""

    datatype: Datatype
    entries: list[Entry]

    @property
    def data(self) -> list[Entry]:
        return [entry for entry in self.entries if entry[0] not in (LB, UB)]

    @property
    def alignment(self) -> int:
        return max((alignment_of(basic) for basic, _ in self.data), default=1)

    @property
    def lb(self) -> int:
        markers = [at for basic, at in self.entries if basic is LB]
        upper = [max((at for basic, at in self.entries if basic is UB), default=0)]
        return min(markers or [at for _, at in self.data] or upper)

    @property
    def ub(self) -> int:
        markers = [at for basic, at in self.entries if basic is UB]
        if markers or not self.data:
            return max(markers, default=self.lb)
        end = max(at + basic.size for basic, at in self.data)
        return self.lb + math.ceil((end - self.lb) / self.alignment) * self.alignment

    @property
    def extent(self) -> int:
        return self.ub - self.lb

    def at(self, places: Sequence[int]) -> list[Entry]:
        """The entries of copies at these displacements."""
        return [(basic, place + at) for place in places for basic, at in self.entries]

    def block(self, length: int, start: int) -> list[int]:
        """Displacements of so many copies, an extent apart."""
        return [start + i * self.extent for i in range(length)]

    def contiguous(self, count: int) -> Model:
        return Model(self.datatype.Create_contiguous(count), self.at(self.block(count, 0)))

    def vector(self, count: int, length: int, stride: int) -> Model:
        made = self.datatype.Create_vector(count, length, stride)
        return Model(made, self.hvector(count, length, stride * self.extent).entries)

    def hvector(self, count: int, length: int, stride: int) -> Model:
        places = [place for i in range(count) for place in self.block(length, i * stride)]
        return Model(self.datatype.Create_hvector(count, length, stride), self.at(places))

    def indexed(self, lengths: Sequence[int], displacements: Sequence[int]) -> Model:
        made = self.datatype.Create_indexed(lengths, displacements)
        return Model(made, self.hindexed(lengths, [at * self.extent for at in displacements]).entries)

    def hindexed(self, lengths: Sequence[int], displacements: Sequence[int]) -> Model:
        blocks = zip(lengths, displacements, strict=True)
        places = [place for length, start in blocks for place in self.block(length, start)]
        return Model(self.datatype.Create_hindexed(lengths, displacements), self.at(places))

    def indexed_block(self, length: int, displacements: Sequence[int]) -> Model:
        made = self.datatype.Create_indexed_block(length, displacements)
        return Model(made, self.indexed([length] * len(displacements), displacements).entries)

    def hindexed_block(self, length: int, displacements: Sequence[int]) -> Model:
        made = self.datatype.Create_hindexed_block(length, displacements)
        return Model(made, self.hindexed([length] * len(displacements), displacements).entries)

    def resized(self, lb: int, extent: int) -> Model:
        return Model(self.datatype.Create_resized(lb, extent), [(LB, lb), *self.data, (UB, lb + extent)])

    def dup(self) -> Model:
        return Model(self.datatype.Dup(), self.entries)

    def subarray(self, sizes: Sequence[int], subsizes: Sequence[int], starts: Sequence[int], order: int) -> Model:
        ranges = [range(start, start + n) for start, n in zip(starts, subsizes, strict=True)]
        made = self.datatype.Create_subarray(sizes, subsizes, starts, order)
        return Model(made, self.selected(sizes, ranges, order))

    def selected(self, sizes: Sequence[int], indices: Sequence[Sequence[int]], order: int) -> list[Entry]:
        """The entries of the elements with these indices in an array, in memory order, between the array's bounds."""
        positions = np.arange(math.prod(sizes)).reshape(sizes, order="C" if order == ORDER_C else "F")
        chosen = positions[np.ix_(*indices)].flatten(order="C" if order == ORDER_C else "F").tolist()
        data = Model(self.datatype, self.data).at([position * self.extent for position in chosen])
        return [(LB, 0), *data, (UB, math.prod(sizes) * self.extent)]


def struct(lengths: Sequence[int], displacements: Sequence[int], parts: Sequence[Model]) -> Model:
    made = Datatype.Create_struct(lengths, displacements, [part.datatype for part in parts])
    blocks = zip(lengths, displacements, parts, strict=True)
    return Model(made, [entry for length, start, part in blocks for entry in part.at(part.block(length, start))])


def basic(datatype: Datatype) -> Model:
    """A basic type; a pair is the struct of its two elements; a marker is itself."""
    names = datatype.dtype.names if datatype.dtype is not None else None
    if not names or datatype.dtype is None or datatype.dtype.fields is None:
        return Model(datatype, [(datatype, 0)])
    value, index = next(parts for pair, *parts in PAIRS if pair == datatype)
    return Model(datatype, [(value, 0), (index, datatype.dtype.fields["index"][1])])


PAIRS = [(mpi.DOUBLE_INT, mpi.DOUBLE, mpi.INT), (mpi.SHORT_INT, mpi.SHORT, mpi.INT), (mpi.TWOINT, mpi.INT, mpi.INT)]


def alignment_of(datatype: Datatype) -> int:
    """Of what C aligns to its size, and of complex numbers, which it aligns to their parts."""
    return datatype.size // 2 if "COMPLEX" in datatype.name else datatype.size


def addresses_of(entries: Sequence[Entry]) -> list[int]:
    """Where each byte of the message lies in memory."""
    return [at + i for kind, at in entries for i in range(kind.size)]


def addresses(datatype: Datatype) -> list[int]:
    """The same, as the layout of a datatype has it."""
    memory, packed, lengths = datatype.layout.runs()
    found = [start + i for start, n in zip(memory.tolist(), lengths.tolist(), strict=True) for i in range(n)]
    assert packed.tolist() == [0, *itertools.accumulate(lengths.tolist())][: len(packed)]
    return found


def check(model: Model) -> None:
    """Everything that a type map says of a datatype."""
    made, data = model.datatype, model.data
    assert (made.lb, made.ub, made.extent) == (model.lb, model.ub, model.extent)
    assert made.Get_extent() == (model.lb, model.extent)
    first = min((at for _, at in data), default=0)
    last = max((at + kind.size for kind, at in data), default=0)
    assert (made.true_lb, made.true_ub, made.Get_true_extent()) == (first, last, (first, last - first))
    assert made.alignment == model.alignment
    assert made.size == made.Get_size() == made.signature.size == made.layout.size == sum(k.size for k, _ in data)
    assert made.signature.count == len(data)
    assert [kind for kind, n in made.signature for _ in range(n)] == [kind for kind, _ in data]
    assert addresses(made) == addresses_of(data)


BASICS = [
    mpi.BYTE, mpi.CHAR, mpi.SHORT, mpi.INT, mpi.DOUBLE, mpi.LONG_DOUBLE, mpi.C_FLOAT_COMPLEX, mpi.C_DOUBLE_COMPLEX,
    *(pair for pair, *_ in PAIRS),
]  # fmt: skip
LEAVES = st.sampled_from([basic(datatype) for datatype in BASICS])
MARKERS = st.sampled_from([basic(LB), basic(UB)])
COUNTS = st.integers(0, 4)
STEPS = st.integers(-6, 6)
BYTES = st.integers(-40, 40)
MOST_ENTRIES = 300


@st.composite
def _indexed(draw: st.DrawFn, inner: st.SearchStrategy[Model]) -> Model:
    part = draw(inner)
    displacements = draw(st.lists(STEPS, max_size=5))
    lengths = draw(st.lists(COUNTS, min_size=len(displacements), max_size=len(displacements)))
    return draw(st.sampled_from([part.indexed, part.hindexed]))(lengths, displacements)


@st.composite
def _struct(draw: st.DrawFn, inner: st.SearchStrategy[Model]) -> Model:
    parts = draw(st.lists(inner | MARKERS, max_size=5))
    times = draw(st.integers(1, 2))  # the same type may come several times in succession
    parts = [part for part in parts for _ in range(times)]
    lengths, displacements = (st.lists(n, min_size=len(parts), max_size=len(parts)) for n in (COUNTS, BYTES))
    return struct(draw(lengths), draw(displacements), parts)


@st.composite
def _subarray(draw: st.DrawFn, inner: st.SearchStrategy[Model]) -> Model:
    sizes = draw(st.lists(st.integers(1, 5), min_size=1, max_size=3))
    starts = [draw(st.integers(0, size - 1)) for size in sizes]
    subsizes = [draw(st.integers(1, size - start)) for size, start in zip(sizes, starts, strict=True)]
    return draw(inner).subarray(sizes, subsizes, starts, draw(st.sampled_from([ORDER_C, ORDER_FORTRAN])))


def _nested(inner: st.SearchStrategy[Model]) -> st.SearchStrategy[Model]:
    made = st.one_of(
        st.builds(Model.contiguous, inner, COUNTS),
        st.builds(Model.vector, inner, COUNTS, COUNTS, STEPS),
        st.builds(Model.hvector, inner, COUNTS, COUNTS, BYTES),
        _indexed(inner),
        st.builds(Model.indexed_block, inner, COUNTS, st.lists(STEPS, max_size=5)),
        st.builds(Model.hindexed_block, inner, COUNTS, st.lists(BYTES, max_size=5)),
        _struct(inner),
        st.builds(Model.resized, inner, BYTES, BYTES),
        st.builds(Model.dup, inner),
        _subarray(inner),
    )
    return made.filter(lambda model: len(model.entries) <= MOST_ENTRIES)


#: datatypes of any nesting
MODELS: st.SearchStrategy[Model] = st.recursive(LEAVES, _nested, max_leaves=6)
