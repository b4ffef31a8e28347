"""Messages that stay in the pool of their sender as long as their receiver uses them."""

from __future__ import annotations

import errno
import faulthandler
import gc
import mmap
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from worlds import PolledWorld, irecv, irecv_into, isend, pattern

from aiompi.datatype.buffer import process
from aiompi.datatype.buffer.allocation import LARGE
from aiompi.engine import Request
from aiompi.objects.codec import Codec
from aiompi.transport.shared_memory import pool, zero_copy_recv
from aiompi.transport.shared_memory.cma import has_ended, process_of
from aiompi.transport.shared_memory.export import POOL, PREFIX
from aiompi.transport.shared_memory.zero_copy_recv import KEPT, PREFACE, THERE
from aiompi.wire import memory as wire_memory

LONG = 400_000
codec = Codec()


@pytest.fixture
def world(polled: Callable[..., PolledWorld]) -> Iterator[PolledWorld]:
    """Return two ranks. Rank 1 has imported the pool of rank 0."""
    w = polled(2, shm_eager_limit=4 * 2**20)
    w.finish(isend(w.comms[0], b"x", 1), irecv(w.comms[1]))
    own: Any = w.transports[0]
    own.own_pool()
    w.open(0, own.pool)
    yield w
    gc.collect()
    assert not zero_copy_recv._kept


def send(w: PolledWorld, obj: Any) -> Request[None]:
    payload, nbytes = codec.dumps(obj)
    return w.comms[0].isend(payload, nbytes, 1, 0)


def receive(w: PolledWorld) -> Any:
    return w.comms[1].irecv(None, 0, 0, codec.loads)


def pass_on(w: PolledWorld, obj: Any, early: bool = True) -> Any:
    """Send an object from rank 0 to rank 1. If `early`, the receive is posted before it arrives."""
    if not early:
        sending = send(w, obj)
        for _ in range(3):
            w.poll()
        return w.finish(receive(w), sending)[0]
    receiving = receive(w)
    return w.finish(send(w, obj), receiving)[1]


def lies_there(w: PolledWorld, array: np.ndarray[Any, Any]) -> bool:
    """Return True if an array lies in the pool of rank 0."""
    imported = w.links(1, 0)[0].sharing.imports[POOL]  # type: ignore[attr-defined]
    there = np.frombuffer(imported.memory, np.uint8)
    return bool(np.shares_memory(array, there))


def in_use(w: PolledWorld) -> int:
    """Return the blocks in use of the pool of rank 0."""
    own: Any = w.transports[0]
    own.pool._sweep()
    return len(own.pool._blocks)


@pytest.mark.parametrize("early", [True, False])
def test_an_array_is_copied_once(world: PolledWorld, early: bool) -> None:
    w = world
    sent = np.arange(LONG // 8)
    got = pass_on(w, {"step": 3, "array": sent}, early)
    array = got["array"]
    assert lies_there(w, array)
    assert array.flags.writeable
    assert array.flags.aligned
    assert array.ctypes.data % 64 == 0
    assert (array == sent).all()
    assert in_use(w) == 1
    view = array[5:10]
    del got, array
    assert in_use(w) == 1, "a view of it is used"
    del view
    assert in_use(w) == 0
    assert w.balanced(0, 1)


def test_it_is_its_receivers_own(world: PolledWorld) -> None:
    """No other process sees what the child writes into it, and later messages lie elsewhere."""
    w = world
    first = pass_on(w, np.full(LONG, 1, np.uint8))
    first[:] = 7
    second = pass_on(w, np.full(LONG, 2, np.uint8))
    assert lies_there(w, first)
    assert lies_there(w, second)
    assert not np.shares_memory(first, second)
    assert (first == 7).all()
    assert (second == 2).all()
    del first
    third = pass_on(w, np.full(LONG, 3, np.uint8))
    assert (second == 2).all()
    assert (third == 3).all()
    assert in_use(w) == 2


def test_one_in_a_cycle_that_a_finalizer_saves(world: PolledWorld) -> None:
    w = world
    saved: list[memoryview] = []

    class Node:
        def __init__(self, view: memoryview) -> None:
            self.view = view
            self.itself = self

        def __del__(self) -> None:
            saved.append(self.view)

    Node(pass_on(w, memoryview(bytearray(pattern(LONG)))))
    gc.collect()
    assert in_use(w) == 1
    assert lies_there(w, np.frombuffer(pass_on(w, memoryview(bytearray(LONG))), np.uint8))
    assert saved == [pattern(LONG)]
    saved.clear()
    assert in_use(w) == 0


def test_half_of_the_pool_stays_free(world: PolledWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    w = world
    monkeypatch.setattr(pool, "_CROWD", 1000)
    arrays = [pass_on(w, np.full(2**20, i, np.uint8)) for i in range(40)]
    there = [lies_there(w, array) for array in arrays]
    assert there == [True] * sum(there) + [False] * (len(there) - sum(there))
    assert 0.4 * pool.SIZE < sum(there) * 2**20 <= pool.SIZE / 2
    assert [int(array[-1]) for array in arrays] == list(range(40))
    del arrays[3]
    arrays.append(pass_on(w, np.full(2**20, 99, np.uint8)))
    assert lies_there(w, arrays[-1])
    arrays.clear()
    assert in_use(w) == 0


def test_there_are_few_of_them(world: PolledWorld) -> None:
    """Otherwise it would take long to find room."""
    w = world
    arrays = [pass_on(w, np.zeros(LARGE, np.uint8)) for _ in range(40)]
    assert 8 <= in_use(w) <= 20
    assert [lies_there(w, array) for array in arrays].count(True) == in_use(w)
    arrays.clear()
    assert in_use(w) == 0


def test_short_ones_are_copied(world: PolledWorld) -> None:
    array = pass_on(world, np.zeros(LARGE - 1000, np.uint8))
    assert not lies_there(world, array)
    assert in_use(world) == 0


def test_an_object_without_arrays_does_not_keep_it(world: PolledWorld) -> None:
    w = world
    for obj in (pattern(LONG), list(range(LONG)), {"a": bytearray(LONG), "b": [pattern(LONG)]}):
        assert pass_on(w, obj) == obj
        assert in_use(w) == 0


def test_one_that_no_rank_has_received_yet(world: PolledWorld) -> None:
    """It stays there as well, and is copied to memory of the program from there."""
    w = world
    data = pattern(LONG)
    isend(w.comms[0], data, 1)
    for _ in range(3):
        w.poll()
    assert in_use(w) == 1
    memory = bytearray(LONG)
    w.finish(irecv_into(w.comms[1], memory))
    assert memory == data
    assert in_use(w) == 0
    assert w.balanced(0, 1)


class Midway:
    """The numbers of a pool. The reader reads after each store, and from a number on something happens once."""

    def __init__(self, w: PolledWorld, monkeypatch: pytest.MonkeyPatch, then: Callable[[], object], start: int) -> None:
        monkeypatch.setattr(pool, "_STEP", LONG // 10)
        own: Any = w.transports[0]
        self._world, self._then, self._start = w, [then], start
        self._numbers, own.pool._numbers = own.pool._numbers, self

    def __getitem__(self, index: int) -> int:
        return self._numbers[index]

    def __setitem__(self, index: int, number: int) -> None:
        self._numbers[index] = number
        for link in list[Any](self._world.links(1, 0)):
            link._again()
        self._world.drivers[1].poll()
        if number >= self._start and self._then:
            self._then.pop()()


def test_one_that_goes_elsewhere_midway(world: PolledWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    w = world
    memory = bytearray(LONG)
    receives: list[Any] = []
    Midway(w, monkeypatch, lambda: receives.append(irecv_into(w.comms[1], memory)), LONG // 2)
    isend(w.comms[0], pattern(LONG), 1)
    w.finish(*receives)
    assert memory == pattern(LONG)
    assert in_use(w) == 0


def test_one_that_the_next_receive_gets_midway(world: PolledWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    w = world
    first, second = receive(w), receive(w)
    Midway(w, monkeypatch, first.withdraw, LONG // 2)
    payload, nbytes = codec.dumps(np.frombuffer(pattern(LONG - 1000), np.uint8))
    w.comms[0].isend(payload, nbytes, 1, 0)
    (array,) = w.finish(second)
    assert first.cancelled()
    assert bytes(array) == pattern(LONG - 1000)
    assert lies_there(w, array)
    del array, second
    assert in_use(w) == 0


def test_a_writer_that_is_interrupted_at_the_end(world: PolledWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sender does not write again what the receiver has changed since."""
    w = world
    receiving = receive(w)
    changed: list[Any] = []

    def change() -> None:
        changed.append(receiving.result())
        changed[0][:] = 7
        raise KeyboardInterrupt

    Midway(w, monkeypatch, change, LONG)
    with pytest.raises(KeyboardInterrupt):
        send(w, np.ones(LONG, np.uint8))
    assert (changed[0] == 7).all()


def test_rank_that_has_parted_still_has_it(world: PolledWorld) -> None:
    """The writer does not use the place as long as the process lives."""
    w = world
    array = pass_on(w, np.full(LONG, 5, np.uint8))
    own: Any = w.transports[0]
    room = own.pool
    for rank in range(2):
        for link in w.links(rank, 1 - rank):
            link.close()
    room._sweep()
    assert len(room._blocks) == 1
    assert (array == 5).all()
    del array
    room._sweep()
    assert not room._blocks


def test_what_the_dead_had_is_free(world: PolledWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    w = world
    array = pass_on(w, np.full(LONG, 5, np.uint8))
    child = os.fork()
    if not child:
        os._exit(0)
    monkeypatch.setattr("aiompi.transport.shared_memory.sharing.process_of", lambda sock: child)
    own: Any = w.transports[0]
    room = own.pool
    for link in w.links(0, 1):
        link.close()
    os.waitpid(child, 0)
    room._sweep()
    assert not room._blocks
    del array


def test_whether_a_process_has_ended() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        assert process_of(ours) == os.getpid()
        child = os.fork()
        if not child:
            theirs.recv(1)
            os._exit(0)
        assert not has_ended(child)
        ours.send(b".")
        os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
        assert has_ended(child), "no process has waited for it, but it has no memory any more"
        os.waitpid(child, 0)
        assert has_ended(child)
    assert not has_ended(0), "it has no number here"


def test_a_place_of_which_a_page_is_not_its_own_is_refused(world: PolledWorld) -> None:
    imported = world.links(1, 0)[0].sharing.imports[POOL]  # type: ignore[attr-defined]
    for place, stays in ((0, True), (4096, True), (64, False), (2048, False)):
        stream = pool.PoolStream(imported, place, LONG, lambda ready, seconds: False, True)
        assert (stream.keep() is not None) == stays
    assert pool.PoolStream(imported, 0, LONG, lambda ready, seconds: False).keep() is None


# Forks.


def memory() -> memoryview:
    """Such as that of a pool."""
    fd, mapped = wire_memory.create(PREFIX + 2**20)
    os.close(fd)
    return memoryview(mapped)[PREFIX:]


def test_memory_that_becomes_private() -> None:
    shared, page = memory(), mmap.PAGESIZE
    shared[: 3 * page] = b"a" * 3 * page
    process.blank(process.address_of(shared), 2 * page, usable=True)
    assert bytes(shared[: 3 * page]) == bytes(2 * page) + b"a" * page
    shared[: 2 * page] = b"b" * 2 * page
    with pytest.raises(OSError):
        process.blank(process.address_of(shared) + 1, page, usable=True)


def kept(shared: memoryview, data: bytes) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Return an array whose message stays in the pool."""
    shared[PREFACE : PREFACE + len(data)] = data
    shared[:PREFACE].cast("Q")[THERE] = len(data)
    return np.frombuffer(zero_copy_recv.keep_in_place(shared[: PREFACE + len(data)]), np.uint8)


def ended_well(*children: int) -> bool:
    return all(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0 for child in children)


def test_the_copy_of_a_fork_has_a_copy() -> None:
    """Neither process sees what the other writes, nor what the sender writes when the parent has released it."""
    shared = memory()
    array, words = kept(shared, pattern(LONG)), shared[:PREFACE].cast("Q")
    ours, theirs = socket.socketpair()
    with ours, theirs:
        child = os.fork()
        if not child:
            same = bytes(array) == pattern(LONG)
            array[:] = 1
            theirs.send(b"written")
            theirs.recv(7)
            same = same and (array == 1).all()
            grandchild = os.fork()
            if not grandchild:
                os._exit(0 if (array == 1).all() else 1)
            same = same and ended_well(grandchild)
            del array
            theirs.send(b"gone")
            os._exit(0 if same else 1)
        ours.recv(7)
        assert bytes(array) == pattern(LONG)
        array[:1000] = 2
        assert bytes(shared[PREFACE : PREFACE + LONG]) == b"\2" * 1000 + pattern(LONG)[1000:], "here nothing changes"
        again = os.fork()
        if not again:
            os._exit(0 if bytes(array) == b"\2" * 1000 + pattern(LONG)[1000:] else 1)
        del array
        assert words[KEPT] == 0
        shared[PREFACE : PREFACE + LONG] = bytes(LONG)
        words[KEPT] = 3
        ours.send(b"goes on")
        assert ours.recv(4) == b"gone"
    assert ended_well(child, again)
    assert words[KEPT] == 3, "what ends in the copy does not end here"
    assert bytes(shared[PREFACE : PREFACE + LONG]) == bytes(LONG)
    assert not zero_copy_recv._fork.copies


def test_a_fork_while_one_arrives() -> None:
    """What its sender writes after that still arrives."""
    shared = memory()
    words = shared[:PREFACE].cast("Q")
    words[THERE] = LONG // 2
    message = zero_copy_recv.keep_in_place(shared[: PREFACE + LONG])
    child = os.fork()
    if not child:
        del message
        os._exit(0)
    assert ended_well(child)
    assert words[KEPT] == 1
    shared[PREFACE : PREFACE + LONG] = pattern(LONG)
    words[THERE] = LONG
    assert bytes(message) == pattern(LONG)


def test_one_that_becomes_whole_on_the_way_to_a_fork(monkeypatch: pytest.MonkeyPatch) -> None:
    """This is like a fork in another thread: it is copied as well."""
    array = kept(memory(), pattern(LONG))
    monkeypatch.setattr(
        zero_copy_recv,
        "_whole",
        lambda found=zero_copy_recv._whole: found() if zero_copy_recv._fork.copies == {1: 1} else [],
    )
    zero_copy_recv._before()
    assert not zero_copy_recv._fork.copies
    monkeypatch.undo()
    child = os.fork()
    if not child:
        os._exit(0)
    assert ended_well(child)
    monkeypatch.setattr(zero_copy_recv, "_before", lambda: None)
    child = os.fork()
    if not child:
        array[:] = 1
        os._exit(0)
    assert ended_well(child)
    assert bytes(array) == pattern(LONG)


def test_a_fork_without_memory_for_copies(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    """The child is warned, and cannot access memory of which it has no copy."""
    array = kept(memory(), pattern(LONG))

    def refuse(*_: object) -> mmap.mmap:
        raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))

    monkeypatch.setattr(mmap, "mmap", refuse)
    monkeypatch.setattr(sys, "unraisablehook", sys.__unraisablehook__)
    child = os.fork()
    if not child:
        faulthandler.disable()
        array[:] = 1
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGSEGV
    assert bytes(array) == pattern(LONG)
    assert f"MemoryError: {LONG} bytes of objects that were received are not in the copy" in capfd.readouterr().err


def test_threads_that_fork_while_others_write() -> None:
    """Nothing that they write is lost, and each child has its own copy."""
    arrays = [kept(memory(), bytes(LONG)) for _ in range(4)]
    ends = threading.Event()
    rounds = [0]

    def write() -> None:
        while not ends.is_set():
            np.add(arrays[0], 1, out=arrays[0])
            rounds[0] += 1

    def fork() -> None:
        for _ in range(10):
            child = os.fork()
            if not child:
                for array in arrays[1:]:
                    array[:] = 99
                os._exit(0)
            assert ended_well(child)
            done.append(1)

    done: list[int] = []
    threads = [threading.Thread(target=write), *(threading.Thread(target=fork) for _ in range(3))]
    for thread in threads:
        thread.start()
    for thread in threads[1:]:
        thread.join()
    ends.set()
    threads[0].join()
    assert len(done) == 30
    assert (arrays[0] == rounds[0] % 256).all()
    assert not any(array.any() for array in arrays[1:])
