"""Between datatypes and numpy's types."""

from __future__ import annotations

from typing import Any

import numpy as np

from aiompi.constants import COMBINER_DUP, COMBINER_SUBARRAY, ORDER_FORTRAN
from aiompi.datatype import Datatype
from aiompi.datatype.codes import from_dtype, to_dtype
from aiompi.errors import InvalidTypeError
from aiompi.util import dtlib


def from_numpy_dtype(dtype: Any) -> Datatype:
    """A datatype laid out as a numpy type.

    Raises:
        ValueError: the type holds objects, has no length, or is not in native byte order.
    """
    given = np.dtype(dtype)
    if given.hasobject or not given.isnative or not given.itemsize:
        raise ValueError(f"no datatype corresponds to numpy type {given!r}")
    if given.names is not None:
        return dtlib.from_numpy_dtype(given)
    if given.subdtype is None:
        return from_dtype(given).Dup()
    base, shape = given.subdtype
    element = from_numpy_dtype(base)
    if len(shape) == 1:
        return element.Create_contiguous(shape[0])
    return element.Create_subarray(shape, shape, [0] * len(shape))


def to_numpy_dtype(datatype: Datatype) -> np.dtype[Any]:
    """The numpy type of one item of a datatype.

    Raises:
        ValueError: no numpy type can describe it.
    """
    try:
        return _whole_array(datatype) or _pair(datatype) or to_dtype(datatype)
    except InvalidTypeError as error:
        raise ValueError(str(error)) from None


def _whole_array(datatype: Datatype) -> np.dtype[Any] | None:
    """That of a subarray which is all of its array."""
    while datatype and datatype.combiner == COMBINER_DUP:
        datatype = datatype.decode()[0]
    if not datatype or datatype.combiner != COMBINER_SUBARRAY:
        return None
    element, _, given = datatype.decode()
    if given["sizes"] != given["subsizes"] or any(given["starts"]):
        return None
    shape = given["sizes"][::-1] if given["order"] == ORDER_FORTRAN else given["sizes"]
    return np.dtype((to_numpy_dtype(element), tuple(shape)))


def _pair(datatype: Datatype) -> np.dtype[Any] | None:
    """That of a predefined pair, with fields named as those of other structs."""
    dtype = datatype.dtype if datatype and datatype.is_named else None
    if dtype is None or dtype.names is None:
        return None
    return np.dtype([(f"f{i}", dtype[name]) for i, name in enumerate(dtype.names)], align=True)
