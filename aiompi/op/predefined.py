"""The predefined operations: kernels, then the table of section 4.9.2 (types by group, groups by operation)."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterable
from contextvars import Context
from typing import Any, Final

from aiompi.base.lazy import np
from aiompi.datatype import Datatype
from aiompi.datatype import predefined as mpi
from aiompi.errors import InvalidOpError
from aiompi.op.operation import PREDEFINED, Kernel, Op, Operation, Vector

__all__ = [
    "BAND", "BOR", "BXOR", "LAND", "LOR", "LXOR", "MAX", "MAXLOC", "MIN", "MINLOC", "NO_OP", "OP_NULL", "PROD",
    "REPLACE", "SUM",
]  # fmt: skip

_GROUPS: Final = {
    "C integer": (
        mpi.INT, mpi.LONG, mpi.SHORT, mpi.UNSIGNED_SHORT, mpi.UNSIGNED, mpi.UNSIGNED_LONG,
        mpi.LONG_LONG_INT, mpi.UNSIGNED_LONG_LONG, mpi.SIGNED_CHAR, mpi.UNSIGNED_CHAR,
        mpi.INT8_T, mpi.INT16_T, mpi.INT32_T, mpi.INT64_T, mpi.UINT8_T, mpi.UINT16_T, mpi.UINT32_T, mpi.UINT64_T,
    ),
    # Includes the address-sized integers: later versions of MPI define the same operations for them.
    "Fortran integer": (
        mpi.INTEGER, mpi.INTEGER1, mpi.INTEGER2, mpi.INTEGER4, mpi.INTEGER8, mpi.AINT, mpi.COUNT, mpi.OFFSET,
    ),
    "floating-point": (
        mpi.FLOAT, mpi.DOUBLE, mpi.REAL, mpi.DOUBLE_PRECISION, mpi.LONG_DOUBLE, mpi.REAL2, mpi.REAL4, mpi.REAL8,
        mpi.FLOAT16_T, mpi.FLOAT32_T, mpi.FLOAT64_T,
    ),
    "logical": (mpi.LOGICAL, mpi.LOGICAL1, mpi.LOGICAL2, mpi.LOGICAL4, mpi.LOGICAL8, mpi.C_BOOL),
    "complex": (
        mpi.COMPLEX, mpi.DOUBLE_COMPLEX, mpi.COMPLEX8, mpi.COMPLEX16,
        mpi.C_FLOAT_COMPLEX, mpi.C_DOUBLE_COMPLEX, mpi.C_LONG_DOUBLE_COMPLEX,
    ),
    "byte": (mpi.BYTE,),
    "pair": (
        mpi.FLOAT_INT, mpi.DOUBLE_INT, mpi.LONG_INT, mpi.TWOINT, mpi.SHORT_INT, mpi.LONG_DOUBLE_INT,
        mpi.TWOREAL, mpi.TWODOUBLE_PRECISION, mpi.TWOINTEGER,
    ),
}  # fmt: skip
_ORDERED: Final = ("C integer", "Fortran integer", "floating-point")
_ARITHMETIC: Final = (*_ORDERED, "complex")
_LOGICAL: Final = ("C integer", "logical")
_BITWISE: Final = ("C integer", "Fortran integer", "byte")
_PAIRS: Final = ("pair",)


@functools.cache
def _silent() -> Context:
    """Return a context in which NumPy reports no floating-point exceptions; copying it is faster than `errstate`."""
    context = Context()
    context.run(np.seterr, all="ignore")
    return context


def _elementwise(name: str) -> Kernel:
    def kernel(invecs: Iterable[Vector], inoutvec: Vector, datatype: Datatype) -> None:
        ufunc = getattr(np, name)
        silently = _silent().copy().run  # only one thread at a time can enter a context
        for invec in invecs:
            silently(ufunc, invec, inoutvec, out=inoutvec)

    return kernel


def _extreme_with_index(name: str) -> Kernel:
    """Return a kernel that takes the pair with the winning value, or if values are equal, the lower index (4.9.3)."""

    def kernel(invecs: Iterable[Vector], inoutvec: Vector, datatype: Datatype) -> None:
        beats = getattr(np, name)
        other = inoutvec["value"]
        with np.errstate(all="ignore"):
            for invec in invecs:
                value = invec["value"]
                lower_index = (value == other) & (invec["index"] < inoutvec["index"])
                np.copyto(inoutvec, invec, where=beats(value, other) | lower_index)

    return kernel


def _undefined_kernel(invecs: Iterable[Vector], inoutvec: Vector, datatype: Datatype) -> None:
    raise InvalidOpError(f"the operation is not defined for vectors of {datatype}")


def _maxloc(a: tuple[Any, Any], b: tuple[Any, Any]) -> tuple[Any, Any]:
    (u, i), (v, j) = a, b
    return (v, j) if v > u or (v == u and j < i) else (u, i)


def _minloc(a: tuple[Any, Any], b: tuple[Any, Any]) -> tuple[Any, Any]:
    (u, i), (v, j) = a, b
    return (v, j) if v < u or (v == u and j < i) else (u, i)


def _define(
    name: str,
    combine: Callable[[Any, Any], Any],
    kernel: Kernel,
    groups: tuple[str, ...],
    commute: bool = True,
) -> Op:
    types = {group: _GROUPS[group] for group in groups}
    PREDEFINED[name] = op = Op._denote(Operation(name, combine, kernel, commute=commute, types=types))
    return op


MAX: Final = _define("MPI_MAX", lambda a, b: b if b > a else a, _elementwise("maximum"), _ORDERED)
MIN: Final = _define("MPI_MIN", lambda a, b: b if b < a else a, _elementwise("minimum"), _ORDERED)
SUM: Final = _define("MPI_SUM", operator.add, _elementwise("add"), _ARITHMETIC)
PROD: Final = _define("MPI_PROD", operator.mul, _elementwise("multiply"), _ARITHMETIC)
LAND: Final = _define("MPI_LAND", lambda a, b: bool(a) and bool(b), _elementwise("logical_and"), _LOGICAL)
LOR: Final = _define("MPI_LOR", lambda a, b: bool(a) or bool(b), _elementwise("logical_or"), _LOGICAL)
LXOR: Final = _define("MPI_LXOR", lambda a, b: bool(a) != bool(b), _elementwise("logical_xor"), _LOGICAL)
BAND: Final = _define("MPI_BAND", operator.and_, _elementwise("bitwise_and"), _BITWISE)
BOR: Final = _define("MPI_BOR", operator.or_, _elementwise("bitwise_or"), _BITWISE)
BXOR: Final = _define("MPI_BXOR", operator.xor, _elementwise("bitwise_xor"), _BITWISE)
MAXLOC: Final = _define("MPI_MAXLOC", _maxloc, _extreme_with_index("greater"), _PAIRS)
MINLOC: Final = _define("MPI_MINLOC", _minloc, _extreme_with_index("less"), _PAIRS)

# These are not reductions. mpi4py offers them for objects; for vectors the standard has them in one-sided calls only.
REPLACE: Final = _define("MPI_REPLACE", lambda a, b: b, _undefined_kernel, (), commute=False)
NO_OP: Final = _define("MPI_NO_OP", lambda a, b: a, _undefined_kernel, (), commute=False)
PREDEFINED["MPI_OP_NULL"] = OP_NULL = Op()
