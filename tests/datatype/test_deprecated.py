"""The names of MPI-1.1 that were replaced."""

from __future__ import annotations

import numpy as np
import pytest

from aiompi.datatype import CHAR, DATATYPE_NULL, DOUBLE, INT, LB, UB, Datatype, deprecated
from aiompi.datatype.buffer.address import Get_address
from aiompi.errors import InvalidTypeError
from support.datatype_model import addresses


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (deprecated.Type_hvector(3, 2, -20, INT), INT.Create_hvector(3, 2, -20)),
        (deprecated.Type_hindexed([2, 1], [7, -1], INT), INT.Create_hindexed([2, 1], [7, -1])),
        (
            deprecated.Type_struct([2, 1, 1], [8, 0, 64], [DOUBLE, CHAR, UB]),
            Datatype.Create_struct([2, 1, 1], [8, 0, 64], [DOUBLE, CHAR, UB]),
        ),
    ],
)
def test_constructors_do_what_their_replacements_do(old: Datatype, new: Datatype) -> None:
    assert old.decode()[1:] == new.decode()[1:]
    assert (old.Get_extent(), addresses(old)) == (new.Get_extent(), addresses(new))


@pytest.mark.spec("S3.12.3-5", "S3.12.2-4")
def test_bounds() -> None:
    struct = deprecated.Type_struct([1, 1, 1], [-3, 0, 6], [LB, INT, UB])
    assert (deprecated.Type_lb(struct), deprecated.Type_ub(struct), deprecated.Type_extent(struct)) == (-3, 6, 9)
    for function in (deprecated.Type_lb, deprecated.Type_ub, deprecated.Type_extent):
        with pytest.raises(InvalidTypeError, match="MPI_DATATYPE_NULL"):
            function(DATATYPE_NULL)


def test_address() -> None:
    values = np.zeros(5)
    assert deprecated.Address(values[3:]) == Get_address(values) + 24
