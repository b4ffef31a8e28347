"""Reduce_local: an operation on two buffers of one process."""

from __future__ import annotations

import numpy as np
import pytest

from aiompi.datatype import BYTE, DOUBLE, DOUBLE_INT, INT
from aiompi.errors import InvalidBufferError, InvalidCountError, InvalidOpError, InvalidTypeError
from aiompi.op import MAXLOC, OP_NULL, SUM, Op
from support.cases import cases


def test_the_second_buffer_gets_the_result() -> None:
    left, right = np.arange(4.0), np.full(4, 10.0)
    SUM.Reduce_local(left, right)
    assert right.tolist() == [10, 11, 12, 13]
    assert left.tolist() == [0, 1, 2, 3]


@pytest.mark.spec("S4.9.4-1", "S4.9.4-4")
def test_a_users_function_gets_the_first_buffer_on_the_left_as_the_datatype_lays_it_out() -> None:
    hole = INT.Create_resized(0, 8).Commit()

    def subtract(invec: memoryview, inoutvec: memoryview, datatype: object) -> None:
        assert datatype is hole
        result = np.frombuffer(inoutvec, "i")
        result[::2] = np.frombuffer(invec, "i")[::2] - result[::2]

    left, right = np.arange(8, dtype="i"), np.full(8, 5, "i")
    Op.Create(subtract).Reduce_local([left, 4, hole], [right, 4, hole])
    assert right.tolist() == [-5, 5, -3, 5, -1, 5, 1, 5]


def test_strided_arrays_and_pairs() -> None:
    right = np.full(8, 1)
    SUM.Reduce_local(np.arange(8)[::-2], right[::2])
    assert right.tolist() == [8, 1, 6, 1, 4, 1, 2, 1]
    a = np.array([(1.0, 4), (2.0, 3)], DOUBLE_INT.dtype)
    b = np.array([(1.0, 3), (1.0, 9)], DOUBLE_INT.dtype)
    MAXLOC.Reduce_local([a, DOUBLE_INT], [b, DOUBLE_INT])
    assert b.tolist() == [(1.0, 3), (2.0, 3)]


def test_no_items() -> None:
    SUM.Reduce_local([None, 0, DOUBLE], [None, 0, DOUBLE])


ones = np.ones(4)


@pytest.mark.spec("S4.9.2-2", "S2.2-2")
@cases(
    ("op", "left", "right", "error", "message"),
    [
        (SUM, ones, np.ones(3), InvalidCountError, "inbuf holds 4 items, inoutbuf 3"),
        (SUM, ones, np.ones(4, "f"), InvalidTypeError, "pass the same datatype"),
        (SUM, [b"ab", BYTE], [bytearray(2), BYTE], InvalidOpError, "not defined for MPI_BYTE"),
        (OP_NULL, ones, np.ones(4), InvalidOpError, "OP_NULL"),
        (SUM, ones, ones, InvalidBufferError, "inbuf and inoutbuf share memory"),
        (SUM, ones, np.broadcast_to(np.ones(1), 4), InvalidBufferError, "inoutbuf"),
    ],
)
def test_refused(op: Op, left: object, right: object, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        op.Reduce_local(left, right)
