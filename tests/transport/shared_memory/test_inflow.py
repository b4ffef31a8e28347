"""Messages that are read while they are written, and readers that are woken before a message is written."""

from __future__ import annotations

import os
import socket
import struct
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from frames import Header
from worlds import PolledWorld, RawPeer, irecv, irecv_into, isend, on_ring, pattern

from aiompi import errors
from aiompi.constants import PROC_NULL
from aiompi.driver.spin import yield_core_until
from aiompi.engine.credit import OVERHEAD
from aiompi.transport.shared_memory import export, pool
from aiompi.transport.shared_memory.export import PREFIX
from aiompi.transport.shared_memory.link import RingLink
from aiompi.transport.shared_memory.ring import EARLY, IN_POOL, PLACE, WATCHING
from aiompi.wire import frame
from aiompi.wire import memory as wire_memory
from aiompi.wire.frame import HEADER

NewPolled = Callable[..., PolledWorld]
LONG = 300_000
STEPS = 30


class Counting:
    """The numbers of a pool. Something happens after each store.

    Args:
        numbers: the true ones.
        then: what happens; called with the number.

    Attributes:
        counted: all numbers so far.
    """

    def __init__(self, numbers: memoryview, then: Callable[[int], object]) -> None:
        self._numbers = numbers
        self.then = then
        self.counted: list[int] = []

    def __getitem__(self, index: int) -> int:
        return self._numbers[index]

    def __setitem__(self, index: int, number: int) -> None:
        self._numbers[index] = number
        self.counted.append(number)
        if number:
            self.then(number)


@pytest.fixture
def world(polled: NewPolled, monkeypatch: pytest.MonkeyPatch) -> PolledWorld:
    """Return two ranks. Rank 1 has imported the pool of rank 0, and a message is written in 30 steps."""
    monkeypatch.setattr(pool, "_STEP", LONG // STEPS)
    w = polled(2, shm_eager_limit=LONG)
    w.engines[0].core_per_rank = True
    w.finish(isend(w.comms[0], b"x", 1), irecv(w.comms[1]))
    own: Any = w.transports[0]
    own.own_pool()
    w.open(0, own.pool)
    for _ in range(10):
        w.poll()
    return w


def counting(w: PolledWorld, then: Callable[[int], object]) -> Counting:
    """Make something happen while rank 0 writes."""
    own: Any = w.transports[0]
    own.pool._numbers = numbers = Counting(own.pool._numbers, then)
    return numbers


def nothing_held(w: PolledWorld) -> bool:
    """Return True if no block of the pool of rank 0 is in use and no credit is lost."""
    own: Any = w.transports[0]
    own.pool._sweep()
    return not own.pool._blocks and w.balanced(0, 1)


@pytest.mark.parametrize("often", [1, 7, STEPS])
@pytest.mark.parametrize("posted", [True, False])
def test_it_is_read_while_it_is_written(world: PolledWorld, often: int, posted: bool) -> None:
    w = world
    filled: list[int] = []

    def read(number: int) -> None:
        if number // (LONG // STEPS) % often == 0:
            w.drivers[1].poll()
            filled.extend(landing.filled for landing in w.engines[1].peer(0).landings)

    numbers = counting(w, read)
    receives = [irecv(w.comms[1])] if posted else []
    send = isend(w.comms[0], pattern(LONG), 1)
    assert send.done()
    assert numbers.counted == list(range(LONG // STEPS, LONG + 1, LONG // STEPS))
    if often < STEPS:
        assert filled[0] == often * LONG // STEPS, "what is there is read at once"
    receives = receives or [irecv(w.comms[1])]
    assert w.finish(*receives) == [pattern(LONG)]
    assert nothing_held(w)


def test_it_needs_no_request_of_its_own(world: PolledWorld) -> None:
    w, engine = world, world.engines[0]
    request = w.comms[0].send((memoryview(pattern(LONG)),), LONG, 1, 0)
    assert request is engine.completed_send
    assert w.finish(request, irecv(w.comms[1])) == [None, pattern(LONG)]
    assert not engine.sends
    assert nothing_held(w)


@pytest.mark.parametrize("comes", [True, False])
def test_a_reader_lets_others_run_once_if_they_keep_the_core(monkeypatch: pytest.MonkeyPatch, comes: bool) -> None:
    number = memoryview(bytearray(8)).cast("Q")
    imported: Any = SimpleNamespace(read=lambda place, nbytes: memoryview(bytearray(nbytes)))
    stream = pool.PoolStream(imported, 0, LONG, yield_core_until)
    stream._number = number
    yields: list[int] = []

    def keep() -> None:
        yields.append(1)
        time.sleep(1e-3)
        number[0] = 100 * comes

    monkeypatch.setattr(os, "sched_yield", keep)
    assert len(stream.next()) == 100 * comes
    assert len(yields) == 1


def test_a_message_for_which_there_is_no_memory_is_read(world: PolledWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its block is free again, and later messages arrive."""
    w = world

    def refuse(nbytes: int) -> memoryview:
        monkeypatch.undo()
        raise MemoryError(f"{nbytes} bytes")

    monkeypatch.setattr("aiompi.engine.message.allocate", refuse)
    monkeypatch.setattr(pool, "_HOME", 0)
    isend(w.comms[0], pattern(LONG), 1)
    w.drivers[1].poll()
    with pytest.raises(errors.OtherError, match="no memory"):
        w.finish(irecv(w.comms[1]))
    assert w.finish(irecv(w.comms[1]), isend(w.comms[0], b"next", 1))[0] == b"next"
    own: Any = w.transports[0]
    own.pool._sweep()
    assert not own.pool._blocks


def test_a_reader_that_sleeps_is_woken_twice_at_most(world: PolledWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sender does so at the beginning, so that the reader wakes up meanwhile, and at the end if it sleeps again."""
    w = world
    monkeypatch.setattr(pool, "_PATIENCE", 0.0)
    rung: list[int] = []
    on_ring(w, rung.append)
    numbers = counting(w, lambda number: w.drivers[1].poll())
    receive = irecv(w.comms[1])
    isend(w.comms[0], pattern(LONG), 1)
    assert len(rung) == 2
    assert len(numbers.counted) == STEPS
    w.drivers[1].poll()
    assert receive.result() == pattern(LONG)
    w.drivers[1].poll()
    rung.clear()
    numbers.then = lambda number: None
    receive = irecv(w.comms[1])
    isend(w.comms[0], pattern(LONG, 1), 1)
    assert len(rung) == 1, "it has not looked meanwhile"
    w.drivers[1].poll()
    assert receive.result() == pattern(LONG, 1)


def test_a_reader_is_rung_for_at_the_end_only_where_ranks_share_cores(
    world: PolledWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    w = world
    w.engines[0].core_per_rank = False
    link: Any = w.engines[0].peer(1).link
    link._segment.outbound.uncrowded = False
    rung: list[int] = []
    on_ring(w, lambda rank: rung.append(numbers.counted[-1]))
    numbers = counting(w, lambda number: None)
    numbers.counted.append(0)
    receives = [irecv(w.comms[1]) for _ in range(2)]
    isend(w.comms[0], pattern(LONG), 1)
    assert rung == [LONG]
    w.drivers[1].poll()
    numbers.counted.append(0)
    isend(w.comms[0], pattern(EARLY), 1)
    assert rung == [LONG, 0]
    w.drivers[1].poll()
    assert [receive.result() for receive in receives] == [pattern(LONG), pattern(EARLY)]


def test_a_reader_that_spins(world: PolledWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    w = world
    w.drivers[1].spin(60.0)
    w.finish(isend(w.comms[0], b"x", 1), irecv(w.comms[1]))
    on_ring(w, lambda rank: pytest.fail("rung"))
    monkeypatch.setattr(pool, "_PATIENCE", 0.0)
    counting(w, lambda number: w.drivers[1].poll())
    for i in range(3):
        receive = irecv(w.comms[1])
        isend(w.comms[0], pattern(LONG, i), 1)
        w.drivers[1].poll()
        assert receive.result() == pattern(LONG, i)


def test_short_ones_follow_it_in_order(world: PolledWorld) -> None:
    w = world
    receives = [irecv(w.comms[1]) for _ in range(3)]
    counting(w, lambda number: number == LONG // 2 and w.drivers[1].poll())
    sends = [isend(w.comms[0], data, 1) for data in (b"before", pattern(LONG), b"behind")]
    assert w.finish(*receives, *sends)[:3] == [b"before", pattern(LONG), b"behind"]


@pytest.mark.parametrize("when", [1, STEPS // 2, STEPS])
def test_a_signal_handler_that_interrupts_the_writer(world: PolledWorld, when: int) -> None:
    """The message has been announced to the peer. Therefore it arrives, and uses credit."""
    w = world

    def interrupt(number: int) -> None:
        w.drivers[1].poll()
        if number == when * LONG // STEPS and not interrupted:
            interrupted.append(number)
            raise KeyboardInterrupt

    interrupted: list[int] = []
    numbers = counting(w, interrupt)
    receive = irecv(w.comms[1])
    with pytest.raises(KeyboardInterrupt):
        isend(w.comms[0], pattern(LONG), 1)
    assert numbers.counted == sorted(numbers.counted), "the number of what is there never falls"
    assert w.finish(receive) == [pattern(LONG)]
    assert not w.engines[0].sends, "nothing that the end of the rank would wait for"
    assert nothing_held(w)


def test_a_receive_that_is_too_short(world: PolledWorld) -> None:
    w = world
    counting(w, lambda number: w.drivers[1].poll())
    memory = bytearray(LONG)
    receive = irecv_into(w.comms[1], memoryview(memory)[: LONG // 2])
    isend(w.comms[0], pattern(LONG), 1)
    w.until(receive.done)
    with pytest.raises(errors.TruncationError):
        receive.result()
    assert memory == pattern(LONG)[: LONG // 2] + bytes(LONG // 2)
    assert nothing_held(w)


def test_a_receive_that_is_withdrawn_meanwhile(world: PolledWorld) -> None:
    w = world

    def withdraw(number: int) -> None:
        w.drivers[1].poll()
        if number == LONG // 2:
            first.withdraw()

    counting(w, withdraw)
    first, second = irecv(w.comms[1]), irecv(w.comms[1])
    isend(w.comms[0], pattern(LONG), 1)
    assert w.finish(second) == [pattern(LONG)]
    assert first.cancelled()
    assert nothing_held(w)


# Before anything is written.


def test_a_sleeping_reader_is_rung_for_before_a_long_frame(world: PolledWorld) -> None:
    w = world
    link: Any = w.engines[0].peer(1).link
    outbound, doorbell = link._segment.outbound, link._segment.outbound.doorbell
    heads: list[int] = []

    def rung() -> None:
        heads.append(outbound._head)
        doorbell()
        if len(heads) == 1:
            w.drivers[1].poll()  # it looks before there is anything, and sleeps again

    outbound.doorbell = rung
    before = outbound._head
    receive = irecv(w.comms[1])
    isend(w.comms[0], pattern(EARLY), 1)
    assert heads[0] == before < heads[1]
    w.drivers[1].poll()
    assert receive.result() == pattern(EARLY)
    heads.append(0)
    receive = irecv(w.comms[1])
    w.drivers[1].poll()
    isend(w.comms[0], pattern(EARLY, 1), 1)
    assert len(heads) == 4, "once, for it has not looked meanwhile"
    w.drivers[1].poll()
    assert receive.result() == pattern(EARLY, 1)


def sleeping(w: PolledWorld) -> RingLink:
    """Return the link to a rank that was asleep at each message."""
    for _ in range(2):
        receive = irecv(w.comms[1])
        w.drivers[1].poll()
        isend(w.comms[0], b"x", 1)
        w.drivers[1].poll()
        assert receive.done()
        w.drivers[1].poll()
    link: Any = w.engines[0].peer(1).link
    return link


def test_a_sleeping_reader_is_rung_for_before_a_message_is_made(
    world: PolledWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    w = world
    assert not w.engines[0].wake_callbacks
    sleeping(w)
    assert [*w.engines[0].wake_callbacks] == [1]
    rung: list[int] = []
    on_ring(w, rung.append)
    receive = irecv(w.comms[1])
    w.comms[0].wake(1)
    w.comms[0].wake(1)
    assert len(rung) == 1, "once for each message"
    isend(w.comms[0], b"y", 1)
    assert len(rung) == 1, "it has not looked meanwhile"
    w.drivers[1].poll()
    assert receive.result() == b"y"


def test_a_reader_that_looks_before_the_message_is_written_is_woken_again(world: PolledWorld) -> None:
    w = world
    sleeping(w)
    receive = irecv(w.comms[1])
    for _ in range(2):
        w.comms[0].wake(1)
        w.drivers[1].poll()
    assert not receive.done()
    isend(w.comms[0], b"y", 1)
    w.drivers[1].poll()
    assert receive.result() == b"y"


def test_no_rank_is_woken_that_is_awake_or_unknown(world: PolledWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    w = world
    sleeping(w)
    on_ring(w, lambda rank: pytest.fail("rung"))
    for stranger in (PROC_NULL, 0, 2, "1", None):
        w.comms[0].wake(stranger)  # type: ignore[arg-type]
    link: Any = w.engines[1].peer(0).link
    link._segment.inbound.read(link.peer, 0)  # as if it were awake
    for _ in range(2):
        isend(w.comms[0], b"x", 1)
    w.comms[0].wake(1)
    assert not w.engines[0].wake_callbacks


def test_a_reader_that_is_woken_early_waits_again_only_when_the_frame_is_delivered(
    world: PolledWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    w = world
    sleeping(w)
    receive = irecv(w.comms[1])
    w.comms[0].wake(1)
    link: Any = w.engines[1].peer(0).link
    words = link._segment.inbound.words
    before = words[WATCHING]
    monkeypatch.setattr(os, "sched_yield", lambda: isend(w.comms[0], b"y", 1))
    w.drivers[1].poll()
    assert receive.result() == b"y"
    assert words[WATCHING] in (0, before), "it has not begun to wait"
    w.drivers[1].poll()
    assert words[WATCHING] > before


def test_a_link_that_is_closed_wakes_no_rank(world: PolledWorld) -> None:
    w = world
    sleeping(w).close()
    assert not w.engines[0].wake_callbacks


def test_no_rank_waits_for_a_frame_that_was_not_announced(world: PolledWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    w = world
    link: Any = w.engines[0].peer(1).link
    yields: list[int] = []
    monkeypatch.setattr(os, "sched_yield", lambda: yields.append(1))
    link._segment.outbound.ring()
    w.drivers[1].poll()
    assert not yields
    link._segment.outbound.ring_early()
    w.drivers[1].poll()
    assert yields
    yields.clear()
    w.finish(irecv(w.comms[1]), isend(w.comms[0], b"x", 1))
    link._segment.outbound.ring()
    w.drivers[1].poll()
    assert not yields, "it has come"


# Writers that cannot be trusted, or are no more.


def flowing(raw: RawPeer, w: PolledWorld, place: int, nbytes: int, there: int) -> memoryview:
    """Announce a message to rank 0 of which `there` bytes are written. Return the number, which can be changed."""
    fd, mapped = wire_memory.create(PREFIX + pool.SIZE)
    number = memoryview(mapped)[PREFIX:].cast("Q")
    number[place // 8 % len(number)] = there
    socket.send_fds(raw.socket, [struct.pack("!IIQ", export.POOL, 0, pool.SIZE)], [fd])
    os.close(fd)
    w.until(lambda: bool(w.links(0, 1)[0].sharing.imports))  # type: ignore[attr-defined]
    assert raw.segment is not None
    header = HEADER.pack(*Header(frame.EAGER, source=1, length=nbytes))
    raw.segment.outbound.put(header, PLACE.pack(place, 0), IN_POOL)
    raw.segment.outbound.ring()
    return number


@pytest.mark.parametrize(
    ("place", "there", "whole"),
    [
        (0, LONG, True),
        (64, LONG, True),
        (0, LONG + 1, False),
        (0, 2**64 - 1, False),
        (1, LONG, False),
        (8, LONG, False),
        (pool.SIZE - LONG, LONG, False),
        (2**64 - 64, LONG, False),
    ],
)
def test_number_and_place_are_judged(polled: NewPolled, place: int, there: int, whole: bool) -> None:
    w = polled()
    receive = irecv_into(w.comms[0], bytearray(LONG), 1)
    with RawPeer(w, 0).greet() as raw:
        w.until(lambda: bool(w.links(0, 1)))
        w.poll()
        flowing(raw, w, place, LONG, there)
        w.until(receive.done)
        if whole:
            assert receive.result().Get_count() == LONG
        else:
            assert isinstance(receive.exception(), errors.ProcessFailedError)
            w.until(raw.dropped)


def test_number_that_falls(polled: NewPolled) -> None:
    w = polled()
    receive = irecv(w.comms[0], 1)
    with RawPeer(w, 0).greet() as raw:
        w.until(lambda: bool(w.links(0, 1)))
        w.poll()
        number = flowing(raw, w, 0, LONG, 1000)
        w.until(lambda: any(landing.filled for landing in w.engines[0].peer(1).landings))
        number[0] = 999
        assert raw.segment is not None
        raw.segment.outbound.ring()
        w.until(raw.dropped)
    w.until(receive.done)
    assert isinstance(receive.exception(), errors.ProcessFailedError)


@pytest.mark.parametrize("there", [0, 1000])
def test_writer_that_ends_meanwhile(polled: NewPolled, there: int) -> None:
    w = polled()
    receive = irecv(w.comms[0], 1)
    with RawPeer(w, 0).greet() as raw:
        w.until(lambda: bool(w.links(0, 1)))
        w.poll()
        flowing(raw, w, 0, LONG, there)
        w.until(lambda: bool(w.engines[0].peer(1).landings))
    w.until(receive.done)
    with pytest.raises(errors.ProcessFailedError, match="its connection closed"):
        receive.result()


def test_credit_is_kept_where_there_is_no_room(world: PolledWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    w = world
    own: Any = w.transports[0]
    credit = w.engines[0].peer(1).credit
    monkeypatch.setattr(own.pool, "_reserve", lambda nbytes: None)
    send = isend(w.comms[0], pattern(LONG), 1)
    assert not send.done(), "it waits to be asked for"
    assert w.engines[0].peer(1).credit == credit > LONG + OVERHEAD
    assert w.finish(irecv(w.comms[1]), send)[0] == pattern(LONG)
    monkeypatch.undo()
    assert nothing_held(w)
