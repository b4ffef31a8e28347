"""Predefined types found by type code, by precision and range as in Fortran, by size, or by the parts of a pair."""

from __future__ import annotations

import functools
import math
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from aiompi import constants as mpi
from aiompi.base.arguments import integer, text
from aiompi.base.lazy import np
from aiompi.datatype.arguments import InvalidCodeError
from aiompi.datatype.handle import CODES, PREDEFINED, TypeHandle, TypeState
from aiompi.datatype.typemap import F, TypeMap
from aiompi.errors import InvalidArgumentError, InvalidTypeError

if TYPE_CHECKING:
    from aiompi.datatype.datatype import Datatype

_ORDERS: Final = "@=|<>!"
_FOREIGN_ORDERS: Final = ">!" if sys.byteorder == "little" else "<"

_INTEGERS: Final = ("MPI_INTEGER1", "MPI_INTEGER2", "MPI_INTEGER4", "MPI_INTEGER8")
_REALS: Final = ("MPI_REAL4", "MPI_REAL8", "MPI_LONG_DOUBLE")
_COMPLEXES: Final = ("MPI_COMPLEX8", "MPI_COMPLEX16", "MPI_C_LONG_DOUBLE_COMPLEX")
_CLASSES: Final = {
    mpi.TYPECLASS_LOGICAL: ("TYPECLASS_LOGICAL", ("MPI_LOGICAL1", "MPI_LOGICAL2", "MPI_LOGICAL4", "MPI_LOGICAL8")),
    mpi.TYPECLASS_INTEGER: ("TYPECLASS_INTEGER", _INTEGERS),
    mpi.TYPECLASS_REAL: ("TYPECLASS_REAL", ("MPI_REAL2", *_REALS)),
    mpi.TYPECLASS_COMPLEX: ("TYPECLASS_COMPLEX", _COMPLEXES),
}

#: names of the value and of the index -> name of the pair
_PAIRS: Final = {
    **{(value, "MPI_INT"): f"{value}_INT" for value in ("MPI_SHORT", "MPI_LONG", "MPI_FLOAT", "MPI_DOUBLE")},
    ("MPI_LONG_DOUBLE", "MPI_INT"): "MPI_LONG_DOUBLE_INT",
    **{(f"MPI_{name}",) * 2: f"MPI_2{name}" for name in ("INT", "REAL", "DOUBLE_PRECISION", "INTEGER")},
}


class Lookup(TypeHandle):
    """The class methods of datatypes that find predefined types."""

    __slots__ = ()

    @classmethod
    def fromcode(cls, code: str) -> Datatype:
        """Return the predefined type of a type code.

        Args:
            code: a code of mpi4py: a letter of PEP 3118 or numpy ("d", "i", "Zd"), or numpy's letter and size ("i4",
                "f8", "c16"); a prefix for the native byte order is allowed.

        Returns:
            The datatype.

        Raises:
            InvalidTypeError: there is no such code, or it has the byte order of another machine.
        """
        order, plain = split_code(text(code, "code"))
        datatype = CODES.get(plain)
        if datatype is None:
            raise InvalidCodeError(
                f"unknown type code {code!r}; pass a Datatype, or a code of numpy or PEP 3118 such as 'd' or 'i4'"
            )
        if is_foreign(order) and datatype.size > 1:
            raise InvalidCodeError(
                f"type code {code!r} is not in native byte order; convert the data and use {plain!r}"
            )
        return datatype

    @classmethod
    def Create_f90_integer(cls, r: int) -> Datatype:
        """Return the predefined type of integers with `r` decimal digits (MPI_Type_create_f90_integer).

        Args:
            r: decimal exponent range.

        Returns:
            The datatype.

        Raises:
            InvalidArgumentError: no type has that many digits.
        """
        r = integer(r, "r")
        for name in _INTEGERS:
            if 10**r < 2 ** (8 * PREDEFINED[name].size - 1):
                return _constant(mpi.COMBINER_F90_INTEGER, name, r=r)
        raise InvalidArgumentError(f"r is {r}: no integer type has more than 18 decimal digits")

    @classmethod
    def Create_f90_real(cls, p: int, r: int) -> Datatype:
        """Return the predefined type of reals with `p` digits up to 10**r (MPI_Type_create_f90_real).

        Args:
            p: decimal digits of precision; UNDEFINED for any.
            r: decimal exponent range; UNDEFINED for any.

        Returns:
            The datatype.

        Raises:
            InvalidArgumentError: no type has that precision and range, or both are UNDEFINED.
        """
        p, r = integer(p, "p"), integer(r, "r")
        return _constant(mpi.COMBINER_F90_REAL, _REALS[_kind(p, r)], p=p, r=r)

    @classmethod
    def Create_f90_complex(cls, p: int, r: int) -> Datatype:
        """Return the type of complex numbers with parts as in `Create_f90_real` (MPI_Type_create_f90_complex).

        Args:
            p: decimal digits of precision; UNDEFINED for any.
            r: decimal exponent range; UNDEFINED for any.

        Returns:
            The datatype.

        Raises:
            InvalidArgumentError: see `Create_f90_real`.
        """
        p, r = integer(p, "p"), integer(r, "r")
        return _constant(mpi.COMBINER_F90_COMPLEX, _COMPLEXES[_kind(p, r)], p=p, r=r)

    @classmethod
    def Get_value_index(cls, value: Datatype, index: Datatype) -> Datatype:
        """Return the predefined pair of two types for MINLOC and MAXLOC (MPI_Type_get_value_index, of MPI-4.1).

        Args:
            value: datatype of the value.
            index: datatype of the index.

        Returns:
            The pair, or DATATYPE_NULL if there is none.

        Raises:
            InvalidTypeError: one of them is null or freed.
        """
        for name, datatype in (("value", value), ("index", index)):
            if not datatype:
                raise InvalidTypeError(f"{name} is MPI_DATATYPE_NULL, or was freed; pass a datatype, such as INT")
        parts = (value.name, index.name) if value.is_named and index.is_named else ("", "")
        return PREDEFINED[_PAIRS.get(parts, "MPI_DATATYPE_NULL")]

    @classmethod
    def Match_size(cls, typeclass: int, size: int) -> Datatype:
        """Return the predefined Fortran type of a class and size (MPI_Type_match_size).

        Args:
            typeclass: TYPECLASS_LOGICAL, TYPECLASS_INTEGER, TYPECLASS_REAL or TYPECLASS_COMPLEX.
            size: bytes.

        Returns:
            The datatype.

        Raises:
            InvalidArgumentError: there is no such type.
        """
        typeclass, size = integer(typeclass, "typeclass"), integer(size, "size")
        if typeclass not in _CLASSES:
            raise InvalidArgumentError(
                f"typeclass is {typeclass}: expected TYPECLASS_LOGICAL, _INTEGER, _REAL or _COMPLEX"
            )
        kind, names = _CLASSES[typeclass]
        types = {PREDEFINED[name].size: PREDEFINED[name] for name in names}
        if size not in types:
            sizes = ", ".join(map(str, types))
            raise InvalidArgumentError(f"size is {size}, but the types of {kind} have sizes of {sizes} bytes")
        return types[size]


def split_code(code: str) -> tuple[str, str]:
    """Return the byte order of a code, or "", and the rest of the code."""
    return (code[0], code[1:]) if code[:1] and code[0] in _ORDERS else ("", code)


def is_foreign(order: str) -> bool:
    """Return True for the byte order of another machine."""
    return order != "" and order in _FOREIGN_ORDERS


def _kind(p: int, r: int) -> int:
    """Return the index of the smallest real type with `p` digits and values up to 10**r."""
    if p == mpi.UNDEFINED and r == mpi.UNDEFINED:
        raise InvalidArgumentError("p and r are both UNDEFINED: give the precision, the range, or both")
    for kind, name in enumerate(_REALS):
        limits = np.finfo(PREDEFINED[name].dtype)
        if p <= limits.precision and r <= int(-limits.minexp * math.log10(2)):
            return kind
    raise InvalidArgumentError(f"no real type has {p} decimal digits and exponents up to {r}")


@functools.cache  # calls with the same arguments return the same type, because these types are never freed
def _constant(combiner: int, name: str, **arguments: int) -> Datatype:
    """Return a predefined type equivalent to the one called `name`; it remembers a combiner and its arguments."""
    base = PREDEFINED[name]

    def compose(kind: type[F], form: Callable[[TypeMap], F]) -> F:
        return form(base._map)

    typemap = TypeMap.derived(combiner, arguments, (), compose, components=(base._map,))
    typemap.dtype = base.dtype
    typemap.constant = constant = base._of(typemap, TypeState(committed=True))
    return constant
