"""The choice of the dimensions of a grid (section 6.5.2)."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

from aiompi.arguments import integer, integers
from aiompi.errors import InvalidDimsError


def Compute_dims(nnodes: int, dims: int | Sequence[int]) -> list[int]:
    """Distribute processes over the dimensions of a grid as evenly as possible (MPI_Dims_create, section 6.5.2).

    Args:
        nnodes: processes in the grid.
        dims: number of dimensions, or one item for each: 0 for a dimension to be chosen, else its size.

    Returns:
        The dimensions. The chosen ones do not increase; the largest is as small as possible, then the next one.

    Raises:
        TypeError: an argument has another type.
        InvalidDimsError: nnodes is not positive, a dimension is negative, or the given ones do not divide nnodes.
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
