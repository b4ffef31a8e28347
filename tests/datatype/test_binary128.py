"""Long double and binary128, against exact fractions and bit patterns written by hand."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from aiompi.datatype import binary128
from aiompi.datatype.binary128 import EXTERNAL, X87, from_binary128, to_binary128

ON_X87 = pytest.mark.skipif(binary128.NATIVE != X87, reason="long double is not the x87 format here")

Bits = np.ndarray[Any, np.dtype[Any]]

# sign and exponent (4 digits), leading bit and fraction (16 digits); and the 32 digits of binary128.
SAME_VALUE = {
    "zero": ("0000 0000000000000000", "0000 0000000000000000000000000000"),
    "negative zero": ("8000 0000000000000000", "8000 0000000000000000000000000000"),
    "one": ("3fff 8000000000000000", "3fff 0000000000000000000000000000"),
    "minus two and a half": ("c000 a000000000000000", "c000 4000000000000000000000000000"),
    "pi": ("4000 c90fdaa22168c235", "4000 921fb54442d1846a000000000000"),
    "largest": ("7ffe ffffffffffffffff", "7ffe fffffffffffffffe000000000000"),
    "smallest normal": ("0001 8000000000000000", "0001 0000000000000000000000000000"),
    "largest subnormal": ("0000 7fffffffffffffff", "0000 fffffffffffffffe000000000000"),
    "smallest subnormal": ("0000 0000000000000001", "0000 0000000000000002000000000000"),
    "negative subnormal": ("8000 0000000000000003", "8000 0000000000000006000000000000"),
    "infinity": ("7fff 8000000000000000", "7fff 0000000000000000000000000000"),
    "negative infinity": ("ffff 8000000000000000", "ffff 0000000000000000000000000000"),
    "quiet NaN": ("7fff c000000000000000", "7fff 8000000000000000000000000000"),
    "signalling NaN with payload": ("ffff 8000000000001234", "ffff 0000000000002468000000000000"),
}

# Encodings that the processor writes no more; those it refuses to load are NaNs of this value.
OBSOLETE = {
    "pseudo-denormal": ("0000 8000000000000001", "0001 0000000000000002000000000000"),
    "unnormal": ("3fff 0000000000000001", "7fff 8000000000000002000000000000"),
    "pseudo-infinity": ("7fff 0000000000000000", "7fff 8000000000000000000000000000"),
}

# What has more than 63 bits of fraction is rounded to nearest, ties to even.
ROUNDED = {
    "below a tie": ("3fff 0000000000000000ffffffffffff", "3fff 8000000000000000"),
    "tie to even, down": ("3fff 0000000000000001000000000000", "3fff 8000000000000000"),
    "above a tie": ("3fff 0000000000000001000000000001", "3fff 8000000000000001"),
    "tie to even, up": ("3fff 0000000000000003000000000000", "3fff 8000000000000002"),
    "into the next binade": ("bfff ffffffffffffffffffffffffffff", "c000 8000000000000000"),
    "to infinity": ("7ffe ffffffffffffffffffffffffffff", "7fff 8000000000000000"),
    "subnormal to zero": ("0000 0000000000000000000000000001", "0000 0000000000000000"),
    "subnormal to normal": ("0000 ffffffffffffffffffffffffffff", "0001 8000000000000000"),
    "NaN whose payload is lost": ("7fff 0000000000000000000000000001", "7fff c000000000000000"),
    "infinity stays": ("ffff 0000000000000000000000000000", "ffff 8000000000000000"),
}


def x87(digits: str) -> Bits:
    top, significand = digits.split()
    return np.array([(int(significand, 16), int(top, 16), b"")], X87)


def quad(digits: str) -> Bits:
    return np.frombuffer(bytes.fromhex(digits), EXTERNAL)


def fraction_of_quad(number: Any) -> Fraction:
    """Value of a finite binary128, by the definition of the format."""
    bits = int(number["high"]) << 64 | int(number["low"])
    exponent, fraction = bits >> 112 & 0x7FFF, bits & (1 << 112) - 1
    magnitude = Fraction(fraction, 1 << 112) + (exponent != 0)
    return Fraction(-1 if bits >> 127 else 1) * magnitude * Fraction(2) ** (max(exponent, 1) - 16383)


def fraction_of_x87(significand: int, top: int) -> Fraction:
    return (
        Fraction(-1 if top >> 15 else 1)
        * Fraction(significand, 1 << 63)
        * Fraction(2) ** (max(top & 0x7FFF, 1) - 16383)
    )


@pytest.mark.parametrize(("native", "external"), (SAME_VALUE | OBSOLETE).values(), ids=SAME_VALUE | OBSOLETE)
def test_to_binary128(native: str, external: str) -> None:
    assert to_binary128(x87(native)).tobytes() == quad(external).tobytes()


@pytest.mark.parametrize(("native", "external"), SAME_VALUE.values(), ids=SAME_VALUE)
def test_from_binary128(native: str, external: str) -> None:
    assert from_binary128(quad(external), X87).tobytes() == x87(native).tobytes()


@pytest.mark.parametrize(("external", "native"), ROUNDED.values(), ids=ROUNDED)
def test_rounding(external: str, native: str) -> None:
    assert from_binary128(quad(external), X87).tobytes() == x87(native).tobytes()


@given(exponent=st.integers(0, 0x7FFE), fraction=st.integers(0, (1 << 63) - 1), negative=st.booleans())
@example(exponent=0, fraction=0, negative=False)
@example(exponent=0x7FFE, fraction=(1 << 63) - 1, negative=True)
def test_widening_is_exact_and_reversible(exponent: int, fraction: int, negative: bool) -> None:
    significand, top = fraction | (exponent != 0) << 63, exponent | negative << 15
    number = np.array([(significand, top, b"")], X87)
    wide = to_binary128(number)
    assert fraction_of_quad(wide[0]) == fraction_of_x87(significand, top)
    assert from_binary128(wide, X87).tobytes() == number.tobytes()


@given(high=st.integers(0, (1 << 63) - 1), low=st.integers(0, (1 << 64) - 1))
@example(high=0x3FFF_0000_0000_0000, low=1 << 48)
@example(high=0x0000_FFFF_FFFF_FFFF, low=(1 << 64) - 1)
def test_no_neighbour_is_nearer(high: int, low: int) -> None:
    number = np.array([(high, low)], EXTERNAL)
    exact = fraction_of_quad(number[0])
    rounded = from_binary128(number, X87)[0]
    significand, top = int(rounded["significand"]), int(rounded["top"])
    if top == 0x7FFF:
        assert high >> 48 == 0x7FFF or exact > fraction_of_x87((1 << 64) - 1, 0x7FFE)
        return
    distance = abs(fraction_of_x87(significand, top) - exact)
    assert distance <= abs(fraction_of_x87(significand + 1, top) - exact)
    assert distance <= abs(fraction_of_x87(significand - 1, top) - exact)


@ON_X87
def test_numbers_of_numpy() -> None:
    one = np.longdouble(1)
    numbers = np.array([[one, -one / 10, np.ldexp(one, 16000)], [np.ldexp(one, -16445), one * 0, one / 3]])
    wide = to_binary128(numbers.view(X87))
    assert wide.shape == (2, 3)
    for number, value in zip(wide.flat, numbers.flat, strict=True):
        assert fraction_of_quad(number) == Fraction(*value.as_integer_ratio())
    assert (from_binary128(wide, X87).view(np.longdouble) == numbers).all()


def test_strided_and_empty_arrays() -> None:
    numbers = np.concatenate([x87(native) for native, _ in SAME_VALUE.values()])
    expected = b"".join(quad(external).tobytes() for _, external in SAME_VALUE.values())
    assert to_binary128(numbers[::-2]).tobytes() == np.frombuffer(expected, EXTERNAL)[::-2].tobytes()
    assert to_binary128(numbers[:0]).shape == (0,)


def test_a_machine_of_binary128_only_reorders() -> None:
    little = np.dtype([("low", "<u8"), ("high", "<u8")])
    number = quad("4000 921fb54442d1846a000000000000")
    native = from_binary128(number, little)
    assert native.tobytes() == number.tobytes()[::-1]
    assert to_binary128(native).tobytes() == number.tobytes()
