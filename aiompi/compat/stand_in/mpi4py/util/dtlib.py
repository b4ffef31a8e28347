"""Between datatypes and numpy's types."""

from __future__ import annotations

from typing import Any

import numpy as np

from aiompi.datatype import Datatype
from aiompi.datatype.codes import from_dtype, to_dtype


def from_numpy_dtype(dtype: Any) -> Datatype:
    """A datatype laid out as a numpy type, not committed.

    Raises:
        ValueError: the type holds objects, or is not in native byte order.
    """
    given = np.dtype(dtype)
    if given.hasobject or not given.isnative:
        what = "holds references to objects" if given.hasobject else "is not in native byte order"
        raise ValueError(f"numpy type {given} {what}")
    return from_dtype(given).Dup()


def to_numpy_dtype(datatype: Datatype) -> np.dtype[Any]:
    """The numpy type of one item of a datatype.

    Raises:
        ValueError: no numpy type can describe it.
    """
    try:
        return to_dtype(datatype)
    except Exception as error:
        raise ValueError(str(error)) from None
