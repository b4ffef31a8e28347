"""The examples of section 3.12, and of chapter 4 of MPI-3.1, that need no communication."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest

from aiompi import constants as mpi
from aiompi.datatype import CHAR, DOUBLE, FLOAT, INT, LB, REAL, UB, Datatype
from aiompi.datatype.buffer.address import Aint_diff, Get_address
from aiompi.datatype.deprecated import Address, Type_extent, Type_lb, Type_struct, Type_ub

MIXED = Type_struct([1, 1], [0, 8], [DOUBLE, CHAR])


def entries(datatype: Datatype) -> list[tuple[Datatype, int]]:
    """The type map: basic types in order, and where each lies in memory."""
    kinds = [kind for kind, n in datatype.signature for _ in range(n)]
    memory, packed, lengths = datatype.layout.runs()
    position = np.cumsum([0, *(kind.size for kind in kinds)][:-1])  # of each element in the message
    run = np.searchsorted(packed, position, "right") - 1
    assert np.all(position - packed[run] < lengths[run])
    return list(zip(kinds, (memory[run] + position - packed[run]).tolist(), strict=True))


def displacements(datatype: Datatype) -> list[int]:
    return [at for _, at in entries(datatype)]


@pytest.mark.spec("S3.12-4", "S3.12-5", "D4.1.8-2")
def test_example_3_19() -> None:
    """Extent of {(double, 0), (char, 8)} (4.1 of MPI-3.1)."""
    assert entries(MIXED) == [(DOUBLE, 0), (CHAR, 8)]
    assert (MIXED.size, Type_extent(MIXED), MIXED.true_extent) == (9, 16, 9)
    assert Type_extent(Type_struct([1, 1], [0, 1], [CHAR, DOUBLE])) == 16


@pytest.mark.spec("S3.12.1-1")
def test_example_3_20() -> None:
    """Contiguous (4.2)."""
    made = MIXED.Create_contiguous(3)
    assert entries(made) == [(DOUBLE, 0), (CHAR, 8), (DOUBLE, 16), (CHAR, 24), (DOUBLE, 32), (CHAR, 40)]
    assert (made.size, made.extent) == (27, 48)


@pytest.mark.spec("S3.12.1-3")
def test_example_3_21() -> None:
    """Vector (4.3)."""
    made = MIXED.Create_vector(2, 3, 4)
    assert displacements(made) == [0, 8, 16, 24, 32, 40, 64, 72, 80, 88, 96, 104]
    assert (made.size, made.extent) == (54, 112)


@pytest.mark.spec("S3.12-1", "S3.12.1-3")
def test_example_3_22() -> None:
    """Vector with a negative stride (4.4)."""
    made = MIXED.Create_vector(3, 1, -2)
    assert displacements(made) == [0, 8, -32, -24, -64, -56]
    assert (made.size, made.lb, made.ub, made.extent) == (27, -64, 16, 80)


@pytest.mark.spec("S3.12.1-5")
def test_example_3_23() -> None:
    """Indexed (4.5)."""
    made = MIXED.Create_indexed([3, 1], [4, 0])
    assert displacements(made) == [64, 72, 80, 88, 96, 104, 0, 8]
    assert (made.size, made.extent) == (36, 112)


@pytest.mark.spec("S3.12.1-8", "D4.1.2-3")
@pytest.mark.parametrize("create", [Type_struct, Datatype.Create_struct])
def test_example_3_24(create: Callable[..., Datatype]) -> None:
    """Struct (4.6)."""
    made = create([2, 1, 3], [0, 16, 26], [FLOAT, MIXED, CHAR])
    assert entries(made) == [(FLOAT, 0), (FLOAT, 4), (DOUBLE, 16), (CHAR, 24), (CHAR, 26), (CHAR, 27), (CHAR, 28)]
    assert (made.size, made.extent) == (20, 32)


@pytest.mark.spec("S3.12.2-1", "D4.1.5-1")
def test_example_3_25() -> None:
    """Addresses of two elements of an array (4.8)."""
    a = np.zeros((100, 100), np.float32, order="F")
    first, second = Address(a[0:1, 0:1]), Address(a[9:10, 9:10])
    assert second - first == 909 * REAL.size
    assert Aint_diff(Get_address(a[9:10, 9:10]), Get_address(a[0:1, 0:1])) == 909 * REAL.size


@pytest.mark.spec("S3.12.3-1", "S3.12.3-2", "S3.12.3-3", "S3.12.3-5", "D4.1.6-2")
@pytest.mark.parametrize(
    "type1", [Type_struct([1, 1, 1], [-3, 0, 6], [LB, INT, UB]), INT.Create_resized(-3, 9)], ids=["markers", "resized"]
)
def test_example_3_26(type1: Datatype) -> None:
    """Explicit bounds (4.9, where they are those of a resized type)."""
    assert (Type_extent(type1), type1.size) == (9, 4)
    type2 = type1.Create_contiguous(2)
    assert entries(type2) == [(INT, 0), (INT, 9)]
    assert (Type_lb(type2), Type_ub(type2), Type_extent(type2)) == (-3, 15, 18)


@pytest.mark.spec("S2.4.1-1", "S3.12.4-1", "S3.12.4-2")
def test_example_3_27() -> None:
    """Committed types, copied handles, variables that are used again (4.10)."""
    type1 = REAL.Create_contiguous(5)  # new type object
    type1.Commit()  # now type1 can be used
    type2 = type1  # and type2, a handle of the same object
    type1 = REAL.Create_vector(3, 5, 4)  # a new object, not committed
    assert type2 != type1
    type2.check_usable("datatype")
    assert displacements(type2) == [0, 4, 8, 12, 16]
    assert not type1.is_committed
    type1.Commit().check_usable("datatype")
    assert type1.size == 60


@pytest.mark.spec("D4.1.4-6", "D4.1.4-9")
def test_example_4_7() -> None:
    """FILEARRAY(100, 200, 300), DISTRIBUTE (CYCLIC(10), *, BLOCK) ONTO PROCESSES(2, 3)."""
    gsizes = [100, 200, 300]
    distribs = [mpi.DISTRIBUTE_CYCLIC, mpi.DISTRIBUTE_NONE, mpi.DISTRIBUTE_BLOCK]
    owners = np.zeros(math.prod(gsizes), np.int8)
    for rank in range(6):
        made = CHAR.Create_darray(
            6, rank, gsizes, distribs, [10, 0, mpi.DISTRIBUTE_DFLT_DARG], [2, 1, 3], mpi.ORDER_FORTRAN
        )
        assert (made.size, made.Get_extent()) == (1_000_000, (0, 6_000_000))
        memory, _, lengths = made.layout.runs()
        for start, length in zip(memory.tolist(), lengths.tolist(), strict=True):
            owners[start : start + length] += 1
        # In Fortran order the first index is the fastest, in the grid the last one is.
        row, plane = divmod(rank, 3)
        assert memory[0] == 10 * row + 100 * 200 * 100 * plane
    assert np.all(owners == 1)


def printed(datatype: Datatype, free: bool = False) -> list[str]:
    """The routine printdatatype of example 4.20: decode, print, and free what decoding made."""
    *_, combiner = datatype.Get_envelope()
    if combiner == mpi.COMBINER_NAMED:
        return [f"Datatype is named: {datatype.Get_name()}"]
    integers, addresses, _, types = datatype.Get_contents()
    lines = {
        mpi.COMBINER_STRUCT: lambda: [f"Datatype is struct containing {integers[0]} {integers[1:]} {addresses}"],
        mpi.COMBINER_VECTOR: lambda: [f"Datatype is vector {integers}"],
        mpi.COMBINER_DUP: lambda: ["Datatype is dup"],
    }[combiner]()
    lines += itertools.chain.from_iterable(printed(component, free=True) for component in types)
    if free:
        datatype.Free()
        assert not datatype
    return lines


@pytest.mark.spec("D4.1.13-1", "D4.1.13-3", "D4.1.13-5")
def test_example_4_20() -> None:
    """Decoding a datatype to the last component; only what is not predefined is freed."""
    inner = INT.Create_vector(2, 1, 3)
    outer = Datatype.Create_struct([1, 2, 1], [0, 8, 40], [inner, DOUBLE.Dup(), CHAR])
    expected = [
        "Datatype is struct containing 3 [1, 2, 1] [0, 8, 40]",
        "Datatype is vector [2, 1, 3]",
        "Datatype is named: MPI_INT",
        "Datatype is dup",
        "Datatype is named: MPI_DOUBLE",
        "Datatype is named: MPI_CHAR",
    ]
    assert printed(outer) == printed(outer) == expected
    assert (outer.size, inner.size, outer.extent) == (25, 8, 48)
