"""The native ring: frames of all lengths, sleep and room, and a peer that writes what it likes."""

from __future__ import annotations

import itertools
import mmap
import os
import random
import signal
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from aiompi.core._native import CommunicatorBase, MatchQueues, Outgoing, PeerBase, PeerProcess, PostedReceive, Ring
from aiompi.errors import InternalError, RemoteProtocolError
from aiompi.wire import frame
from aiompi.wire.frame import HEADER
from support.cases import cases
from support.frames import Header
from support.interrupts import called
from support.rings import LINE, SIZE, Landed, RingPair, eager, raw, send

STREAMED, EXPOSED, SKIP = 0x100, 0x200, 255


@pytest.fixture
def pair() -> Iterator[RingPair]:
    pair = RingPair()
    yield pair
    pair.close()


def pattern(nbytes: int, seed: int = 0) -> bytes:
    return random.Random(seed).randbytes(nbytes)


@pytest.mark.parametrize("nbytes", [0, 1, 8, 15, 16, 17, 80, 1000, 1024, 1025, 4000, 5000, 9000, 70_000])
def test_frames_of_each_length_arrive(pair: RingPair, nbytes: int) -> None:
    """Whole ones, and streamed ones that are longer than the rest of the ring, and than the ring."""
    for turn in range(40):
        payload = pattern(nbytes, turn)
        outgoing = send(pair.ends[0], payload, turn)
        found = pair.read()
        while not outgoing.done:
            pair.ends[0].write(outgoing, 2**40)
            found += pair.read()
        ((header, content),) = found
        assert (header.kind, header.tag, header.length) == (frame.EAGER, turn, nbytes)
        assert content == payload


@pytest.mark.parametrize("size", [4096, 8192, 65536])
@pytest.mark.parametrize("seed", range(4))
def test_frames_of_any_length_stay_in_order(size: int, seed: int) -> None:
    chance = random.Random(seed)
    pair = RingPair(size, chance.choice([1, 100, 2**30]) if size == SIZE else 2**30)
    sent, found, queue = [], [], []
    for i in range(300):
        payload = pattern(chance.choice([0, 8, 100, 1000, chance.randrange(3 * size)]) if i % 3 else i, i)
        sent.append(payload)
        queue.append(Outgoing(eager(payload, i), [payload[:5], payload[5:]], None))
        while queue and chance.random() < 0.7:
            pair.ends[0].write(queue[0], chance.choice([1000, 2**40]))
            if not queue[0].done:
                found += pair.read(budget=chance.choice([1, 5000, 2**40]))
            else:
                queue.pop(0)
    while queue or pair.ends[1].pending:
        if queue:
            pair.ends[0].write(queue[0], 2**40)
            if queue[0].done:
                queue.pop(0)
        found += pair.read()
    assert [content for _, content in found] == sent
    pair.close()


def test_a_handler_that_reads_on_as_a_receive_is_resumed_gets_the_next_frame(pair: RingPair) -> None:
    class Resumed(PostedReceive[Any]):
        def resume(self) -> None:
            self._done = False
            pair.ends[1].read(peer, 2**40)  # as a signal handler does

    peer: Any = PeerBase(SimpleNamespace(contexts={3: MatchQueues()}, brief_limit=100), 0)
    peer._ackmark, queues = 2**20, peer._contexts[3]
    queues.sources = {0: 0}
    receives = [Resumed(SimpleNamespace(), None, None, 0, 1, 0) for _ in range(3)]
    for receive in receives:
        queues.post(receive)
        receive._done = True  # a failure has interrupted it
    for number in range(3):
        assert pair.ends[0].put(HEADER.pack(frame.EAGER, 1, 0, 0, 3, 1, 0, 0), [bytes([number])])
    pair.ends[1].read(peer, 2**40)
    assert not [*queues.posted()]
    assert [bytes(receive.data) for receive in receives] == [b"\0", b"\1", b"\2"]


def test_a_message_on_offer_resumes_a_receive_that_a_failure_has_interrupted(pair: RingPair) -> None:
    class Answering(PeerBase):
        def emit(self, kind: int, *_: Any, **__: Any) -> None:
            answers.append(kind)

    class Resumed(PostedReceive[Any]):
        def resume(self) -> None:
            self._error, self._done = None, False

    answers: list[int] = []
    peer: Any = Answering(SimpleNamespace(contexts={3: MatchQueues()}, brief_limit=100), 0)
    peer._contexts[3].sources = {0: 0}
    receive: Any = Resumed(SimpleNamespace(), None, None, 0, 1, 0)
    peer._contexts[3].post(receive)
    receive._error, receive._done = RuntimeError("a failure"), True
    content = np.arange(500)
    pair.ends[1].process = PeerProcess(os.getpid())
    table = struct.pack("<QQQQ", 1, 0, content.ctypes.data, content.nbytes)
    pair.put_raw(0, raw(frame.RTS | EXPOSED, content.nbytes, tag=1, context=3) + table)
    pair.ends[1].read(peer, 2**40)
    assert answers == [frame.SYNCACK]
    assert receive._done
    assert receive.exception() is None
    assert bytes(receive.data) == content.tobytes()


# Short messages that come in parts.


class Taker(PeerBase):
    """A peer with one posted receive, which records the landings of messages that have come in part.

    Attributes:
        landed: memory of the landings, and the bytes that are there.
    """

    def __init__(self, memory: Any) -> None:
        super().__init__(SimpleNamespace(contexts={3: MatchQueues()}, brief_limit=100), 0)
        self._ackmark = self._hiwater = 2**20
        queues = self._contexts[3]
        queues.sources = {0: 0}
        self.receive: Any = PostedReceive(SimpleNamespace(recorder=None), None, memory, 0, 1, 0)
        queues.post(self.receive)
        self.frames: list[tuple[Header, bytes]] = []
        self.landings: list[Landed] = []

    def land_at(self, receive: Any, header: tuple[int, ...]) -> Any:
        assert receive is self.receive
        self.landings.append(landing := Landed(Header(*header), self.frames, 2**30))
        if receive.memory is not None:
            landing.memory[: len(receive.memory)] = receive.memory
        return landing

    @property
    def content(self) -> bytes:
        return bytes(self.receive.data if self.receive.memory is None else self.receive.memory)


@pytest.fixture
def wide() -> Iterator[RingPair]:
    pair = RingPair(65536)
    yield pair
    pair.close()


def put_parts(pair: RingPair, payload: bytes, written: int, missing: int = 0) -> None:
    """Write a message of 3 with tag 1 of which `written` bytes, and `missing` others, are there."""
    pair.put_raw(HEADER.size, payload)
    pair.word("written")[0] = HEADER.size + written
    pair.put_raw(0, raw(frame.EAGER | STREAMED, len(payload) + missing, tag=1, context=3))


@pytest.mark.parametrize("into", [None, bytearray])
def test_a_message_in_parts_goes_straight_to_its_receive(wide: RingPair, into: Any) -> None:
    payload = pattern(9000)
    taker = Taker(into and memoryview(into(9000)))
    put_parts(wide, payload, 9000)
    assert wide.ends[1].read(taker, 2**40) > 0
    assert taker.receive._done
    assert taker.content == payload
    assert not taker.landings
    assert wide.ends[1].between_frames
    send(wide.ends[0], b"unread")
    assert wide.ends[1].position % LINE == 0


@pytest.mark.parametrize("into", [None, bytearray])
@pytest.mark.parametrize("written", [1, 4000, 8999])
def test_a_message_lands_whose_writer_stops_between_two_parts(wide: RingPair, into: Any, written: int) -> None:
    payload = pattern(9000)
    taker = Taker(into and memoryview(into(9000)))
    put_parts(wide, payload, written)
    wide.ends[1].read(taker, 2**40)
    (landing,) = taker.landings
    assert landing.filled == written
    assert landing.memory[:written] == payload[:written]
    assert not taker.receive._done, "that is for the landing to say"
    wide.word("written")[0] = HEADER.size + 9000
    wide.ends[1].read(taker, 2**40)
    ((_, content),) = taker.frames
    assert content[written:] == payload[written:]


def test_a_message_in_parts_that_is_too_long_for_its_receive_lands(wide: RingPair) -> None:
    taker = Taker(memoryview(bytearray(8999)))
    put_parts(wide, pattern(9000), 9000)
    wide.ends[1].read(taker, 2**40)
    assert not taker.receive._done
    assert taker.content == bytes(8999), "only the landing knows what to keep"
    assert [content for _, content in taker.frames] == [pattern(9000)]


def test_a_matched_message_lands_before_its_writer_is_refused(wide: RingPair) -> None:
    """So that whatever ends the connection finds its receive."""
    taker = Taker(None)
    put_parts(wide, pattern(9000), 2**17)
    with pytest.raises(RemoteProtocolError, match="the writer of a ring says that it is at"):
        wide.ends[1].read(taker, 2**40)
    assert len(taker.landings) == 1


def test_a_message_in_parts_beyond_the_credit_is_not_matched(wide: RingPair) -> None:
    taker = Taker(None)
    taker._hiwater = 9000
    put_parts(wide, pattern(9000), 9000)
    with pytest.raises(AttributeError, match="land"):  # which the engine's peer has, and which refuses it
        wide.ends[1].read(taker, 2**40)
    assert [*taker._contexts[3].posted()] == [taker.receive]


def test_a_message_in_parts_is_whole_whatever_its_reader_says_meanwhile() -> None:
    """Its writer has room for the whole, and looks for no more."""
    pair = RingPair(2**17)
    fill = [send(pair.ends[0], bytes(nbytes)) for nbytes in (32720, 32720, 32720, 12560)]
    assert all(each.done for each in fill)
    comm = sender(pair.ends[0])
    pair.word("tail")[0] = 1
    content = np.arange(5000, dtype="i4")
    assert comm.send_short(content, 0, 1), "it ends where the ring does"
    assert not comm.send_short(content, 0, 1), "there is no room, as far as is known"
    with pytest.raises(RemoteProtocolError, match="the reader of a ring says that it is at 1"):
        send(pair.ends[0], bytes(500))
    *_, (header, found) = pair.read()
    assert (header.length, found) == (20_000, content.tobytes())
    pair.close()


def test_a_message_in_parts_has_no_more_pieces_than_it_says() -> None:
    class Pieces(list[bytes]):
        def __len__(self) -> int:
            return 2

    pair = RingPair(2**17)
    with pytest.raises(InternalError, match="more than its 2 pieces"):
        sender(pair.ends[0]).send(Pieces([b"a" * 2500] * 80), 20_000, 0, 1)
    assert pair.read() == []
    pair.close()


def sender(ring: Ring) -> CommunicatorBase:
    """Return a communicator whose rank 0 is behind a ring."""
    peer = PeerBase(SimpleNamespace(contexts={}, brief_limit=2**20), 0)
    peer.ring, peer.credit = ring, 2**20
    comm = CommunicatorBase()
    comm.engine = SimpleNamespace(driver=SimpleNamespace(admits=lambda: True), completed_send=None)
    comm._peers, comm._reach, comm.tag_ub = [peer], 1, 100
    return comm


def test_a_writer_of_single_bytes_does_not_hold_its_reader() -> None:
    pair = RingPair(2**19)
    put_parts(pair, bytes(2**17), 1)
    child = os.fork()
    if not child:
        written = pair.word("written")
        for position in range(HEADER.size + 1, HEADER.size + 2**17):
            written[0] = position
            for _ in range(50):
                pass
        os._exit(0)
    try:
        taker = Taker(None)
        pair.ends[1].read(taker, 2**18)
        assert not taker.receive._done
        assert not taker.frames, "the reader has stayed until the last byte came"
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        pair.close()


# Sleep and room.


def test_a_reader_is_woken_once_per_sleep_and_not_while_it_is_awake(pair: RingPair) -> None:
    first, second = pair.ends
    send(first, b"x")
    assert not pair.rung(1)
    assert not second.watch(), "there is a frame"
    pair.read()
    assert second.watch()
    for _ in range(3):
        send(first, b"y")
    assert pair.rung(1)
    send(first, b"z")
    assert not pair.rung(1)
    assert len(pair.read()) == 4
    assert second.watch()
    send(first, b"y")
    assert pair.rung(1)


def test_a_writer_without_room_is_woken_when_there_is_some(pair: RingPair) -> None:
    first, _second = pair.ends
    sent = 0
    while send(first, bytes(500)).done:
        sent += 1
    assert first.want()
    assert not pair.rung(0)
    assert len(pair.read()) == sent
    assert pair.rung(0)
    assert first.moved
    assert send(first, bytes(500)).done


def test_a_writer_that_sees_room_does_not_sleep(pair: RingPair) -> None:
    while send(pair.ends[0], bytes(500)).done:
        pass
    pair.read()
    pair.ends[1].watch()
    assert not pair.ends[0].want()


def test_the_rest_of_a_payload_wakes_a_reader_in_its_midst(pair: RingPair) -> None:
    outgoing = send(pair.ends[0], pattern(3 * SIZE))
    while not outgoing.done:
        assert pair.read() == []
        assert pair.ends[1].watch()
        pair.rung(1)
        assert pair.ends[0].write(outgoing, 2**40) > 0
        assert pair.rung(1)
    ((_, content),) = pair.read()
    assert content == pattern(3 * SIZE)


def test_a_budget_ends_reading(pair: RingPair) -> None:
    for i in range(4):
        send(pair.ends[0], b"x", i)
    assert len(pair.read(budget=1)) == 1
    assert len(pair.read(budget=5000)) == 2
    assert len(pair.read()) == 1


def test_what_the_owner_changes_after_a_copy_is_not_sent(pair: RingPair) -> None:
    payload = bytearray(pattern(2 * SIZE))
    outgoing = Outgoing(eager(payload), [memoryview(payload)], None)
    pair.ends[0].write(outgoing, 2**40)
    outgoing.copy()
    payload[:] = bytes(len(payload))
    found = []
    while not found:
        pair.ends[0].write(outgoing, 2**40)
        found = pair.read()
    assert found[0][1] == pattern(2 * SIZE)


def test_credit_and_retractions_are_words(pair: RingPair) -> None:
    pair.ends[1].grant(70)
    pair.ends[1].grant(7)
    assert pair.ends[0].granted() == 77
    assert pair.ends[0].granted() == 0
    assert not pair.ends[0].peer_copies
    pair.ends[1].copies()
    assert pair.ends[0].peer_copies


# A peer that writes what it likes.


@pytest.mark.parametrize(
    "header",
    [
        raw(frame.EAGER, SIZE),
        raw(frame.EAGER, 2**64 - 1),
        raw(frame.EAGER | STREAMED, 2**63),
        raw(frame.EAGER | STREAMED, 0),
        raw(frame.RTS | STREAMED, 9000),
        raw(frame.EAGER | EXPOSED, 16),
        raw(frame.EAGER | EXPOSED | STREAMED, 16),
        raw(2**32 - 1),
        raw(2**31),
        raw(SKIP),
    ],
)
def test_headers_that_cannot_be(pair: RingPair, header: bytes) -> None:
    pair.put_raw(0, header)
    with pytest.raises(RemoteProtocolError):
        pair.read()


def test_a_writer_that_is_where_it_cannot_be(pair: RingPair) -> None:
    for written in (0, 47, 2**64 - 1, SIZE + 49):
        pair = RingPair()
        pair.word("written")[0] = written
        pair.put_raw(0, raw(frame.EAGER | STREAMED, 9000))
        with pytest.raises(RemoteProtocolError, match="the writer of a ring says that it is at"):
            pair.read()
        pair.close()


@pytest.mark.parametrize("tail", [1, 2 * SIZE, 2**63, 2**64 - 64, 2**64 - SIZE])
def test_a_reader_that_is_where_it_cannot_be(pair: RingPair, tail: int) -> None:
    pair.word("tail")[0] = tail
    with pytest.raises(RemoteProtocolError, match="the reader of a ring says that it is at"):
        for _ in range(SIZE // LINE):
            send(pair.ends[0], bytes(500))


def test_credit_that_falls(pair: RingPair) -> None:
    pair.word("granted")[0] = 5
    assert pair.ends[0].granted() == 5
    pair.word("granted")[0] = 4
    with pytest.raises(RemoteProtocolError, match="has granted 4 bytes, and before 5"):
        pair.ends[0].granted()


@pytest.mark.parametrize(
    "table",
    [
        struct.pack("<QQ", 0, 0),
        struct.pack("<QQ", 65, 0),
        struct.pack("<QQ", 2**64 - 1, 0),
        struct.pack("<QQQQ", 1, 0, 0x1000, 99),
        struct.pack("<QQQQQQ", 2, 0, 0x1000, 2**64 - 1, 0x1000, 101),
    ],
)
def test_tables_of_pieces_that_cannot_be(pair: RingPair, table: bytes) -> None:
    pair.ends[1].process = PeerProcess(os.getpid())
    pair.put_raw(0, raw(frame.RTS | EXPOSED, 100) + table)
    with pytest.raises(RemoteProtocolError):
        pair.read()
    assert pair.sinks[1].offers == []


@cases("seed", range(60))
def test_nothing_but_a_protocol_error_comes_of_any_memory(seed: int) -> None:
    """A peer scribbles over words and rings at any moment."""
    chance = random.Random(seed)
    pair = RingPair(chance.choice([4096, 16384]), chance.choice([7, 2**30]))
    try:
        for i in range(400):
            end = chance.randrange(2)
            ring = pair.ends[end]
            step = chance.randrange(7)
            if step < 2:
                send(ring, bytes(chance.choice([8, 300, 9000])), i)
            elif step < 4:
                pair.read(end, chance.choice([1, 2**40]))
            elif step == 4:
                ring.watch()
                ring.want()
                ring.granted()
            if i > 20:
                place = chance.choice([chance.randrange(2048), chance.randrange(len(pair.view))]) & ~7
                value = chance.choice([0, 1, 255, 0x107, 0x204, 2**32 - 1, 2**63, 2**64 - 1, chance.randrange(2**64)])
                pair.view[place : place + 8] = struct.pack("<Q", value)
    except (RemoteProtocolError, MemoryError, OverflowError) as error:
        assert not isinstance(error, OverflowError)  # a landing of any length is the sink's, which has no memory
    finally:
        pair.close()


# Two processes.


def test_two_processes_exchange_messages_of_all_lengths() -> None:
    """Run the program by hand with a count of 10000000 after a change of the ring, or of copies by the kernel."""
    subprocess.run([sys.executable, str(Path(__file__).parent / "order.py"), "4000", "1"], check=True)


def test_a_writer_that_dies_in_the_midst_of_a_frame_leaves_its_reader_free(pair: RingPair) -> None:
    child = os.fork()
    if not child:
        send(pair.ends[0], bytes(9000))
        os._exit(0)
    os.waitpid(child, 0)
    assert pair.read() == []
    assert not pair.ends[1].between_frames
    assert pair.ends[1].watch()


def test_a_signal_handler_that_reads_on_loses_nothing_of_a_payload() -> None:
    """Wherever it runs in what the ring calls: it reads further parts of the same payload, or the next one."""
    contents = [bytes((7 * i + j) % 251 for i in range(9000)) for j in range(3)]
    for last in itertools.count():
        memory = mmap.mmap(-1, 16384)
        writer, reader = Ring(memory, 4096, -1, True), Ring(memory, 4096, -1, False)
        sink = Handled()
        frames = [Outgoing(streamed(len(each)), [each]) for each in contents]

        def step(
            frames: list[Outgoing] = frames, writer: Ring = writer, reader: Ring = reader, sink: Any = sink
        ) -> None:
            for each in frames:
                if not each.done:
                    writer.write(each, 1500)
                    break
            reader.read(sink, 2**20)

        with called(last, step) as made:
            while not frames[-1].done or not reader.between_frames or reader.pending:
                step()
        assert [bytes(each.memory) for each in sink.landings] == contents, last
        assert all(each.filled == len(each.memory) for each in sink.landings)
        if not made:
            break


def streamed(length: int) -> bytes:
    return (7).to_bytes(4, "little") + bytes(20) + length.to_bytes(8, "little") + bytes(16)


class Handled:
    """A sink whose landings are functions of Python, in which handlers run."""

    def __init__(self) -> None:
        self.landings: list[Handled.Landing] = []

    class Landing:
        def __init__(self, length: int) -> None:
            self.memory, self.filled = memoryview(bytearray(length)), 0

        def room(self) -> memoryview:
            return self.memory[self.filled :]

        def advance(self, nbytes: int) -> None:
            self.filled += nbytes

    def land(self, header: tuple[int, ...]) -> Landing:
        landing = self.Landing(header[5])
        self.landings.append(landing)
        return landing
