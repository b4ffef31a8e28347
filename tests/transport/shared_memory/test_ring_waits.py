"""How the ends of a ring wait for each other: which end is woken, and when a reader yields its core."""

from __future__ import annotations

import contextlib
import mmap
import os
import random
import signal
import time
from collections.abc import Callable
from contextlib import nullcontext
from itertools import count
from typing import Any, Final

import pytest
from interrupts import everywhere
from ring_pair import SIZE, Interrupted, Late, Pair, eager, interrupt
from worlds import LocalWorld, pattern

from aiompi.engine.message import Landing, Message
from aiompi.transport.shared_memory import inbound
from aiompi.transport.shared_memory.inbound import FRAME_COST
from aiompi.transport.shared_memory.ring import COMING, EARLY, HEAD, WANTING, WATCHING
from aiompi.transport.shared_memory.sharing import PREFIX, Segment
from aiompi.wire.frame import HEADER_BYTES

#: when the reader is rung for, see `put`
BEFORE: Final = ["before"]
LATE: Final = ["after"]


def put(pair: Pair, nbytes: int = 1, rung: Callable[[], object] = lambda: None) -> list[str]:
    """Write a frame. Return for each ring of the doorbell whether it came before the frame was there or after.

    Args:
        rung: called at the first ring, as the reader that it wakes.
    """
    rings: list[str] = []

    def doorbell() -> None:
        rings.append("after" if pair.words[HEAD] != head else "before")
        if len(rings) == 1:
            rung()

    head, pair.outbound.doorbell = pair.words[HEAD], doorbell
    assert pair.outbound.put(eager(bytes(nbytes)), bytes(nbytes))
    return rings


def test_reader_that_was_woken_early_polls_before_it_yields_its_core(monkeypatch: pytest.MonkeyPatch) -> None:
    yields: list[None] = []
    monkeypatch.setattr("os.sched_yield", lambda: yields.append(None))
    monkeypatch.setattr(inbound, "_YIELDING", 60.0)
    for looks, yielded in ((0, 0), (90, 0), (110, 10)):
        pair = Pair()
        pair.words[COMING] = pair.words[HEAD] + 1
        pair.inbound.words = Late(pair.words, looks)  # type: ignore[assignment]
        pair.outbound.put(eager(b"x"), b"x")
        assert pair.inbound.expect()
        assert len(yields) == yielded


@pytest.mark.parametrize("comes", [True, False])
def test_reader_lets_others_run_once_if_they_keep_the_core(monkeypatch: pytest.MonkeyPatch, comes: bool) -> None:
    pair, yields = Pair(), []

    def keep() -> None:
        yields.append(None)
        time.sleep(1e-3)
        if comes:
            pair.outbound.put(eager(b"x"), b"x")

    monkeypatch.setattr("os.sched_yield", keep)
    pair.words[COMING] = pair.words[HEAD] + 1
    assert pair.inbound.expect() is comes
    assert len(yields) == 1


def test_reader_that_sleeps_again_and_again_is_woken_before_a_frame() -> None:
    pair = Pair()
    pair.outbound.uncrowded = True
    assert pair.inbound.watch()
    assert put(pair) == LATE, "it has not slept before"
    for _ in range(3):
        pair.read()
        assert pair.inbound.watch()
        coming = pair.words[HEAD] + 1
        assert put(pair) == BEFORE
        assert pair.words[COMING] == coming
    pair.read()
    assert pair.inbound.watch()
    assert put(pair, rung=lambda: (pair.read(), pair.inbound.watch())) == BEFORE + LATE, "it sleeps again too soon"
    assert len(pair.frames) == 4
    pair.read()
    assert len(pair.frames) == 5


def test_reader_is_not_looked_at_before_a_short_frame_after_it_was_awake_for_two() -> None:
    pair = Pair()
    pair.outbound.uncrowded = True
    assert pair.inbound.watch()
    assert put(pair) == LATE
    for _ in range(2):
        pair.read()
        assert put(pair) == []
    pair.read()
    assert pair.inbound.watch()
    assert put(pair) == LATE
    assert put(pair) == []


def test_reader_is_looked_at_before_a_long_frame() -> None:
    pair = Pair(8 * EARLY)
    assert pair.inbound.watch()
    assert put(pair, EARLY) == LATE, "both share a core"
    pair.read()
    pair.outbound.uncrowded = True
    for _ in range(2):
        assert put(pair, EARLY) == []
        pair.read()
    assert pair.inbound.watch()
    assert put(pair, EARLY) == BEFORE


def test_reader_in_the_midst_of_a_message_lets_the_writer_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    pair, payload = Pair(), pattern(1000)
    assert not pair.inbound.expect(midst=True)
    for piece, last in ((eager(payload), False), (payload[:500], False)):
        pair.outbound.write(piece, last)
    pair.read()
    assert not pair.inbound.expect(midst=False)
    monkeypatch.setattr(os, "sched_yield", lambda: pair.outbound.write(payload[500:], True))
    monkeypatch.setattr(inbound, "_YIELDING", 60.0)
    assert pair.inbound.expect(midst=True)
    pair.read()
    assert [data for _, data in pair.frames] == [payload]
    monkeypatch.setattr(os, "sched_yield", lambda: pytest.fail("nothing is being written"))
    assert not pair.inbound.expect(midst=True)


def test_reader_is_still_to_be_rung_for_if_a_signal_handler_raises_before_that() -> None:
    pair = Pair()
    assert pair.inbound.watch()
    pair.outbound.doorbell = interrupt
    with pytest.raises(Interrupted):
        pair.outbound.put(eager(b"x"), b"x")
    assert put(pair) == LATE
    assert put(pair) == []
    pair.read()
    pair.outbound.uncrowded = True
    assert pair.inbound.watch()
    pair.outbound.doorbell = interrupt
    with pytest.raises(Interrupted):
        pair.outbound.put(eager(b"x"), b"x")
    assert put(pair) == LATE, "the frame was announced, and the reader was not rung for"
    pair.read()
    assert pair.inbound.pending() is False


def test_signal_handler_raises_while_a_piece_is_read() -> None:
    payload, w = pattern(3000), LocalWorld(2)
    peer = w.engines[0].peer(1)
    message = Message(peer, w.comms[0].matcher, 1, 2, len(payload), 0, rts=False, sync=False)

    def begun() -> nullcontext[Pair]:
        pair = Pair()
        landing = Landing(peer, message, memoryview(bytearray(len(payload))), len(payload), 0)
        pair.land = lambda header: landing  # type: ignore[method-assign]
        pair.outbound.write(eager(payload), False)
        pair.outbound.write(payload[:1], False)
        pair.read()
        pair.outbound.write(payload[1:1000], False)
        return nullcontext(pair)

    for pair in everywhere(begun, lambda pair: pair.inbound.read(pair, 2**30)):
        pair.outbound.write(payload[1000:], True)
        pair.read()
        assert message.data == payload


def test_signal_handler_leaves_no_fence_behind() -> None:
    """The lock of the fence stays unlocked."""
    pair = Pair()
    signal.signal(signal.SIGALRM, interrupt)
    interrupted = 0
    try:
        for number in range(300):
            with contextlib.suppress(Interrupted):
                signal.setitimer(signal.ITIMER_REAL, random.uniform(1e-6, 100e-6))
                for _ in range(100):
                    pair.outbound.fence()
                for _ in count():
                    pass
            interrupted = number + 1
            pair.outbound.fence()
            assert not pair.outbound._lock.locked()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
    assert interrupted == 300


def test_an_end_that_could_not_be_woken_is_woken_later() -> None:
    doorbells = os.eventfd(0), os.eventfd(0)
    segment = Segment(mmap.mmap(-1, PREFIX + 2 * SIZE), SIZE, *doorbells, first=True)
    outbound, inbound = segment.outbound, segment.inbound
    outbound.words[WATCHING] = inbound.words[WANTING] = 1
    for end in (outbound, inbound):
        doorbell, end.doorbell = end.doorbell, interrupt
        with pytest.raises(Interrupted):
            end.wake()
        end.doorbell = doorbell
        assert end.wake()
        assert not end.wake()
    segment.close()


@pytest.mark.parametrize("announced", [True, False])
def test_reader_looks_once_unless_a_frame_was_announced(announced: bool) -> None:
    pair = Pair()
    pair.inbound.yield_core_until = lambda ready, seconds: pytest.fail("it lets others run")
    pair.outbound.uncrowded = True
    assert pair.inbound.watch()
    if announced:
        pair.outbound.ring_early()
    late: Any = Late(pair.words, 50)
    pair.inbound.words = late
    assert pair.outbound.put(eager(b"x"), b"x")
    assert pair.inbound.take(pair) is False
    assert late.looks == 49
    assert pair.inbound.expect() is announced
    assert late.looks == (-1 if announced else 49)
    pair.inbound.words = pair.words
    assert pair.inbound.take(pair)
    assert not pair.inbound.expect(), "it has come"


def test_reader_is_rung_for_once_per_wait() -> None:
    pair = Pair()
    assert not pair.outbound.wake(), "it does not wait"
    assert pair.inbound.watch()
    assert pair.outbound.wake()
    assert not pair.outbound.wake()
    assert put(pair) == []
    pair.read()
    assert not pair.outbound.wake()
    assert pair.inbound.watch()
    assert put(pair) == LATE


def test_reader_does_not_wait_for_what_is_there() -> None:
    pair = Pair()
    assert pair.outbound.put(eager(b"x"), b"x")
    assert not pair.inbound.watch()
    assert not pair.outbound.wake(), "it will look by itself"
    pair.read()
    assert not pair.outbound.wake()
    assert pair.inbound.watch()


def test_reader_settles_when_there_is_nothing_else_to_do() -> None:
    pair = Pair()
    assert pair.inbound.settle()
    assert put(pair) == LATE, "it waits"
    assert not pair.inbound.settle(), "there is a frame"
    pair.read()
    pair.words[COMING] = pair.words[HEAD] + 1
    assert not pair.inbound.settle(), "one is about to come"
    pair.words[COMING] = 0
    assert pair.inbound.settle()
    pair.words[WANTING] += 1
    assert not pair.inbound.settle(), "the writer waits"
    assert pair.inbound.wake()
    assert pair.inbound.settle()


def test_writer_is_rung_for_once_per_wait_when_half_is_read() -> None:
    pair = Pair()
    assert not pair.inbound.wake(), "it does not wait"
    payload = bytes(SIZE // 8 - HEADER_BYTES)
    while pair.outbound.put(eager(payload), payload):
        pass
    assert pair.outbound.want()
    pair.read(budget=1)
    assert not pair.inbound.wake(), "there is much to read still"
    pair.read(budget=3 * (SIZE // 8 + FRAME_COST))
    assert pair.inbound.wake()
    assert not pair.inbound.wake()


def test_writer_does_not_wait_for_room_that_is_there() -> None:
    pair = Pair()
    payload = bytes(SIZE - HEADER_BYTES)
    assert pair.outbound.put(eager(payload), payload)
    assert pair.outbound.want()
    pair.read()
    assert not pair.outbound.want()
