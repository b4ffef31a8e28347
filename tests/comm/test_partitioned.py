"""Partitioned communication (MPI-4.1, chapter 4): ranks of one process, step by step."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest

from aiompi import MPI, errors
from aiompi.comm import recovery
from aiompi.comm.partitioned import PartitionedContext, PartitionedReceive, PartitionedSend, precv_init, psend_init
from aiompi.constants import ANY_SOURCE, ANY_TAG, PROC_NULL, TAG_UB
from aiompi.datatype import BOTTOM
from support.worlds import LIMIT, LocalWorld, NoDriver, WireWorld, irecv, isend

World = LocalWorld | WireWorld


def pair(
    w: World, sent: Any, received: Any, ours: int = 4, theirs: int = 4
) -> tuple[PartitionedSend, PartitionedReceive]:
    """Return a send of rank 0 and the receive of rank 1 that it matches."""
    return psend_init(w.comms[0], sent, ours, 1, 3), precv_init(w.comms[1], received, theirs, 0, 3)


def arrived(receive: PartitionedReceive, partitions: int) -> list[int]:
    return [partition for partition in range(partitions) if receive.arrived(partition).done()]


@pytest.mark.parametrize("count", [12, 12 * LIMIT], ids=["eager", "rendezvous"])
def test_partitions_leave_as_they_get_ready(count: int) -> None:
    w = WireWorld(2, eager_limit=LIMIT)
    sent, received = np.zeros(count), np.zeros(count)
    send, receive = pair(w, sent, received)
    part = count // 4
    for run in range(1, 4):
        receive.start()
        send.start()
        w.run()
        assert not arrived(receive, 4)
        for ready in ([2], [0, 3], [1]):
            for partition in ready:
                sent[partition * part : (partition + 1) * part] = run + partition
            send.ready(*ready)
            w.run()
            assert all((received[i * part : (i + 1) * part] == run + i).all() for i in ready)
            assert set(ready) <= set(arrived(receive, 4))
            assert receive.done() is (ready == [1])
        assert send.done()
        status = receive.result()
        assert (status.source, status.tag, status.nbytes) == (0, 3, 8 * count)
        assert receive.status == status


@pytest.mark.parametrize(("ours", "theirs"), [(1, 6), (6, 1), (4, 6), (6, 4), (12, 5), (5, 12)])
@pytest.mark.parametrize("gaps", [False, True])
def test_both_sides_have_partitions_of_their_own(ours: int, theirs: int, gaps: bool) -> None:
    """What has arrived is what is made of partitions that are ready, also where they begin within an item."""
    w = LocalWorld(2)
    sent, memory = np.arange(60, dtype="i8") + 1, np.zeros(120, dtype="i8")
    received = memory[::2] if gaps else memory[:60]
    send, receive = pair(w, sent, received, ours, theirs)
    send.start()
    receive.start()
    ready: set[int] = set()
    for partition in (*range(0, ours, 2), *range(1, ours, 2)):
        send.ready(partition)
        ready.update(range(partition * 60 // ours, (partition + 1) * 60 // ours))
        for mine in range(theirs):
            items = range(mine * 60 // theirs, (mine + 1) * 60 // theirs)
            assert receive.arrived(mine).done() is (ready >= set(items))
            if ready >= set(items):
                assert received[items.start : items.stop].tolist() == [item + 1 for item in items]
    assert receive.result().nbytes == 480
    assert (received == sent).all()
    if gaps:
        assert not memory[1::2].any()


def test_datatype_with_gaps_at_the_sender_and_a_count_for_each_partition() -> None:
    w = LocalWorld(2)
    pairs = MPI.INT.Create_vector(2, 1, 2).Create_resized(0, 16).Commit()
    sent, received = np.arange(24, dtype="i4"), np.zeros(12, dtype="i4")
    send, receive = pair(w, [sent, 2, pairs], received, 3, 2)
    receive.start()
    send.start()
    send.ready(0, 1, 2)
    assert receive.done()
    assert received.tolist() == list(range(0, 24, 2))


def test_matching_is_in_the_order_in_which_arguments_are_bound() -> None:
    """By source, tag and communicator; not in the order of starts, and never with other messages."""
    w = LocalWorld(2)
    sends = [psend_init(w.comms[0], np.full(2, number), 2, 1, tag) for number, tag in ((1, 5), (2, 5), (3, 4))]
    memories = np.zeros((3, 2), dtype=int)
    receives = [precv_init(w.comms[1], memory, 1, 0, tag) for memory, tag in zip(memories, (4, 5, 5), strict=True)]
    plain = irecv(w.comms[1], ANY_SOURCE, ANY_TAG)
    for send in reversed(sends):
        send.start()
        send.ready(0, 1)
    for receive in reversed(receives):
        receive.start()
        assert receive.done()
    assert memories.tolist() == [[3, 3], [1, 1], [2, 2]]
    assert not plain.done()
    isend(w.comms[0], b"abc", 1, 5)
    assert plain.result() == b"abc"


def test_runs_do_not_mix() -> None:
    """The sender may be ahead of the receiver."""
    w = LocalWorld(2)
    sent, received = np.zeros(2, dtype=int), np.zeros(2, dtype=int)
    send, receive = pair(w, sent, received, 2, 2)
    for run in range(3):
        sent[:] = run
        send.start()
        send.ready(1, 0)
    for run in range(3):
        receive.start()
        assert receive.result().nbytes == 16
        assert received.tolist() == [run, run]


def test_null_process() -> None:
    w = LocalWorld(1)
    received = np.ones(4)
    send = psend_init(w.comms[0], np.zeros(4), 4, PROC_NULL, 0)
    receive = precv_init(w.comms[0], received, 4, PROC_NULL, 0)
    receive.start()
    assert arrived(receive, 4) == [0, 1, 2, 3]
    assert receive.result().source == PROC_NULL
    assert received.all()
    send.start()
    send.ready(0, 1, 2, 3)
    assert send.done()


def test_misuse() -> None:
    w = LocalWorld(2)
    send, receive = pair(w, np.zeros(4), np.zeros(4))
    assert arrived(receive, 4) == [0, 1, 2, 3], "it is inactive"
    with pytest.raises(errors.InvalidRequestError, match="inactive: start it"):
        send.ready(0)
    send.start()
    with pytest.raises(errors.InvalidRequestError, match="active"):
        send.start()
    send.ready(1)
    for partitions in ([1], [0, 1], [2, 2]):
        with pytest.raises(errors.InvalidArgumentError, match="was marked ready before"):
            send.ready(*partitions)
    with pytest.raises(errors.InvalidArgumentError, match=r"partition 4 is not in 0\.\.3"):
        send.ready(0, 4)
    receive.start()
    with pytest.raises(errors.InvalidArgumentError, match=r"partition -1 is not in 0\.\.3"):
        receive.arrived(-1)
    for request in (send, receive):
        for end in (request.cancel, request.free):
            with pytest.raises(errors.InvalidRequestError, match="the request is active"):
                end()
    send.ready(0, 2, 3)
    assert receive.done(), "what was refused has changed nothing"
    receive.free()
    send.free()
    with pytest.raises(errors.InvalidRequestError, match="freed"):
        send.start()


def test_wrong_arguments() -> None:
    comm = LocalWorld(2).comms[0]
    memory = np.zeros(6)
    cases: list[tuple[Any, type[Exception]]] = [
        (lambda: psend_init(comm, memory, 4, 1, 0), errors.InvalidCountError),
        (lambda: psend_init(comm, memory, 0, 1, 0), errors.InvalidArgumentError),
        (lambda: psend_init(comm, memory, 2, 2, 0), errors.InvalidRankError),
        (lambda: psend_init(comm, memory, 2, 1, TAG_UB + 1), errors.InvalidTagError),
        (lambda: precv_init(comm, memory, 2, ANY_SOURCE, 0), errors.InvalidRankError),
        (lambda: precv_init(comm, memory, 2, 1, ANY_TAG), errors.InvalidTagError),
        (lambda: precv_init(comm, bytes(6), 2, 1, 0), errors.InvalidBufferError),
        (lambda: psend_init(comm, [BOTTOM, 0, MPI.INT], 2, 1, 0), errors.InvalidBufferError),
        (lambda: psend_init(comm, memory, 2.5, 1, 0), TypeError),  # type: ignore[arg-type]
    ]
    for call, error in cases:
        with pytest.raises(error):
            call()


@pytest.mark.parametrize(("count", "error"), [(9, errors.TruncationError), (3, errors.InvalidCountError)])
def test_different_sizes_are_an_error_of_the_receiver(count: int, error: type[Exception]) -> None:
    w = WireWorld(2, eager_limit=8)
    received = np.ones(6)
    send, receive = pair(w, np.zeros(count), received, 3, 2)
    receive.start()
    send.start()
    send.ready(0, 1)
    w.run()
    waiting = receive.arrived(0)
    assert not receive.done()
    send.ready(2)
    w.run()
    assert send.done(), "it can go on"
    for request in (receive, waiting):
        with pytest.raises(error, match=rf"rank 0 sends 3 partitions of {count // 3 * 8} bytes with tag 3, and 2 part"):
            request.result()
    assert received.all()


@pytest.mark.parametrize("before", [False, True], ids=["comes later", "has come"])
@pytest.mark.parametrize(
    "announcement",
    [b"", bytes(8), struct.pack("<QQI", 0, 8, 0), struct.pack("<QQI", 2**60, 0, 0), struct.pack("<QQI", 2**17, 1, 0),
     struct.pack("<QQI", 4, 8, TAG_UB - 3), struct.pack("<QQI", 2**64 - 1, 2**64 - 1, 2**32 - 1), bytes(2**16)],
    ids=["nothing", "short", "none", "many empty", "many", "tags", "all", "long"],
)  # fmt: skip
def test_an_announcement_that_cannot_be_ends_the_connection(
    announcement: bytes, before: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    w, broken = WireWorld(2), []
    monkeypatch.setattr(type(w.engines[1].peer(0)), "break_off", lambda peer, cause: broken.append((peer.rank, cause)))
    receive = precv_init(w.comms[1], np.zeros(4), 4, 0, 3)
    if not before:
        receive.start()
    PartitionedContext.of(w.comms[0])._send(memoryview(announcement), 1, 0, 3)
    w.run()
    if before:
        receive.start()
    waiting = receive.arrived(0)
    for request in (receive, waiting):
        with pytest.raises(errors.RemoteProtocolError, match="announce"):
            request.result()
    assert broken == [(0, str(receive.exception()))]


def test_failure_of_the_other_rank() -> None:
    w = WireWorld(2, eager_limit=8)
    send, receive = pair(w, np.zeros(8), np.zeros(8))
    receive.start()
    send.start()
    send.ready(1)
    w.run()
    waiting = [receive.arrived(partition) for partition in (0, 1)]
    send.ready(2)
    for rank in (0, 1):
        w.engines[rank].peer(1 - rank).mark_failed("test")
    for request in (send, receive, waiting[0]):
        with pytest.raises(errors.ProcessFailedError, match="test"):
            request.result()
    assert waiting[1].done()
    assert waiting[1].exception() is None
    send.ready(0)  # a thread need not know
    receive.start()
    with pytest.raises(errors.ProcessFailedError):
        receive.result()


def test_failure_of_a_third_rank_is_of_no_matter() -> None:
    w = LocalWorld(3)
    received = np.ones(4)
    send, receive = pair(w, np.zeros(4), received)
    for rank in (0, 1):
        w.engines[rank].peer(2).mark_failed("test")
    receive.start()
    send.start()
    send.ready(*range(4))
    assert not received.any()
    assert receive.done()


def test_revocation() -> None:
    w = LocalWorld(2)
    send, receive = pair(w, np.zeros(4), np.zeros(4))
    receive.start()
    send.start()
    recovery.revoke(w.comms[1])
    with pytest.raises(errors.RevokedError):
        receive.result()
    for start in (receive.start, lambda: precv_init(w.comms[1], bytearray(4), 1, 0, 0)):
        with pytest.raises(errors.RevokedError):
            start()


def test_communicator_is_kept_until_its_partitions_have_arrived() -> None:
    w = LocalWorld(2)
    send, receive = pair(w, np.zeros(4), np.zeros(4))
    receive.start()
    send.start()
    for comm in w.comms:
        comm.release()
    with pytest.raises(errors.InvalidCommError, match="freed"):
        psend_init(w.comms[0], bytearray(4), 1, 1, 0)
    send.ready(*range(4))
    assert receive.done()
    assert not any(engine.contexts for engine in w.engines)
    with pytest.raises(errors.InvalidCommError, match="freed"):
        receive.start()


class Strict(NoDriver):
    def check_thread(self) -> None:
        raise errors.LocalProtocolError("another thread")


def test_other_threads_are_refused() -> None:
    w = LocalWorld(2)
    send, _ = pair(w, np.zeros(4), np.zeros(4))
    send.start()
    w.engines[0].driver = Strict()  # type: ignore[assignment]
    with pytest.raises(errors.LocalProtocolError, match="another thread"):
        send.ready(0)
