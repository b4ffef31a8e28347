"""Completing requests, one and several (sections 3.7 and 3.8)."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from types import FrameType
from typing import Any

from checks import LARGE, check, comm, fields, is_empty, predecessor, raises, rank, successor, waste

from aiompi import MPI


@check
def null_requests() -> None:
    """S3.7.3-2, S3.7.3-6, S3.7.3-8, S3.7.3-15, S3.7.5-4, S3.7.5-7, S3.7.5-10, S3.7.5-15, S3.8-20"""
    null = MPI.REQUEST_NULL
    for call in (null.Wait, null.Test):
        status = waste()
        status.error = MPI.SUCCESS
        assert call(status) is True
        assert is_empty(status)
    assert null.wait() is None
    assert null.test() == (True, None)
    for refuse in (null.Cancel, null.Free):
        with raises(MPI.InvalidRequestError, "MPI_REQUEST_NULL"):
            refuse()
    for nulls in ([], [null], [MPI.Request(), null]):
        status = MPI.Status.of(77, 88, 99)
        assert MPI.Request.Waitany(nulls, status) == MPI.UNDEFINED
        assert is_empty(status)
        status = MPI.Status.of(77, 88, 99)
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
def get_status() -> None:
    """Tells as Test does, and leaves the request as it is (MPI-2)."""
    receive = comm.irecv(source=predecessor, tag=3)
    status = waste()
    assert receive.Get_status(status) is False
    assert fields(status) == fields(waste())
    comm.Barrier()
    send = comm.isend(rank, successor, 3)
    while not receive.Get_status(status):
        pass
    for _ in range(2):
        assert receive.Get_status()
        assert receive
    assert fields(status)[:2] == (predecessor, 3)
    assert status.error == MPI.ERR_UNKNOWN
    assert receive.wait() == predecessor
    status = waste()
    assert receive.Get_status(status)
    assert fields(status) == (MPI.ANY_SOURCE, MPI.ANY_TAG, 0)
    send.Wait()


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
    ways: dict[str, Callable[..., Any]] = {
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
        assert good == b"xx"
        assert bad == b"x"
        assert not any(requests)
        MPI.Request.Waitall(sends)


@check
def failure_among_pending_ones() -> None:
    """S3.7.5-12, S3.7.5-20: is told at once; what is neither complete nor failed stays active."""
    for way in (MPI.Request.Waitall, lambda *args: _until(lambda: MPI.Request.Testall(*args))):
        good, pending = bytearray(2), bytearray(4)
        requests = [comm.Irecv(good, predecessor, 1), comm.Irecv(pending, predecessor, 3)]
        requests.insert(1, comm.Irecv(bytearray(1), predecessor, 2))
        comm.Barrier()
        sends = [comm.Isend(b"xx", successor, tag) for tag in (1, 2)]
        statuses: list[MPI.Status] = []
        with raises(MPI.InStatusError, "1 of 3 requests failed; request 1: message of 2 bytes"):
            way(requests, statuses)
        assert [status.error for status in statuses] == [MPI.SUCCESS, MPI.ERR_TRUNCATE, MPI.ERR_PENDING]
        assert [bool(request) for request in requests] == [False, False, True]
        assert good == b"xx"
        comm.Barrier()
        sends.append(comm.Isend(b"late", successor, 3))
        MPI.Request.Waitall(requests + sends, statuses)
        assert pending == b"late"
        assert [status.error for status in statuses[:3]] == [MPI.SUCCESS, MPI.ERR_TRUNCATE, MPI.ERR_PENDING]


@check
def failures_that_show_late() -> None:
    """Of an object that cannot be decoded, and of a send and a receive whose send ends last: told before the rest."""
    long = bytearray(4 * LARGE)
    for way in ("decode", "exchange"):
        late = comm.irecv(source=predecessor, tag=1)
        if way == "decode":
            failing = comm.irecv(source=predecessor, tag=2)
            comm.Send([b"\xc1 is no object", MPI.BYTE], successor, 2)
        else:
            failing = comm.Isendrecv(long, successor, 3, bytearray(1), predecessor, 2)
            comm.Send(b"xx", successor, 2)
            taken = comm.Irecv(bytearray(len(long)), predecessor, 3)
        with raises(MPI.InStatusError, "1 of 2 requests failed; request 1: "):
            MPI.Request.Waitall([late, failing])
        comm.Barrier()
        comm.send("late", successor, 1)
        assert late.wait() == "late"
        if way == "exchange":
            taken.Wait()
    comm.Barrier()


@check
def looks_at_those_to_come() -> None:
    """A Waitall that is woken by each of many messages looks at the one it waits for, not at all of them."""
    count = 100
    buffers = bytearray(count)
    requests = [comm.Irecv(memoryview(buffers)[i : i + 1], predecessor, i) for i in range(count)]
    comm.Barrier()
    seen = 0

    def profile(frame: FrameType, event: str, _: object) -> None:
        nonlocal seen
        seen += event == "call" and frame.f_code.co_name == "<genexpr>"

    def send() -> None:
        for i in range(count):
            time.sleep(1e-3)
            comm.Send(b"x", successor, i)

    def wait() -> None:
        sys.setprofile(profile)
        try:
            MPI.Request.Waitall(requests)
        finally:
            sys.setprofile(None)

    for step in (wait, send) if rank % 2 else (send, wait):
        step()
    assert buffers == b"x" * count
    assert seen <= 10 * count, seen


@check
def listed_twice() -> None:
    """S3.7.5-21: is refused while it is active, and nothing is changed."""
    plain, persistent = comm.irecv(source=predecessor), comm.Recv_init(bytearray(1), predecessor, 9)
    persistent.Start()
    for request in (plain, persistent):
        for name in ("Waitany", "Testany", "Waitsome", "Testsome", "Waitall", "Testall"):
            with raises(MPI.InvalidRequestError, "listed twice"):
                getattr(MPI.Request, name)([request, MPI.REQUEST_NULL, request])
        assert request.Test() is False
        request.Cancel()
        request.Wait()
    for twice in ([plain, plain], [persistent, persistent]):
        assert MPI.Request.Waitall(twice)


@check
def memory_is_the_programs_again() -> None:
    """Once a receive has been waited for, also if another handle of it is left, and with gaps."""
    gaps = MPI.BYTE.Create_vector(2, 1, 3).Commit()
    for datatype in (MPI.BYTE, gaps):
        memory = bytearray(4)
        request = comm.Irecv([memory, 1, datatype], predecessor, 4)
        another = MPI.Request(request)
        comm.Send(b"ab"[: datatype.Get_size()], successor, 4)
        MPI.Request.Waitall([request])
        memory.append(1)
        assert another.Test()
        assert memory[0] == ord("a")
    gaps.Free()


@check
def no_requests() -> None:
    """What is no sequence of requests is told, and nothing is changed."""
    pending = comm.irecv(source=predecessor)
    for wrong in (None, 7, "ab", [pending, 1], set[Any]()):
        for name in ("Waitany", "Testany", "Waitsome", "Testsome", "Waitall", "Testall", "waitall", "testall"):
            with raises(TypeError, "expected a sequence of Request objects"):
                getattr(MPI.Request, name)(wrong)
    assert pending.Test() is False
    pending.Cancel()
    pending.Wait()


def _until(call: Callable[[], bool]) -> None:
    while not call():
        pass


def _all_of_some(some: Callable[..., object], requests: list[MPI.Request[Any]], statuses: list[MPI.Status]) -> None:
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
