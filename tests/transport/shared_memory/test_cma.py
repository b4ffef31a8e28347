"""Long messages that are copied once: by their receiver, and from their end on by their sender."""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import Any

import pytest
from frames import Header
from worlds import PolledWorld, RawPeer, irecv, irecv_into, isend, pattern

from aiompi import errors
from aiompi.datatype.buffer import process
from aiompi.engine import Mode
from aiompi.engine.seams import BufferOwner
from aiompi.transport.shared_memory.cma import LONG, LONG_PIECE, Exposed
from aiompi.transport.shared_memory.ring import EXPOSED, INVITED, PIECES, PLACE, RETRACTED
from aiompi.wire import frame
from aiompi.wire.frame import HEADER, Payload

NewPolled = Callable[..., PolledWorld]
Refuse = Callable[[str, int], None]
MANY = 9 * 2**20 + 1


@pytest.fixture
def world(polled: NewPolled) -> PolledWorld:
    """Return two ranks that have exchanged messages."""
    w = polled(2, single_copy=True)
    w.finish(isend(w.comms[0], b"x", 1), irecv(w.comms[1]), isend(w.comms[1], b"x", 0), irecv(w.comms[0]))
    return w


def ring_bytes(w: PolledWorld) -> int:
    """Return the bytes that rank 0 has written into its ring to rank 1."""
    link: Any = w.engines[0].peer(1).link
    return int(link._segment.outbound._head)


def words(w: PolledWorld) -> memoryview:
    """Return the control words of the ring from rank 0 to rank 1."""
    link: Any = w.engines[0].peer(1).link
    found: memoryview = link._segment.outbound.words
    return found


# One copy.


def test_receiver_remembers_few_offers_and_asks_for_the_other_messages(
    world: PolledWorld, copied: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aiompi.engine.peer._MAX_OFFERS", 2)
    data = [pattern(LONG, i) for i in range(4)]
    sends = [isend(world.comms[0], each, 1) for each in data]
    matcher = world.comms[1].matcher
    world.until(lambda: len(matcher.arrivals) == len(data))
    assert [message.offer is not None for message in matcher.unexpected()] == [True, True, False, False]
    receives = [irecv(world.comms[1]) for _ in data]
    assert world.finish(*receives, *sends)[:4] == data
    assert copied["read"] + copied["write"] == 2 * LONG


@pytest.mark.parametrize("mode", [Mode.STANDARD, Mode.SYNCHRONOUS])
@pytest.mark.parametrize("nbytes", [LONG, MANY])
def test_both_copy_it(world: PolledWorld, copied: dict[str, int], mode: Mode, nbytes: int) -> None:
    before = ring_bytes(world)
    into, data = bytearray(nbytes), pattern(nbytes)
    receive = irecv_into(world.comms[1], into)
    request = world.comms[0].isend((memoryview(data),), nbytes, 1, 0, mode)
    assert not request.done(), "the memory is still the message's"
    assert world.finish(request, receive)[1].Get_count() == nbytes
    assert into == data
    assert copied["read"] + copied["write"] == nbytes, "each byte once"
    assert (copied["write"] > 0) == (nbytes == MANY)
    assert ring_bytes(world) - before < 1000, "nothing but frames went through the ring"
    assert words(world)[INVITED] == 0


def test_memory_that_cannot_be_written_is_sent(world: PolledWorld) -> None:
    data = pattern(MANY)
    assert world.finish(isend(world.comms[0], bytes(data), 1), irecv(world.comms[1]))[1] == data


def test_a_sender_that_does_something_else_is_not_needed(world: PolledWorld, copied: dict[str, int]) -> None:
    receive = irecv(world.comms[1])
    request = isend(world.comms[0], pattern(MANY), 1)
    while not receive.done():
        world.drivers[1].poll()
    assert receive.result() == pattern(MANY)
    assert copied == {"read": MANY, "write": 0}
    world.finish(request)
    assert copied["write"] == 0, "the invitation holds no longer"


def test_the_copy_of_a_fork_calls_nothing_off(world: PolledWorld) -> None:
    """The control words of the ring still belong to the parent process."""
    receive = irecv(world.comms[1])
    request = isend(world.comms[0], pattern(MANY), 1)
    world.until(lambda: words(world)[INVITED] != 0)
    invited = words(world)[INVITED]
    world.engines[1].failure.abort_fork(errors.OtherError("forked"))
    assert words(world)[INVITED] == invited
    assert receive.done()
    world.engines[0].failure.abort(errors.OtherError("enough"))
    assert request.done()
    world.poll()  # what was to be copied, and keeps memory, is not


def test_a_sender_writes_as_long_as_the_receiver_does_something_else(
    world: PolledWorld, copied: dict[str, int]
) -> None:
    receive = irecv(world.comms[1])
    request = isend(world.comms[0], pattern(4 * MANY), 1)
    world.drivers[1].poll()
    read = copied["read"]
    for _ in range(20):
        world.drivers[0].poll()
    assert copied["read"] == read
    assert 0 <= 4 * MANY - read - copied["write"] < 2**19, "all but a part of a piece"
    world.drivers[1].poll()
    assert receive.result() == pattern(4 * MANY)
    assert copied["read"] + copied["write"] == 4 * MANY
    world.finish(request)


def test_one_that_is_not_expected_stays_where_it_is(world: PolledWorld) -> None:
    requests = [world.comms[0].isend((pattern(LONG, tag),), LONG, 1, tag) for tag in range(3)]
    for _ in range(20):
        world.poll()
    assert not any(request.done() for request in requests)
    assert world.held(1, 0) == 0
    for tag in (2, 0, 1):
        assert world.finish(irecv(world.comms[1], tag=tag), requests[tag])[0] == pattern(LONG, tag)


def test_several_at_once(world: PolledWorld, copied: dict[str, int]) -> None:
    """The sender is invited for one of them at a time."""
    receives = [irecv(world.comms[1]) for _ in range(4)]
    requests = [isend(world.comms[0], pattern(MANY, number), 1) for number in range(4)]
    back = [isend(world.comms[1], pattern(MANY, 9), 0), irecv(world.comms[0])]
    results = world.finish(*receives, *requests, *back)
    assert results[:4] == [pattern(MANY, number) for number in range(4)]
    assert results[-1] == pattern(MANY, 9)
    assert copied["write"] > 0


def test_short_ones_and_ready_mode_go_through_the_ring(world: PolledWorld, copied: dict[str, int]) -> None:
    data = pattern(LONG)
    receives = [irecv(world.comms[1]) for _ in range(2)]
    requests = [isend(world.comms[0], data[:-1], 1), world.comms[0].isend((data,), LONG, 1, 0, Mode.READY)]
    assert world.finish(*receives, *requests)[:2] == [data[:-1], data]
    assert copied == {"read": 0, "write": 0}


def test_it_is_a_setting(polled: NewPolled, copied: dict[str, int]) -> None:
    w = polled(2, single_copy=False)
    assert w.finish(isend(w.comms[0], pattern(MANY), 1), irecv(w.comms[1]))[1] == pattern(MANY)
    assert copied == {"read": 0, "write": 0}


@pytest.mark.parametrize("nbytes", [0, 1, LONG])
def test_a_receive_that_is_too_short_is_told(world: PolledWorld, nbytes: int) -> None:
    into = bytearray(MANY)
    receive = irecv_into(world.comms[1], memoryview(into)[:nbytes])
    request = isend(world.comms[0], pattern(MANY), 1)
    world.until(lambda: request.done() and receive.done())
    assert isinstance(receive.exception(), errors.TruncationError)
    assert into == pattern(MANY)[:nbytes] + bytes(MANY - nbytes)


def test_a_message_in_pieces_for_which_there_is_less_room(world: PolledWorld, copied: dict[str, int]) -> None:
    pieces = (pattern(MANY, 1), b"", pattern(100, 2), pattern(MANY, 3))
    request = world.comms[0].isend(tuple(map(memoryview, pieces)), 2 * MANY + 100, 1, 0)
    into = bytearray(MANY + 50)
    receive = irecv_into(world.comms[1], into)
    world.until(lambda: request.done() and receive.done())
    assert isinstance(receive.exception(), errors.TruncationError)
    assert into == (pieces[0] + pieces[2])[: len(into)]
    assert copied["read"] + copied["write"] == len(into)


@pytest.mark.parametrize(
    ("count", "each", "once"),
    [(2, MANY, True), (PIECES, LONG_PIECE, True), (PIECES + 1, LONG_PIECE, False), (9, LONG_PIECE - 1, False)],
)
def test_a_message_of_long_pieces_is_copied_once(
    world: PolledWorld, copied: dict[str, int], count: int, each: int, once: bool
) -> None:
    before = ring_bytes(world)
    pieces = [pattern(each, number) for number in range(count)]
    nbytes = count * each
    request = world.comms[0].isend(tuple(map(memoryview, pieces)), nbytes, 1, 0)
    assert world.finish(request, irecv(world.comms[1]))[1] == b"".join(pieces)
    if once:
        assert copied["read"] + copied["write"] == nbytes
        assert ring_bytes(world) - before < 2000
    else:
        assert copied == {"read": 0, "write": 0}
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


def test_a_receive_that_is_withdrawn_in_the_midst(world: PolledWorld) -> None:
    """The next receive gets the whole message, and the memory of the first one is not written any more."""
    into = bytearray(2 * MANY)
    receive = irecv_into(world.comms[1], into)
    request = isend(world.comms[0], pattern(2 * MANY), 1)
    world.drivers[1].poll()
    world.drivers[0].poll()
    assert into[-1:] == pattern(2 * MANY)[-1:], "the sender has begun"
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
    copy = Exposed.copy

    def interrupted(*args: Any) -> int:
        monkeypatch.setattr(Exposed, "copy", copy)
        raise KeyboardInterrupt

    monkeypatch.setattr(Exposed, "copy", interrupted)
    receives = [irecv(world.comms[1]) for _ in range(2)]
    requests = [isend(world.comms[0], pattern(MANY, number), 1) for number in range(2)]
    with pytest.raises(KeyboardInterrupt):
        world.finish(*receives)
    assert world.finish(*receives, *requests)[:2] == [pattern(MANY, number) for number in range(2)]


# What the kernel does not allow.


@pytest.mark.parametrize("number", [errno.EPERM, errno.ENOSYS, errno.ESRCH])
def test_a_receiver_that_may_not_read_asks_for_the_message(
    world: PolledWorld, monkeypatch: pytest.MonkeyPatch, refuse: Refuse, copied: dict[str, int], number: int
) -> None:
    refuse("read", number)
    data = pattern(MANY)
    assert world.finish(isend(world.comms[0], data, 1), irecv(world.comms[1]))[1] == data
    monkeypatch.setattr(process, "read", lambda *_: pytest.fail("it knows that it may not"))
    written = copied["write"]
    assert world.finish(isend(world.comms[0], data, 1), irecv(world.comms[1]))[1] == data
    assert copied["write"] == written


def test_a_sender_that_may_not_write_lets_the_receiver_read(
    world: PolledWorld, refuse: Refuse, copied: dict[str, int]
) -> None:
    refuse("write", errno.EPERM)
    data = pattern(MANY)
    assert world.finish(isend(world.comms[0], data, 1), irecv(world.comms[1]))[1] == data
    assert copied["read"] == MANY


def test_memory_that_is_gone_says_nothing_of_other_memory(
    world: PolledWorld, monkeypatch: pytest.MonkeyPatch, refuse: Refuse, copied: dict[str, int]
) -> None:
    read = process.read
    refuse("read", errno.EFAULT)
    data = pattern(MANY)
    assert world.finish(isend(world.comms[0], data, 1), irecv(world.comms[1]))[1] == data
    monkeypatch.setattr(process, "read", read)
    before = copied["read"]
    assert world.finish(isend(world.comms[0], data, 1), irecv(world.comms[1]))[1] == data
    assert copied["read"] > before


# Peers that say what is not.


@pytest.mark.parametrize("header", [Header(frame.INVITE, tag=1, length=11), Header(frame.INVITE, tag=-1, length=10)])
def test_invitation_for_what_is_not_there(polled: NewPolled, header: Header) -> None:
    w = polled(eager_limit=1)
    with RawPeer(w, 0).greet() as raw:
        w.until(lambda: bool(w.links(0, 1)))
        request = isend(w.comms[0], bytes(10), 1)
        w.poll()
        (srqid,) = w.engines[0].sends
        assert raw.segment is not None
        raw.segment.outbound.put(HEADER.pack(*header._replace(srqid=srqid)), b"")
        raw.segment.outbound.ring()
        w.until(raw.dropped)
    w.until(request.done)
    assert isinstance(request.exception(), errors.ProcessFailedError)


@pytest.mark.parametrize(
    ("count", "table"),
    [
        (0, b""),
        (PIECES + 1, bytes(16 * (PIECES + 1))),
        (2**64 - 1, b""),
        (2, PLACE.pack(0, 4) * 2),
        (1, PLACE.pack(0, 11)),
        (2, PLACE.pack(0, 2**64 - 1) + PLACE.pack(0, 11)),
        (PIECES, PLACE.pack(0, 10)),
    ],
    ids=["none", "too-many", "huge", "shorter", "longer", "overflow", "beyond-the-head"],
)
def test_pieces_that_are_no_message(polled: NewPolled, count: int, table: bytes) -> None:
    w = polled()
    with RawPeer(w, 0).greet() as raw:
        w.until(lambda: bool(w.links(0, 1)))
        assert raw.segment is not None
        header = HEADER.pack(*Header(frame.RTS, source=1, length=10, srqid=1))
        raw.segment.outbound.put(header, PLACE.pack(count, 0) + table, EXPOSED)
        raw.segment.outbound.ring()
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
        raw.segment.outbound.put(header, PLACE.pack(1, 0) + PLACE.pack(address, 10), EXPOSED)
        raw.segment.outbound.ring()
        w.until(lambda: bool(w.engines[0].arriving))
        (drqid,) = w.engines[0].arriving
        raw.segment.outbound.put(HEADER.pack(*Header(frame.DATA, length=10, drqid=drqid)), bytes(10))
        raw.segment.outbound.ring()
        w.until(receive.done)
    assert receive.result() == bytes(10)


def test_a_link_that_breaks_takes_back_what_was_exposed(world: PolledWorld) -> None:
    """The peer may still copy it, and must not deliver the copy."""
    isend(world.comms[0], pattern(MANY), 1)
    seen = words(world)
    before = seen[RETRACTED]
    link: Any = world.engines[0].peer(1).link
    link.lost("a test")
    assert seen[RETRACTED] == before + 1


def test_a_link_that_breaks_lets_the_sender_write_no_more(world: PolledWorld) -> None:
    irecv_into(world.comms[1], bytearray(MANY))
    isend(world.comms[0], pattern(MANY), 1)
    seen = words(world)
    while not seen[INVITED]:
        world.drivers[1].poll()
    (landing,) = world.engines[1].peer(0).landings
    for link in world.links(1, 0):
        link.close()
    assert not seen[INVITED], "before it is known what has become of the sender"
    assert world.engines[1].peer(0).landings == {landing}
    world.engines[1].peer(0).mark_failed("a test")
    world.drivers[1].poll()
