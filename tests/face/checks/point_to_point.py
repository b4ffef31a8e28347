"""Sends, receives and probes."""

from __future__ import annotations

from array import array
from functools import partial
from typing import Any

import numpy as np

from aiompi import MPI, Status
from face.checks import LARGE, SMALL, all_of, check, fields, outcome, raises, seen, settle, waste

# Objects.


@check
async def objects(comm: Any, rank: int, predecessor: int, successor: int) -> None:
    """S3.2.5-1"""
    obj = {"a": (1, 2.5, "x", b"y", None), 3: {4}, "array": np.arange(5)}
    status = Status()
    send = comm.isend(obj, dest=successor, tag=7)
    got = await comm.recv(source=predecessor, tag=7, status=status)
    assert (got["a"], got[3], got["array"].tolist()) == (obj["a"], {4}, [0, 1, 2, 3, 4])
    assert (status.Get_source(), status.Get_tag()) == (predecessor, 7)
    assert status.nbytes > 0
    assert await send is None
    await comm.send(rank, dest=successor)
    assert await comm.recv() == predecessor


@check
async def requests_of_objects(comm: Any, predecessor: int, successor: int) -> None:
    """S3.7.4-1: the order is that of the calls which start them; S3.5-4: but for tags that differ."""
    receives = [comm.irecv(source=predecessor, tag=tag) for tag in (2, 1)]
    sends = [comm.isend("x" * tag, successor, tag) for tag in (1, 2)]
    assert [await receives[1], await receives[0]] == ["x", "xx"]
    assert await all_of(sends) == [None, None]


@check
async def requests_are_apart(comm: Any, rank: int) -> None:
    """Also those that are complete at once."""
    sends = [comm.isend("first", rank, 8), comm.Isend(b"second", rank, 9)]
    sends += [comm.isend("nobody", MPI.PROC_NULL), comm.Isend(b"nobody", MPI.PROC_NULL)]
    for number, send in enumerate(sends):
        assert sends.index(send) == number
    assert await comm.recv(source=rank, tag=8) == "first"
    await comm.Recv(bytearray(6), rank, 9)
    await all_of(sends)


@check
async def synchronous_sends(comm: Any, predecessor: int, successor: int) -> None:
    """S3.4-6, S3.7-4: not complete before they are matched."""
    buffer = bytearray(1)
    sends = [comm.issend("a", dest=successor, tag=1), comm.Issend(b"b", dest=successor, tag=2)]
    await comm.Probe(source=predecessor, tag=2)
    flags = [send.done() for send in sends]
    await comm.Barrier()
    assert flags == [False, False]
    assert await comm.recv(source=predecessor, tag=1) == "a"
    await comm.Recv(buffer, source=predecessor, tag=2)
    assert buffer == b"b"
    await all_of(sends)
    receive = comm.irecv(source=predecessor)
    await comm.ssend("c", dest=successor)
    assert await receive == "c"
    receive = comm.Irecv(buffer, source=predecessor)
    await comm.Ssend(b"d", dest=successor)
    await receive
    assert buffer == b"d"


@check
async def exchanges(comm: Any, rank: int, size: int, predecessor: int, successor: int) -> None:
    """S3.10-1, S3.10-2, S3.10-3, S3.10-4, S3.10-6"""
    status = Status()
    assert await comm.sendrecv(rank, successor, 4, source=predecessor, recvtag=4, status=status) == predecessor
    assert fields(status)[:2] == (predecessor, 4)
    mine, theirs = np.full(LARGE + rank, rank, "u1"), np.full(LARGE + size, 255, "u1")
    await comm.Sendrecv(mine, successor, 1, theirs, predecessor, 1, status)
    assert fields(status) == (predecessor, 1, LARGE + predecessor)
    assert (theirs[: status.nbytes] == predecessor).all()
    assert (theirs[status.nbytes :] == 255).all()
    none = [None, 0, MPI.DATATYPE_NULL]
    await comm.Sendrecv(none, successor, 1, none, predecessor, 1, status)
    assert status.Get_count(MPI.BYTE) == 0
    await comm.Sendrecv_replace(none, successor, 1, predecessor, 1)
    requests = [comm.Recv_init(none, predecessor), comm.Send_init(none, successor)]
    for request in requests:
        request.start()
    await all_of([*requests, comm.Irecv(none, predecessor), comm.Isend(none, successor)])
    request = comm.isend("plain", successor, 5)
    assert await comm.sendrecv("other", successor, 6, source=predecessor, recvtag=5) == "plain"
    assert await comm.recv(source=predecessor, tag=6) == "other"
    await request
    assert await comm.sendrecv("to nobody", MPI.PROC_NULL, source=MPI.PROC_NULL) is None


@check
async def to_oneself(comm: Any, rank: int) -> None:
    """S3.2.4-8"""
    receive = comm.irecv(source=rank, tag=3)
    await comm.send("me", dest=rank, tag=3)
    assert await receive == "me"
    assert await comm.sendrecv("again", dest=rank, source=rank) == "again"
    mine, theirs = np.arange(5.0), np.zeros(5)
    await comm.Sendrecv(mine, rank, 7, theirs, rank, 7)
    assert theirs.tolist() == mine.tolist()


@check
async def nobody(comm: Any) -> None:
    """S3.11-1, S3.11-2, S3.11-3, S3.11-4: in every mode; the buffered one needs no buffer."""
    null, empty = MPI.PROC_NULL, (MPI.PROC_NULL, MPI.ANY_TAG, 0)
    for mode in ("", "b", "s", "r"):
        for payload in (b"x", bytes(LARGE)):
            for start in (f"{mode}send", f"{mode}send".capitalize()):
                await getattr(comm, start)(payload, null)
            for start in (f"i{mode}send", f"I{mode}send"):
                assert getattr(comm, start)(payload, null).done()
            send = getattr(comm, f"{mode}send_init".capitalize())(payload, null)
            send.start()
            assert send.done()
            assert await send is None
    buffer, status, again = bytearray(b"kept"), waste(), waste()
    assert await comm.recv(source=null, tag=5, status=status) is None
    await comm.Recv(buffer, null, status=again)
    assert fields(status) == fields(again) == empty
    persistent = comm.Recv_init(buffer, null)
    persistent.start()
    for request in (persistent, comm.irecv(source=null), comm.Irecv(buffer, null)):
        assert fields(await outcome(request)) == empty
    there = seen(comm, null)
    assert there is not None
    assert fields(there) == fields(await comm.probe(null, 3)) == empty
    assert buffer == b"kept"


# Buffers.


@check
async def buffers(comm: Any, predecessor: int, successor: int) -> None:
    """S3.2.1-1, S3.2.2-1, S3.2.4-4, S3.2.5-3"""
    for nbytes in (0, SMALL, LARGE):
        status = Status()
        numbers = array("d", range(nbytes // 8))
        send = comm.Isend([numbers, MPI.DOUBLE], dest=successor, tag=9)
        target = np.full(nbytes // 8 + 1, -1.0)
        await comm.Recv(target, source=predecessor, tag=9, status=status)
        assert target.tolist() == [*numbers, -1.0]
        assert status.Get_count(MPI.DOUBLE) == nbytes // 8
        assert status.Get_count() == status.count == status.nbytes == nbytes // 8 * 8
        await send
        memory = bytearray(nbytes)
        receive = comm.Irecv(memory, source=MPI.ANY_SOURCE, tag=MPI.ANY_TAG)
        await comm.Send(b"x" * nbytes, dest=successor)
        assert fields(await outcome(receive)) == (predecessor, 0, nbytes)
        assert memory == b"x" * nbytes


@check
async def count_of_another_type(comm: Any, predecessor: int, successor: int) -> None:
    """S3.2.5-4"""
    status = Status()
    await comm.Isend(bytes(10), dest=successor)
    await comm.Recv(bytearray(10), source=predecessor, status=status)
    assert (status.Get_count(MPI.SHORT), status.Get_count(MPI.INT)) == (5, MPI.UNDEFINED)


@check
async def reuse_after_send(comm: Any, predecessor: int, successor: int) -> None:
    """S3.2.1-2, S3.2.1-3, S2.3-2: a buffer that Send has returned can be overwritten."""
    for nbytes in (SMALL, LARGE):
        receive = comm.Irecv(target := bytearray(nbytes), source=predecessor)
        memory = bytearray(b"x" * nbytes)
        await comm.Send(memory, dest=successor)
        assert memory == b"x" * nbytes
        memory[:] = b"y" * nbytes
        await receive
        assert target == b"x" * nbytes


@check
async def truncation(comm: Any, predecessor: int, successor: int) -> None:
    """S3.2.4-5, S3.2.4-6, S3.7.5-22, S2.7-6: nothing is written beyond the buffer, and the next message comes."""
    for nbytes in (SMALL, LARGE):
        memory, status = bytearray(b"-" * nbytes), waste()
        send = comm.Isend(b"x" * nbytes, dest=successor, tag=8)
        with raises(MPI.TruncationError, f"message of {nbytes} bytes from rank {predecessor} with tag 8"):
            await comm.Recv(memoryview(memory)[:-1], source=predecessor, status=status)
        assert memory[-1:] == b"-"
        assert fields(status)[:2] == (predecessor, 8)
        assert status.error == MPI.ERR_UNKNOWN
        await send
        send = comm.Isend(b"x" * nbytes, dest=successor)
        receive = comm.Irecv(memoryview(memory)[:-1], source=predecessor)
        with raises(MPI.TruncationError):
            await receive
        await send
        assert await comm.sendrecv("next", successor, source=predecessor) == "next"


@check
async def bad_arguments(comm: Any, size: int, predecessor: int, successor: int) -> None:
    """S3.2.3-3, S3.2.3-6, S3.2.4-7, S3.9-1, S3.10-5, S4.4-3: calls refuse them, before anything has happened."""
    starts = ["send", "bsend", "ssend", "rsend"]
    starts += [f"i{name}" for name in starts] + [f"{name}_init" for name in starts]
    comm.Attach_buffer(None)
    for call in (getattr(comm, spelled) for name in starts for spelled in {name.capitalize(), name} & {*dir(comm)}):
        for dest in (size, MPI.ANY_SOURCE):
            with raises(MPI.InvalidRankError, f"destination {dest} is not in 0..{size - 1}"):
                call(b"x", dest)
        for tag in (MPI.ANY_TAG, MPI.TAG_UB + 1):
            with raises(MPI.InvalidTagError, f"tag {tag}"):
                call(b"x", 0, tag)
    await comm.Detach_buffer()
    receives = [
        comm.recv,
        comm.irecv,
        *(partial(call, bytearray(1)) for call in (comm.Recv, comm.Irecv, comm.Recv_init)),
    ]
    for receive in (*receives, comm.Probe, comm.Iprobe, comm.Mprobe, comm.Improbe):
        with raises(MPI.InvalidRankError, f"source {size}"):
            receive(source=size)
        with raises(MPI.InvalidTagError, "tag -5"):
            receive(source=0, tag=-5)
    for read_only in (partial(comm.Recv, b"old"), partial(comm.Sendrecv_replace, b"old", successor)):
        with raises(MPI.InvalidBufferError, "read-only"):
            read_only()
    with raises(MPI.InvalidBufferError, "read-only"):
        comm.Sendrecv(b"x", successor, recvbuf=b"old")
    with raises(MPI.InvalidRootError):
        comm.bcast(1, root=size)
    for dest, source in ((size, 0), (0, size)):
        for exchange in (comm.sendrecv, comm.Sendrecv_replace, partial(comm.Sendrecv, recvbuf=bytearray(1))):
            with raises(MPI.InvalidRankError):
                exchange(bytearray(1), dest, source=source)
    await comm.Barrier()
    assert await comm.sendrecv("not swallowed", successor, source=predecessor) == "not swallowed"


@check
async def largest_tags(comm: Any, predecessor: int, successor: int) -> None:
    """S3.2.3-2"""
    for tag in (0, 32767, MPI.TAG_UB):
        assert await comm.sendrecv(tag, successor, tag, source=predecessor, recvtag=tag) == tag


@check
async def probes(comm: Any, predecessor: int, successor: int) -> None:
    """S3.8-1, S3.8-2, S3.8-4, S3.8-5, S3.8-7"""
    assert not comm.Iprobe()
    assert not comm.iprobe()
    await comm.Barrier()
    send = comm.issend("probed", dest=successor, tag=6)
    first, status = await comm.probe(predecessor), Status()
    again = seen(comm, MPI.ANY_SOURCE, 6)
    assert fields(first)[:2] == (predecessor, 6)
    assert again is not None
    assert fields(first) == fields(again) == fields(await comm.probe())
    assert comm.iprobe()
    assert await comm.recv(source=first.source, tag=first.tag, status=status) == "probed"
    assert fields(first) == fields(status)
    await send
    await comm.Barrier()
    assert not comm.Iprobe()


@check
async def many_requests(comm: Any, predecessor: int, successor: int) -> None:
    """S3.7-7: hundreds of them, completed in reverse order."""
    sends = [comm.isend(tag, successor, tag) for tag in range(500)]
    receives = [comm.irecv(source=predecessor, tag=tag) for tag in reversed(range(500))]
    assert await all_of(receives) == list(reversed(range(500)))
    await all_of(sends)


@check
async def order(comm: Any, predecessor: int, successor: int) -> None:
    """S3.5-1, S3.5-3, S3.7.4-2: between modes, sizes, and blocking or not."""
    sends = []
    for number, nbytes in enumerate([LARGE, 1, LARGE, 2]):
        start = comm.Isend if number % 2 else comm.Issend
        sends.append(start(bytes([number]) * nbytes, successor, 3))
    for number, nbytes in enumerate([LARGE, 1, LARGE, 2]):
        memory, status = bytearray(LARGE), Status()
        await comm.Recv(memory, predecessor, 3, status)
        assert (memory[0], status.nbytes) == (number, nbytes)
    await all_of(sends)


@check
async def cancel(comm: Any, predecessor: int, successor: int) -> None:
    """S3.7.3-10, S3.8-11, S3.8-12, S3.8-13, S3.8-14, S3.8-15, S3.8-16, S3.8-17: the request completes, and tells."""
    memory = bytearray(b"kept")
    receive = comm.Irecv(memory, predecessor, 1)
    receive.cancel()
    assert (await outcome(receive)).Is_cancelled()
    await comm.Barrier()
    for send in (comm.issend("recalled", successor, 1), comm.Isend(bytes(LARGE), successor, 1)):
        await settle(comm)
        send.cancel()
        assert (await outcome(send)).Is_cancelled()
    await comm.Barrier()
    assert await comm.sendrecv("other", successor, 1, source=predecessor, recvtag=1) == "other"
    assert memory == b"kept"
    for nbytes in (SMALL, LARGE):
        received = [bytearray(nbytes), bytearray(nbytes)]
        requests = [comm.Irecv(memory, predecessor, 1) for memory in received]
        requests += [comm.Issend(b"x" * nbytes, successor, 1), comm.Isend(b"y" * nbytes, successor, 1)]
        await settle(comm)
        await settle(comm)
        for request in requests:
            request.cancel()
        for request in requests:
            assert not (await outcome(request)).Is_cancelled(), "too late"
        assert [set(memory) for memory in received] == [set(b"x"), set(b"y")]
