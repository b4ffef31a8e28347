"""Messages that their sender copies straight into the memory of a receive that is posted already."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import gc
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fences import Fence
from frames import Header
from hypothesis import given, settings
from hypothesis import strategies as st
from interrupts import Late, everywhere
from worlds import PolledWorld, irecv, irecv_into, isend, pattern, segments

from aiompi import errors
from aiompi.comm import Communicator, Group
from aiompi.constants import ANY_TAG, CONTEXT_WORLD
from aiompi.engine import Mode
from aiompi.transport.shared_memory.outbound import Outbound
from aiompi.transport.shared_memory.posted import Filler
from aiompi.transport.shared_memory.ring import FILLED
from aiompi.transport.shared_memory.words import CLAIMED, HEAD, LENGTH, POSTED, TAIL, WATCHING
from aiompi.wire import frame
from aiompi.wire.frame import HEADER

NewPolled = Callable[..., PolledWorld]
SIZE = 60_000
SIZES = [48 * 2**10, SIZE, 200_000, 2**20]
GARBAGE = b"\xaa"


def talked(w: PolledWorld) -> PolledWorld:
    """After two ranks, each with a core for itself, have sent each other something."""
    for engine in w.engines:
        engine.uncrowded = True
    w.finish(isend(w.comms[0], b"x", 1), irecv(w.comms[1]), isend(w.comms[1], b"x", 0), irecv(w.comms[0]))
    return w


@pytest.fixture
def world(polled: NewPolled) -> PolledWorld:
    return talked(polled(2, single_copy=True, lend_limit=2**21))


class Filled:
    """Counts the messages that went so."""

    def __init__(self) -> None:
        self.count = 0


@pytest.fixture
def filled(monkeypatch: pytest.MonkeyPatch) -> Filled:
    found, real = Filled(), Filler.fill

    def fill(self: Filler, header: bytes, payload: memoryview) -> bool:
        done = real(self, header, payload)
        found.count += done
        return done

    monkeypatch.setattr(Filler, "fill", fill)
    return found


def ring(w: PolledWorld) -> Any:
    """The end that rank 0 writes to rank 1."""
    link: Any = w.engines[0].peer(1).link
    return link._segment.outbound


def reader(w: PolledWorld) -> Any:
    """The end of it that rank 1 reads."""
    links: Any = w.links(1, 0)
    return next(link._segment.inbound for link in links if link._segment.inbound.used)


def filler(w: PolledWorld) -> Any:
    """That of rank 0, after it has sent so."""
    link: Any = w.engines[0].peer(1).link
    return link.sharing.filler


def posted(w: PolledWorld, nbytes: int = SIZE, tag: int = 0) -> tuple[bytearray, Any]:
    """A receive of rank 1 from rank 0, and its memory."""
    memory = bytearray(GARBAGE * nbytes)
    return memory, irecv_into(w.comms[1], memory, 0, tag)


def passes(w: PolledWorld, data: bytes, tag: int = 0) -> bool:
    """Whether a message goes from rank 0 to rank 1, and comes as it was."""
    memory = bytearray(len(data))
    w.finish(isend(w.comms[0], data, 1, tag), irecv_into(w.comms[1], memory, 0, tag))
    return memory == data


# The copy.


@pytest.mark.parametrize("tag", [3, ANY_TAG])
@pytest.mark.parametrize("nbytes", SIZES)
def test_it_is_there_when_the_send_returns(world: PolledWorld, filled: Filled, nbytes: int, tag: int) -> None:
    before = ring(world)._head
    memory, receive = posted(world, nbytes + 7, tag)
    data = bytearray(pattern(nbytes))
    request = isend(world.comms[0], data, 1, 3)
    assert request.done()
    assert filled.count == 1
    assert memory == data + GARBAGE * 7
    assert ring(world)._head - before == 64, "nothing but a frame went through the ring"
    assert not receive.done()
    data[:] = bytes(nbytes)
    (status,) = world.finish(receive)
    assert (status.source, status.tag, status.nbytes) == (0, 3, nbytes)
    assert memory == pattern(nbytes) + GARBAGE * 7


def test_a_message_of_read_only_memory(world: PolledWorld, filled: Filled) -> None:
    memory, receive = posted(world)
    world.comms[0].isend((pattern(SIZE),), SIZE, 1, 0)
    world.finish(receive)
    assert (filled.count, memory) == (1, pattern(SIZE))


def test_one_after_the_other(world: PolledWorld, filled: Filled) -> None:
    for number in range(200):
        memory, receive = posted(world)
        data = pattern(SIZE - number, number)
        isend(world.comms[0], data, 1)
        world.finish(receive)
        assert memory[: len(data)] == data
    assert filled.count == 200
    assert world.credit_balance(0, 1) == world.settings.eager_window


def test_both_at_once(world: PolledWorld, filled: Filled) -> None:
    memories = [bytearray(SIZE) for _ in range(2)]
    receives = [irecv_into(world.comms[own], memories[own], 1 - own, 0) for own in range(2)]
    for own in range(2):
        isend(world.comms[own], pattern(SIZE, own), 1 - own)
    world.finish(*receives)
    assert filled.count == 2
    assert memories == [pattern(SIZE, 1), pattern(SIZE, 0)]


def test_messages_of_collectives_have_their_notes(world: PolledWorld) -> None:
    memory, receive = posted(world)
    noted: list[int] = []
    receive_class = type(receive)
    receive.__class__ = type(
        "Noted", (receive_class,), {"__slots__": (), "noted": lambda self, note: noted.append(note)}
    )
    world.comms[0].engine.peer(1).send((memoryview(pattern(SIZE)),), SIZE, CONTEXT_WORLD, 0, 0, Mode.STANDARD, 17)
    world.finish(receive)
    assert (noted, memory) == ([17], pattern(SIZE))


# What does not go so.


@pytest.mark.parametrize("nbytes", [SIZE, 200_000])
def test_without_single_copies_it_goes_as_any_other(polled: NewPolled, filled: Filled, nbytes: int) -> None:
    w = talked(polled(2, single_copy=False, lend_limit=2**21))
    memory, receive = posted(w, nbytes)
    assert ring(w).words[POSTED] == 0
    w.finish(isend(w.comms[0], pattern(nbytes), 1), receive)
    assert (filled.count, memory) == (0, pattern(nbytes))


def test_ranks_that_share_cores_do_so_for_longer_messages_only(polled: NewPolled, filled: Filled) -> None:
    w = polled(2, single_copy=True, lend_limit=2**21)
    w.finish(isend(w.comms[0], b"x", 1), irecv(w.comms[1]))
    assert passes(w, pattern(SIZE))
    for nbytes, count in ((SIZE, 0), (200_000, 1)):
        memory, receive = posted(w, nbytes)
        isend(w.comms[0], pattern(nbytes), 1)
        w.finish(receive)
        assert (filled.count, memory) == (count, pattern(nbytes))


@pytest.mark.parametrize("source", [-1, 0])
def test_a_receive_that_is_not_from_one_rank_is_not_advertised(world: PolledWorld, source: int) -> None:
    irecv_into(world.comms[1], bytearray(SIZE), source, 0)
    assert (ring(world).words[POSTED] != 0) == (source == 0)


def test_a_message_that_is_too_long_is_told_of(world: PolledWorld, filled: Filled) -> None:
    _, receive = posted(world)
    isend(world.comms[0], pattern(SIZE + 1), 1)
    with pytest.raises(errors.TruncationError, match="60001 bytes from rank 0"):
        world.finish(receive)
    assert filled.count == 0


@pytest.mark.parametrize("mode", [Mode.SYNCHRONOUS, Mode.READY])
def test_what_has_to_be_answered_goes_as_before(world: PolledWorld, filled: Filled, mode: Mode) -> None:
    memory, receive = posted(world)
    world.finish(world.comms[0].isend((memoryview(pattern(SIZE)),), SIZE, 1, 0, mode), receive)
    assert (filled.count, memory) == (0, pattern(SIZE))


def test_a_buffered_message(world: PolledWorld, filled: Filled) -> None:
    buffer = bytearray(2**20)
    world.engines[0].attachment.attach(buffer, memoryview(buffer))
    memory, receive = posted(world)
    world.comms[0].isend((memoryview(pattern(SIZE)),), SIZE, 1, 0, Mode.BUFFERED)
    world.finish(receive)
    assert (filled.count, memory) == (1, pattern(SIZE))


@pytest.mark.parametrize("other", ["tag", "context"])
def test_another_message(world: PolledWorld, filled: Filled, other: str) -> None:
    comms = [Communicator(e, Group.of(range(2), e.rank), CONTEXT_WORLD + 2, "OTHER") for e in world.engines]
    memory, receive = posted(world)
    if other == "tag":
        isend(world.comms[0], pattern(SIZE, 1), 1, 1)
        late = irecv(world.comms[1], 0, 1)
    else:
        isend(comms[0], pattern(SIZE, 1), 1)
        late = irecv(comms[1], 0, 0)
    world.finish(late)
    assert (filled.count, memory) == (0, GARBAGE * SIZE)
    assert late.result() == pattern(SIZE, 1)
    isend(world.comms[0], pattern(SIZE, 2), 1)
    world.finish(receive)
    assert (filled.count, memory) == (1, pattern(SIZE, 2)), "it is still posted"


# Order.


def test_a_message_that_is_on_its_way_is_not_overtaken(world: PolledWorld, filled: Filled) -> None:
    isend(world.comms[0], b"first", 1)
    memory, receive = posted(world)
    isend(world.comms[0], pattern(SIZE), 1)
    (status,) = world.finish(receive)
    assert (status.nbytes, memory[:5], filled.count) == (5, b"first", 0)
    assert world.finish(irecv(world.comms[1], 0, 0)) == [pattern(SIZE)]


def test_a_message_that_waits_to_be_written_is_not_overtaken(world: PolledWorld, filled: Filled) -> None:
    nbytes = 2**23
    memory, receive = posted(world, nbytes)
    sends = [world.comms[0].isend((memoryview(pattern(nbytes)),), nbytes, 1, 0), isend(world.comms[0], bytes(SIZE), 1)]
    world.finish(receive)
    assert memory == pattern(nbytes)
    assert world.finish(irecv(world.comms[1], 0, 0), *sends)[0] == bytes(SIZE)
    assert filled.count == 0


def earlier(w: PolledWorld, source: int, tag: int) -> tuple[bytearray, Any]:
    memory = bytearray(SIZE)
    return memory, irecv_into(w.comms[1], memory, source, tag)


@pytest.mark.parametrize(
    ("source", "tag", "rivals"),
    [(0, 0, True), (-1, 0, True), (0, -1, True), (-1, -1, True), (0, 1, False), (-1, 1, False), (1, 0, False)],
)
@pytest.mark.parametrize("wanted", [0, ANY_TAG])
def test_the_receive_that_was_posted_first_gets_it(
    world: PolledWorld, source: int, tag: int, rivals: bool, wanted: int
) -> None:
    first, before = earlier(world, source, tag)
    memory, receive = posted(world, SIZE, wanted)
    if rivals or wanted != ANY_TAG:
        isend(world.comms[0], pattern(SIZE), 1)
        world.finish(before if rivals else receive)
        assert [first, memory] == ([pattern(SIZE), GARBAGE * SIZE] if rivals else [bytes(SIZE), pattern(SIZE)])
    else:
        isend(world.comms[0], pattern(SIZE), 1, tag)
        mine = source in (-1, 0)
        world.finish(before if mine else receive)
        assert [first, memory] == ([pattern(SIZE), GARBAGE * SIZE] if mine else [bytes(SIZE), pattern(SIZE)])


@pytest.mark.parametrize("rival", [(0, 1), (-1, 1), (1, 0), (0, ANY_TAG), (-1, 0)])
def test_which_receives_are_advertised(world: PolledWorld, rival: tuple[int, int]) -> None:
    """Those that get the next message for them, whatever is posted beside."""
    irecv_into(world.comms[1], bytearray(4), *rival)
    _, receive = posted(world)
    assert (receive.advertised is not None) == (rival in [(0, 1), (-1, 1), (1, 0)])
    memory, second = posted(world)
    assert second.advertised is None
    assert memory == GARBAGE * SIZE


def test_a_receive_that_waits_for_something_else_does_not_stand_in_the_way(world: PolledWorld, filled: Filled) -> None:
    control, waiting = posted(world, SIZE, 9)
    for number in range(3):
        memory, receive = posted(world)
        assert waiting.advertised is None
        isend(world.comms[0], pattern(SIZE, number), 1)
        world.finish(receive)
        assert memory == pattern(SIZE, number)
    assert filled.count == 3
    isend(world.comms[0], pattern(SIZE, 5), 1, 9)
    world.finish(waiting)
    assert control == pattern(SIZE, 5)


def test_a_receive_that_is_claimed_is_not_displaced(world: PolledWorld, filled: Filled) -> None:
    first, receive = posted(world, SIZE, 9)
    isend(world.comms[0], pattern(SIZE, 1), 1, 9)
    memory, second = posted(world)
    assert (receive.advertised is not None, second.advertised) == (True, None)
    isend(world.comms[0], pattern(SIZE, 2), 1)
    world.finish(receive, second)
    assert ([first, memory], filled.count) == ([pattern(SIZE, 1), pattern(SIZE, 2)], 1)


def test_short_messages_into_long_memory_are_seldom_told_of(world: PolledWorld, filled: Filled) -> None:
    """That takes longer than it saves."""

    def told(nbytes: int, times: int) -> int:
        found = 0
        for _ in range(times):
            memory, receive = posted(world)
            found += receive.advertised is not None
            isend(world.comms[0], pattern(nbytes), 1)
            world.finish(receive)
            assert memory[:nbytes] == pattern(nbytes)
        return found

    told(8, 40)
    assert told(8, 320) == 20
    assert filled.count == 0
    assert told(SIZE, 50) >= 34, "from the next one that is filled on each of them"
    assert filled.count >= 34


RECEIVES = st.tuples(st.just("receive"), st.sampled_from([0, 0, 0, 1, ANY_TAG]), st.just(0))
SENDS = st.tuples(st.just("send"), st.sampled_from([0, 0, 0, 1]), st.sampled_from([5, 50_000, SIZE, SIZE, 90_000]))
POLLS = st.tuples(st.just("poll"), st.sampled_from([0, 1, 1, 1]), st.integers(1, 6))
MEETINGS = st.tuples(st.just("meet"), st.sampled_from([0, 0, 1]), st.sampled_from([50_000, SIZE]))
GIVE_UPS = st.tuples(st.just("give up"), st.integers(0, 20), st.just(0))
OPERATIONS = st.one_of(RECEIVES, SENDS, MEETINGS, POLLS, POLLS, GIVE_UPS)


class Program:
    """Sends, receives that are given up, and steps of the ranks, in any order."""

    def __init__(self, w: PolledWorld, way: str) -> None:
        self.w = w
        self.way = way
        self.sent: list[tuple[int, bytes]] = []
        self.receives: list[tuple[Any, bytearray]] = []

    def receive(self, tag: int, _: int) -> None:
        memory = bytearray(GARBAGE * 100_000)
        self.receives.append((irecv_into(self.w.comms[1], memory, 0, tag), memory))

    def send(self, tag: int, nbytes: int) -> None:
        data = pattern(nbytes, len(self.sent))
        self.sent.append((tag, data))
        isend(self.w.comms[0], data, 1, tag)

    def meet(self, tag: int, nbytes: int) -> None:
        self.receive(tag, 0)
        self.send(tag, nbytes)

    def poll(self, rank: int, times: int) -> None:
        for _ in range(times):
            self.w.drivers[rank].poll()

    def give_up(self, number: int, _: int) -> None:
        if self.receives:
            receive, memory = entry = self.receives[number % len(self.receives)]
            if self.way == "withdraw":
                receive.withdraw()
            elif not receive.cancel():
                return  # it gets its message
            else:
                assert memory == GARBAGE * len(memory)
            self.receives.remove(entry)
            memory[:] = bytes(len(memory))

    def check(self) -> None:
        """Receive all that is left: each message has come once, and in order."""
        for _ in range(30):
            self.w.poll()
        places: dict[int, int] = {}
        for place, (receive, memory) in enumerate(self.receives):
            if receive.cancel():
                assert memory == GARBAGE * len(memory)
            else:
                places[self._number(memory[: receive.result().nbytes])] = place
        while self.w.comms[1].iprobe(0, ANY_TAG) is not None:
            (data,) = self.w.finish(irecv(self.w.comms[1], 0, ANY_TAG))
            places[self._number(data)] = len(places) + len(self.receives)
        assert sorted(places) == list(range(len(self.sent)))
        if self.way == "cancel":
            for tag in range(2):
                mine = [places[number] for number, (other, _) in enumerate(self.sent) if other == tag]
                assert mine == sorted(mine)
        assert self.w.credit_balance(0, 1) == self.w.settings.eager_window

    def _number(self, data: bytes | bytearray) -> int:
        return [content for _, content in self.sent].index(bytes(data))


@pytest.mark.parametrize("way", ["cancel", "withdraw"])
def test_every_message_comes_once_and_in_order(tmp_path: Path, way: str, filled: Filled) -> None:
    given_up = 0

    @given(st.lists(OPERATIONS, min_size=6, max_size=25))
    @settings(max_examples=150)
    def run(operations: list[tuple[str, int, int]]) -> None:
        nonlocal given_up
        with PolledWorld("shared_memory", 2, str(tmp_path), single_copy=True, lend_limit=2**21) as w:
            program = Program(talked(w), way)
            for what, *arguments in operations:
                before = len(program.receives)
                getattr(program, what.replace(" ", "_"))(*arguments)
                given_up += len(program.receives) < before
            program.check()

    run()
    assert filled.count > 10
    assert given_up > 10


# Receives that are given up.


def test_a_receive_that_has_its_message_is_not_cancelled(world: PolledWorld) -> None:
    memory, receive = posted(world)
    isend(world.comms[0], pattern(SIZE), 1)
    assert not receive.cancel()
    (status,) = world.finish(receive)
    assert not status.Is_cancelled()
    assert memory == pattern(SIZE)


def test_nothing_comes_into_memory_after_a_cancellation(world: PolledWorld, filled: Filled) -> None:
    memory, receive = posted(world)
    assert receive.cancel()
    isend(world.comms[0], pattern(SIZE), 1)
    assert (filled.count, memory) == (0, GARBAGE * SIZE)
    assert world.finish(irecv(world.comms[1], 0, 0)) == [pattern(SIZE)]


@pytest.mark.parametrize("later", ["posted", "unexpected"])
def test_a_message_in_the_memory_of_a_receive_that_is_withdrawn_goes_to_another(
    world: PolledWorld, filled: Filled, later: str
) -> None:
    memory, receive = posted(world)
    isend(world.comms[0], pattern(SIZE), 1)
    assert filled.count == 1
    second = posted(world) if later == "posted" else None
    receive.withdraw()
    memory[:] = bytes(SIZE)
    if second is None:
        world.until(lambda: world.comms[1].iprobe(0, 0) is not None)
        second = posted(world)
    world.finish(second[1])
    assert second[0] == pattern(SIZE)
    assert memory == bytes(SIZE)
    assert passes(world, pattern(SIZE, 2))
    assert world.credit_balance(0, 1) == world.settings.eager_window


def test_a_message_that_is_given_back_is_not_overtaken_by_one_that_is_there_already(
    world: PolledWorld, filled: Filled
) -> None:
    _, receive = posted(world)
    memory, second = posted(world)
    isend(world.comms[0], pattern(SIZE, 1), 1)
    world.until(receive.done)
    second.withdraw()
    memory, second = posted(world)
    isend(world.comms[0], pattern(SIZE, 2), 1)
    assert (filled.count, memory) == (2, pattern(SIZE, 2))
    receive.withdraw()  # whose message the second one gets
    world.finish(second)
    assert memory == pattern(SIZE, 1)
    assert world.finish(irecv(world.comms[1], 0, 0)) == [pattern(SIZE, 2)]


def writing(w: PolledWorld) -> Any:
    """A receive of rank 1 into whose memory rank 0 is just writing."""
    _, receive = posted(w)
    words = ring(w).words
    words[CLAIMED] = words[POSTED] << 1
    return receive


def test_a_receive_into_which_somebody_writes_is_not_quiescent(world: PolledWorld) -> None:
    receive = writing(world)
    assert not receive.quiescent()
    ring(world).words[CLAIMED] = 0
    assert receive.quiescent()
    receive.withdraw()
    assert passes(world, pattern(SIZE))


@pytest.mark.parametrize("there", [False, True])
def test_who_takes_memory_back_waits_for_a_copy_that_has_begun(world: PolledWorld, there: bool) -> None:
    receive, words = writing(world), ring(world).words
    ended = False

    def end() -> None:
        nonlocal ended
        time.sleep(0.05)
        ended = True
        words[LENGTH] = 5
        words[CLAIMED] = words[CLAIMED] | 1 if there else 0

    other = threading.Thread(target=end)
    other.start()
    receive.withdraw()
    assert ended
    other.join()


def test_a_cancellation_does_not_wait(world: PolledWorld) -> None:
    """For the receive gets the message."""
    receive = writing(world)
    assert not receive.cancel()
    ring(world).words[CLAIMED] = 0


def test_who_takes_memory_back_asks_whom_the_message_goes_to(world: PolledWorld) -> None:
    _, first = posted(world)
    isend(world.comms[0], pattern(SIZE, 1), 1)
    world.until(first.done)
    _, second = posted(world)
    words = ring(world).words
    words[CLAIMED] = words[POSTED] << 1
    assert not first.quiescent()
    words[CLAIMED] = 0
    assert first.quiescent()
    assert second.advertised is None


def test_who_gives_up_does_not_wait_for_one_who_has_died(world: PolledWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    receive = writing(world)
    monkeypatch.setattr("aiompi.transport.shared_memory.neighbour.Neighbour.alive", lambda self: False)
    assert receive.cancel()


def test_no_memory_for_a_message_that_is_to_be_kept(world: PolledWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_memory(*_: object) -> None:
        raise MemoryError

    memory, receive = posted(world)
    isend(world.comms[0], pattern(SIZE), 1)
    with monkeypatch.context() as patch:
        patch.setattr("aiompi.transport.shared_memory.posted.copied", no_memory)
        with pytest.raises(MemoryError):
            receive.withdraw()
    world.finish(receive)
    assert memory == pattern(SIZE), "it is received"


def test_no_memory_for_a_message_that_another_one_displaces(
    world: PolledWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_memory(*_: object) -> None:
        raise MemoryError

    first, receive = posted(world)
    isend(world.comms[0], pattern(SIZE, 1), 1)
    world.until(receive.done)
    memory, second = posted(world)
    isend(world.comms[0], pattern(SIZE, 2), 1)
    with monkeypatch.context() as patch:
        patch.setattr("aiompi.transport.shared_memory.posted.copied", no_memory)
        with pytest.raises(MemoryError):
            receive.withdraw()
    world.finish(receive, second)
    assert not receive.cancelled()
    assert [first, memory] == [pattern(SIZE, 1), pattern(SIZE, 2)], "each has what it had"


def test_no_memory_when_a_connection_ends(world: PolledWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """None is needed: what is there is lost."""

    def no_memory(*_: object) -> None:
        raise MemoryError

    _, receive = posted(world)
    isend(world.comms[0], pattern(SIZE), 1)
    monkeypatch.setattr("aiompi.transport.shared_memory.posted.copied", no_memory)
    world.links(1, 0)[0].lost("enough")
    with pytest.raises(errors.ProcessFailedError):
        receive.result()


def test_a_message_for_a_receive_that_has_failed_is_lost(world: PolledWorld) -> None:
    _, receive = posted(world)
    isend(world.comms[0], pattern(SIZE), 1)
    world.engines[1].abort(errors.OtherError("enough"))
    assert receive.done()
    words = ring(world).words
    world.until(lambda: words[TAIL] == words[HEAD])
    assert world.engines[1].peer(0).error is None


def test_the_copy_of_a_fork_calls_nothing_off(world: PolledWorld) -> None:
    _, receive = posted(world)
    number = ring(world).words[POSTED]
    world.engines[1].inherit(errors.OtherError("forked"))
    assert ring(world).words[POSTED] == number != 0
    assert receive.done()


def test_a_connection_that_ends_leaves_memory_alone(world: PolledWorld, filled: Filled) -> None:
    memory, receive = posted(world)
    link: Any = world.engines[1].peer(0).link
    link.lost("enough")
    with pytest.raises(errors.ProcessFailedError):
        receive.result()
    isend(world.comms[0], pattern(SIZE), 1)
    assert (filled.count, memory) == (0, GARBAGE * SIZE)


# Both at once.


def test_a_receive_that_is_given_up_while_it_is_claimed_is_left_alone(world: PolledWorld, filled: Filled) -> None:
    memory, receive = posted(world)
    fence: Any = Fence(receive.quiescent)
    ring(world)._lock, lock = fence, ring(world)._lock
    isend(world.comms[0], pattern(SIZE), 1)
    ring(world)._lock = lock
    assert fence.seen[0] is False
    assert (filled.count, memory) == (0, GARBAGE * SIZE)
    receive.withdraw()
    assert world.finish(irecv(world.comms[1], 0, 0)) == [pattern(SIZE)]


def test_a_message_that_comes_while_its_receive_is_withdrawn_is_seen(world: PolledWorld, filled: Filled) -> None:
    memory, receive = posted(world)
    end = reader(world)
    lock, words = end._lock, end.words

    def send() -> None:
        end._lock = lock
        words[POSTED] = number  # what the sender has loaded before
        isend(world.comms[0], pattern(SIZE), 1)
        words[POSTED] = 0

    number = words[POSTED]
    end._lock = Fence(send)
    assert not receive.cancel(), "it gets the message"
    world.finish(receive)
    assert (filled.count, memory) == (1, pattern(SIZE))


# What is not posted yet.


def test_a_receive_that_is_just_being_posted_is_waited_for(world: PolledWorld, filled: Filled) -> None:
    words = ring(world).words
    posted(world)
    isend(world.comms[0], pattern(SIZE), 1)
    world.until(lambda: words[TAIL] == words[HEAD])
    words[WATCHING] = 0  # it does not sleep
    late = iter(range(20))
    memory = bytearray(SIZE)

    class Words:
        """Those of the ring, of which one is set after some looks."""

        def __getitem__(self, place: int) -> int:
            if place == POSTED and next(late, None) == 10:
                irecv_into(world.comms[1], memory, 0, 0)
            return int(words[place])

        def __setitem__(self, place: int, value: int) -> None:
            words[place] = value

    filler(world)._words = Words()
    assert filler(world)._awaited(SIZE) == words[POSTED] != 0


def test_messages_that_cannot_go_so_do_not_wait(world: PolledWorld) -> None:
    words = ring(world).words
    posted(world)
    isend(world.comms[0], pattern(SIZE), 1)
    world.until(lambda: words[TAIL] == words[HEAD])
    words[WATCHING] = 0  # it does not sleep
    hope = filler(world)._hope
    world.comms[0].isend((memoryview(pattern(SIZE)),), SIZE, 1, 0, Mode.SYNCHRONOUS)
    assert filler(world)._hope == hope
    ring(world).bell()


def test_who_slept_is_woken_when_the_next_message_is_begun(world: PolledWorld) -> None:
    memory, receive = posted(world)
    world.poll()
    isend(world.comms[0], pattern(SIZE), 1)
    assert list(world.engines[0].sleepers) == [1]
    world.finish(receive)
    assert memory == pattern(SIZE)


@pytest.mark.parametrize("nbytes", [SIZE, 2**20])
def test_no_memory_is_left_when_the_connection_ends(polled: NewPolled, nbytes: int) -> None:
    """Not even until garbage is collected: nothing refers to itself."""
    w = talked(polled(2, single_copy=True, lend_limit=2**21))
    memory, receive = posted(w, nbytes)
    isend(w.comms[0], pattern(nbytes), 1)
    w.finish(receive)
    other = posted(w, nbytes)
    before = segments()
    gc.disable()
    try:
        del receive, other
        for transport in w.transports:
            transport.close()
        assert segments() < before
        assert segments() == 0
    finally:
        gc.enable()
    assert memory == pattern(nbytes)


@pytest.mark.parametrize("crowded", [False, True])
def test_who_never_posts_in_time_is_not_waited_for_any_more(world: PolledWorld, crowded: bool) -> None:
    words = ring(world).words
    posted(world)
    isend(world.comms[0], pattern(SIZE), 1)
    hope = filler(world)._hope
    ring(world).uncrowded = not crowded
    for number in range(1, hope + 3):
        world.until(lambda: words[TAIL] == words[HEAD])
        words[WATCHING] = 0  # it does not sleep
        isend(world.comms[0], pattern(SIZE), 1, number)
        ring(world).bell()
        assert filler(world)._hope == (hope if crowded else max(hope - number, 0))


# What the kernel says, and what a peer does.


@pytest.mark.parametrize(("number", "again"), [(errno.EPERM, False), (errno.EFAULT, True)])
def test_memory_that_the_kernel_does_not_write_to(
    world: PolledWorld, filled: Filled, monkeypatch: pytest.MonkeyPatch, number: int, again: bool
) -> None:
    def refuse(*_: object) -> int:
        ctypes.set_errno(number)
        return -1

    memory, receive = posted(world)
    with monkeypatch.context() as patch:
        patch.setattr("aiompi.datatype.buffer.process._writev", refuse)
        isend(world.comms[0], pattern(SIZE), 1)
    world.finish(receive)
    assert (filled.count, memory) == (0, pattern(SIZE))
    memory, receive = posted(world)
    isend(world.comms[0], pattern(SIZE, 1), 1)
    world.finish(receive)
    assert (filled.count, memory) == (int(again), pattern(SIZE, 1))


def test_a_process_that_is_another_one_by_now_is_not_written_to(
    world: PolledWorld, filled: Filled, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory, receive = posted(world)
    monkeypatch.setattr("aiompi.transport.shared_memory.neighbour.Neighbour.same", lambda self: False)
    isend(world.comms[0], pattern(SIZE), 1)
    world.finish(receive)
    assert (filled.count, memory) == (0, pattern(SIZE))


LIES = {
    "nothing is posted": (None, Header(frame.EAGER, length=10)),
    "too long": (0, Header(frame.EAGER, context=CONTEXT_WORLD, length=SIZE + 1)),
    "another tag": (1, Header(frame.EAGER, context=CONTEXT_WORLD, length=10)),
    "another context": (0, Header(frame.EAGER, context=CONTEXT_WORLD + 2, length=10)),
    "another source": (0, Header(frame.EAGER, source=1, context=CONTEXT_WORLD, length=10)),
}


@pytest.mark.parametrize("lie", LIES)
@pytest.mark.parametrize("alone", [True, False])
def test_a_peer_who_tells_of_what_he_cannot_have_done(world: PolledWorld, lie: str, alone: bool) -> None:
    tag, header = LIES[lie]
    receive = None if tag is None else posted(world, SIZE, tag)[1]
    if not alone:
        isend(world.comms[0], b"before", 1, 7)
    ring(world).put(HEADER.pack(*header), b"", FILLED)
    ring(world).ring()
    world.until(lambda: world.engines[1].peer(0).error is not None)
    if receive is not None:
        with pytest.raises(errors.ProcessFailedError, match="memory of a receive"):
            receive.result()


# Signal handlers.


@contextlib.contextmanager
def prepared(directory: Path, prepare: Callable[[PolledWorld], Any]) -> Iterator[tuple[PolledWorld, Any]]:
    """Two ranks each of which knows the process of the other one, and what is prepared there."""
    with PolledWorld("shared_memory", 2, str(directory), single_copy=True, lend_limit=2**21) as w:
        talked(w)
        for own in range(2):
            into = irecv_into(w.comms[1 - own], bytearray(SIZE), own, 0)
            w.finish(isend(w.comms[own], bytes(SIZE), 1 - own), into)
        yield w, prepare(w)


@pytest.mark.parametrize("nbytes", [SIZE, 200_000])
def test_a_send_that_is_interrupted_has_happened_or_not(tmp_path: Path, filled: Filled, nbytes: int) -> None:
    data = bytearray(nbytes)

    def prepare(w: PolledWorld) -> Any:
        data[:] = pattern(nbytes)
        return posted(w, nbytes)

    outcomes = set()

    def send(both: tuple[PolledWorld, Any]) -> None:
        isend(both[0].comms[0], data, 1)

    for w, (memory, receive) in everywhere(lambda: prepared(tmp_path, prepare), send):
        data[:] = bytes(nbytes)
        for _ in range(30):
            w.poll()
        outcomes.add(receive.done())
        if receive.done():
            assert memory == pattern(nbytes)
        else:
            isend(w.comms[0], pattern(nbytes, 2), 1)
            w.finish(receive)
            assert memory == pattern(nbytes, 2)
        assert passes(w, pattern(nbytes, 3))
    assert outcomes == {False, True}
    assert filled.count > 20


@pytest.mark.parametrize("method", ["put", "ring"])
def test_a_send_that_is_interrupted_when_its_message_is_there_tells_so(
    world: PolledWorld, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    memory, receive = posted(world)
    ring(world).habit.late = True  # to be rung for when the message is there
    world.until(lambda: ring(world).asleep)
    outbound_class = type(ring(world))
    real = getattr(outbound_class, method)

    def interrupted_once(*_: Any) -> int:
        monkeypatch.setattr(outbound_class, method, real)
        raise Late

    monkeypatch.setattr(outbound_class, method, interrupted_once)
    with pytest.raises(Late):
        isend(world.comms[0], pattern(SIZE), 1)
    assert not receive.cancel()
    world.finish(receive)
    assert memory == pattern(SIZE)


def test_a_send_of_a_signal_handler_in_the_midst_of_a_copy(world: PolledWorld, filled: Filled) -> None:
    first, receive = posted(world)
    memory, second = posted(world)
    isend(world.comms[0], pattern(SIZE), 1)
    world.finish(receive)
    second.withdraw()
    memory, second = posted(world)
    copier = filler(world)._half
    real = copier._write

    def write(*arguments: int) -> None:
        copier._write = real
        isend(world.comms[0], pattern(SIZE, 1), 1)
        real(*arguments)

    copier._write = write
    isend(world.comms[0], pattern(SIZE, 2), 1)
    world.finish(second)
    assert first == pattern(SIZE)
    assert {bytes(memory), *world.finish(irecv(world.comms[1], 0, 0))} == {pattern(SIZE, 1), pattern(SIZE, 2)}


@pytest.mark.parametrize("give_up", ["withdraw", "cancel"])
def test_who_is_interrupted_while_he_gives_up_can_do_it_again(tmp_path: Path, give_up: str) -> None:
    def prepare(w: PolledWorld) -> Any:
        memory, receive = posted(w)
        isend(w.comms[0], pattern(SIZE), 1)
        return memory, receive

    def withdraw(both: tuple[PolledWorld, Any]) -> None:
        _, (_, receive) = both
        getattr(receive, give_up)()

    for w, (memory, receive) in everywhere(lambda: prepared(tmp_path, prepare), withdraw):
        if not receive.done():
            receive.withdraw()
        memory[:] = bytes(SIZE)
        assert w.finish(irecv(w.comms[1], 0, 0)) == [pattern(SIZE)]
        assert memory == bytes(SIZE)


def test_nothing_comes_into_the_memory_of_a_receive_that_was_interrupted(tmp_path: Path) -> None:
    memory = bytearray(SIZE)

    def receive(both: tuple[PolledWorld, Any]) -> None:
        irecv_into(both[0].comms[1], memory, 0, 0)

    for w, _ in everywhere(lambda: prepared(tmp_path, lambda w: None), receive):
        memory[:] = GARBAGE * SIZE
        isend(w.comms[0], pattern(SIZE), 1)
        for _ in range(30):
            w.poll()
        assert memory == GARBAGE * SIZE


# The order of messages.


@pytest.mark.parametrize("is_posted", [True, False], ids=["posted", "not posted"])
def test_nothing_passes_what_waits_for_room(polled: NewPolled, is_posted: bool) -> None:
    """The reader has read all of the ring, and the writer has not written on: the ring is empty, its queue is not."""
    w, nbytes = talked(polled(2, single_copy=True, lend_limit=2**21, ring_size=4096)), 300_000
    link: Any = w.engines[0].peer(1).link
    w.open(0, w.transports[0].own_pool())
    sends: list[Any] = []
    while link.idle:
        sends.append(isend(w.comms[0], b"%d" % len(sends), 1, 3))
    inbound = reader(w)
    while inbound.words[HEAD] != inbound._tail:
        inbound.read(w.engines[1].peer(0), 2**20)
    assert ring(w).room
    assert not link.idle
    memories = [bytearray(nbytes) for _ in range(len(sends) + 1)]
    receives = [irecv_into(w.comms[1], memory, 0, ANY_TAG) for memory in memories[: len(sends) - len(link._queue)]]
    assert all(receive.done() for receive in receives)
    if is_posted:
        receives.append(irecv_into(w.comms[1], memories[len(receives)], 0, ANY_TAG))
        assert receives[-1].advertised
    sends.append(isend(w.comms[0], pattern(nbytes), 1, 3))
    receives += [irecv_into(w.comms[1], memory, 0, ANY_TAG) for memory in memories[len(receives) :]]
    w.finish(*sends, *receives)
    for number, memory in enumerate(memories[:-1]):
        assert memory.startswith(b"%d\0" % number)
    assert memories[-1] == pattern(nbytes)


def test_nothing_is_sent_by_what_a_closed_link_shared(polled: NewPolled, monkeypatch: pytest.MonkeyPatch) -> None:
    """As where a signal handler has made a call, in the midst of another, which has found the link broken."""
    w = talked(polled(2, single_copy=True, lend_limit=2**21))
    own: Any = w.transports[0]
    w.open(0, own.own_pool())
    link: Any = w.engines[0].peer(1).link
    sharing = link.sharing
    monkeypatch.setattr(ring(w), "bell", lambda: pytest.fail("its descriptor may be that of something else"))
    monkeypatch.setattr(Outbound, "put", lambda *given: pytest.fail("nobody reads it"))
    header, memory = HEADER.pack(frame.EAGER, 0, 0, 0, 0, SIZE, 0, 0), [memoryview(bytes(3 * 2**20))]
    block = own.pool.place(memory, SIZE)
    w.engines[0].peer_lost = lambda peer, cause: None
    link.lost("test")
    assert not sharing.fill(header, [memory[0][:SIZE]])
    assert not sharing.stream(header, [memory[0][:SIZE]], SIZE)
    assert not sharing.lend(header, block)
    assert not sharing.expose(header, memory, len(memory[0]))
    assert sharing.assist(memory, SIZE, 1, 0) is None
    assert sharing.assist(memory, SIZE, 2**16, 0) is None
