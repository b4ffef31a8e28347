"""Blocks of arrays (section 4.1.3 of MPI-3.1)."""

from __future__ import annotations

import math
from collections.abc import Callable

from aiompi.arguments import integer
from aiompi.constants import COMBINER_SUBARRAY, ORDER_C, ORDER_FORTRAN
from aiompi.datatype import arguments as check
from aiompi.datatype.typemap import F, TypeMap
from aiompi.errors import InvalidArgumentError


def subarray(old: TypeMap, sizes: object, subsizes: object, starts: object, order: object) -> TypeMap:
    """Return the type map of a block of an array; see `Datatype.Create_subarray`."""
    given = {
        "sizes": check.integers(sizes, "sizes"),
        "subsizes": check.integers(subsizes, "subsizes"),
        "starts": check.integers(starts, "starts"),
    }
    check.same_length(**given)
    check_dimensions(given["sizes"].size)
    dims = list(zip(*(values.tolist() for values in given.values()), strict=True))
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
        COMBINER_SUBARRAY, {**given, "order": integer(order, "order")}, (old,), compose, markers=(0, whole)
    )


def check_dimensions(ndims: int) -> None:
    """Raise InvalidArgumentError if an array has no dimensions."""
    if ndims < 1:
        raise InvalidArgumentError("an array has at least 1 dimension, but the sequences are empty")


def direction(order: object) -> int:
    """Return the slice step that lists the dimensions of an array with the fastest one first.

    Raises:
        InvalidArgumentError: `order` is neither ORDER_C nor ORDER_FORTRAN.
    """
    steps = {ORDER_C: -1, ORDER_FORTRAN: 1}
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
