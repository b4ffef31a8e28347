"""The end of an operation is final: memory of withdrawn operations, refused arguments, failed decoding."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import pytest

from aiompi.constants import ANY_SOURCE, ANY_TAG
from aiompi.core import allocation
from aiompi.core.allocation import LARGE
from aiompi.datatype import BYTE
from aiompi.datatype.buffer.bufspec import resolve_recv
from aiompi.errors import OtherError, TruncationError
from aiompi.wire.frame import HEADER_BYTES
from support.worlds import LIMIT, LocalWorld, WireWorld, irecv, irecv_into, isend, pattern

LONG = 10 * LIMIT


@pytest.mark.parametrize("moved", [0, 1, 2, 100, LONG])
def test_withdrawn_send_leaves_the_memory_to_its_owner(moved: int) -> None:
    """The receiver gets what was sent, not what the owner of the memory writes later."""
    w = WireWorld(2, eager_limit=LIMIT)
    memory = bytearray(pattern(LONG))
    receive = irecv(w.comms[1])
    send = w.comms[0].isend((memoryview(memory),), LONG, 1, 0)
    w.run_wire(0, 1)
    w.run_wire(1, 0)
    w.run_wire(0, 1, moved)
    send.withdraw()
    memory[:] = bytes(LONG)
    w.run()
    assert receive.result() == pattern(LONG)


def test_withdrawn_send_that_was_not_matched_is_recalled() -> None:
    w = WireWorld(2, eager_limit=LIMIT)
    send = w.comms[0].isend((pattern(LONG),), LONG, 1, 0)
    w.run()
    send.withdraw()
    w.run()
    assert send.cancelled()
    assert w.comms[1].iprobe(ANY_SOURCE, ANY_TAG) is None


@pytest.mark.parametrize("moved", [HEADER_BYTES, HEADER_BYTES + 100, HEADER_BYTES + LARGE])
def test_withdrawn_receive_for_whose_message_there_is_no_memory(moved: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is written into the memory of that receive, the next receive fails, and credit is not lost."""

    def refuse(size: int) -> NoReturn:
        raise MemoryError(size)

    w = WireWorld(2, eager_limit=LARGE)
    memory = bytearray(LARGE)
    receive = irecv_into(w.comms[1], memory)
    isend(w.comms[0], pattern(LARGE), 1)
    isend(w.comms[0], b"next", 1)
    w.run_wire(0, 1, moved)
    before = bytes(memory)
    allocation._kept.clear()
    monkeypatch.setattr(allocation, "_fresh", refuse)
    receive.withdraw()
    assert receive.cancelled()
    w.run()
    assert memory == before
    with pytest.raises(OtherError, match=f"no memory for a message of {LARGE} bytes from rank 0"):
        irecv(w.comms[1]).result()
    assert irecv(w.comms[1]).result() == b"next"
    assert w.balanced(0, 1)


@pytest.mark.parametrize("argument", [1.5, "1", None])
def test_arguments_that_are_no_integers_change_nothing(argument: Any) -> None:
    w = LocalWorld(2)
    comm = w.comms[0]
    comm.isend((b"x",), 1, 1, 0)
    credit = w.engines[0].peer(1).credit
    with pytest.raises(TypeError):
        comm.isend((b"x",), 1, 1, argument)
    with pytest.raises(TypeError):
        comm.isend((b"x",), 1, argument, 0)
    with pytest.raises(TypeError):
        comm.irecv(None, argument, 0)
    with pytest.raises(TypeError):
        comm.irecv(None, 1, argument)
    with pytest.raises(TypeError):
        comm.checked_root(argument, "bcast")
    assert w.engines[0].peer(1).credit == credit
    assert not list(comm.matcher.posted())


def test_failed_decoding_stays_failed() -> None:
    w = LocalWorld(2)

    def decode(data: memoryview) -> Any:
        raise ValueError(bytes(data))

    first, second = (w.comms[1].irecv(None, 0, 0, decode) for _ in range(2))
    for data in (b"one", b"two"):
        w.comms[0].isend((data,), 3, 1, 0)
    for _ in range(2):
        with pytest.raises(ValueError, match="one"):
            first.result()
    assert isinstance(second.exception(), ValueError)
    with pytest.raises(ValueError, match="two"):
        second.result()


def test_nothing_is_received_after_the_job_has_ended() -> None:
    """Not even a message that has arrived is received, since its sender could not be answered."""
    w = WireWorld(2, eager_limit=LIMIT)
    for size in (1, LONG):
        w.comms[0].isend((pattern(size),), size, 1, 0)
    w.run()
    error = OSError("over")
    w.engines[1].failure.abort(error)
    for _ in range(2):
        assert irecv(w.comms[1]).exception() is error


def test_an_interrupted_decoding_can_be_done_again() -> None:
    w = LocalWorld(2)
    interrupts = [SystemExit("first"), KeyboardInterrupt("second")]

    def decode(data: memoryview) -> bytes:
        if interrupts:
            raise interrupts.pop(0)
        return bytes(data)

    receive = w.comms[1].irecv(None, 0, 0, decode)
    w.comms[0].isend((b"message",), 7, 1, 0)
    with pytest.raises(SystemExit, match="first"):
        receive.result()
    with pytest.raises(KeyboardInterrupt, match="second"):
        receive.exception()
    assert receive.result() == receive.result() == b"message"


def cancelled(w: WireWorld, receive: Any) -> None:
    assert receive.cancel()


def withdrawn(w: WireWorld, receive: Any) -> None:
    receive.withdraw()


def withdrawn_with_its_message(w: WireWorld, receive: Any) -> None:
    isend(w.comms[0], pattern(10), 1)
    w.run()
    receive.withdraw()
    assert irecv(w.comms[1]).result() == pattern(10)


def withdrawn_in_the_midst_of_its_message(w: WireWorld, receive: Any) -> None:
    isend(w.comms[0], pattern(LIMIT), 1)
    w.run_wire(0, 1, HEADER_BYTES + 100)
    receive.withdraw()
    w.run()
    assert irecv(w.comms[1]).result() == pattern(LIMIT)


def withdrawn_in_the_midst_of_one_that_is_too_long(w: WireWorld, receive: Any) -> None:
    isend(w.comms[0], pattern(3 * LIMIT), 1)
    for path in ((0, 1), (1, 0)):
        w.run_wire(*path)
    w.run_wire(0, 1, HEADER_BYTES + 100)
    receive.withdraw()


def truncated(w: WireWorld, receive: Any) -> None:
    isend(w.comms[0], pattern(LIMIT + 1), 1)
    w.run()
    with pytest.raises(TruncationError):
        receive.result()


def dismissed(w: WireWorld, receive: Any) -> None:
    w.engines[1].failure.abort(OSError("over"))
    with pytest.raises(OSError, match="over"):
        receive.result()


def dismissed_in_the_midst_of_its_message(w: WireWorld, receive: Any) -> None:
    isend(w.comms[0], pattern(LIMIT), 1)
    w.run_wire(0, 1, HEADER_BYTES + 100)
    dismissed(w, receive)


def failed_and_asked_why(w: WireWorld, receive: Any) -> None:
    isend(w.comms[0], pattern(LIMIT + 1), 1)
    w.run()
    assert isinstance(receive.exception(), TruncationError)


@pytest.mark.parametrize("gaps", [False, True])
@pytest.mark.parametrize(
    "end",
    [
        cancelled,
        dismissed_in_the_midst_of_its_message,
        failed_and_asked_why,
        withdrawn,
        withdrawn_with_its_message,
        withdrawn_in_the_midst_of_its_message,
        withdrawn_in_the_midst_of_one_that_is_too_long,
        truncated,
        dismissed,
    ],
)
def test_a_receive_that_ends_without_a_message_gives_its_memory_back(
    end: Callable[[WireWorld, Any], None], gaps: bool
) -> None:
    w = WireWorld(2, eager_limit=LIMIT)
    memory = bytearray(2 * LIMIT)
    if gaps:
        every_second = BYTE.Create_vector(LIMIT, 1, 2).Commit()
        receive: Any = w.comms[1].irecv(resolve_recv([memory, 1, every_second]), 0, 0)
    else:
        receive = irecv_into(w.comms[1], memoryview(memory)[:LIMIT])
    end(w, receive)
    memory.append(1)
    before = bytes(memory)
    w.run()
    assert memory == before, "later messages do not arrive here"
    assert receive.done()
    assert receive.cancelled() or receive.exception() is not None
