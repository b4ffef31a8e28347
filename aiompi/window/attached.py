"""A table, by address, of the memory that a rank has attached to a dynamic window (MPI-4.1, section 12.2.4)."""

from __future__ import annotations

import bisect

from aiompi.base.unsupported_errors import ERR_RMA_ATTACH
from aiompi.errors import WindowError
from aiompi.window.target import Accessor, Area


class Attached:
    """Regions of memory that do not overlap."""

    __slots__ = ("_regions", "_starts")

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._regions: list[Accessor] = []

    def add(self, memory: memoryview) -> None:
        """Attach a region.

        Raises:
            WindowError: the region is empty, or overlaps an attached one.
        """
        accessor = Accessor(memory)
        start = accessor.address
        index = bisect.bisect_right(self._starts, start)
        end_before = self._starts[index - 1] + self._regions[index - 1].memory.nbytes if index else 0
        next_start = self._starts[index] if index < len(self._starts) else start + memory.nbytes
        if not memory.nbytes or start < end_before or next_start < start + memory.nbytes:
            raise WindowError(
                f"{memory.nbytes} bytes at {start:#x} are empty, or attached already in part", ERR_RMA_ATTACH
            )
        self._starts.insert(index, start)
        self._regions.insert(index, accessor)

    def remove(self, memory: memoryview) -> None:
        """Detach the region that begins where this memory begins.

        Raises:
            WindowError: no attached region begins there.
        """
        start = Accessor(memory).address
        if start not in self._starts:
            raise WindowError(f"no memory at {start:#x} is attached", ERR_RMA_ATTACH)
        index = self._starts.index(start)
        del self._starts[index], self._regions[index]

    def find(self, area: Area) -> tuple[Accessor, Area] | None:
        """Return the region that contains an area, and the area relative to the region; None without such a region."""
        index = bisect.bisect_right(self._starts, area.bounds[0]) - 1
        if index < 0:
            return None
        start, region = self._starts[index], self._regions[index]
        inside = area._replace(start=area.start - start)
        return (region, inside) if inside.within(region.memory.nbytes) else None
