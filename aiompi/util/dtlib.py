"""Between NumPy's types and MPI's datatypes, with the names of mpi4py.util.dtlib."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import numpy as np

from aiompi.datatype import codes
from aiompi.datatype.datatype import Datatype
from aiompi.errors import InvalidTypeError

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["from_numpy_dtype", "to_numpy_dtype"]


def from_numpy_dtype(dtype: npt.DTypeLike) -> Datatype:
    """A datatype with the layout of a NumPy type: the same offsets, shapes and extent.

    Args:
        dtype: NumPy type, or anything numpy.dtype() takes.

    Returns:
        A new datatype, committed; to be freed by the caller.

    Raises:
        ValueError: it is not in native byte order, or no datatype corresponds to it.
    """
    try:
        return _made(np.dtype(dtype)).Dup().Commit()
    except InvalidTypeError as error:
        raise ValueError(str(error)) from error


def to_numpy_dtype(datatype: Datatype) -> np.dtype[Any]:
    """The NumPy type of one item of a datatype: the same elements in the same places, up to its upper bound.

    Raises:
        ValueError: NumPy has no such type: the datatype is null, or has data before its address or beyond its extent.
    """
    try:
        return codes.to_dtype(datatype)
    except InvalidTypeError as error:
        raise ValueError(str(error)) from error


def _made(dtype: np.dtype[Any]) -> Datatype:
    if dtype.subdtype is not None:
        base, shape = dtype.subdtype
        # Not as a subarray, whose bounds would be those of every struct that it is in (section 3.12.3).
        return functools.reduce(Datatype.Create_contiguous, reversed(shape), _made(base))
    if not dtype.names:
        return codes.from_dtype(dtype)
    fields = list(codes.fields_of(dtype))
    struct = Datatype.Create_struct(
        [1] * len(fields), [offset for _, offset in fields], [_made(field) for field, _ in fields]
    )
    return struct if struct.extent == dtype.itemsize else struct.Create_resized(0, dtype.itemsize)
