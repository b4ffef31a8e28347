"""Links over shared memory: when memory is made, which end is woken, and how links spin."""

from __future__ import annotations

import os
import re
import resource
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from aiompi import errors
from aiompi.constants import CONTEXT_WORLD
from aiompi.settings import MIN_RING, Settings
from aiompi.transport.shared_memory import SharedMemory
from aiompi.transport.shared_memory.link import BEGUN, BUDGET, WRITTEN
from aiompi.transport.shared_memory.sharing import Segment
from aiompi.wire import frame
from aiompi.wire import memory as shared
from aiompi.wire.frame import HEADER
from support.worlds import PolledWorld, irecv, irecv_into, isend, pattern, rings, segments

NewPolled = Callable[..., PolledWorld]
WHOLE = 131072
pytestmark = pytest.mark.usefixtures("no_segment_left")


# When memory is made.


def test_memory_is_made_for_pairs_that_talk(polled: NewPolled) -> None:
    before = segments()
    w = polled(6)
    assert segments() == before
    w.finish(isend(w.comms[0], b"x", 1), irecv(w.comms[1]))
    assert segments() == before + 2, "both ends of one"
    w.finish(isend(w.comms[1], b"x", 0), irecv(w.comms[0]))
    assert segments() == before + 2
    w.finish(isend(w.comms[5], b"x", 2), irecv(w.comms[2]))
    assert segments() == before + 4


def test_memory_in_use_is_in_proportion_to_what_was_sent(polled: NewPolled) -> None:
    """A ring is large, but pages that were never written take no memory."""
    w = polled(ring_size=2**24)
    for i in range(2000):
        w.finish(isend(w.comms[0], pattern(100, i), 1), irecv(w.comms[1]))
    resident = 0
    for mapping in re.split(r"\n(?=[0-9a-f]+-)", Path("/proc/self/smaps").read_text()):
        if "/memfd:aiompi" in mapping:
            resident = max(resident, int(re.search(r"Rss: +(\d+)", mapping)[1]) * 1024)  # type: ignore[index]
    assert 0 < resident < 512 * 2**10


@pytest.mark.parametrize("size", [2**12, 2**16, 2**21])
def test_size_is_a_setting(polled: NewPolled, size: int) -> None:
    w = polled(ring_size=size)
    data = pattern(300_000)
    w.finish(isend(w.comms[0], data, 1), irecv(w.comms[1]))
    link: Any = w.links(0, 1)[0]
    assert link._ring.size == size


@pytest.mark.parametrize("size", [0, 2**11, 2**12 + 1, 3 * 2**12, 2**31])
def test_sizes_that_cannot_be(size: int) -> None:
    with pytest.raises(errors.InvalidArgumentError, match=f"ring_size .* {size}"):
        Settings(ring_size=size)


def test_not_offered_where_the_kernel_refuses(polled: NewPolled, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> int:
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(os, "memfd_create", refuse)
    assert not shared.available(1)
    assert polled().addresses == [None, None]


def test_memory_beyond_a_limit_of_the_process_is_not_offered() -> None:
    nbytes, limits = 2**20, resource.getrlimit(resource.RLIMIT_FSIZE)
    assert shared.available(nbytes)
    resource.setrlimit(resource.RLIMIT_FSIZE, (nbytes - 1, limits[1]))
    try:
        assert not shared.available(nbytes)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def test_a_rank_without_memory_reaches_no_rank_by_it(polled: NewPolled, monkeypatch: pytest.MonkeyPatch) -> None:
    address = polled().addresses[1]
    monkeypatch.setattr(shared, "available", lambda nbytes: False)
    lacking = polled().transports[0]
    assert not lacking.reaches(lacking.engine.peer(1), address)


@pytest.mark.parametrize("function", ["create", "receive"])
def test_a_rank_without_memory_for_a_segment_tells_so_at_once(
    polled: NewPolled, monkeypatch: pytest.MonkeyPatch, function: str
) -> None:
    w = polled()
    for engine in w.engines:
        engine.environment.lost = lambda peer, cause: None  # as long as the agent has not reported why

    def refuse(*_: object) -> Segment:
        raise OSError(12, "Cannot allocate memory")

    monkeypatch.setattr(Segment, function, refuse)
    send, receive = isend(w.comms[0], bytes(10**5), 1), irecv(w.comms[1], 0)
    failed, waits = (send, receive) if function == "create" else (receive, send)
    w.until(failed.done)
    with pytest.raises(errors.OtherError, match=r"cannot be reached: this process has no .*Cannot allocate memory"):
        failed.result()
    w.until(lambda: not w.links(0, 1) and not w.links(1, 0))
    assert not waits.done(), "why the other one has closed only the agent can tell"


def test_a_rank_without_memory_for_one_of_two_links_tells_so_at_once(
    polled: NewPolled, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Queued frames are lost, although the link that the other rank has made works."""
    w = polled()
    create, lacking = Segment.create, w.transports[0].ring_size
    w.transports[1].ring_size = 2 * lacking
    for engine in w.engines:
        engine.environment.lost = lambda peer, cause: None

    def refuse(size: int, sock: socket.socket) -> Segment:
        if size == lacking:
            w.until(lambda: bool(w.links(0, 1)) and any(link._segment for link in w.links(0, 1)))
            raise OSError(12, "Cannot allocate memory")
        return create(size, sock)

    monkeypatch.setattr(Segment, "create", refuse)
    receive = irecv(w.comms[0], 1, tag=1)
    sends = [isend(comm, bytes(10**5), 1 - comm.rank) for comm in w.comms]
    w.until(sends[0].done)
    for request in (sends[0], receive):
        with pytest.raises(errors.OtherError, match="cannot be reached: this process has no resources left"):
            request.result()


@pytest.mark.parametrize("gone", [False, True])
def test_sends_that_are_complete_and_cannot_leave_for_want_of_memory_end_the_job(
    polled: NewPolled, monkeypatch: pytest.MonkeyPatch, gone: bool
) -> None:
    """This does not hold if the receiver has finalized, and would not have received them anyway."""
    w = polled()
    reported: list[BaseException] = []
    w.engines[0].unfit = reported.append
    w.engines[0].environment.lost = lambda peer, cause: None

    def refuse(*_: object) -> Segment:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(Segment, "create", refuse)
    link: Any = w.engines[0].peer(1).connect()
    link._queue.copying = True  # as with progress in the background
    send = isend(w.comms[0], b"x", 1)
    assert send.done()
    if gone:
        w.engines[0].peer(1).mark_finalized()
    w.until(lambda: not w.links(0, 1))
    assert [str(error).partition(":")[0] for error in reported] == ([] if gone else ["rank 1 cannot be reached"])
    assert send.result() is None


def test_both_connect_at_once(polled: NewPolled) -> None:
    w = polled()
    sends = [isend(w.comms[own], pattern(200_000, own), 1 - own) for own in range(2)]
    receives = [irecv(comm) for comm in w.comms]
    assert w.finish(*receives, *sends)[:2] == [pattern(200_000, 1), pattern(200_000, 0)]
    assert len(w.links(0, 1)) == len(w.links(1, 0)) == 2
    assert isinstance(w.transports[0], SharedMemory)


# Which end is woken.


def test_reader_that_is_awake_is_not_rung_for(polled: NewPolled) -> None:
    w = polled()
    w.finish(isend(w.comms[0], b"x", 1), irecv(w.comms[1]))
    w.poll()
    before = rings(w)[0]
    receives = [irecv(w.comms[1]) for _ in range(50)]
    sends = [isend(w.comms[0], pattern(100, i), 1) for i in range(50)]
    assert rings(w)[0] == before + 1
    w.finish(*receives, *sends)
    assert rings(w)[0] == before + 1


def test_no_rank_is_woken_for_credit(polled: NewPolled) -> None:
    w = polled(eager_limit=1000, eager_window=4000)
    w.finish(isend(w.comms[0], b"x", 1), irecv(w.comms[1]))
    w.poll()
    receives = [irecv(w.comms[1]) for _ in range(20)]
    before = rings(w)[1]
    for i, receive in enumerate(receives):
        assert isend(w.comms[0], pattern(1000, i), 1).done(), "the sender does not know of its credit"
        while not receive.done():
            w.drivers[1].poll()
        assert receive.result() == pattern(1000, i)
    assert rings(w)[1] == before, "the sender has been woken"
    assert w.balanced(0, 1)


def test_copies_that_credit_pays_for_leave_an_event_loop_its_turns(polled: NewPolled) -> None:
    w = polled(eager_limit=1000, eager_window=4000)
    for driver in w.drivers:
        driver.background = True  # as if each were that of an event loop
    w.finish(isend(w.comms[0], b"x", 1), irecv(w.comms[1]))
    w.poll()
    receives, sends = [irecv(w.comms[1]) for _ in range(20)], []
    for number, receive in enumerate(receives):
        sends.append(isend(w.comms[0], pattern(1000, number), 1))
        while sends[-1].done() and not receive.done():
            w.drivers[1].poll()
    assert 3 <= [send.done() for send in sends].index(False) <= 8, "not what was there and was found at one look"
    assert w.finish(*receives) == [pattern(1000, number) for number in range(20)]
    w.finish(*sends)
    w.poll()
    assert w.balanced(0, 1)


def test_credit_is_known_whichever_link_it_is_granted_by(polled: NewPolled) -> None:
    w = polled(eager_limit=1000, eager_window=4000)
    w.finish(*(isend(w.comms[own], b"x", 1 - own) for own in range(2)), *(irecv(comm) for comm in w.comms))
    assert len(w.links(0, 1)) == len(w.links(1, 0)) == 2, "each rank sends by the link that it has made"
    for i in range(50):
        sender, receiver = i % 2, 1 - i % 2
        send = isend(w.comms[sender], pattern(1000, i), receiver)
        assert send.done()
        assert w.finish(irecv(w.comms[receiver]), send)[0] == pattern(1000, i)
    assert w.balanced(0, 1)
    assert w.balanced(1, 0)


def test_error_in_a_turn_loses_no_wakeup(polled: NewPolled) -> None:
    w = polled()
    w.finish(isend(w.comms[0], b"x", 1), irecv(w.comms[1]))
    receives = [irecv(w.comms[1]) for _ in range(3)]
    receives[0].when_done(lambda _: int("a signal handler"))
    for i in range(3):
        isend(w.comms[0], pattern(10, i), 1)
    with pytest.raises(ValueError, match="a signal handler"):
        w.finish(*receives)
    assert w.finish(*receives) == [pattern(10, i) for i in range(3)]


def test_frame_leaves_as_a_whole_or_not_at_all_and_in_turn(polled: NewPolled) -> None:
    w = polled(ring_size=MIN_RING)
    link: Any = w.engines[0].peer(1).connect()
    header = HEADER.pack(frame.EAGER, 0, 0, 0, CONTEXT_WORLD, 1000, 0, 0)
    first, second = pattern(1000, 1), pattern(1000, 2)
    assert not link.dispatch(header, (first,)), "there is no memory yet"
    w.finish(isend(w.comms[0], b"x", 1), irecv(w.comms[1]))
    sent = 0
    while link.dispatch(header, (first,)):
        sent += 1
    assert 1 <= sent <= 3
    assert not link.dispatch(header, (second,)), "there is no room"
    w.until(lambda: w.comms[1].iprobe(0, 0) is not None)
    assert w.finish(*(irecv(w.comms[1]) for _ in range(sent))) == [first] * sent
    w.poll()
    assert w.comms[1].iprobe(0, 0) is None, "a part of the second one has left"
    long = HEADER.pack(frame.EAGER, 0, 0, 0, CONTEXT_WORLD, 5000, 0, 0)
    link.send(long, (pattern(5000),), None)
    link.send(header, (second,), None)
    assert not link.dispatch(HEADER.pack(frame.EAGER, 0, 0, 0, CONTEXT_WORLD, 0, 0, 0), ()), "it overtakes the second"
    assert w.finish(irecv(w.comms[1]), irecv(w.comms[1])) == [pattern(5000), second]


def test_pieces_leave_as_one_frame_unless_they_are_long(polled: NewPolled) -> None:
    w = polled(ring_size=2**22)
    w.finish(isend(w.comms[0], b"x", 1), irecv(w.comms[1]))
    link: Any = w.links(0, 1)[0]
    pieces = pattern(100, 1), pattern(WHOLE - 100, 2), b"x"
    header = HEADER.pack(frame.EAGER, 0, 0, 0, CONTEXT_WORLD, WHOLE, 0, 0)
    assert link.dispatch(header, pieces[:2])
    assert w.finish(irecv(w.comms[1])) == [b"".join(pieces[:2])]
    header = HEADER.pack(frame.EAGER, 0, 0, 0, CONTEXT_WORLD, WHOLE + 1, 0, 0)
    assert not link.dispatch(header, pieces)
    link.send(header, pieces, None)
    assert w.finish(irecv(w.comms[1])) == [b"".join(pieces)]


def test_a_turn_writes_so_much_and_no_more(polled: NewPolled) -> None:
    w = polled(ring_size=2**24)
    w.finish(isend(w.comms[0], b"x", 1), irecv(w.comms[1]))
    link: Any = w.links(0, 1)[0]
    half = bytes(2**22)
    header = HEADER.pack(frame.EAGER, 0, 0, 0, CONTEXT_WORLD, 2 * len(half), 0, 0)
    link.send(header, (half, half), None)
    left = [link._queue[0].nbytes]
    for _ in range(2):
        w.drivers[0].poll()
        left.append(link._queue[0].nbytes)
    assert [2 * len(half) - left[0], left[0] - left[1], left[1] - left[2]] == [BEGUN, WRITTEN, WRITTEN]


def test_a_turn_reads_so_much_and_no_more(polled: NewPolled) -> None:
    w = polled(ring_size=2**24)
    w.finish(isend(w.comms[0], b"x", 1), irecv(w.comms[1]))
    w.poll()
    link: Any = w.links(0, 1)[0]
    nbytes, number = 2**20, 8
    receives = [irecv(w.comms[1]) for _ in range(number)]
    for _ in range(number):
        link.send(HEADER.pack(frame.EAGER, 0, 0, 0, CONTEXT_WORLD, nbytes, 0, 0), (bytes(nbytes),), None)
    while not link.idle:
        w.drivers[0].poll()
    reader: Any = w.links(1, 0)[0]
    before = reader._ring.position
    reader._turn()
    assert BUDGET - nbytes < reader._ring.position - before <= BUDGET
    w.finish(*receives)


# Spinning.


def test_reader_that_lingers_is_not_rung_for(polled: NewPolled) -> None:
    w = polled()
    w.finish(isend(w.comms[0], b"x", 1), irecv(w.comms[1]))
    for driver in w.drivers:
        driver.spin(60.0)
    w.finish(isend(w.comms[0], b"x", 1), irecv(w.comms[1]))
    before = rings(w)
    for i in range(20):
        assert w.finish(irecv(w.comms[1]), isend(w.comms[0], pattern(100, i), 1))[0] == pattern(100, i)
    assert rings(w) == before


@pytest.mark.parametrize("nbytes", [8, 60_000, 300_000])
def test_lingering_and_resting_lose_nothing(polled: NewPolled, nbytes: int) -> None:
    """Links are polled only now and then, because each spin is too short to find anything, or is skipped."""
    w = polled(ring_size=2**16)
    for driver in w.drivers:
        driver.spin(1e-6)
    for i in range(50):
        sends = [isend(w.comms[own], pattern(nbytes, i), 1 - own) for own in range(2)]
        if i % 3 == 0:
            for driver in w.drivers:
                driver._turn(0.001)
        receives = [irecv(comm) for comm in w.comms]
        assert w.finish(*receives, *sends)[:2] == [pattern(nbytes, i)] * 2


def test_ranks_that_spin_wake_no_rank_for_a_long_message(polled: NewPolled, monkeypatch: pytest.MonkeyPatch) -> None:
    w = polled(ring_size=2**23)
    for driver in w.drivers:
        driver.spin(60.0)
    for own in range(2):
        w.finish(isend(w.comms[own], b"x", 1 - own), irecv(w.comms[1 - own]))
    before = rings(w)
    monkeypatch.setattr(Segment, "ring_self", lambda self: pytest.fail("rung"))
    message = pattern(2**24)  # longer than the ring, and several turns
    assert w.finish(irecv(w.comms[1]), isend(w.comms[0], message, 1))[0] == message
    assert rings(w) == before


def test_link_is_stale_when_nothing_was_read_or_is_to_be_written(polled: NewPolled) -> None:
    w = polled(ring_size=2**23)
    link: Any = None
    for _ in range(2):
        w.finish(isend(w.comms[0], b"x", 1), irecv(w.comms[1]))
        link = w.links(1, 0)[0]
        assert [link.stale() for _ in range(2)] == [False, True]
    message = pattern(2**24)
    receive, send = irecv(w.comms[0]), isend(w.comms[1], message, 0)
    while not link._queue:
        w.poll()
    assert not link.stale()
    assert not link.stale()
    assert w.finish(receive, send)[0] == message


def test_closed_link_lingers_no_longer(polled: NewPolled) -> None:
    w = polled()
    for driver in w.drivers:
        driver.spin(0.001)
    w.finish(isend(w.comms[0], b"x", 1), irecv(w.comms[1]))
    assert any(driver._pollers for driver in w.drivers)
    for transport_ in w.transports:
        transport_.close()
    for driver in w.drivers:
        driver._turn(0.01)
        assert driver._pollers == []


def test_a_message_that_closes_the_link_that_is_polled(polled: NewPolled) -> None:
    """For example, a message that is too long for a receive whose request was freed ends the job."""
    w = polled(single_copy=False, shm_eager_limit=0)
    w.finish(isend(w.comms[0], b"x", 1), irecv(w.comms[1]))
    w.poll()
    engine, link = w.engines[1], w.links(1, 0)[0]
    engine.environment.fatal = lambda error: w.transports[1].close()
    engine.disown(irecv_into(w.comms[1], bytearray(2**18)))
    isend(w.comms[0], bytes(2**19), 1)
    for _ in range(100):
        w.drivers[0].poll()
        link.poll(range(1))
    assert link.closed


@pytest.mark.parametrize("blocks", [True, False])
def test_rank_that_blocks_for_a_message_leaves_short_ones_behind_it_in_the_ring(
    polled: NewPolled, blocks: bool
) -> None:
    w = polled()
    driver = w.drivers[1]
    driver.spin(60.0)
    w.finish(isend(w.comms[0], b"x", 1), irecv(w.comms[1]))
    link: Any = w.links(1, 0)[0]
    w.until(lambda: link._lingering)
    receive = irecv(w.comms[1])
    for tag in range(3):
        assert isend(w.comms[0], pattern(8, tag), 1, tag).done()
    if blocks:
        driver.finish(receive)
    else:
        driver.wait_until(receive.done, [receive])
    assert not driver.single
    assert link._ring.pending == blocks
    assert [driver.wait(irecv(w.comms[1], 0, tag)) for tag in (2, 1)] == [pattern(8, 2), pattern(8, 1)]


def test_copy_of_a_rank_leaves_the_memory_alone(polled: NewPolled) -> None:
    w = polled()
    w.finish(isend(w.comms[0], b"x", 1), irecv(w.comms[1]))
    (link,) = list[Any](w.transports[1].links)
    segment, memory = link._segment, link._segment.memory
    isend(w.comms[0], b"for the parent", 1)
    w.transports[1].disown()
    before = bytes(memory)
    assert link.peer.ring is None
    link.peer.emit(frame.FINI)
    link.look()
    assert not link.grant(100)
    assert not link.poll(None)
    assert bytes(memory) == before
    segment.close()
