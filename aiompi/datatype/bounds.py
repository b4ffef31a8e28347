"""Bounds of a type map (sections 3.12.2 and 3.12.3; 4.1.6 of MPI-3.1).

Without markers, a type map extends from its first byte to its last, and its upper bound is padded (eps in the standard)
until the extent is a multiple of the strictest alignment. A marker replaces the bound, without padding. Markers are
moved and repeated like all other entries, and the outermost marker determines the bound.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from aiompi.datatype.arguments import Integers


class Bounds(NamedTuple):
    """Bounds in bytes, relative to the address of the item.

    Attributes:
        first: start of the lowest entry; None if there is no entry.
        last: end of the highest entry; None if there is no entry.
        alignment: strictest alignment of an entry; 1 if there is no entry.
        lower: position of the lowest LB marker, or None.
        upper: position of the highest UB marker, or None.
    """

    first: int | None = None
    last: int | None = None
    alignment: int = 1
    lower: int | None = None
    upper: int | None = None

    @property
    def lb(self) -> int:
        """Lower bound. A type map that has only an upper marker begins at the marker."""
        if self.lower is not None:
            return self.lower
        if self.first is not None:
            return self.first
        return self.upper or 0

    @property
    def ub(self) -> int:
        """Upper bound, eps included. A type map that has only a lower marker ends at the marker."""
        if self.upper is not None:
            return self.upper
        if self.last is None:
            return self.lb
        return self.last + (self.lb - self.last) % self.alignment

    def repeat(self, count: int, stride: int) -> Bounds:
        """Return the bounds of `count` copies, at 0, stride, 2 * stride ... bytes."""
        if count == 0:
            return EMPTY
        end = (count - 1) * stride
        return self._spread(min(0, end), max(0, end))

    def place(self, displacements: Integers, lengths: Integers | int, extent: int) -> Bounds:
        """Return the bounds of blocks: `lengths[i]` copies, `extent` bytes apart, begin at `displacements[i]`."""
        if isinstance(lengths, int):
            if lengths == 0 or not displacements.size:
                return EMPTY
            end = (lengths - 1) * extent
            return self._spread(int(displacements.min()) + min(0, end), int(displacements.max()) + max(0, end))
        there = lengths > 0
        starts = displacements[there]
        if not starts.size:
            return EMPTY
        ends = starts + (lengths[there] - 1) * extent
        return self._spread(int(min(starts.min(), ends.min())), int(max(starts.max(), ends.max())))

    def shift(self, nbytes: int) -> Bounds:
        """Return the bounds of the same type map, moved up by `nbytes`."""
        return self._spread(nbytes, nbytes)

    @staticmethod
    def concat(parts: Iterable[Bounds]) -> Bounds:
        """Return the bounds of several type maps together."""
        columns = list(zip(*parts, strict=True)) or [()] * 5
        first, last, alignment, lower, upper = ([value for value in column if value is not None] for column in columns)
        return Bounds(
            min(first, default=None),
            max(last, default=None),
            max(alignment, default=1),
            min(lower, default=None),
            max(upper, default=None),
        )

    def marked(self, lb: int, ub: int) -> Bounds:
        """Return the bounds of the same entries with new markers instead of the earlier ones."""
        return self._replace(lower=lb, upper=ub)

    def _spread(self, lowest: int, highest: int) -> Bounds:
        """Return the bounds of several copies; the lowest copy is at `lowest`, the highest copy is at `highest`."""
        return Bounds(
            None if self.first is None else self.first + lowest,
            None if self.last is None else self.last + highest,
            self.alignment,
            None if self.lower is None else self.lower + lowest,
            None if self.upper is None else self.upper + highest,
        )


EMPTY: Final = Bounds()
