"""The attributes that communicators have from the start."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from aiompi import errors
from aiompi.base.attribute import Attributes
from aiompi.comm.attribute import COMMUNICATOR_KEYVALS
from aiompi.constants import (
    ANY_SOURCE,
    APPNUM,
    HOST,
    IO,
    LASTUSEDCODE,
    PROC_NULL,
    TAG_UB,
    UNIVERSE_SIZE,
    WTIME_IS_GLOBAL,
)


@pytest.mark.spec("S7.1.1-1")
def test_predefined_attributes_of_communicators() -> None:
    session = SimpleNamespace(appnum=3, universe_size=5)
    comm = SimpleNamespace(_core=SimpleNamespace(engine=SimpleNamespace(size=5), tag_ub=TAG_UB, session=session))
    attributes = Attributes(COMMUNICATOR_KEYVALS)
    expected = {
        TAG_UB: TAG_UB, HOST: PROC_NULL, IO: ANY_SOURCE, WTIME_IS_GLOBAL: 0, UNIVERSE_SIZE: 5, APPNUM: 3,
    }  # fmt: skip
    assert {key: attributes.get(comm, key) for key in expected} == expected
    assert TAG_UB >= 32767
    assert attributes.get(comm, LASTUSEDCODE) >= errors.ERR_LASTCODE
    code = errors.Add_error_class()
    assert attributes.get(comm, LASTUSEDCODE) == code
    errors.Remove_error_class(code)
