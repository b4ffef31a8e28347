"""Worlds of ranks that share memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from aiompi import core
from support.shm_sync import until_assembled
from support.worlds import PolledWorld, segments

if core.form == "pure":
    collect_ignore_glob = ["test_*.py"]  # it has no shared memory


@pytest.fixture
def kind() -> str:
    return "shared_memory"


@pytest.fixture
def apart(polled: Callable[..., PolledWorld]) -> Callable[..., PolledWorld]:
    """Return a function that makes ranks that may use slots, and have not exchanged any yet."""

    def make(size: int = 3, **settings: Any) -> PolledWorld:
        w = polled(size, **settings)
        for comm in w.comms:
            comm.shares_memory = True
        return w

    return make


@pytest.fixture
def together(apart: Callable[..., PolledWorld]) -> Callable[..., PolledWorld]:
    """Return a function that makes ranks that use slots."""

    def make(size: int = 3, **settings: Any) -> PolledWorld:
        w = apart(size, **settings)
        until_assembled(w)
        return w

    return make


@pytest.fixture
def no_segment_left() -> Iterator[None]:
    before = segments()
    yield
    assert segments() == before
