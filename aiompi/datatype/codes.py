"""From the type codes of numpy, PEP 3118 and mpi4py to datatypes."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from aiompi.datatype import predefined as mpi
from aiompi.datatype.predefined import Datatype
from aiompi.errors import InvalidTypeError

if TYPE_CHECKING:
    import numpy.typing as npt

# The codes of mpi4py: PEP 3118 letters first, then numpy's letters with a size.
CODES: Final[dict[str, Datatype]] = {
    "?": mpi.C_BOOL,
    "b": mpi.SIGNED_CHAR, "h": mpi.SHORT, "i": mpi.INT, "l": mpi.LONG, "q": mpi.LONG_LONG,
    "B": mpi.UNSIGNED_CHAR, "H": mpi.UNSIGNED_SHORT, "I": mpi.UNSIGNED,
    "L": mpi.UNSIGNED_LONG, "Q": mpi.UNSIGNED_LONG_LONG,
    "n": mpi.COUNT, "N": mpi.UNSIGNED_LONG, "p": mpi.AINT, "P": mpi.UNSIGNED_LONG,
    "e": mpi.REAL2, "f": mpi.FLOAT, "d": mpi.DOUBLE, "g": mpi.LONG_DOUBLE,
    "F": mpi.C_FLOAT_COMPLEX, "D": mpi.C_DOUBLE_COMPLEX, "G": mpi.C_LONG_DOUBLE_COMPLEX,
    "Zf": mpi.C_FLOAT_COMPLEX, "Zd": mpi.C_DOUBLE_COMPLEX, "Zg": mpi.C_LONG_DOUBLE_COMPLEX,
    "c": mpi.CHAR, "a": mpi.CHAR, "s": mpi.CHAR, "1s": mpi.CHAR, "S": mpi.CHAR, "S1": mpi.CHAR,
    "w": mpi.WCHAR, "1w": mpi.WCHAR, "U": mpi.WCHAR, "U1": mpi.WCHAR,
    "m": mpi.INT64_T, "m8": mpi.INT64_T, "M": mpi.INT64_T, "M8": mpi.INT64_T,
    "b1": mpi.C_BOOL,
    "i1": mpi.INT8_T, "i2": mpi.INT16_T, "i4": mpi.INT32_T, "i8": mpi.INT64_T,
    "u1": mpi.UINT8_T, "u2": mpi.UINT16_T, "u4": mpi.UINT32_T, "u8": mpi.UINT64_T,
    "f2": mpi.REAL2, "f4": mpi.FLOAT, "f8": mpi.DOUBLE,
    "c8": mpi.C_FLOAT_COMPLEX, "c16": mpi.C_DOUBLE_COMPLEX,
    f"f{mpi.LONG_DOUBLE.size}": mpi.LONG_DOUBLE,
    f"c{mpi.C_LONG_DOUBLE_COMPLEX.size}": mpi.C_LONG_DOUBLE_COMPLEX,
}  # fmt: skip

# numpy's one-letter type characters of the types that have one size. Eight-bit integers are numbers in
# numpy, so they map to the types that can be reduced; section 4.9.2 excludes the C characters.
BY_CHAR: Final[dict[str, Datatype]] = {
    **{char: CODES[char] for char in "?hilqHILQefdgFDGcmM"},
    "b": mpi.INT8_T,
    "B": mpi.UINT8_T,
}

# Formats of memory that is not a numpy array: plain memory is bytes, and "u" is what ctypes calls wchar_t.
_FORMATS: Final = CODES | {"B": mpi.BYTE, "b": mpi.INT8_T, "u": mpi.WCHAR}

_ORDERS: Final = "@=|<>!"
_FOREIGN_ORDERS: Final = ">!" if sys.byteorder == "little" else "<"


def _split(code: str) -> tuple[str, str]:
    """Byte order, or nothing, and the rest of a code."""
    return (code[0], code[1:]) if code[:1] and code[0] in _ORDERS else ("", code)


def _foreign(order: str) -> bool:
    return order != "" and order in _FOREIGN_ORDERS


def _layout(dtype: np.dtype[Any]) -> tuple[object, ...]:
    """Size, types and offsets of a structured type; the size alone for any other."""
    if dtype.names is None or dtype.fields is None:
        return (dtype.itemsize,)
    fields = [dtype.fields[name] for name in dtype.names]
    return dtype.itemsize, *((field[0].str, field[1]) for field in fields)


# Pairs are recognised by layout, whatever their fields are called. 2INTEGER has the layout of 2INT.
_PAIRS: Final[dict[tuple[object, ...], Datatype]] = {
    _layout(pair.dtype): pair
    for pair in (
        mpi.FLOAT_INT, mpi.DOUBLE_INT, mpi.LONG_INT, mpi.TWOINT, mpi.SHORT_INT, mpi.LONG_DOUBLE_INT,
        mpi.TWOREAL, mpi.TWODOUBLE_PRECISION,
    )
    if pair.dtype is not None
}  # fmt: skip


def from_code(code: str) -> Datatype:
    """Datatype of a type code.

    Args:
        code: as in mpi4py: a letter of PEP 3118 or numpy ("d", "i", "Zd"), or numpy's letter and
            size ("i4", "f8", "c16"); a prefix for the native byte order is allowed.

    Raises:
        InvalidTypeError: unknown code, or the byte order of another machine.
    """
    order, plain = _split(code)
    datatype = CODES.get(plain)
    if datatype is None:
        raise InvalidTypeError(
            f"unknown type code {code!r}; pass a Datatype, or a code of numpy or PEP 3118 such as 'd' or 'i4'"
        )
    if _foreign(order) and datatype.size > 1:
        raise InvalidTypeError(f"type code {code!r} is not in native byte order; convert the data and use {plain!r}")
    return datatype


def from_dtype(dtype: npt.DTypeLike) -> Datatype:
    """Datatype of a numpy type.

    Args:
        dtype: numpy type or anything numpy.dtype() takes. Structured types are accepted when they
            have the layout of a pair of section 4.9.3 (two fields, aligned as in C).

    Raises:
        InvalidTypeError: not in native byte order, or no predefined type corresponds.
    """
    dtype = np.dtype(dtype)
    if not dtype.isnative:
        raise InvalidTypeError(
            f"numpy type {dtype.str} is not in native byte order; "
            "convert with array.astype(array.dtype.newbyteorder('='))"
        )
    datatype = BY_CHAR.get(dtype.char) or _PAIRS.get(_layout(dtype))
    if datatype is None and dtype.kind in "SU":
        datatype = CODES.get(dtype.str[1:])
    if datatype is None:
        raise InvalidTypeError(
            f"no MPI datatype corresponds to numpy type {dtype}; name one, as in [array, BYTE] for raw bytes, "
            "or use the methods for objects (lower-case names)"
        )
    return datatype


def from_format(view: memoryview) -> Datatype:
    """Datatype of the elements of a memoryview, by its PEP 3118 format; plain bytes are BYTE.

    Raises:
        InvalidTypeError: as `from_dtype`.
    """
    order, plain = _split(view.format)
    datatype = _FORMATS.get(plain)
    if datatype is not None and datatype.extent == view.itemsize and not _foreign(order):
        return datatype
    try:
        dtype = np.asarray(view).dtype
    except (ValueError, NotImplementedError):
        raise InvalidTypeError(
            f"no MPI datatype corresponds to the format {view.format!r}; name one, as in [buffer, BYTE]"
        ) from None
    return from_dtype(dtype)
