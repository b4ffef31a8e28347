"""Predefined types found by decimal precision and range as in Fortran, by size, or by the parts of a pair."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Final

import numpy as np

from aiompi import constants as mpi
from aiompi.datatype import predefined
from aiompi.datatype.datatype import Datatype
from aiompi.datatype.handle import TypeState
from aiompi.datatype.typemap import F, TypeMap
from aiompi.errors import InvalidArgumentError, InvalidTypeError

_INTEGERS: Final = (predefined.INTEGER1, predefined.INTEGER2, predefined.INTEGER4, predefined.INTEGER8)
_LOGICALS: Final = (predefined.LOGICAL1, predefined.LOGICAL2, predefined.LOGICAL4, predefined.LOGICAL8)
_REALS: Final = (predefined.REAL4, predefined.REAL8, predefined.LONG_DOUBLE)
_COMPLEXES: Final = (predefined.COMPLEX8, predefined.COMPLEX16, predefined.C_LONG_DOUBLE_COMPLEX)

_CLASSES: Final = {
    mpi.TYPECLASS_LOGICAL: ("TYPECLASS_LOGICAL", _LOGICALS),
    mpi.TYPECLASS_INTEGER: ("TYPECLASS_INTEGER", _INTEGERS),
    mpi.TYPECLASS_REAL: ("TYPECLASS_REAL", (predefined.REAL2, *_REALS)),
    mpi.TYPECLASS_COMPLEX: ("TYPECLASS_COMPLEX", _COMPLEXES),
}


def match_size(typeclass: int, size: int) -> Datatype:
    """See `Datatype.Match_size`."""
    if typeclass not in _CLASSES:
        raise InvalidArgumentError(f"typeclass is {typeclass}: expected TYPECLASS_LOGICAL, _INTEGER, _REAL or _COMPLEX")
    name, types = _CLASSES[typeclass]
    for datatype in types:
        if datatype.size == size:
            return datatype
    sizes = ", ".join(str(datatype.size) for datatype in types)
    raise InvalidArgumentError(f"size is {size}, but the types of {name} have sizes of {sizes} bytes")


_PAIRS: Final = {
    (value.identity, index.identity): pair
    for value, index, pair in (
        (predefined.SHORT, predefined.INT, predefined.SHORT_INT),
        (predefined.INT, predefined.INT, predefined.TWOINT),
        (predefined.LONG, predefined.INT, predefined.LONG_INT),
        (predefined.FLOAT, predefined.INT, predefined.FLOAT_INT),
        (predefined.DOUBLE, predefined.INT, predefined.DOUBLE_INT),
        (predefined.LONG_DOUBLE, predefined.INT, predefined.LONG_DOUBLE_INT),
        (predefined.REAL, predefined.REAL, predefined.TWOREAL),
        (predefined.DOUBLE_PRECISION, predefined.DOUBLE_PRECISION, predefined.TWODOUBLE_PRECISION),
        (predefined.INTEGER, predefined.INTEGER, predefined.TWOINTEGER),
    )
}


def value_index(value: Datatype, index: Datatype) -> Datatype:
    """See `Datatype.Get_value_index`."""
    for name, datatype in (("value", value), ("index", index)):
        if not datatype:
            raise InvalidTypeError(f"{name} is MPI_DATATYPE_NULL, or was freed; pass a datatype, such as INT")
    return _PAIRS.get((value.identity, index.identity), predefined.DATATYPE_NULL)


# Calls with the same arguments return the same type, because these types are never freed.


@functools.cache
def f90_integer(r: int) -> Datatype:
    """See `Datatype.Create_f90_integer`."""
    for datatype in _INTEGERS:
        if 10**r < 2 ** (8 * datatype.size - 1):
            return _constant(mpi.COMBINER_F90_INTEGER, {"r": r}, datatype)
    raise InvalidArgumentError(f"r is {r}: no integer type has more than 18 decimal digits")


@functools.cache
def f90_real(p: int, r: int) -> Datatype:
    """See `Datatype.Create_f90_real`."""
    return _constant(mpi.COMBINER_F90_REAL, {"p": p, "r": r}, _REALS[_kind(p, r)])


@functools.cache
def f90_complex(p: int, r: int) -> Datatype:
    """See `Datatype.Create_f90_complex`."""
    return _constant(mpi.COMBINER_F90_COMPLEX, {"p": p, "r": r}, _COMPLEXES[_kind(p, r)])


def _kind(p: int, r: int) -> int:
    """Return the index of the smallest real type with `p` digits and values up to 10**r."""
    if p == mpi.UNDEFINED and r == mpi.UNDEFINED:
        raise InvalidArgumentError("p and r are both UNDEFINED: give the precision, the range, or both")
    for kind, datatype in enumerate(_REALS):
        assert datatype.dtype is not None
        limits = np.finfo(datatype.dtype)
        if p <= limits.precision and r <= int(-limits.minexp * math.log10(2)):
            return kind
    raise InvalidArgumentError(f"no real type has {p} decimal digits and exponents up to {r}")


def _constant(combiner: int, arguments: dict[str, int], base: Datatype) -> Datatype:
    """Return a predefined type that is equivalent to `base` and records the arguments of the call."""

    def compose(kind: type[F], form: Callable[[TypeMap], F]) -> F:
        return form(base._map)

    typemap = TypeMap.derived(combiner, arguments, (), compose, components=(base._map,), dtype=base.dtype)
    typemap.constant = constant = Datatype._of(typemap, TypeState(committed=True))
    return constant
