"""The copies that are timed: all expressions of a case copy the same."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from aiompi.bench.measure import copies
from aiompi.bench.measure.copies import Case

CASES: dict[str, Callable[[], Case]] = {
    "column": lambda: copies.column(50),
    "face across axis 0": lambda: copies.face(9, 0),
    "face across axis 1": lambda: copies.face(9, 1),
    "face across axis 2": lambda: copies.face(9, 2),
    "structs": lambda: copies.structs(50),
    "irregular": lambda: copies.irregular(500),
}


def random_bytes(nbytes: int, seed: int) -> bytes:
    return np.random.default_rng(seed).integers(1, 256, nbytes, np.uint8).tobytes()


@pytest.mark.parametrize("name", CASES)
def test_pack(name: str) -> None:
    case = CASES[name]()
    case.memory[:] = random_bytes(len(case.memory), 0)
    case.pack_ours()
    expected = bytes(case.message)
    assert len(set(expected)) > 20, "values were copied"
    for expression in case.pack:
        case.message[:] = bytes(len(case.message))
        expression()
        assert case.message == expected


@pytest.mark.parametrize("name", CASES)
def test_unpack(name: str) -> None:
    case = CASES[name]()
    case.message[:] = random_bytes(len(case.message), 0)
    case.memory[:] = bytes(len(case.memory))
    case.unpack_ours()
    expected = bytes(case.memory)
    assert np.count_nonzero(np.frombuffer(expected, np.uint8)) == len(case.message)
    for expression in case.unpack:
        case.memory[:] = bytes(len(case.memory))
        expression()
        assert case.memory == expected


def test_places_are_irregular() -> None:
    where = copies.places(1000)
    assert where.min() >= 0
    assert where.max() < 4000
    assert set(np.diff(where)) == {1, 2, 3, 4}


def test_seconds_is_the_median_after_one_that_does_not_count() -> None:
    calls: list[None] = []
    assert copies.seconds(lambda: calls.append(None), 5) > 0
    assert len(calls) == 6


def test_committed_nbytes() -> None:
    """Memory holds at least the displacements, in memory and in the message."""
    where = copies.places(10_000)
    assert 160_000 < copies.committed_nbytes(np.ones_like(where), where) < 640_000
