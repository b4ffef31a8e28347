"""Accesses to windows in the core: what is wrong takes the usual way, and nothing outside of the memory is touched."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from aiompi import core
from aiompi.core import Atomics, WindowBase
from aiompi.errors import InternalError
from aiompi.op.predefined import MAX, NO_OP, REPLACE, SUM
from aiompi.window.target import IN_CORE, OPERATIONS
from support.cases import cases

if core.form != "native":
    pytest.skip("the pure form has no short way", allow_module_level=True)

OPEN, ALONE = 1, 4
ROOM = 64


def window(rights: int = OPEN, *, unit: int = 1) -> tuple[WindowBase, Any]:
    """Return a window whose rank 1 has 64 bytes in the middle of an array, and the array."""
    made, memory = WindowBase(), np.zeros(3 * ROOM, np.uint8)
    made.prepare(3, OPERATIONS[1:IN_CORE])
    made.place(1, memoryview(memory)[ROOM : 2 * ROOM], 0, ROOM, unit)
    for rank in range(3):
        made.permit(rank, rights)
    return made, memory


class Number(int):
    """A number that says otherwise."""

    def __index__(self) -> int:
        return 2**40


@pytest.mark.parametrize("unit", [1, 8, 2**62, 2**63 - 1])
@pytest.mark.parametrize(
    "target", [-1, 57, 64, 2**31, 2**61, 2**62, 2**63 - 1, 2**64, -(2**63), 2**70, True, 8.0, "0", [0]]
)
def test_no_access_is_outside_of_the_memory(unit: int, target: Any) -> None:
    made, memory = window(unit=unit)
    ones, found = np.ones(1), np.zeros(1)
    whole, was = np.ones(1, "i8"), np.zeros(1, "i8")
    assert not made.put_at_once(ones, 1, target)
    assert not made.get_at_once(found, 1, target)
    assert not made.accumulate_at_once(ones, None, 1, target, SUM)
    assert not made.fetch_at_once(ones, found, 1, target, SUM)
    assert not made.swap_at_once(whole, whole, was, 1, target)
    assert not memory.any()


@cases("rank", [-1, -2, 3, 2**31, 2**32 + 1, 2**64 + 1, True, Number(1), np.int64(1), 1.0, None])
def test_only_plain_ranks_take_the_short_way(rank: Any) -> None:
    made, memory = window()
    assert not made.put_at_once(np.ones(1), rank, 0)
    assert not made.flush_at_once(rank)
    assert not memory.any()


def test_memory_that_is_not_known_or_not_open_is_not_accessed() -> None:
    made, memory = window()
    assert not made.put_at_once(np.ones(0), 0, 0), "its place is not known"
    assert not made.put_at_once(np.ones(9), 1, 0), "it has 8"
    made.permit(1, 0)
    assert not made.put_at_once(np.ones(1), 1, 0), "no epoch is open"
    made.permit(1, OPEN)
    assert made.put_at_once(np.ones(8), 1, 0)
    assert memory[ROOM : 2 * ROOM].view("d").tolist() == [1.0] * 8
    assert not memory[:ROOM].any()
    assert not memory[2 * ROOM :].any()
    made.withdraw()
    assert not made.put_at_once(np.ones(0), 1, 0)
    with pytest.raises(InternalError):
        made.place(1, memoryview(bytearray(8)), 0, 9, 1)
    with pytest.raises(InternalError):
        made.place(1, None, 0, 8, 0)


@pytest.mark.parametrize("rights", [OPEN, OPEN | ALONE])
@pytest.mark.parametrize(("op", "expected"), [(SUM, 12), (MAX, 7), (REPLACE, 7), (NO_OP, 5)])
@pytest.mark.parametrize("code", ["b", "h", "i", "q", "f", "d"])
def test_operands_may_lie_at_any_address(rights: int, op: Any, expected: int, code: str) -> None:
    """The compiler's checks, with which this test also runs, see accesses at odd addresses."""
    made, memory = window(rights)
    here = memory[ROOM : 2 * ROOM].view(code)
    here[:] = 5
    size, count = here.itemsize, len(here) - 1
    operands, before = (np.zeros(count * size + 1, np.uint8)[1:].view(code) for _ in range(2))
    operands[:] = 7
    assert made.accumulate_at_once(operands, before, 1, size, op)
    assert (here.tolist(), before.tolist()) == ([5, *[expected] * count], [5] * count)
    if size > 1:
        assert not made.accumulate_at_once(operands[:1], None, 1, 1, op), "an element lies at its multiple"
    words, number = Atomics(memoryview(memory)), next(n for n, each in enumerate(OPERATIONS) if each is op)
    assert words.combine(ROOM + size, operands, number, before)
    assert before.tolist() == [expected] * count


@cases("odd", [b"12345678", [1.0], 1, memoryview(bytearray(8)), np.zeros(1, ">i8"), np.zeros(1, "O")])
def test_only_arrays_of_numbers_are_combined(odd: Any) -> None:
    made, memory = window()
    words, plain = Atomics(memoryview(memory)), np.ones(1)
    assert not words.combine(0, odd, 3)
    with pytest.raises(InternalError):
        words.combine(0, plain, 3, odd)
    assert not made.accumulate_at_once(odd, None, 1, 0, SUM)
    assert not made.accumulate_at_once(plain, odd, 1, 0, SUM)
    assert not made.swap_at_once(odd, odd, odd, 1, 0)
    assert not memory.any()
