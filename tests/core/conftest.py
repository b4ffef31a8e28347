"""Tests of the core."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

from aiompi import core

if TYPE_CHECKING or core.form == "native":
    from support.slot_members import Members

if core.form == "pure":
    # what is about the native form, or about shared memory
    collect_ignore = [
        "test_copy.py", "test_leaks.py", "test_memory.py", "test_ring.py", "test_rounds.py", "test_slots.py",
    ]  # fmt: skip


@pytest.fixture
def members() -> Iterator[Callable[[int], Members]]:
    made: list[Members] = []

    def make(size: int = 3) -> Members:
        made.append(Members(size))
        return made[-1]

    yield make
    for each in made:
        each.close()
