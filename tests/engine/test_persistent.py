"""Persistent requests (section 3.9)."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

from aiompi import errors
from aiompi.comm import Communicator
from aiompi.constants import ANY_TAG, PROC_NULL
from aiompi.engine import Mode, PersistentRequest
from aiompi.status import Status
from support.worlds import LIMIT, SIZES, LocalWorld, NoDriver, WireWorld, irecv, isend, pattern


def send_init(comm: Communicator, memory: bytearray, mode: Mode = Mode.STANDARD) -> PersistentRequest[None]:
    view = memoryview(memory)
    return comm.send_init(lambda: ((view,), len(view)), 1, 3, mode)


@pytest.mark.spec("S3.9-1", "S3.9-12")
def test_binding_the_arguments_does_not_communicate() -> None:
    w = WireWorld(2)
    requests = [send_init(w.comms[0], bytearray(5), mode) for mode in Mode]
    receive = w.comms[1].recv_init(memoryview(bytearray(5)), 0, 3)
    for request in (*requests, receive):
        assert request.done()
        assert not request.active
        assert request.result() == (Status() if request is receive else None)
        assert request.status == Status()
    assert not w.wires
    assert irecv(w.comms[1], 0, 3).cancel(), "no receive is posted"


@pytest.mark.spec("S3.9-2", "S3.9-3", "S3.9-6", "S3.9-8")
@pytest.mark.parametrize("size", SIZES.values())
@pytest.mark.parametrize("mode", Mode)
def test_start_again_and_again(mode: Mode, size: int) -> None:
    w = WireWorld(2, eager_limit=LIMIT)
    w.engines[0].attachment.attach(None, memoryview(bytearray(6000)))
    memory, target = bytearray(size), bytearray(size)
    send = send_init(w.comms[0], memory, mode)
    receive = w.comms[1].recv_init(memoryview(target), 0, 3)
    for i in range(4):
        memory[:] = pattern(size, i)
        receive.start()
        send.start()
        w.run()
        assert receive.done()
        assert send.exception() is None
        status = receive.result()
        assert (status.source, status.tag, status.nbytes) == (0, 3, size)
        assert target == pattern(size, i)


@pytest.mark.spec("S3.9-8")
def test_plain_and_persistent_requests_match() -> None:
    w = LocalWorld(2)
    send_init(w.comms[0], bytearray(b"abc")).start()
    assert irecv(w.comms[1]).result() == b"abc"
    target = bytearray(3)
    receive = w.comms[1].recv_init(memoryview(target), 0, ANY_TAG)
    receive.start()
    isend(w.comms[0], b"xyz", 1)
    assert target == b"xyz"


@pytest.mark.spec("S3.9-4")
def test_start_of_an_active_request_is_an_error() -> None:
    w = LocalWorld(2)
    receive = w.comms[1].recv_init(memoryview(bytearray(3)), 0, 3)
    receive.start()
    assert receive.active
    with pytest.raises(errors.InvalidRequestError, match="active"):
        receive.start()
    isend(w.comms[0], b"abc", 1, 3)
    assert receive.done()
    receive.start()


@pytest.mark.spec("S3.9-10", "S3.4-8")
def test_ready_mode_needs_the_receive() -> None:
    w = LocalWorld(2)
    send = send_init(w.comms[0], bytearray(3), Mode.READY)
    send.start()
    assert isinstance(send.exception(), errors.OtherError)
    receive = irecv(w.comms[1], 0, 3)
    send.start()
    assert send.exception() is None
    assert receive.done()


@pytest.mark.spec("S3.8-19")
@pytest.mark.parametrize("done_first", [False, True])
def test_cancelling_leaves_the_request(done_first: bool) -> None:
    w = WireWorld(2)
    target = bytearray(3)
    receive = w.comms[1].recv_init(memoryview(target), 0, 3)
    receive.start()
    if done_first:
        isend(w.comms[0], b"abc", 1, 3)
        w.run()
    assert receive.cancel() is not done_first
    assert receive.done()
    assert receive.cancelled() is not done_first
    assert receive.status.cancelled is not done_first
    receive.start()
    assert not receive.cancelled()
    isend(w.comms[0], b"xyz", 1, 3)
    w.run()
    assert receive.result().nbytes == 3
    assert target == b"xyz"


@pytest.mark.spec("S3.8-19")
def test_cancelling_a_send_recalls_the_message() -> None:
    for mode in (Mode.SYNCHRONOUS, Mode.BUFFERED):
        w = WireWorld(2, eager_limit=LIMIT)
        w.engines[0].attachment.attach(None, memoryview(bytearray(6000)))
        send = send_init(w.comms[0], bytearray(LIMIT + 1), mode)
        send.start()
        w.run()
        assert send.cancel()
        w.run()
        assert send.done()
        assert send.cancelled()
        assert w.comms[1].iprobe(0, 3) is None
        send.start()
        receive = irecv(w.comms[1])
        w.run()
        assert send.exception() is None
        assert len(receive.result()) == LIMIT + 1


@pytest.mark.spec("S3.8-20")
def test_cancelling_an_inactive_request_is_an_error() -> None:
    receive = LocalWorld(2).comms[1].recv_init(memoryview(bytearray(3)), 0, 3)
    with pytest.raises(errors.InvalidRequestError, match="inactive"):
        receive.cancel()


def test_arguments_are_checked_when_they_are_bound() -> None:
    comm = LocalWorld(2).comms[0]
    with pytest.raises(errors.InvalidRankError):
        comm.send_init(lambda: ((), 0), 2, 0, Mode.STANDARD)
    with pytest.raises(errors.InvalidTagError):
        comm.send_init(lambda: ((), 0), 1, -1, Mode.STANDARD)
    with pytest.raises(errors.InvalidRankError):
        comm.recv_init(memoryview(b""), 7, 0)


@pytest.mark.spec("S3.6-6")
def test_start_that_fails_leaves_the_request_inactive() -> None:
    w = LocalWorld(2)
    send = send_init(w.comms[0], bytearray(3), Mode.BUFFERED)
    with pytest.raises(errors.InvalidBufferError):
        send.start()
    assert not send.active
    w.engines[0].attachment.attach(None, memoryview(bytearray(1000)))
    send.start()
    assert irecv(w.comms[1]).result() == bytes(3)


@pytest.mark.spec("S3.11-1", "S3.11-3")
def test_null_process() -> None:
    w = LocalWorld(2)
    send = w.comms[0].send_init(lambda: ((b"abc",), 3), PROC_NULL, 0, Mode.STANDARD)
    receive = w.comms[0].recv_init(memoryview(bytearray(3)), PROC_NULL, 0)
    for request in (send, receive):
        request.start()
        assert request.done()
    assert receive.result().source == PROC_NULL


def test_outcome_is_forgotten_when_it_has_been_taken() -> None:
    w = LocalWorld(2)
    receive = w.comms[1].recv_init(memoryview(bytearray(3)), 0, 3)
    receive.start()
    receive.forget_operation()
    assert receive.active, "not before it is complete"
    isend(w.comms[0], b"abcd", 1, 3)
    with pytest.raises(errors.TruncationError):
        receive.result()
    receive.forget_operation()
    assert receive.result() == Status()


def steps(request: PersistentRequest[Any]) -> Generator[Any, None, Any]:
    return request.__await__()


@pytest.mark.spec("S3.7.3-6", "S3.8-20", "S3.9-1", "S3.9-6")
def test_awaiting_takes_the_outcome() -> None:
    w = LocalWorld(2)
    receive = w.comms[1].recv_init(memoryview(bytearray(3)), 0, 3)
    for _ in range(2):
        receive.start()
        isend(w.comms[0], b"abc", 1, 3)
        with pytest.raises(StopIteration) as end:
            next(steps(receive))
        assert end.value.value.nbytes == 3
        with pytest.raises(StopIteration) as end:
            next(steps(receive))
        assert end.value.value == Status()
        with pytest.raises(errors.InvalidRequestError, match="inactive"):
            receive.cancel()


class Waiter:
    """A future without an event loop."""

    def __init__(self) -> None:
        self._done = False

    def __iter__(self) -> Generator[None, None, None]:
        yield

    def done(self) -> bool:
        return self._done

    def set_result(self, result: None) -> None:
        self._done = True


class WaitingDriver(NoDriver):
    def waiter(self, request: Any) -> Waiter:
        return Waiter()


def test_next_start_does_not_disturb_a_task_that_waits_for_the_last_one() -> None:
    w = LocalWorld(2, driver=WaitingDriver)
    receive = w.comms[1].recv_init(memoryview(bytearray(3)), 0, 3)
    receive.start()
    waiting = steps(receive)
    next(waiting)
    isend(w.comms[0], b"ab", 1, 3)
    receive.start()
    with pytest.raises(StopIteration) as end:
        next(waiting)
    assert end.value.value.nbytes == 2
    assert receive.active


def test_error_that_was_not_reported_is_raised_by_the_next_start() -> None:
    w = LocalWorld(2)
    receive = w.comms[1].recv_init(memoryview(bytearray(3)), 0, 3)
    receive.start()
    isend(w.comms[0], b"abcd", 1, 3)
    with pytest.raises(errors.TruncationError):
        receive.start()
    receive.start()
    assert receive.active


@pytest.mark.spec("S3.9-4", "S3.9-9")
def test_freed_request_cannot_be_started() -> None:
    receive = LocalWorld(2).comms[1].recv_init(memoryview(bytearray(3)), 0, 3)
    receive.free()
    with pytest.raises(errors.InvalidRequestError, match="freed"):
        receive.start()
