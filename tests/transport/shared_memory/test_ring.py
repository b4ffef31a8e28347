"""Both ends of a ring in one process: what goes in comes out, at every place and in every order of steps."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from frames import Header
from hypothesis import given, settings
from hypothesis import strategies as st
from ring_pair import SIZE, Interrupted, Landed, Pair, eager
from worlds import pattern

from aiompi.transport.shared_memory.inbound import FRAME_COST
from aiompi.transport.shared_memory.ring import (
    ALIGN,
    COMING,
    CONTROL_BYTES,
    GRANTED,
    HEAD,
    IN_POOL,
    REWIND,
    TAIL,
    WANTING,
    WATCHING,
)
from aiompi.wire import frame
from aiompi.wire.frame import HEADER, HEADER_BYTES


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
    """Both ends take random turns.

    Attributes:
        sent: payloads in the order in which they must come out.
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
        """Write a new frame as a whole, or begin to write it in pieces."""
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
    """That message is lost. Its payload is not taken for frames, and later messages arrive."""

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
    """Read a message up to a place behind which no header would fit, and write the rest."""
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
    """Write a message that continues at the beginning of the ring, and another one."""
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
