"""When to ring for a peer: what rings that take short or long change."""

from __future__ import annotations

import pytest

from aiompi.transport.shared_memory.habit import Habit

SECONDS = {"s": 3e-6, "l": 12e-6}
LIMIT = 255


def rings(habit: Habit, taking: str) -> str:
    """Whether it is late (L) or early (e) after each of these rings, which take short (s) or long (l)."""
    states = []
    for ring in taking:
        habit.rung(SECONDS[ring])
        states.append("L" if habit.late else "e")
    return "".join(states)


def after_pauses(number: int) -> Habit:
    """One that has tried so often to ring late in vain, and tries again."""
    habit = Habit()
    rings(habit, "l")
    for _ in range(number):
        pause(habit)
    return habit


def pause(habit: Habit) -> int:
    """Let late rings take long; how many early ones that take long pass until late ones are tried again."""
    assert habit.late
    assert rings(habit, "ll") == "Le"
    passed = 0
    while rings(habit, "l") == "e":
        passed += 1
        assert passed <= LIMIT
    return passed


def test_who_is_unknown_is_rung_for_early() -> None:
    habit = Habit()
    assert (habit.late, habit.sleepy) == (False, 0)


@pytest.mark.parametrize(
    ("taking", "states"),
    [
        ("ssss", "eeee"),
        ("l", "L"),
        ("sl", "eL"),
        ("lsss", "LLLL"),
        ("llsls", "LLLLL"),
        ("lll", "LLe"),
        ("lslll", "LLLee"),
        ("llslsll", "LLLLLLe"),
        ("lllsss", "LLeeee"),
        ("lllll", "LLeeL"),
        ("lllslsl", "LLeeeeL"),
        ("lllllsll", "LLeeLLLe"),
        ("llllllll", "LLeeLLee"),
    ],
)
def test_an_early_ring_that_takes_long_makes_it_late_and_two_late_ones_in_a_row_early(taking: str, states: str) -> None:
    assert rings(Habit(), taking) == states


def test_the_pause_grows_with_each_attempt_in_vain() -> None:
    habit = after_pauses(0)
    assert [pause(habit) for _ in range(10)] == [1, 3, 7, 15, 31, 63, 127, LIMIT, LIMIT, LIMIT]


@pytest.mark.parametrize(
    ("before", "late", "after"), [(3, "sss", 9), (3, "slsls", 9), (3, "ls", 13), (3, "s" * 20, 1), (9, "s" * 200, 111)]
)
def test_late_rings_that_take_short_make_the_next_pause_shorter(before: int, late: str, after: int) -> None:
    habit = after_pauses(before)
    rings(habit, late)
    assert pause(habit) == after


def test_late_is_not_sleepy_for_who_has_just_sent_something() -> None:
    habit = Habit()
    for taking, sleepy in (("", 2), ("s", 2), ("l", 0), ("s", 0), ("ll", 2)):
        rings(habit, taking)
        habit.sleepy = 2
        habit.heard()
        assert habit.sleepy == sleepy
