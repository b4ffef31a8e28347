"""The predefined datatypes (sections 3.2.2 and 4.9.3) and the class of all datatypes.

Sizes are those of the C types of this machine, taken from numpy; pairs are laid out as the C structs.
The class describes what every datatype has; a derived type is a subclass with a type map of its own.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from aiompi.errors import InvalidTypeError

__all__ = [
    "Datatype", "DATATYPE_NULL", "CHAR", "SHORT", "INT", "LONG", "UNSIGNED_CHAR", "UNSIGNED_SHORT", "UNSIGNED",
    "UNSIGNED_LONG", "FLOAT", "DOUBLE", "LONG_DOUBLE", "BYTE", "PACKED", "LONG_LONG_INT", "UNSIGNED_LONG_LONG",
    "SIGNED_CHAR", "WCHAR", "C_BOOL", "INT8_T", "INT16_T", "INT32_T", "INT64_T", "UINT8_T", "UINT16_T",
    "UINT32_T", "UINT64_T", "C_FLOAT_COMPLEX", "C_DOUBLE_COMPLEX", "C_LONG_DOUBLE_COMPLEX", "AINT", "COUNT",
    "OFFSET", "INTEGER", "REAL", "DOUBLE_PRECISION", "COMPLEX", "DOUBLE_COMPLEX", "LOGICAL", "CHARACTER",
    "INTEGER1", "INTEGER2", "INTEGER4", "INTEGER8", "REAL2", "REAL4", "REAL8", "COMPLEX8", "COMPLEX16",
    "FLOAT_INT", "DOUBLE_INT", "LONG_INT", "TWOINT", "SHORT_INT", "LONG_DOUBLE_INT", "TWOREAL",
    "TWODOUBLE_PRECISION", "TWOINTEGER", "LONG_LONG", "SIGNED_SHORT", "SIGNED_INT", "SIGNED_LONG",
    "SIGNED_LONG_LONG", "UNSIGNED_INT", "BOOL", "C_COMPLEX", "INT_INT",
]  # fmt: skip


class Datatype:
    """A datatype (sections 3.2.2 and 3.12). Handles are compared by identity and hash by it.

    Attributes:
        name: name in the standard, such as "MPI_DOUBLE".
        size: bytes of data in one item, padding not counted.
        extent: bytes from one item to the next.
        lb: lower bound in bytes: where an item starts, counted from its address.
        dtype: numpy type of one item, `extent` bytes long; None when there is none.
    """

    __slots__ = ("__weakref__", "dtype", "extent", "lb", "name", "size")

    def __init__(self, name: str, dtype: np.dtype[Any] | None, size: int, extent: int, lb: int = 0) -> None:
        self.name = name
        self.dtype = dtype
        self.size = size
        self.extent = extent
        self.lb = lb

    @property
    def ub(self) -> int:
        """Upper bound in bytes: `lb + extent` (section 3.12.3)."""
        return self.lb + self.extent

    @property
    def is_predefined(self) -> bool:
        """Whether the type is a named constant, which cannot be freed."""
        return True

    def Get_name(self) -> str:
        return self.name

    def Get_size(self) -> int:
        """Bytes of data in one item (MPI_Type_size, section 3.12.2)."""
        return self.size

    def Get_extent(self) -> tuple[int, int]:
        """Lower bound and extent in bytes (MPI_Type_get_extent, section 3.12.2)."""
        return self.lb, self.extent

    def Commit(self) -> Datatype:
        """Return the type itself: a predefined type is ready for use (section 3.12.4)."""
        return self

    def Free(self) -> None:
        """Refuse: a predefined type exists as long as MPI does (section 3.12.4).

        Raises:
            InvalidTypeError: always.
        """
        raise InvalidTypeError(f"{self.name} is predefined and cannot be freed; free derived types only")

    def __bool__(self) -> bool:
        return self.name != "MPI_DATATYPE_NULL"

    def __repr__(self) -> str:
        return f"<aiompi.Datatype {self.name}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return _by_name, (self.name,)


# MPI name -> the one object of that name. Aliases are other Python names of the same object.
PREDEFINED: Final[dict[str, Datatype]] = {}


def _by_name(name: str) -> Datatype:
    return PREDEFINED[name]


def _basic(name: str, code: str) -> Datatype:
    dtype = np.dtype(code)
    PREDEFINED[name] = datatype = Datatype(name, dtype, dtype.itemsize, dtype.itemsize)
    return datatype


def _pair(name: str, value: str, index: str) -> Datatype:
    dtype = np.dtype([("value", value), ("index", index)], align=True)
    size = np.dtype(value).itemsize + np.dtype(index).itemsize
    PREDEFINED[name] = datatype = Datatype(name, dtype, size, dtype.itemsize)
    return datatype


DATATYPE_NULL: Final = Datatype("MPI_DATATYPE_NULL", None, 0, 0)
PREDEFINED[DATATYPE_NULL.name] = DATATYPE_NULL

# C types (section 3.2.2), then those of later versions of the standard.
CHAR: Final = _basic("MPI_CHAR", "S1")
SHORT: Final = _basic("MPI_SHORT", "h")
INT: Final = _basic("MPI_INT", "i")
LONG: Final = _basic("MPI_LONG", "l")
UNSIGNED_CHAR: Final = _basic("MPI_UNSIGNED_CHAR", "B")
UNSIGNED_SHORT: Final = _basic("MPI_UNSIGNED_SHORT", "H")
UNSIGNED: Final = _basic("MPI_UNSIGNED", "I")
UNSIGNED_LONG: Final = _basic("MPI_UNSIGNED_LONG", "L")
FLOAT: Final = _basic("MPI_FLOAT", "f")
DOUBLE: Final = _basic("MPI_DOUBLE", "d")
LONG_DOUBLE: Final = _basic("MPI_LONG_DOUBLE", "g")
BYTE: Final = _basic("MPI_BYTE", "u1")
PACKED: Final = _basic("MPI_PACKED", "u1")
LONG_LONG_INT: Final = _basic("MPI_LONG_LONG_INT", "q")
UNSIGNED_LONG_LONG: Final = _basic("MPI_UNSIGNED_LONG_LONG", "Q")
SIGNED_CHAR: Final = _basic("MPI_SIGNED_CHAR", "b")
WCHAR: Final = _basic("MPI_WCHAR", "U1")
C_BOOL: Final = _basic("MPI_C_BOOL", "?")
INT8_T: Final = _basic("MPI_INT8_T", "i1")
INT16_T: Final = _basic("MPI_INT16_T", "i2")
INT32_T: Final = _basic("MPI_INT32_T", "i4")
INT64_T: Final = _basic("MPI_INT64_T", "i8")
UINT8_T: Final = _basic("MPI_UINT8_T", "u1")
UINT16_T: Final = _basic("MPI_UINT16_T", "u2")
UINT32_T: Final = _basic("MPI_UINT32_T", "u4")
UINT64_T: Final = _basic("MPI_UINT64_T", "u8")
C_FLOAT_COMPLEX: Final = _basic("MPI_C_FLOAT_COMPLEX", "F")
C_DOUBLE_COMPLEX: Final = _basic("MPI_C_DOUBLE_COMPLEX", "D")
C_LONG_DOUBLE_COMPLEX: Final = _basic("MPI_C_LONG_DOUBLE_COMPLEX", "G")
AINT: Final = _basic("MPI_AINT", "i8")
COUNT: Final = _basic("MPI_COUNT", "i8")
OFFSET: Final = _basic("MPI_OFFSET", "i8")

# Fortran types (section 3.2.2), with the default sizes of the compilers.
INTEGER: Final = _basic("MPI_INTEGER", "i4")
REAL: Final = _basic("MPI_REAL", "f4")
DOUBLE_PRECISION: Final = _basic("MPI_DOUBLE_PRECISION", "f8")
COMPLEX: Final = _basic("MPI_COMPLEX", "c8")
DOUBLE_COMPLEX: Final = _basic("MPI_DOUBLE_COMPLEX", "c16")
LOGICAL: Final = _basic("MPI_LOGICAL", "i4")
CHARACTER: Final = _basic("MPI_CHARACTER", "S1")
INTEGER1: Final = _basic("MPI_INTEGER1", "i1")
INTEGER2: Final = _basic("MPI_INTEGER2", "i2")
INTEGER4: Final = _basic("MPI_INTEGER4", "i4")
INTEGER8: Final = _basic("MPI_INTEGER8", "i8")
REAL2: Final = _basic("MPI_REAL2", "f2")
REAL4: Final = _basic("MPI_REAL4", "f4")
REAL8: Final = _basic("MPI_REAL8", "f8")
COMPLEX8: Final = _basic("MPI_COMPLEX8", "c8")
COMPLEX16: Final = _basic("MPI_COMPLEX16", "c16")

# Pairs for MINLOC and MAXLOC (section 4.9.3).
FLOAT_INT: Final = _pair("MPI_FLOAT_INT", "f", "i")
DOUBLE_INT: Final = _pair("MPI_DOUBLE_INT", "d", "i")
LONG_INT: Final = _pair("MPI_LONG_INT", "l", "i")
TWOINT: Final = _pair("MPI_2INT", "i", "i")
SHORT_INT: Final = _pair("MPI_SHORT_INT", "h", "i")
LONG_DOUBLE_INT: Final = _pair("MPI_LONG_DOUBLE_INT", "g", "i")
TWOREAL: Final = _pair("MPI_2REAL", "f4", "f4")
TWODOUBLE_PRECISION: Final = _pair("MPI_2DOUBLE_PRECISION", "f8", "f8")
TWOINTEGER: Final = _pair("MPI_2INTEGER", "i4", "i4")

# Other names that mpi4py gives to the same types.
LONG_LONG: Final = LONG_LONG_INT
SIGNED_SHORT: Final = SHORT
SIGNED_INT: Final = INT
SIGNED_LONG: Final = LONG
SIGNED_LONG_LONG: Final = LONG_LONG_INT
UNSIGNED_INT: Final = UNSIGNED
BOOL: Final = C_BOOL
C_COMPLEX: Final = C_FLOAT_COMPLEX
INT_INT: Final = TWOINT
