"""Fences between a store and a later load: the other side acts at the fence, and this side sees it.

Processors that are tested on hardly ever let a load pass a store; so the fence itself is replaced.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from fences import Fence
from frames import Header
from interrupts import called

from aiompi.transport.shared_memory import cma
from aiompi.transport.shared_memory.cma import Assistance, Exposed, PeerProcess
from aiompi.transport.shared_memory.inbound import Inbound
from aiompi.transport.shared_memory.ring import (
    CONTROL_BYTES,
    INVITED,
    READ,
    WATCHING,
    WRITING,
    WRITTEN,
    Outbound,
    Ring,
)
from aiompi.transport.shared_memory.slots import SlotArea
from aiompi.wire import frame
from aiompi.wire.frame import HEADER, HEADER_BYTES

SIZE = 4096
#: of an invitation, and where its sender's position begins
NUMBER = 3
MARK = NUMBER << cma._BITS


class Ends:
    """Both ends of a ring. One end acts at the fence of the other."""

    def __init__(self) -> None:
        memory, self.words = memoryview(bytearray(SIZE)), memoryview(bytearray(CONTROL_BYTES)).cast("Q")
        self.rung: list[int] = []  # the numbers of the reader's waits for which it was rung
        self.outbound = Outbound(memory, self.words, lambda: self.rung.append(self.words[WATCHING]))
        self.inbound = Inbound(memory, self.words, bool)
        self.read: list[bytes] = []

    def frame(self, header: tuple[int, ...], payload: memoryview) -> None:
        self.read.append(bytes(payload))

    def put(self, nbytes: int = 1) -> bool:
        return self.outbound.put(HEADER.pack(*Header(frame.EAGER, length=nbytes)), bytes(nbytes))

    def at_fence(self, end: Ring, step: Callable[[], object]) -> list[object]:
        """Return the list to which the results of the steps are appended."""
        fence: Any = Fence(step)
        end._lock = fence
        return fence.seen  # type: ignore[no-any-return]


def test_a_signal_handler_may_pass_a_fence_inside_another() -> None:
    for step in itertools.count():
        ring = Ends().outbound
        with called(step, ring.fence) as made:
            ring.fence()
        assert not ring._lock.locked()
        if not made:
            break
    assert step > 0


def test_a_reader_that_begins_to_wait_while_a_frame_is_put_sees_it() -> None:
    ends = Ends()
    watching = ends.at_fence(ends.outbound, ends.inbound.watch)
    assert ends.put()
    assert not ends.rung, "it looks by itself"
    assert watching == [False]


def test_a_reader_that_begins_to_wait_while_a_part_of_a_frame_is_written_sees_it() -> None:
    ends = Ends()
    assert ends.outbound.write(bytes(HEADER_BYTES), last=True)
    watching = ends.at_fence(ends.outbound, ends.inbound.watch)
    assert not ends.outbound.wake()
    assert watching == [False]


def test_a_frame_that_is_put_while_its_reader_begins_to_wait_is_told_of_and_seen() -> None:
    ends = Ends()
    put = ends.at_fence(ends.inbound, ends.put)
    assert not ends.inbound.watch()
    assert put == [True]
    assert ends.rung == [1]


def test_the_rest_of_a_message_that_is_written_while_its_reader_begins_to_wait_is_seen() -> None:
    ends = Ends()
    stream: Any = SimpleNamespace(pending=False)
    ends.inbound._stream = stream
    assert ends.inbound.watch()
    seen = ends.at_fence(ends.inbound, lambda: setattr(stream, "pending", True))
    assert not ends.inbound.watch()
    assert seen == [None]


def test_room_that_is_made_while_a_writer_begins_to_wait_for_it_is_seen() -> None:
    ends = Ends()
    while ends.put(SIZE // 4 - HEADER_BYTES):
        pass

    def read() -> bool:
        ends.inbound.read(ends, SIZE * 16)  # type: ignore[arg-type]
        return ends.inbound.wake()

    heard = ends.at_fence(ends.outbound, read)
    assert not ends.outbound.want()
    assert ends.read
    assert heard == [True], "the reader sees that a writer waits"


def test_what_is_in_a_slot_is_there_before_its_owner_looks_at_others() -> None:
    slots = SlotArea()
    cells = slots._cells
    try:
        fence: Any = Fence(lambda: list(cells[:6]))
        slots._lock = fence
        slots.publish(0, 7, 1, 2, b"x")
        slots.sleep(0, 7)
        posted, asleep = fence.seen
        assert posted[0] == 7
        assert (posted, asleep).count(posted) == 1
        assert asleep.count(7) == 2
    finally:
        cells.release()
        slots.close()


@pytest.fixture
def ring() -> Ring:
    return Ring(memoryview(bytearray(SIZE)), memoryview(bytearray(CONTROL_BYTES)).cast("Q"), bool)


def at_fence(ring: Ring, step: Callable[[], object]) -> list[object]:
    fence: Any = Fence(step)
    ring._lock = fence
    return fence.seen  # type: ignore[no-any-return]


class Living(PeerProcess):
    """A process that does not end."""

    def __init__(self) -> None:
        self.reachable = True

    def alive(self) -> bool:
        return True


def exposed(ring: Ring) -> Exposed:
    """A message whose sender has been invited to write to the receiver."""
    found = Exposed(Living(), [(0, SIZE)], ring, 0)
    found._number = ring.words[INVITED] = NUMBER
    ring.words[WRITING] = ring.words[WRITTEN] = MARK | SIZE
    return found


def test_a_receiver_reads_nothing_that_the_sender_has_just_begun_to_write(ring: Ring) -> None:
    message = exposed(ring)
    seen = at_fence(ring, lambda: ring.words.__setitem__(WRITING, MARK | 100))
    assert message._claim(50, 150) == ring.words[READ] == 100
    assert seen == [None]


def test_a_receiver_waits_for_what_the_sender_has_just_begun_to_write(ring: Ring) -> None:
    message = exposed(ring)
    seen = at_fence(ring, lambda: ring.words.__setitem__(WRITING, MARK | 100))
    assert not message.close(wait=False)
    assert seen == [None]
    ring.words[WRITTEN] = MARK | 100
    assert message.close(wait=False)


def test_a_receiver_leaves_the_words_to_the_next_invitation(ring: Ring) -> None:
    """Its own invitation ended while the sender was writing. It waits for that write."""
    message = exposed(ring)
    ring.words[WRITING] = MARK | 100
    assert not message.close(wait=False)
    assert not ring.words[INVITED]
    ring.words[INVITED], ring.words[READ] = NUMBER + 1, 80
    assert message._claim(50, 150) == 100, "it reads nothing that is being written"
    assert not message.close(wait=False)
    assert (ring.words[INVITED], ring.words[READ]) == (NUMBER + 1, 80)
    ring.words[WRITTEN] = MARK | 100
    assert message.close(wait=False)
    assert ring.words[INVITED] == NUMBER + 1


@pytest.mark.parametrize(("word", "value"), [(INVITED, 0), (INVITED, NUMBER + 1), (READ, 101)])
def test_a_sender_writes_nothing_that_the_receiver_has_just_claimed_or_closed(
    ring: Ring, word: int, value: int
) -> None:
    written: list[int] = []
    receiver: Any = SimpleNamespace(write=lambda address, memory: written.append(address) or True)
    ring.words[INVITED] = NUMBER
    assistance = Assistance(receiver, [bytes(SIZE)], SIZE, 0, NUMBER, ring)
    seen = at_fence(ring, lambda: ring.words.__setitem__(word, value))
    assert not assistance._piece(100)
    assert seen == [None]
    assert not written
    assert ring.words[WRITING] == ring.words[WRITTEN] == MARK | SIZE, "the receiver need not wait"
