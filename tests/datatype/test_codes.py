"""Type codes of mpi4py, numpy types and PEP 3118 formats."""

import array
import ctypes
import sys

import numpy as np
import pytest

from aiompi import datatype
from aiompi.datatype import codes, from_code, from_dtype
from aiompi.errors import InvalidTypeError

CODES = {
    "C_BOOL": "? b1",
    "SIGNED_CHAR": "b",
    "SHORT": "h",
    "INT": "i",
    "LONG": "l",
    "LONG_LONG_INT": "q",
    "UNSIGNED_CHAR": "B",
    "UNSIGNED_SHORT": "H",
    "UNSIGNED": "I",
    "UNSIGNED_LONG": "L N P",
    "UNSIGNED_LONG_LONG": "Q",
    "COUNT": "n",
    "AINT": "p",
    "REAL2": "e f2",
    "FLOAT": "f f4",
    "DOUBLE": "d f8",
    "LONG_DOUBLE": "g f16",
    "C_FLOAT_COMPLEX": "F Zf c8",
    "C_DOUBLE_COMPLEX": "D Zd c16",
    "C_LONG_DOUBLE_COMPLEX": "G Zg c32",
    "CHAR": "c a s 1s S S1",
    "WCHAR": "w 1w U U1",
    "INT8_T": "i1",
    "INT16_T": "i2",
    "INT32_T": "i4",
    "INT64_T": "i8 m m8 M M8",
    "UINT8_T": "u1",
    "UINT16_T": "u2",
    "UINT32_T": "u4",
    "UINT64_T": "u8",
}
ROWS = [(code, attribute) for attribute, line in CODES.items() for code in line.split()]

NATIVE, FOREIGN = ("<", ">") if sys.byteorder == "little" else (">", "<")


@pytest.mark.parametrize(("code", "attribute"), ROWS)
def test_code(code: str, attribute: str) -> None:
    assert from_code(code) is getattr(datatype, attribute)
    assert from_code("@" + code) is from_code(NATIVE + code) is from_code(code)


def test_the_table_of_codes_is_complete() -> None:
    assert {code for code, _ in ROWS} == set(codes.CODES)


@pytest.mark.parametrize("code", ["", "x", "ii", "i3", "f128", "@", "T{i:a:}", "double"])
def test_unknown_code(code: str) -> None:
    with pytest.raises(InvalidTypeError, match="unknown type code"):
        from_code(code)


def test_code_in_foreign_byte_order_is_refused_with_a_remedy() -> None:
    with pytest.raises(InvalidTypeError, match="native byte order; convert the data and use 'd'"):
        from_code(FOREIGN + "d")
    assert from_code(FOREIGN + "i1") is datatype.INT8_T


@pytest.mark.parametrize(
    ("dtype", "attribute"),
    [
        ("?", "C_BOOL"), ("i1", "INT8_T"), ("u1", "UINT8_T"), ("h", "SHORT"), ("H", "UNSIGNED_SHORT"),
        ("i", "INT"), ("I", "UNSIGNED"), ("l", "LONG"), ("L", "UNSIGNED_LONG"),
        ("q", "LONG_LONG"), ("Q", "UNSIGNED_LONG_LONG"),
        ("e", "REAL2"), ("f", "FLOAT"), ("d", "DOUBLE"), ("g", "LONG_DOUBLE"),
        ("F", "C_FLOAT_COMPLEX"), ("D", "C_DOUBLE_COMPLEX"), ("G", "C_LONG_DOUBLE_COMPLEX"),
        ("S1", "CHAR"), ("c", "CHAR"), ("U1", "WCHAR"), ("M8[s]", "INT64_T"), ("m8[ms]", "INT64_T"),
        (np.float64, "DOUBLE"), (float, "DOUBLE"), (bool, "C_BOOL"), (complex, "C_DOUBLE_COMPLEX"),
    ],
)  # fmt: skip
def test_numpy_type(dtype: object, attribute: str) -> None:
    found = from_dtype(dtype)  # type: ignore[arg-type]
    assert found is getattr(datatype, attribute)
    assert found.extent == np.dtype(dtype).itemsize  # type: ignore[call-overload]


@pytest.mark.parametrize(
    ("value", "index", "attribute"),
    [
        ("f", "i", "FLOAT_INT"), ("d", "i", "DOUBLE_INT"), ("l", "i", "LONG_INT"), ("i", "i", "TWOINT"),
        ("h", "i", "SHORT_INT"), ("g", "i", "LONG_DOUBLE_INT"), ("f", "f", "TWOREAL"),
        ("d", "d", "TWODOUBLE_PRECISION"),
    ],
)  # fmt: skip
def test_pairs_are_known_by_their_layout(value: str, index: str, attribute: str) -> None:
    assert from_dtype(np.dtype([("x", value), ("rank", index)], align=True)) is getattr(datatype, attribute)


@pytest.mark.parametrize(
    "dtype",
    [
        [("value", "d"), ("index", "i")],  # packed: 12 bytes, the C struct has 16
        [("a", "i"), ("b", "i"), ("c", "i")],
        [("a", "i", 2)],
        "S2",
        "U3",
        "V8",
        object,
    ],
)
def test_numpy_type_without_an_mpi_type(dtype: object) -> None:
    with pytest.raises(InvalidTypeError, match="no MPI datatype corresponds"):
        from_dtype(dtype)  # type: ignore[arg-type]


@pytest.mark.parametrize("dtype", ["f8", "i2", "c16", [("value", "f4"), ("index", "i4")]])
def test_numpy_type_in_foreign_byte_order(dtype: object) -> None:
    with pytest.raises(InvalidTypeError, match=r"astype\(array.dtype.newbyteorder"):
        from_dtype(np.dtype(dtype).newbyteorder("S"))  # type: ignore[call-overload]


class _FloatInt(ctypes.Structure):
    _fields_ = [("value", ctypes.c_float), ("index", ctypes.c_int)]


@pytest.mark.parametrize(
    ("memory", "attribute"),
    [
        (b"abcd", "BYTE"),
        (memoryview(b"abcd").cast("i"), "INT"),
        (array.array("b", [1]), "INT8_T"),
        (array.array("L", [1]), "UNSIGNED_LONG"),
        (np.zeros(2, np.uint8), "BYTE"),
        (np.zeros(2, np.complex128), "C_DOUBLE_COMPLEX"),
        (np.zeros(2, np.longdouble), "LONG_DOUBLE"),
        (np.zeros(2, "S1"), "CHAR"),
        (np.zeros(2, datatype.FLOAT_INT.dtype), "FLOAT_INT"),
        ((ctypes.c_int * 3)(), "INT"),
        ((ctypes.c_bool * 3)(), "C_BOOL"),
        ((ctypes.c_longdouble * 3)(), "LONG_DOUBLE"),
        ((ctypes.c_wchar * 3)(), "WCHAR"),
        (_FloatInt(), "FLOAT_INT"),
        (np.float32(1), "FLOAT"),
    ],
)
def test_format_of_memory(memory: bytes, attribute: str) -> None:
    assert codes.from_format(memoryview(memory)) is getattr(datatype, attribute)


def test_format_of_memory_in_foreign_byte_order() -> None:
    foreign = ctypes.c_int32.__ctype_be__ if sys.byteorder == "little" else ctypes.c_int32.__ctype_le__
    with pytest.raises(InvalidTypeError, match="native byte order"):
        codes.from_format(memoryview((foreign * 2)()))


def test_format_that_nothing_knows() -> None:
    pointers = (ctypes.POINTER(ctypes.c_int) * 2)()
    with pytest.raises(InvalidTypeError, match="no MPI datatype corresponds to the format"):
        codes.from_format(memoryview(pointers))
