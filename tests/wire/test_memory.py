"""Memory that is handed over."""

from __future__ import annotations

import os
import tempfile

import pytest

from aiompi.errors import RemoteProtocolError
from aiompi.wire import memory


def test_two_see_the_same_and_nobody_can_take_it_away() -> None:
    fd, mine = memory.create(10_000)
    yours = memory.accept(fd, 10_000)
    mine[9_999] = 7
    assert yours[9_999] == 7
    for size in (0, 20_000):
        with pytest.raises(PermissionError):
            os.ftruncate(fd, size)
    os.close(fd)
    yours[0] = 1
    assert mine[0] == 1


def test_memory_of_another_size() -> None:
    fd, _ = memory.create(10_000)
    with pytest.raises(RemoteProtocolError, match="not sealed, or not of the announced size"):
        memory.accept(fd, 9_999)
    os.close(fd)


def test_a_file_is_no_memory() -> None:
    with tempfile.TemporaryFile() as file:
        file.truncate(10_000)
        with pytest.raises(RemoteProtocolError, match="not sealed"):
            memory.accept(file.fileno(), 10_000)
