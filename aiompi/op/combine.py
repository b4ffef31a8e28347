"""Combining packed vectors with an operation (section 4.9).

Predefined operations work directly on the packed form. A user function receives its vectors in the layout of the
datatype, as the standard requires. For a datatype without gaps, this layout is the packed form.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, TypeAlias

from aiompi.base.lazy import np
from aiompi.datatype.buffer.buffer import is_gapless
from aiompi.datatype.datatype import Datatype
from aiompi.datatype.layout import move
from aiompi.errors import InvalidTypeError

if TYPE_CHECKING:
    from aiompi.op.operation import Op

# Combines packed vectors, one after the other, with the last argument, in place; the vectors come from lower ranks.
Combine: TypeAlias = Callable[[Iterable[bytes | memoryview], memoryview], None]


def combiner(op: Op, datatype: Datatype, count: int) -> Combine:
    """Return a function that combines packed vectors of `count` items of a datatype with an operation.

    Raises:
        InvalidOpError: the operation is OP_NULL.
        InvalidTypeError: items of the datatype begin before their address. The memory that a user function receives
            begins at the address of the first item, so the data before this address would be missing.
    """
    kernel = op.kernel
    if op.is_predefined:
        assert datatype.dtype is not None
        dtype = packed_dtype(datatype.dtype)
    elif is_gapless(datatype):
        dtype, count = np.dtype(np.uint8), count * datatype.size
    else:
        return _spread(op, datatype, count)

    vector = functools.partial(np.ndarray, (count,), dtype)  # type: ignore[arg-type] # a class without type parameters

    def combine(lefts: Iterable[bytes | memoryview], right: memoryview) -> None:
        kernel(map(vector, lefts), vector(right), datatype)

    return combine


@functools.cache
def packed_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the NumPy type of a packed item of a predefined datatype; a packed pair has no padding."""
    if dtype.names is None or dtype.fields is None:
        return dtype
    return np.dtype([(name, dtype.fields[name][0]) for name in dtype.names])


def _spread(op: Op, datatype: Datatype, count: int) -> Combine:
    layout = datatype.layout_of(count)
    if layout.lb < 0:
        raise InvalidTypeError(
            f"items of {datatype} begin {-layout.lb} bytes before their address, which the function of {op.name} "
            "cannot access; pass a datatype whose true lower bound is not negative"
        )
    invec, inoutvec = (np.zeros(max(layout.ub, count * datatype.extent), np.uint8) for _ in range(2))

    def spread(lefts: Iterable[bytes | memoryview]) -> Iterator[np.ndarray[Any, np.dtype[np.uint8]]]:
        for left in lefts:
            move.unpack(layout, memoryview(left), invec.data, 0)
            yield invec

    def combine(lefts: Iterable[bytes | memoryview], right: memoryview) -> None:
        move.unpack(layout, right, inoutvec.data, 0)
        op.kernel(spread(lefts), inoutvec, datatype)
        move.pack(layout, inoutvec.data, 0, right)

    return combine
