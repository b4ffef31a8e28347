"""The predefined datatypes (sections 3.2.2 and 4.9.3).

Sizes and alignments are those of the C types of this machine, as `struct` and ctypes know them. Pairs have the layout
of C structs.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable
from typing import Any, Final

from aiompi.base.lazy import np
from aiompi.constants import COMBINER_NAMED
from aiompi.datatype.bounds import Bounds
from aiompi.datatype.datatype import Datatype
from aiompi.datatype.handle import PREDEFINED, TypeState
from aiompi.datatype.signature import Signature
from aiompi.datatype.typemap import F, TypeMap

__all__ = [
    "Datatype", "DATATYPE_NULL", "LB", "UB",
    "CHAR", "SHORT", "INT", "LONG", "UNSIGNED_CHAR", "UNSIGNED_SHORT", "UNSIGNED",
    "UNSIGNED_LONG", "FLOAT", "DOUBLE", "LONG_DOUBLE", "BYTE", "PACKED", "LONG_LONG_INT", "UNSIGNED_LONG_LONG",
    "SIGNED_CHAR", "WCHAR", "C_BOOL", "INT8_T", "INT16_T", "INT32_T", "INT64_T", "UINT8_T", "UINT16_T",
    "UINT32_T", "UINT64_T", "C_FLOAT_COMPLEX", "C_DOUBLE_COMPLEX", "C_LONG_DOUBLE_COMPLEX", "AINT", "COUNT",
    "OFFSET", "INTEGER", "REAL", "DOUBLE_PRECISION", "COMPLEX", "DOUBLE_COMPLEX", "LOGICAL", "CHARACTER",
    "INTEGER1", "INTEGER2", "INTEGER4", "INTEGER8", "REAL2", "REAL4", "REAL8", "COMPLEX8", "COMPLEX16",
    "FLOAT_INT", "DOUBLE_INT", "LONG_INT", "TWOINT", "SHORT_INT", "LONG_DOUBLE_INT", "TWOREAL",
    "TWODOUBLE_PRECISION", "TWOINTEGER", "LONG_LONG", "SIGNED_SHORT", "SIGNED_INT", "SIGNED_LONG",
    "SIGNED_LONG_LONG", "UNSIGNED_INT", "BOOL", "C_COMPLEX", "INT_INT",
    "SINT8_T", "SINT16_T", "SINT32_T", "SINT64_T", "CXX_BOOL", "CXX_FLOAT_COMPLEX", "CXX_DOUBLE_COMPLEX",
    "CXX_LONG_DOUBLE_COMPLEX", "F_BOOL", "F_INT", "F_FLOAT", "F_DOUBLE", "F_COMPLEX", "F_FLOAT_COMPLEX",
    "F_DOUBLE_COMPLEX", "FLOAT16_T", "FLOAT32_T", "FLOAT64_T", "BFLOAT16_T", "LOGICAL1", "LOGICAL2", "LOGICAL4",
    "LOGICAL8", "LOGICAL16", "INTEGER16", "REAL16", "COMPLEX4", "COMPLEX32",
]  # fmt: skip


#: type code of NumPy -> letter of `struct` with the same size and alignment, if the letters differ
_LETTERS: Final = {
    "S1": "c", "U1": "I", "i1": "b", "i2": "h", "i4": "i", "i8": "q", "u1": "B", "u2": "H", "u4": "I", "u8": "Q",
    "f2": "e", "f4": "f", "f8": "d",
}  # fmt: skip
#: code of a complex type -> number of parts, and their code
_COMPLEX: Final = {"F": (2, "f"), "D": (2, "d"), "G": (2, "g"), "c8": (2, "f"), "c16": (2, "d")}


def _named(name: str, typemap: TypeMap, constant: Datatype | None = None) -> Datatype:
    """Define the constant with a name and a type map; the constant and the type map refer to each other."""
    if constant is None:
        constant = Datatype()
    constant._set(typemap, TypeState(name, committed=True))
    typemap.constant = PREDEFINED[name] = constant
    return constant


def _basic(name: str, code: str) -> Datatype:
    """Define the constant of a name and of a type code of NumPy."""
    parts, part = _COMPLEX.get(code, (1, code))
    if part == "g":
        nbytes, alignment = ctypes.sizeof(ctypes.c_longdouble), ctypes.alignment(ctypes.c_longdouble)
    else:
        letter = _LETTERS.get(part, part)
        nbytes = struct.calcsize(letter)
        alignment = struct.calcsize(f"b{letter}") - nbytes
    constant = Datatype()
    signature = Signature.of(constant, name, parts * nbytes)
    return _named(name, TypeMap.basic(signature, alignment, lambda: np.dtype(code)), constant)


def _pair(name: str, value: Datatype, index: Datatype) -> Datatype:
    """Define the constant with a name and the layout of the C struct of two types."""
    offset = -(-value.extent // index.alignment) * index.alignment

    def compose(kind: type[F], form: Callable[[TypeMap], F]) -> F:
        joined: F = kind.concat((form(value._map), form(index._map).shift(offset)))
        return joined

    def dtype() -> np.dtype[Any]:
        return np.dtype([("value", value.dtype), ("index", index.dtype)], align=True)

    parts = (value._map, index._map)
    pair = TypeMap.derived(COMBINER_NAMED, {}, (), compose, components=parts)
    pair.dtype = dtype
    return _named(name, pair)


def _null() -> Datatype:
    null = _named("MPI_DATATYPE_NULL", TypeMap.empty(Bounds()))
    null._null = True
    return null


def _marker(name: str, bounds: Bounds) -> Datatype:
    marker = _named(name, TypeMap.empty(bounds))
    marker._state.committed = False
    return marker


DATATYPE_NULL: Final = _null()

# Markers, valid only in a struct (section 3.12.3).
LB: Final = _marker("MPI_LB", Bounds(lower=0))
UB: Final = _marker("MPI_UB", Bounds(upper=0))

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
FLOAT16_T: Final = _basic("MPIX_C_FLOAT16", "f2")
FLOAT32_T: Final = _basic("MPIX_C_FLOAT32", "f4")
FLOAT64_T: Final = _basic("MPIX_C_FLOAT64", "f8")
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
LOGICAL1: Final = _basic("MPI_LOGICAL1", "i1")
LOGICAL2: Final = _basic("MPI_LOGICAL2", "i2")
LOGICAL4: Final = _basic("MPI_LOGICAL4", "i4")
LOGICAL8: Final = _basic("MPI_LOGICAL8", "i8")
COMPLEX8: Final = _basic("MPI_COMPLEX8", "c8")
COMPLEX16: Final = _basic("MPI_COMPLEX16", "c16")

# Pairs for MINLOC and MAXLOC (section 4.9.3).
FLOAT_INT: Final = _pair("MPI_FLOAT_INT", FLOAT, INT)
DOUBLE_INT: Final = _pair("MPI_DOUBLE_INT", DOUBLE, INT)
LONG_INT: Final = _pair("MPI_LONG_INT", LONG, INT)
TWOINT: Final = _pair("MPI_2INT", INT, INT)
SHORT_INT: Final = _pair("MPI_SHORT_INT", SHORT, INT)
LONG_DOUBLE_INT: Final = _pair("MPI_LONG_DOUBLE_INT", LONG_DOUBLE, INT)
TWOREAL: Final = _pair("MPI_2REAL", REAL, REAL)
TWODOUBLE_PRECISION: Final = _pair("MPI_2DOUBLE_PRECISION", DOUBLE_PRECISION, DOUBLE_PRECISION)
TWOINTEGER: Final = _pair("MPI_2INTEGER", INTEGER, INTEGER)

# Other names that mpi4py gives to the same types.
LONG_LONG: Final = LONG_LONG_INT
SIGNED_SHORT: Final = SHORT
SIGNED_INT: Final = INT
SIGNED_LONG: Final = LONG
SIGNED_LONG_LONG: Final = LONG_LONG_INT
UNSIGNED_INT: Final = UNSIGNED
BOOL: Final = C_BOOL
SINT8_T: Final = INT8_T
SINT16_T: Final = INT16_T
SINT32_T: Final = INT32_T
SINT64_T: Final = INT64_T
C_COMPLEX: Final = C_FLOAT_COMPLEX
CXX_BOOL: Final = C_BOOL
CXX_FLOAT_COMPLEX: Final = C_FLOAT_COMPLEX
CXX_DOUBLE_COMPLEX: Final = C_DOUBLE_COMPLEX
CXX_LONG_DOUBLE_COMPLEX: Final = C_LONG_DOUBLE_COMPLEX
INT_INT: Final = TWOINT
F_BOOL: Final = LOGICAL
F_INT: Final = INTEGER
F_FLOAT: Final = REAL
F_DOUBLE: Final = DOUBLE_PRECISION
F_COMPLEX: Final = COMPLEX
F_FLOAT_COMPLEX: Final = COMPLEX
F_DOUBLE_COMPLEX: Final = DOUBLE_COMPLEX

# Neither C nor numpy has these types on this machine, so they are null, as with a compiler that lacks them.
BFLOAT16_T: Final = DATATYPE_NULL
INTEGER16: Final = DATATYPE_NULL
LOGICAL16: Final = DATATYPE_NULL
REAL16: Final = DATATYPE_NULL
COMPLEX4: Final = DATATYPE_NULL
COMPLEX32: Final = DATATYPE_NULL
