"""Layouts of numbers in memory, described by datatypes with and without gaps."""

from __future__ import annotations

import dataclasses

import numpy as np

from aiompi.datatype import INT, Datatype

GAP = -7  # what is in memory that belongs to no item


@dataclasses.dataclass(frozen=True)
class Form:
    """A datatype of integers.

    Attributes:
        datatype: committed.
        offsets: where the integers of an item lie, in the order of the type map, in integers from its address.
        extent: distance of items in integers.
    """

    name: str
    datatype: Datatype
    offsets: tuple[int, ...]
    extent: int

    def __repr__(self):
        return self.name

    def items(self, pairs):
        """Return the number of items that have the integers of `pairs` pairs."""
        return 2 * pairs // len(self.offsets)

    def places(self, first, pairs):
        """Return the index of each integer of some pairs that begin at item `first`."""
        items = first + np.arange(self.items(pairs))
        return (items[:, None] * self.extent + np.array(self.offsets)).ravel()


PLAIN = Form("plain", INT, (0,), 1)
PAIR = Form("pair", INT.Create_contiguous(2).Commit(), (0, 1), 2)
HOLE = Form("hole", INT.Create_resized(0, 12).Commit(), (0,), 3)
GAPS = Form("gaps", INT.Create_vector(2, 1, 2).Create_resized(0, 16).Commit(), (0, 2), 4)
SWAPPED = Form("swapped", INT.Create_indexed_block(1, [3, 1]).Create_resized(0, 20).Commit(), (3, 1), 5)
FORMS = [PLAIN, PAIR, HOLE, GAPS, SWAPPED]
#: those of which an item is a pair
OF_PAIRS = [PAIR, GAPS, SWAPPED]


class Memory:
    """Memory with blocks of pairs in one form; the memory between them must not change.

    Args:
        form: of all blocks.
        counts: number of pairs in each block.
        displs: item at which each begins; by default they follow each other.
    """

    def __init__(self, form, counts, displs=None):
        self.form = form
        self.counts = [form.items(count) for count in counts]
        self.displs = [sum(self.counts[:i]) for i in range(len(counts))] if displs is None else displs
        places = [form.places(displ, count) for displ, count in zip(self.displs, counts, strict=True)]
        end = max((displ + count for displ, count in zip(self.displs, self.counts, strict=True)), default=0)
        self.array = np.full(end * form.extent + 1, GAP, "i")
        self.places = places

    @classmethod
    def apart(cls, form, counts):
        """Blocks in the reverse order, with an item between them."""
        displs, reach = [0] * len(counts), 0
        for block in reversed(range(len(counts))):
            displs[block] = reach
            reach += form.items(counts[block]) + 1
        return cls(form, counts, displs)

    @property
    def spec(self):
        """The memory as a buffer of equal blocks, with the count of one block."""
        return [self.array, self.counts[0], self.form.datatype]

    @property
    def whole(self):
        """The memory as a buffer of one block."""
        return [self.array, sum(self.counts), self.form.datatype]

    @property
    def vector(self):
        """The memory as a buffer of blocks of any lengths."""
        return [self.array, (self.counts, self.displs), self.form.datatype]

    @property
    def typed(self):
        """The memory as blocks with displacements in bytes and a datatype for each."""
        datatype = self.form.datatype
        displs = [displ * datatype.extent for displ in self.displs]
        return [self.array, (self.counts, displs), [datatype] * len(self.counts)]

    def put(self, block, numbers):
        """Fill a block, shape (2 * count,)."""
        self.array[self.places[block]] = numbers

    def get(self, block):
        return self.array[self.places[block]].tolist()

    def blocks(self):
        return [self.get(block) for block in range(len(self.places))]

    def intact(self):
        """Return True if the memory outside of the blocks has not changed."""
        outside = np.ones(len(self.array), bool)
        for places in self.places:
            outside[places] = False
        return bool((self.array[outside] == GAP).all())
