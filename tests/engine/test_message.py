"""Landings: memory that takes a payload in pieces."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from aiompi.core.allocation import allocate
from aiompi.engine.message import Landing, Message
from support.cases import cases
from support.worlds import LocalWorld, WireWorld, pattern


def new_message(length: int) -> Message:
    """Return a message whose payload is still to arrive."""
    w = LocalWorld(2)
    return Message(w.engines[0].peer(1), w.comms[0].matcher, 1, 2, length, 0, rts=False, sync=False)


def new_landing(room: int, length: int) -> tuple[Landing, bytearray, Message]:
    memory, target = bytearray(b"\xa5" * room), new_message(length)
    return Landing(target.peer, target, memoryview(memory), length, 0), memory, target


def complete(message: Message) -> bool:
    """Return True if the message has its payload."""
    return message.data is not None and message.landing is None


def fill(landing: Landing, data: bytes, step: int, limit: int = 2**30) -> int:
    """Write to a landing in steps, as a reader does; return the bytes written."""
    written = 0
    while written < min(len(data), limit):
        room = landing.room()
        assert 0 < len(room) <= landing.length - landing.filled
        nbytes = min(step, len(room), limit - written)
        room[:nbytes] = data[written : written + nbytes]
        written += nbytes
        landing.advance(nbytes)
        assert (landing in landing.peer.landings) is (landing.filled < landing.length)
    return written


@given(st.integers(1, 300), st.integers(0, 400), st.integers(1, 301))
def test_payload_goes_to_memory_and_the_rest_nowhere(length: int, room: int, step: int) -> None:
    landing, memory, target = new_landing(room, length)
    data = pattern(length)
    fill(landing, data, step)
    fitting = min(room, length)
    assert memory == data[:fitting] + b"\xa5" * (room - fitting)
    assert complete(target)
    assert not landing.peer.landings


def test_payload_much_longer_than_memory() -> None:
    landing, memory, target = new_landing(10, 2**20)
    data = pattern(2**20)
    fill(landing, data, 2**20)
    assert memory == data[:10]
    assert complete(target)


@cases(("room", "length"), [(10, 10), (20, 10), (5, 10), (0, 10), (0, 0), (5, 0)])
def test_whole_payload_at_once(room: int, length: int) -> None:
    landing, memory, target = new_landing(room, length)
    data = pattern(length)
    landing.put(memoryview(data))
    assert memory[: min(room, length)] == data[:room]
    assert memory[length:] == b"\xa5" * max(0, room - length)
    assert complete(target)


@given(st.integers(1, 200), st.integers(0, 200), st.integers(0, 250))
def test_landing_moves_to_other_memory(length: int, arrived: int, room: int) -> None:
    arrived = min(arrived, length - 1)
    landing, _, first = new_landing(length, length)
    data = pattern(length)
    fill(landing, data, 7, arrived)
    second, memory = new_message(length), bytearray(b"\xa5" * room)
    landing.retarget(second, memoryview(memory))
    assert second.landing is landing
    fill(landing, data[arrived:], 11)
    fitting = min(room, length)
    assert memory == data[:fitting] + b"\xa5" * (room - fitting)
    assert (complete(first), complete(second)) == (False, True)


def test_message_keeps_what_landed() -> None:
    w = WireWorld(2)
    peer = w.engines[0].peer(1)
    message = Message(peer, w.comms[0].matcher, 1, 2, 100, 0, rts=False, sync=False)
    landing = Landing(peer, message, allocate(100), 100, 0)
    fill(landing, pattern(100), 30)
    assert message.landing is None
    assert message.data == pattern(100)
    status = message.envelope()
    assert (status.source, status.tag, status.nbytes) == (1, 2, 100)
