"""Memory for messages: large blocks are used again, and never while anything refers to them."""

from __future__ import annotations

import gc
import mmap
import multiprocessing
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from aiompi.core import allocation
from aiompi.core.allocation import GRAIN, KEPT, LARGE, LARGEST, allocate, copied, joined
from support.cases import cases


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    """No block of another test is kept."""
    allocation._kept.clear()
    yield
    allocation._kept.clear()


def address(view: object) -> int:
    return int(np.asarray(view).__array_interface__["data"][0])


@cases("nbytes", [0, 1, 1000, LARGE - 1, LARGE, LARGE + 1, 2**20, LARGEST, LARGEST + 1])
def test_memory_is_writable_and_of_unsigned_bytes(nbytes: int) -> None:
    view = allocate(nbytes)
    assert (len(view), view.nbytes, view.format, view.readonly) == (nbytes, nbytes, "B", False)
    view[:] = bytes(range(256)) * (nbytes // 256) + bytes(nbytes % 256)
    assert view.contiguous


@pytest.mark.parametrize(
    "refer",
    [
        lambda view: view,
        lambda view: view[5:10],
        lambda view: view.cast("d"),
        np.asarray,
        lambda view: np.asarray(view)[3:][::2],
        lambda view: np.frombuffer(view, "i4").reshape(2, -1).T,
        lambda view: np.ndarray((4,), "f8", view, 8)[1:],
        lambda view: view.obj,
        lambda view: view.obj[7:],
        lambda view: view.obj.view(np.ndarray)[7:],
        lambda view: memoryview(view.obj[7:])[1:],
    ],
    ids=range(11),
)
def test_a_block_is_used_again_when_nothing_refers_to_it(refer: Callable[[Any], Any]) -> None:
    view = allocate(LARGE)
    where, reference = address(view), refer(view)
    del view
    gc.collect()
    others = [allocate(LARGE) for _ in range(KEPT + 1)]
    assert where not in map(address, others)
    del others, reference
    gc.collect()
    assert where in [address(it) for it in [allocate(LARGE) for _ in range(KEPT + 1)]]


def test_sizes_that_differ_little_share_a_block() -> None:
    where = address(allocate(LARGE + 1))
    assert address(allocate(LARGE + GRAIN)) == where
    assert address(allocate(LARGE + GRAIN + 1)) != where
    assert address(allocate(LARGE + 2)) == where


def test_the_block_that_was_used_last_is_the_first_to_be_used_again() -> None:
    blocks = [allocate(LARGE) for _ in range(3)]
    where = [address(block) for block in blocks]
    while blocks:
        del blocks[0]
    assert [address(it) for it in [allocate(LARGE) for _ in range(3)]] == where[::-1]


def test_few_blocks_are_kept() -> None:
    for nbytes in (LARGE - 1, LARGEST + 1):
        allocate(nbytes)
    assert not allocation._kept
    for count in range(1, KEPT + 3):
        blocks = [allocate(LARGE) for _ in range(count)]
        del blocks
        assert len(allocation._kept) == min(count, KEPT)


@pytest.mark.parametrize("nbytes", [LARGE, 2**20 + 128, LARGEST])
def test_a_block_begins_with_a_page(nbytes: int) -> None:
    assert address(allocate(nbytes)) % mmap.PAGESIZE == 0


def test_no_memory() -> None:
    with pytest.raises(MemoryError, match="no memory for a message: 1152921504606846976 bytes"):
        allocation._fresh(2**60)


@pytest.mark.parametrize("nbytes", [LARGE, 2**20, 3 * 2**20, LARGEST])
def test_memory_goes_back_to_the_system(nbytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each mapping is counted; the address space of the process grows and shrinks for other reasons as well."""
    mappings: weakref.WeakSet[mmap.mmap] = weakref.WeakSet()
    fresh = allocation._fresh

    def counted(size: int) -> mmap.mmap:
        mappings.add(mapping := fresh(size))
        return mapping

    monkeypatch.setattr(allocation, "_fresh", counted)
    blocks = [allocate(nbytes) for _ in range(3 * KEPT)]
    assert [len(mapping) for mapping in mappings] == [nbytes] * 3 * KEPT
    del blocks
    assert len(mappings) == KEPT
    allocation._kept.clear()
    assert not mappings


def test_a_block_that_a_forked_process_changes() -> None:
    view = copied(memoryview(bytes(LARGE)))
    child = multiprocessing.get_context("fork").Process(target=view.__setitem__, args=(slice(None), b"x" * LARGE))
    child.start()
    child.join()
    assert child.exitcode == 0
    assert bytes(view) == bytes(LARGE)


def test_threads_that_drop_and_take_blocks() -> None:
    failures = []

    def work(byte: int) -> None:
        content = bytes([byte]) * LARGE
        for _ in range(200):
            blocks = [copied(memoryview(content)) for _ in range(3)]
            failures.extend(1 for block in blocks if bytes(block) != content)

    threads = [threading.Thread(target=work, args=(byte,)) for byte in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert len(allocation._kept) <= KEPT


@pytest.mark.parametrize("nbytes", [10, 2**20])
def test_joined(nbytes: int) -> None:
    source = np.random.default_rng(0).bytes(nbytes)
    pieces = [source[:3], memoryview(source)[3:3], memoryview(bytearray(source))[3:]]
    copy = joined(pieces, nbytes)
    assert bytes(copy) == source
    assert not copy.readonly


def test_a_block_that_a_finalizer_saves_is_not_used_again() -> None:
    """The collector has finalized its lease by then, which was garbage together with what saves it."""
    saved: list[memoryview] = []

    class Saver:
        def __del__(self) -> None:
            saved.append(self.view)

    for order in range(2):
        saver = Saver()
        saver.view = allocate(LARGE)  # type: ignore[attr-defined]
        saver.cycle = [saver]  # type: ignore[attr-defined]
        del saver
        gc.collect()
        assert len(saved) == order + 1
    others = [allocate(LARGE) for _ in range(KEPT + 1)]
    assert not {*map(address, saved)} & {*map(address, others)}
