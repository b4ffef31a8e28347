"""Conversion between long double and IEEE 754 binary128, its form in external32 (section 4.3 of MPI-3.1).

                   sign  exponent  significand
    x87 (80 bits)     1        15  64: the bit before the point is stored, then 63 of fraction
    binary128         1        15  112 of fraction; the bit before the point is 1 unless the exponent is 0

Both formats have the exponent bias 16383, so every x87 value has an equal binary128 value. A conversion from binary128
rounds the fraction to 63 bits, to nearest with ties to even, as the processor does.

Numbers are structured arrays of their bits. No arithmetic is done on them, so NaNs keep their payload. `NATIVE` is None
if long double has neither of the two formats.
"""

from __future__ import annotations

import sys
from typing import Any, Final, TypeAlias

from aiompi.base.lazy import np

__all__ = ["EXTERNAL", "NATIVE", "X87", "from_binary128", "to_binary128"]

Bits: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"
Words: TypeAlias = "np.ndarray[Any, np.dtype[np.uint64]]"

_LONG_DOUBLE: Final = np.dtype(np.longdouble)
_FRACTION_BITS: Final = int(np.finfo(np.longdouble).nmant)

# The padding after the ten bytes depends on the ABI: the total is 12 or 16 bytes.
_PADDING: Final = (_LONG_DOUBLE.itemsize if _FRACTION_BITS == 63 else 16) - 10
X87: Final = np.dtype([("significand", "<u8"), ("top", "<u2"), ("padding", f"V{_PADDING}")])
EXTERNAL: Final = np.dtype([("high", ">u8"), ("low", ">u8")])

_HALVES: Final = [("low", "<u8"), ("high", "<u8")] if sys.byteorder == "little" else [("high", ">u8"), ("low", ">u8")]
_QUAD: Final = np.dtype(_HALVES)

NATIVE: Final[np.dtype[Any] | None] = {63: X87, 112: _QUAD if _LONG_DOUBLE.itemsize == 16 else None}.get(_FRACTION_BITS)

_INFINITE: Final = np.uint64(0x7FFF)  # the exponent of infinities and NaNs
_LEADING: Final = np.uint64(1 << 63)  # x87: the bit before the point
_QUIET: Final = np.uint64(1 << 62)  # x87: the first bit of the fraction, set in quiet NaNs
_FRACTION: Final = np.uint64((1 << 63) - 1)
_LOST: Final = np.uint64((1 << 49) - 1)  # bits of a binary128 fraction that x87 does not have
_HIGH_FRACTION: Final = np.uint64((1 << 48) - 1)


def _u(number: int) -> np.uint64:
    return np.uint64(number)


def to_binary128(numbers: Bits) -> Bits:
    """Convert native long doubles to binary128, exactly.

    Args:
        numbers: array of dtype `NATIVE`, any shape.

    Returns:
        Array of dtype `EXTERNAL`, same shape.
    """
    if numbers.dtype != X87:
        return _reordered(numbers, EXTERNAL)
    result = np.empty(numbers.shape, EXTERNAL)
    result["high"], result["low"] = _widen(numbers["significand"].astype(np.uint64), numbers["top"].astype(np.uint64))
    return result


def from_binary128(numbers: Bits, native: np.dtype[Any]) -> Bits:
    """Convert binary128 to native long doubles, rounded to nearest if long double has a shorter fraction.

    Args:
        numbers: array of dtype `EXTERNAL`, any shape.
        native: `NATIVE`, or another format of this module.

    Returns:
        Array of dtype `native`, same shape; padding is zero.
    """
    if native != X87:
        return _reordered(numbers, native)
    result = np.zeros(numbers.shape, X87)
    result["significand"], result["top"] = _narrow(numbers["high"].astype(np.uint64), numbers["low"].astype(np.uint64))
    return result


def _reordered(numbers: Bits, dtype: np.dtype[Any]) -> Bits:
    result = np.empty(numbers.shape, dtype)
    result["high"], result["low"] = numbers["high"], numbers["low"]
    return result


def _widen(significand: Words, top: Words) -> tuple[Words, Words]:
    sign, exponent = top >> _u(15), top & _INFINITE
    leading, fraction = significand >> _u(63), significand & _FRACTION
    # With exponent 0 the leading bit has the same weight as with exponent 1 (a pseudo-denormal if set).
    exponent = np.where(exponent == 0, leading, exponent)
    # Otherwise the leading bit must be set. The processor does not load other patterns, so they become NaNs.
    invalid = (exponent != 0) & (leading == 0)
    exponent = np.where(invalid, _INFINITE, exponent)
    fraction = np.where(invalid, fraction | _QUIET, fraction)
    return sign << _u(63) | exponent << _u(48) | fraction >> _u(15), fraction << _u(49)


def _narrow(high: Words, low: Words) -> tuple[Words, Words]:
    sign, exponent = high >> _u(63), high >> _u(48) & _INFINITE
    fraction = (high & _HIGH_FRACTION) << _u(15) | low >> _u(49)
    lost, half = low & _LOST, _u(1 << 48)
    special = exponent == _INFINITE
    up = ~special & ((lost > half) | ((lost == half) & (fraction & _u(1) == 1)))
    # A carry out of the fraction increments the exponent, possibly up to infinity.
    fraction = fraction + up
    exponent = exponent + (fraction >> _u(63))
    fraction = fraction & _FRACTION
    # A NaN whose payload is truncated must not become infinity.
    fraction = np.where(special & (fraction == 0) & (lost != 0), _QUIET, fraction)
    return np.where(exponent != 0, fraction | _LEADING, fraction), sign << _u(15) | exponent
