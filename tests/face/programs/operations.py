"""Every operation of the blocking face, called by all ranks of a job of any size.

Runs the checks whose names are given, all without any, and prints how many have passed.
"""

from __future__ import annotations

import contextlib
import sys
import time
from array import array
from collections.abc import Callable, Iterator

import numpy as np

from aiompi import MPI

CHECKS: dict[str, Callable[[], None]] = {}

comm = MPI.COMM_WORLD
rank, size = comm.rank, comm.size
successor, predecessor = (rank + 1) % size, (rank - 1) % size
SMALL, LARGE = 10, 300_000  # bytes; the large ones are more than is sent without asking the receiver


def check(function: Callable[[], None]) -> Callable[[], None]:
    CHECKS[function.__name__] = function
    return function


@contextlib.contextmanager
def raises(kind: type[BaseException], text: str = "") -> Iterator[None]:
    try:
        yield
    except kind as error:
        assert text in str(error), error
    else:
        raise AssertionError(f"no {kind.__name__}")


def fields(status: MPI.Status) -> tuple[int, int, int]:
    return status.source, status.tag, status.nbytes


def is_empty(status: MPI.Status) -> bool:
    """The empty status of section 3.7.3."""
    return (
        fields(status) == (MPI.ANY_SOURCE, MPI.ANY_TAG, 0)
        and status.Get_count(MPI.DOUBLE) == 0
        and status.Get_error() == MPI.SUCCESS
        and not status.Is_cancelled()
    )


def waste() -> MPI.Status:
    """A status in which anything that is not set shows."""
    status = MPI.Status(77, 88, 99, cancelled=True)
    status.error = MPI.ERR_UNKNOWN
    return status


# Point-to-point, objects.


@check
def objects() -> None:
    obj = {"a": (1, 2.5, "x", None), 3: {4}, "array": np.arange(5)}
    status = MPI.Status()
    request = comm.isend(obj, dest=successor, tag=7)
    got = comm.recv(source=predecessor, tag=7, status=status)
    assert (got["a"], got[3], got["array"].tolist()) == (obj["a"], {4}, [0, 1, 2, 3, 4])
    assert (status.Get_source(), status.Get_tag()) == (predecessor, 7)
    assert request.wait() is None
    comm.send(rank, dest=successor)
    assert comm.recv() == predecessor


@check
def requests_of_objects() -> None:
    """S3.7.4-1: the order is that of the calls which start them; S3.5-4: but for tags that differ."""
    receives = [comm.irecv(source=predecessor, tag=tag) for tag in (2, 1)]
    sends = [comm.isend("x" * tag, successor, tag) for tag in (1, 2)]
    assert receives[1].wait() == "x"
    assert receives[0].wait() == "xx"
    assert MPI.Request.waitall(sends) == [None, None]
    assert [bool(request) for request in sends + receives] == [False] * 4


@check
def synchronous_sends() -> None:
    """S3.4-6, S3.7-4: not complete before they are matched."""
    buffer = bytearray(1)
    requests = [comm.issend("a", dest=successor, tag=1), comm.Issend(b"b", dest=successor, tag=2)]
    comm.Probe(source=predecessor, tag=2)
    flags = [request.Test() for request in requests]
    comm.Barrier()
    assert flags == [False, False]
    assert comm.recv(source=predecessor, tag=1) == "a"
    comm.Recv(buffer, source=predecessor, tag=2)
    assert buffer == b"b"
    MPI.Request.Waitall(requests)
    receive = comm.irecv(source=predecessor)
    comm.ssend("c", dest=successor)
    assert receive.wait() == "c"
    request = comm.Irecv(buffer, source=predecessor)
    comm.Ssend(b"d", dest=successor)
    request.Wait()
    assert buffer == b"d"


@check
def sendrecv() -> None:
    """S3.10-1, S3.10-2, S3.10-3, S3.10-4, S3.10-6"""
    status = MPI.Status()
    assert comm.sendrecv(rank, successor, 4, None, predecessor, 4, status) == predecessor
    assert fields(status)[:2] == (predecessor, 4)
    mine, theirs = np.full(LARGE + rank, rank, "u1"), np.full(LARGE + size, 255, "u1")
    comm.Sendrecv(mine, successor, 1, theirs, predecessor, 1, status)
    assert fields(status) == (predecessor, 1, LARGE + predecessor)
    assert set(theirs[: status.nbytes]) == {predecessor}
    assert set(theirs[status.nbytes :]) == {255}
    request = comm.isend("plain", successor, 5)
    assert comm.sendrecv("other", successor, 6, source=predecessor, recvtag=5) == "plain"
    assert comm.recv(source=predecessor, tag=6) == "other"
    request.wait()
    assert comm.sendrecv("to nobody", MPI.PROC_NULL, source=MPI.PROC_NULL) is None


@check
def nobody() -> None:
    """S3.11-1 to S3.11-4"""
    null = MPI.PROC_NULL
    buffer = bytearray(b"kept")
    for send in (comm.Send, comm.Ssend):
        send(b"x", dest=null)
    comm.send("x", dest=null)
    comm.ssend("x", dest=null)
    MPI.Request.Waitall([comm.isend(1, null), comm.issend(1, null), comm.Isend(b"1", null), comm.Issend(b"1", null)])
    for receive in (
        lambda status: comm.Recv(buffer, null, status=status),
        lambda status: comm.Irecv(buffer, null).Wait(status),
        lambda status: comm.recv(source=null, status=status),
        lambda status: comm.irecv(source=null).wait(status),
        lambda status: comm.Probe(null, status=status),
        lambda status: comm.Iprobe(null, status=status),
    ):
        status = MPI.Status()
        receive(status)
        assert fields(status) == (null, MPI.ANY_TAG, 0)
    assert buffer == b"kept"


# Point-to-point, buffers.


@check
def buffers() -> None:
    """S3.2.1-1, S3.2.2-1, S3.2.4-4, S3.2.5-3"""
    for nbytes in (0, SMALL, LARGE):
        status = MPI.Status()
        numbers = array("d", range(nbytes // 8))
        request = comm.Isend([numbers, MPI.DOUBLE], dest=successor, tag=9)
        target = np.full(nbytes // 8 + 1, -1.0)
        comm.Recv(target, source=predecessor, tag=9, status=status)
        assert target.tolist() == [*numbers, -1.0]
        assert status.Get_count(MPI.DOUBLE) == nbytes // 8
        assert status.Get_count() == status.count == status.nbytes == nbytes // 8 * 8
        assert request.Wait()
        memory = bytearray(nbytes)
        receive = comm.Irecv(memory, source=predecessor)
        comm.Send(bytes(nbytes), dest=successor)
        receive.Wait(status)
        assert status.nbytes == nbytes


@check
def count_of_another_type() -> None:
    """S3.2.5-4"""
    status = MPI.Status()
    comm.Isend(bytes(10), dest=successor).Wait()
    comm.Recv(bytearray(10), source=predecessor, status=status)
    assert (status.Get_count(MPI.SHORT), status.Get_count(MPI.INT)) == (5, MPI.UNDEFINED)


@check
def reuse_after_send() -> None:
    """S3.2.1-2, S3.2.1-3, S2.3-2: a buffer that Send has returned can be overwritten."""
    for nbytes in (SMALL, LARGE):
        receive = comm.Irecv(target := bytearray(nbytes), source=predecessor)
        memory = bytearray(b"x" * nbytes)
        comm.Send(memory, dest=successor)
        assert memory == b"x" * nbytes
        memory[:] = b"y" * nbytes
        receive.Wait()
        assert target == b"x" * nbytes


@check
def truncation() -> None:
    """S3.2.4-5, S3.2.4-6, S3.7.5-22"""
    for nbytes in (SMALL, LARGE):
        memory, status = bytearray(b"-" * nbytes), waste()
        request = comm.Isend(b"x" * nbytes, dest=successor, tag=8)
        with raises(MPI.TruncationError, f"message of {nbytes} bytes from rank {predecessor} with tag 8"):
            comm.Recv(memoryview(memory)[:-1], source=predecessor, status=status)
        assert memory[-1:] == b"-"
        assert fields(status)[:2] == (predecessor, 8)
        assert status.error == MPI.ERR_UNKNOWN
        request.Wait()
        sent = comm.Isend(b"x" * nbytes, dest=successor)
        receive = comm.Irecv(memoryview(memory)[:-1], source=predecessor)
        with raises(MPI.TruncationError):
            receive.Wait()
        assert not receive
        sent.Wait()


@check
def bad_arguments() -> None:
    """S3.2.3-3, S3.2.3-6, S3.2.4-7"""
    for call in (comm.send, comm.isend, comm.ssend, comm.issend, comm.Send, comm.Isend, comm.Ssend, comm.Issend):
        for dest in (size, MPI.ANY_SOURCE):
            with raises(MPI.InvalidRankError, f"destination {dest} is not in 0..{size - 1}"):
                call(b"x", dest)
        for tag in (MPI.ANY_TAG, MPI.TAG_UB + 1):
            with raises(MPI.InvalidTagError, f"tag {tag}"):
                call(b"x", 0, tag)
    for call in (comm.Recv, comm.Irecv, comm.recv, comm.irecv):
        with raises(MPI.InvalidRankError, f"source {size}"):
            call(bytearray(1), size)
        with raises(MPI.InvalidTagError, "tag -5"):
            call(bytearray(1), 0, -5)
    with raises(MPI.InvalidBufferError):
        comm.Recv(b"cannot be written to")
    with raises(MPI.InvalidRootError):
        comm.bcast(1, root=size)
    for exchange in (comm.sendrecv, comm.Sendrecv):
        with raises(MPI.InvalidRankError):
            exchange(b"x", size, recvbuf=bytearray(1))
    comm.Barrier()
    assert comm.sendrecv("not swallowed", successor, source=predecessor) == "not swallowed"


@check
def largest_tags() -> None:
    """S3.2.3-2"""
    for tag in (0, 32767, MPI.TAG_UB):
        assert comm.sendrecv(tag, successor, tag, source=predecessor, recvtag=tag) == tag


@check
def probes() -> None:
    """S3.8-1, S3.8-2, S3.8-4, S3.8-5, S3.8-7"""
    assert not comm.Iprobe()
    comm.Barrier()
    request = comm.issend("probed", dest=successor, tag=6)
    first, again = MPI.Status(), MPI.Status()
    assert comm.Probe(source=predecessor, status=first)
    assert comm.Iprobe(MPI.ANY_SOURCE, 6, again)
    assert fields(first)[:2] == (predecessor, 6)
    assert fields(first) == fields(again)
    assert comm.probe() is comm.iprobe() is True
    assert comm.recv(source=first.source, tag=first.tag, status=again) == "probed"
    assert fields(first) == fields(again)
    request.wait()
    comm.Barrier()
    assert not comm.Iprobe()


@check
def iprobe_becomes_true() -> None:
    """S3.8-7, S3.7.4-6: asking again and again is enough, and so is testing."""
    send = comm.issend("probed", dest=successor)
    while not comm.Iprobe(source=predecessor):
        pass
    receive = comm.irecv(source=predecessor)
    while not receive.Test():
        pass
    while not send.Test():
        pass


# Completion (sections 3.7.3 and 3.7.5).


@check
def null_requests() -> None:
    """S3.7.3-6, S3.7.3-8, S3.7.3-15, S3.7.5-4, S3.7.5-7, S3.7.5-10, S3.7.5-15, S3.8-20"""
    null = MPI.REQUEST_NULL
    for call in (null.Wait, null.Test):
        status = waste()
        status.error = MPI.SUCCESS
        assert call(status) is True
        assert is_empty(status)
    assert null.wait() is None
    assert null.test() == (True, None)
    for call in (null.Cancel, null.Free):
        with raises(MPI.InvalidRequestError, "MPI_REQUEST_NULL"):
            call()
    for nulls in ([], [null], [MPI.Request(), null]):
        status = MPI.Status(77, 88, 99)
        assert MPI.Request.Waitany(nulls, status) == MPI.UNDEFINED
        assert is_empty(status)
        status = MPI.Status(77, 88, 99)
        assert MPI.Request.Testany(nulls, status) == (MPI.UNDEFINED, True)
        assert is_empty(status)
        assert MPI.Request.Waitsome(nulls) is MPI.Request.Testsome(nulls) is None
        statuses: list[MPI.Status] = []
        assert MPI.Request.Waitall(nulls, statuses) is MPI.Request.Testall(nulls) is True
        assert len(statuses) == len(nulls)
        assert all(map(is_empty, statuses))
        assert MPI.Request.waitall(nulls) == [None] * len(nulls)


@check
def wait_and_test() -> None:
    """S3.7.3-5, S3.7.3-7, S3.7.3-16, S2.4.1-1: a completed request is null, and equal to REQUEST_NULL."""
    for way in ("Wait", "Test"):
        receive = comm.irecv(source=predecessor)
        assert receive != MPI.REQUEST_NULL
        assert receive.Test() is False
        assert receive
        comm.Barrier()
        send = comm.isend(rank, successor, 3)
        status = waste()
        if way == "Wait":
            assert receive.Wait(status) is True
        else:
            while not receive.Test(status):
                pass
        assert fields(status)[:2] == (predecessor, 3)
        assert (status.error, status.Is_cancelled()) == (MPI.ERR_UNKNOWN, False)
        assert receive == MPI.REQUEST_NULL
        assert send.Wait(status)
        assert fields(status) == (MPI.ANY_SOURCE, MPI.ANY_TAG, 0)
    send = comm.isend(rank, successor)
    receive = comm.irecv(source=predecessor)
    while not (result := receive.test())[0]:
        pass
    assert result == (True, predecessor)
    send.wait()


@check
def free() -> None:
    """S3.7.3-12: the communication of a freed request ends well."""
    for nbytes in (SMALL, LARGE):
        memory = bytearray(nbytes)
        send, receive = comm.Isend(b"x" * nbytes, successor, 1), comm.Irecv(memory, predecessor, 1)
        send.Free()
        receive.Free()
        assert not send
        assert not receive
        request = comm.isend("behind", successor, 2)
        assert comm.recv(source=predecessor, tag=2) == "behind"
        while nbytes and memory[-1:] != b"x":
            comm.Iprobe()
        request.wait()
        comm.Barrier()


@check
def waitall() -> None:
    """S3.7.5-3, S3.7.5-9, S3.7.5-11, S3.7.5-23: whatever the order of the list."""
    receives = [comm.irecv(source=predecessor, tag=tag) for tag in range(3)]
    sends = [comm.isend(tag, dest=successor, tag=tag) for tag in reversed(range(3))]
    statuses: list[MPI.Status] = [waste()]
    done = [receives[0], MPI.REQUEST_NULL, *sends, *receives[1:]]
    assert MPI.Request.waitall(done, statuses) == [0, None, None, None, None, 1, 2]
    assert [status.tag for status in statuses] == [0, *[MPI.ANY_TAG] * 4, 1, 2]
    assert statuses[0].error == MPI.ERR_UNKNOWN
    assert is_empty(statuses[1])
    assert not any(done)
    one = [comm.isend(0, dest=successor)]
    comm.recv(source=predecessor)
    assert MPI.Request.Waitall(one)
    assert not one[0]


@check
def testall() -> None:
    """S3.7.5-13: as long as one is missing none is changed."""
    requests = [comm.irecv(source=predecessor, tag=tag) for tag in range(3)]
    sends = [comm.isend("first", successor, 0)]
    statuses: list[MPI.Status] = []
    assert MPI.Request.testall(requests, statuses) == (False, None)
    assert all(requests)
    assert statuses == []
    comm.Barrier()
    sends += [comm.isend("second", successor, 1), comm.isend("third", successor, 2)]
    while not (result := MPI.Request.testall([MPI.REQUEST_NULL, *requests], statuses))[0]:
        assert all(requests)
    assert result[1] == [None, "first", "second", "third"]
    assert [status.tag for status in statuses] == [MPI.ANY_TAG, 0, 1, 2]
    assert not any(requests)
    assert MPI.Request.Testall(requests)
    MPI.Request.Waitall(sends)


@check
def waitany_and_testany() -> None:
    """S3.7.5-1, S3.7.5-5, S3.7.5-6, S3.7.5-8: one at a time, the others stay untouched."""
    for way in ("wait", "test"):
        requests = [MPI.REQUEST_NULL, *(comm.irecv(source=predecessor, tag=tag) for tag in (1, 2))]
        assert MPI.Request.Testany(requests) == (MPI.UNDEFINED, False)
        comm.Barrier()
        sends = [comm.isend(tag, successor, tag) for tag in (2, 1)]
        for left in (1, 0):
            status = waste()
            if way == "wait":
                index, value = MPI.Request.waitany(requests, status)
            else:
                flag = False
                while not flag:
                    index, flag, value = MPI.Request.testany(requests, status)
            assert index == value == status.tag
            assert status.error == MPI.ERR_UNKNOWN
            assert not requests[index]
            assert sum(map(bool, requests)) == left
        assert MPI.Request.Waitany(requests) == MPI.UNDEFINED
        MPI.Request.Waitall(sends)


@check
def waitsome_and_testsome() -> None:
    """S3.7.5-14, S3.7.5-16, S3.7.5-18, S3.7.5-19"""
    for way in ("wait", "test"):
        requests = [MPI.REQUEST_NULL, *(comm.irecv(source=predecessor, tag=tag) for tag in range(1, 5))]
        assert MPI.Request.Testsome(requests) == []
        comm.Barrier()
        sends = [comm.isend(tag, successor, tag) for tag in range(1, 5)]
        seen: list[int] = []
        while any(requests):
            statuses: list[MPI.Status] = []
            some = MPI.Request.waitsome if way == "wait" else MPI.Request.testsome
            indices, values = some(requests, statuses)
            assert indices == values == [status.tag for status in statuses]
            assert indices or way == "test"
            assert not any(requests[index] for index in indices)
            seen += indices
        assert sorted(seen) == [1, 2, 3, 4]
        assert MPI.Request.Waitsome(requests) is None
        MPI.Request.Waitall(sends)


@check
def errors_of_several() -> None:
    """S3.2.5-2, S3.7.5-12, S3.7.5-17: IN_STATUS, and each status tells."""
    ways = {
        "Waitall": MPI.Request.Waitall,
        "Testall": lambda requests, statuses: _until(lambda: MPI.Request.Testall(requests, statuses)),
        "Waitsome": lambda requests, statuses: _all_of_some(MPI.Request.Waitsome, requests, statuses),
        "Testsome": lambda requests, statuses: _all_of_some(MPI.Request.Testsome, requests, statuses),
    }
    for name, way in ways.items():
        good, bad = bytearray(2), bytearray(1)
        requests = [comm.Irecv(good, predecessor, 1), MPI.REQUEST_NULL, comm.Irecv(bad, predecessor, 2)]
        comm.Barrier()
        sends = [comm.Isend(b"xx", successor, tag) for tag in (1, 2)]
        comm.Iprobe()
        comm.Barrier()
        statuses: list[MPI.Status] = []
        with raises(MPI.InStatusError, "1 of "):
            way(requests, statuses)
        *good_errors, last = [status.error for status in statuses]
        assert last == MPI.ERR_TRUNCATE, name
        assert set(good_errors) <= {MPI.SUCCESS}
        assert len(statuses) == len(requests) or "some" in name
        assert statuses[-1].tag == 2
        assert (good, bad) == (b"xx", b"x")
        assert not any(requests)
        MPI.Request.Waitall(sends)


def _until(call: Callable[[], bool]) -> None:
    while not call():
        pass


def _all_of_some(some: Callable[..., object], requests: list[MPI.Request], statuses: list[MPI.Status]) -> None:
    while any(requests):
        del statuses[:]
        some(requests, statuses)


@check
def error_of_one() -> None:
    """S3.7.5-22, S2.7-4: raised by the call that completes the one, with its own class."""
    for way in (MPI.Request.Waitany, lambda requests: _until(lambda: MPI.Request.Testany(requests)[1])):
        request = comm.Irecv(bytearray(1), predecessor)
        comm.Send(b"xx", successor)
        with raises(MPI.TruncationError):
            way([MPI.REQUEST_NULL, request])
        assert not request


@check
def cancel() -> None:
    """S3.8-11, S3.8-12, S3.8-13, S3.8-14, S3.8-15, S3.8-16, S3.8-17"""
    memory, status = bytearray(b"kept"), MPI.Status()
    receive = comm.Irecv(memory, predecessor, 1)
    receive.Cancel()
    assert receive
    receive.Wait(status)
    assert status.Is_cancelled()
    assert not receive
    comm.Barrier()
    send = comm.issend("recalled", successor, 1)
    _settle()
    send.cancel()
    send.Wait(status)
    assert status.cancelled
    comm.Barrier()
    assert comm.sendrecv("other", successor, 1, source=predecessor, recvtag=1) == "other"
    assert memory == b"kept"
    receive = comm.Irecv(memory, predecessor, 1)
    comm.Send(b"came", successor, 1)
    _settle()
    receive.Cancel()
    receive.Wait(status)
    assert (status.Is_cancelled(), memory) == (False, b"came")


def _settle() -> None:
    """All that the predecessor has sent before is here: this cannot overtake it."""
    assert comm.sendrecv("settle", successor, 1000, source=predecessor, recvtag=1000) == "settle"


@check
def many_requests() -> None:
    """S3.7-7: hundreds of them, completed in reverse order."""
    sends = [comm.isend(tag, successor, tag) for tag in range(500)]
    receives = [comm.irecv(source=predecessor, tag=tag) for tag in reversed(range(500))]
    assert MPI.Request.waitall(receives) == list(reversed(range(500)))
    MPI.Request.Waitall(sends)


@check
def order() -> None:
    """S3.5-1, S3.5-3, S3.7.4-2: between modes, sizes, and blocking or not."""
    sends = []
    for number, nbytes in enumerate([LARGE, 1, LARGE, 2]):
        start = comm.Isend if number % 2 else comm.Issend
        sends.append(start(bytes([number]) * nbytes, successor, 3))
    seen = []
    for _ in sends:
        memory, status = bytearray(LARGE), MPI.Status()
        comm.Recv(memory, predecessor, 3, status)
        seen.append((memory[0], status.nbytes))
    assert seen == [(0, LARGE), (1, 1), (2, LARGE), (3, 2)]
    MPI.Request.Waitall(sends)


# Collectives.


@check
def object_collectives() -> None:
    everyone = list(range(size))
    for root in everyone:
        assert comm.bcast(("obj", rank), root) == ("obj", root)
        assert comm.scatter([[str(i)] for i in everyone] if rank == root else None, root) == [str(rank)]
        assert comm.gather(rank, root) == (everyone if rank == root else None)
        assert comm.reduce([rank], MPI.SUM, root) == (everyone if rank == root else None)
    assert comm.allgather(rank) == everyone
    assert comm.alltoall([10 * rank + i for i in everyone]) == [10 * i + rank for i in everyone]
    assert comm.allreduce(rank, op=MPI.MAX) == size - 1
    comm.barrier()


@check
def buffer_collectives() -> None:
    """S4.5-1, S4.6-1, S4.7-1, S4.8-1, S4.9.1-1, S4.4-1, and S4.1-4: what counts only at the root may be anything."""
    for count in (2, LARGE):
        mine = np.full(count, rank, "i4")
        out, wide = np.zeros(count, "i4"), np.zeros(size * count, "i4")
        blocks = np.repeat(np.arange(size, dtype="i4"), count)
        root = size - 1
        comm.Scatter(blocks if rank == root else "anything", out, root)
        assert np.array_equal(out, mine)
        comm.Gather(mine, wide if rank == root else "anything", root)
        assert np.array_equal(wide, blocks if rank == root else np.zeros(size * count))
        comm.Allgather(mine, wide)
        assert np.array_equal(wide, blocks)
        comm.Alltoall(blocks + rank, wide)
        assert wide[::count].tolist() == [rank + i for i in range(size)]
        comm.Allreduce(mine, out)
        assert set(out) == {sum(range(size))}
        comm.Reduce(mine, out if rank == 0 else "anything", MPI.MAX, 0)
        comm.Bcast(out, 0)
        assert set(out) == {size - 1}
        comm.Allreduce(MPI.IN_PLACE, mine)
        assert set(mine) == {sum(range(size))}


@check
def beside_collectives() -> None:
    """S4.1-7, S4.1-8, S3.2.3-4: no traffic meets that of another context."""
    receive = comm.irecv(source=MPI.ANY_SOURCE, tag=MPI.ANY_TAG)
    comm.allgather(rank)
    assert MPI.COMM_SELF.sendrecv("to myself", 0, source=MPI.ANY_SOURCE) == "to myself"
    assert not receive.Test()
    comm.Barrier()
    send = comm.isend("mine", successor)
    assert receive.wait() == "mine"
    send.wait()


@check
def barrier_waits() -> None:
    """S4.3-1"""
    late = time.monotonic() + 0.02
    while rank == 0 and time.monotonic() < late:
        pass
    entered = MPI.Wtime()
    comm.Barrier()
    left = MPI.Wtime()
    assert left >= comm.allreduce(entered, MPI.MAX)


# The environment.


@check
def environment() -> None:
    """S7.1.1-4, S7.4-1, S7.5-1, S7.5-3, S3.2.3-7"""
    assert MPI.Is_initialized()
    assert not MPI.Is_finalized()
    with raises(MPI.LocalProtocolError, "MPI_Init was called before"):
        MPI.Init()
    first, second = MPI.Wtime(), MPI.Wtime()
    assert isinstance(first, float)
    assert 0 <= second - first < 60
    assert 0 < MPI.Wtick() < 1
    assert 0 < len(MPI.Get_processor_name()) <= MPI.MAX_PROCESSOR_NAME
    assert MPI.Get_version() == (MPI.VERSION, MPI.SUBVERSION) == (1, 1)
    assert (comm.Get_rank(), comm.Get_size(), comm.name) == (rank, size, "MPI_COMM_WORLD")
    assert (comm.Get_group().size, comm.group.rank, comm.Get_name()) == (size, rank, comm.name)
    assert repr(comm) == f"<MPI_COMM_WORLD: rank {rank} of {size}>"
    own = MPI.COMM_SELF
    assert (own.rank, own.size, own.Get_name(), own.allreduce(5)) == (0, 1, "MPI_COMM_SELF", 5)
    assert comm.allgather(rank) == list(range(size))


def main() -> None:
    names = sys.argv[1:] or list(CHECKS)
    for name in names:
        try:
            CHECKS[name]()
        except BaseException as error:
            error.add_note(f"in check {name!r}, rank {rank}")
            raise
        comm.Barrier()
        assert not comm.Iprobe(), f"{name} has left a message"
        comm.Barrier()
    MPI.Finalize()
    assert MPI.Is_initialized()
    assert MPI.Is_finalized()
    with raises(MPI.LocalProtocolError, "has finalized"):
        comm.send("late", successor)
    with raises(MPI.LocalProtocolError, "Finalize was called before"):
        MPI.Finalize()
    print(f"{len(names)} checks passed")


if __name__ == "__main__":
    main()
