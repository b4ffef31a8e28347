"""Accumulators keep the order of ranks, do not change the contribution, and use bounded memory."""

from __future__ import annotations

import numpy as np
import pytest

from aiompi.coll.accumulator import ObjectAccumulator, VectorAccumulator
from aiompi.datatype import resolve_recv, resolve_send
from aiompi.op import SUM, Op
from support.cases import cases

# x o y: the digits of x, then those of y
JOIN = Op.Create(lambda a, b, datatype: b.cast("q").__setitem__(0, int(f"{a.cast('q')[0]}{b.cast('q')[0]}")))


def bring(accumulator, number):
    """A partial result of other ranks comes in."""
    accumulator.incoming().memory.cast("q")[0] = number


@pytest.mark.spec("S4.9.1-7", "S4.9.4-1")
@cases(
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
    accumulator = VectorAccumulator(resolve_send(value), resolve_recv(result), JOIN)
    for number, lower in steps:
        bring(accumulator, number)
        accumulator.absorb(lower=lower)
    assert accumulator.block().memory.cast("q")[0] == expected
    accumulator.finish()
    assert result == [expected]
    assert value == [5]


@pytest.mark.parametrize(("op", "expected"), [(JOIN, 567), (SUM, 18)])
def test_what_others_contribute_is_combined_elsewhere_and_stays(op, expected):
    contributions = [np.array([number]) for number in (5, 6, 7)]
    for contribution in contributions:
        contribution.flags.writeable = False
    accumulator = VectorAccumulator(resolve_send(contributions[0]), None, op)
    accumulator.combine([contribution.data.cast("B") for contribution in contributions])
    assert accumulator.block().memory.cast("q")[0] == expected
    assert contributions == [5, 6, 7]


def test_the_result_may_be_the_contribution():
    result = np.array([5])
    buffer = resolve_recv(result)
    accumulator = VectorAccumulator(buffer, buffer, JOIN)
    for number, lower in [(6, False), (4, True), (7, False)]:
        bring(accumulator, number)
        accumulator.absorb(lower=lower)
    accumulator.finish()
    assert result == [4567]


def test_no_result_is_wanted_on_the_way():
    value = np.array([5])
    accumulator = VectorAccumulator(resolve_send(value), None, JOIN)
    bring(accumulator, 6)
    accumulator.absorb(lower=False)
    accumulator.finish()
    assert accumulator.block().memory.cast("q")[0] == 56
    assert value == [5]


def test_an_adopted_result_is_received_where_it_belongs():
    value, result = np.array([5]), np.array([-1])
    accumulator = VectorAccumulator(resolve_send(value), resolve_recv(result), JOIN)
    bring(accumulator, 99)
    assert result == [99]
    accumulator.adopt()
    accumulator.finish()
    assert (value, result) == ([5], [99])


def test_memory_does_not_grow_with_the_number_of_ranks():
    accumulator = VectorAccumulator(resolve_send(np.array([1])), None, JOIN)
    used = []
    for step in range(8):
        used.append(accumulator.incoming().memory)
        used[-1].cast("q")[0] = 2
        accumulator.absorb(lower=bool(step % 2))
    addresses = {np.frombuffer(memory, np.uint8).ctypes.data for memory in used}
    assert len(addresses) <= 2


def test_objects_are_combined_in_rank_order(codec):
    accumulator = ObjectAccumulator("c", lambda a, b: a + b, codec)
    for text, lower in [("b", True), ("d", False), ("a", True)]:
        accumulator.incoming().fill(memoryview(bytearray().join(codec.dumps(text)[0])))
        accumulator.absorb(lower=lower)
    assert accumulator.value == "abcd"
    accumulator.incoming().fill(accumulator.block().data)
    accumulator.adopt()
    assert accumulator.value == "abcd"


def add(left, right):
    for i, item in enumerate(left):
        right[i] += item


def vector(value, result, op=SUM):
    return VectorAccumulator(resolve_send(value), None if result is None else resolve_recv(result), op)


def put(block, *numbers):
    np.frombuffer(block.memory, int)[:] = numbers


def bring_items(accumulator, *numbers):
    put(accumulator.incoming(), *numbers)


@pytest.mark.parametrize("wanted", [True, False])
@pytest.mark.parametrize("op", [SUM, Op.Create(lambda a, b, datatype: add(a.cast("q"), b.cast("q")))])
def test_parts_are_combined_apart_and_joined(wanted, op):
    value, result = np.arange(5), np.full(5, -1)
    value.flags.writeable = False
    accumulator = vector(value, result if wanted else None, op)
    low, high = accumulator.part(0, 2), accumulator.part(2, 5)
    assert (accumulator.count, low.count, high.count) == (5, 2, 3)
    bring_items(low, 10, 20)
    low.absorb(lower=True)
    for _ in range(2):
        bring_items(high, 1, 2, 3)
        high.absorb(lower=False)
    accumulator.join(low, high)
    accumulator.finish()
    assert accumulator.block().memory.cast("q").tolist() == [10, 21, 4, 7, 10]
    assert result.tolist() == ([10, 21, 4, 7, 10] if wanted else [-1] * 5)
    assert value.tolist() == list(range(5))


def test_a_part_may_be_replaced_where_the_result_belongs():
    value, result = np.arange(4), np.full(4, -1)
    accumulator = vector(value, result)
    low, high = accumulator.part(0, 2), accumulator.part(2, 4)
    put(low.replacement(), 7, 8)
    bring_items(high, 1, 1)
    high.absorb(lower=False)
    put(high.replacement(), 9, 9)
    assert result.tolist() == [7, 8, 9, 9]
    accumulator.join(low, high)
    accumulator.finish()
    assert result.tolist() == [7, 8, 9, 9]
    assert value.tolist() == [0, 1, 2, 3]


def test_a_part_may_be_kept():
    value, result = np.arange(4), np.full(2, -1)
    accumulator = vector(value, result)
    own = accumulator.part(1, 3)
    bring_items(own, 10, 10)
    own.absorb(lower=True)
    accumulator.keep(own)
    accumulator.finish()
    assert result.tolist() == [11, 12]
    assert value.tolist() == [0, 1, 2, 3]


def test_parts_are_combined_without_copies_where_the_order_is_free():
    accumulator = vector(np.arange(4), np.full(4, -1))
    part = accumulator.part(0, 2)
    incoming = part.incoming().memory
    part.absorb(lower=True)
    assert part.block().memory is incoming


def test_a_part_that_was_left_as_it_is_may_be_kept():
    value, result = np.arange(4), np.full(2, -1)
    accumulator = vector(value, result)
    accumulator.keep(accumulator.part(2, 4))
    accumulator.finish()
    assert result.tolist() == [2, 3]


@pytest.mark.parametrize("in_place", [True, False])
def test_what_came_in_may_be_combined_by_itself_first(in_place):
    value, result = np.array([5]), np.array([-1])
    buffer = resolve_recv(result)
    result[:] = 5
    accumulator = VectorAccumulator(buffer if in_place else resolve_send(value), buffer, JOIN)
    last, between = accumulator.incoming(), accumulator.room()
    put(last, 7)
    put(between, 6)
    higher = accumulator.started(last)
    higher.take(between, lower=True)
    accumulator.take(higher.block(), lower=False)
    accumulator.finish()
    assert (value, result) == ([5], [567])


def test_parts_of_a_ring_share_one_piece_of_memory():
    result = np.arange(8)
    buffer = resolve_recv(result)
    accumulator = VectorAccumulator(buffer, buffer, SUM)
    parts = [accumulator.part(i, i + 2) for i in range(0, 8, 2)]
    addresses = set()
    for part in parts:
        bring_items(part, 1, 1)
        addresses.add(np.asarray(part._incoming).ctypes.data)
        part.absorb(lower=True)
    accumulator.join(*parts)
    assert result.tolist() == list(range(1, 9))
    assert len(addresses) == 1
