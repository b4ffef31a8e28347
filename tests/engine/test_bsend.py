"""Buffered sends (section 3.6)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiompi import errors
from aiompi.constants import BSEND_OVERHEAD
from aiompi.engine import Engine, Mode, Request
from support.worlds import LIMIT, LocalWorld, WireWorld, irecv, pattern

LONG = 1000  # bytes of a message that must wait for its receive


def world(nbytes: int) -> WireWorld:
    w = WireWorld(2, eager_limit=LIMIT)
    w.engines[0].attachment.attach("owner", memoryview(bytearray(nbytes)))
    return w


def bsend(w: WireWorld, data: bytes | bytearray, tag: int = 0) -> Request[None]:
    return w.comms[0].isend((memoryview(data),), len(data), 1, tag, Mode.BUFFERED)


@pytest.mark.spec("S3.4-4", "S3.6-11", "S3.7-5")
@pytest.mark.parametrize("size", [0, LIMIT, LONG])
def test_send_is_complete_at_once_and_the_memory_free(size: int) -> None:
    w = world(5000)
    data = bytearray(pattern(size))
    assert bsend(w, data).done()
    data[:] = bytes(size)
    receive = irecv(w.comms[1])
    w.run()
    assert receive.result() == pattern(size)


@pytest.mark.spec("S3.6-7", "S3.6-8", "S7.1.1-5")
def test_buffer_of_exactly_the_size_takes_the_messages() -> None:
    count = 5
    w = world(count * (LONG + BSEND_OVERHEAD))
    for i in range(count):
        bsend(w, pattern(LONG, i), i)
    w.run()
    with pytest.raises(
        errors.InvalidBufferError, match=r"takes 128 bytes .*5640 bytes has no such room: 5640 are taken"
    ):
        bsend(w, b"")
    assert [irecv(w.comms[1], 0, i) for i in range(count)]
    w.run()


@pytest.mark.spec("S3.4-5", "S3.5-11", "S3.6-1")
def test_overflow_is_an_error_and_loses_nothing() -> None:
    w = world(LONG + BSEND_OVERHEAD)
    with pytest.raises(errors.InvalidBufferError):
        bsend(w, bytes(LONG + 1))
    bsend(w, pattern(LONG))
    with pytest.raises(errors.InvalidBufferError):
        bsend(w, bytes(LONG))
    ordinary = w.comms[0].isend((bytes(LONG),), LONG, 1, 1)
    w.run()
    assert irecv(w.comms[1], 0, 0).cancel() is False
    w.run()
    assert not ordinary.done()


@pytest.mark.spec("S3.6-6")
def test_without_a_buffer_there_is_no_room() -> None:
    w = WireWorld(2)
    with pytest.raises(errors.InvalidBufferError, match="needs an attached buffer"):
        bsend(w, b"")


def test_send_to_a_peer_that_is_gone_fails_at_once() -> None:
    w = world(5000)
    w.engines[0].peer(1).mark_failed("test")
    with pytest.raises(errors.ProcessFailedError):
        bsend(w, b"x")


@pytest.mark.spec("S3.6-2")
def test_one_buffer_at_a_time() -> None:
    w = world(100)
    with pytest.raises(errors.InvalidBufferError, match="attached already"):
        w.engines[0].attachment.attach(None, memoryview(bytearray(10)))


@pytest.mark.spec("S3.6-3", "S3.6-4", "S3.6-5")
def test_detaching_waits_for_the_messages() -> None:
    w = world(2 * (LONG + BSEND_OVERHEAD))
    bsend(w, pattern(LONG), 1)
    bsend(w, pattern(LONG), 2)
    w.run()
    detach = w.engines[0].attachment.detach()
    with pytest.raises(errors.InvalidBufferError, match="needs an attached buffer"):
        bsend(w, b"")
    irecv(w.comms[1], 0, 2)
    w.run()
    assert not detach.done()
    receive = irecv(w.comms[1], 0, 1)
    w.run()
    assert detach.result() == "owner"
    assert receive.result() == pattern(LONG)
    with pytest.raises(errors.InvalidBufferError, match="no buffer is attached"):
        w.engines[0].attachment.detach()
    w.engines[0].attachment.attach("again", memoryview(bytearray(10)))
    assert w.engines[0].attachment.detach().result() == "again"


@pytest.mark.spec("S3.6-7")
def test_places_follow_the_circle_of_the_model() -> None:
    """Each message is placed behind the newest one, so that the space of the oldest ones stays contiguous."""
    unit = 1000
    w = world(10 * unit)

    def send(units: int, tag: int) -> None:
        bsend(w, bytes(units * unit - BSEND_OVERHEAD), tag)

    def receive(tag: int) -> None:
        irecv(w.comms[1], 0, tag)
        w.run()

    for units, tag in ((4, 1), (4, 2)):
        send(units, tag)
    receive(1)
    send(3, 3)
    send(1, 4)
    receive(2)
    send(6, 5)
    for tag in (3, 4, 5):
        receive(tag)
    send(10, 6)


@pytest.mark.spec("S3.6-10")
def test_room_of_one_message_serves_many_that_are_received_in_time() -> None:
    w = world(LONG + BSEND_OVERHEAD)
    for i in range(20):
        bsend(w, pattern(LONG, i))
        receive = irecv(w.comms[1])
        w.run()
        assert receive.result() == pattern(LONG, i)


@given(st.lists(st.tuples(st.integers(0, 700), st.booleans()), max_size=40))
def test_places_never_overlap(steps: list[tuple[int, bool]]) -> None:
    w = world(4000)
    pending: dict[int, bytes] = {}
    for tag, (extra, receive) in enumerate(steps):
        data = pattern(LIMIT + 1 + extra, tag)
        used = sum(len(message) + BSEND_OVERHEAD for message in pending.values())
        try:
            bsend(w, data, tag)
        except errors.InvalidBufferError:
            assert pending
        else:
            pending[tag] = data
            assert used + len(data) + BSEND_OVERHEAD <= 4000
        if receive and pending:
            oldest = sorted(pending)[tag % len(pending)]
            request = irecv(w.comms[1], 0, oldest)
            w.run()
            assert request.result() == pending.pop(oldest)
    for tag, data in pending.items():
        request = irecv(w.comms[1], 0, tag)
        w.run()
        assert request.result() == data


@pytest.mark.spec("S3.8-18", "S3.8-14")
def test_recalled_message_gives_its_room_back() -> None:
    w = world(LONG + BSEND_OVERHEAD)
    request = bsend(w, pattern(LONG, 1))
    w.run()
    assert request.cancel()
    assert not request.done()
    assert not request.cancel()
    w.run()
    assert request.cancelled()
    assert request.result() is None
    bsend(w, pattern(LONG, 2))
    receive = irecv(w.comms[1])
    w.run()
    assert receive.result() == pattern(LONG, 2)


def test_recall_may_be_decided_at_once() -> None:
    w = LocalWorld(2, eager_limit=LIMIT)
    w.engines[0].attachment.attach(None, None)
    data = bytes(LONG)
    request = w.comms[0].isend((data,), LONG, 1, 0, Mode.BUFFERED)
    assert request.cancel()
    assert request.done()
    assert request.cancelled()


@pytest.mark.spec("S3.7.3-11")
def test_send_that_was_waited_for_cannot_be_recalled() -> None:
    w = world(2 * LONG)
    request = bsend(w, pattern(LONG))
    request.result()
    assert not request.cancel()
    receive = irecv(w.comms[1])
    w.run()
    assert receive.result() == pattern(LONG)


def test_recall_that_comes_too_late_lets_the_send_be() -> None:
    w = world(2 * LONG)
    request = bsend(w, pattern(LONG))
    w.run()
    receive = irecv(w.comms[1])
    assert request.cancel()
    w.run()
    assert not request.cancelled()
    assert request.done()
    assert receive.result() == pattern(LONG)


@pytest.mark.spec("S3.6.1-1", "S3.5-3")
def test_messages_keep_their_order_among_those_of_other_modes() -> None:
    w = world(4000)
    for i in range(6):
        mode = Mode.BUFFERED if i % 2 == 0 else Mode.STANDARD
        data = pattern(LONG if i % 3 == 0 else 10, i)
        w.comms[0].isend((data,), len(data), 1, 0, mode)
    receives = [irecv(w.comms[1]) for _ in range(6)]
    w.run()
    assert [receive.result() for receive in receives] == [pattern(LONG if i % 3 == 0 else 10, i) for i in range(6)]


def test_automatic_buffer_has_no_limit() -> None:
    w = WireWorld(2, eager_limit=LIMIT)
    w.engines[0].attachment.attach(None, None)
    for i in range(10):
        bsend(w, pattern(10**5, i))
    detach = w.engines[0].attachment.detach()
    receives = [irecv(w.comms[1]) for _ in range(10)]
    w.run()
    assert [receive.result() for receive in receives] == [pattern(10**5, i) for i in range(10)]
    assert detach.done()


def test_detaching_does_not_wait_for_a_peer_that_is_gone() -> None:
    w = world(2 * LONG)
    bsend(w, bytes(LONG))
    w.run()
    detach = w.engines[0].attachment.detach()
    w.engines[0].peer(1).mark_failed("test")
    assert detach.result() == "owner"
    assert unattended(w.engines[0]) == 0


def unattended(engine: Engine) -> int:
    return len(engine.unawaited)
