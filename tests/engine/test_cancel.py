"""Cancelling receives, and recalling sends (section 3.8)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from aiompi.constants import ANY_SOURCE, ANY_TAG
from aiompi.wire import frame
from support.worlds import LIMIT, LocalWorld, WireWorld, irecv, irecv_into, isend, pattern

NewWorld = Callable[..., Any]


@pytest.mark.spec("S3.8-11", "S3.8-13", "S3.8-14", "S3.8-15", "S3.8-16")
@pytest.mark.parametrize(("source", "tag"), [(0, 3), (ANY_SOURCE, 3), (0, ANY_TAG), (ANY_SOURCE, ANY_TAG)])
def test_cancelled_receive_takes_nothing(world: NewWorld, source: int, tag: int) -> None:
    w = world()
    memory = bytearray(b"kept")
    receive = irecv_into(w.comms[1], memory, source, tag)
    assert receive.cancel()
    assert receive.done()
    assert receive.cancelled()
    assert receive.result().Is_cancelled()
    isend(w.comms[0], b"mess", 1, 3)
    other = irecv(w.comms[1], source, tag)
    w.run()
    assert other.result() == b"mess"
    assert memory == b"kept"
    assert not receive.cancel()


@pytest.mark.spec("S3.8-14", "S3.8-17")
@pytest.mark.parametrize("size", [4, 5000])
def test_cancelling_a_complete_or_matched_receive_does_nothing(size: int) -> None:
    w = WireWorld(2, eager_limit=LIMIT)
    receive = irecv(w.comms[1])
    isend(w.comms[0], pattern(size), 1)
    w.run_wire(0, 1)
    assert not receive.cancel()
    w.run()
    assert not receive.cancel()
    assert not receive.cancelled()
    assert not receive.status.Is_cancelled()
    assert receive.result() == pattern(size)


@pytest.mark.spec("S3.8-13", "S3.8-14")
@pytest.mark.parametrize("size", [0, LIMIT, 5000])
def test_unmatched_synchronous_send_is_recalled(world: NewWorld, size: int) -> None:
    w = world()
    send = isend(w.comms[0], pattern(size), 1, 3, sync=True)
    w.run()
    assert send.cancel()
    w.run()
    assert send.cancelled()
    assert send.result() is None
    assert send.status.Is_cancelled()
    assert w.comms[1].iprobe(ANY_SOURCE, ANY_TAG) is None
    receive = irecv(w.comms[1])
    w.run()
    assert not receive.done()
    isend(w.comms[0], b"other", 1)
    w.run()
    assert receive.result() == b"other"
    assert w.balanced(0, 1)


@pytest.mark.spec("S3.8-14", "S3.8-17")
@pytest.mark.parametrize("size", [0, LIMIT, 5000])
def test_send_that_is_matched_meanwhile_is_not_recalled(size: int) -> None:
    w = WireWorld(2, eager_limit=LIMIT)
    send = isend(w.comms[0], pattern(size), 1, sync=True)
    w.run_wire(0, 1)
    receive = irecv(w.comms[1])
    assert send.cancel()
    assert send.cancel()
    w.run()
    assert send.done()
    assert not send.cancelled()
    assert receive.result() == pattern(size)
    assert not send.cancel()
    assert w.wires[1, 0].kinds.count(frame.CANCELNO) == 1


def test_only_the_cancelled_send_is_recalled(world: NewWorld) -> None:
    w = world()
    sends = [isend(w.comms[0], bytes([i]) * 300, 1, 3) for i in range(5)]
    w.run()
    for i in (0, 2, 4):
        sends[i].cancel()
    receives = [irecv(w.comms[1]) for _ in range(2)]
    w.run()
    if isinstance(w, LocalWorld):
        assert [send.cancelled() for send in sends] == [True, False, True, False, True]
    taken = [receive.result()[0] for receive in receives]
    assert taken == [i for i, send in enumerate(sends) if not send.cancelled()][:2]


@pytest.mark.spec("S3.8-17")
def test_eager_send_that_has_left_is_not_cancelled(world: NewWorld) -> None:
    w = world()
    send = isend(w.comms[0], b"gone", 1)
    w.run()
    assert not send.cancel()
    assert irecv(w.comms[1]).result() == b"gone"
