"""Conversion between NumPy types and MPI datatypes, with the names of mpi4py.util.dtlib."""

from __future__ import annotations

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
        A new committed datatype, which the caller frees. Structured types become structs. Arrays in them become
        contiguous datatypes, or subarrays if they have several dimensions.

    Raises:
        ValueError: the NumPy type is not in native byte order, has an item size of 0, or has no corresponding datatype.
    """
    given = np.dtype(dtype)
    if not given.itemsize:
        raise ValueError(f"no datatype corresponds to numpy type {given!r}, which has no length")
    try:
        made = _made(given)
        return made.Commit() if given.subdtype or given.names else made.Dup()
    except InvalidTypeError as error:
        raise ValueError(str(error)) from error


def to_numpy_dtype(datatype: Datatype) -> np.dtype[Any]:
    """Return the NumPy type with the layout of one item of a datatype: the same elements at the same offsets.

    The item size of the NumPy type is the extent of the datatype, or the upper bound if data lie beyond the extent.

    Raises:
        ValueError: no NumPy type has this layout: the datatype is null, or has data before its address or beyond its
            upper bound.
    """
    try:
        return _pair(datatype) or codes.to_dtype(datatype)
    except InvalidTypeError as error:
        raise ValueError(str(error)) from error


def _made(dtype: np.dtype[Any]) -> Datatype:
    if dtype.subdtype is not None:
        base, shape = dtype.subdtype
        element = _made(base)
        if len(shape) == 1:
            return element.Create_contiguous(shape[0])
        return element.Create_subarray(shape, shape, [0] * len(shape))
    if not dtype.names:
        return codes.from_dtype(dtype)
    fields = list(codes.fields_of(dtype))
    struct = Datatype.Create_struct(
        [1] * len(fields), [offset for _, offset in fields], [_made(field) for field, _ in fields]
    )
    return struct.Create_resized(0, dtype.itemsize)


def _pair(datatype: Datatype) -> np.dtype[Any] | None:
    """Return the NumPy type of a predefined pair such as FLOAT_INT, with the field names f0 and f1; otherwise None."""
    dtype = datatype.dtype if datatype and datatype.is_named else None
    if dtype is None or dtype.names is None:
        return None
    return np.dtype([(f"f{i}", dtype[name]) for i, name in enumerate(dtype.names)], align=True)
