"""NumPy's types to datatypes and back."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import aiompi
from aiompi.util.dtlib import from_numpy_dtype, to_numpy_dtype
from support.cases import cases

CODES = [
    "?",
    "b",
    "h",
    "i",
    "q",
    "B",
    "Q",
    "e",
    "f",
    "d",
    "g",
    "F",
    "D",
    "S1",
    "S5",
    "U3",
    "(1,)i",
    "(3,)h",
    "(2,3,4)d",
]


@cases("code", CODES)
def test_plain_types_come_back(code: str) -> None:
    dtype = np.dtype(code)
    datatype = from_numpy_dtype(dtype)
    assert (datatype.extent, datatype.lb) == (dtype.itemsize, 0)
    kept = {"S5": "(5,)S1", "U3": "(3,)U1", "M8[s]": "i8"}  # elements that MPI has
    assert to_numpy_dtype(datatype) == np.dtype(kept.get(code, code))
    datatype.Free()


@pytest.mark.parametrize("aligned", [False, True])
@pytest.mark.parametrize("codes", [*itertools.combinations(["b", "d", "g", "(3,5)h", "F"], 2)], ids=",".join)
def test_structs_come_back(codes: tuple[str, ...], aligned: bool) -> None:
    inner = np.dtype(",".join(codes), align=aligned)
    for dtype in (inner, np.dtype([("x", inner), ("y", "b"), ("z", inner, (2,))], align=aligned)):
        datatype = from_numpy_dtype(dtype)
        found = to_numpy_dtype(datatype)
        assert datatype.extent == found.itemsize == dtype.itemsize
        assert places(found) == places(dtype)
        assert found.isalignedstruct or not aligned


def places(dtype: np.dtype[Any]) -> list[Any]:
    """Types, shapes and offsets, whatever the fields are called."""
    if dtype.subdtype is not None:
        return [dtype.shape, places(dtype.base)]
    if not dtype.names or dtype.fields is None:
        return [dtype]
    return [(places(dtype.fields[name][0]), dtype.fields[name][1]) for name in dtype.names]


def test_what_is_made_transfers_what_it_says() -> None:
    """Padding is left alone."""
    dtype = np.dtype([("a", "b"), ("b", "d"), ("c", "h", (3,))], align=True)
    datatype = from_numpy_dtype(dtype)
    sent, received = np.zeros(4, dtype), np.zeros(4, dtype)
    sent.view("B")[:] = 7
    (world,) = aiompi.local_world(1)
    world.Isend([sent, datatype], 0)
    world.Irecv([received, datatype], 0)
    for name in ("a", "b", "c"):
        np.testing.assert_array_equal(received[name], sent[name])
    assert 0 in received.view("B")


@cases("code", ["i,i", "f,i", "d,i", "h,i", "l,i", "g,i"])
def test_pairs_have_the_fields_of_structs(code: str) -> None:
    dtype = np.dtype(code, align=True)
    assert to_numpy_dtype(from_numpy_dtype(dtype)) == dtype
    assert to_numpy_dtype(aiompi.MPI.FLOAT_INT) == np.dtype("f,i", align=True)


def test_what_they_are_made_of() -> None:
    """As mpi4py makes them, for programs that take them to pieces."""
    made = from_numpy_dtype(np.dtype([("a", "(4,)i"), ("b", "(2,3)h")]))
    struct, combiner, given = made.decode()
    assert (combiner, given) == ("RESIZED", {"lb": 0, "extent": made.extent})
    parts = struct.decode()[2]["datatypes"]
    assert [part.combiner for part in parts] == [aiompi.MPI.COMBINER_CONTIGUOUS, aiompi.MPI.COMBINER_SUBARRAY]


@cases("dtype", [">i4", "O", [("a", ">f8")], "V", "S", []])
def test_numpy_types_that_mpi_does_not_have(dtype: Any) -> None:
    with pytest.raises(ValueError, match=r"byte order|no MPI datatype|no datatype"):
        from_numpy_dtype(dtype)


def test_datatypes_that_numpy_does_not_have() -> None:
    part = aiompi.MPI.INT.Create_subarray([4], [2], [1])
    before = aiompi.MPI.INT.Create_hindexed([1], [-4])
    for datatype in (aiompi.MPI.DATATYPE_NULL, part, before):
        with pytest.raises(ValueError, match="no numpy type"):
            to_numpy_dtype(datatype)


def test_fortran_order() -> None:
    """What lies in memory is the same."""
    datatype = aiompi.MPI.INT.Create_subarray([2, 3], [2, 3], [0, 0], aiompi.MPI.ORDER_FORTRAN)
    assert to_numpy_dtype(datatype) == np.dtype(("i", (3, 2)))
