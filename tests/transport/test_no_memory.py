"""Messages for which a rank has no memory: their receives fail, and neither order nor credit is lost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import pytest

from aiompi.core import allocation
from aiompi.core.allocation import LARGE
from aiompi.errors import OtherError
from support.worlds import PolledWorld, irecv, isend, pattern

NewPolled = Callable[..., PolledWorld]
#: eager, and copied once or by rendezvous
LENGTHS = (LARGE, 2 * LARGE)


@pytest.fixture
def exhausted(monkeypatch: pytest.MonkeyPatch) -> Callable[[bool], None]:
    """Return a function that makes large allocations fail, or succeed again."""

    def refuse(size: int) -> NoReturn:
        raise MemoryError(size)

    fresh = allocation._fresh

    def exhaust(empty: bool) -> None:
        allocation._kept.clear()
        monkeypatch.setattr(allocation, "_fresh", refuse if empty else fresh)

    return exhaust


def connected(polled: NewPolled) -> PolledWorld:
    """Return ranks that read each other's memory, if their transport can."""
    w = polled(eager_limit=LARGE, shm_eager_limit=LARGE)
    for _ in range(3):
        w.finish(isend(w.comms[0], pattern(2 * LARGE), 1), irecv(w.comms[1]))
    return w


def refused(w: PolledWorld, receive: Any, nbytes: int) -> None:
    w.until(receive.done)
    with pytest.raises(OtherError, match=f"^no memory for a message of {nbytes} bytes from rank 0 with tag 7$"):
        receive.result()


@pytest.mark.parametrize("sync", [False, True])
@pytest.mark.parametrize("nbytes", LENGTHS)
@pytest.mark.parametrize("posted", [False, True])
def test_its_receive_fails(
    polled: NewPolled, exhausted: Callable[[bool], None], posted: bool, nbytes: int, sync: bool
) -> None:
    w = connected(polled)
    receives = [irecv(w.comms[1], 0, 7) for _ in range(3)] if posted else []
    exhausted(True)
    parts = pattern(10), pattern(nbytes), pattern(20)
    sends = [isend(w.comms[0], part, 1, 7, sync=sync and part is parts[1]) for part in parts]
    if not posted:
        w.until(lambda: w.comms[1].matcher.arrivals == 3)
        for _ in range(20):
            w.poll()
        receives = [irecv(w.comms[1], 0, 7) for _ in range(3)]
    refused(w, receives[1], nbytes)
    assert w.finish(receives[0], receives[2]) == [parts[0], parts[2]]
    w.finish(*sends)
    assert w.held(1, 0) == 0
    assert w.balanced(0, 1)
    exhausted(False)
    assert w.finish(irecv(w.comms[1]), isend(w.comms[0], parts[1], 1))[0] == parts[1]


@pytest.mark.parametrize("sync", [False, True])
@pytest.mark.parametrize("nbytes", LENGTHS)
def test_a_receive_of_a_probed_message_fails(
    polled: NewPolled, exhausted: Callable[[bool], None], nbytes: int, sync: bool
) -> None:
    w = connected(polled)
    exhausted(True)
    send = isend(w.comms[0], pattern(nbytes), 1, 7, sync=sync)
    w.until(lambda: w.comms[1].iprobe(0, 7) is not None)
    for _ in range(20):
        w.poll()
    _, message = w.comms[1].improbe(0, 7)
    assert message is not None
    assert message.envelope().nbytes == nbytes
    exhausted(False)
    if nbytes > LARGE:  # it was announced first, and needs no memory before it is received
        assert w.finish(w.comms[1].imrecv(message, None, bytes))[0] == pattern(nbytes)
    else:
        refused(w, w.comms[1].imrecv(message, None, bytes), nbytes)
    w.finish(send)
    assert w.balanced(0, 1)


def test_one_that_is_recalled(polled: NewPolled, exhausted: Callable[[bool], None]) -> None:
    w = connected(polled)
    exhausted(True)
    send = isend(w.comms[0], pattern(LARGE), 1, 7, sync=True)
    w.until(lambda: w.comms[1].iprobe(0, 7) is not None)
    send.cancel()
    w.finish(send)
    assert send.cancelled()
    assert w.held(1, 0) == 0
    assert w.balanced(0, 1)


def test_a_message_into_memory_with_gaps(polled: NewPolled) -> None:
    class Gaps:
        nbytes = 5000

        def packed(self) -> NoReturn:
            raise NotImplementedError

        def unpack(self, payload: memoryview) -> NoReturn:
            raise MemoryError

    w = connected(polled)
    for nbytes in (10, 5000):
        send, receive = isend(w.comms[0], pattern(nbytes), 1, 7), w.comms[1].irecv(Gaps(), 0, 7)
        refused(w, receive, nbytes)
        w.finish(send)
    assert w.balanced(0, 1)
