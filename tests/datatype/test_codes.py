"""Type codes of mpi4py, numpy types and PEP 3118 formats."""

import array
import ctypes
import sys
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from aiompi import datatype
from aiompi.datatype import Datatype, codes, from_dtype
from aiompi.datatype import predefined as mpi
from aiompi.datatype.buffer.arrays import bytes_of
from aiompi.datatype.codes import to_dtype
from aiompi.datatype.layout import move
from aiompi.errors import InvalidTypeError
from support.cases import cases

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
    "UINT16_T": "u2 u 1u",
    "UINT32_T": "u4",
    "UINT64_T": "u8",
}
ROWS = [(code, attribute) for attribute, line in CODES.items() for code in line.split()]

NATIVE, FOREIGN = ("<", ">") if sys.byteorder == "little" else (">", "<")


@cases(("code", "attribute"), ROWS)
def test_code(code: str, attribute: str) -> None:
    assert Datatype.fromcode(code) is getattr(datatype, attribute)
    assert Datatype.fromcode("@" + code) is Datatype.fromcode(NATIVE + code) is Datatype.fromcode(code)


def test_the_table_of_codes_is_complete() -> None:
    assert {code for code, _ in ROWS} == set(codes.CODES)


@cases("code", ["", "x", "ii", "i3", "f128", "@", "T{i:a:}", "double"])
def test_unknown_code(code: str) -> None:
    with pytest.raises(InvalidTypeError, match="unknown type code"):
        Datatype.fromcode(code)


def test_code_in_foreign_byte_order_is_refused_with_a_remedy() -> None:
    with pytest.raises(InvalidTypeError, match="native byte order; convert the data and use 'd'"):
        Datatype.fromcode(FOREIGN + "d")
    assert Datatype.fromcode(FOREIGN + "i1") is datatype.INT8_T


@cases(
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


@cases(
    ("value", "index", "attribute"),
    [
        ("f", "i", "FLOAT_INT"), ("d", "i", "DOUBLE_INT"), ("l", "i", "LONG_INT"), ("i", "i", "TWOINT"),
        ("h", "i", "SHORT_INT"), ("g", "i", "LONG_DOUBLE_INT"), ("f", "f", "TWOREAL"),
        ("d", "d", "TWODOUBLE_PRECISION"),
    ],
)  # fmt: skip
def test_pairs_are_known_by_their_layout(value: str, index: str, attribute: str) -> None:
    assert from_dtype(np.dtype([("x", value), ("rank", index)], align=True)) is getattr(datatype, attribute)


@pytest.mark.parametrize("dtype", [object, [("a", "i"), ("b", object)], np.dtypes.StringDType()])
def test_numpy_type_without_an_mpi_type(dtype: object) -> None:
    with pytest.raises(InvalidTypeError, match="no MPI datatype corresponds"):
        from_dtype(dtype)  # type: ignore[arg-type]


@pytest.mark.parametrize(("dtype", "element", "count"), [("S2", "CHAR", 2), ("U3", "WCHAR", 3), ("V8", "BYTE", 8)])
def test_strings_and_void_are_so_many_elements(dtype: str, element: str, count: int) -> None:
    found = from_dtype(dtype)
    assert found.Get_contents() == ([count], [], [], [getattr(datatype, element)])
    assert found.extent == np.dtype(dtype).itemsize
    assert found.is_committed


STRUCTURED = [
    [("value", "d"), ("index", "i")],  # packed: the pair has 16 bytes
    np.dtype([("a", "i1"), ("b", "f8"), ("c", "i2")], align=True),
    [("a", "i1"), ("b", "f8"), ("c", "i2")],
    {"names": ["a", "b"], "formats": ["f4", "i2"], "offsets": [6, 1], "itemsize": 23},
    [("a", "i4", (2, 3)), ("b", "u1")],
    np.dtype([("a", "?"), ("b", [("c", "c16"), ("d", "h", 3)], 2)], align=True),
    [("name", "S5"), ("wide", "U2"), ("raw", "V3"), ("when", "M8[us]")],
    [("a", "i", 0), ("b", "d")],
    [],
]


@pytest.mark.spec("S3.12-2", "S3.12.1-8")
@cases("description", STRUCTURED)
def test_structured_types_become_structs(description: object) -> None:
    dtype = np.dtype(description)  # type: ignore[call-overload]
    found = from_dtype(dtype)
    assert (found.lb, found.extent, found.is_committed) == (0, dtype.itemsize, True)
    marks = np.zeros(1, dtype)
    expected = b""
    for number, (field, _) in enumerate(dtype.fields[name] for name in dtype.names or ()):
        if field.itemsize == 0:
            continue
        marks[dtype.names[number]] = np.frombuffer(bytes([number + 1]) * field.itemsize, field)[0]
        expected += bytes([number + 1]) * _data(field)
    packed = bytearray(found.size)
    move.pack(found.layout, bytes_of(marks), 0, memoryview(packed))
    assert packed == expected


def _data(dtype: np.dtype[Any]) -> int:
    """Bytes in a numpy type without those of gaps."""
    if dtype.subdtype is not None:
        base, shape = dtype.subdtype
        return int(np.prod(shape)) * _data(base)
    if dtype.names is None:
        return dtype.itemsize
    return sum(_data(dtype[name]) for name in dtype.names)


def test_equal_numpy_types_give_one_object_also_after_it_was_freed() -> None:
    first = from_dtype([("a", "i1"), ("x", "f8")])
    assert from_dtype(np.dtype([("a", "i1"), ("x", "f8")])) is first
    first.Free()
    second = from_dtype([("a", "i1"), ("x", "f8")])
    assert second
    assert second.is_committed


def test_the_cache_does_not_confuse_equal_numpy_types() -> None:
    packed, aligned = np.dtype([("p", "i4"), ("q", "u4")]), np.dtype([("p", "i4"), ("q", "u4")], align=True)
    assert packed == aligned
    for dtype in (packed, aligned):
        assert to_dtype(from_dtype(dtype)).isalignedstruct == dtype.isalignedstruct
    marked = np.dtype([("p", "i2"), ("q", "u4")], metadata={"a": 1})
    assert to_dtype(from_dtype(marked)).metadata is None
    assert from_dtype(np.dtype("i4", metadata={"a": 1})) is mpi.INT


def test_types_of_other_packages_are_bytes() -> None:
    """Some have the character of a type of NumPy."""
    names = ("bfloat16", "float8_e5m2", "float8_e4m3b11fnuz", "float8_e4m3fnuz", "int1", "int2")
    for dtype in (np.dtype(getattr(ml_dtypes, name)) for name in names):
        made = from_dtype(dtype)
        assert (made.Get_size(), made.Get_extent(), made.signature.elements(2)) == (
            dtype.itemsize, (0, dtype.itemsize), 2,
        )  # fmt: skip
    with pytest.raises(InvalidTypeError, match="lower-case"):
        from_dtype(np.dtypes.StringDType())


@cases("description", STRUCTURED)
def test_the_way_back_gives_the_same_numpy_type(description: object) -> None:
    dtype = np.dtype(description)  # type: ignore[call-overload]
    assert to_dtype(from_dtype(dtype)) == dtype


DERIVED = {
    "dup": (mpi.INT.Dup(), "i"),
    "contiguous": (mpi.INT.Create_contiguous(3), ("i", (3,))),
    "vector": (
        mpi.INT.Create_vector(2, 2, 3),
        {"names": ["f0", "f1"], "formats": [("i", 2), ("i", 2)], "offsets": [0, 12], "itemsize": 20},
    ),
    "hvector": (
        mpi.INT.Create_hvector(2, 1, 6),
        {"names": ["f0", "f1"], "formats": ["i", "i"], "offsets": [0, 6], "itemsize": 12},
    ),
    "indexed": (
        mpi.SHORT.Create_indexed([1, 0, 2], [3, 9, 0]),
        {"names": ["f0", "f1"], "formats": ["h", ("h", 2)], "offsets": [6, 0], "itemsize": 8},
    ),
    "hindexed_block": (
        mpi.SHORT.Create_hindexed_block(1, [5, 0]),
        {"names": ["f0", "f1"], "formats": ["h", "h"], "offsets": [5, 0], "itemsize": 8},
    ),
    "struct": (
        mpi.INT.Create_struct([1, 2, 1], [0, 8, 40], [mpi.INT, mpi.DOUBLE_INT, mpi.UB]),
        {"names": ["f0", "f1"], "formats": ["i", (mpi.DOUBLE_INT.dtype, 2)], "offsets": [0, 8], "itemsize": 40},
    ),
    "struct behind its address": (
        mpi.INT.Create_struct([1, 2, 3], [1, 27, 71], [mpi.INT, mpi.DOUBLE, mpi.INT]),
        {"names": ["f0", "f1", "f2"], "formats": ["i", ("d", 2), ("i", 3)], "offsets": [1, 27, 71], "itemsize": 88},
    ),
    "resized": (
        mpi.INT.Create_resized(0, 9),
        {"names": ["f0"], "formats": ["i"], "offsets": [0], "itemsize": 9},
    ),
}


@cases("name", DERIVED)
def test_numpy_types_of_derived_types(name: str) -> None:
    derived, expected = DERIVED[name]
    found = to_dtype(derived)
    assert found == np.dtype(expected)  # type: ignore[call-overload]
    assert found.itemsize == derived.extent
    again = from_dtype(found)
    assert (again.extent, again.signature) == (derived.extent, derived.signature)
    assert [column.tolist() for column in again.layout.runs()] == [column.tolist() for column in derived.layout.runs()]


@cases(
    "derived",
    [
        datatype.DATATYPE_NULL,
        mpi.UB,
        mpi.INT.Create_resized(-4, 8),
        mpi.INT.Create_resized(0, 2),
        mpi.INT.Create_vector(2, 1, -1),
        mpi.INT.Create_hindexed([1, 1], [-4, 4]).Create_resized(0, 8),
        mpi.INT.Create_subarray([4], [2], [1]),
    ],
)
def test_no_numpy_type(derived: datatype.Datatype) -> None:
    with pytest.raises(InvalidTypeError, match="has no numpy type"):
        to_dtype(derived)


@cases("dtype", ["f8", "i2", "c16", [("value", "f4"), ("index", "i4")]])
def test_numpy_type_in_foreign_byte_order(dtype: object) -> None:
    with pytest.raises(InvalidTypeError, match=r"astype\(array.dtype.newbyteorder"):
        from_dtype(np.dtype(dtype).newbyteorder("S"))  # type: ignore[call-overload]


class _FloatInt(ctypes.Structure):
    _fields_ = [("value", ctypes.c_float), ("index", ctypes.c_int)]


@cases(
    ("memory", "attribute"),
    [
        (b"abcd", "UINT8_T"),
        (memoryview(b"abcd").cast("i"), "INT"),
        (array.array("b", [1]), "INT8_T"),
        (array.array("L", [1]), "UNSIGNED_LONG"),
        (np.zeros(2, np.uint8), "UINT8_T"),
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
