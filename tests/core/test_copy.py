"""Copies by the kernel: by the receiver alone and by both ends, that fail, that are withdrawn, that are forged."""

from __future__ import annotations

import itertools
import os
import signal
import threading
from collections.abc import Iterator

import numpy as np
import pytest

from aiompi.core._native import Assistance, Exposed, PeerProcess
from aiompi.datatype.buffer.process import address_of
from aiompi.wire import frame
from aiompi.wire.frame import HEADER
from support.frames import Header
from support.rings import RingPair

PART = 128 * 2**10


@pytest.fixture
def pair() -> Iterator[RingPair]:
    pair = RingPair()
    for ring in pair.ends:
        ring.process = PeerProcess(os.getpid())
    yield pair
    pair.close()


def content(nbytes: int) -> bytearray:
    return bytearray(np.random.default_rng(1).bytes(nbytes))


def expose(pair: RingPair, message: bytearray, cuts: int = 1) -> Exposed:
    """Send the frame of a message in so many pieces; return the offer that the other end gets."""
    bounds = [len(message) * i // cuts for i in range(cuts + 1)]
    pieces = [memoryview(message)[a:b] for a, b in itertools.pairwise(bounds)]
    header = HEADER.pack(*Header(frame.RTS, length=len(message), srqid=3))
    assert pair.ends[0].expose(header, pieces)
    pair.read()
    ((got, offer),) = pair.sinks[1].offers
    assert got.length == len(message)
    return offer


@pytest.mark.parametrize("cuts", [1, 3, 7])
@pytest.mark.parametrize("nbytes", [1, 40_000, PART, 5 * PART + 17])
def test_the_receiver_alone(pair: RingPair, nbytes: int, cuts: int) -> None:
    message = content(nbytes)
    offer = expose(pair, message, min(cuts, nbytes))
    room = bytearray(nbytes)
    assert offer.copy(memoryview(room), 0, 2**30, nbytes) == nbytes
    assert offer.close()
    assert offer.stands()
    assert room == message


def test_a_step_at_a_time(pair: RingPair) -> None:
    message = content(10 * PART)
    offer, room, at = expose(pair, message), bytearray(10 * PART), 0
    while at < len(room):
        at = offer.copy(memoryview(room), at, PART // 2, len(room))
    assert room == message


@pytest.mark.parametrize("cuts", [1, 5])
def test_both_ends_meet(pair: RingPair, cuts: int) -> None:
    message = content(40 * PART + 5)
    for turn in range(20):
        pair.sinks[1].offers.clear()
        offer, room = expose(pair, message, cuts), bytearray(len(message))
        number, address = offer.invite(memoryview(room))
        assert number == turn + 1
        helper = Assistance(pair.ends[0].process, [memoryview(message)], len(message), address, number, pair.ends[0])
        thread = threading.Thread(target=helper.write, args=(2**40,))
        thread.start()
        at = 0
        while at < len(room):
            at = offer.copy(memoryview(room), at, 3 * PART, len(room))
        assert offer.close()
        thread.join()
        assert offer.stands()
        assert room == message


def test_a_sender_that_comes_late_writes_nothing(pair: RingPair) -> None:
    message = content(4 * PART)
    offer, room = expose(pair, message), bytearray(4 * PART)
    number, address = offer.invite(memoryview(room))
    assert offer.close()
    helper = Assistance(pair.ends[0].process, [memoryview(message)], len(message), address, number, pair.ends[0])
    assert not helper.write(2**40)
    assert room == bytes(len(room))
    assert offer.copy(memoryview(room), 0, 2**40, len(room)) == len(room), "the receiver goes on alone"
    assert offer.stands()
    assert room == message


def test_an_earlier_invitation_claims_nothing_of_a_later_one(pair: RingPair) -> None:
    message = content(4 * PART)
    offer, room = expose(pair, message), bytearray(4 * PART)
    number, address = offer.invite(memoryview(room))
    late = Assistance(pair.ends[0].process, [memoryview(message)], len(message), address, number, pair.ends[0])
    assert offer.close()
    pair.sinks[1].offers.clear()
    again, other = expose(pair, message), bytearray(4 * PART)
    assert again.invite(memoryview(other)) is not None
    assert not late.write(2**40)
    assert room == bytes(len(room))
    assert again.copy(memoryview(other), 0, 2**40, len(other)) == len(other)
    assert again.close()
    assert other == message


def test_there_is_one_invitation_at_a_time(pair: RingPair) -> None:
    message = content(4 * PART)
    offer, room = expose(pair, message), bytearray(4 * PART)
    assert offer.invite(memoryview(room)) is not None
    pair.sinks[1].offers.clear()
    other = expose(pair, message)
    assert other.invite(memoryview(room)) is None
    assert offer.close()
    assert other.invite(memoryview(room)) is not None
    assert other.close()


def test_a_message_that_its_sender_retracts_does_not_stand(pair: RingPair) -> None:
    message = content(PART)
    offer, room = expose(pair, message), bytearray(PART)
    pair.ends[0].retract()
    offer.copy(memoryview(room), 0, 2**40, PART)
    assert not offer.stands()


def test_memory_that_is_not_there(pair: RingPair) -> None:
    message = content(PART)
    offer = Exposed(pair.ends[1].process, [(0x1000, PART)], pair.ends[1], 0)
    room = bytearray(PART)
    assert offer.copy(memoryview(room), 0, 2**40, PART) == PART
    assert not offer.stands()
    assert pair.ends[1].process.reachable, "only this memory is gone"
    assert expose(pair, message).copy(memoryview(room), 0, 2**40, PART) == PART


def test_a_sender_that_cannot_write_says_so(pair: RingPair) -> None:
    message = content(4 * PART)
    offer, room = expose(pair, message), bytearray(4 * PART)
    number, _ = offer.invite(memoryview(room))
    helper = Assistance(pair.ends[0].process, [memoryview(message)], len(message), 0x1000, number, pair.ends[0])
    assert not helper.write(PART)
    assert offer.copy(memoryview(room), 0, 2**40, len(room)) == len(room)
    assert offer.close()
    assert not offer.stands(), "a part is missing"


@pytest.mark.parametrize("word", [2**64 - 1, 1 << 32 | 9, 7 << 32])
def test_claims_that_cannot_be(pair: RingPair, word: int) -> None:
    message = content(4 * PART)
    offer, room = expose(pair, message), bytearray(4 * PART)
    offer.invite(memoryview(room))
    pair.word("claims")[0] = word
    assert offer.copy(memoryview(room), 0, 2**40, len(room)) == len(room)
    assert offer.close()
    assert not offer.stands()


def test_a_receiver_that_takes_back_what_was_claimed_gets_a_message_once(pair: RingPair) -> None:
    message = content(4 * PART)
    offer, room, turns = expose(pair, message), bytearray(4 * PART), 0
    number, address = offer.invite(memoryview(room))
    helper = Assistance(pair.ends[0].process, [memoryview(message)], len(message), address, number, pair.ends[0])
    while helper.write(PART):
        pair.word("claims")[0] = number << 32
        turns += 1
        assert turns <= 4, "the sender would write for ever"
    assert offer.close()


def test_memory_is_given_back_when_the_sender_has_died(pair: RingPair) -> None:
    child = os.fork()
    if not child:
        signal.pause()
    message = content(4 * PART)
    offer = expose(pair, message)
    offer = Exposed(PeerProcess(child), [(address_of(message), len(message))], pair.ends[1], 0)
    room = bytearray(len(message))
    number, _ = offer.invite(memoryview(room))
    pair.word("claims")[0] = number << 32 | 1  # the sender has claimed a part, and has stopped
    assert not offer.close(False)
    os.kill(child, signal.SIGKILL)
    assert offer.close(), "it has ended, even if nobody has asked for its status"
    assert not offer.stands()
    os.waitpid(child, 0)


def test_processes_that_cannot_be_reached() -> None:
    child = os.fork()
    if not child:
        signal.pause()
    process = PeerProcess(child)
    assert process.reachable
    assert process.same()
    assert process.alive()
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    assert not process.alive()
    assert not process.same()
    assert not PeerProcess(0).reachable
    assert not PeerProcess(2**22 + 1).alive()
