"""Datatypes of subarrays, and of arrays distributed over processes as in HPF (4.1.3 and 4.1.4 of MPI-3.1).

Every distribution is treated as cyclic. When 11 elements are distributed over 2 processes in blocks of 3, process 1
owns the elements marked #: a full block, and a partial block in the last round.

    0 0 0 # # # 0 0 0 # #
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from aiompi import constants as mpi
from aiompi.base.arguments import integer
from aiompi.datatype import arguments as check
from aiompi.datatype.typemap import Arguments, F, TypeMap
from aiompi.errors import InvalidArgumentError


def subarray(old: TypeMap, sizes: object, subsizes: object, starts: object, order: object) -> TypeMap:
    """Return the type map of a block of an array; see `Datatype.Create_subarray`."""
    given = {
        "sizes": check.few_integers(sizes, "sizes"),
        "subsizes": check.few_integers(subsizes, "subsizes"),
        "starts": check.few_integers(starts, "starts"),
    }
    check.same_length(**given)
    check_dimensions(len(given["sizes"]))
    dims = list(zip(*given.values(), strict=True))
    for axis, (size, subsize, start) in enumerate(dims):
        _check_block(axis, size, subsize, start)
    fastest_first = dims[:: direction(order)]

    def compose(kind: type[F], form: Callable[[TypeMap], F]) -> F:
        block, stride, offset = form(old), old.extent, 0
        for size, subsize, start in fastest_first:
            block = block.repeat(subsize, stride)
            offset += start * stride
            stride *= size
        return block.shift(offset)

    whole = math.prod(size for size, _, _ in dims) * old.extent
    return TypeMap.derived(
        mpi.COMBINER_SUBARRAY, {**given, "order": integer(order, "order")}, (old,), compose, markers=(0, whole)
    )


def check_dimensions(ndims: int) -> None:
    """Raise InvalidArgumentError if an array has no dimensions."""
    if ndims < 1:
        raise InvalidArgumentError("an array has at least 1 dimension, but the sequences are empty")


def direction(order: object) -> int:
    """Return the slice step, 1 or -1, that puts the dimensions of an array in order, the fastest-varying one first.

    Raises:
        InvalidArgumentError: `order` is neither ORDER_C nor ORDER_FORTRAN.
    """
    steps = {mpi.ORDER_C: -1, mpi.ORDER_FORTRAN: 1}
    number = integer(order, "order")
    if number not in steps:
        raise InvalidArgumentError(f"order is {number}: expected ORDER_C or ORDER_FORTRAN")
    return steps[number]


def _check_block(axis: int, size: int, subsize: int, start: int) -> None:
    if not 1 <= subsize <= size:
        raise InvalidArgumentError(f"subsizes[{axis}] is {subsize}: expected 1 to {size}, the size of the array")
    if not 0 <= start <= size - subsize:
        raise InvalidArgumentError(
            f"starts[{axis}] is {start}: expected 0 to {size - subsize}, so that {subsize} elements lie in the "
            f"{size} of the array"
        )


class Cyclic(NamedTuple):
    """The part of one dimension that a process owns.

    Attributes:
        size: elements of the whole array.
        start: first element owned.
        block: elements of a full block.
        period: distance from block to block, in elements.
        full: number of full blocks.
        rest: number of elements of a partial last block; 0 if there is none.
    """

    size: int
    start: int
    block: int
    period: int
    full: int
    rest: int

    @classmethod
    def of(cls, size: int, block: int, position: int, processes: int) -> Cyclic:
        """Return the part of the process at a position in the grid."""
        start, period = position * block, processes * block
        rounds, left = divmod(size, period)
        last = min(max(left - start, 0), block)
        return cls(size, start, block, period, rounds + (last == block), last % block)

    def compose(self, kind: type[F], element: F, stride: int) -> F:
        """Return the form of the owned elements, `stride` bytes apart."""
        full = element.repeat(self.block, stride).repeat(self.full, self.period * stride)
        if self.rest:
            rest = element.repeat(self.rest, stride).shift(self.full * self.period * stride)
            full = kind.concat([full, rest])
        return full.shift(self.start * stride)


def distributed(
    old: TypeMap,
    size: object,
    rank: object,
    gsizes: object,
    distribs: object,
    dargs: object,
    psizes: object,
    order: object,
) -> TypeMap:
    """Return the type map of the elements that one process owns; see `Datatype.Create_darray`."""
    grid = {
        "gsizes": check.few_integers(gsizes, "gsizes"),
        "distribs": check.few_integers(distribs, "distribs"),
        "dargs": check.few_integers(dargs, "dargs"),
        "psizes": check.few_integers(psizes, "psizes"),
    }
    check.same_length(**grid)
    check_dimensions(len(grid["gsizes"]))
    place = {"size": integer(size, "size"), "rank": integer(rank, "rank")}
    position = _position(place["size"], place["rank"], grid["psizes"])
    dims = list(zip(*grid.values(), strict=True))
    owned = [
        Cyclic.of(gsize, _block(axis, gsize, distrib, darg, psize), position[axis], psize)
        for axis, (gsize, distrib, darg, psize) in enumerate(dims)
    ][:: direction(order)]

    def compose(kind: type[F], form: Callable[[TypeMap], F]) -> F:
        part, stride = form(old), old.extent
        for dimension in owned:
            part = dimension.compose(kind, part, stride)
            stride *= dimension.size
        return part

    given: Arguments = {**place, **grid, "order": integer(order, "order")}
    whole = math.prod(dimension.size for dimension in owned) * old.extent
    return TypeMap.derived(mpi.COMBINER_DARRAY, given, (old,), compose, markers=(0, whole))


def _position(size: int, rank: int, psizes: tuple[int, ...]) -> list[int]:
    """Return the coordinates of a process in the grid, which is row-major for both orders."""
    for axis, psize in enumerate(psizes):
        if psize < 1:
            raise InvalidArgumentError(f"psizes[{axis}] is {psize}: expected 1 or more")
    if math.prod(psizes) != size:
        raise InvalidArgumentError(f"size is {size}, but a grid of {list(psizes)} has {math.prod(psizes)} processes")
    if not 0 <= rank < size:
        raise InvalidArgumentError(f"rank is {rank}: expected 0 to {size - 1}")
    position = []
    for psize in reversed(psizes):
        rank, coordinate = divmod(rank, psize)
        position.append(coordinate)
    return position[::-1]


def _block(axis: int, gsize: int, distrib: int, darg: int, psize: int) -> int:
    """Return the number of elements of a block in one dimension."""
    if gsize < 1:
        raise InvalidArgumentError(f"gsizes[{axis}] is {gsize}: expected 1 or more")
    if distrib == mpi.DISTRIBUTE_NONE:
        if psize != 1:
            raise InvalidArgumentError(f"psizes[{axis}] is {psize}: expected 1 where there is no distribution")
        return gsize
    if distrib not in (mpi.DISTRIBUTE_BLOCK, mpi.DISTRIBUTE_CYCLIC):
        raise InvalidArgumentError(
            f"distribs[{axis}] is {distrib}: expected DISTRIBUTE_BLOCK, DISTRIBUTE_CYCLIC or DISTRIBUTE_NONE"
        )
    if darg == mpi.DISTRIBUTE_DFLT_DARG:
        return -(-gsize // psize) if distrib == mpi.DISTRIBUTE_BLOCK else 1
    if darg < 1:
        raise InvalidArgumentError(f"dargs[{axis}] is {darg}: expected 1 or more, or DISTRIBUTE_DFLT_DARG")
    if distrib == mpi.DISTRIBUTE_BLOCK and darg * psize < gsize:
        raise InvalidArgumentError(
            f"dargs[{axis}] is {darg}: {psize} blocks of {darg} elements do not cover the {gsize} elements of the array"
        )
    return darg
