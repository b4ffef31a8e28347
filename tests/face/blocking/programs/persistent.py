"""Persistent requests (section 3.9)."""

from __future__ import annotations

import numpy as np
from checks import LARGE, SMALL, check, comm, fields, is_empty, predecessor, raises, settle, successor, waste

from aiompi import MPI

INITS = ("Send_init", "Bsend_init", "Ssend_init", "Rsend_init")


@check
def inactive_requests() -> None:
    """S3.9-1, S3.9-7, S3.9-12, S3.7.3-6, S3.7.3-8, S3.8-20: as null ones, but not null."""
    requests = [*(getattr(comm, init)(b"x", successor) for init in INITS), comm.Recv_init(bytearray(1))]
    for request in requests:
        for call in (request.Wait, request.Test, request.Get_status):
            status = waste()
            status.error = MPI.SUCCESS
            assert call(status) is True
            assert is_empty(status)
        with raises(MPI.InvalidRequestError, "inactive"):
            request.Cancel()
        assert request
        assert request != MPI.REQUEST_NULL
    status, statuses = MPI.Status.of(77, 88, 99), [waste()]
    assert MPI.Request.Waitany(requests, status) == MPI.UNDEFINED
    assert is_empty(status)
    assert MPI.Request.Testany(requests) == (MPI.UNDEFINED, True)
    assert MPI.Request.Waitsome(requests) is MPI.Request.Testsome(requests) is None
    statuses[0].error = MPI.SUCCESS
    assert MPI.Request.Waitall(requests, statuses) is MPI.Request.Testall(requests) is True
    assert len(statuses) == len(requests)
    assert all(map(is_empty, statuses))
    comm.Barrier()
    assert not comm.Iprobe()
    for request in requests:
        request.Free()
        assert request == MPI.REQUEST_NULL
        with raises(MPI.InvalidRequestError, "MPI_REQUEST_NULL"):
            request.Start()


@check
def start_again() -> None:
    """S3.9-2, S3.9-3, S3.9-6, S3.9-12: each start takes what is in the buffer then."""
    MPI.Attach_buffer(None)
    for init in INITS:
        for count in (SMALL, LARGE):
            memory, target = np.zeros(count, "i4"), np.zeros(count, "i4")
            send, receive = getattr(comm, init)(memory, successor, 3), comm.Recv_init(target, tag=3)
            for number in range(2):
                memory[:] = number
                receive.Start()
                comm.Barrier()
                send.Start()
                status = waste()
                receive.Wait(status)
                send.Wait()
                assert (*fields(status), status.error) == (predecessor, 3, 4 * count, MPI.ERR_UNKNOWN)
                assert (target == number).all()
            for request in (send, receive):
                request.Wait(status)
                assert fields(status) == (MPI.ANY_SOURCE, MPI.ANY_TAG, 0)
                assert request
                request.Free()
    MPI.Detach_buffer()


@check
def start_in_the_wrong_state() -> None:
    """S3.9-4: of an active request, of one that is complete but has not been waited for, and of a plain one."""
    receive = comm.Recv_init(bytearray(1), predecessor)
    receive.Start()
    with raises(MPI.InvalidRequestError, "active"):
        receive.Start()
    send = comm.Isend(b"x", successor)
    while not receive.Get_status():
        pass
    with raises(MPI.InvalidRequestError, "active"):
        receive.Start()
    receive.Wait()
    receive.Start()
    receive.Cancel()
    receive.Wait()
    for plain in (send, MPI.REQUEST_NULL):
        assert not hasattr(plain, "Start")
        with raises(MPI.InvalidRequestError, "is not persistent"):
            MPI.Prequest.Startall([plain])  # type: ignore[list-item]
    send.Wait()


@check
def startall() -> None:
    """S3.9-5: as each of them started."""
    target, statuses = bytearray(3), [MPI.Status() for _ in range(6)]
    receives = [comm.Recv_init(memoryview(target)[i : i + 1], predecessor, MPI.ANY_TAG) for i in range(3)]
    sends = [comm.Send_init(bytes([65 + i]), successor, i) for i in range(3)]
    for _ in range(2):
        MPI.Prequest.Startall(receives)
        comm.Barrier()
        MPI.Prequest.Startall(sends)
        MPI.Request.Waitall([*receives, *sends], statuses)
        assert [status.tag for status in statuses] == [0, 1, 2, *[MPI.ANY_TAG] * 3]
        assert target == b"ABC"
        comm.Barrier()
    receives[1].Start()
    with raises(MPI.InvalidRequestError, "active"):
        MPI.Prequest.Startall(receives)
    assert MPI.Request.Testsome(receives) == []
    for receive in receives[:2]:
        receive.Cancel()
    assert MPI.Request.Waitsome(receives) == [0, 1]


@check
def in_lists() -> None:
    """S3.9-6, S3.9-7, S3.7.5-3: completed ones become inactive, and are passed over from then on."""
    target = bytearray(1)
    send, receive = comm.Isend, comm.Recv_init(target, predecessor, 1)
    requests = [MPI.REQUEST_NULL, comm.Recv_init(bytearray(1)), receive]
    for name in ("Waitany", "Testany", "Waitsome", "Testsome", "Waitall", "Testall"):
        comm.Barrier()
        receive.Start()
        sent = send(name[-1:].encode(), successor, 1)
        call = getattr(MPI.Request, name)
        while (result := call(requests)) in ((MPI.UNDEFINED, False), [], False):
            pass
        assert result in (2, (2, True), [2], True)
        assert call(requests) in (MPI.UNDEFINED, (MPI.UNDEFINED, True), None, True)
        assert target == name[-1:].encode()
        assert receive
        sent.Wait()


@check
def with_plain_requests() -> None:
    """S3.9-8"""
    target = bytearray(10)
    send = comm.Send_init(b"persistent", successor)
    send.Start()
    comm.Recv(target, predecessor)
    assert target == b"persistent"
    send.Wait()
    receive = comm.Recv_init(target, predecessor)
    receive.Start()
    comm.Send(b"plain", successor)
    receive.Wait()
    assert target[:5] == b"plain"


@check
def failure_of_one_start() -> None:
    """S2.7-4, S3.9-6: is told once; the request is inactive then, and can be started again."""
    receive = comm.Recv_init(target := bytearray(2), predecessor)
    receive.Start()
    sends = [comm.Isend(b"xyz", successor)]
    with raises(MPI.TruncationError):
        receive.Wait()
    assert receive.Test()
    receive.Start()
    comm.Barrier()
    sends.append(comm.Isend(b"ok", successor))
    statuses: list[MPI.Status] = []
    MPI.Request.Waitall([receive, *sends], statuses)
    assert (bytes(target), statuses[0].nbytes) == (b"ok", 2)
    send = comm.Bsend_init(b"x", successor)
    with raises(MPI.InvalidBufferError, "needs an attached buffer"):
        send.Start()
    assert send.Test()


@check
def cancelled_operation() -> None:
    """S3.8-12, S3.8-13, S3.8-19: the request is inactive after its completion, and can be started again."""
    status = MPI.Status()
    receive, send = comm.Recv_init(target := bytearray(b"kept"), predecessor), comm.Ssend_init(b"sent", successor)
    receive.Start()
    receive.Cancel()
    receive.Wait(status)
    assert status.Is_cancelled()
    assert target == b"kept"
    comm.Barrier()
    send.Start()
    settle()
    send.Cancel()
    while not send.Test(status):
        pass
    assert status.Is_cancelled()
    comm.Barrier()
    assert not comm.Iprobe()
    receive.Start()
    comm.Barrier()
    send.Start()
    statuses: list[MPI.Status] = []
    MPI.Request.Waitall([receive, send], statuses)
    assert not any(status.Is_cancelled() for status in statuses)
    assert target == b"sent"
    with raises(MPI.InvalidRequestError, "inactive"):
        send.Cancel()


@check
def recalled_buffered_send_of_a_persistent_request() -> None:
    """S3.8-18, S3.8-19"""
    MPI.Attach_buffer(bytearray(LARGE + MPI.BSEND_OVERHEAD))
    send, status = comm.Bsend_init(b"x" * LARGE, successor), MPI.Status()
    send.Start()
    settle()
    send.Cancel()
    send.Wait(status)
    assert status.Is_cancelled()
    comm.Barrier()
    send.Start()
    send.Wait(status)
    assert not status.Is_cancelled()
    comm.Recv(target := bytearray(LARGE), predecessor)
    assert set(target) == set(b"x")
    MPI.Detach_buffer()


@check
def freed_while_active() -> None:
    """S3.9-9: the communication ends all the same."""
    for nbytes in (SMALL, LARGE):
        target = bytearray(nbytes)
        receive, send = comm.Recv_init(target, predecessor), comm.Send_init(b"x" * nbytes, successor)
        MPI.Prequest.Startall([receive, send])
        for request in (receive, send):
            request.Free()
            assert request == MPI.REQUEST_NULL
        while target[-1:] != b"x":
            comm.Iprobe()
        comm.Barrier()


@check
def persistent_with_nobody() -> None:
    """S3.11-1, S3.11-2, S3.11-3"""
    target, status = bytearray(b"kept"), MPI.Status()
    receive = comm.Recv_init(target, MPI.PROC_NULL)
    sends = [getattr(comm, init)(bytes(LARGE), MPI.PROC_NULL) for init in INITS]
    MPI.Prequest.Startall([*sends, receive])
    assert MPI.Request.Testall(sends)
    assert receive.Test(status)
    assert fields(status) == (MPI.PROC_NULL, MPI.ANY_TAG, 0)
    assert target == b"kept"
