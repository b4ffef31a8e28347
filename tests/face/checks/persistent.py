"""Persistent requests (section 3.9)."""

from __future__ import annotations

from typing import Any

import numpy as np

from aiompi import MPI, PersistentRequest, Status
from face.checks import LARGE, SMALL, all_of, check, fields, outcome, raises, settle

INITS = ("Send_init", "Bsend_init", "Ssend_init", "Rsend_init")


@check
async def inactive_requests(comm: Any, predecessor: int, successor: int) -> None:
    """S3.7.3-6, S3.7.3-8, S3.8-20, S3.9-1, S3.9-12: are complete, with the empty status; nothing is sent or posted."""
    for request in (*(getattr(comm, init)(b"x", successor) for init in INITS), comm.Recv_init(bytearray(1))):
        assert isinstance(request, PersistentRequest)
        for _ in range(2):
            assert request.done()
            assert await outcome(request) == Status()
        with raises(MPI.InvalidRequestError, "inactive"):
            request.cancel()
        request.free()
    await comm.Barrier()
    assert not comm.Iprobe()
    await comm.Barrier()
    assert await comm.sendrecv("not swallowed", successor, source=predecessor) == "not swallowed"


@check
async def start_again(comm: Any, predecessor: int, successor: int) -> None:
    """S3.9-2, S3.9-3, S3.9-6, S3.9-12: each start takes what is in the buffer then."""
    comm.Attach_buffer(None)
    for init in INITS:
        for count in (SMALL, LARGE):
            memory, target = np.zeros(count, "i4"), np.zeros(count, "i4")
            send, receive = getattr(comm, init)(memory, successor, 3), comm.Recv_init(target, MPI.ANY_SOURCE, 3)
            for number in range(3):
                memory[:] = number
                receive.start()
                await comm.Barrier()
                send.start()
                status = await outcome(receive)
                assert await send is None
                assert fields(status) == (predecessor, 3, 4 * count)
                assert status.Get_count(MPI.INT) == count
                assert (target == number).all()
            for request in (send, receive):
                assert await outcome(request) == Status()
                request.free()
    await comm.Detach_buffer()


@check
async def memory_with_gaps(comm: Any, rank: int, predecessor: int, successor: int) -> None:
    """S3.9-2, S3.10-7: is packed at each start, and unpacked when the message has come; gaps stay as they are."""
    memory, target = np.zeros((LARGE, 2), "i4"), np.full((LARGE, 3), -1, "i4")
    send, receive = comm.Send_init(memory[:, 1], successor), comm.Recv_init(target[:, 1], predecessor)
    for number in range(2):
        memory[:, 1] = number + rank
        receive.start()
        send.start()
        await all_of([receive, send])
        memory[:, 1] = -2
        assert (target == [-1, number + predecessor, -1]).all()
    memory[:, 0] = rank
    await comm.Sendrecv_replace(memory[:, 0], successor, source=predecessor)
    assert (memory == [predecessor, -2]).all()


@check
async def start_in_the_wrong_state(comm: Any, predecessor: int, successor: int) -> None:
    """S3.9-4: of an active request; a plain one has no start."""
    receive = comm.Recv_init(bytearray(1), predecessor)
    receive.start()
    with raises(MPI.InvalidRequestError, "active"):
        receive.start()
    await comm.Barrier()
    send = comm.Isend(b"x", successor)
    await receive
    receive.start()
    receive.cancel()
    await receive
    with raises(AttributeError):
        send.start()
    await send


@check
async def startall(comm: Any, predecessor: int, successor: int) -> None:
    """S3.9-5: as each of them started, in the order of the list."""
    target = bytearray(3)
    receives = [comm.Recv_init(memoryview(target)[i : i + 1], predecessor, MPI.ANY_TAG) for i in range(3)]
    sends = [comm.Send_init(bytes([65 + i]), successor, i) for i in range(3)]
    for _ in range(2):
        PersistentRequest.startall(receives)
        await comm.Barrier()
        PersistentRequest.startall(iter(sends))
        assert [(await outcome(receive)).tag for receive in receives] == [0, 1, 2]
        await all_of(sends)
        assert target == b"ABC"
        await comm.Barrier()
    receives[1].start()
    with raises(MPI.InvalidRequestError, "active"):
        PersistentRequest.startall(receives)
    assert [receive.done() for receive in receives] == [False, False, True]
    for receive in receives[:2]:
        receive.cancel()
        await receive


@check
async def with_plain_requests(comm: Any, predecessor: int, successor: int) -> None:
    """S3.9-8"""
    target = bytearray(10)
    send = comm.Send_init(b"persistent", successor)
    send.start()
    await comm.Recv(target, predecessor)
    assert target == b"persistent"
    await send
    receive = comm.Recv_init(target, predecessor)
    receive.start()
    await comm.Ssend(b"plain", successor)
    await receive
    assert target[:5] == b"plain"


@check
async def failure_of_one_start(comm: Any, predecessor: int, successor: int) -> None:
    """S2.7-4, S3.2.4-5, S3.6-6, S3.9-6: is told once; the request is inactive then, and can be started again."""
    receive = comm.Recv_init(target := bytearray(2), predecessor)
    receive.start()
    sends = [comm.Isend(b"xyz", successor)]
    with raises(MPI.TruncationError):
        await receive
    assert await outcome(receive) == Status()
    receive.start()
    await comm.Barrier()
    sends.append(comm.Isend(b"ok", successor))
    assert (await outcome(receive)).nbytes == 2
    assert target == b"ok"
    await all_of(sends)
    send = comm.Bsend_init(b"x", successor)
    with raises(MPI.InvalidBufferError, "needs an attached buffer"):
        send.start()
    assert send.done()
    comm.Attach_buffer(None)
    send.start()
    await send
    await comm.Recv(bytearray(1), predecessor)
    await comm.Detach_buffer()


@check
async def cancelled_operation(comm: Any, predecessor: int, successor: int) -> None:
    """S3.8-12, S3.8-13, S3.8-16, S3.8-19: the request is inactive after its completion, and can be started again."""
    receive, send = comm.Recv_init(target := bytearray(b"kept"), predecessor), comm.Ssend_init(b"sent", successor)
    receive.start()
    receive.cancel()
    assert (await outcome(receive)).Is_cancelled()
    assert target == b"kept"
    await comm.Barrier()
    send.start()
    await settle(comm)
    send.cancel()
    assert (await outcome(send)).Is_cancelled()
    await comm.Barrier()
    assert not comm.Iprobe()
    receive.start()
    await comm.Barrier()
    send.start()
    for request in (receive, send):
        assert not (await outcome(request)).Is_cancelled()
    assert target == b"sent"
    with raises(MPI.InvalidRequestError, "inactive"):
        send.cancel()


@check
async def freed_sends(comm: Any, predecessor: int, successor: int) -> None:
    """S3.7.3-12, S3.9-9: their messages arrive, in the order of the starts."""
    comm.Attach_buffer(None)
    for nbytes in (SMALL, LARGE):
        persistent = comm.Send_init(b"p" * nbytes, successor)
        persistent.start()
        sends = [comm.Isend(b"i" * nbytes, successor), comm.Issend(b"s" * nbytes, successor)]
        for send in (persistent, *sends, comm.Ibsend(b"b" * nbytes, successor)):
            send.free()
        del persistent, sends, send
        for letter in b"pisb":
            await comm.Recv(target := bytearray(nbytes), source=predecessor)
            assert target == bytes([letter]) * nbytes
    await comm.Detach_buffer()


@check
async def freed_receives(comm: Any, predecessor: int, successor: int) -> None:
    """S3.7.3-12, S3.9-9: take their messages, of which only a later one tells."""
    for nbytes in (SMALL, LARGE):
        target, other = bytearray(nbytes), bytearray(nbytes)
        comm.Irecv(target, predecessor, 3).free()
        persistent = comm.Recv_init(other, predecessor, 3)
        persistent.start()
        persistent.free()
        del persistent
        for letter in (b"a", b"b"):
            await comm.Ssend(letter * nbytes, successor, 3)
        await settle(comm)
        await comm.Barrier()
        assert target == b"a" * nbytes
        assert other == b"b" * nbytes
