"""A send and a receive in one request (MPI_Sendrecv)."""

from __future__ import annotations

import pytest

from aiompi.engine.sendrecv import SendrecvRequest
from aiompi.engine.sendrecv import sendrecv as begin
from aiompi.errors import InvalidRequestError, PendingError, TruncationError
from support.worlds import LIMIT, WireWorld, irecv_into, isend, pattern

WORDS = "<sendrecv (recv from any source, any tag, on WORLD): {}>"


def new_exchange(room: int) -> tuple[WireWorld, SendrecvRequest]:
    """Let rank 0 start to send a long message and to receive one of 10 bytes, which is not sent yet."""
    w = WireWorld(2, eager_limit=LIMIT)
    receive = irecv_into(w.comms[0], bytearray(room))
    return w, begin(receive, lambda: isend(w.comms[0], pattern(10 * LIMIT), 1))


@pytest.mark.parametrize("room", [5, 10])
def test_it_ends_with_both_parts(room: int) -> None:
    w, exchange = new_exchange(room)
    assert repr(exchange) == WORDS.format("pending")
    isend(w.comms[1], pattern(10), 0)
    w.run()
    assert not exchange.done(), "the send is not"
    with pytest.raises(PendingError):
        exchange.result()
    irecv_into(w.comms[1], bytearray(10 * LIMIT))
    w.run()
    assert exchange.done()
    if room == 10:
        assert (repr(exchange), exchange.unseen_error()) == (WORDS.format("done"), None)
        assert exchange.result().nbytes == 10
        return
    assert repr(exchange) == WORDS.format("failed")
    assert isinstance(exchange.unseen_error(), TruncationError)
    with pytest.raises(TruncationError):
        exchange.result()
    assert exchange.unseen_error() is None


def test_one_that_is_withdrawn_is_cancelled() -> None:
    w, exchange = new_exchange(10)
    w.run()
    exchange.withdraw()
    w.run()
    assert (repr(exchange), exchange.cancelled()) == (WORDS.format("cancelled"), True)


def test_cancelling_one_is_refused() -> None:
    w, exchange = new_exchange(10)
    with pytest.raises(InvalidRequestError, match="start them by Isend and Irecv"):
        exchange.cancel()
    w.run()
    assert not exchange.done()


def test_its_error_can_be_changed() -> None:
    """Error handlers change it."""
    w, exchange = new_exchange(5)
    isend(w.comms[1], pattern(10), 0)
    irecv_into(w.comms[1], bytearray(10 * LIMIT))
    w.run()
    exchange._error = changed = ValueError("of a handler")
    assert exchange.exception() is changed
    with pytest.raises(ValueError, match="of a handler"):
        exchange.result()
    assert exchange.cancel() is False


@pytest.mark.parametrize("early", [False, True])
def test_one_that_is_freed_is_not_forgotten(early: bool) -> None:
    """The rank waits for its send at the end, and its errors end the job."""
    w, exchange = new_exchange(5)
    told: list[BaseException] = []
    w.engines[0].fatal = told.append
    if early:
        exchange.free()
    isend(w.comms[1], pattern(10), 0)
    w.run()
    if not early:
        exchange.free()
    assert [type(error) for error in told] == [TruncationError]
    assert w.engines[0].unawaited
    irecv_into(w.comms[1], bytearray(10 * LIMIT))
    w.run()
    assert not w.engines[0].unawaited
    assert len(told) == 1
