"""Point-to-point semantics, over frames that arrive at once, one byte at a time, and in any order between links."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest

from aiompi import constants, errors
from aiompi.constants import ANY_SOURCE, ANY_TAG, PROC_NULL, TAG_UB
from aiompi.status import Status
from support.worlds import LIMIT, SIZES, LocalWorld, WireWorld, irecv, irecv_into, isend, pattern

NewWorld = Callable[..., Any]


@pytest.fixture(params=["expected", "unexpected"])
def posted(request: pytest.FixtureRequest) -> bool:
    """Return True if the receive is to be posted before the message arrives."""
    return bool(request.param == "expected")


def exchange(world: Any, send: Callable[[], Any], receive: Callable[[], Any], posted: bool) -> tuple[Any, Any]:
    """Start a send and a receive in the wanted order, and let everything arrive."""
    steps = [receive, send] if posted else [send, receive]
    requests = []
    for step in steps:
        requests.append(step())
        world.run()
    return (requests[1], requests[0]) if posted else (requests[0], requests[1])


# Data.


def test_memory_is_given_back_when_the_result_has_been_taken() -> None:
    w = LocalWorld(2)
    memory = bytearray(4)
    receive = irecv_into(w.comms[1], memory)
    isend(w.comms[0], b"abcd", 1)
    assert receive.result().nbytes == 4
    memory.append(1)
    assert receive.result().nbytes == 4


@pytest.mark.spec("S3.2.1-1", "S3.2.1-2", "S3.2.2-1", "S3.2.4-1", "S2.7-1")
@pytest.mark.parametrize("sync", [False, True])
def test_message_arrives_intact(world: NewWorld, data: bytes, posted: bool, sync: bool) -> None:
    w = world()
    memory = bytearray(data)
    send, receive = exchange(w, lambda: isend(w.comms[0], memory, 1, 5, sync), lambda: irecv(w.comms[1], 0, 5), posted)
    assert receive.result() == data
    assert send.result() is None
    assert memory == data


@pytest.mark.spec("S3.2.4-4", "S3.2.5-1", "S3.7.3-4")
def test_receive_into_longer_memory_leaves_the_rest_alone(world: NewWorld, data: bytes, posted: bool) -> None:
    w = world()
    guard = b"\xa5" * 300
    memory = bytearray(len(data) + len(guard))
    memory[len(data) :] = guard
    _, receive = exchange(w, lambda: isend(w.comms[0], data, 1, 9), lambda: irecv_into(w.comms[1], memory), posted)
    assert memory == data + guard
    status = receive.result()
    assert (status.source, status.tag, status.nbytes, status.cancelled) == (0, 9, len(data), False)


@pytest.mark.spec("S3.2.4-5", "S3.2.4-6", "S2.7-6")
@pytest.mark.parametrize("room", [0, 1, 150])
def test_truncation_is_an_error_and_writes_nothing_beyond(world: NewWorld, posted: bool, room: int) -> None:
    for size in (LIMIT, 5000):
        w = world()
        data = pattern(size)
        memory = bytearray(b"\xa5" * (room + 100))
        status = Status()
        send, receive = exchange(
            w,
            lambda w=w, data=data: isend(w.comms[0], data, 1, 3),
            lambda w=w, memory=memory, status=status: w.comms[1].irecv(
                memoryview(memory)[:room], 0, ANY_TAG, None, status
            ),
            posted,
        )
        with pytest.raises(errors.TruncationError, match=rf"{size} bytes from rank 0 with tag 3 .* {room} bytes"):
            receive.result()
        assert (receive.status.source, receive.status.tag) == (0, 3)
        assert (status.source, status.tag) == (0, 3)
        assert memory[:room] == data[:room]
        assert memory[room:] == b"\xa5" * 100
        assert send.result() is None


@pytest.mark.spec("S3.2.4-10")
def test_empty_receive_takes_only_an_empty_message(world: NewWorld, posted: bool) -> None:
    for size, fits in ((0, True), (1, False), (LIMIT + 1, False)):
        w = world()
        _, receive = exchange(
            w,
            lambda w=w, size=size: isend(w.comms[0], pattern(size), 1),
            lambda w=w: irecv_into(w.comms[1], bytearray()),
            posted,
        )
        assert (receive.exception() is None) is fits
        assert fits or receive.exception().error_class == errors.ERR_TRUNCATE


def test_world_goes_on_after_a_truncation(world: NewWorld) -> None:
    w = world(eager_window=1024)
    for _ in range(20):
        small = irecv_into(w.comms[1], bytearray(10))
        isend(w.comms[0], pattern(LIMIT), 1)
        w.run()
        assert isinstance(small.exception(), errors.TruncationError)
    send, receive = isend(w.comms[0], b"alive", 1), irecv(w.comms[1])
    w.run()
    assert send.done()
    assert receive.result() == b"alive"


@pytest.mark.spec("S3.2.1-3", "S3.7.3-3")
def test_memory_is_free_when_the_send_is_complete(world: NewWorld, data: bytes) -> None:
    w = world()
    memory = bytearray(data)
    send = isend(w.comms[0], memory, 1)
    overwritten = False
    receive = None
    while True:
        if send.done() and not overwritten:
            memory[:] = b"\xff" * len(memory)
            overwritten = True
        if not getattr(w, "step", lambda: False)():
            if receive is not None:
                break
            receive = irecv(w.comms[1])
    assert overwritten
    assert receive.result() == data


def test_payload_in_pieces_arrives_as_one_message(world: NewWorld, posted: bool) -> None:
    for sizes in ((0,), (3, 0, 4), (50, 0), (0, 0, 900, 0, 1)):
        w = world()
        data = pattern(sum(sizes))
        pieces, at = [], 0
        for size in sizes:
            pieces.append(memoryview(data)[at : at + size])
            at += size
        _, receive = exchange(
            w,
            lambda w=w, pieces=pieces, data=data: w.comms[0].isend(pieces, len(data), 1, 0),
            lambda w=w: irecv(w.comms[1]),
            posted,
        )
        assert receive.result() == data


def test_truncated_rendezvous_sends_only_what_fits(world: NewWorld) -> None:
    w = world()
    pieces = [memoryview(pattern(size, size)) for size in (100, 0, 400, 500)]
    send = w.comms[0].isend(pieces, 1000, 1, 0)
    memory = bytearray(250)
    receive = irecv_into(w.comms[1], memory)
    w.run()
    assert send.done()
    assert memory == b"".join(pieces)[:250]
    assert isinstance(receive.exception(), errors.TruncationError)
    if isinstance(w, WireWorld):
        assert w.wires[0, 1].reader.between_frames


# Envelopes.


@pytest.mark.spec("S3.2.3-1", "S3.2.4-2", "S3.2.5-1", "S3.2.3-2")
def test_wildcards_and_exact_envelopes_match(world: NewWorld, posted: bool) -> None:
    w = world(3)
    for tag, source, want_any_tag in itertools.product((0, 32767, TAG_UB), (0, ANY_SOURCE), (False, True)):
        _, receive = exchange(
            w,
            lambda tag=tag: isend(w.comms[0], b"x", 2, tag),
            lambda source=source, tag=ANY_TAG if want_any_tag else tag: irecv_into(
                w.comms[2], bytearray(1), source, tag
            ),
            posted,
        )
        status = receive.result()
        assert (status.source, status.tag, status.nbytes) == (0, tag, 1), (source, want_any_tag)


@pytest.mark.spec("S3.2.4-2", "S3.2.3-4", "S3.5-4")
def test_only_the_right_envelope_matches(world: NewWorld, posted: bool) -> None:
    w = world(3)
    wrong = [irecv(w.comms[2], 1, 7), irecv(w.comms[2], 0, 8)]
    w.engines[2].matcher(constants.CONTEXT_WORLD + 1)
    other = w.comms[2].start(_receive_from_0, "test")
    send, receive = exchange(w, lambda: isend(w.comms[0], b"x", 2, 7), lambda: irecv(w.comms[2], 0, 7), posted)
    assert send.done()
    assert receive.result() == b"x"
    assert not any(request.done() for request in [*wrong, other])


async def _receive_from_0(channel: Any) -> None:
    await channel.irecv(None, 0)


@pytest.mark.spec("S3.2.3-3", "S3.2.3-6", "S3.2.4-7")
def test_bad_arguments_raise_at_the_call() -> None:
    comm = LocalWorld(2).comms[0]
    for tag in (-1, ANY_TAG, TAG_UB + 1):
        with pytest.raises(errors.InvalidTagError, match="WORLD, rank 0: tag"):
            isend(comm, b"", 1, tag)
    for tag in (-2, TAG_UB + 1):
        with pytest.raises(errors.InvalidTagError):
            irecv(comm, 1, tag)
        with pytest.raises(errors.InvalidTagError):
            comm.probe(1, tag)
        with pytest.raises(errors.InvalidTagError):
            comm.iprobe(1, tag)
    for dest in (2, -1, ANY_SOURCE, -3):
        with pytest.raises(errors.InvalidRankError, match=r"destination .* not in 0\.\.1"):
            isend(comm, b"", dest)
    for source in (2, -3):
        for call in (lambda s: irecv(comm, s), lambda s: comm.probe(s, 0), lambda s: comm.iprobe(s, 0)):
            with pytest.raises(errors.InvalidRankError, match="source"):
                call(source)


# Modes.


@pytest.mark.spec("S3.4-6", "S3.4-7", "S3.7-4", "S3.4-1")
@pytest.mark.parametrize("size", SIZES.values(), ids=SIZES)
def test_synchronous_send_waits_for_its_match(world: NewWorld, size: int) -> None:
    w = world()
    send = isend(w.comms[0], pattern(size), 1, 4, sync=True)
    w.run()
    other = irecv(w.comms[1], 0, 5)
    w.run()
    assert not send.done()
    receive = irecv(w.comms[1], 0, 4)
    w.run()
    assert send.done()
    assert receive.result() == pattern(size)
    assert not other.done()


@pytest.mark.spec("S3.4-10", "S3.4-11")
@pytest.mark.parametrize("size", SIZES.values(), ids=SIZES)
def test_receive_may_be_complete_before_the_synchronous_send(size: int) -> None:
    w = WireWorld(2, eager_limit=LIMIT)
    receive = irecv(w.comms[1])
    w.run()
    assert not receive.done()
    send = isend(w.comms[0], pattern(size), 1, sync=True)
    if size <= LIMIT:
        w.run_wire(0, 1)
        assert receive.done()
        assert not send.done()
    w.run()
    assert receive.result() == pattern(size)
    assert send.done()


@pytest.mark.spec("S3.7.4-4", "S3.7.4-5")
@pytest.mark.parametrize("size", SIZES.values(), ids=SIZES)
def test_example_3_14_completes_without_further_calls_of_the_receiver(world: NewWorld, size: int) -> None:
    w = world()
    posted, blocked_in = irecv(w.comms[1], 0, 0), irecv(w.comms[1], 0, 1)
    first = isend(w.comms[0], pattern(size), 1, 0, sync=True)
    w.run()
    assert first.done()
    isend(w.comms[0], pattern(size, 1), 1, 1)
    w.run()
    assert blocked_in.result() == pattern(size, 1)
    assert posted.result() == pattern(size)


@pytest.mark.spec("S3.5-13")
@pytest.mark.parametrize("sync", [False, True])
def test_example_3_7_exchange_completes(world: NewWorld, data: bytes, sync: bool) -> None:
    w = world(2, eager_limit=0, eager_window=0)
    first = isend(w.comms[0], data, 1, 0, sync)
    answer = irecv(w.comms[1], 0)
    w.run()
    assert first.done()
    back = isend(w.comms[1], answer.result(), 0, 0, sync)
    received = irecv(w.comms[0], 1)
    w.run()
    assert back.done()
    assert received.result() == data


@pytest.mark.spec("S3.4-7")
def test_synchronous_eager_send_is_not_complete_before_the_acknowledgement_is_back() -> None:
    w = WireWorld(2)
    irecv(w.comms[1])
    send = isend(w.comms[0], b"x", 1, sync=True)
    w.run_wire(0, 1)
    assert not send.done()
    w.run_wire(1, 0)
    assert send.done()


@pytest.mark.spec("S3.4-2", "S3.7-1")
def test_standard_eager_send_needs_no_receive(world: NewWorld) -> None:
    w = world()
    send = isend(w.comms[0], pattern(LIMIT), 1)
    w.run()
    assert send.done()


# Order.


def _all_sizes(count: int) -> list[tuple[bytes, bool]]:
    """Return messages of all protocols and modes, each with its number in front."""
    sizes = (5000, 4, LIMIT, 1200, 4, 64)
    return [(i.to_bytes(4, "big") + pattern(sizes[i % 6] - 4), i % 3 == 1) for i in range(count)]


@pytest.mark.spec("S3.5-1", "S3.5-3", "S3.7.4-1")
@pytest.mark.parametrize("tag", [0, ANY_TAG])
@pytest.mark.parametrize("source", [0, ANY_SOURCE])
def test_messages_do_not_overtake(world: NewWorld, posted: bool, source: int, tag: int) -> None:
    w = world()
    messages = _all_sizes(12)
    receives = [irecv(w.comms[1], source, tag) for _ in messages] if posted else []
    for message, sync in messages:
        isend(w.comms[0], message, 1, 0, sync)
    if not posted:
        w.run()
        receives = [irecv(w.comms[1], source, tag) for _ in messages]
    w.run()
    assert [receive.result() for receive in receives] == [message for message, _ in messages]


@pytest.mark.spec("S3.5-2", "S3.7.4-1", "S3.7.4-2")
@pytest.mark.parametrize("size", [4, 5000])
def test_first_posted_receive_gets_the_message(world: NewWorld, size: int) -> None:
    w = world()
    wants = [(0, ANY_TAG), (ANY_SOURCE, 3), (0, 3), (ANY_SOURCE, ANY_TAG), (0, 3)]
    receives = [irecv(w.comms[1], source, tag) for source, tag in wants]
    for i in range(len(wants)):
        isend(w.comms[0], pattern(size, i), 1, 3)
    w.run()
    assert [receive.result() for receive in receives] == [pattern(size, i) for i in range(len(wants))]


@pytest.mark.spec("S3.5-4", "S3.5-9", "S3.5-8")
@pytest.mark.parametrize("size", [4, 5000])
def test_tags_let_messages_be_received_out_of_order(world: NewWorld, size: int) -> None:
    w = world()
    sends = [isend(w.comms[0], pattern(size, tag), 1, tag, sync=tag == 2) for tag in (1, 2)]
    second = irecv(w.comms[1], 0, 2)
    w.run()
    assert second.result() == pattern(size, 2)
    first = irecv(w.comms[1], 0, 1)
    w.run()
    assert first.result() == pattern(size, 1)
    assert all(send.done() for send in sends)


@pytest.mark.spec("S3.7.4-1")
def test_example_3_13_order_of_start_decides_not_of_completion(world: NewWorld) -> None:
    w = world()
    long, short = irecv(w.comms[1], 0, ANY_TAG), irecv(w.comms[1], 0, 0)
    isend(w.comms[0], pattern(5000), 1, 0)
    isend(w.comms[0], b"short", 1, 0)
    w.run()
    assert short.result() == b"short"
    assert long.result() == pattern(5000)


@pytest.mark.spec("S3.5-1")
def test_order_holds_per_sender_with_any_source(world: NewWorld) -> None:
    w = world(4)
    receives = [irecv(w.comms[3]) for _ in range(12)]
    for i in range(8):
        for rank in range(3):
            isend(w.comms[rank], bytes([rank, i]) + pattern(i % 3 * 200), 3, i)
    w.run()
    receives += [irecv(w.comms[3]) for _ in range(12)]
    w.run()
    got = [(message[0], message[1]) for message in (receive.result() for receive in receives)]
    for rank in range(3):
        assert [i for sender, i in got if sender == rank] == list(range(8))


# MPI_COMM_SELF and MPI_PROC_NULL.


@pytest.mark.spec("S3.2.4-8")
def test_messages_to_oneself(world: NewWorld, data: bytes, posted: bool) -> None:
    w = LocalWorld(1, eager_limit=LIMIT) if not isinstance(world(), LocalWorld) else world(1)
    send, receive = exchange(w, lambda: isend(w.comms[0], data, 0, 1), lambda: irecv(w.comms[0], 0, 1), posted)
    assert send.done()
    assert receive.result() == data
    for _ in range(200):
        isend(w.comms[0], pattern(LIMIT), 0)
        assert irecv(w.comms[0]).result() == pattern(LIMIT)
    assert w.credit_balance(0, 0) == w.settings.eager_window


@pytest.mark.spec("S3.11-1", "S3.11-2", "S3.11-3", "S3.11-4")
def test_proc_null() -> None:
    w = LocalWorld(1)
    comm = w.comms[0]
    for sync in (False, True):
        assert isend(comm, pattern(10**6), PROC_NULL, sync=sync).result() is None
    memory = bytearray(b"kept")
    statuses = [
        irecv_into(comm, memory, PROC_NULL).result(),
        comm.probe(PROC_NULL, 5).result(),
        comm.iprobe(PROC_NULL, ANY_TAG),
    ]
    assert memory == b"kept"
    for status in statuses:
        assert (status.source, status.tag, status.nbytes) == (PROC_NULL, ANY_TAG, 0)
    assert irecv(comm, PROC_NULL).result() is None
    assert comm.iprobe(ANY_SOURCE, ANY_TAG) is None


# Results.


@pytest.mark.spec("S3.2.5-6")
def test_result_fills_the_given_status_and_can_be_taken_again(world: NewWorld) -> None:
    w = world()
    status = Status()
    status.error = errors.ERR_PENDING
    decoded: list[bytes] = []
    receive = w.comms[1].irecv(None, 0, 3, lambda data: decoded.append(bytes(data)) or "object", status)
    with pytest.raises(errors.PendingError, match="await it"):
        receive.result()
    isend(w.comms[0], b"abc", 1, 3)
    w.run()
    assert receive.result() == receive.result() == "object"
    assert decoded == [b"abc"]
    assert (status.source, status.tag, status.nbytes) == (0, 3, 3)
    assert status.error == errors.ERR_PENDING, "calls with one status do not touch its error (S3.2.5-2)"


@pytest.mark.spec("S3.7-7")
def test_hundreds_of_outstanding_operations(world: NewWorld) -> None:
    w = world(2, eager_window=64 * 2**10) if isinstance(world(), LocalWorld) else WireWorld(2, cut=4096)
    receives = [irecv(w.comms[1], 0, tag) for tag in range(500)]
    sends = [isend(w.comms[0], tag.to_bytes(2, "big"), 1, tag) for tag in reversed(range(500))]
    w.run()
    assert all(send.done() for send in sends)
    assert [receive.result() for receive in receives] == [tag.to_bytes(2, "big") for tag in range(500)]
