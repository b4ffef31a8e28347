"""Long messages that are copied once: by their receiver, and from their end on by their sender."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from aiompi import errors
from aiompi.constants import BSEND_OVERHEAD
from aiompi.engine import Mode, single_copy
from aiompi.engine.seams import BufferOwner
from aiompi.wire import frame
from aiompi.wire.frame import HEADER, Payload
from support.frames import Header
from support.rings import PREFIX, WORDS
from support.worlds import PolledWorld, RawPeer, SocketWorld, irecv, irecv_into, isend, pattern

NewPolled = Callable[..., PolledWorld]
#: bytes from which messages are copied once; from which both ends copy them; which are several turns
LONG = 2**17 + 1
BOTH = 2**18
MANY = 9 * 2**20 + 1
PIECES, LONG_PIECE = 64, 8 * 2**10
PLACE = struct.Struct("=QQ")


@pytest.fixture
def world(polled: NewPolled) -> PolledWorld:
    """Return two ranks that have exchanged messages."""
    w = polled(2, single_copy=True, shm_eager_limit=LONG - 1, eager_limit=2 * LONG)
    w.finish(isend(w.comms[0], b"x", 1), irecv(w.comms[1]), isend(w.comms[1], b"x", 0), irecv(w.comms[0]))
    return w


def ring_of(w: PolledWorld, own: int) -> Any:
    """Return the ring of a rank with the other one."""
    link: Any = w.engines[own].peer(1 - own).link
    return link._ring


def ring_bytes(w: PolledWorld) -> int:
    """Return the bytes that rank 1 has read from its ring from rank 0."""
    return sum(link._ring.position for link in w.links(1, 0))


def word(w: PolledWorld, name: str) -> int:
    """Return a word of the direction from rank 0 to rank 1."""
    return word_of(ring_segment(w), name)


def ring_segment(w: PolledWorld) -> memoryview:
    link: Any = w.engines[0].peer(1).link
    return memoryview(link._segment.memory)


def word_of(segment: memoryview, name: str) -> int:
    return int.from_bytes(segment[WORDS[name] : WORDS[name] + 8], "little")


def invited(w: PolledWorld) -> int:
    """Return the number of the current invitation of rank 0, 0 for none."""
    return word(w, "claims") >> 32


class Copied:
    """The bytes that the kernel has copied since, by rank."""

    def __init__(self, w: PolledWorld) -> None:
        self._processes = [[link._ring.process for link in w.links(own, 1 - own)] for own in range(2)]
        self._before = [self._sum(own) for own in range(2)]

    def _sum(self, own: int) -> int:
        return sum(process.copied for process in self._processes[own])

    def __getitem__(self, own: int) -> int:
        return self._sum(own) - self._before[own]

    @property
    def all(self) -> int:
        return self[0] + self[1]

    @property
    def total(self) -> int:
        """The bytes since the beginning."""
        return self._sum(0) + self._sum(1)


@pytest.fixture
def copied(world: PolledWorld) -> Copied:
    return Copied(world)


# One copy.


def test_receiver_remembers_few_offers_and_asks_for_the_other_messages(
    world: PolledWorld, copied: Copied, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aiompi.engine.peer._MAX_OFFERS", 2)
    data = [pattern(LONG, i) for i in range(4)]
    sends = [isend(world.comms[0], each, 1) for each in data]
    matcher = world.comms[1].matcher
    world.until(lambda: matcher.arrivals == len(data))
    assert [message.offer is not None for message in matcher.unexpected()] == [True, True, False, False]
    receives = [irecv(world.comms[1]) for _ in data]
    assert world.finish(*receives, *sends)[:4] == data
    assert copied.all == 2 * LONG


@pytest.mark.spec("S3.6-7", "S3.6-10")
def test_a_buffered_message_that_was_copied_leaves_room(world: PolledWorld, copied: Copied) -> None:
    """The sender may know from other ranks that it was received, before it has read the receiver's answer."""
    world.engines[0].attachment.attach(None, memoryview(bytearray(LONG + BSEND_OVERHEAD)))
    for number in range(3):
        world.comms[0].isend((pattern(LONG, number),), LONG, 1, 0, Mode.BUFFERED)
        receive = irecv(world.comms[1])
        for _ in range(100):
            world.drivers[1].poll()
        assert receive.result() == pattern(LONG, number)
    assert copied.all == 3 * LONG
    # It has looked at what had not woken it yet, and is woken again.
    assert world.finish(irecv(world.comms[0]), isend(world.comms[1], b"x", 0))[0] == b"x"


@pytest.mark.parametrize("mode", [Mode.STANDARD, Mode.SYNCHRONOUS])
@pytest.mark.parametrize("nbytes", [LONG, MANY])
def test_both_copy_it(world: PolledWorld, copied: Copied, mode: Mode, nbytes: int) -> None:
    before = ring_bytes(world)
    into, data = bytearray(nbytes), pattern(nbytes)
    receive = irecv_into(world.comms[1], into)
    request = world.comms[0].isend((memoryview(data),), nbytes, 1, 0, mode)
    assert not request.done(), "the memory is still the message's"
    assert world.finish(request, receive)[1].Get_count() == nbytes
    assert into == data
    assert copied.all == nbytes, "each byte once"
    assert (copied[0] > 0) == (nbytes == MANY)
    assert ring_bytes(world) - before < 1000, "nothing but frames went through the ring"
    assert invited(world) == 0


def test_memory_that_cannot_be_written_is_sent(world: PolledWorld) -> None:
    data = pattern(MANY)
    assert world.finish(isend(world.comms[0], bytes(data), 1), irecv(world.comms[1]))[1] == data


def test_a_sender_that_does_something_else_is_not_needed(world: PolledWorld, copied: Copied) -> None:
    receive = irecv(world.comms[1])
    request = isend(world.comms[0], pattern(MANY), 1)
    while not receive.done():
        world.drivers[1].poll()
    assert receive.result() == pattern(MANY)
    assert (copied[1], copied[0]) == (MANY, 0)
    world.finish(request)
    assert copied[0] == 0, "the invitation holds no longer"


def test_the_copy_of_a_fork_calls_nothing_off(world: PolledWorld) -> None:
    """The control words of the ring still belong to the parent process."""
    receive = irecv(world.comms[1])
    request = isend(world.comms[0], pattern(MANY), 1)
    world.until(lambda: invited(world) != 0)
    number = invited(world)
    world.engines[1].failure.abort_fork(errors.OtherError("forked"))
    assert invited(world) == number
    assert receive.done()
    world.engines[0].failure.abort(errors.OtherError("enough"))
    assert request.done()
    world.poll()  # what was to be copied, and keeps memory, is not


def test_a_sender_writes_as_long_as_the_receiver_does_something_else(world: PolledWorld, copied: Copied) -> None:
    receive = irecv(world.comms[1])
    request = isend(world.comms[0], pattern(4 * MANY), 1)
    world.drivers[1].poll()
    read = copied[1]
    for _ in range(20):
        world.drivers[0].poll()
    assert copied[1] == read
    assert copied[0] == 4 * MANY - read, "all the rest"
    world.drivers[1].poll()
    assert receive.result() == pattern(4 * MANY)
    assert copied.all == 4 * MANY
    world.finish(request)


def test_one_that_is_not_expected_stays_where_it_is(world: PolledWorld) -> None:
    requests = [world.comms[0].isend((pattern(LONG, tag),), LONG, 1, tag) for tag in range(3)]
    for _ in range(20):
        world.poll()
    assert not any(request.done() for request in requests)
    assert world.held(1, 0) == 0
    for tag in (2, 0, 1):
        assert world.finish(irecv(world.comms[1], tag=tag), requests[tag])[0] == pattern(LONG, tag)


def test_several_at_once(world: PolledWorld, copied: Copied) -> None:
    """The sender is invited for one of them at a time."""
    receives = [irecv(world.comms[1]) for _ in range(4)]
    requests = [isend(world.comms[0], pattern(MANY, number), 1) for number in range(4)]
    back = [isend(world.comms[1], pattern(MANY, 9), 0), irecv(world.comms[0])]
    results = world.finish(*receives, *requests, *back)
    assert results[:4] == [pattern(MANY, number) for number in range(4)]
    assert results[-1] == pattern(MANY, 9)
    assert copied[0] > 0


def test_short_ones_and_ready_mode_go_through_the_ring(world: PolledWorld, copied: Copied) -> None:
    data = pattern(LONG)
    receives = [irecv(world.comms[1]) for _ in range(2)]
    requests = [isend(world.comms[0], data[:-1], 1), world.comms[0].isend((data,), LONG, 1, 0, Mode.READY)]
    assert world.finish(*receives, *requests)[:2] == [data[:-1], data]
    assert copied.all == 0


def test_it_is_a_setting(polled: NewPolled) -> None:
    w = polled(2, single_copy=False)
    assert w.finish(isend(w.comms[0], pattern(MANY), 1), irecv(w.comms[1]))[1] == pattern(MANY)
    assert Copied(w).total == 0


@pytest.mark.parametrize("nbytes", [0, 1, LONG])
def test_a_receive_that_is_too_short_is_told(world: PolledWorld, nbytes: int) -> None:
    into = bytearray(MANY)
    receive = irecv_into(world.comms[1], memoryview(into)[:nbytes])
    request = isend(world.comms[0], pattern(MANY), 1)
    world.until(lambda: request.done() and receive.done())
    assert isinstance(receive.exception(), errors.TruncationError)
    assert into == pattern(MANY)[:nbytes] + bytes(MANY - nbytes)


def test_a_message_in_pieces_for_which_there_is_less_room(world: PolledWorld, copied: Copied) -> None:
    pieces = (pattern(MANY, 1), b"", pattern(100, 2), pattern(MANY, 3))
    request = world.comms[0].isend(tuple(map(memoryview, pieces)), 2 * MANY + 100, 1, 0)
    into = bytearray(MANY + 50)
    receive = irecv_into(world.comms[1], into)
    world.until(lambda: request.done() and receive.done())
    assert isinstance(receive.exception(), errors.TruncationError)
    assert into == (pieces[0] + pieces[2])[: len(into)]
    assert copied.all == len(into)


@pytest.mark.parametrize(
    ("count", "each", "once"),
    [(2, MANY, True), (PIECES, LONG_PIECE, True), (PIECES + 1, LONG_PIECE, False), (9, LONG_PIECE - 1, False)],
)
def test_a_message_of_long_pieces_is_copied_once(
    world: PolledWorld, copied: Copied, count: int, each: int, once: bool
) -> None:
    before = ring_bytes(world)
    pieces = [pattern(each, number) for number in range(count)]
    nbytes = count * each
    request = world.comms[0].isend(tuple(map(memoryview, pieces)), nbytes, 1, 0)
    assert world.finish(request, irecv(world.comms[1]))[1] == b"".join(pieces)
    if once:
        assert copied.all == nbytes
        assert ring_bytes(world) - before < 2000
    else:
        assert copied.all == 0
        assert ring_bytes(world) - before > nbytes


# Taken back.


def test_memory_is_the_programs_again_once_it_waits_no_longer(world: PolledWorld) -> None:
    """What the program then writes there is not received: before its receive, before the copy, and during it."""
    for turns in (None, 0, 1):
        room = bytearray(pattern(2 * MANY))
        receive = None if turns is None else irecv(world.comms[1])
        request = world.comms[0].isend((memoryview(room),), len(room), 1, 0)
        for _ in range(1 if turns is None else turns):
            world.drivers[1].poll()
        request.withdraw()
        room[:] = bytes(len(room))
        if receive is None:
            receive = irecv(world.comms[1])
        assert world.finish(receive)[0] == pattern(2 * MANY)


def test_a_receive_that_is_withdrawn_in_the_midst(world: PolledWorld, copied: Copied) -> None:
    """The next receive gets the whole message, and the memory of the first one is not written any more."""
    into = bytearray(2 * MANY)
    receive = irecv_into(world.comms[1], into)
    request = isend(world.comms[0], pattern(2 * MANY), 1)
    world.drivers[1].poll()
    world.drivers[0].poll()
    assert copied[0] > 0, "the sender has begun"
    receive.withdraw()
    into[:] = bytes(len(into))
    other = irecv(world.comms[1])
    assert world.finish(other, request)[0] == pattern(2 * MANY)
    assert not any(into)


def test_a_receive_that_is_too_short_and_is_withdrawn_in_the_midst(world: PolledWorld) -> None:
    into = bytearray(2 * MANY)
    receive = irecv_into(world.comms[1], memoryview(into)[:-1])
    request = isend(world.comms[0], pattern(2 * MANY), 1)
    world.drivers[1].poll()
    receive.withdraw()
    into[:] = bytes(len(into))
    world.finish(request)
    assert not any(into)


def test_a_sender_that_goes_in_the_midst(world: PolledWorld) -> None:
    into = bytearray(2 * MANY)
    receive = irecv_into(world.comms[1], into)
    room = bytearray(pattern(2 * MANY))
    world.comms[0].isend((memoryview(room),), len(room), 1, 0)
    world.drivers[1].poll()
    world.engines[0].failure.abort(errors.OtherError("enough"))
    world.transports[0].close()
    room[:] = bytes(len(room))
    world.until(receive.done)
    world.poll()
    assert isinstance(receive.exception(), errors.ProcessFailedError)


def test_a_receiver_that_goes_in_the_midst(world: PolledWorld) -> None:
    into = bytearray(2 * MANY)
    irecv_into(world.comms[1], into)
    request = isend(world.comms[0], pattern(2 * MANY), 1)
    world.drivers[1].poll()
    world.engines[1].failure.abort(errors.OtherError("enough"))
    world.transports[1].close()
    into[:] = bytes(len(into))
    world.until(request.done)
    assert isinstance(request.exception(), errors.ProcessFailedError)
    assert not any(into), "no rank has written there since"


def test_memory_is_free_when_the_send_is_complete(world: PolledWorld) -> None:
    """This holds even if the sender was about to write more of it."""
    room = bytearray(pattern(4 * MANY))
    receive, request = irecv(world.comms[1]), world.comms[0].isend((memoryview(room),), len(room), 1, 0)
    world.drivers[1].poll()
    world.drivers[0].poll()
    assert world.engines[0].copy_queue._parts
    while not receive.done():
        world.drivers[1].poll()
    while not request.done():
        world.drivers[0].poll()
    assert not world.engines[0].assisted
    room.extend(b"x")
    world.poll()
    assert receive.result() == pattern(4 * MANY)


def test_a_handler_that_raises_when_the_answer_is_sent(world: PolledWorld) -> None:
    """Nothing is read any more, because the memory belongs to the program of the sender again."""
    room = bytearray(pattern(MANY))
    receive, request = irecv(world.comms[1]), world.comms[0].isend((memoryview(room),), len(room), 1, 0)
    peer = world.engines[1].peer(0)
    answers: list[int] = []

    class Interrupting:
        """The link of the receiver, after whose answer a handler raises."""

        def __init__(self, link: Any) -> None:
            self._link = link

        def __getattr__(self, name: str) -> Any:
            return getattr(self._link, name)

        def send(self, header: bytes, payload: Payload, owner: BufferOwner | None) -> bool:
            waits: bool = self._link.send(header, payload, owner)
            if header[0] == frame.SYNCACK:
                answers.append(header[0])
                raise KeyboardInterrupt
            return waits

    peer.link = Interrupting(peer.link)
    with pytest.raises(KeyboardInterrupt):
        world.until(receive.done)
    world.until(request.done)
    room[:] = bytes(len(room))
    for _ in range(5):
        world.poll()
    assert receive.result() == pattern(MANY)
    assert len(answers) == 1


def test_an_interrupt_stops_no_later_message(world: PolledWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    copy = single_copy._copy_from_sender

    def interrupted(*args: Any) -> bool:
        monkeypatch.setattr(single_copy, "_copy_from_sender", copy)
        raise KeyboardInterrupt

    monkeypatch.setattr(single_copy, "_copy_from_sender", interrupted)
    receives = [irecv(world.comms[1]) for _ in range(2)]
    requests = [isend(world.comms[0], pattern(MANY, number), 1) for number in range(2)]
    with pytest.raises(KeyboardInterrupt):
        world.finish(*receives)
    assert world.finish(*receives, *requests)[:2] == [pattern(MANY, number) for number in range(2)]


# What the kernel does not allow.


def test_a_receiver_that_may_not_read_asks_for_the_message(world: PolledWorld, copied: Copied) -> None:
    for link in world.links(1, 0):
        link._ring.process.reachable = False
    data = pattern(MANY)
    for _ in range(2):
        assert world.finish(isend(world.comms[0], data, 1), irecv(world.comms[1]))[1] == data
    assert copied.all == 0


def test_a_sender_that_may_not_write_lets_the_receiver_read(world: PolledWorld, copied: Copied) -> None:
    ring_of(world, 0).process.reachable = False
    data = pattern(MANY)
    assert world.finish(isend(world.comms[0], data, 1), irecv(world.comms[1]))[1] == data
    assert copied[1] == MANY


def test_nothing_is_exposed_to_a_receiver_that_has_not_said_that_it_may_read(polled: NewPolled) -> None:
    w = polled(eager_limit=10)
    with RawPeer(w, 0).greet() as raw:
        w.until(lambda: bool(w.links(0, 1)))
        w.poll()
        isend(w.comms[0], pattern(MANY), 1)
        at = PREFIX + raw.segment.size
        assert int.from_bytes(raw.segment.view[at : at + 4], "little") == frame.RTS


# Peers that say what is not.


@pytest.mark.parametrize(
    "header",
    [
        Header(frame.INVITE, tag=1, length=11),
        Header(frame.INVITE, tag=-1, length=10),
        Header(frame.INVITE, tag=1, length=10, drqid=2**64 - 1),
        Header(frame.INVITE, tag=1, length=10, drqid=2**64 - 9),
    ],
)
def test_invitation_for_what_is_not_there(polled: NewPolled, header: Header) -> None:
    w = polled(eager_limit=1)
    with RawPeer(w, 0).greet() as raw:
        w.until(lambda: bool(w.links(0, 1)))
        request = isend(w.comms[0], bytes(10), 1)
        w.poll()
        (srqid,) = w.engines[0].sends
        assert raw.segment is not None
        raw.send(HEADER.pack(*header._replace(srqid=srqid)))
        w.until(raw.dropped)
    w.until(request.done)
    assert isinstance(request.exception(), errors.ProcessFailedError)


def test_invitations_that_come_again(polled: NewPolled) -> None:
    """Each of them may cost the sender a copy of the message."""
    w = polled(eager_limit=1)
    with RawPeer(w, 0).greet() as raw:
        w.until(lambda: bool(w.links(0, 1)))
        isend(w.comms[0], bytes(10), 1)
        w.poll()
        (srqid,) = w.engines[0].sends
        raw.send(HEADER.pack(*Header(frame.INVITE, tag=1, length=10, srqid=srqid)))
        w.poll()
        assert not raw.dropped()
        raw.send(HEADER.pack(*Header(frame.INVITE, tag=2, length=10, srqid=srqid)))
        w.until(raw.dropped)
    assert "has a message written twice" in str(w.engines[0].peer(1).error)


@pytest.mark.parametrize(
    ("count", "table"),
    [
        (0, b""),
        (PIECES + 1, bytes(16 * (PIECES + 1))),
        (2**64 - 1, b""),
        (2, PLACE.pack(0, 4) * 2),
        (1, PLACE.pack(0, 11)),
        (2, PLACE.pack(0, 2**64 - 1) + PLACE.pack(0, 11)),
    ],
    ids=["none", "too-many", "huge", "shorter", "longer", "overflow"],
)
def test_pieces_that_are_no_message(polled: NewPolled, count: int, table: bytes) -> None:
    w = polled()
    with RawPeer(w, 0).greet() as raw:
        w.until(lambda: bool(w.links(0, 1)))
        assert raw.segment is not None
        header = HEADER.pack(*Header(frame.RTS, source=1, length=10, srqid=1))
        raw.segment.expose(header, PLACE.pack(count, 0) + table)
        w.until(raw.dropped)


@pytest.mark.parametrize("address", [0, 2**64 - 8])
def test_a_message_that_is_not_where_it_is_said_to_be_is_asked_for(polled: NewPolled, address: int) -> None:
    w = polled()
    receive = irecv(w.comms[0], 1)
    with RawPeer(w, 0).greet() as raw:
        w.until(lambda: bool(w.links(0, 1)))
        w.poll()
        assert raw.segment is not None
        header = HEADER.pack(*Header(frame.RTS, source=1, length=10, srqid=1))
        raw.segment.word("reads", 0)[0] = 1
        raw.segment.expose(header, PLACE.pack(1, 0) + PLACE.pack(address, 10))
        w.until(lambda: bool(w.engines[0].arriving))
        (drqid,) = w.engines[0].arriving
        raw.send(HEADER.pack(*Header(frame.DATA, length=10, drqid=drqid)) + bytes(10))
        w.until(receive.done)
    assert receive.result() == bytes(10)


def test_no_sender_writes_into_memory_of_a_rank_with_an_event_loop(tmp_path: Path) -> None:
    """Its receives are cancelled at any time, and wait for no process then."""

    async def main() -> None:
        with SocketWorld("shared_memory", 2, str(tmp_path), single_copy=True) as w:
            await isend(w.comms[0], b"x", 1)
            await irecv(w.comms[1])
            send, receive = isend(w.comms[0], pattern(MANY), 1), irecv(w.comms[1])
            assert await receive == pattern(MANY)
            await send
            copied = [[link._ring.process.copied for link in list[Any](each.links)] for each in w.transports]
            assert copied == [[0], [MANY]]

    asyncio.run(main())


def test_a_link_that_breaks_takes_back_what_was_exposed(world: PolledWorld) -> None:
    """The peer may still copy it, and must not deliver the copy."""
    isend(world.comms[0], pattern(MANY), 1)
    segment = ring_segment(world)
    before = word_of(segment, "retracted")
    link: Any = world.engines[0].peer(1).link
    link.lost("a test")
    assert word_of(segment, "retracted") == before + 1


def test_a_link_that_breaks_lets_the_sender_write_no_more(world: PolledWorld) -> None:
    irecv_into(world.comms[1], bytearray(MANY))
    isend(world.comms[0], pattern(MANY), 1)
    segment = ring_segment(world)
    while not invited(world):
        world.drivers[1].poll()
    (landing,) = world.engines[1].peer(0).landings
    for link in world.links(1, 0):
        link.close()
    assert not word_of(segment, "claims"), "before it is known what has become of the sender"
    assert world.engines[1].peer(0).landings == {landing}
    world.engines[1].peer(0).mark_failed("a test")
    world.drivers[1].poll()
