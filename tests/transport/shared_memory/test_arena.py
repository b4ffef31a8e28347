"""Long messages in memory of Alloc_mem: copied by their receiver only, and only while they stand."""

from __future__ import annotations

import gc
import os
import socket
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from frames import Header
from worlds import PolledWorld, RawPeer, irecv, irecv_into, isend, pattern

from aiompi import errors
from aiompi.constants import ANY_SOURCE, ANY_TAG
from aiompi.engine import Mode
from aiompi.transport.shared_memory import arena as arena_module
from aiompi.transport.shared_memory.area import ARENA, PREFIX
from aiompi.transport.shared_memory.arena import Arena, Lying
from aiompi.transport.shared_memory.ring import LENT, PLACE
from aiompi.wire import frame, memory
from aiompi.wire.frame import HEADER

NewPolled = Callable[..., PolledWorld]
LONG = 300_000


@pytest.fixture
def world(polled: NewPolled) -> PolledWorld:
    """Two ranks that have talked, of which rank 1 has the arena of rank 0."""
    w = polled(2)
    w.finish(isend(w.comms[0], b"x", 1), irecv(w.comms[1]), isend(w.comms[1], b"x", 0), irecv(w.comms[0]))
    own: Any = w.transports[0]
    own.allocate(1)
    w.open(0, own.arena)
    return w


def allocated(w: PolledWorld, data: bytes) -> Any:
    """The data in memory that rank 0 has allocated."""
    room = w.transports[0].allocate(len(data))  # type: ignore[attr-defined]
    room[:] = np.frombuffer(data, np.uint8)
    return room


def send(w: PolledWorld, room: Any, mode: Mode = Mode.STANDARD, tag: int = 0) -> Any:
    return w.comms[0].isend((memoryview(room),), len(room), 1, tag, mode)


def written(w: PolledWorld) -> int:
    """Bytes that rank 0 has put into its ring to rank 1."""
    link: Any = w.engines[0].peer(1).link
    return int(link._segment.outbound._head)


# One copy.


@pytest.mark.parametrize("mode", [Mode.STANDARD, Mode.SYNCHRONOUS])
@pytest.mark.parametrize("nbytes", [LONG, 9 * 2**20 + 1])
def test_the_receiver_copies_it(world: PolledWorld, mode: Mode, nbytes: int) -> None:
    before = written(world)
    into = bytearray(nbytes)
    data = pattern(nbytes)
    receive = irecv_into(world.comms[1], into)
    request = send(world, allocated(world, data), mode)
    assert not request.done(), "the memory is still the message's"
    assert world.finish(request, receive)[1].Get_count() == nbytes
    assert into == data
    assert written(world) - before < 1000, "nothing but frames went through the ring"


def test_a_part_of_the_memory(world: PolledWorld) -> None:
    room = allocated(world, pattern(4 * LONG))
    request, receive = send(world, room[LONG + 5 : 3 * LONG]), irecv(world.comms[1])
    assert world.finish(request, receive)[1] == pattern(4 * LONG)[LONG + 5 : 3 * LONG]


def test_one_that_is_not_expected_stays_where_it_is(world: PolledWorld) -> None:
    rooms = [allocated(world, pattern(LONG, number)) for number in range(3)]
    requests = [send(world, room, tag=number) for number, room in enumerate(rooms)]
    for _ in range(20):
        world.poll()
    assert not any(request.done() for request in requests)
    assert world.comms[1].iprobe(ANY_SOURCE, ANY_TAG) is not None
    assert world.held(1, 0) == 0
    for number in (2, 0, 1):
        assert world.finish(irecv(world.comms[1], tag=number), requests[number])[0] == pattern(LONG, number)


def test_short_ones_and_other_memory_go_through_the_ring(world: PolledWorld) -> None:
    short = allocated(world, pattern(1000))
    other = bytearray(pattern(LONG, 1))
    requests = [send(world, short), isend(world.comms[0], other, 1)]
    receives = [irecv(world.comms[1]) for _ in range(2)]
    assert world.finish(*receives, *requests)[:2] == [pattern(1000), bytes(other)]
    assert written(world) > LONG


def test_a_receive_that_is_too_short_is_told(world: PolledWorld) -> None:
    into = bytearray(LONG)
    receive = irecv_into(world.comms[1], memoryview(into)[:1000])
    request = send(world, allocated(world, pattern(LONG)))
    world.until(lambda: request.done() and receive.done())
    assert isinstance(receive.exception(), errors.TruncationError)
    assert into == pattern(LONG)[:1000] + bytes(LONG - 1000)


def test_a_message_that_is_recalled(world: PolledWorld) -> None:
    request = send(world, allocated(world, pattern(LONG)))
    world.poll()
    request.cancel()
    world.until(request.done)
    assert request.cancelled()
    follower = isend(world.comms[0], b"next", 1)
    assert world.finish(irecv(world.comms[1]), follower)[0] == b"next"


# Taken back.


def test_memory_is_the_programs_again_once_it_waits_no_longer(world: PolledWorld) -> None:
    """What it writes there then is not received, whether the message was expected or not."""
    for expected in (True, False):
        room = allocated(world, pattern(LONG))
        receive = irecv(world.comms[1]) if expected else None
        request = send(world, room)
        if not expected:
            world.drivers[1].poll()
        request.withdraw()
        room[:] = 0
        if receive is None:
            receive = irecv(world.comms[1])
        assert bytes(world.finish(receive)[0]) == pattern(LONG)


def test_what_has_been_taken_back_is_not_even_copied(world: PolledWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    copied: list[int] = []
    monkeypatch.setattr(Lying, "copy", lambda self, memory, start, most, length: copied.append(start))
    request = send(world, allocated(world, pattern(LONG)))
    world.drivers[1].poll()
    request.withdraw()
    assert world.finish(irecv(world.comms[1]))[0] == pattern(LONG)
    assert not copied


def test_memory_that_is_taken_back_in_the_midst_of_the_copy(world: PolledWorld) -> None:
    nbytes = 10 * 2**20
    room = allocated(world, pattern(nbytes))
    receive = irecv(world.comms[1])
    request = send(world, room)
    world.drivers[1].poll()
    (landing,) = world.engines[1].peer(0).landings
    assert 0 < landing.filled < nbytes
    request.withdraw()
    room[:] = 0
    assert world.finish(receive)[0] == pattern(nbytes)


def test_a_receive_that_is_withdrawn_in_the_midst_of_the_copy(world: PolledWorld) -> None:
    """The next one gets the whole message."""
    nbytes = 10 * 2**20
    into = bytearray(nbytes)
    receive = irecv_into(world.comms[1], into)
    request = send(world, allocated(world, pattern(nbytes)))
    world.drivers[1].poll()
    receive.withdraw()
    kept = bytes(into)
    other = irecv(world.comms[1])
    assert world.finish(other, request)[0] == pattern(nbytes)
    assert bytes(into) == kept


def test_a_sender_that_goes_in_the_midst_of_the_copy(world: PolledWorld) -> None:
    receive = irecv(world.comms[1], 0)
    send(world, allocated(world, pattern(10 * 2**20)))
    world.drivers[1].poll()
    world.engines[0].abort(errors.OtherError("enough"))
    world.transports[0].close()
    world.until(receive.done)
    world.poll()
    assert isinstance(receive.exception(), errors.ProcessFailedError)


def test_memory_of_a_sender_that_goes_is_not_received(world: PolledWorld) -> None:
    """Neither what it has been used for since, nor what is there once it has been given back."""
    receive = irecv(world.comms[1], 0)
    room = allocated(world, pattern(5 * 2**20))
    send(world, room)
    world.drivers[1].poll()
    world.engines[0].abort(errors.OtherError("enough"))
    world.transports[0].close()
    room[:] = 0
    world.until(lambda: receive.done() or world.engines[1].peer(0).error is not None)
    assert receive.done()
    assert isinstance(receive.exception(), errors.ProcessFailedError)


def test_many_messages_are_not_copied_in_a_single_turn(world: PolledWorld) -> None:
    """What else a rank has to do would wait for them."""
    room = allocated(world, pattern(2**20))
    receives = [irecv_into(world.comms[1], bytearray(2**20)) for _ in range(60)]
    sends = [send(world, room) for _ in receives]
    world.drivers[1].poll()
    assert sum(receive.done() for receive in receives) < 20
    world.finish(*receives, *sends)


def test_long_messages_are_copied_in_turn(world: PolledWorld) -> None:
    """A part of one of them at a time, however many there are; an error in between stops none."""
    nbytes = 9 * 2**20
    room = allocated(world, pattern(nbytes))
    memory = [bytearray(nbytes) for _ in range(8)]
    receives = [irecv_into(world.comms[1], one) for one in memory]
    sends = [send(world, room) for _ in receives]
    receives[3].when_done(lambda _: int("a callback"))

    def copied() -> int:
        return sum(
            nbytes if receive.done() else receive.landing.filled if receive.landing else 0 for receive in receives
        )

    with pytest.raises(ValueError, match="a callback"):
        while True:
            before = copied()
            world.drivers[1].poll()
            assert copied() - before <= 8 * 2**20
    world.finish(*receives, *sends)
    assert all(one == pattern(nbytes) for one in memory)


# The memory itself.


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Arenas have 64 pages."""
    monkeypatch.setattr(arena_module, "MOST", 64 * 4096)


def free(arena: Arena) -> list[tuple[int, int]]:
    """Where the next allocation may be."""
    arena._gather()
    return arena._free


@pytest.mark.usefixtures("small")
def test_memory_is_given_back_when_nothing_refers_to_it() -> None:
    arena = Arena()
    try:
        rooms = [arena.allocate(16 * 4096 - number) for number in range(4)]
        assert all(room is not None for room in rooms)
        assert arena.allocate(1) is None
        view: Any = np.asarray(rooms[1])[100:200].view("i4")
        whole: Any = memoryview(rooms[2])  # type: ignore[arg-type]
        view[:] = 7
        rooms.clear()
        gc.collect()
        assert free(arena) == [(0, 16 * 4096), (48 * 4096, 64 * 4096)]
        assert (view == 7).all()
        whole.release()
        assert free(arena) == [(0, 16 * 4096), (32 * 4096, 64 * 4096)]
        del view
        assert free(arena) == [(0, 64 * 4096)]
    finally:
        arena.close()


@pytest.mark.usefixtures("small")
def test_pages_that_are_given_back_take_no_memory() -> None:
    arena = Arena()
    room = arena.allocate(64 * 4096)
    assert room is not None
    room[:] = 1
    assert os.fstat(arena._fd).st_blocks * 512 >= 64 * 4096
    del room
    assert os.fstat(arena._fd).st_blocks * 512 < 4096 * 16
    again = arena.allocate(64 * 4096)
    assert again is not None
    assert not again.any()
    del again
    arena.close()


@pytest.mark.usefixtures("small")
def test_what_a_fork_has_copied_is_still_the_memory_of_its_parent() -> None:
    arena = Arena()
    room: Any = arena.allocate(4096)
    room[:] = 7
    child = os.fork()
    if not child:
        refused = arena.allocate(4096) is None
        del room  # the last reference in the copy
        os._exit(0 if refused else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert (room == 7).all()
    del room
    arena.close()


@pytest.mark.usefixtures("small")
def test_memory_that_is_given_back_in_the_midst_of_an_allocation() -> None:
    """As the garbage collector does, in any thread: nothing is allocated twice."""
    arena = Arena()
    goes: list[Any] = [arena.allocate(4096)]
    stays: Any = arena.allocate(4096)
    stays[:] = 7

    class Interrupted(list[tuple[int, int]]):
        def __iter__(self) -> Iterator[tuple[int, int]]:
            for hole in self[:]:
                goes.clear()
                yield hole

    arena._free = Interrupted(arena._free)
    arena.allocate(2 * 4096)[:] = 1  # type: ignore[index]
    assert not goes
    assert (stays == 7).all()
    arena.close()


def test_where_there_is_none(world: PolledWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> int:
        raise OSError(12, "Cannot allocate memory")

    monkeypatch.setattr(os, "memfd_create", refuse)
    assert world.transports[1].allocate(10) is None  # type: ignore[attr-defined]


# Peers that say what is not.


@pytest.mark.parametrize(
    ("place", "length", "handed_over"),
    [(0, LONG, False), (2**20 - LONG + 1, LONG, True), (2**64 - 8, LONG, True), (0, 2**63, True)],
)
def test_offer_of_what_is_not_there(polled: NewPolled, place: int, length: int, handed_over: bool) -> None:
    w = polled()
    receive = irecv(w.comms[0], 1)
    with RawPeer(w, 0).greet() as raw:
        w.until(lambda: bool(w.links(0, 1)))
        w.poll()
        if handed_over:
            fd, _ = memory.create(PREFIX + 2**20)
            socket.send_fds(raw.socket, [ARENA.to_bytes(4, "big") + bytes(4) + (2**20).to_bytes(8, "big")], [fd])
            os.close(fd)
            links: Any = w.links(0, 1)
            w.until(lambda: bool(links[0].sharing.loans))
        assert raw.segment is not None
        header = HEADER.pack(*Header(frame.RTS, source=1, length=length, srqid=1))
        raw.segment.outbound.put(header, PLACE.pack(place, 0), LENT)
        raw.segment.ring()
        w.until(raw.dropped)
    w.until(receive.done)
    assert isinstance(receive.exception(), errors.ProcessFailedError)
