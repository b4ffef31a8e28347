"""Messages that come through a ring before their receives, of which the core keeps the short ones."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from aiompi import errors
from aiompi.constants import ANY_SOURCE, ANY_TAG
from aiompi.datatype.predefined import BYTE
from aiompi.engine import Request
from aiompi.engine.message import Message
from aiompi.engine.peer import Peer
from support.worlds import PolledWorld, irecv, irecv_into, isend, pattern

NewPolled = Callable[..., PolledWorld]
#: lengths of messages that the core keeps, streams and announces
LENGTHS = 0, 1, 8, 100, 3000, 17_000, 90_000


@pytest.fixture
def world(polled: NewPolled) -> PolledWorld:
    """Return two ranks that have exchanged messages."""
    w = polled(2)
    w.finish(isend(w.comms[0], b"x", 1), irecv(w.comms[1]))
    return w


def arrive(w: PolledWorld, count: int) -> None:
    """Let rank 1 read until it keeps this number of unexpected messages."""
    w.until(lambda: w.comms[1].matcher.arrivals == count)


def held(w: PolledWorld) -> int:
    """Return the bytes of credit that rank 1 holds for messages of rank 0."""
    peer: Any = w.engines[1].peer(0)
    return int(peer._held)


@pytest.mark.parametrize("seed", range(20))
def test_receives_get_the_first_message_that_they_match(world: PolledWorld, seed: int) -> None:
    chance = random.Random(seed)
    sent = [(chance.randrange(4), pattern(chance.choice(LENGTHS))) for _ in range(40)]
    sends = [isend(world.comms[0], data, 1, tag, sync=chance.random() < 0.1) for tag, data in sent]
    arrive(world, len(sent))
    while sent:
        tag = chance.choice([ANY_TAG, *{tag for tag, _ in sent}])
        place = next(i for i, each in enumerate(sent) if tag in (ANY_TAG, each[0]))
        expected = sent.pop(place)[1]
        source = chance.choice([0, ANY_SOURCE])
        if chance.random() < 0.3:
            found = world.comms[1].iprobe(source, tag)
            assert found is not None
            assert found.Get_count(BYTE) == len(expected)
        if chance.random() < 0.5:
            assert world.finish(irecv(world.comms[1], source, tag)) == [expected]
        else:
            room = bytearray(len(expected) + 10)
            (status,) = world.finish(irecv_into(world.comms[1], room, source, tag))
            assert room == expected + bytes(10)
            assert status.Get_count(BYTE) == len(expected)
    world.finish(*sends)
    assert held(world) == 0


def test_a_message_on_offer_and_an_error_of_the_context_leave_no_message(world: PolledWorld) -> None:
    """The general path keeps a message for which a probe waits, and none where nothing can be received any more."""
    comm, matcher = world.comms[1], world.comms[1].matcher
    probe = comm.mprobe(0, 5, lambda message: message)
    send = isend(world.comms[0], b"for the probe", 1, 5)
    (message,) = world.finish(probe)
    assert message.data == b"for the probe"
    message.put_back()
    assert world.finish(irecv(comm, 0, 5)) == [b"for the probe"]
    matcher.error = errors.RevokedError("gone")
    send = isend(world.comms[0], b"for nobody", 1)
    world.until(send.done)
    world.until(lambda: held(world) == 0)
    assert matcher.arrivals == 0


def test_a_receive_that_is_withdrawn_puts_its_message_back(world: PolledWorld) -> None:
    for text in (b"one", b"two", b"three"):
        isend(world.comms[0], text, 1)
    arrive(world, 3)
    taken: Request[Any] = irecv(world.comms[1])
    assert taken.done()
    taken.withdraw()
    assert world.finish(*[irecv(world.comms[1]) for _ in range(3)]) == [b"one", b"two", b"three"]


def test_a_message_that_is_too_long_for_its_receive(world: PolledWorld) -> None:
    isend(world.comms[0], pattern(100), 1)
    arrive(world, 1)
    room = bytearray(10)
    receive = irecv_into(world.comms[1], room)
    with pytest.raises(errors.TruncationError, match="message of 100 bytes"):
        world.finish(receive)
    assert room == pattern(100)[:10]
    assert held(world) == 0


def test_credit_bounds_what_is_kept_and_comes_back(polled: NewPolled) -> None:
    w = polled(2, eager_limit=2**14, eager_window=2**16)
    w.finish(isend(w.comms[0], b"x", 1), irecv(w.comms[1]))
    sends = [isend(w.comms[0], pattern(1000), 1) for _ in range(200)]
    arrive(w, len(sends))
    assert not all(send.done() for send in sends)
    assert 2**15 < held(w) <= 2**16
    assert w.finish(*[irecv(w.comms[1]) for _ in sends]) == [pattern(1000)] * len(sends)
    w.finish(*sends)
    assert held(w) == 0


@pytest.mark.parametrize("does", ["reads", "receives", "both"])
def test_code_that_runs_when_the_object_of_a_message_is_made(
    world: PolledWorld, monkeypatch: pytest.MonkeyPatch, does: str
) -> None:
    """Python may collect garbage then, and run finalizers, which may read the same ring or post a receive."""
    received: list[Request[Any]] = []
    (link,) = world.links(1, 0)
    made = 0

    class Reentrant(Message):
        __slots__ = ()

        def __new__(cls, *_arguments: object, **_named: object) -> Reentrant:
            nonlocal made
            made += 1
            if made % 7 == 3:
                if does != "receives":
                    link.poll(range(1))
                if does != "reads":
                    received.append(irecv(world.comms[1]))
            return super().__new__(cls)

    monkeypatch.setattr(Peer, "_message_class", Reentrant)
    texts = [f"{i}".encode() for i in range(100)]
    for text in texts:
        world.finish(isend(world.comms[1], text, 0, 1), irecv(world.comms[0], 1, 1))
        isend(world.comms[1], text, 0, 2)  # held, so that credit which is counted twice shows
        isend(world.comms[0], text, 1)  # with the credit of the message that has been received
    world.until(lambda: world.comms[1].matcher.arrivals == len(texts) - len(received))
    assert made > 7
    received += [irecv(world.comms[1]) for _ in range(len(texts) - len(received))]
    assert world.finish(*received) == texts
    assert held(world) == 0
    assert world.balanced(1, 0)
    assert world.balanced(0, 1)


def test_the_object_of_a_kept_message_is_not_used_for_another(
    world: PolledWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Same(Message):
        __slots__ = ()

        def __new__(cls, *_arguments: object, **_named: object) -> Message:  # type: ignore[misc]
            return next(world.comms[1].matcher.unexpected(), None) or super().__new__(cls)

    monkeypatch.setattr(Peer, "_message_class", Same)
    isend(world.comms[0], b"one", 1, 1)
    isend(world.comms[0], b"two", 1, 2)
    peer: Any = world.engines[1].peer(0)
    world.until(lambda: peer.error is not None)
    assert "not made anew" in str(peer.error)
    assert world.comms[1].matcher.arrivals == 1
    assert world.finish(irecv(world.comms[1], 0, 1)) == [b"one"]


def test_queues_of_another_class_are_an_error(world: PolledWorld) -> None:
    peer: Any = world.engines[1].peer(0)
    peer._contexts = dict.fromkeys(peer._contexts, object())
    isend(world.comms[0], b"x", 1)
    world.until(lambda: peer.error is not None)
    assert "MatchQueues" in str(peer.error)
