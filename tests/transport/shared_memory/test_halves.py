"""Long messages into the memory of a receive that is posted, which both ends copy."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import itertools
import random
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fences import Fence
from interrupts import Late, interrupted
from worlds import PolledWorld, irecv, irecv_into, isend, pattern

from aiompi.datatype.buffer import process
from aiompi.transport.shared_memory import halves
from aiompi.transport.shared_memory.halves import LONG, FirstHalf, SecondHalf
from aiompi.transport.shared_memory.inbound import Inbound
from aiompi.transport.shared_memory.neighbour import Neighbour
from aiompi.transport.shared_memory.outbound import Outbound
from aiompi.transport.shared_memory.words import CLAIMED, CONTROL_BYTES, FROM, HELPED, HELPING, LENGTH, POSTED, REACHED

NewPolled = Callable[..., PolledWorld]
SIZE = LONG + 12_345
GARBAGE = b"\xaa"
REAL = {"read": process._readv, "write": process._writev}


class Copied:
    """Bytes that were copied by system calls, and whether they go on."""

    def __init__(self) -> None:
        self.read: list[int] = []
        self.write: list[int] = []
        self.refusal = 0


@pytest.fixture
def copied(monkeypatch: pytest.MonkeyPatch) -> Copied:
    found = Copied()

    def counting(name: str) -> Callable[..., int]:
        def copy(*arguments: Any) -> int:
            if name == "read" and found.refusal:
                ctypes.set_errno(found.refusal)
                return -1
            nbytes: int = REAL[name](*arguments)
            if nbytes > 0:  # not where somebody only asks whether a process is there
                getattr(found, name).append(nbytes)
            return nbytes

        return copy

    for name in REAL:
        monkeypatch.setattr(process, f"_{name}v", counting(name))
    return found


def talked(w: PolledWorld) -> PolledWorld:
    """After two ranks, each with a core for itself, have sent each other something, so also."""
    for engine in w.engines:
        engine.uncrowded = True
    w.finish(isend(w.comms[0], b"x", 1), irecv(w.comms[1]), isend(w.comms[1], b"x", 0), irecv(w.comms[0]))
    into = irecv_into(w.comms[1], bytearray(100_000), 0, 0)
    w.finish(isend(w.comms[0], bytes(100_000), 1), into)
    return w


@pytest.fixture
def world(polled: NewPolled) -> PolledWorld:
    return talked(polled(2, single_copy=True, lend_limit=2**22))


def outbound(w: PolledWorld) -> Any:
    """The end of a ring that rank 0 writes to rank 1."""
    link: Any = w.engines[0].peer(1).link
    return link._segment.outbound


def reader(w: PolledWorld) -> Any:
    """The link by which rank 1 reads it."""
    links: Any = w.links(1, 0)
    return next(link for link in links if link._segment.inbound.used)


@contextlib.contextmanager
def meanwhile(w: PolledWorld, step: Callable[[], object], first: int = 0) -> Iterator[list[object]]:
    """At each fence of rank 0 while it copies, after so many, something happens; what that has given."""
    end, count = outbound(w), itertools.count()
    words = end.words
    fence: Any = Fence(lambda: step() if words[CLAIMED] and not words[CLAIMED] & 1 and next(count) >= first else None)
    lock, end._lock = end._lock, fence
    try:
        yield fence.seen
    finally:
        end._lock = lock


def looks(w: PolledWorld) -> bool:
    """Rank 1 looks for messages, as it does while it waits."""
    link = reader(w)
    found: bool = link.poll(range(1))
    return found


def helps(w: PolledWorld) -> Any:
    """What rank 1 calls when it looks in vain, if anything."""
    return reader(w)._segment.inbound.help


def posted(w: PolledWorld, nbytes: int = SIZE) -> tuple[bytearray, Any]:
    memory = bytearray(GARBAGE * nbytes)
    return memory, irecv_into(w.comms[1], memory, 0, 0)


@pytest.mark.parametrize("nbytes", [LONG, SIZE, 3 * 2**20 + 1])
def test_a_receiver_that_waits_copies_the_second_half(world: PolledWorld, copied: Copied, nbytes: int) -> None:
    memory, receive = posted(world, nbytes + 7)
    data = bytearray(pattern(nbytes))
    with meanwhile(world, lambda: looks(world)) as found:
        assert isend(world.comms[0], data, 1).done()
    data[:] = bytes(nbytes)
    assert memory == pattern(nbytes) + GARBAGE * 7
    assert found[:2] == [False, True], "not before the sender has begun"
    assert (sum(copied.write), sum(copied.read)) == (nbytes // 2, nbytes - nbytes // 2)
    assert max(copied.read) <= 2**19
    (status,) = world.finish(receive)
    assert status.nbytes == nbytes


def test_one_that_computes_is_not_needed(world: PolledWorld, copied: Copied) -> None:
    memory, receive = posted(world)
    assert isend(world.comms[0], pattern(SIZE), 1).done()
    assert memory == pattern(SIZE)
    assert (copied.write, copied.read) == ([SIZE // 2, SIZE - SIZE // 2], [])
    world.finish(receive)


def test_who_sleeps_is_woken_for_it(world: PolledWorld, copied: Copied) -> None:
    """Also if his answers are rung for late; and he helps before anybody else has a turn."""
    memory, receive = posted(world)
    world.until(lambda: outbound(world).asleep)
    outbound(world).habit.late = True
    with meanwhile(world, world.drivers[1].poll):
        isend(world.comms[0], pattern(SIZE), 1)
    assert (sum(copied.write), sum(copied.read)) == (SIZE // 2, SIZE - SIZE // 2)
    world.finish(receive)
    assert memory == pattern(SIZE)


@pytest.mark.parametrize("why", ["short", "crowded", "out of numbers"])
def test_who_does_not_help(polled: NewPolled, copied: Copied, why: str) -> None:
    w = talked(polled(2, single_copy=True, lend_limit=2**22))
    nbytes = LONG - 1 if why == "short" else SIZE
    outbound(w).uncrowded = why != "crowded"
    link: Any = w.engines[0].peer(1).link
    link.sharing.filler._half._mark = 0 if why != "out of numbers" else halves._LAST
    copied.write.clear()
    memory, receive = posted(w, SIZE)
    with meanwhile(w, lambda: looks(w)) as found:
        isend(w.comms[0], pattern(nbytes), 1)
    assert not any(found)
    assert (copied.write, copied.read) == ([nbytes], [])
    w.finish(receive)
    assert memory[:nbytes] == pattern(nbytes)


def test_who_looks_in_vain_does_nothing_more(world: PolledWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """No system call while nobody copies anything, and no call at all for a short message or none."""
    assert helps(world) is None
    _, short = posted(world, LONG - 1)
    assert helps(world) is None
    short.cancel()
    _, long = posted(world)
    world.finish(isend(world.comms[0], pattern(SIZE), 1), long)
    assert helps(world) is None
    posted(world)
    assert helps(world) is not None
    with monkeypatch.context() as patch:
        patch.setattr(Neighbour, "same", lambda self: pytest.fail("a system call"))
        assert not looks(world)


def test_who_has_helped_looks_for_the_end_for_a_while(world: PolledWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    posted(world)
    seen: list[int] = []
    real = Inbound.take

    def take(self: Inbound, sink: Any, looks: range = range(1)) -> bool | None:
        seen.append(len(looks))
        return real(self, sink, looks)

    monkeypatch.setattr(Inbound, "take", take)
    reader(world)._segment.inbound.help = lambda: True
    assert looks(world)
    assert seen[0] == 1
    assert seen[1] > 10


def test_who_has_helped_finds_the_end(world: PolledWorld) -> None:
    _, receive = posted(world)
    reader(world)._segment.inbound.help = lambda: isend(world.comms[0], pattern(SIZE), 1).done()
    assert looks(world)
    assert receive.done()


@pytest.mark.parametrize("longer", [0, LONG])
@pytest.mark.parametrize("helped", [True, False])
def test_a_receiver_waits_until_its_sender_begins(
    world: PolledWorld, copied: Copied, helped: bool, longer: int
) -> None:
    """What is known of the message before is not taken for this one."""
    _, receive = posted(world)
    with meanwhile(world, lambda: helped and looks(world)):
        isend(world.comms[0], pattern(SIZE), 1)
    world.finish(receive)
    memory, receive = posted(world, SIZE + longer)
    words, helping = outbound(world).words, []

    def look() -> bool:
        found = looks(world)
        helping.append(words[HELPING])
        return found

    before = words[HELPING]
    with meanwhile(world, look) as found:
        isend(world.comms[0], pattern(SIZE + longer, 1), 1)
    assert found[:2] == [False, True]
    assert helping[0] == before
    world.finish(receive)
    assert memory == pattern(SIZE + longer, 1)


def test_a_send_of_a_signal_handler_just_before_a_message_is_claimed(
    world: PolledWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both come, the one that was first into the memory of the receive."""
    memory, receive = posted(world)
    real = FirstHalf.begin

    def begin(self: FirstHalf, start: int, nbytes: int) -> bool:
        monkeypatch.setattr(FirstHalf, "begin", real)
        isend(world.comms[0], pattern(SIZE, 1), 1)
        return real(self, start, nbytes)

    monkeypatch.setattr(FirstHalf, "begin", begin)
    second = isend(world.comms[0], pattern(SIZE, 2), 1)
    world.finish(receive)
    assert memory == pattern(SIZE, 1)
    into, receive = posted(world)
    world.finish(second, receive)
    assert into == pattern(SIZE, 2)


def test_nothing_is_copied_for_a_receive_that_is_given_up(world: PolledWorld, copied: Copied) -> None:
    memory, receive = posted(world)
    words = outbound(world).words

    def give_up() -> list[bool]:
        return [receive.quiescent(), looks(world)]

    with meanwhile(world, give_up) as found:
        isend(world.comms[0], pattern(SIZE), 1)
    assert found[0] == [False, False]
    assert copied.read == copied.write == []
    assert words[CLAIMED] == 0
    assert memory == GARBAGE * SIZE
    receive.withdraw()
    assert world.finish(irecv(world.comms[1], 0, 0)) == [pattern(SIZE)]


# A receiver that is stopped in the midst of its part.


def test_a_sender_does_not_wait_for_a_receiver_that_is_stopped(
    world: PolledWorld, copied: Copied, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message goes as any other, and comes after whatever the receiver still copies."""
    memory, receive = posted(world)
    words = outbound(world).words
    data = bytearray(pattern(SIZE))

    def claim() -> None:
        words[HELPING] = words[REACHED] & ~halves._POSITION | SIZE - 1000

    with meanwhile(world, claim, 1):
        request = isend(world.comms[0], data, 1)
    assert words[CLAIMED] == 0
    assert copied.read == []
    memory[-1000:] = bytes(1000)  # what it goes on with
    # What follows goes as any other as long as that may come.
    count = len(copied.write)
    second, after = posted(world, 100_000)
    isend(world.comms[0], pattern(100_000, 1), 1)
    world.finish(request, receive, after)
    assert (memory, second) == (pattern(SIZE), pattern(100_000, 1))
    assert len(copied.write) == count
    third, after = posted(world, 100_000)
    isend(world.comms[0], pattern(100_000, 2), 1)
    assert len(copied.write) == count
    words[HELPED] = words[HELPING]
    world.finish(after)
    assert third == pattern(100_000, 2)
    fourth, after = posted(world, 100_000)
    isend(world.comms[0], pattern(100_000, 3), 1)
    assert len(copied.write) == count + 1
    world.finish(after)
    assert fourth == pattern(100_000, 3)


@pytest.mark.parametrize("ends", ["helped", "left"])
def test_a_sender_waits_for_a_part_that_takes_its_time(world: PolledWorld, copied: Copied, ends: str) -> None:
    memory, receive = posted(world)
    end = outbound(world)
    assert end.give_way == world.engines[0].driver.give_way
    words, begin = end.words, SIZE - 1000

    def claim() -> None:
        words[HELPING] = words[REACHED] & ~halves._POSITION | begin

    def give_way(ready: Callable[[], bool], seconds: float) -> bool:
        assert not ready()
        assert 0 < seconds <= 1e-3
        mark = words[REACHED] & ~halves._POSITION
        if ends == "helped":
            memory[begin:] = pattern(SIZE)[begin:]
            words[HELPED] = mark | begin
        else:
            words[HELPING] = mark | SIZE
        return ready()

    end.give_way = give_way
    with meanwhile(world, once(claim), 1):
        isend(world.comms[0], pattern(SIZE), 1)
    assert words[CLAIMED] & 1
    assert sum(copied.write) == (begin if ends == "helped" else SIZE)
    world.finish(receive)
    assert memory == pattern(SIZE)


def once(step: Callable[[], object]) -> Callable[[], object]:
    """What does something when it is called for the first time."""
    count = itertools.count()
    return lambda: None if next(count) else step()


# What the kernel says.


@pytest.mark.parametrize(("number", "again"), [(errno.EPERM, False), (errno.EFAULT, True)])
def test_memory_that_the_receiver_may_not_read(world: PolledWorld, copied: Copied, number: int, again: bool) -> None:
    copied.refusal = number
    memory, receive = posted(world)
    with meanwhile(world, lambda: looks(world)) as found:
        isend(world.comms[0], pattern(SIZE), 1)
    assert not any(found)
    assert sum(copied.write) == SIZE
    world.finish(receive)
    assert memory == pattern(SIZE)
    copied.refusal = 0
    memory, receive = posted(world)
    assert (helps(world) is not None) == again
    with meanwhile(world, lambda: looks(world)):
        isend(world.comms[0], pattern(SIZE, 1), 1)
    assert (sum(copied.read) > 0) == again
    world.finish(receive)
    assert memory == pattern(SIZE, 1)


def test_a_process_that_is_another_one_by_now_is_not_read(
    world: PolledWorld, copied: Copied, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, receive = posted(world)
    with meanwhile(world, lambda: looks(world)) as found, monkeypatch.context() as patch:
        patch.setattr(SecondHalf, "copy", gone(SecondHalf.copy, patch))
        isend(world.comms[0], pattern(SIZE), 1)
    assert not any(found)
    assert copied.read == []
    world.finish(receive)


def gone(copy: Any, patch: pytest.MonkeyPatch) -> Any:
    def found(self: Any, *arguments: Any) -> bool:
        with patch.context() as here:
            here.setattr(Neighbour, "same", lambda self: False)
            return bool(copy(self, *arguments))

    return found


@pytest.mark.parametrize("address", [1, 2**64 - 1])
def test_a_peer_who_tells_of_memory_that_it_has_not(world: PolledWorld, copied: Copied, address: int) -> None:
    memory, receive = posted(world)

    def lie() -> bool:
        outbound(world).words[FROM] = address
        return looks(world)

    with meanwhile(world, lie, 1) as found:
        isend(world.comms[0], pattern(SIZE), 1)
    assert not any(found)
    world.finish(receive)
    assert memory == pattern(SIZE)


@pytest.mark.parametrize("length", [1, 2**40])
def test_a_peer_who_tells_of_another_length(world: PolledWorld, copied: Copied, length: int) -> None:
    """Also when a part has been copied: nothing is read but what fits, and nothing raises."""
    memory, receive = posted(world)
    words = outbound(world).words

    def lie() -> list[bool]:
        found = [looks(world)]
        words[LENGTH], words[REACHED] = length, words[REACHED] & ~halves._POSITION | 1
        return [*found, looks(world)]

    with meanwhile(world, once(lie), 1) as found:
        isend(world.comms[0], pattern(SIZE), 1)
    assert found[1] == [True, False]
    assert sum(copied.read) == SIZE - SIZE // 2
    world.finish(receive)
    assert memory == pattern(SIZE)


def test_a_peer_who_claims_a_receive_that_was_given_up(world: PolledWorld, copied: Copied) -> None:
    _, receive = posted(world)
    words = outbound(world).words
    number = words[POSTED]
    assert receive.cancel()
    words[FROM], words[LENGTH], words[REACHED], words[CLAIMED] = 4096, SIZE, 1, number << 1
    assert not looks(world)
    assert copied.read == []
    words[CLAIMED] = 0


def test_a_peer_who_leaves_a_byte_at_a_time_is_not_waited_for_long(world: PolledWorld, copied: Copied) -> None:
    memory, receive = posted(world)
    end = outbound(world)
    waits = 0

    def give_way(ready: Callable[[], bool], seconds: float) -> bool:
        nonlocal waits
        waits += 1
        end.words[HELPING] += 1
        return ready()

    def claim() -> None:
        end.words[HELPING] = end.words[REACHED] & ~halves._POSITION | SIZE // 2

    end.give_way = give_way
    with meanwhile(world, once(claim), 1):
        request = isend(world.comms[0], pattern(SIZE), 1)
    assert 0 < waits < 10
    world.finish(request, receive)
    assert memory == pattern(SIZE)


def test_a_receiver_copies_so_much_in_one_turn(
    world: PolledWorld, copied: Copied, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And goes on in the next one."""
    monkeypatch.setattr(halves, "_PIECE", 1000)
    memory, receive = posted(world)
    turns = [len(copied.read)]

    def twice() -> None:
        for _ in range(2):
            looks(world)
            turns.append(len(copied.read))

    with meanwhile(world, once(twice), 1):
        isend(world.comms[0], pattern(SIZE), 1)
    assert turns == [0, len(halves._TURN), 2 * len(halves._TURN)]
    assert sum(copied.read) + sum(copied.write) == SIZE
    world.finish(receive)
    assert memory == pattern(SIZE)


# Signal handlers.


@contextlib.contextmanager
def prepared(directory: Path) -> Iterator[tuple[PolledWorld, bytearray, Any]]:
    with PolledWorld("shared_memory", 2, str(directory), single_copy=True, lend_limit=2**22) as w:
        yield talked(w), *posted(w)


def interrupting(directory: Path, rank: int) -> Iterator[tuple[PolledWorld, bytearray, Any, bool]]:
    """After a send that was interrupted, or the help of its receiver, one step later each time; whether it was."""
    for last in itertools.count():
        with prepared(directory) as (w, memory, receive):
            step, raised, link = -1, False, reader(w)

            def due(last: int = last) -> bool:
                nonlocal step
                step += 1
                return step == last

            def help(due: Callable[[], bool] = due, look: Callable[[range], bool] = link.poll) -> None:
                nonlocal raised
                try:
                    with interrupted(due) if rank else contextlib.nullcontext():
                        look(range(1))
                except Late:
                    raised = True

            with meanwhile(w, help):
                try:
                    with contextlib.nullcontext() if rank else interrupted(due):
                        isend(w.comms[0], pattern(SIZE), 1)
                except Late:
                    raised = True
            if not raised:
                assert last > 20
                return
            yield w, memory, receive, raised


def test_help_that_is_interrupted_loses_nothing(tmp_path: Path) -> None:
    for w, memory, receive, _ in interrupting(tmp_path, 1):
        w.finish(receive)
        assert memory == pattern(SIZE)
        again, receive = posted(w)
        isend(w.comms[0], pattern(SIZE, 1), 1)
        w.finish(receive)
        assert again == pattern(SIZE, 1)


def test_a_send_that_is_interrupted_has_happened_or_not(tmp_path: Path) -> None:
    outcomes = set()
    for w, memory, receive, _ in interrupting(tmp_path, 0):
        for _ in range(30):
            w.poll()
        outcomes.add(receive.done())
        if not receive.done():
            isend(w.comms[0], pattern(SIZE), 1)
            w.finish(receive)
        assert memory == pattern(SIZE)
    assert outcomes == {False, True}


def test_a_signal_handler_that_looks_for_messages_in_the_midst_of_the_help(
    world: PolledWorld, copied: Copied, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It copies nothing: its part would be told as copied, and be copied after that."""
    memory, receive = posted(world)
    nested: list[bool] = []

    def handler(*arguments: Any) -> bool:
        nested.append(looks(world))
        return process.read_if(*arguments)

    monkeypatch.setattr(halves, "read_if", handler)
    with meanwhile(world, once(lambda: looks(world)), 1):
        isend(world.comms[0], pattern(SIZE), 1)
    assert nested == [False]
    assert len(copied.read) == 1
    world.finish(receive)
    assert memory == pattern(SIZE)


@pytest.mark.parametrize(
    ("first", "second"), [(2**20, 500_000), (600_000, 2**20), (2**20, 600_000), (600_000, 500_000)]
)
@pytest.mark.parametrize("place", ["copy", "same", "read_if"])
def test_a_receiver_that_is_held_up_copies_nothing_of_a_send_that_was_interrupted(
    world: PolledWorld, monkeypatch: pytest.MonkeyPatch, first: int, second: int, place: str
) -> None:
    """Another message goes into the same receive meanwhile, and is whole."""
    memory = bytearray(GARBAGE * 2**20)
    receive = irecv_into(world.comms[1], memory, 0, 0)
    held, go, over = threading.Event(), threading.Event(), threading.Event()
    owner: Any = {"copy": SecondHalf, "same": Neighbour, "read_if": halves}[place]
    real, writev, help = getattr(owner, place), process._writev, helps(world)

    def hold(*arguments: Any) -> Any:
        if threading.current_thread() is thread and not held.is_set():
            held.set()
            assert go.wait(10)
        return real(*arguments)

    def late() -> None:
        try:
            help()
        finally:
            over.set()

    def interrupt() -> None:
        thread.start()
        assert held.wait(10)
        raise Late

    def write(*arguments: Any) -> int:
        """The receiver goes on when the first part of the second message is there."""
        nbytes: int = writev(*arguments)
        if nbytes > 0:
            go.set()
            over.wait(1)
        return nbytes

    thread = threading.Thread(target=late)
    monkeypatch.setattr(owner, place, hold)
    with meanwhile(world, once(interrupt), 1), pytest.raises(Late):
        isend(world.comms[0], pattern(first, 1), 1)
    with monkeypatch.context() as patch:
        patch.setattr(process, "_writev", write)
        request = isend(world.comms[0], pattern(second, 2), 1)
    go.set()
    thread.join()
    world.finish(receive, request)
    assert memory == pattern(second, 2) + GARBAGE * (2**20 - second)


def test_a_signal_handler_that_completes_the_receive_in_the_midst_of_the_help(
    world: PolledWorld, copied: Copied, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From then on the memory is its program's."""
    memory, receive = posted(world)
    words = outbound(world).words
    left: list[bytes] = []

    def handler(*arguments: Any) -> bool:
        words[CLAIMED] |= 1
        memory[:] = bytes(SIZE)
        return process.read_if(*arguments)

    def help() -> None:
        assert not looks(world)
        left.append(bytes(memory))

    monkeypatch.setattr(halves, "read_if", handler)
    with meanwhile(world, once(help), 1):
        isend(world.comms[0], pattern(SIZE), 1)
    assert left == [bytes(SIZE)]
    assert copied.read == []
    world.finish(receive)
    assert memory == pattern(SIZE)


# How they meet.


class Meeting:
    """A message of this process, and both ends of its copy into other memory."""

    CLAIM = 6

    def __init__(self, nbytes: int) -> None:
        memory, self.words = memoryview(bytearray(4096)), memoryview(bytearray(CONTROL_BYTES)).cast("Q")
        self.outbound, self.inbound = Outbound(memory, self.words, lambda: None), Inbound(memory, self.words)
        self.outbound.uncrowded = True
        one, other = socket.socketpair()
        with one, other:
            self.neighbour = Neighbour(one)
        self.first, self.second = FirstHalf(self.neighbour, self.outbound), SecondHalf(self.neighbour, self.inbound)
        self.place = memoryview(bytearray(nbytes))
        self.start()

    def start(self) -> None:
        self.data = memoryview(bytearray(random.randbytes(len(self.place))))

    def send(self) -> bool:
        start = process.address_of(self.data)
        assert self.first.begin(start, len(self.data))
        self.words[LENGTH] = len(self.data)
        self.words[CLAIMED] = self.CLAIM
        try:
            return self.first.copy(process.address_of(self.place), start, len(self.data))
        finally:
            self.words[CLAIMED] = self.CLAIM | 1

    def help(self) -> bool:
        if self.words[CLAIMED] != self.CLAIM:
            return False
        return self.second.copy(self.place, self.CLAIM)


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pieces of the receiver are of 10 bytes, and each message is long."""
    monkeypatch.setattr(halves, "_PIECE", 10)
    monkeypatch.setattr(halves, "LONG", 1)


@pytest.mark.parametrize("nbytes", [LONG - 1, halves._POSITION + 1])
def test_positions_have_room_beside_numbers(nbytes: int) -> None:
    meeting = Meeting(1)
    assert meeting.first.begin(4096, LONG)
    assert meeting.words[FROM] == 4096
    assert meeting.first.begin(4096, nbytes)
    assert meeting.words[FROM] == 0
    meeting.neighbour.close()


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize("nbytes", [1, 2, 9, 10, 95, 100])
def test_they_meet_anywhere(copied: Copied, nbytes: int) -> None:
    for at, pieces in itertools.product(range(3), range(1, 12)):
        meeting = Meeting(nbytes)
        copied.read.clear()
        copied.write.clear()
        fences = itertools.count()

        def help(meeting: Meeting = meeting, at: int = at, fences: Iterator[int] = fences, most: int = pieces) -> None:
            if next(fences) != at:
                return
            left = itertools.count()
            inbound: Any = meeting.inbound
            inbound._lock = Fence(lambda: next(left) < most or meeting.words.__setitem__(REACHED, 0))
            meeting.help()

        if at < 2:
            end: Any = meeting.outbound
            end._lock = Fence(help)
        reached = meeting.words
        assert meeting.send()
        assert meeting.place == meeting.data
        assert sum(copied.read) + sum(copied.write) == nbytes
        assert reached[FROM]
        meeting.neighbour.close()


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize("nbytes", [30, 400])
def test_two_threads_meet_again_and_again(copied: Copied, nbytes: int) -> None:
    """Each message is whole when the sender has done its part, and nothing is copied later."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    meeting = Meeting(nbytes)
    over = False

    def give_way(ready: Callable[[], bool], seconds: float) -> bool:
        while not ready():
            pass
        return True

    def help() -> None:
        while not over:
            meeting.help()

    meeting.outbound.give_way = give_way
    thread = threading.Thread(target=help)
    thread.start()
    try:
        for _ in range(3000):
            assert meeting.send()
            assert meeting.place == meeting.data
            meeting.place[:] = bytes(nbytes)
            meeting.start()
    finally:
        over = True
        thread.join()
        meeting.neighbour.close()
        sys.setswitchinterval(interval)
    assert copied.read
    assert copied.write
