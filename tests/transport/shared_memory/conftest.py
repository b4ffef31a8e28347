"""Worlds of ranks that share memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from shm_sync import until_assembled
from worlds import PolledWorld


@pytest.fixture
def kind() -> str:
    return "shared_memory"


@pytest.fixture
def apart(polled: Callable[..., PolledWorld]) -> Callable[..., PolledWorld]:
    """Makes ranks that could meet and have not yet."""

    def make(size: int = 3, **settings: Any) -> PolledWorld:
        w = polled(size, **settings)
        for comm in w.comms:
            comm.shares_memory = True
        return w

    return make


@pytest.fixture
def together(apart: Callable[..., PolledWorld]) -> Callable[..., PolledWorld]:
    """Makes ranks that meet."""

    def make(size: int = 3, **settings: Any) -> PolledWorld:
        w = apart(size, **settings)
        until_assembled(w)
        return w

    return make
