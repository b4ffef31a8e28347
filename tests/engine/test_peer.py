"""Flow control, frames that must not come, and the end of a peer."""

from __future__ import annotations

import errno
import os
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from aiompi import errors
from aiompi.constants import ANY_SOURCE, ANY_TAG
from aiompi.core.pure.peer import OVERHEAD
from aiompi.engine import Endpoint, Link, Message, Mode
from aiompi.engine.peer import _HANDLERS
from aiompi.wire import frame
from aiompi.wire.frame import HEADER, HEADER_BYTES, FrameReader
from support.frames import Header
from support.worlds import LocalWorld, WireWorld, irecv, irecv_into, isend, pattern, pour

WINDOW = 4096


def unexpected(world: WireWorld, rank: int) -> list[Message]:
    """Return the unexpected messages of a rank."""
    return list(world.comms[rank].matcher.unexpected())


def unexpected_bytes(world: WireWorld, rank: int) -> int:
    """Return the payload bytes of the unexpected messages of a rank."""
    return sum(len(m.data or (m.landing and m.landing.memory) or b"") for m in unexpected(world, rank))


# Flow control.


@pytest.mark.spec("S3.5-11", "S3.5-12", "S3.4-13", "S3.5-1")
@pytest.mark.parametrize("size", [0, 100, 1000])
@pytest.mark.parametrize("cut", [1, 2**20])
def test_flood_of_a_receiver_that_does_not_receive(size: int, cut: int) -> None:
    w = WireWorld(2, cut=cut, eager_limit=1000, eager_window=WINDOW)
    count = 60
    sends = [isend(w.comms[0], pattern(size, i), 1, i % 3) for i in range(count)]
    w.run()
    fitting = WINDOW // (size + OVERHEAD)
    assert [send.done() for send in sends] == [True] * fitting + [False] * (count - fitting)
    assert unexpected_bytes(w, 1) <= w.held(1, 0) <= WINDOW
    receives = [irecv(w.comms[1], 0) for _ in range(count)]
    w.run()
    assert [receive.result() for receive in receives] == [pattern(size, i) for i in range(count)]
    assert all(send.done() for send in sends)
    assert w.credit_balance(0, 1) == WINDOW


@pytest.mark.spec("S3.5-12")
def test_pending_sends_cost_the_receiver_no_payload() -> None:
    w = WireWorld(2, eager_limit=2**20, eager_window=WINDOW)
    sends = [isend(w.comms[0], bytes(10**6), 1) for _ in range(50)]
    w.run()
    assert unexpected_bytes(w, 1) == 0
    assert not any(send.done() for send in sends)


@pytest.mark.parametrize("size", [1000, 1001])
def test_send_that_finds_no_connection_costs_nothing(size: int) -> None:
    w = WireWorld(2, eager_limit=1000, eager_window=WINDOW)
    engine = w.engines[0]
    connect = engine.environment.connect

    def refuse(peer: Endpoint) -> Link:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    engine.environment.connect = refuse
    for _ in range(20):
        with pytest.raises(OSError, match="open files"):
            isend(w.comms[0], bytes(size), 1)
    assert not engine.sends
    engine.environment.connect = connect
    assert w.balanced(0, 1)


def test_messages_of_each_sender_are_bounded_alone() -> None:
    w = WireWorld(3, eager_limit=1000, eager_window=WINDOW)
    flood = [isend(w.comms[0], bytes(1000), 2) for _ in range(20)]
    w.run()
    assert not flood[-1].done()
    other = isend(w.comms[1], bytes(1000), 2)
    w.run()
    assert other.done()


def test_window_of_the_receiver_counts() -> None:
    w = WireWorld(2, eager_limit=1000, eager_window=WINDOW)
    w.engines[0].windows[1] = 500
    sends = [isend(w.comms[0], bytes(100), 1) for _ in range(4)]
    w.run()
    assert [send.done() for send in sends] == [True, True, False, False]


def test_window_of_nothing_makes_every_send_wait_for_its_receive() -> None:
    w = WireWorld(2, eager_window=0)
    for size in (0, 1, 5000):
        send = isend(w.comms[0], pattern(size), 1)
        w.run()
        assert not send.done()
        receive = irecv(w.comms[1])
        w.run()
        assert receive.result() == pattern(size)
        assert send.done()
    assert frame.EAGER not in w.wires[0, 1].kinds


def test_limit_of_nothing_still_sends_empty_messages_eagerly() -> None:
    w = WireWorld(2, eager_limit=0)
    assert isend(w.comms[0], b"", 1) is not None
    isend(w.comms[0], b"x", 1)
    assert w.wires[0, 1].kinds == [frame.EAGER, frame.RTS]


def test_credit_comes_back_in_frames_of_its_own_but_rarely() -> None:
    w = WireWorld(2, eager_limit=1000, eager_window=WINDOW)
    cost = 100 + OVERHEAD
    for i in range(200):
        receive = irecv(w.comms[1])
        isend(w.comms[0], pattern(100, i), 1)
        w.run()
        assert receive.result() == pattern(100, i)
    assert set(w.wires[0, 1].kinds) == {frame.EAGER}
    assert set(w.wires[1, 0].kinds) == {frame.PROTOACK}
    assert len(w.wires[1, 0].kinds) <= 200 * cost // (WINDOW // 4)


def test_credit_comes_back_along_with_other_frames() -> None:
    w = WireWorld(2, eager_limit=1000, eager_window=WINDOW)
    for _ in range(200):
        for a, b in ((0, 1), (1, 0)):
            receive = irecv(w.comms[b])
            isend(w.comms[a], bytes(100), b)
            w.run()
            assert receive.done()
    for wire in w.wires.values():
        assert set(wire.kinds) == {frame.EAGER}


@pytest.mark.parametrize("cut", [7, 2**20])
def test_no_credit_is_lost_whatever_becomes_of_the_messages(cut: int) -> None:
    w = WireWorld(2, cut=cut, eager_limit=500, eager_window=WINDOW)
    small = bytearray(20)
    for i in range(1500 if cut > 7 else 150):
        size = (0, 30, 500, 700)[i % 4]
        sends = [isend(w.comms[0], pattern(size, i), 1, 0, sync=i % 3 == 0) for _ in range(3)]
        if i % 2:
            w.run()
        if i % 5 == 0:
            sends[2].cancel()
        receive = [irecv, lambda comm: irecv_into(comm, small)][i % 7 == 0](w.comms[1])
        w.run_wire(0, 1, (i * 37) % 400)
        if i % 3 == 0:
            receive.withdraw()
        w.run()
        while w.comms[1].iprobe(ANY_SOURCE, ANY_TAG):
            irecv(w.comms[1])
            w.run()
        if not receive.done():
            assert receive.cancel()
    assert w.credit_balance(0, 1) == w.credit_balance(1, 0) == WINDOW
    assert w.held(1, 0) == 0
    for engine in w.engines:
        assert not engine.sends
        assert not engine.arriving
        assert not any(peer.landings for peer in engine.peers())


# Announcements that are withheld. What a receiver refuses is in tests/transport/test_hostile_peer.py.


FEW = 10


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let few messages be announced at a time."""
    monkeypatch.setattr("aiompi.engine.peer.MAX_ANNOUNCED", FEW)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "rank 0 has announced 10 messages")
        yield


@pytest.mark.parametrize("cut", [7, 2**20])
def test_what_follows_many_announcements_is_withheld_and_comes_in_order(few: None, cut: int) -> None:
    w = WireWorld(2, cut=cut, eager_limit=100)
    comm, there = w.comms
    data = [pattern(0 if i % 3 else 1000, i) for i in range(5 * FEW)]
    ready = irecv(there, 0, 9)
    sends = [isend(comm, each, 1, sync=i % 2 == 0 or i < FEW) for i, each in enumerate(data)]
    sends.append(comm.isend((b"ready",), 5, 1, 9, Mode.READY))
    w.run()
    assert ready.result() == b"ready", "it is asked for"
    kinds = w.wires[0, 1].kinds
    assert 0 < kinds.count(frame.RTS) <= FEW
    assert len(unexpected(w, 1)) == sum(kind <= frame.RTS for kind in kinds) < len(data)
    receives = [irecv(there, 0, 0) for _ in data]
    w.run()
    assert [receive.result() for receive in receives] == data
    assert all(send.done() for send in sends)
    assert w.balanced(0, 1)
    isend(comm, b"x", 1)
    assert w.wires[0, 1].kinds[-1] == frame.EAGER


@pytest.mark.parametrize("mprobe", [False, True])
def test_answers_of_every_kind_let_announcements_go(few: None, mprobe: bool) -> None:
    w = WireWorld(2, eager_limit=0)
    comm, there = w.comms
    sends = [isend(comm, bytes([i]), 1, i) for i in range(3 * FEW)]
    w.run()
    assert not any(send.done() for send in sends)
    cancelled = [sends[i] for i in (0, 1, FEW, 3 * FEW - 1)]
    assert [send.cancel() for send in cancelled] == [True] * 4
    assert [send.done() for send in cancelled] == [False, False, True, True], "a withheld message is not sent"
    w.run()
    assert all(send.cancelled() for send in cancelled)
    withdrawn = sends[2 * FEW]
    withdrawn.withdraw()
    assert withdrawn.cancelled()
    kept = [i for i, send in enumerate(sends) if not send.cancelled()]
    for i in kept:
        if mprobe:
            _, found = there.improbe(0, i)
            assert found is not None
            found.put_back()
        receive = irecv(there, 0, i)
        w.run()
        assert receive.result() == bytes([i])
    assert all(send.done() for send in sends)
    assert not w.engines[0].sends


def test_a_receive_gets_its_message_however_many_others_were_sent_before(few: None) -> None:
    """The receiver keeps no more of the others than may be announced."""
    w = WireWorld(2, eager_limit=0)
    comm, there = w.comms
    count = 20 * FEW
    sends = [isend(comm, bytes([tag]), 1, tag) for tag in range(10) for _ in range(count)]
    w.run()
    for tag in reversed(range(10)):
        receives = [irecv(there, (0, ANY_SOURCE)[i % 2], tag) for i in range(count // 2)]
        w.run()
        assert [receive.result() for receive in receives] == [bytes([tag])] * len(receives)
        for _ in range(count // 2):
            receive = irecv(there, 0, tag)
            w.run()
            assert receive.result() == bytes([tag])
        assert len(unexpected(w, 1)) <= FEW
    assert all(send.done() for send in sends)
    assert w.balanced(0, 1)
    assert not w.engines[1].withholding


@pytest.mark.parametrize("kind", ["probe", "mprobe", "iprobe", "improbe"])
def test_a_probe_finds_a_message_that_is_withheld(few: None, kind: str) -> None:
    w = WireWorld(2, eager_limit=0)
    comm, there = w.comms
    sends = [isend(comm, b"other", 1) for _ in range(3 * FEW)] + [isend(comm, b"wanted", 1, 7)]
    w.run()
    if kind in ("iprobe", "improbe"):
        look = getattr(there, kind)
        assert look(0, 7) in (None, (False, None))
        w.run()
        found = look(0, 7)
    else:
        request = there.probe(0, 7) if kind == "probe" else there.mprobe(0, 7, lambda message: message)
        w.run()
        found = request.result()
    assert found
    message = found[1] if kind == "improbe" else found
    receive = irecv(there, 0, 7) if kind in ("probe", "iprobe") else there.imrecv(message, None, bytes)
    w.run()
    assert receive.result() == b"wanted"
    assert not sends[0].done()


def test_a_receive_of_any_tag_gets_what_was_sent_first_although_a_later_message_was_asked_for(few: None) -> None:
    w = WireWorld(2, eager_limit=0)
    comm, there = w.comms
    for _ in range(FEW):
        isend(comm, b"announced", 1, 1)
    for i in range(4):
        isend(comm, bytes([i]), 1, 2 + i)
    w.run()
    assert there.iprobe(0, 4) is None
    w.run()
    assert there.iprobe(0, 4) is not None, "message 2 is here, before 0 and 1"
    for _ in range(FEW):
        receive = irecv(there, 0, 1)
        w.run()
        assert receive.result() == b"announced"
    for i in range(4):
        receive = irecv(there, 0, ANY_TAG)
        w.run()
        assert receive.result() == bytes([i])


def test_a_receive_that_was_posted_before_messages_were_withheld_gets_its_message(few: None) -> None:
    w = WireWorld(2, eager_limit=0)
    posted = [irecv(w.comms[1], 0, 5), irecv(w.comms[1], ANY_SOURCE, 5)]
    sends = [isend(w.comms[0], b"x", 1) for _ in range(3 * FEW)]
    w.run()
    sends += [isend(w.comms[0], bytes([i]), 1, 5) for i in range(2)]
    w.run()
    assert [receive.result() for receive in posted] == [b"\0", b"\1"]


@pytest.mark.parametrize("kind", [frame.RTS_ASKED, frame.RTS_ANY, frame.RTS_EARLY, frame.TURN])
@pytest.mark.parametrize("withheld", [False, True])
def test_an_answer_to_a_question_that_was_not_put_is_refused(kind: int, withheld: bool) -> None:
    w = WireWorld(2)
    if withheld:
        forged(w, Header(frame.WITHHELD, length=1))
    with pytest.raises(errors.RemoteProtocolError, match="rank 0 answers to a question"):
        forged(w, Header(kind, length=1, srqid=3))


@pytest.mark.parametrize("lengths", [[0], [1, 2], [1, 0, 0]])
def test_a_sender_that_withholds_says_so_once(lengths: list[int]) -> None:
    w = WireWorld(2)
    with pytest.raises(errors.RemoteProtocolError, match="begins or ceases twice to withhold"):
        for length in lengths:
            forged(w, Header(frame.WITHHELD, length=length))


def test_questions_are_bounded(few: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aiompi.engine.withheld.MAX_QUESTIONS", FEW)
    w = WireWorld(2, eager_limit=0)
    for _ in range(2 * FEW):
        isend(w.comms[0], b"x", 1)
    w.run()
    receives = [irecv(w.comms[1], 0, 1 + tag) for tag in range(2 * FEW)]
    w.run()
    assert not any(receive.done() for receive in receives)
    with pytest.raises(errors.RemoteProtocolError, match="rank 1 asks for messages of more than 10 tags"):
        forged(w, Header(frame.ASK, tag=100, length=1), sender=1, receiver=0)


def test_withheld_messages_warn_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aiompi.engine.peer.MAX_ANNOUNCED", FEW)
    w = WireWorld(2, eager_limit=0)
    with pytest.warns(RuntimeWarning, match="rank 0 has announced 10 messages that rank 1 has not") as found:
        sends = [isend(w.comms[0], b"x", 1) for _ in range(3 * FEW)]
    assert len(found) == 1
    assert not any(send.done() for send in sends)


@pytest.mark.parametrize("lenient", [False, True])
def test_withheld_messages_end_with_their_receiver(few: None, lenient: bool) -> None:
    for end in ENDS:
        w = WireWorld(2, eager_limit=100)
        w.engines[1].lenient = lenient
        warnings.filterwarnings("ignore", "rank 1 has announced 10 messages")
        sends = [isend(w.comms[1], bytes(1000), 0) for _ in range(2 * FEW)]
        sends += [isend(w.comms[1], b"short", 0)]
        end(w)
        late = isend(w.comms[1], b"late", 0)
        expected = [not (lenient and end is end_by_part)] * 2
        assert all(isinstance(send.exception(), errors.ProcessFailedError) for send in sends[:-1])
        assert [send.exception() is not None for send in (sends[-1], late)] == expected


def test_messages_to_the_own_rank_are_not_withheld(few: None) -> None:
    w = LocalWorld(1, eager_limit=0)
    sends = [isend(w.comms[0], bytes([i]), 0, i) for i in range(3 * FEW)]
    for i in reversed(range(3 * FEW)):
        assert irecv(w.comms[0], 0, i).result() == bytes([i])
    assert all(send.done() for send in sends)


def test_messages_within_a_process_are_withheld_and_come_in_order(few: None) -> None:
    w = LocalWorld(2, eager_limit=0)
    sends = [isend(w.comms[0], bytes([i]), 1) for i in range(3 * FEW)]
    assert [irecv(w.comms[1]).result() for _ in sends] == [bytes([i]) for i in range(3 * FEW)]
    assert all(send.done() for send in sends)
    assert w.balanced(0, 1)


def test_a_hundred_thousand_messages_wait_for_receives_in_any_order() -> None:
    w = LocalWorld(2, eager_window=0)
    tags = range(100_000)
    sends = [isend(w.comms[0], b"", 1, tag) for tag in tags]
    assert len(unexpected(w, 1)) == len(sends)
    for tag in reversed(tags):
        irecv(w.comms[1], 0, tag)
    assert all(send.done() for send in sends)


# Frames that must not come.


def forged(world: WireWorld, header: Header, payload: bytes = b"", sender: int = 0, receiver: int = 1) -> None:
    world.inject(sender, receiver, header, payload)
    world.run_wire(sender, receiver)


def test_more_eager_bytes_than_granted_are_refused() -> None:
    w = WireWorld(2, eager_window=WINDOW)
    for _ in range(WINDOW // (100 + OVERHEAD)):
        forged(w, Header(frame.EAGER, length=100), bytes(100))
    with pytest.raises(errors.RemoteProtocolError, match=f"rank 0 sent .* more than the {WINDOW} it was granted"):
        forged(w, Header(frame.EAGER, length=100), bytes(100))


@pytest.mark.parametrize("posted", [False, True])
def test_enormous_eager_message_is_refused_before_memory_is_taken(
    posted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    w = WireWorld(2)
    if posted:
        irecv(w.comms[1])

    def allocate(nbytes: int) -> memoryview:
        raise AssertionError(f"{nbytes} bytes")

    for module in ("peer", "receive"):
        monkeypatch.setattr(f"aiompi.engine.{module}.allocate", allocate)
    with pytest.raises(errors.RemoteProtocolError, match="granted"):
        forged(w, Header(frame.EAGER, length=2**63))


@pytest.mark.parametrize("numpy", [False, True])
def test_an_announced_message_takes_memory_only_as_it_comes(monkeypatch: pytest.MonkeyPatch, numpy: bool) -> None:
    monkeypatch.setattr("aiompi.core.allocation.numpy_is_loaded", lambda: numpy)
    w = WireWorld(2)
    receive = irecv(w.comms[1])
    before = resident()
    forged(w, Header(frame.RTS, length=5 * 2**30, srqid=1))
    assert receive.landing is not None
    assert len(receive.landing.memory) == 5 * 2**30
    assert resident() - before < 64 * 2**20


def resident() -> int:
    """Bytes of memory of this process that are there."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")


@pytest.mark.parametrize("length", [2**62, 2**63, 2**64 - 1])
def test_message_too_long_for_this_machine_fails_its_receive_only(length: int) -> None:
    w = WireWorld(2)
    receive = irecv(w.comms[1])
    forged(w, Header(frame.RTS, length=length, srqid=77))
    with pytest.raises(errors.OtherError, match=f"no memory for a message of {length} bytes from rank 0"):
        receive.result()
    assert w.wires[1, 0].kinds == [frame.CTS], "the sender is told that nothing is wanted"
    forged(w, Header(frame.DATA, length=0, drqid=1))
    other = irecv(w.comms[1])
    isend(w.comms[0], b"alive", 1)
    w.run_wire(0, 1)
    assert other.result() == b"alive"


@pytest.mark.parametrize(
    "header",
    [
        Header(frame.CTS, srqid=99, drqid=1, length=1),
        Header(frame.SYNCACK, srqid=99),
        Header(frame.CANCELYES, srqid=99),
        Header(frame.DATA, drqid=99, length=5),
        Header(frame.DATA, drqid=99, length=2**60),
    ],
    ids=lambda header: f"{header.kind}-{header.length}",
)
def test_answer_to_nothing_is_refused(header: Header) -> None:
    w = WireWorld(2)
    with pytest.raises(errors.RemoteProtocolError, match="rank 0"):
        forged(w, header, b"12345" if header.kind == frame.DATA else b"")


@pytest.mark.parametrize("kind", [0, frame.TURN + 1, 255])
def test_unknown_kind_is_refused_after_the_frames_before_it(kind: int) -> None:
    w = WireWorld(2)
    isend(w.comms[0], b"before", 1)
    w.run()
    with pytest.raises(errors.RemoteProtocolError, match=f"unknown kind {kind}"):
        forged(w, Header(kind, length=5))
    assert irecv(w.comms[1]).result() == b"before"


def test_each_kind_of_frame_is_known() -> None:
    asked = {kind | frame.READY for kind in (frame.RTS_ASKED, frame.RTS_ANY, frame.RTS_EARLY)}
    assert set(_HANDLERS) == {*range(frame.EAGER, frame.TURN + 1), *asked}


def test_answer_of_another_rank_is_refused() -> None:
    w = WireWorld(3)
    isend(w.comms[1], bytes(10**6), 0)
    srqid = next(iter(w.engines[1].sends))
    for kind in (frame.CTS, frame.SYNCACK, frame.CANCELYES):
        with pytest.raises(errors.RemoteProtocolError, match="rank 2 answers"):
            forged(w, Header(kind, srqid=srqid, length=1), sender=2)


def test_a_message_that_is_not_asked_for_is_not_matched() -> None:
    """Nothing would end the send any more, not even the end of its receiver."""
    w = WireWorld(2)
    send = isend(w.comms[0], bytes(10**6), 1)
    with pytest.raises(errors.RemoteProtocolError, match="rank 1 has matched a message without asking for it"):
        forged(w, Header(frame.SYNCACK, srqid=next(iter(w.engines[0].sends))), sender=1, receiver=0)
    w.engines[0].peer(1).mark_failed("it is killed")
    assert isinstance(send.exception(), errors.ProcessFailedError)


@pytest.mark.parametrize("kind", [frame.NOTREADY, frame.CANCELYES])
@pytest.mark.parametrize("nbytes", [5, 10**6])
def test_answer_that_does_not_suit_its_message_is_refused(kind: int, nbytes: int) -> None:
    """The message is neither in ready mode nor recalled; the call must not learn that it is."""
    w = WireWorld(2)
    send = isend(w.comms[0], bytes(nbytes), 1, sync=True)
    with pytest.raises(errors.RemoteProtocolError, match=r"rank 1 (was not ready|gives back)"):
        forged(w, Header(kind, srqid=next(iter(w.engines[0].sends))), sender=1, receiver=0)
    assert not send.done()
    assert irecv(w.comms[1]).done() is False
    w.run()
    assert (send.done(), send.cancelled()) == (True, False)


def test_a_message_that_is_recalled_while_it_arrives_costs_credit_until_it_is_there() -> None:
    """No correct sender does that: the recall comes through another connection."""
    w = WireWorld(2)
    peer, length = w.engines[1].peer(0), 100
    reader = FrameReader(peer)
    data = HEADER.pack(*Header(frame.EAGER_SYNC, length=length, srqid=7)) + bytes(length)
    pour(reader, data[:-1])
    peer.frame((*Header(frame.CANCEL, srqid=7),), memoryview(b""))
    assert (unexpected(w, 1), w.held(1, 0)) == ([], length + OVERHEAD)
    pour(reader, data[-1:])
    assert w.held(1, 0) == 0


def test_data_of_another_rank_is_refused() -> None:
    w = WireWorld(3)
    isend(w.comms[0], bytes(10**6), 1)
    irecv(w.comms[1])
    w.run_wire(0, 1)
    drqid = next(iter(w.engines[1].arriving))
    with pytest.raises(errors.RemoteProtocolError, match="has not asked for"):
        forged(w, Header(frame.DATA, length=10**6, drqid=drqid), sender=2)


def test_data_of_another_length_is_refused() -> None:
    w = WireWorld(2)
    isend(w.comms[0], bytes(10**6), 1)
    irecv(w.comms[1])
    w.run_wire(0, 1)
    drqid = next(iter(w.engines[1].arriving))
    with pytest.raises(errors.RemoteProtocolError, match="has not asked for"):
        forged(w, Header(frame.DATA, length=10, drqid=drqid), bytes(10))


def test_request_for_more_than_the_message_is_refused() -> None:
    w = WireWorld(2)
    isend(w.comms[1], bytes(10**6), 0)
    with pytest.raises(errors.RemoteProtocolError, match="asks for 1000001 bytes of a message of 1000000"):
        forged(w, Header(frame.CTS, srqid=next(iter(w.engines[1].sends)), length=10**6 + 1))


# The end of a peer.


def end_by_part(world: WireWorld) -> None:
    """Let the peer finalize and close its connection."""
    world.inject(0, 1, Header(frame.FINI))
    world.run_wire(0, 1)
    world.engines[1].peer(0).mark_closed()


def end_by_loss(world: WireWorld) -> None:
    world.wire(0, 1).close()
    world.engines[1].peer(0).connection_lost("its connection closed")


ENDS = [end_by_part, end_by_loss]


@pytest.mark.parametrize("end", ENDS)
def test_operations_that_wait_for_a_peer_that_has_ended_fail(end: Callable[[WireWorld], None]) -> None:
    w = WireWorld(3, eager_limit=100)
    comm = w.comms[1]
    asked = irecv(comm, 0, 7)
    isend(w.comms[0], bytes(1000), 1, 7)
    w.run_wire(0, 1)
    waiting = [asked, irecv(comm, 0, 1), irecv(comm, 0, ANY_TAG), comm.probe(0, 1)]
    waiting += [isend(comm, bytes(1000), 0), isend(comm, b"", 0, sync=True)]
    spared = [irecv(comm, 2, 1), isend(comm, bytes(1000), 2), comm.probe(2, 1)]
    end(w)
    later = [irecv(comm, 0, 1), comm.probe(0, 1), isend(comm, b"", 0), isend(comm, bytes(1000), 0)]
    for request in waiting + later:
        with pytest.raises(errors.ProcessFailedError, match=r"rank 0 (is gone: its connection closed|has finalized)"):
            request.result()
    assert not any(request.done() for request in spared)
    assert not w.engines[1].peer(0).landings


@pytest.mark.parametrize("end", ENDS)
def test_complete_messages_of_a_peer_that_has_ended_can_be_received(end: Callable[[WireWorld], None]) -> None:
    w = WireWorld(2, eager_limit=100)
    for i in range(3):
        isend(w.comms[0], bytes([i]), 1, i)
        isend(w.comms[0], bytes(1000), 1, i)
    w.run_wire(0, 1)
    end(w)
    assert [irecv(w.comms[1], 0, i).result() for i in (2, 0, 1)] == [b"\x02", b"\x00", b"\x01"]
    assert not unexpected(w, 1), "a long message that was only announced will not come"
    for i in range(3):
        assert irecv(w.comms[1], 0, i).exception() is not None
        with pytest.raises(errors.ProcessFailedError, match="rank 0"):
            w.comms[1].iprobe(0, i)


def test_peer_that_has_finalized_ends_what_it_has_begun() -> None:
    w = WireWorld(2, eager_limit=100)
    here, there = w.comms
    asked = irecv(there, 0, 1)
    matched = irecv(here, 1, 5)
    sends = [isend(here, pattern(1000, tag), 1, tag) for tag in (1, 2)]
    answered = isend(there, pattern(500), 0, 5)
    recalled = isend(there, b"", 0, 6, sync=True)
    w.run_wire(0, 1, w.wire(0, 1).pending)
    w.run_wire(1, 0)
    assert recalled.cancel()
    hopeless = [irecv(there, 0, 3), there.probe(0, 3), isend(there, bytes(1000), 0, 7), isend(there, b"", 0, sync=True)]
    w.engines[0].finish()
    w.run()
    for request in hopeless:
        assert isinstance(request.exception(), errors.ProcessFailedError)
    assert asked.result() == pattern(1000, 1)
    assert irecv(there, 0, 2).done() is False
    w.run()
    assert [send.done() for send in sends] == [True, True]
    assert matched.result() == pattern(500)
    assert answered.done()
    assert recalled.cancelled()


@pytest.mark.parametrize("end", ENDS)
def test_small_messages_under_way_to_a_peer_that_finalizes_are_lost_where_that_is_no_error(
    end: Callable[[WireWorld], None],
) -> None:
    """They are lost in a link that breaks, or while they wait for credit. Long ones and those of other modes fail."""
    w = WireWorld(3, eager_limit=100, eager_window=2 * (100 + OVERHEAD))
    engine, comm = w.engines[1], w.comms[1]
    engine.lenient = True
    under_way = [isend(comm, bytes(100), 0) for _ in range(3)]
    assert [bool(send.srqid) for send in under_way] == [False, False, True]
    refused = [isend(comm, bytes(101), 0), isend(comm, b"", 0, sync=True)]
    elsewhere = isend(comm, bytes(101), 2)
    assert not any(send.done() for send in [*under_way, *refused])
    w.wire(1, 0).close()
    for send in under_way[:2]:
        engine.peer(0).buffer_unsent(send)
    end(w)
    finalized = end is end_by_part
    for send in [*under_way, isend(comm, bytes(100), 0)]:
        assert (send.exception() is None) is finalized
    for send in [*refused, isend(comm, bytes(101), 0)]:
        assert isinstance(send.exception(), errors.ProcessFailedError)
    assert not elsewhere.done()
    assert [send.peer.rank for send in engine.sends.values()] == [2]


def test_recall_that_comes_too_late_for_a_peer_that_has_finalized_fails() -> None:
    w = WireWorld(2)
    send = isend(w.comms[1], b"", 0, 6, sync=True)
    assert send.cancel()
    forged(w, Header(frame.FINI))
    assert not send.done(), "the answer is to come"
    w.wire(1, 0).close()
    w.inject(0, 1, Header(frame.CANCELNO, srqid=next(iter(w.engines[1].sends))))
    w.run()
    assert isinstance(send.exception(), errors.ProcessFailedError)


def test_message_that_came_in_part_is_dropped_with_its_peer() -> None:
    w = WireWorld(2)
    receive = irecv(w.comms[1], 0, 1)
    isend(w.comms[0], bytes(100), 1, 1)
    w.run_wire(0, 1, HEADER_BYTES + 50)
    end_by_loss(w)
    with pytest.raises(errors.ProcessFailedError):
        receive.result()
    w = WireWorld(2)
    isend(w.comms[0], bytes(100), 1, 1)
    w.run_wire(0, 1, HEADER_BYTES + 50)
    assert w.comms[1].iprobe(0, 1)
    end_by_loss(w)
    assert not unexpected(w, 1)
    assert irecv(w.comms[1], 0, 1).exception() is not None


async def _insist(world: WireWorld, errors_seen: list[Exception]) -> None:
    """Starts new operations of every kind after each failure, as recovering code would."""
    comm = world.comms[1]
    for context in (10, 12):
        try:
            await irecv(comm, 0, 1)
        except errors.ProcessFailedError as error:
            errors_seen.append(error)
        world.engines[1].matcher(context)
        irecv(comm, ANY_SOURCE, 2)
        comm.probe(0, 3)
        isend(comm, b"x", 0)


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("under_way", ["receive", "landing"])
def test_schedules_may_communicate_while_a_peer_ends(end: Callable[[WireWorld], None], under_way: str) -> None:
    w = WireWorld(3, eager_limit=1000)
    seen: list[Exception] = []
    if under_way == "landing":
        isend(w.comms[0], bytes(2000), 1, 1)
    schedules = [w.engines[1].spawn(_insist(w, seen)) for _ in range(2)]
    isend(w.comms[0], bytes(100), 1, 2)
    w.run_wire(0, 1, w.wire(0, 1).pending - (50 if end is end_by_loss else 0))
    end(w)
    for schedule in schedules:
        assert schedule.exception() is None
    assert len(seen) == 4


@pytest.mark.parametrize("end", ENDS)
def test_request_that_is_cancelled_by_the_failure_of_another_fails_too(end: Callable[[WireWorld], None]) -> None:
    w = WireWorld(2)
    comm = w.comms[1]
    probes = [comm.probe(0, 1), comm.probe(0, 2)]
    receives = [irecv(comm, 0, 1), irecv(comm, 0, 2)]
    sends = [isend(comm, b"", 0, sync=True), isend(comm, b"", 0, sync=True)]
    for pair in (probes, receives, sends):
        for request, other in (pair, pair[::-1]):
            request.when_done(lambda _, other=other: other.cancel())
    end(w)
    for request in (*probes, *receives, *sends):
        assert isinstance(request.exception(), errors.ProcessFailedError)


def test_probe_that_is_cancelled_by_another_has_found_the_message_too() -> None:
    w = WireWorld(2)
    first, second = w.comms[1].probe(0, 1), w.comms[1].probe(ANY_SOURCE, ANY_TAG)
    first.when_done(lambda _: second.cancel())
    isend(w.comms[0], b"x", 1, 1)
    w.run()
    assert first.result().source == second.result().source == 0


def test_a_peer_ends_once() -> None:
    w = WireWorld(2)
    ends: list[str] = []
    w.engines[1].environment.lost = lambda peer, cause: (ends.append(cause), peer.mark_failed(cause))
    peer = w.engines[1].peer(0)
    peer.connection_lost("first")
    peer.connection_lost("second")
    peer.mark_finalized()
    peer.mark_failed("third")
    assert ends == ["first"]
    assert str(irecv(w.comms[1], 0).exception()) == "rank 0 is gone: first"


def test_frame_for_a_peer_that_is_gone_is_not_sent() -> None:
    w = WireWorld(2, eager_window=128 + 10)
    isend(w.comms[0], bytes(10), 1)
    w.run()
    end_by_loss(w)
    assert irecv(w.comms[1], 0).result() == bytes(10)
    assert (1, 0) not in w.wires, "the credit of the message is of no use"


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("size", [0, 1000])
def test_recall_that_comes_after_the_end_does_no_harm(end: Callable[[WireWorld], None], size: int) -> None:
    w = WireWorld(2, eager_limit=100)
    isend(w.comms[0], bytes(size), 1, 0, sync=True)
    w.run()
    srqid = next(iter(w.engines[0].sends))
    end(w)
    forged(w, Header(frame.CANCEL, srqid=srqid))
    assert bool(unexpected(w, 1)) is (size <= 100)


# The end of the job.


def test_abort_fails_everything_now_and_later() -> None:
    w = WireWorld(3, eager_limit=100)
    comm = w.comms[1]
    engine = w.engines[1]
    isend(w.comms[0], bytes(1000), 1, 7)
    landing = irecv(comm, 0, 7)
    w.run()
    isend(w.comms[0], bytes(1000), 1, 8)
    landing = irecv(comm, 0, 8)
    w.run_wire(0, 1)

    def start() -> list[Any]:
        return [
            irecv(comm),
            irecv(comm, 2, 1),
            irecv_into(comm, bytearray(5), 0),
            comm.probe(ANY_SOURCE, 5),
            comm.probe(0, 5),
            isend(comm, bytes(1000), 0),
            isend(comm, b"", 2, sync=True),
            engine.spawn(_receive(comm)),
        ]

    waiting = [landing, *start()]
    reason = errors.JobAbortedError("rank 2 called Abort")
    engine.failure.abort(reason)
    engine.failure.abort(errors.JobAbortedError("again"))
    for request in [*waiting, *start()]:
        assert request.exception() is reason
    with pytest.raises(errors.JobAbortedError):
        comm.iprobe(ANY_SOURCE, ANY_TAG)
    assert not engine.sends
    assert not engine.schedules


async def _receive(comm: Any) -> bytes:
    return bytes(await irecv(comm, 2, 9))


def test_schedules_may_communicate_while_the_job_aborts() -> None:
    w = WireWorld(2)
    comm = w.comms[1]

    async def insist() -> list[type[BaseException]]:
        seen = []
        for context in range(10, 20, 2):
            request = irecv(comm, 0, context)
            try:
                await request
            except errors.JobAbortedError as error:
                seen.append(type(error))
            w.engines[1].matcher(context)
        return seen

    schedules = [w.engines[1].spawn(insist()) for _ in range(2)]
    w.engines[1].failure.abort(errors.JobAbortedError("end"))
    for schedule in schedules:
        assert schedule.result() == [errors.JobAbortedError] * 5


def test_hub_delivers_to_the_own_rank_with_flow_control() -> None:
    w = LocalWorld(1, eager_window=WINDOW, eager_limit=1000)
    sends = [isend(w.comms[0], pattern(1000, i), 0) for i in range(10)]
    assert [send.done() for send in sends] == [True] * 3 + [False] * 7
    assert [irecv(w.comms[0]).result() for _ in sends] == [pattern(1000, i) for i in range(10)]
    assert w.credit_balance(0, 0) == WINDOW
