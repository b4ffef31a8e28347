"""Communication modes (section 3.4)."""

from __future__ import annotations

import pytest

from aiompi import errors
from aiompi.comm import Communicator
from aiompi.constants import PROC_NULL
from aiompi.engine import Mode, Request
from aiompi.wire import frame
from support.cases import cases
from support.worlds import LIMIT, SIZES, WireWorld, irecv, irecv_into, pattern


def send(comm: Communicator, data: bytes, dest: int, tag: int, mode: Mode) -> Request[None]:
    return comm.isend((memoryview(data),), len(data), dest, tag, mode)


@pytest.mark.spec("S3.4-1", "S3.7-2")
@cases("size", SIZES.values())
def test_one_receive_takes_messages_of_every_mode(size: int) -> None:
    w = WireWorld(2, eager_limit=LIMIT)
    w.engines[0].attachment.attach(None, memoryview(bytearray(10**4)))
    receives = [irecv(w.comms[1], 0, 3) for _ in Mode]
    sends = [send(w.comms[0], pattern(size, i), 1, 3, mode) for i, mode in enumerate(Mode)]
    w.run()
    assert [receive.result() for receive in receives] == [pattern(size, i) for i in range(len(Mode))]
    assert all(request.exception() is None for request in sends)


@pytest.mark.spec("S3.4-9")
@pytest.mark.parametrize("cut", [1, 2**30])
@pytest.mark.parametrize("size", SIZES.values())
def test_ready_send_meets_a_receive_that_is_posted(size: int, cut: int) -> None:
    w = WireWorld(2, cut=cut, eager_limit=LIMIT)
    memory = bytearray(size)
    receive = irecv_into(w.comms[1], memory, 0, 3)
    request = send(w.comms[0], pattern(size), 1, 3, Mode.READY)
    w.run()
    assert request.exception() is None
    assert receive.result().tag == 3
    assert memory == pattern(size)


@pytest.mark.spec("S3.4-8")
@pytest.mark.parametrize("cut", [1, 2**30])
@pytest.mark.parametrize("size", SIZES.values())
def test_ready_send_without_a_receive_fails_at_the_sender(size: int, cut: int) -> None:
    w = WireWorld(2, cut=cut, eager_limit=LIMIT, eager_window=4000)
    for _ in range(50):
        request = send(w.comms[0], pattern(size), 1, 3, Mode.READY)
        w.run()
        with pytest.raises(errors.OtherError, match=f"ready send of {size} bytes: rank 1 had posted no receive"):
            request.result()
    assert w.comms[1].iprobe(0, 3) is None, "the message is gone"
    assert w.credit_balance(0, 1) == 4000
    assert w.held(1, 0) == 0
    later = irecv(w.comms[1], 0, 3)
    send(w.comms[0], b"next", 1, 3, Mode.STANDARD)
    w.run()
    assert later.result() == b"next"


@pytest.mark.spec("S3.4-2")
@pytest.mark.parametrize("mode", [Mode.STANDARD, Mode.BUFFERED, Mode.SYNCHRONOUS])
def test_other_modes_start_before_the_receive(mode: Mode) -> None:
    w = WireWorld(2, eager_limit=LIMIT)
    w.engines[0].attachment.attach(None, memoryview(bytearray(10**4)))
    for size in SIZES.values():
        send(w.comms[0], pattern(size), 1, 3, mode)
        w.run()
        receive = irecv(w.comms[1])
        w.run()
        assert receive.result() == pattern(size)


@pytest.mark.spec("S3.4-6", "S3.4-7", "S3.7-4")
def test_only_the_synchronous_send_tells_of_its_receive() -> None:
    w = WireWorld(2, eager_limit=LIMIT)
    w.engines[0].attachment.attach(None, memoryview(bytearray(10**4)))
    sends = {mode: send(w.comms[0], b"x", 1, 3, mode) for mode in Mode if mode is not Mode.READY}
    w.run()
    assert {mode for mode, request in sends.items() if request.done()} == {Mode.STANDARD, Mode.BUFFERED}
    for _ in sends:
        irecv(w.comms[1])
    w.run()
    assert sends[Mode.SYNCHRONOUS].done()


@pytest.mark.spec("S3.11-2")
@cases("mode", Mode)
def test_send_to_proc_null_is_complete_at_once(mode: Mode) -> None:
    w = WireWorld(2)
    request = send(w.comms[0], bytes(10**6), PROC_NULL, 0, mode)
    assert request.result() is None
    assert not w.wires
    assert w.engines[0].attachment.buffer is None, "a buffered send takes no room"


def test_ready_message_that_is_dropped_may_come_in_pieces_between_others() -> None:
    w = WireWorld(2, cut=7)
    first = irecv(w.comms[1], 0, 1)
    requests = [send(w.comms[0], pattern(50, i), 1, tag, Mode.READY) for i, tag in enumerate((1, 2, 1))]
    second = irecv(w.comms[1], 0, 1)
    w.run()
    assert (first.result(), second.result()) == (pattern(50, 0), pattern(50, 2))
    assert [request.exception() is None for request in requests] == [True, False, True]
    assert w.wires[1, 0].kinds.count(frame.NOTREADY) == 1
