"""Cartesian topologies: grids of processes, open or closed in each dimension (section 6.5 without 6.5.3)."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Sequence
from itertools import compress
from typing import ClassVar

from aiompi.base.arguments import integer, integers, several
from aiompi.constants import CART, PROC_NULL, UNDEFINED
from aiompi.errors import InvalidArgumentError, InvalidDimsError, InvalidRankError


@dataclasses.dataclass(frozen=True, slots=True)
class Cartesian:
    """A grid of processes. Ranks are in row-major order, like the elements of a C array.

    Ranks in a grid of 2 x 3:

               direction 1
               0   1   2
        dir 0  3   4   5

    Attributes:
        dims: number of processes along each dimension.
        periods: for each dimension, True if the last process is a neighbour of the first.
    """

    kind: ClassVar[int] = CART

    dims: tuple[int, ...]
    periods: tuple[bool, ...]

    @classmethod
    def create(cls, dims: Sequence[int], periods: Sequence[bool] | bool | None, size: int) -> Cartesian:
        """Make a grid from the arguments of MPI_Cart_create (section 6.5.1).

        Args:
            dims: number of processes along each dimension; empty for a grid of one process.
            periods: one for each dimension, or one for all.
            size: number of processes; the grid may leave some out.

        Raises:
            InvalidDimsError: a dimension is not positive, or the grid needs more processes than there are.
            InvalidArgumentError: dims and periods have different lengths.
            TypeError: an argument has another type.
        """
        dims = integers(dims, "dims")
        one_for_all = periods is None or isinstance(periods, bool)
        closed = [periods] * len(dims) if one_for_all else several(periods, "periods", "booleans")
        if len(closed) != len(dims):
            raise InvalidArgumentError(f"{len(closed)} periods for {len(dims)} dimensions: give one for each")
        if any(dim < 1 for dim in dims):
            raise InvalidDimsError(f"the dimensions of a grid must be positive, not {list(dims)}")
        if math.prod(dims) > size:
            raise InvalidDimsError(f"a grid of {' x '.join(map(str, dims))} processes: there are only {size}")
        return cls(dims, tuple(map(bool, closed)))

    @property
    def nnodes(self) -> int:
        """Processes in the grid."""
        return math.prod(self.dims)

    @property
    def ndims(self) -> int:
        """Number of dimensions."""
        return len(self.dims)

    def map(self, rank: int) -> int:
        """Translate a rank of the old communicator to a rank in the grid; UNDEFINED if the grid leaves the rank out.

        (MPI_Cart_map, section 6.5.7.) Ranks are not reordered, since nothing is known of the hardware.
        """
        return rank if rank < self.nnodes else UNDEFINED

    def coords(self, rank: int) -> list[int]:
        """Return the coordinates of a process, counted from 0 (MPI_Cart_coords, section 6.5.4).

        Raises:
            InvalidRankError: there is no such rank.
            TypeError: the rank is not an integer.
        """
        if not 0 <= integer(rank, "rank") < self.nnodes:
            raise InvalidRankError(f"rank {rank} is not in 0..{self.nnodes - 1}, those of the grid")
        coords = []
        for dim in reversed(self.dims):
            rank, coord = divmod(rank, dim)
            coords.append(coord)
        return coords[::-1]

    def rank(self, coords: Sequence[int]) -> int:
        """Return the rank of the process at some coordinates (MPI_Cart_rank, section 6.5.4).

        Args:
            coords: one coordinate for each dimension. In a periodic dimension any integer is valid, and wraps around.

        Raises:
            InvalidArgumentError: a coordinate is outside a dimension that is not periodic, or the number of coordinates
                differs from the number of dimensions.
            TypeError: not a sequence of integers.
        """
        coords = integers(coords, "coords")
        if len(coords) != self.ndims:
            raise InvalidArgumentError(f"{len(coords)} coordinates in a grid of {self.ndims} dimensions")
        rank = 0
        for direction, (coord, dim, periodic) in enumerate(zip(coords, self.dims, self.periods, strict=True)):
            if not periodic and not 0 <= coord < dim:
                raise InvalidArgumentError(
                    f"coordinate {coord} in direction {direction} is not in 0..{dim - 1}, and the grid is not periodic"
                )
            rank = rank * dim + coord % dim
        return rank

    def shift(self, rank: int, direction: int, disp: int) -> tuple[int, int]:
        """Return the source and the destination of a shift of data (MPI_Cart_shift, section 6.5.5).

        Args:
            direction: dimension along which to shift, from 0.
            disp: distance; negative for the other direction.

        Returns:
            (source, dest) for Sendrecv: PROC_NULL beyond an open border.

        Raises:
            InvalidDimsError: there is no such direction.
            TypeError: an argument is not an integer.
        """
        disp = integer(disp, "disp")
        if not 0 <= integer(direction, "direction") < self.ndims:
            raise InvalidDimsError(f"direction {direction} in a grid of {self.ndims} dimensions: they count from 0")
        coords = self.coords(rank)
        return self._beside(coords, direction, -disp), self._beside(coords, direction, disp)

    def _beside(self, coords: list[int], direction: int, disp: int) -> int:
        there = [*coords]
        there[direction] += disp
        if not self.periods[direction] and not 0 <= there[direction] < self.dims[direction]:
            return PROC_NULL
        return self.rank(there)

    def sub(self, rank: int, remain_dims: Sequence[bool]) -> tuple[Cartesian, list[int]]:
        """Return the subgrid of a process when some dimensions are dropped (MPI_Cart_sub, section 6.5.6).

        Args:
            remain_dims: for each dimension, True if it is kept.

        Returns:
            The subgrid, and the ranks of its processes in this grid, in the order of their ranks in the subgrid.

        Raises:
            InvalidArgumentError: the number of items is not the number of dimensions.
            TypeError: not a sequence.
        """
        remain = several(remain_dims, "remain_dims", "booleans")
        if len(remain) != self.ndims:
            raise InvalidArgumentError(
                f"remain_dims has {len(remain)} items for {self.ndims} dimensions: give one for each"
            )
        ranks = [0]
        for coord, dim, keep in zip(self.coords(rank), self.dims, remain, strict=True):
            ranks = [rank * dim + place for rank in ranks for place in (range(dim) if keep else (coord,))]
        return Cartesian(tuple(compress(self.dims, remain)), tuple(compress(self.periods, remain))), ranks

    def neighbors(self, rank: int) -> tuple[list[int], list[int]]:
        """Return the sources and destinations of neighbourhood collectives (section 7.6 of MPI-3.1).

        Returns:
            (sources, destinations). Sources and destinations are the same list: for each dimension the previous
            process, then the next process; PROC_NULL beyond a border.
        """
        beside = [other for direction in range(self.ndims) for other in self.shift(rank, direction, 1)]
        return beside, beside


def Compute_dims(nnodes: int, dims: int | Sequence[int]) -> list[int]:
    """Choose dimensions of a grid that are as equal as possible (MPI_Dims_create, section 6.5.2).

    Args:
        nnodes: processes in the grid.
        dims: number of dimensions, or a list with one item for each dimension: its size, or 0 if the size is to be
            chosen.

    Returns:
        The dimensions. The chosen dimensions are in descending order; the first is as small as possible, then the
        second, and so on.

    Raises:
        TypeError: an argument has another type.
        InvalidDimsError: nnodes is not positive, a dimension is negative, or the given dimensions do not divide nnodes.
    """
    nnodes = integer(nnodes, "Compute_dims: nnodes")
    given = [0] * dims if isinstance(dims, int) else list(integers(dims, "Compute_dims: dims"))
    if nnodes < 1:
        raise InvalidDimsError(f"a grid of {nnodes} processes: there must be at least one")
    if any(dim < 0 for dim in given):
        raise InvalidDimsError(f"dimensions {given}: give 0 for each dimension to be chosen, and no negative one")
    rest, remainder = divmod(nnodes, math.prod(dim for dim in given if dim))
    wanted = given.count(0)
    if remainder or (not wanted and rest != 1):
        raise InvalidDimsError(f"{nnodes} processes cannot be distributed over a grid of {given}, 0: to be chosen")
    found = iter(_factors(rest, wanted, rest) or [])
    return [dim or next(found) for dim in given]


def _factors(product: int, count: int, largest: int) -> list[int] | None:
    """Return `count` non-increasing factors of a product, none above `largest`, the first as small as possible."""
    divisors = sorted(
        d for low in range(1, math.isqrt(product) + 1) if product % low == 0 for d in {low, product // low}
    )

    @functools.cache
    def search(product: int, count: int, largest: int) -> list[int] | None:
        if count == 0:
            return [] if product == 1 else None
        for factor in divisors:
            if factor > largest:
                break
            if product % factor == 0 and factor**count >= product:
                others = search(product // factor, count - 1, factor)
                if others is not None:
                    return [factor, *others]
        return None

    return search(product, count, largest)
