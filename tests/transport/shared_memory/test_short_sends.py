"""Short messages that are put into the ring by the call that sends them, and those that must wait for others."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from aiompi import errors
from aiompi.constants import ANY_SOURCE, PROC_NULL
from aiompi.core import look
from aiompi.wire import frame
from aiompi.wire.frame import HEADER
from support.frames import Header
from support.limits import LIMIT
from support.worlds import PolledWorld, irecv, irecv_into, isend, pattern

NewPolled = Callable[..., PolledWorld]
pytestmark = pytest.mark.usefixtures("no_segment_left")


def connected(polled: NewPolled, **settings: Any) -> PolledWorld:
    w = polled(**settings)
    w.finish(isend(w.comms[0], b"first", 1), irecv(w.comms[1]))
    return w


def test_an_array_is_sent_at_once(polled: NewPolled) -> None:
    w = connected(polled)
    comm = w.comms[0]
    assert comm.send_short(np.arange(5), 1, 3)
    room = bytearray(40)
    w.finish(irecv_into(w.comms[1], room, 0, 3))
    assert room == np.arange(5).tobytes()
    assert comm.send((b"a", b"", memoryview(b"bc")), 3, 1, 4) is comm.engine.completed_send
    assert w.finish(irecv(w.comms[1], 0, 4)) == [b"abc"]


@pytest.mark.parametrize(
    ("spec", "dest", "tag"),
    [
        (b"bytes", 1, 0),
        (np.zeros((4, 4))[:, 1], 1, 0),  # with gaps
        (np.zeros(20000), 1, 0),  # too long
        (np.array([None]), 1, 0),
        (np.zeros(1), np.int64(1), 0),
        (np.zeros(1), PROC_NULL, 0),
        (np.zeros(1), 0, 0),  # itself
        (np.zeros(1), 2**70, 0),
        (np.zeros(1), 1, 2**70),
        (np.zeros(1), 1, -1),
        (np.zeros(1), 7, 0),
        (np.zeros(1), "1", 0),
    ],
)
def test_what_is_not_simple_is_left_to_others(polled: NewPolled, spec: Any, dest: Any, tag: Any) -> None:
    w = connected(polled)
    assert not w.comms[0].send_short(spec, dest, tag)


@pytest.mark.parametrize("rank", [2, 2**31, 2**64, -5])
def test_wrong_ranks_are_named(polled: NewPolled, rank: int) -> None:
    w = connected(polled)
    with pytest.raises(errors.InvalidRankError, match=f"destination {rank}"):
        w.comms[0].send((b"x",), 1, rank, 0)
    with pytest.raises(errors.InvalidRankError, match=f"source {rank}"):
        w.comms[0].irecv(None, rank, 0, bytes)


def test_a_freed_communicator_receives_from_nobody(polled: NewPolled) -> None:
    w = connected(polled)
    w.comms[1].release()
    with pytest.raises(errors.InvalidCommError, match="freed"):
        w.comms[1].irecv(None, ANY_SOURCE, 0, bytes)
    with pytest.raises(errors.InvalidCommError, match="freed"):
        w.comms[1].send((b"x",), 1, 0, 0)


def test_no_message_overtakes_one_that_waits_for_room(polled: NewPolled) -> None:
    w = connected(polled, eager_limit=2**20, shm_eager_limit=2**20, eager_window=2**24)
    sent = [pattern(100_000, i) if i % 3 else pattern(10, i) for i in range(60)]
    requests = [isend(w.comms[0], each, 1) for each in sent]
    assert not all(request.done() for request in requests), "the ring has room for everything"
    assert not w.comms[0].send_short(np.zeros(1), 1, 0)
    assert w.finish(*(irecv(w.comms[1]) for _ in sent)) == sent
    w.finish(*requests)
    assert w.comms[0].send_short(np.zeros(1), 1, 0), "the ring is free again"


def test_credit_bounds_short_messages(polled: NewPolled) -> None:
    w = connected(polled, eager_window=2048)
    comm = w.comms[0]
    sent = 0
    while comm.send_short(np.array([sent]), 1, 0):
        sent += 1
        assert sent < 100
    rest = [isend(comm, np.array([sent + i]).tobytes(), 1) for i in range(3)]
    got = [w.finish(irecv(w.comms[1]))[0] for _ in range(sent + 3)]
    assert [int.from_bytes(each, "little") for each in got] == [*range(sent + 3)]
    w.finish(*rest)


def test_nothing_is_put_into_the_ring_of_a_link_that_has_ended(polled: NewPolled) -> None:
    w = connected(polled)
    (link,) = list[Any](w.links(0, 1))
    link.lost("the test ends it")
    assert not w.comms[0].send_short(np.zeros(1), 1, 0)


def test_pieces_that_are_no_message_of_the_length_are_refused(polled: NewPolled) -> None:
    w = connected(polled)
    with pytest.raises(errors.InternalError, match="pieces"):
        w.comms[0].send((b"abc",), 2, 1, 0)
    with pytest.raises(errors.InternalError, match="pieces"):
        w.comms[0].send((b"abc",), 4, 1, 0)
    assert w.comms[0].send((b"abc",), 3, 1, 0).done()
    assert w.finish(irecv(w.comms[1])) == [b"abc"]


def test_other_threads_run_while_rings_are_looked_at(polled: NewPolled) -> None:
    """Another thread writes what is found."""
    w = connected(polled)
    links, other = list[Any](w.links(0, 1)), w.links(1, 0)[0]
    begin = threading.Event()

    def write() -> None:
        begin.wait()
        other.dispatch(HEADER.pack(*Header(frame.EAGER, source=1, tag=3)), ())

    thread = threading.Thread(target=write)
    thread.start()
    receive = irecv(w.comms[0], 1, 3)
    begin.set()
    assert look(links, range(1), LIMIT)
    thread.join()
    assert w.finish(receive) == [b""]
