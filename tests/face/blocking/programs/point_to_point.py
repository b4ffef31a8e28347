"""Sends, receives and probes."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from typing import Any

import numpy as np
from checks import LARGE, SMALL, check, comm, fields, predecessor, raises, rank, size, successor, waste

from aiompi import MPI

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
def objects_that_are_changed_once_their_sends_have_begun() -> None:
    for start in (comm.isend, comm.issend, comm.irsend):
        for nbytes in (SMALL, 90_000, LARGE):
            plate = np.zeros(nbytes, np.uint8)
            receives = [comm.irecv(source=predecessor, tag=step) for step in range(5 if start == comm.irsend else 1)]
            comm.Barrier()
            sends = []
            for step in range(5):
                plate[:] = step
                sends.append(start({"plate": plate}, successor, step))
            plate[:] = 99
            receives += [comm.irecv(source=predecessor, tag=step) for step in range(len(receives), 5)]
            for step, got in enumerate(MPI.Request.waitall(receives)):
                assert (got["plate"] == step).all()
            MPI.Request.waitall(sends)


@check
def errors_do_not_keep_memory() -> None:
    """Those of receives that are too short: an exporter such as bytearray may be resized while they are there."""

    def receive(memory: bytearray) -> None:
        comm.Recv(memory, predecessor)

    def exchange(memory: bytearray) -> None:
        comm.Sendrecv(b"x", successor, 1, memory, predecessor)

    def replace(memory: bytearray) -> None:
        comm.Sendrecv_replace(memory, successor, 1, predecessor)

    def receive_later(memory: bytearray) -> None:
        comm.Irecv(memory, predecessor).Wait()

    def receive_matched(memory: bytearray) -> None:
        comm.Mprobe(predecessor).Recv(memory)

    for call in (receive, exchange, replace, receive_later, receive_matched):
        send, memory, kept = comm.Isend(bytes(20), successor), bytearray(10), None
        try:
            call(memory)
        except MPI.TruncationError as error:
            kept = error
        memory.append(1)
        assert kept is not None
        send.Wait()
        comm.Barrier()
        while comm.Iprobe(predecessor, 1):
            comm.Recv(bytearray(20), predecessor, 1)
        comm.Barrier()


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
    assert (theirs[: status.nbytes] == predecessor).all()
    assert (theirs[status.nbytes :] == 255).all()
    none = [None, 0, MPI.DATATYPE_NULL]
    comm.Sendrecv(none, successor, 1, none, predecessor, 1, status)
    assert status.Get_count(MPI.BYTE) == 0
    comm.Sendrecv_replace(none, successor, 1, predecessor, 1)
    requests = [comm.Recv_init(none, predecessor), comm.Send_init(none, successor)]
    MPI.Prequest.Startall(requests)
    MPI.Request.Waitall([*requests, comm.Irecv(none, predecessor), comm.Isend(none, successor)])
    request = comm.isend("plain", successor, 5)
    assert comm.sendrecv("other", successor, 6, source=predecessor, recvtag=5) == "plain"
    assert comm.recv(source=predecessor, tag=6) == "other"
    request.wait()
    assert comm.sendrecv("to nobody", MPI.PROC_NULL, source=MPI.PROC_NULL) is None


@check
def nobody() -> None:
    """S3.11-1, S3.11-2, S3.11-3, S3.11-4: in every mode; the buffered one needs no buffer."""
    null = MPI.PROC_NULL
    buffer = bytearray(b"kept")
    for mode in ("", "b", "s", "r"):
        for start in (f"{mode}send", f"{mode}send".capitalize()):
            getattr(comm, start)(bytes(LARGE), null)
        for start in (f"i{mode}send", f"I{mode}send"):
            assert getattr(comm, start)(bytes(LARGE), null).Test()
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
    """S3.2.3-3, S3.2.3-6, S3.2.4-7, S4.4-3"""
    starts = ["send", "bsend", "ssend", "rsend"]
    starts += [f"i{name}" for name in starts] + [f"{name}_init" for name in starts]
    MPI.Attach_buffer(None)
    for call in (getattr(comm, spelled) for name in starts for spelled in {name.capitalize(), name} & {*dir(comm)}):
        for dest in (size, MPI.ANY_SOURCE):
            with raises(MPI.InvalidRankError, f"destination {dest} is not in 0..{size - 1}"):
                call(b"x", dest)
        for tag in (MPI.ANY_TAG, MPI.TAG_UB + 1):
            with raises(MPI.InvalidTagError, f"tag {tag}"):
                call(b"x", 0, tag)
    MPI.Detach_buffer()
    receives: list[Callable[..., Any]] = [comm.Recv, comm.Irecv, comm.recv, comm.irecv, comm.Recv_init]
    for receive in receives:
        memory = bytearray(1) if receive.__name__[0].isupper() else None
        with raises(MPI.InvalidRankError, f"source {size}"):
            receive(memory, size)
        with raises(MPI.InvalidTagError, "tag -5"):
            receive(memory, 0, -5)
    with raises(MPI.InvalidBufferError):
        comm.Recv(b"cannot be written to")
    with raises(MPI.InvalidRootError):
        comm.bcast(1, root=size)
    for exchange, memory in ((comm.sendrecv, None), (comm.Sendrecv, bytearray(1))):
        with raises(MPI.InvalidRankError):
            exchange(b"x", size, recvbuf=memory)
    for dest, source in ((size, 0), (0, size)):
        with raises(MPI.InvalidRankError):
            comm.Sendrecv_replace(bytearray(1), dest, source=source)
    for probe in (comm.Probe, comm.Iprobe, comm.Mprobe, comm.Improbe):
        with raises(MPI.InvalidRankError, f"source {size}"):
            probe(size)
        with raises(MPI.InvalidTagError, "tag -5"):
            probe(0, -5)
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
