"""Worlds of ranks that share memory."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from shm_sync import until_assembled
from worlds import PolledWorld, segments

from aiompi.datatype.buffer import process


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


@pytest.fixture
def copied(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """Bytes that were read from and written to other processes."""
    counts = {"read": 0, "write": 0}

    def count(name: str, copy: process.Copy) -> process.Copy:
        def counted(number: int, address: int, memory: memoryview) -> None:
            copy(number, address, memory)
            counts[name] += len(memory)

        return counted

    for name in counts:
        monkeypatch.setattr(process, name, count(name, getattr(process, name)))
    return counts


@pytest.fixture
def refuse(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, int], None]:
    """Makes "read" from other processes, or "write" to them, fail with an error number."""

    def fail(number: int) -> None:
        raise OSError(number, os.strerror(number))

    return lambda name, number: monkeypatch.setattr(process, name, lambda *_: fail(number))
