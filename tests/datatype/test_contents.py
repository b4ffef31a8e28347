"""Envelope and contents (section 4.1.13 of MPI-3.1), against the standard's table."""

from __future__ import annotations

from typing import Any

import pytest

from aiompi import constants as mpi
from aiompi.datatype import BYTE, DATATYPE_NULL, DOUBLE, INT, LB, UB, Datatype
from aiompi.datatype.deprecated import Type_hindexed, Type_hvector, Type_struct
from aiompi.errors import InvalidTypeError
from support.cases import cases

BLOCK, CYCLIC = mpi.DISTRIBUTE_BLOCK, mpi.DISTRIBUTE_CYCLIC

# Type, combiner, integers, addresses, types.
TABLE: list[tuple[Datatype, str, list[int], list[int], list[Datatype]]] = [
    (INT.Dup(), "DUP", [], [], [INT]),
    (INT.Create_contiguous(7), "CONTIGUOUS", [7], [], [INT]),
    (INT.Create_vector(3, 2, -4), "VECTOR", [3, 2, -4], [], [INT]),
    (INT.Create_hvector(3, 2, -4), "HVECTOR", [3, 2], [-4], [INT]),
    (INT.Create_indexed([1, 2, 3], [9, -8, 7]), "INDEXED", [3, 1, 2, 3, 9, -8, 7], [], [INT]),
    (INT.Create_hindexed([1, 2, 3], [9, -8, 7]), "HINDEXED", [3, 1, 2, 3], [9, -8, 7], [INT]),
    (INT.Create_indexed_block(5, [9, -8, 7]), "INDEXED_BLOCK", [3, 5, 9, -8, 7], [], [INT]),
    (INT.Create_hindexed_block(5, [9, -8, 7]), "HINDEXED_BLOCK", [3, 5], [9, -8, 7], [INT]),
    (Datatype.Create_struct([1, 2], [8, 0], [DOUBLE, INT]), "STRUCT", [2, 1, 2], [8, 0], [DOUBLE, INT]),
    (Datatype.Create_struct([], [], []), "STRUCT", [0], [], []),
    (Datatype.Create_struct([1, 1], [0, 9], [LB, UB]), "STRUCT", [2, 1, 1], [0, 9], [LB, UB]),
    (
        INT.Create_subarray([4, 5], [1, 2], [3, 0], mpi.ORDER_F),
        "SUBARRAY",
        [2, 4, 5, 1, 2, 3, 0, mpi.ORDER_F],
        [],
        [INT],
    ),
    (
        INT.Create_darray(6, 1, [8, 9], [BLOCK, CYCLIC], [-1, 2], [2, 3]),
        "DARRAY",
        [6, 1, 2, 8, 9, BLOCK, CYCLIC, -1, 2, 2, 3, mpi.ORDER_C],
        [],
        [INT],
    ),
    (INT.Create_resized(-3, 9), "RESIZED", [], [-3, 9], [INT]),
    (Datatype.Create_f90_real(6, mpi.UNDEFINED), "F90_REAL", [6, mpi.UNDEFINED], [], []),
    (Datatype.Create_f90_complex(10, 100), "F90_COMPLEX", [10, 100], [], []),
    (Datatype.Create_f90_integer(9), "F90_INTEGER", [9], [], []),
    (Type_hvector(3, 2, -4, INT), "HVECTOR", [3, 2], [-4], [INT]),
    (Type_hindexed([1, 2], [9, -8], INT), "HINDEXED", [2, 1, 2], [9, -8], [INT]),
    (Type_struct([1, 2], [8, 0], [DOUBLE, INT]), "STRUCT", [2, 1, 2], [8, 0], [DOUBLE, INT]),
]


@pytest.mark.spec("D4.1.13-1", "D4.1.13-6")
@cases(("made", "name", "integers", "addresses", "types"), TABLE)
def test_table(made: Datatype, name: str, integers: list[int], addresses: list[int], types: list[Datatype]) -> None:
    combiner = getattr(mpi, f"COMBINER_{name}")
    assert made.Get_envelope() == (len(integers), len(addresses), 0, len(types), combiner)
    assert made.Get_contents() == (integers, addresses, [], types)
    assert (made.envelope, made.contents, made.combiner) == (made.Get_envelope(), made.Get_contents(), combiner)
    assert not made.is_named


@pytest.mark.spec("D4.1.13-1")
def test_every_combiner_is_in_the_table() -> None:
    names = {name for _, name, *_ in TABLE} | {"NAMED", "VALUE_INDEX"}  # the last is of unnamed pairs, of MPI-4.1
    assert {f"COMBINER_{name}" for name in names} == {name for name in vars(mpi) if name.startswith("COMBINER_")}


@pytest.mark.spec("D4.1.13-2")
@pytest.mark.parametrize("named", [INT, BYTE, LB])
def test_predefined_types_have_no_contents(named: Datatype) -> None:
    assert named.Get_envelope() == (0, 0, 0, 0, mpi.COMBINER_NAMED)
    assert named.is_named
    with pytest.raises(InvalidTypeError, match=f"{named.name} is predefined and has no contents"):
        named.Get_contents()


@pytest.mark.spec("S2.4.1-5")
def test_null_has_neither() -> None:
    for call in (Datatype.Get_envelope, Datatype.Get_contents, Datatype.decode):
        with pytest.raises(InvalidTypeError, match="MPI_DATATYPE_NULL"):
            call(DATATYPE_NULL)


@pytest.mark.spec("D4.1.13-3")
def test_predefined_components_are_the_constants() -> None:
    _, _, _, types = Datatype.Create_struct([1, 1, 1], [0, 4, 8], [INT, DOUBLE.Dup(), UB]).Get_contents()
    assert types[0] is INT
    assert types[2] is UB
    with pytest.raises(InvalidTypeError, match="cannot be freed"):
        types[0].Free()


@pytest.mark.spec("D4.1.13-3")
def test_derived_components_are_new_handles() -> None:
    inner = INT.Create_vector(2, 1, 3)
    outer = inner.Create_contiguous(2)
    (first,), (second,) = outer.Get_contents()[3], outer.Get_contents()[3]
    assert first not in (inner, second)
    assert first.Get_contents() == inner.Get_contents()
    first.Free()
    assert all((inner, second, outer))
    assert outer.Get_contents()[3][0].Get_envelope() == inner.Get_envelope()


@pytest.mark.spec("D4.1.13-7", "S3.12.4-5")
def test_decoding_after_the_components_are_freed() -> None:
    inner = INT.Create_vector(2, 1, 3)
    outer = Datatype.Create_struct([1, 1], [0, 100], [inner, DOUBLE])
    inner.Free()
    vector, double = outer.Get_contents()[3]
    assert vector.Get_contents() == ([2, 1, 3], [], [], [INT])
    assert vector.extent == 16
    assert double is DOUBLE


def test_decode_gives_the_call() -> None:
    assert INT.decode() == (INT, "NAMED", {})
    assert INT.Create_hvector(3, 2, 40).decode() == (INT, "HVECTOR", {"count": 3, "blocklength": 2, "stride": 40})
    struct = Datatype.Create_struct([1, 2], [8, 0], [DOUBLE, INT])
    given: dict[str, Any] = {"blocklengths": [1, 2], "displacements": [8, 0], "datatypes": [DOUBLE, INT]}
    assert struct.decode() == (DATATYPE_NULL, "STRUCT", given)
    assert Datatype.Create_f90_real(3, 4).decode() == (DATATYPE_NULL, "F90_REAL", {"p": 3, "r": 4})


@pytest.mark.spec("D4.1.13-5")
@pytest.mark.parametrize("made", [row[0] for row in TABLE], ids=[row[1] for row in TABLE])
def test_decoded_calls_can_be_repeated(made: Datatype) -> None:
    old, combiner, arguments = made.decode()
    again: Datatype = getattr(old, f"Create_{combiner.lower()}")(**arguments)
    assert again.Get_envelope() == made.Get_envelope()
    assert again.Get_contents() == made.Get_contents()
    assert (again.Get_extent(), again.signature) == (made.Get_extent(), made.signature)
