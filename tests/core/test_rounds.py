"""Collectives whose blocks are longer than a slot, and go through it in rounds."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from aiompi.coll.select import _IN_ROUNDS
from aiompi.coll.signature import note_of
from aiompi.core._native import SLOTS_PREFIX, SlotExchange
from aiompi.errors import OtherError, ProcessFailedError
from aiompi.op import predefined
from support.slot_members import ROOM, Members

#: words of a rank's slots
ASLEEP, STEPS = 0, 64
SLICES = [ROOM + 8, 2 * ROOM, 5 * ROOM - 8]


@pytest.fixture
def long(members: Callable[[int], Members]) -> Callable[[int], Members]:
    """Make ranks whose blocks may be longer than a slot."""

    def make(size: int) -> Members:
        w = members(size)
        for group in w.groups:
            group.limit({note_of(name, None, None): 2**40 for name in _IN_ROUNDS})
        return w

    return make


def word(w: Members, rank: int, place: int) -> memoryview:
    return w.memories[rank][place : place + 8].cast("Q")


def made(w: Members, collective: str, nbytes: int, root: int) -> tuple[list[tuple[Any, ...]], list[Any], list[Any]]:
    """Return the arguments of each rank, their results, and what these must become; None for a rank without one."""
    size, count = w.size, nbytes // 8
    given = [np.random.default_rng(rank).random(count) for rank in range(size)]
    results: list[Any] = [np.full(count, -1.0) for _ in range(size)]
    combined = given[-1]
    for array in given[-2::-1]:
        combined = array + combined
    if collective == "bcast":
        results[root] = given[root]
        return [(each, root) for each in results], results, [given[root]] * size
    if collective == "reduce":
        results = [result if rank == root else None for rank, result in enumerate(results)]
        args: list[tuple[Any, ...]] = [(a, b, predefined.SUM, root) for a, b in zip(given, results, strict=True)]
        return args, results, [combined if rank == root else None for rank in range(size)]
    if collective == "allreduce":
        args = [(a, b, predefined.SUM) for a, b in zip(given, results, strict=True)]
        return args, results, [combined] * size
    if collective == "allreduce in place":
        args = [(None, a, predefined.SUM) for a in given]
        return args, given, [combined.copy()] * size
    results = [np.full(size * count, -1.0) for _ in range(size)]
    if collective == "allgather":
        return [*zip(given, results, strict=True)], results, [np.concatenate(given)] * size
    given = [np.random.default_rng(rank).random(size * count) for rank in range(size)]
    expected = [np.concatenate([each[rank * count :][:count] for each in given]) for rank in range(size)]
    return [*zip(given, results, strict=True)], results, expected


@pytest.mark.spec("S4.4-1", "S4.7-1", "S4.8-1", "S4.9.1-1", "S4.9.3-1")
@pytest.mark.parametrize("collective", ["bcast", "reduce", "allreduce", "allreduce in place", "allgather", "alltoall"])
@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_ranks_that_go_on_in_any_order_get_every_byte(
    long: Callable[[int], Members], collective: str, size: int
) -> None:
    """Each call follows at once on the one before, and the ranks make steps as chance has it."""
    w, dice = long(size), random.Random(size)
    rows = [made(w, collective, nbytes, dice.randrange(size)) for nbytes in (*SLICES, 64, *SLICES[::-1])]
    calls: list[list[SlotExchange]] = [[] for _ in range(size)]
    while any(len(each) < len(rows) or not each[-1].done() for each in calls):
        rank = dice.choice([*range(size), 0])
        if not calls[rank] or (calls[rank][-1].done() and len(calls[rank]) < len(rows)):
            calls[rank].append(w.call(rank, collective.split()[0], *rows[len(calls[rank])][0][rank]))
        w.exchanges[rank].poll()
    for _, results, expected in rows:
        for result, right in zip(results, expected, strict=True):
            assert (result is None and right is None) or result.tobytes() == right.tobytes()
    assert not any(w.syncs[rank].listening for rank in range(size))


def test_a_rank_is_woken_by_the_step_that_it_waits_for_and_by_no_other(long: Callable[[int], Members]) -> None:
    w = long(3)
    arguments, results, expected = made(w, "bcast", 3 * ROOM, 0)
    calls = [w.call(rank, "bcast", *arguments[rank]) for rank in (1, 2)]
    assert not any(w.rung(rank) for rank in range(3))
    calls.append(w.call(0, "bcast", *arguments[0]))
    assert [w.rung(rank) for rank in range(3)] == [False, True, True], "the first two slices are there"
    assert not calls[2].done()
    assert calls[2].absent() == [11, 12], "the root waits for its readers before it writes the third one"
    w.exchanges[1].poll()
    assert [w.rung(rank) for rank in range(3)] == [False, False, False], "rank 2 has not read"
    w.exchanges[2].poll()
    assert [w.rung(rank) for rank in range(3)] == [True, False, False]
    w.finish(*calls)
    assert all((result == right).all() for result, right in zip(results, expected, strict=True))


def test_a_rank_that_has_gone_on_otherwise_than_by_a_bell_asks_to_be_woken_again(
    long: Callable[[int], Members],
) -> None:
    """After a failure elsewhere each call of a rank is polled."""
    w = long(2)
    arguments, _, _ = made(w, "allreduce", 2 * ROOM, 0)
    calls = [w.call(rank, "allreduce", *arguments[rank]) for rank in range(2)]
    assert w.rung(0)
    calls[0].poll()
    assert not calls[0].done()
    assert not w.rung(0)
    w.exchanges[1].poll()
    assert w.rung(0)


def test_a_rank_that_fails_in_a_round_is_named(long: Callable[[int], Members]) -> None:
    """A failure ends the operations whose `absent` has the failed rank."""
    w = long(3)
    arguments, _, _ = made(w, "allreduce", 3 * ROOM, 0)
    calls = [w.call(rank, "allreduce", *arguments[rank]) for rank in range(3)]
    for rank in (0, 1, 0, 1):
        w.exchanges[rank].poll()
    assert calls[0].absent() == calls[1].absent() == [12]
    calls[0].fail(ProcessFailedError("rank 12 is dead"))
    assert calls[0].absent() == []
    w.exchanges[0].poll()
    with pytest.raises(ProcessFailedError):
        calls[0].result()


def test_another_length_is_told_before_anything_moves(long: Callable[[int], Members]) -> None:
    w = long(2)
    place = np.zeros(3 * ROOM, "B")
    calls = [w.call(0, "bcast", place, 1), w.call(1, "bcast", np.ones(2 * ROOM, "B"), 1)]
    for rank in (0, 1):
        w.exchanges[rank].poll()
    assert w.syncs[0].blamed == [1]
    assert w.syncs[1].blamed == [0]
    for call in calls:
        with pytest.raises(OtherError):
            call.result()
    assert not place.any()
    again = [w.call(rank, "bcast", place, 1) for rank in (0, 1)]
    w.finish(*again)


@pytest.mark.parametrize("steps", [0, 3, 2**63, 2**64 - 1])
def test_steps_that_nobody_has_made_harm_only_the_result(long: Callable[[int], Members], steps: int) -> None:
    """A rank that says so shows nonsense, or is waited for."""
    w = long(2)
    mine, result = np.ones(3 * ROOM // 8), np.zeros(3 * ROOM // 8)
    call = w.call(0, "allreduce", mine, result, predefined.SUM)
    w.post(1, 1, call.note, call.nbytes, b"")
    word(w, 1, STEPS)[0] = steps
    for _ in range(10):
        w.exchanges[0].poll()
    assert call.done() == (steps > 9)
    assert call.done() or call.absent() == [11]
    assert (mine == 1).all()


def test_words_that_change_in_every_round_harm_nobody_else(long: Callable[[int], Members]) -> None:
    w, dice = long(2), random.Random(0)
    for _ in range(300):
        size = dice.choice(SLICES)
        call = w.groups[0].allgather(w.comms[0], np.ones(size, "B"), np.zeros(2 * size, "B"))
        assert call is not None
        w.post(1, w.groups[0].number, call.note, call.nbytes, b"")
        for _ in range(40):
            place = dice.choice([ASLEEP, 8, 16, STEPS, dice.randrange(SLOTS_PREFIX // 8) * 8])
            w.memories[1][place : place + 8] = struct.pack("=Q", dice.choice([0, 1, dice.getrandbits(64)]))
            call.poll()
        if not call.done():
            call.fail(OtherError("given up"))
        assert w.groups[0].number < 2**32


def test_slots_that_are_dissolved_in_a_round_are_not_looked_at(long: Callable[[int], Members]) -> None:
    w = long(2)
    arguments, _, _ = made(w, "alltoall", 3 * ROOM, 0)
    calls = [w.call(rank, "alltoall", *arguments[rank]) for rank in range(2)]
    w.groups[0].dissolve()
    w.exchanges[0].poll()
    assert not calls[0].done()
    assert calls[0].absent() == []


def test_a_call_gives_its_loop_a_turn_after_some_steps(long: Callable[[int], Members]) -> None:
    """The only member of a group waits for nobody."""
    w = long(1)
    turns: list[Callable[[], object]] = []
    w.driver.call_soon = turns.append
    size = 100 * ROOM
    result = np.zeros(size, "B")
    call = w.call(0, "allgather", np.ones(size, "B"), result)
    assert not call.done()
    assert 0 < np.count_nonzero(result) < size
    taken = 0
    while turns:
        turns.pop()()
        taken += 1
    assert taken > 2
    assert call.done()
    assert result.all()
