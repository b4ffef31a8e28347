"""Operands keep the order of ranks, the contribution as it was, and their use of memory bounded."""

from __future__ import annotations

import numpy as np
import pytest

from aiompi.coll.operand import ObjectOperand, VectorOperand
from aiompi.datatype import resolve_recv, resolve_send
from aiompi.op import Op

# x o y: the digits of x, then those of y
JOIN = Op.Create(lambda a, b, datatype: b.cast("q").__setitem__(0, int(f"{a.cast('q')[0]}{b.cast('q')[0]}")))


def bring(operand, number):
    """A partial result of other ranks comes in."""
    operand.incoming().memory.cast("q")[0] = number


@pytest.mark.spec("S4.9.1-7", "S4.9.4-1")
@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ([], 5),
        ([(4, True)], 45),
        ([(6, False)], 56),
        ([(6, False), (4, True), (7, False), (8, False), (3, True)], 345678),
        ([(4, True), (3, True), (6, False), (7, False)], 34567),
    ],
)
def test_vectors_are_combined_in_rank_order_and_the_contribution_stays(steps, expected):
    value, result = np.array([5]), np.array([-1])
    value.flags.writeable = False
    operand = VectorOperand(resolve_send(value), resolve_recv(result), JOIN)
    for number, lower in steps:
        bring(operand, number)
        operand.absorb(lower=lower)
    assert operand.slot().memory.cast("q")[0] == expected
    operand.finish()
    assert result == [expected]
    assert value == [5]


def test_the_result_may_be_the_contribution():
    result = np.array([5])
    buffer = resolve_recv(result)
    operand = VectorOperand(buffer, buffer, JOIN)
    for number, lower in [(6, False), (4, True), (7, False)]:
        bring(operand, number)
        operand.absorb(lower=lower)
    operand.finish()
    assert result == [4567]


def test_no_result_is_wanted_on_the_way():
    value = np.array([5])
    operand = VectorOperand(resolve_send(value), None, JOIN)
    bring(operand, 6)
    operand.absorb(lower=False)
    operand.finish()
    assert operand.slot().memory.cast("q")[0] == 56
    assert value == [5]


def test_an_adopted_result_is_received_where_it_belongs():
    value, result = np.array([5]), np.array([-1])
    operand = VectorOperand(resolve_send(value), resolve_recv(result), JOIN)
    bring(operand, 99)
    assert result == [99]
    operand.adopt()
    operand.finish()
    assert (value, result) == ([5], [99])


def test_memory_does_not_grow_with_the_number_of_ranks():
    operand = VectorOperand(resolve_send(np.array([1])), None, JOIN)
    used = []
    for step in range(8):
        used.append(operand.incoming().memory)
        used[-1].cast("q")[0] = 2
        operand.absorb(lower=bool(step % 2))
    addresses = {np.frombuffer(memory, np.uint8).ctypes.data for memory in used}
    assert len(addresses) <= 2


def test_objects_are_combined_in_rank_order(codec):
    operand = ObjectOperand("c", lambda a, b: a + b, codec)
    for text, lower in [("b", True), ("d", False), ("a", True)]:
        operand.incoming().fill(memoryview(bytearray().join(codec.dumps(text)[0])))
        operand.absorb(lower=lower)
    assert operand.value == "abcd"
    operand.incoming().fill(operand.slot().data)
    operand.adopt()
    assert operand.value == "abcd"
