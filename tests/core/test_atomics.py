"""Atomic words in memory that processes share."""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable

import pytest

from aiompi import core
from aiompi.errors import InternalError

if core.form != "native":
    pytest.skip("only the native form has shared memory", allow_module_level=True)

from aiompi.core._native import Atomics

SIZES = pytest.mark.parametrize("size", [1, 2, 4, 8])
PROCESSES, TIMES = 4, 20_000


@SIZES
def test_a_word_is_read_and_written_and_nothing_beside_it(size: int) -> None:
    memory = bytearray(b"\xff" * 32)
    words, most = Atomics(memory), 2 ** (8 * size) - 1
    assert words.load(8, size) == most
    words.store(8, size, 5)
    assert words.add(8, size, -6) == 5
    assert words.load(8, size) == most, "it wraps around"
    assert words.add(8, size, 3) == most
    assert words.exchange(8, size, 2**64 + 7) == 2
    assert words.compare_and_swap(8, size, 6, 1) == 7
    assert words.compare_and_swap(8, size, 7, 1) == 7
    assert words.load(8, size) == 1
    assert memory[:8] == b"\xff" * 8
    assert memory[8 + size :] == b"\xff" * (24 - size)


@SIZES
def test_no_word_is_outside_of_the_memory_or_at_an_odd_place(size: int) -> None:
    words = Atomics(memoryview(bytearray(32))[:24])
    offsets = [-1, -size, 25 - size, 24, 2**62] + [1] * (size > 1)
    for offset in offsets:
        with pytest.raises(InternalError, match=f"no word of {size} bytes at {offset} in 24 bytes"):
            words.store(offset, size, 1)
    with pytest.raises(InternalError, match="not 3"):
        words.load(0, 3)
    with pytest.raises(BufferError):
        Atomics(b"only to be read")


def swapped(words: Atomics, size: int) -> None:
    """Add 1 without `add`."""
    old = words.load(0, size)
    while (found := words.compare_and_swap(0, size, old, old + 1)) != old:
        old = found


@pytest.mark.parametrize("size", [4, 8])
@pytest.mark.parametrize("increase", [lambda words, size: words.add(0, size, 1), swapped], ids=["add", "swap"])
def test_processes_lose_nothing(size: int, increase: Callable[[Atomics, int], object]) -> None:
    memory = mmap.mmap(-1, mmap.PAGESIZE)
    words, children = Atomics(memory), []
    for _ in range(PROCESSES):
        child = os.fork()
        if not child:
            for _ in range(TIMES):
                increase(words, size)
            os._exit(0)
        children.append(child)
    assert all(os.waitpid(child, 0)[1] == 0 for child in children)
    assert words.load(0, size) == PROCESSES * TIMES
