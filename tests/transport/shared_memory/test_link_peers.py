"""Links over shared memory with peers that hand over something else, break the rules or end."""

from __future__ import annotations

import errno
import fcntl
import itertools
import os
import socket
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from aiompi import errors
from aiompi.settings import MIN_RING
from aiompi.wire import frame
from aiompi.wire import memory as shared
from aiompi.wire.frame import HEADER
from support.frames import Header
from support.interrupts import called
from support.rings import PREFIX
from support.worlds import PolledWorld, RawPeer, irecv, isend

NewPolled = Callable[..., PolledWorld]
pytestmark = pytest.mark.usefixtures("no_segment_left")


def share(raw: RawPeer, size: bytes, fds: Sequence[int]) -> None:
    socket.send_fds(raw.socket, [size], list(fds))
    for fd in fds:
        os.close(fd)


def memory(nbytes: int, seals: int = shared._SEALS) -> int:
    fd = os.memfd_create("test", os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, nbytes)
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, seals)
    return fd


def null() -> int:
    return os.open(os.devnull, os.O_RDWR)


def doorbell() -> int:
    return os.eventfd(0, os.EFD_NONBLOCK)


def pipe() -> int:
    reading, writing = os.pipe2(os.O_NONBLOCK)
    os.close(reading)
    return writing


DOORBELLS: tuple[Callable[[], int], ...] = (doorbell, doorbell)
WHOLE = PREFIX + 2 * MIN_RING
BAD: dict[str, tuple[int | bytes, tuple[Callable[[], int], ...]]] = {
    "no descriptors": (MIN_RING, ()),
    "one descriptor": (MIN_RING, (lambda: memory(WHOLE),)),
    "too many descriptors": (MIN_RING, (lambda: memory(WHOLE), *DOORBELLS, *DOORBELLS)),
    "part of a size": (b"\0\0\0", (lambda: memory(WHOLE), *DOORBELLS)),
    "size zero": (0, (lambda: memory(PREFIX), *DOORBELLS)),
    "size too small": (MIN_RING // 2, (lambda: memory(PREFIX + MIN_RING), *DOORBELLS)),
    "size no power of two": (3 * MIN_RING, (lambda: memory(PREFIX + 6 * MIN_RING), *DOORBELLS)),
    "size too large": (2**63, (lambda: memory(WHOLE), *DOORBELLS)),
    "shorter than announced": (MIN_RING, (lambda: memory(WHOLE - 1), *DOORBELLS)),
    "not sealed": (MIN_RING, (lambda: memory(WHOLE, 0), *DOORBELLS)),
    "can be shrunk": (MIN_RING, (lambda: memory(WHOLE, fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL), *DOORBELLS)),
    "seals can be added": (MIN_RING, (lambda: memory(WHOLE, fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK), *DOORBELLS)),
    "no memory at all": (MIN_RING, (null, *DOORBELLS)),
    "no doorbell": (MIN_RING, (lambda: memory(WHOLE), doorbell, null)),
    "a pipe as a doorbell": (MIN_RING, (lambda: memory(WHOLE), pipe, doorbell)),
}


@pytest.mark.parametrize("case", BAD)
def test_peer_that_hands_over_something_else_is_dropped(polled: NewPolled, case: str) -> None:
    w = polled(ring_size=MIN_RING)
    receive = irecv(w.comms[0], 1)
    size, makers = BAD[case]
    with RawPeer(w, 0) as raw:
        raw.share = lambda: None  # type: ignore[method-assign]
        raw.greet()
        share(raw, size if isinstance(size, bytes) else size.to_bytes(8, "big"), [make() for make in makers])
        w.until(raw.dropped)
        w.until(receive.done)
    with pytest.raises(errors.ProcessFailedError, match="rank 1 is gone: "):
        receive.result()
    assert not w.transports[0].links


@pytest.mark.parametrize("rank", [0, 1])
def test_doorbells_that_cannot_be_heard(polled: NewPolled, rank: int) -> None:
    """The kernel limits the descriptors of a user in epoll. The link is lost on either side."""

    class Refusing:
        def __init__(self, driver: Any) -> None:
            self._driver = driver

        def __getattr__(self, name: str) -> Any:
            return getattr(self._driver, name)

        def add_doorbell(self, *_: object) -> None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    w = polled()
    w.engines[rank].driver = Refusing(w.engines[rank].driver)
    send, receive = isend(w.comms[0], bytes(10), 1), irecv(w.comms[1], 0)
    w.until(lambda: send.done() and receive.done())
    with pytest.raises(errors.ProcessFailedError):
        receive.result()
    assert not w.transports[rank].links


def test_peer_that_closes_instead(polled: NewPolled) -> None:
    w = polled()
    receive = irecv(w.comms[0], 1)
    with RawPeer(w, 0) as raw:
        raw.share = lambda: None  # type: ignore[method-assign]
        raw.greet()
        w.until(lambda: bool(w.links(0, 1)))
    w.until(receive.done)
    with pytest.raises(errors.ProcessFailedError, match="its connection closed"):
        receive.result()


def test_peer_that_speaks_on_the_socket_is_dropped(polled: NewPolled) -> None:
    w = polled()
    receive = irecv(w.comms[0], 1)
    with RawPeer(w, 0).greet() as raw:
        raw.socket.send(b"hello")
        w.until(raw.dropped)
        w.until(receive.done)
    assert isinstance(receive.exception(), errors.ProcessFailedError)


def test_peer_that_corrupts_the_ring_that_it_reads(polled: NewPolled) -> None:
    w = polled(ring_size=MIN_RING)
    with RawPeer(w, 0).greet() as raw:
        w.until(lambda: bool(w.links(0, 1)))
        w.poll()
        assert raw.segment is not None
        raw.segment.word("tail", 1)[0] = 2**60
        send = isend(w.comms[0], bytes(60_000), 1)
        w.until(send.done)
        assert isinstance(send.exception(), errors.ProcessFailedError)
        w.until(raw.dropped)


def test_peer_that_takes_credit_back(polled: NewPolled) -> None:
    w = polled(eager_limit=1000, eager_window=2000)
    with RawPeer(w, 0).greet() as raw:
        w.until(lambda: bool(w.links(0, 1)))
        w.poll()
        assert raw.segment is not None
        for granted in (2000, 1999):
            raw.segment.word("granted", 1)[0] = granted
            sends = [isend(w.comms[0], bytes(1000), 1) for _ in range(3)]
        w.until(sends[-1].done)
    assert isinstance(sends[-1].exception(), errors.ProcessFailedError)
    assert "has granted 1999 bytes, and before 2000" in str(sends[-1].exception())


def test_what_was_written_before_the_end_is_read(polled: NewPolled) -> None:
    """This holds even if the end is noticed first, because the doorbell may never have been rung."""
    w = polled()
    receives = [irecv(w.comms[0], 1) for _ in range(3)]
    with RawPeer(w, 0).greet() as raw:
        w.until(lambda: bool(w.links(0, 1)))
        w.poll()
        assert raw.segment is not None
        header = HEADER.pack(*Header(frame.EAGER, source=1, length=4))
        for i in range(2):
            raw.send(header + b"abc%d" % i)
    assert w.finish(*receives[:2]) == [b"abc0", b"abc1"]
    w.until(receives[2].done)
    assert isinstance(receives[2].exception(), errors.ProcessFailedError)


@pytest.mark.parametrize("finalize_error", [False, True])
def test_a_signal_handler_whose_call_finds_the_end_of_the_peer_first(polled: NewPolled, finalize_error: bool) -> None:
    for last in itertools.count():
        w = polled()
        w.finish(isend(w.comms[1], b"x", 0), irecv(w.comms[0]), isend(w.comms[0], b"y", 1), irecv(w.comms[1]))
        receive = irecv(w.comms[1], 0)
        w.until(lambda: len(w.links(1, 0)) == len(w.links(0, 1)))
        if finalize_error:
            w.engines[0].peer(1).emit(frame.FINI)
            w.until(lambda: w.engines[1].peer(0).finalize_error is not None)
        w.transports[0].close()
        link: Any = w.links(1, 0)[0]
        with called(last, lambda: link.closed or link._spoken()) as made:
            link._spoken()
        w.until(receive.done)
        assert link.closed
        assert ("has finalized" in str(receive.exception())) is finalize_error
        w.close()
        if not made:
            assert last > 20
            return
