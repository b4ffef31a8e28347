"""Matched probes, and the messages that they take (MPI-3, section 3.8.2)."""

from __future__ import annotations

from typing import Any

from aiompi import MPI, Status
from face.checks import LARGE, SMALL, all_of, check, fields, outcome, raises, settle


@check
async def probed_objects(comm: Any, predecessor: int, successor: int) -> None:
    """No other receive gets the message; the envelope is known before it is received."""
    assert comm.Improbe() is comm.improbe(predecessor) is None
    await comm.Barrier()
    sends = [comm.issend(("first", bytes(LARGE)), successor, 4), comm.issend("second", successor, 4)]
    status, again = Status(), Status()
    message = await comm.mprobe(predecessor, 4, status)
    assert fields(status)[:2] == (predecessor, 4)
    assert message
    assert await comm.recv(source=predecessor, tag=4) == "second"
    await comm.Barrier()
    assert not sends[0].done()
    await comm.Barrier()
    assert await message.recv(again) == ("first", bytes(LARGE))
    assert fields(status) == fields(again)
    assert not message
    await all_of(sends)


@check
async def probed_buffers(comm: Any, predecessor: int, successor: int) -> None:
    """By every probe, and every receive."""
    for nbytes in (0, SMALL, LARGE):
        for is_there in (False, True):
            status, received, memory = Status(), Status(), bytearray(nbytes + 1)
            send = comm.Isend(b"x" * nbytes, successor, 5)
            if is_there:
                await settle(comm)
                message = comm.Improbe(MPI.ANY_SOURCE, 5, status)
            else:
                message = await comm.Mprobe(predecessor, 5, status)
            if nbytes == SMALL:
                await message.Recv(memory, received)
            else:
                request = message.Irecv(memory)
                assert not message
                received = await outcome(request)
            assert fields(status) == fields(received) == (predecessor, 5, nbytes)
            assert memory == b"x" * nbytes + b"\0"
            await send
            await comm.Barrier()


@check
async def message_is_received_once(comm: Any, successor: int) -> None:
    """By whatever way; a receive that is refused leaves it."""
    for receive in ("recv", "irecv"):
        send = comm.isend("once", successor)
        message = await comm.Mprobe()
        with raises(MPI.InvalidBufferError, "read-only"):
            message.Recv(b"read-only")
        assert message
        assert await getattr(message, receive)() == "once"
        assert not message
        for again in (message.recv, message.irecv):
            with raises(MPI.InvalidRequestError):
                again()
        for again in (message.Recv, message.Irecv):
            with raises(MPI.InvalidRequestError):
                again(bytearray(9))
        await send


@check
async def truncated_message(comm: Any, predecessor: int, successor: int) -> None:
    """S3.2.4-5, S3.2.4-6"""
    for nbytes in (SMALL, LARGE):
        send = comm.Isend(b"x" * nbytes, successor)
        memory, status = bytearray(nbytes), Status()
        message = await comm.Mprobe(predecessor)
        with raises(MPI.TruncationError, f"message of {nbytes} bytes from rank {predecessor}"):
            await message.Recv(memoryview(memory)[:-1], status)
        assert memory[-1:] == b"\0"
        assert fields(status)[:2] == (predecessor, 0)
        await send


@check
async def probes_take_messages_in_order(comm: Any, predecessor: int, successor: int) -> None:
    """S3.8-3, S3.8-6"""
    sends = [comm.isend(number, successor, number) for number in range(3)]
    await settle(comm)
    taken = [comm.improbe(predecessor, 1), comm.improbe(predecessor), comm.improbe()]
    assert [await message.recv() for message in taken] == [1, 0, 2]
    await all_of(sends)


@check
async def message_of_nobody(comm: Any) -> None:
    """S3.11-1, S3.11-4"""
    status, memory = Status(), bytearray(b"kept")
    messages = [await comm.Mprobe(MPI.PROC_NULL, 5), await comm.mprobe(MPI.PROC_NULL, 5)]
    for message in (*messages, comm.Improbe(MPI.PROC_NULL), comm.improbe(MPI.PROC_NULL, 5, status)):
        assert await message.recv() is None
    assert fields(status) == (MPI.PROC_NULL, MPI.ANY_TAG, 0)
    message = await comm.Mprobe(MPI.PROC_NULL, 5, status := Status())
    assert fields(status) == (MPI.PROC_NULL, MPI.ANY_TAG, 0)
    await message.Recv(memory, status)
    assert fields(status) == (MPI.PROC_NULL, MPI.ANY_TAG, 0)
    assert memory == b"kept"
