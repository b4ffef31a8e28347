"""Persistent requests (section 3.9)."""

from __future__ import annotations

from checks import check, comm, is_empty, predecessor, raises, successor, waste

from aiompi import MPI

INITS = ("Send_init", "Bsend_init", "Ssend_init", "Rsend_init")


@check
def inactive_requests_in_lists() -> None:
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
def start_of_a_complete_request() -> None:
    """S3.9-4: of one that has not been waited for, and of a plain one."""
    receive = comm.Recv_init(bytearray(1), predecessor)
    receive.Start()
    send = comm.Isend(b"x", successor)
    while not receive.Get_status():
        pass
    with raises(MPI.InvalidRequestError, "active"):
        receive.Start()
    receive.Wait()
    for plain in (send, MPI.REQUEST_NULL):
        assert not hasattr(plain, "Start")
        with raises(MPI.InvalidRequestError, "is not persistent"):
            MPI.Prequest.Startall([plain])  # type: ignore[list-item]
    send.Wait()


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
