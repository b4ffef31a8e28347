"""A ring whose other end cannot be trusted."""

from __future__ import annotations

import contextlib
import random
from typing import Any

import pytest
from frames import Header
from hypothesis import given, settings
from hypothesis import strategies as st
from ring_pair import SIZE, Landed, Pair, eager

from aiompi.errors import RemoteProtocolError
from aiompi.transport.shared_memory.ring import ALIGN, EXPOSED, HEAD, IN_POOL, TAIL, WANTING, WATCHING
from aiompi.wire import frame
from aiompi.wire.frame import HEADER, HEADER_BYTES


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
    """The sink is asked for memory, as for every frame that has not arrived as a whole, and refuses."""
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
