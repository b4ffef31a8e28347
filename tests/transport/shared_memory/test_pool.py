"""Messages to several ranks are written once for all, and are not overwritten while a rank reads them."""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import struct
from collections.abc import Callable
from typing import Any

import pytest
from frames import Header
from worlds import PolledWorld, RawPeer, irecv, irecv_into, isend, pattern

from aiompi import errors
from aiompi.comm import Channel
from aiompi.transport.shared_memory import export, pool
from aiompi.transport.shared_memory.export import PREFIX
from aiompi.transport.shared_memory.pool import Pool, PoolBlock
from aiompi.transport.shared_memory.ring import ALIGN, IN_POOL, PLACE
from aiompi.wire import frame
from aiompi.wire import memory as wire_memory
from aiompi.wire.frame import HEADER

NewPolled = Callable[..., PolledWorld]
LONG = 100_000
#: bytes of a message that goes through the pool
LEAST = 2**14 + 1


@pytest.fixture
def world(polled: NewPolled) -> Callable[..., PolledWorld]:
    """Return a function that makes a world whose ranks have all imported the pool of rank 0."""

    def make(size: int = 4, *, shared: bool = True, **settings: Any) -> PolledWorld:
        w = polled(size, **{"eager_limit": LEAST - 1, "shm_eager_limit": 2**22, **settings})
        pairs = [(isend(w.comms[0], b"x", rank), irecv(w.comms[rank])) for rank in range(1, size)]
        w.finish(*(request for pair in pairs for request in pair))
        if shared:
            own: Any = w.transports[0]
            own.own_pool()
            w.open(0, own.pool)
        return w

    return make


def channel(w: PolledWorld, rank: int, number: int = 0) -> Channel:
    return Channel(w.comms[rank], number, "a test")


def multicast(w: PolledWorld, data: bytes, number: int = 0, dests: tuple[int, ...] = ()) -> list[Any]:
    """Send from rank 0 to all other ranks, or some of them."""
    return [channel(w, 0, number).isend([memoryview(data)], len(data), dest) for dest in dests or range(1, w.size)]


def receive(w: PolledWorld, number: int = 0) -> list[Any]:
    """Receive at all other ranks."""
    return [channel(w, rank, number).irecv(None, 0) for rank in range(1, w.size)]


def got(w: PolledWorld, receives: list[Any]) -> list[bytes]:
    w.finish(*receives)
    return [bytes(one.data) for one in receives]


def written(w: PolledWorld, rank: int) -> int:
    """Return the bytes that rank 0 has written into its ring to another rank."""
    link: Any = w.engines[0].peer(rank).link
    return int(link._segment.outbound._head)


def blocks(w: PolledWorld) -> int:
    """Return the blocks of the pool of rank 0 that are in use."""
    own: Any = w.transports[0]
    own.pool._sweep()
    return len(own.pool._blocks)


# SlotProvider.


@pytest.mark.parametrize("nbytes", [LEAST, LONG, 2**21 + 1])
def test_it_may_be_in_pieces_and_longer_than_what_is_sent_unasked(world: NewPolled, nbytes: int) -> None:
    w = world()
    data = pattern(nbytes)
    pieces = [memoryview(data)[:7], memoryview(data)[7:5000], memoryview(data)[5000:]]
    receives = receive(w)
    w.finish(*(channel(w, 0).isend(pieces, nbytes, dest) for dest in (1, 2, 3)))
    assert got(w, receives) == [data] * 3


def test_short_ones_are_copied_for_each(world: NewPolled) -> None:
    w = world(shared=False)
    receives = receive(w)
    multicast(w, pattern(LEAST - 1))
    assert w.transports[0].pool is None  # type: ignore[attr-defined]
    assert got(w, receives) == [pattern(LEAST - 1)] * 3


def test_one_that_no_rank_has_asked_for_is_taken_out_of_the_pool(world: NewPolled) -> None:
    w = world()
    for number in range(5):
        multicast(w, pattern(LONG, number), number)
    w.poll()
    w.until(lambda: blocks(w) == 0)
    assert [got(w, receive(w, number)) for number in range(5)] == [[pattern(LONG, n)] * 3 for n in range(5)]
    assert all(w.balanced(0, rank) for rank in range(1, 4))


def test_it_keeps_its_place_among_other_messages(world: NewPolled) -> None:
    w = world()
    receives = [channel(w, 1).irecv(None, 0) for _ in range(5)]
    sends = []
    for number in range(5):
        if number % 2:
            sends += multicast(w, pattern(LONG, number))
        else:
            sends.append(channel(w, 0).isend([pattern(300_000, number)], 300_000, 1))
    w.finish(*sends)
    expected = [pattern(LONG if number % 2 else 300_000, number) for number in range(5)]
    assert got(w, receives) == expected


def test_a_receive_that_is_too_short_is_told(world: NewPolled) -> None:
    w = world()
    memory = bytearray(LONG + 8)
    short = channel(w, 1).irecv(memoryview(memory)[:1000], 0)
    multicast(w, pattern(LONG))
    w.until(short.done)
    assert isinstance(short.exception(), errors.TruncationError)
    assert memory == pattern(LONG)[:1000] + bytes(LONG - 992)


def test_credit_bounds_what_may_wait_at_a_rank_that_does_not_receive(world: NewPolled) -> None:
    w = world(eager_window=3 * LONG)
    sends = [multicast(w, pattern(LONG, number), number) for number in range(6)]
    for _ in range(100):
        w.poll()
    assert w.held(1, 0) <= 3 * LONG
    assert [all(send.done() for send in those) for those in sends] == [True, True, False, False, False, False]
    for number in range(6):
        assert got(w, receive(w, number)) == [pattern(LONG, number)] * 3
    w.finish(*(send for those in sends for send in those))


# Messages to one rank.


def test_a_long_message_to_one_rank_is_lent_too(world: NewPolled) -> None:
    w = world(2, shm_eager_limit=LONG)
    before = written(w, 1)
    sends = [isend(w.comms[0], pattern(LONG), 1), isend(w.comms[0], pattern(LONG + 1, 1), 1)]
    assert [send.done() for send in sends] == [True, False]
    assert written(w, 1) - before == 2 * ALIGN, "a frame that announces it, and one that asks"
    assert w.finish(irecv(w.comms[1]), irecv(w.comms[1]), *sends)[:2] == [pattern(LONG), pattern(LONG + 1, 1)]
    assert blocks(w) == 0
    assert w.balanced(0, 1)


def test_a_synchronous_one_waits_for_its_receive(world: NewPolled) -> None:
    w = world(2, shm_eager_limit=LONG)
    send = isend(w.comms[0], pattern(LONG), 1, sync=True)
    for _ in range(10):
        w.poll()
    assert not send.done()
    assert w.finish(irecv(w.comms[1]), send)[0] == pattern(LONG)


def test_what_waits_for_a_receive_is_bounded(world: NewPolled) -> None:
    w = world(2, shm_eager_limit=LONG, eager_window=5 * LONG)
    sends = [isend(w.comms[0], pattern(LONG, number), 1) for number in range(9)]
    for _ in range(10):
        w.poll()
    assert [send.done() for send in sends] == [True] * 4 + [False] * 5
    assert w.held(1, 0) <= 5 * LONG
    received = w.finish(*(irecv(w.comms[1]) for _ in range(9)), *sends)[:9]
    assert received == [pattern(LONG, number) for number in range(9)]
    assert w.balanced(0, 1)


# The memory is used again.


def test_a_block_is_not_overwritten_while_a_reader_has_not_read_it(world: NewPolled) -> None:
    """Rank 1 sleeps meanwhile."""
    w = world(2, eager_window=2**26)
    number = pool.SIZE // 2**21 - 1
    for i in range(number):
        assert multicast(w, pattern(2**21, i), i)[0].done()
    assert blocks(w) == number
    sends = multicast(w, pattern(2**21, number), number)
    assert not sends[0].done(), "there is no room: it waits until it is asked for"
    for i in range(number + 1):
        assert got(w, receive(w, i)) == [pattern(2**21, i)]
    w.finish(*sends)
    assert blocks(w) == 0


def test_blocks_of_different_ranks_and_sizes(world: NewPolled) -> None:
    w = world(5, eager_window=2**26)
    chosen: list[tuple[int, int, tuple[int, ...]]] = []
    for number in range(60):
        nbytes = LEAST + number * 104_729 % (3 * 2**20)
        dests = tuple(rank for rank in range(1, 5) if number * 7 % 11 >> (rank - 1) & 1) or (1, 4)
        chosen.append((number, nbytes, dests))
        multicast(w, pattern(nbytes, number), number, dests)
        if number % 5 == 4:
            awake = w.drivers[1 + number % 4]
            for _ in range(20):
                awake.poll()
            w.drivers[0].poll()
    for number, nbytes, dests in chosen:
        for rank in dests:
            one = channel(w, rank, number).irecv(None, 0)
            assert got(w, [one]) == [pattern(nbytes, number)], (number, rank)
    assert blocks(w) == 0


def test_a_reader_that_has_ended_holds_no_memory(world: NewPolled, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader of which only the link has ended does: it may be alive, and read."""
    w = world()
    multicast(w, pattern(LONG))
    for driver in w.drivers[:3]:
        driver.poll()
    w.until(lambda: blocks(w) == 1)
    w.transports[3].close()
    w.until(lambda: not w.links(0, 3))
    assert blocks(w) == 1
    monkeypatch.setattr("aiompi.transport.shared_memory.export.has_ended", lambda process: process == os.getpid())
    assert blocks(w) == 0


def test_what_was_lent_is_read_after_the_end_of_the_writer(world: NewPolled) -> None:
    w = world()
    receives = receive(w)
    multicast(w, pattern(LONG))
    w.engines[0].finish()
    w.transports[0].close()
    for driver in w.drivers[1:]:
        driver.poll()
    assert got(w, receives) == [pattern(LONG)] * 3


def test_room_is_found_around_what_is_still_read() -> None:
    """Blocks in use never overlap."""
    mine, theirs = socket.socketpair()
    with mine, theirs:
        own = Pool()
        importer = own.open_to(mine)
        assert importer is not None
        (fd,) = socket.recv_fds(theirs, 16, 1)[1]
        os.close(fd)
        alive: list[PoolBlock] = []
        given_back = 0
        for number in range(400):
            nbytes = 1 + number * 1_299_709 % (pool.SIZE // 3)
            found = own.allocate_window(nbytes)
            if found is None:
                assert alive, "all was free"
                given_back += 1
                alive.pop(0)
                own._words[8] = given_back
                continue
            block, _ = found
            assert all(block.end <= other.start or other.end <= block.start for other in alive)
            assert 0 <= block.start < block.end <= pool.SIZE
            own.lend(block, importer)
            block.open = False
            alive.append(block)
        own.close()
        assert given_back > 100


def test_no_memory_for_a_pool(world: NewPolled, monkeypatch: pytest.MonkeyPatch) -> None:
    w = world(shared=False)

    def refuse(*_: object) -> int:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(os, "memfd_create", refuse)
    receives = receive(w)
    w.finish(*multicast(w, pattern(LONG)))
    assert got(w, receives) == [pattern(LONG)] * 3


def test_more_readers_than_there_is_place_for(world: NewPolled, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export, "READERS", 2)
    w = world(shared=False)
    for number in range(3):
        receives = receive(w, number)
        w.finish(*multicast(w, pattern(LONG, number), number))
        assert got(w, receives) == [pattern(LONG, number)] * 3
        assert blocks(w) == 0


def test_a_ring_without_room_for_one_more_reference(world: NewPolled) -> None:
    """The message is copied, and neither memory nor credit is lost."""
    w = world(3, ring_size=4096, eager_window=2**26)
    own: Any = w.transports[0]
    sends = []
    for number in range(100):
        sends += multicast(w, pattern(LEAST, number), number)
    assert 0 < len(own.pool._blocks) < 200, "the last ones had no room"
    for number in range(100):
        assert got(w, receive(w, number)) == [pattern(LEAST, number)] * 2
    w.finish(*sends, *multicast(w, pattern(LEAST, 100), 100))
    assert got(w, receive(w, 100)) == [pattern(LEAST, 100)] * 2
    assert blocks(w) == 0
    for rank in (1, 2):
        assert w.balanced(0, rank)


@pytest.mark.parametrize("lack", ["ENOMEM", "EMFILE"])
def test_a_reader_that_cannot_have_the_memory_does_without(
    world: NewPolled, monkeypatch: pytest.MonkeyPatch, lack: str
) -> None:
    """Its process has no address space, or no descriptor, left."""
    w = world(shared=False)
    refused = []

    def refuse(*_: object) -> Any:
        refused.append(lack)
        raise OSError(getattr(errno, lack), os.strerror(getattr(errno, lack)))

    monkeypatch.setattr(wire_memory, "accept", refuse)
    for number in range(3):
        receives = receive(w, number)
        w.finish(*multicast(w, pattern(LONG, number), number))
        assert got(w, receives) == [pattern(LONG, number)] * 3
    assert len(refused) == 3, "of each reader, once"
    assert blocks(w) == 0
    assert all(w.balanced(0, rank) for rank in range(1, 4))


def test_a_signal_handler_that_interrupts_the_sender(world: NewPolled) -> None:
    """The message has been sent. It is not overwritten, and uses credit."""
    w = world(2, eager_window=4 * 2**20, shm_eager_limit=2**20)
    link: Any = w.engines[0].peer(1).link
    for _ in range(20):
        w.poll()  # so that the reader must be rung for

    doorbell = link._segment.outbound.doorbell

    def interrupted() -> None:
        doorbell()
        raise KeyboardInterrupt

    link._segment.outbound.doorbell = interrupted
    with pytest.raises(KeyboardInterrupt):
        isend(w.comms[0], pattern(300_000), 1)
    link._segment.outbound.doorbell = doorbell
    w.finish(isend(w.comms[0], pattern(300_000, 1), 1))
    later = isend(w.comms[0], pattern(300_000, 2), 1)
    assert blocks(w) == 3, "of which none has been read"
    receives = [irecv(w.comms[1]) for _ in range(3)]
    assert w.finish(*receives, later)[:3] == [pattern(300_000, number) for number in range(3)]
    assert w.balanced(0, 1)
    assert blocks(w) == 0
    assert not w.engines[0].sends, "nothing that the end of the rank would wait for"


def test_an_error_of_a_handler_gives_the_block_back(world: NewPolled) -> None:
    w = world()
    receives = receive(w)
    receives[0].when_done(lambda _: int("a signal handler"))
    multicast(w, pattern(LONG))
    with pytest.raises(ValueError, match="a signal handler"):
        w.finish(*receives)
    assert got(w, receives) == [pattern(LONG)] * 3
    assert blocks(w) == 0


# What is no pool.


def memory(nbytes: int = PREFIX + pool.SIZE, seals: int = 2 | 4 | 1) -> int:
    assert seals in (0, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
    fd = os.memfd_create("test", os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, nbytes)
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, seals)
    return fd


def label(kind: int = export.POOL, reader: int = 0, nbytes: int = pool.SIZE) -> bytes:
    return struct.pack("!IIQ", kind, reader, nbytes)


BAD: dict[str, tuple[bytes, tuple[Callable[[], int], ...]]] = {
    "no descriptor": (label(), ()),
    "two descriptors": (label(), (memory, memory)),
    "part of a label": (label()[:3], (memory,)),
    "no such area": (label(3), (memory,)),
    "no place for the reader": (label(reader=export.READERS), (memory,)),
    "shorter than announced": (label(), (lambda: memory(4096),)),
    "too long": (label(nbytes=2**63), (memory,)),
    "not sealed": (label(), (lambda: memory(seals=0),)),
    "no memory": (label(), (lambda: os.open(os.devnull, os.O_RDWR),)),
}


@pytest.mark.parametrize("case", BAD)
def test_peer_that_hands_over_something_else_is_dropped(polled: NewPolled, case: str) -> None:
    w = polled()
    one = irecv(w.comms[0], 1)
    data, makers = BAD[case]
    with RawPeer(w, 0).greet() as raw:
        w.until(lambda: bool(w.links(0, 1)))
        w.poll()
        fds = [make() for make in makers]
        socket.send_fds(raw.socket, [data], fds)
        for fd in fds:
            os.close(fd)
        w.until(raw.dropped)
    w.until(one.done)
    assert isinstance(one.exception(), errors.ProcessFailedError)


def test_peer_that_hands_over_two_pools_is_dropped(polled: NewPolled) -> None:
    w = polled()
    with RawPeer(w, 0).greet() as raw:
        w.until(lambda: bool(w.links(0, 1)))
        fd = memory()
        for _ in range(2):
            socket.send_fds(raw.socket, [label()], [fd])
            w.poll()
        os.close(fd)
        w.until(raw.dropped)


@pytest.mark.parametrize("handed_over", [False, True])
@pytest.mark.parametrize("place", [0, pool.SIZE - 5, 2**64 - 1])
def test_frame_of_a_message_that_is_not_there(polled: NewPolled, place: int, handed_over: bool) -> None:
    w = polled()
    one = irecv_into(w.comms[0], bytearray(10), 1)
    with RawPeer(w, 0).greet() as raw:
        w.until(lambda: bool(w.links(0, 1)))
        w.poll()
        if handed_over:
            fd = memory()
            os.pwrite(fd, struct.pack("=Q", 10), PREFIX)
            socket.send_fds(raw.socket, [label()], [fd])
            os.close(fd)
            w.until(lambda: bool(w.links(0, 1)[0].sharing.imports))  # type: ignore[attr-defined]
        assert raw.segment is not None
        header = HEADER.pack(*Header(frame.EAGER, source=1, length=10))
        raw.segment.outbound.put(header, PLACE.pack(place, 0), IN_POOL)
        raw.segment.outbound.ring()
        w.until(one.done)
        if place == 0 and handed_over:
            assert one.result().Get_count() == 10
        else:
            assert isinstance(one.exception(), errors.ProcessFailedError)
            w.until(raw.dropped)


def test_frame_without_a_payload_cannot_be_lent(polled: NewPolled) -> None:
    """A kind with the mark that is no message is refused like any unknown kind."""
    w = polled()
    with RawPeer(w, 0).greet() as raw:
        w.until(lambda: bool(w.links(0, 1)))
        w.poll()
        fd = memory()
        socket.send_fds(raw.socket, [label()], [fd])
        os.close(fd)
        w.until(lambda: bool(w.links(0, 1)[0].sharing.imports))  # type: ignore[attr-defined]
        assert raw.segment is not None
        raw.segment.outbound.put(HEADER.pack(*Header(99, length=10)), PLACE.pack(0, 0), IN_POOL)
        raw.segment.outbound.ring()
        w.until(raw.dropped)
