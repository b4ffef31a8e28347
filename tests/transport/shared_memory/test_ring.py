"""Both ends of a ring in one process: what goes in comes out, at every place and in every order of steps."""

from __future__ import annotations

import contextlib
import mmap
import os
import random
import signal
import time
from collections.abc import Callable
from itertools import count
from typing import Any

import pytest
from frames import Header
from hypothesis import given, settings
from hypothesis import strategies as st
from worlds import pattern

from aiompi.driver.spin import yield_core_until
from aiompi.errors import RemoteProtocolError
from aiompi.transport.shared_memory import inbound
from aiompi.transport.shared_memory.inbound import FRAME_COST, Inbound
from aiompi.transport.shared_memory.outbound import AWAKE, EARLY, REWIND, RING_FIRST, RUNG, Outbound
from aiompi.transport.shared_memory.ring import (
    ALIGN,
    COMING,
    CONTROL_BYTES,
    EXPOSED,
    GRANTED,
    HEAD,
    IN_POOL,
    TAIL,
    WANTING,
    WATCHING,
)
from aiompi.transport.shared_memory.segment import PREFIX, Segment
from aiompi.wire import frame
from aiompi.wire.frame import HEADER, HEADER_BYTES, Offer

SIZE = 4096


class Interrupted(Exception):
    """Raised by a signal handler."""


def interrupt(*_: object) -> None:
    raise Interrupted


class Landed:
    """Memory for a payload that comes in pieces, at most `width` bytes at once."""

    def __init__(self, header: Header, frames: list[tuple[Header, bytes]], width: int) -> None:
        self._header, self._frames, self._width = header, frames, width
        self._memory, self._filled = bytearray(header.length), 0

    def room(self) -> memoryview:
        return memoryview(self._memory)[self._filled : self._filled + self._width]

    def advance(self, nbytes: int) -> None:
        self._filled += nbytes
        if self._filled == len(self._memory):
            self._frames.append((self._header, bytes(self._memory)))


class Pair:
    """A ring, its two ends, and what has been read.

    Args:
        width: bytes of a payload in pieces that are read at once, at most.
        takes: whether the reader takes a message before it reads, one that is alone,
        single: or any short one.

    Attributes:
        taken: how many messages it has taken so.
    """

    def __init__(self, size: int = SIZE, width: int = 2**30, takes: bool = False, single: bool = False) -> None:
        self.memory = bytearray(b"\xee" * size)
        self.words = memoryview(bytearray(CONTROL_BYTES)).cast("Q")
        self.outbound = Outbound(memoryview(self.memory), self.words, lambda: None)
        self.inbound = Inbound(memoryview(self.memory), self.words)
        self.inbound.yield_core_until = yield_core_until
        self.frames: list[tuple[Header, bytes]] = []
        self._width = width
        self._takes = takes
        self._single = single
        self.taken = 0

    def frame(self, header: tuple[int, ...], payload: memoryview) -> None:
        self.frames.append((Header(*header), bytes(payload)))

    def land(self, header: tuple[int, ...]) -> Any:
        return Landed(Header(*header), self.frames, self._width)

    def offer(self, header: tuple[int, ...], offer: Offer) -> None:
        raise AssertionError("the writer has no memory for that")

    def ring(self) -> None:
        """As a doorbell does, for both directions."""
        for end in (self.outbound, self.inbound):
            end.answered = end.due

    def read(self, budget: int = 2**30) -> int:
        if self._takes:
            self.taken += bool(self.inbound.take(self, range(3), self._single))
        return self.inbound.read(self, budget)

    def write(self, header: bytes, payload: bytes) -> None:
        """Write a frame in pieces, while the other end reads."""
        for piece, last in ((header, not payload), (payload, True)):
            rest = memoryview(piece)
            while rest:
                nbytes = self.outbound.write(rest, last)
                if not nbytes:
                    self.read()
                rest = rest[nbytes:]


def eager(payload: bytes, tag: int = 0) -> bytes:
    return HEADER.pack(*Header(frame.EAGER, tag, length=len(payload)))


# What goes in comes out.


@pytest.mark.parametrize("pieces", [(b"", b"x"), (b"ab", b"", b"c"), (b"a" * 63, b"b" * 65, b"c")])
def test_whole_frame_of_several_pieces(pieces: tuple[bytes, ...]) -> None:
    pair, whole = Pair(), b"".join(pieces)
    for tag in range(3 * SIZE // ALIGN):
        first, *rest = pieces
        while not pair.outbound.put(eager(whole, tag), first, rest=rest):
            pair.read()
            pair.write(eager(b""), b"")  # what is left of the ring may be too short
    pair.read()
    frames = [(header.tag, payload) for header, payload in pair.frames if header.length]
    assert frames == [(tag, whole) for tag in range(3 * SIZE // ALIGN)]


@pytest.mark.parametrize("takes", [False, True])
@pytest.mark.parametrize("nbytes", [0, 1, 15, 16, 17, 1000, SIZE - HEADER_BYTES])
def test_frame_is_read_as_it_was_written(nbytes: int, takes: bool) -> None:
    pair = Pair(takes=takes)
    for i in range(200):
        payload = pattern(nbytes, i)
        if not pair.outbound.put(eager(payload, i), payload):
            pair.write(eager(payload, i), payload)
        pair.read()
    assert [header.tag for header, _ in pair.frames] == list(range(200))
    assert [data for _, data in pair.frames] == [pattern(nbytes, i) for i in range(200)]
    assert (pair.taken > 100) is takes


@pytest.mark.parametrize("nbytes", [SIZE - HEADER_BYTES + 1, SIZE, 3 * SIZE, 10 * SIZE + 7])
@pytest.mark.parametrize("width", [1, 64, 2**30])
def test_frame_that_is_longer_than_the_ring(nbytes: int, width: int) -> None:
    pair = Pair(width=width)
    payload = pattern(nbytes)
    assert not pair.outbound.put(eager(payload), payload)
    for _ in range(3):
        pair.write(eager(payload), payload)
        pair.write(HEADER.pack(*Header(frame.PROTOACK)), b"")
    pair.read()
    assert [data for _, data in pair.frames] == [payload, b""] * 3


def test_frame_that_does_not_fit_leaves_no_trace() -> None:
    pair = Pair()
    payload = bytes(1000)
    count = 0
    while pair.outbound.put(eager(payload, count), payload):
        count += 1
    words = pair.words.tolist()
    assert not pair.outbound.put(eager(payload), payload)
    assert pair.words.tolist() == words
    assert pair.outbound.put(HEADER.pack(*Header(frame.SYNCACK)), b""), "a smaller one fits"
    pair.read()
    assert len(pair.frames) == count + 1


class Steps:
    """Both ends take turns as chance wants it.

    Attributes:
        sent: what must come out.
    """

    def __init__(self, chance: random.Random, size: int) -> None:
        self._chance = chance
        self._size = size
        width, takes, single = chance.choice((size // 500, 1000, 2**30)), chance.random() < 0.5, chance.random() < 0.5
        self.pair = Pair(size, width, takes, single)
        self.sent: list[bytes] = []
        self._pieces: list[memoryview] = []

    def write(self) -> None:
        if not self._pieces:
            self._begin()
            return
        nbytes = self.pair.outbound.write(self._pieces[0], last=len(self._pieces) == 1)
        self._pieces[0] = self._pieces[0][nbytes:]
        if not self._pieces[0]:
            del self._pieces[0]

    def _begin(self) -> None:
        """A new frame, whole or in pieces."""
        nbytes = self._chance.choice((0, 1, 16, 80, 1000, self._size, self._chance.randrange(3 * self._size)))
        payload = pattern(nbytes, len(self.sent))
        self.sent.append(payload)
        header = eager(payload, len(self.sent))
        if self._chance.random() < 0.7 and self.pair.outbound.put(header, payload):
            return
        cut = self._chance.randrange(nbytes + 1)
        self._pieces = [memoryview(piece) for piece in (header, payload[:cut], payload[cut:]) if piece]

    def read(self) -> None:
        self.pair.read(self._chance.choice((1, 100, 2**30)))

    def finish(self) -> None:
        while self._pieces:
            self.write()
            self.read()
        self.pair.read()


@settings(deadline=None)
@given(seed=st.integers(0, 2**32), size=st.sampled_from([4096, 2**17, 2**19]))
def test_any_order_of_steps(seed: int, size: int) -> None:
    chance = random.Random(seed)
    steps = Steps(chance, size)
    for _ in range(60):
        chance.choice((steps.write, steps.write, steps.read))()
    steps.finish()
    assert [data for _, data in steps.pair.frames] == steps.sent
    assert [header.tag for header, _ in steps.pair.frames] == list(range(1, len(steps.sent) + 1))
    assert steps.pair.inbound.between_frames


def test_reader_stops_at_its_budget() -> None:
    pair = Pair()
    for _ in range(10):
        assert pair.outbound.put(eager(bytes(80)), bytes(80))
    cost = 128 + FRAME_COST
    assert pair.read(budget=2 * cost) == 0
    assert len(pair.frames) == 2
    assert pair.read(budget=3 * cost - 1) < 0
    assert len(pair.frames) == 5
    assert pair.read() > 0
    assert len(pair.frames) == 10


def test_what_is_written_in_answer_counts_for_the_budget() -> None:
    pair = Pair()
    for number in range(3):
        assert pair.outbound.put(HEADER.pack(*Header(frame.CTS, length=1000, drqid=number)), b"")
    assert pair.read(budget=1000 + ALIGN + FRAME_COST) == 0
    assert [header.drqid for header, _ in pair.frames] == [0]
    assert pair.read(budget=1000 + ALIGN + FRAME_COST + 1) < 0
    assert [header.drqid for header, _ in pair.frames] == [0, 1, 2]


def test_reader_that_is_stopped_by_what_it_has_read() -> None:
    pair = Pair()
    for _ in range(3):
        assert pair.outbound.put(eager(b"x"), b"x")
    pair.frame = lambda header, payload: setattr(pair.inbound, "stopped", True)  # type: ignore[method-assign]
    pair.read()
    assert pair.words[TAIL] == ALIGN


@pytest.mark.parametrize("takes", [False, True])
def test_error_of_a_handler_leaves_the_stream_in_step(takes: bool) -> None:
    pair = Pair(takes=takes)
    for i in range(1 if takes else 3):
        assert pair.outbound.put(eager(b"x" * i, i), b"x" * i)

    def fail(header: tuple[int, ...], payload: memoryview) -> None:
        raise KeyboardInterrupt

    pair.frame, frame_of = fail, pair.frame  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        pair.read()
    pair.frame = frame_of  # type: ignore[method-assign]
    assert pair.words[TAIL] == ALIGN
    for i in range(3, 5):
        assert pair.outbound.put(eager(b"x", i), b"x")
    pair.read()
    assert [header.tag for header, _ in pair.frames] == ([3, 4] if takes else [1, 2, 3, 4])


@pytest.mark.parametrize("where", ["land", "at first", "at last"])
def test_error_in_a_payload_that_comes_in_pieces_leaves_the_stream_in_step(where: str) -> None:
    """That message is gone; what it held is not taken for frames, and the ones after it come."""

    class Late(Landed):
        def advance(self, nbytes: int) -> None:
            if (where == "at first") == (self._filled == 0):
                raise Interrupted  # before it has counted them
            super().advance(nbytes)

    class Interruptible(Pair):
        interrupts = 0

        def land(self, header: tuple[int, ...]) -> Any:
            if where == "land":
                raise Interrupted
            return Late(Header(*header), self.frames, 2**30)

        def read(self, budget: int = 2**30) -> int:
            try:
                return super().read(budget)
            except Interrupted:
                self.interrupts += 1
                return 0

    pair = Interruptible()
    forged = eager(bytes(16), 666) + bytes(16)
    payload = forged.ljust(2 * ALIGN, b"\0") * (3 * SIZE // (2 * ALIGN))
    pair.write(eager(payload), payload)
    while pair.inbound.pending():
        pair.read()
    assert pair.interrupts
    assert pair.inbound.between_frames
    assert pair.outbound.put(eager(b"x", 1), b"x")
    pair.read()
    assert [header.tag for header, _ in pair.frames] == [1]


@pytest.mark.parametrize(
    "read", [lambda pair: pair.inbound.take(pair, range(1)), Pair.read], ids=["a message alone", "whatever there is"]
)
def test_reader_that_reads_again_while_it_hands_out(read: Callable[[Pair], object]) -> None:
    pair = Pair()
    keep = pair.frame

    def read_again(header: tuple[int, ...], payload: memoryview) -> None:
        keep(header, payload)
        if header[1] < 5:
            assert pair.outbound.put(eager(b"x", header[1] + 1), b"x")
            read(pair)

    pair.frame = read_again  # type: ignore[method-assign]
    assert pair.outbound.put(eager(b"x", 1), b"x")
    read(pair)
    assert [header.tag for header, _ in pair.frames] == [1, 2, 3, 4, 5]
    assert pair.words[TAIL] == pair.words[HEAD]


def message_in_pieces(pair: Pair) -> None:
    """Read it up to where a header would not fit any more, and write the rest."""
    payload = bytes(SIZE)
    begun = SIZE - HEADER_BYTES - ALIGN // 4
    pair.outbound.write(eager(payload), last=False)
    pair.outbound.write(payload[:begun], last=False)
    pair.inbound.read(pair, SIZE)
    pair.outbound.write(payload[begun:], last=True)


@pytest.mark.parametrize(
    "write",
    [
        lambda pair: None,
        lambda pair: [pair.outbound.put(eager(b"x"), b"x") for _ in range(2)],
        lambda pair: pair.outbound.put(HEADER.pack(*Header(frame.SYNCACK)), b""),
        lambda pair: pair.outbound.put(HEADER.pack(*Header(frame.EAGER_SYNC, length=1)), b"x"),
        lambda pair: pair.outbound.put(eager(bytes(16)), bytes(16), IN_POOL),
        message_in_pieces,
    ],
    ids=["nothing", "two messages", "no message", "a synchronous one", "a lent one", "the rest of one"],
)
def test_nothing_happens_to_what_is_not_taken(write: Callable[[Pair], object]) -> None:
    pair = Pair()
    write(pair)
    words = pair.words.tolist()
    pending = words[HEAD] != words[TAIL]
    assert pair.inbound.take(pair, range(3)) is (None if pending else False)
    assert pair.words.tolist() == words
    assert not pair.frames
    assert pair.inbound.pending() is pending


def test_of_several_short_messages_the_first_is_taken() -> None:
    pair = Pair()
    for tag in range(3 * SIZE // ALIGN):
        while not pair.outbound.put(eager(b"x", tag), b"x"):
            assert pair.inbound.take(pair, first=True)
    left = (pair.words[HEAD] - pair.words[TAIL]) // ALIGN
    assert left > 1
    for taken in range(left - 1):
        assert pair.words[TAIL] == pair.words[HEAD] - (left - taken) * ALIGN
        assert pair.inbound.take(pair, first=True)
    assert pair.inbound.take(pair)
    assert not pair.inbound.take(pair, first=True)
    assert [header.tag for header, _ in pair.frames] == list(range(3 * SIZE // ALIGN))


def around_the_end(pair: Pair) -> None:
    """A message that goes on at the beginning of the ring, and another one."""
    for _ in range(3):
        assert pair.outbound.put(eager(bytes(900)), bytes(900))
        pair.read()
    pair.frames.clear()
    rest = memoryview(eager(bytes(2000)) + bytes(2000))
    while rest:
        rest = rest[pair.outbound.write(rest, last=True) :]
    assert pair.outbound.put(eager(b"x"), b"x")


def test_error_of_a_handler_that_is_given_the_first_message_leaves_the_stream_in_step() -> None:
    pair = Pair()
    for tag in range(2):
        assert pair.outbound.put(eager(b"x", tag), b"x")

    def fail(header: tuple[int, ...], payload: memoryview) -> None:
        raise KeyboardInterrupt

    pair.frame, keep = fail, pair.frame  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        pair.inbound.take(pair, first=True)
    assert pair.words[TAIL] == ALIGN
    pair.frame = keep  # type: ignore[method-assign]
    pair.read()
    assert [header.tag for header, _ in pair.frames] == [1]


@pytest.mark.parametrize(
    "write",
    [
        lambda pair: [pair.outbound.put(HEADER.pack(*Header(kind)), b"") for kind in (frame.SYNCACK, frame.EAGER)],
        lambda pair: [pair.outbound.put(HEADER.pack(*Header(kind)), b"") for kind in (frame.EAGER, frame.RTS)],
        message_in_pieces,
        lambda pair: (pair.outbound.put(eager(b"x"), b"x"), pair.words.__setitem__(HEAD, 2 * SIZE)),
        lambda pair: (pair.outbound.put(eager(b"x"), b"x"), pair.words.__setitem__(HEAD, ALIGN - 1)),
        lambda pair: ([pair.outbound.put(eager(b""), b"") for _ in range(2)], pair.words.__setitem__(WANTING, 1)),
        around_the_end,
    ],
    ids=[
        "another before it",
        "another behind it",
        "the rest of one",
        "beyond the ring",
        "a part",
        "a writer that waits",
        "around the end",
    ],
)
def test_the_first_of_other_frames_is_not_taken(write: Callable[[Pair], object]) -> None:
    pair = Pair()
    write(pair)
    words = pair.words.tolist()
    assert not pair.inbound.take(pair, first=True)
    assert pair.words.tolist() == words
    assert not pair.frames


class Late:
    """Control words of which HEAD is what it was for so many looks."""

    def __init__(self, words: memoryview, looks: int) -> None:
        self._words = words
        self._head = words[HEAD]
        self.looks = looks

    def __getitem__(self, word: int) -> int:
        if word != HEAD:
            return self._words[word]
        self.looks -= 1
        return self._head if self.looks >= 0 else self._words[HEAD]


def test_reader_who_was_rung_for_early_looks_before_he_lets_others_run(monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_there_is_something_to_do_when_the_writer_waits() -> None:
    pair = Pair()
    pair.words[WANTING] = 1
    assert pair.inbound.take(pair) is None
    assert pair.inbound.pending()
    assert pair.outbound.put(eager(b"x"), b"x")
    assert pair.inbound.take(pair) is None, "the writer must be woken, too"
    pair.inbound.answered = 1
    assert pair.inbound.take(pair)


def test_short_messages_touch_only_the_beginning_of_a_ring() -> None:
    pair = Pair(2**20)
    for i in range(5000):
        assert pair.outbound.put(eager(bytes(100), i), bytes(100))
        pair.read()
    assert len(pair.frames) == 5000
    assert pair.memory[REWIND + 256 :] == b"\xee" * (2**20 - REWIND - 256)


# Waiting.


def test_reader_who_sleeps_again_and_again_is_rung_for_before_a_frame() -> None:
    pair = Pair()
    pair.outbound.uncrowded = True
    assert pair.inbound.watch()
    assert pair.outbound.put(eager(b"x"), b"x") == RUNG, "it has not slept before"
    pair.ring()
    for _ in range(3):
        pair.read()
        assert pair.inbound.watch()
        assert pair.outbound.put(eager(b"x"), b"x") == RING_FIRST
        pair.ring()
        assert not pair.inbound.pending(), "nothing is written"
        assert pair.words[COMING] == pair.words[HEAD] + 1
        assert pair.outbound.put(eager(b"x"), b"x") == AWAKE
    pair.read()
    assert pair.inbound.watch()
    assert pair.outbound.put(eager(b"x"), b"x") == RING_FIRST
    pair.ring()
    pair.read()
    assert pair.inbound.watch()
    assert pair.outbound.put(eager(b"x"), b"x") == RUNG, "it has looked too soon, and sleeps again"
    pair.ring()
    assert len(pair.frames) == 4
    pair.read()
    assert len(pair.frames) == 5


def test_reader_is_not_looked_at_before_a_short_frame_after_it_was_awake_for_two() -> None:
    pair = Pair()
    pair.outbound.uncrowded = True
    assert pair.inbound.watch()
    assert pair.outbound.put(eager(b"x"), b"x") == RUNG
    pair.ring()
    for _ in range(2):
        pair.read()
        assert pair.outbound.put(eager(b"x"), b"x") == AWAKE
    pair.read()
    assert pair.inbound.watch()
    assert pair.outbound.put(eager(b"x"), b"x") == RUNG
    pair.ring()
    assert pair.outbound.put(eager(b"x"), b"x") == AWAKE


def test_reader_is_looked_at_before_a_long_frame() -> None:
    pair = Pair(4 * EARLY)
    assert pair.inbound.watch()
    assert pair.outbound.put(eager(bytes(EARLY)), bytes(EARLY)) == RUNG, "both share a core"
    pair.ring()
    pair.read()
    pair.outbound.uncrowded = True
    for _ in range(2):
        assert pair.outbound.put(eager(bytes(EARLY)), bytes(EARLY)) == AWAKE
        pair.read()
    assert pair.inbound.watch()
    assert pair.outbound.put(eager(bytes(EARLY)), bytes(EARLY)) == RING_FIRST
    pair.ring()


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
    pair.outbound.doorbell = lambda: None
    assert pair.outbound.put(eager(b"x"), b"x") == RUNG
    assert pair.outbound.put(eager(b"x"), b"x") == AWAKE
    pair.read()
    pair.outbound.uncrowded = True
    assert pair.inbound.watch()
    assert pair.outbound.put(eager(b"x"), b"x") == RING_FIRST
    assert pair.outbound.put(eager(b"x"), b"x") == RUNG, "nobody has rung"
    pair.read()
    assert pair.inbound.pending() is False


def test_signal_handler_raises_after_the_copy_of_a_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    pair, payload = Pair(), pattern(3000)
    for piece, last in ((eager(payload), False), (payload[:1000], False)):
        pair.outbound.write(piece, last)
    with monkeypatch.context() as patch:
        patch.setattr(inbound, "aligned", interrupt)
        with pytest.raises(Interrupted):
            pair.read()
    pair.outbound.write(payload[1000:], True)
    pair.read()
    assert [data for _, data in pair.frames] == [payload]


def test_signal_handler_leaves_no_fence_behind() -> None:
    """A lock that stays locked would stop this rank for ever."""
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


def test_who_could_not_be_rung_for_is_still_to_be() -> None:
    doorbells = os.eventfd(0), os.eventfd(0)
    segment = Segment(mmap.mmap(-1, PREFIX + 2 * SIZE), SIZE, *doorbells, first=True)
    outbound, inbound = segment.outbound, segment.inbound
    outbound.words[WATCHING] = inbound.words[WANTING] = 1
    assert outbound.must_ring()
    assert inbound.must_ring()
    doorbell, outbound.doorbell = outbound.doorbell, interrupt
    with pytest.raises(Interrupted):
        segment.ring()
    outbound.doorbell = doorbell
    assert outbound.must_ring()
    assert inbound.must_ring()
    segment.ring()
    assert not outbound.must_ring()
    assert not inbound.must_ring()
    segment.close()


@pytest.mark.parametrize("announced", [True, False])
def test_reader_looks_once_unless_a_frame_was_announced(announced: bool) -> None:
    pair = Pair()
    pair.inbound.yield_core_until = lambda ready, seconds: pytest.fail("it lets others run")
    pair.outbound.uncrowded = True
    assert pair.inbound.watch()
    assert not announced or pair.outbound.rings_early()
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
    assert not pair.outbound.must_ring(), "it does not wait"
    assert pair.inbound.watch()
    assert pair.outbound.must_ring()
    pair.ring()
    assert not pair.outbound.must_ring()
    assert pair.outbound.put(eager(b"x"), b"x") == AWAKE
    pair.read()
    assert not pair.outbound.must_ring()
    assert pair.inbound.watch()
    assert pair.outbound.put(eager(b"x"), b"x") == RUNG
    pair.ring()


def test_reader_does_not_wait_for_what_is_there() -> None:
    pair = Pair()
    assert pair.outbound.put(eager(b"x"), b"x")
    assert not pair.inbound.watch()
    assert not pair.outbound.must_ring(), "it will look by itself"
    pair.read()
    assert not pair.outbound.must_ring()
    assert pair.inbound.watch()


def test_reader_settles_when_there_is_nothing_else_to_do() -> None:
    pair = Pair()
    assert pair.inbound.settle()
    assert pair.outbound.put(eager(b"x"), b"x") == RUNG, "it waits"
    pair.ring()
    assert not pair.inbound.settle(), "there is a frame"
    pair.read()
    pair.words[COMING] = pair.words[HEAD] + 1
    assert not pair.inbound.settle(), "one is about to come"
    pair.words[COMING] = 0
    assert pair.inbound.settle()
    pair.words[WANTING] += 1
    assert not pair.inbound.settle(), "the writer waits"
    assert pair.inbound.must_ring()
    pair.ring()
    assert pair.inbound.settle()


def test_writer_is_rung_for_once_per_wait_when_half_is_read() -> None:
    pair = Pair()
    assert not pair.inbound.must_ring(), "it does not wait"
    payload = bytes(SIZE // 8 - HEADER_BYTES)
    while pair.outbound.put(eager(payload), payload):
        pass
    assert pair.outbound.want()
    pair.read(budget=1)
    assert not pair.inbound.must_ring(), "there is much to read still"
    pair.read(budget=3 * (SIZE // 8 + FRAME_COST))
    assert pair.inbound.must_ring()
    pair.ring()
    assert not pair.inbound.must_ring()


def test_writer_does_not_wait_for_room_that_is_there() -> None:
    pair = Pair()
    payload = bytes(SIZE - HEADER_BYTES)
    assert pair.outbound.put(eager(payload), payload)
    assert pair.outbound.want()
    pair.read()
    assert not pair.outbound.want()


# A ring whose other end cannot be trusted.


@pytest.mark.parametrize("head", [2**64 - 1, 2**63, SIZE + 1, SIZE + ALIGN, 1, HEADER_BYTES - 1])
def test_impossible_head(head: int) -> None:
    pair = Pair(takes=True)
    pair.words[HEAD] = head
    with pytest.raises(RemoteProtocolError, match="writer of a ring"):
        pair.read()


def test_head_that_goes_back() -> None:
    pair = Pair(takes=True)
    assert pair.outbound.put(eager(b""), b"")
    pair.read()
    pair.words[HEAD] = 0
    with pytest.raises(RemoteProtocolError, match="writer of a ring"):
        pair.read()


@pytest.mark.parametrize("tail", [2**64 - 1, 2**63, ALIGN, 1, 1000 * SIZE])
def test_impossible_tail(tail: int) -> None:
    pair = Pair()
    pair.words[TAIL] = tail
    with pytest.raises(RemoteProtocolError, match="reader of a ring"):
        pair.outbound.want()


def test_tail_that_goes_too_far_back() -> None:
    pair = Pair()
    for _ in range(2):
        payload = bytes(SIZE - HEADER_BYTES)
        pair.write(eager(payload), payload)
        pair.read()
    pair.words[TAIL] = 0
    with pytest.raises(RemoteProtocolError, match="reader of a ring"):
        pair.outbound.put(eager(payload), payload)


def test_skip_beyond_what_was_written() -> None:
    pair = Pair()
    assert pair.outbound.put(eager(b""), b"")
    pair.memory[0] = 0
    with pytest.raises(RemoteProtocolError, match="a frame in a ring ends"):
        pair.read()


def test_header_whose_padding_was_not_written() -> None:
    pair = Pair()
    pair.memory[:HEADER_BYTES] = HEADER.pack(*Header(frame.SYNCACK))
    pair.words[HEAD] = HEADER_BYTES
    with pytest.raises(RemoteProtocolError, match="a frame in a ring ends"):
        pair.read()


def test_header_that_is_cut_behind_a_whole_frame() -> None:
    pair = Pair()
    for place, header in ((0, Header(frame.CTS)), (ALIGN, Header(frame.EAGER, length=100))):
        pair.memory[place : place + HEADER_BYTES] = HEADER.pack(*header)
    pair.words[HEAD] = ALIGN + 1
    with pytest.raises(RemoteProtocolError, match="has stopped at 65, in a header"):
        pair.read()
    assert len(pair.frames) == 1


def test_payload_whose_padding_was_not_written() -> None:
    pair = Pair()
    header, payload = eager(bytes(100)), bytes(100)
    pair.memory[:148] = header + payload
    pair.words[HEAD] = 148
    with pytest.raises(RemoteProtocolError, match="a frame in a ring ends"):
        pair.read()


@pytest.mark.parametrize("length", [2**64 - 1, 2**63, SIZE])
def test_length_that_lies_is_for_the_sink_to_judge(length: int) -> None:
    """It is asked for memory, as for every frame that has not come as a whole, and refuses."""
    pair = Pair(takes=True)
    pair.memory[:HEADER_BYTES] = HEADER.pack(*Header(frame.EAGER, length=length))
    pair.words[HEAD] = ALIGN

    def refuse(header: tuple[int, ...]) -> Any:
        raise RemoteProtocolError(f"{header[5]} bytes")

    pair.land = refuse  # type: ignore[method-assign]
    with pytest.raises(RemoteProtocolError, match=f"{length} bytes"):
        pair.read()


@settings(deadline=None)
@given(seed=st.integers(0, 2**32))
def test_rubbish_is_bounded(seed: int) -> None:
    chance = random.Random(seed)
    pair = Pair(takes=True)
    pair.memory[:] = chance.randbytes(SIZE)
    for place in range(0, SIZE, ALIGN):
        if chance.random() < 0.8:  # a frame of a kind that there is, of a length that there may be
            kind = chance.randrange(16) | chance.choice((0, 0, 0, 0, IN_POOL, EXPOSED))
            length = chance.choice((0, 16, 17, 100, SIZE, chance.randrange(2**64)))
            pair.memory[place : place + HEADER_BYTES] = HEADER.pack(*Header(kind, length=length))
    for word in (HEAD, TAIL, WANTING, WATCHING):
        pair.words[word] = chance.choice((0, SIZE, ALIGN * chance.randrange(65), chance.randrange(2**64)))
    landed: list[int] = []

    def land(header: tuple[int, ...]) -> Any:
        if header[5] > 2 * SIZE:
            raise RemoteProtocolError("test")
        landed.append(header[5])
        return Landed(Header(*header), pair.frames, 2**30)

    pair.land = land  # type: ignore[method-assign]
    with contextlib.suppress(RemoteProtocolError):
        pair.read()
    assert len(pair.frames) <= SIZE // ALIGN
    assert all(len(payload) <= SIZE for _, payload in pair.frames)


def test_words_of_both_ends_are_in_cache_lines_of_their_own() -> None:
    writer, reader = (HEAD, WANTING, COMING), (TAIL, WATCHING, GRANTED)
    assert {word * 8 // ALIGN for word in writer}.isdisjoint({word * 8 // ALIGN for word in reader})
    assert len({*writer, *reader}) == 6
    assert max(*writer, *reader) * 8 < CONTROL_BYTES


def test_credit_is_told_once() -> None:
    pair = Pair()
    assert pair.outbound.granted() == 0
    pair.inbound.grant(100)
    pair.inbound.grant(2**40)
    assert pair.outbound.granted() == 100 + 2**40
    assert pair.outbound.granted() == 0
    pair.inbound.grant(1)
    assert pair.outbound.granted() == 1
