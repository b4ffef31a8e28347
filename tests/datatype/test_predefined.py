"""The predefined datatypes against tables typed from the standard."""

import copy
import pickle
import struct

import pytest

from aiompi import datatype
from aiompi.datatype import predefined
from aiompi.datatype.handle import PREDEFINED
from aiompi.errors import ERR_TYPE, InvalidTypeError
from support.cases import cases

# Attribute, MPI name, bytes, format of the struct module that is the same C type (None: it has none).
C_TYPES = [
    ("CHAR", "MPI_CHAR", 1, "c"),
    ("SHORT", "MPI_SHORT", 2, "h"),
    ("INT", "MPI_INT", 4, "i"),
    ("LONG", "MPI_LONG", 8, "l"),
    ("UNSIGNED_CHAR", "MPI_UNSIGNED_CHAR", 1, "B"),
    ("UNSIGNED_SHORT", "MPI_UNSIGNED_SHORT", 2, "H"),
    ("UNSIGNED", "MPI_UNSIGNED", 4, "I"),
    ("UNSIGNED_LONG", "MPI_UNSIGNED_LONG", 8, "L"),
    ("FLOAT", "MPI_FLOAT", 4, "f"),
    ("DOUBLE", "MPI_DOUBLE", 8, "d"),
    ("LONG_DOUBLE", "MPI_LONG_DOUBLE", 16, None),
    ("BYTE", "MPI_BYTE", 1, "B"),
    ("PACKED", "MPI_PACKED", 1, "B"),
    ("LONG_LONG_INT", "MPI_LONG_LONG_INT", 8, "q"),
    ("UNSIGNED_LONG_LONG", "MPI_UNSIGNED_LONG_LONG", 8, "Q"),
    ("SIGNED_CHAR", "MPI_SIGNED_CHAR", 1, "b"),
    ("WCHAR", "MPI_WCHAR", 4, None),
    ("C_BOOL", "MPI_C_BOOL", 1, "?"),
    ("INT8_T", "MPI_INT8_T", 1, "b"),
    ("INT16_T", "MPI_INT16_T", 2, "h"),
    ("INT32_T", "MPI_INT32_T", 4, "i"),
    ("INT64_T", "MPI_INT64_T", 8, "q"),
    ("UINT8_T", "MPI_UINT8_T", 1, "B"),
    ("UINT16_T", "MPI_UINT16_T", 2, "H"),
    ("UINT32_T", "MPI_UINT32_T", 4, "I"),
    ("UINT64_T", "MPI_UINT64_T", 8, "Q"),
    ("C_FLOAT_COMPLEX", "MPI_C_FLOAT_COMPLEX", 8, None),
    ("C_DOUBLE_COMPLEX", "MPI_C_DOUBLE_COMPLEX", 16, None),
    ("C_LONG_DOUBLE_COMPLEX", "MPI_C_LONG_DOUBLE_COMPLEX", 32, None),
    ("AINT", "MPI_AINT", 8, "q"),
    ("COUNT", "MPI_COUNT", 8, "q"),
    ("OFFSET", "MPI_OFFSET", 8, "q"),
]

FORTRAN_TYPES = [
    ("INTEGER", "MPI_INTEGER", 4, "i"),
    ("REAL", "MPI_REAL", 4, "f"),
    ("DOUBLE_PRECISION", "MPI_DOUBLE_PRECISION", 8, "d"),
    ("COMPLEX", "MPI_COMPLEX", 8, None),
    ("LOGICAL", "MPI_LOGICAL", 4, "i"),
    ("CHARACTER", "MPI_CHARACTER", 1, "c"),
    ("DOUBLE_COMPLEX", "MPI_DOUBLE_COMPLEX", 16, None),
    ("INTEGER1", "MPI_INTEGER1", 1, "b"),
    ("INTEGER2", "MPI_INTEGER2", 2, "h"),
    ("INTEGER4", "MPI_INTEGER4", 4, "i"),
    ("INTEGER8", "MPI_INTEGER8", 8, "q"),
    ("REAL2", "MPI_REAL2", 2, "e"),
    ("REAL4", "MPI_REAL4", 4, "f"),
    ("REAL8", "MPI_REAL8", 8, "d"),
    ("LOGICAL1", "MPI_LOGICAL1", 1, "b"),
    ("LOGICAL2", "MPI_LOGICAL2", 2, "h"),
    ("LOGICAL4", "MPI_LOGICAL4", 4, "i"),
    ("LOGICAL8", "MPI_LOGICAL8", 8, "q"),
    ("FLOAT16_T", "MPIX_C_FLOAT16", 2, "e"),
    ("FLOAT32_T", "MPIX_C_FLOAT32", 4, "f"),
    ("FLOAT64_T", "MPIX_C_FLOAT64", 8, "d"),
    ("COMPLEX8", "MPI_COMPLEX8", 8, None),
    ("COMPLEX16", "MPI_COMPLEX16", 16, None),
]

# Attribute, MPI name, size, extent, offset of the index.
PAIRS = [
    ("FLOAT_INT", "MPI_FLOAT_INT", 8, 8, 4),
    ("DOUBLE_INT", "MPI_DOUBLE_INT", 12, 16, 8),
    ("LONG_INT", "MPI_LONG_INT", 12, 16, 8),
    ("TWOINT", "MPI_2INT", 8, 8, 4),
    ("SHORT_INT", "MPI_SHORT_INT", 6, 8, 4),
    ("LONG_DOUBLE_INT", "MPI_LONG_DOUBLE_INT", 20, 32, 16),
    ("TWOREAL", "MPI_2REAL", 8, 8, 4),
    ("TWODOUBLE_PRECISION", "MPI_2DOUBLE_PRECISION", 16, 16, 8),
    ("TWOINTEGER", "MPI_2INTEGER", 8, 8, 4),
]

# struct's code of a type -> an item of it and its bytes, from the definition of the type and not from numpy.
SAMPLES = {"c": b"x", "?": True, "e": 1.5, "f": -2.25, "d": 1e300}


@pytest.mark.spec("S3.2.2-3")
@cases(("attribute", "name", "nbytes", "code"), C_TYPES + FORTRAN_TYPES)
def test_basic_type(attribute: str, name: str, nbytes: int, code: str | None) -> None:
    type_ = getattr(datatype, attribute)
    assert type_.Get_name() == type_.name == name
    assert type_.Get_size() == type_.size == nbytes
    assert type_.Get_extent() == (0, nbytes)
    assert (type_.lb, type_.ub, type_.extent) == (0, nbytes, nbytes)
    assert type_.dtype.itemsize == nbytes
    if code is not None:
        assert struct.calcsize(code) == nbytes
        item = SAMPLES.get(code, 7)
        assert type_.dtype.type(item).tobytes() == struct.pack(code, item)


@pytest.mark.spec("S4.9.3-4", "S4.9.3-5")
@cases(("attribute", "name", "size", "extent", "offset"), PAIRS)
def test_pair_type(attribute: str, name: str, size: int, extent: int, offset: int) -> None:
    type_ = getattr(datatype, attribute)
    assert (type_.name, type_.size, type_.extent, type_.lb) == (name, size, extent, 0)
    assert type_.dtype.itemsize == extent
    assert type_.dtype.fields["value"][1] == 0
    assert type_.dtype.fields["index"][1] == offset


@pytest.mark.spec("S4.9.3-4")
@pytest.mark.parametrize("attribute", ["TWOREAL", "TWODOUBLE_PRECISION", "TWOINTEGER"])
def test_fortran_pairs_carry_the_index_in_the_type_of_the_value(attribute: str) -> None:
    dtype = getattr(datatype, attribute).dtype
    assert dtype["index"] == dtype["value"]


def test_the_tables_above_are_complete() -> None:
    names = {row[1] for row in C_TYPES + FORTRAN_TYPES} | {row[1] for row in PAIRS}
    assert names | {"MPI_DATATYPE_NULL", "MPI_LB", "MPI_UB"} == set(PREDEFINED)


def test_every_constant_is_exported() -> None:
    constants = {name for name, value in vars(predefined).items() if isinstance(value, datatype.Datatype)}
    assert constants | {"Datatype"} == set(predefined.__all__)
    assert set(predefined.__all__) <= set(datatype.__all__)
    assert len(datatype.__all__) == len(set(datatype.__all__))


@cases(
    ("alias", "name"),
    [
        ("LONG_LONG", "LONG_LONG_INT"),
        ("SIGNED_SHORT", "SHORT"),
        ("SIGNED_INT", "INT"),
        ("SIGNED_LONG", "LONG"),
        ("SIGNED_LONG_LONG", "LONG_LONG_INT"),
        ("UNSIGNED_INT", "UNSIGNED"),
        ("BOOL", "C_BOOL"),
        ("C_COMPLEX", "C_FLOAT_COMPLEX"),
        ("INT_INT", "TWOINT"),
    ],
)
def test_aliases_are_the_same_object(alias: str, name: str) -> None:
    assert getattr(datatype, alias) is getattr(datatype, name)


@cases("type_", PREDEFINED.values())
def test_copies_are_the_constant_itself(type_: datatype.Datatype) -> None:
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        assert pickle.loads(pickle.dumps(type_, protocol)) is type_
    assert copy.copy(type_) is type_
    assert copy.deepcopy([type_]) == [type_]


@pytest.mark.spec("S2.4.1-6", "S3.12.4-7")
@cases("type_", PREDEFINED.values())
def test_predefined_types_cannot_be_freed(type_: datatype.Datatype) -> None:
    with pytest.raises(InvalidTypeError, match=type_.name) as caught:
        type_.Free()
    assert caught.value.error_class == ERR_TYPE


@pytest.mark.spec("S3.12.4-2")
def test_commit_of_a_basic_type_changes_nothing() -> None:
    assert datatype.INT.Commit() is datatype.INT
    assert datatype.INT.is_predefined


def test_null_datatype() -> None:
    assert not datatype.DATATYPE_NULL
    assert datatype.DATATYPE_NULL.dtype is None
    assert all(type_ for type_ in PREDEFINED.values() if type_ is not datatype.DATATYPE_NULL)


def test_repr_names_the_type() -> None:
    assert repr(datatype.DOUBLE) == "<aiompi.Datatype MPI_DOUBLE>"
