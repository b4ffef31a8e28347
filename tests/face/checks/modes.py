"""Communication modes (section 3.4), memory for the buffered one (section 3.6), exchanges (section 3.10)."""

from __future__ import annotations

from typing import Any

import numpy as np

from aiompi import MPI, Status
from face.checks import LARGE, SMALL, all_of, check, fields, outcome, raises, settle

MODES = ("", "b", "s", "r")
ROOM = LARGE + MPI.BSEND_OVERHEAD  # bytes that a large message takes


def ways(mode: str) -> tuple[list[str], list[str]]:
    """Names of the methods that send in a mode: objects, and buffers; the last one makes a persistent request."""
    name = f"{mode}send"
    return [name, f"i{name}"], [name.capitalize(), f"I{name}", f"{name}_init".capitalize()]


async def finish(comm: Any, name: str, *arguments: Any) -> None:
    """Send in a way, to the end."""
    sent = getattr(comm, name)(*arguments)
    if name.endswith("_init"):
        sent.start()
    await sent


@check
async def every_mode(comm: Any, rank: int, predecessor: int, successor: int) -> None:
    """S3.4-1, S3.4-9, S3.7-2, S3.7-3, S3.9-3: every way to send meets the one receive."""
    comm.Attach_buffer(memory := bytearray(3 * ROOM))
    for mode in MODES:
        for nbytes in (SMALL, LARGE):
            payload, theirs = bytes([rank + 65]) * nbytes, bytes([predecessor + 65]) * nbytes
            objects, buffers = ways(mode)
            for name in objects:
                receive = comm.irecv(source=predecessor, tag=3)
                await comm.Barrier()
                await finish(comm, name, payload, successor, 3)
                assert await receive == theirs
            for name in buffers:
                target = bytearray(nbytes)
                receive = comm.Irecv(target, predecessor, 3)
                await comm.Barrier()
                await finish(comm, name, payload, successor, 3)
                await receive
                assert target == theirs
    assert await comm.Detach_buffer() is memory


@check
async def sends_before_the_receive(comm: Any, predecessor: int, successor: int) -> None:
    """S3.4-2: in every mode but the ready one."""
    comm.Attach_buffer(bytearray(ROOM))
    for mode in ("", "b", "s"):
        for nbytes in (SMALL, LARGE):
            send = getattr(comm, f"I{mode}send")(bytes(nbytes), successor, 3)
            await comm.Probe(predecessor, 3)
            await comm.Recv(bytearray(nbytes), predecessor, 3)
            await send
    await comm.Detach_buffer()


@check
async def ready_without_receive(comm: Any, predecessor: int, successor: int) -> None:
    """S3.4-8, S3.9-10: the send fails, the message is gone, and all goes on."""
    for nbytes in (SMALL, LARGE):
        for name in (*ways("r")[0], *ways("r")[1]):
            with raises(MPI.OtherError, f"rank {successor} had posted no receive for it, and has dropped it"):
                await finish(comm, name, bytes(nbytes), successor, 3)
    await comm.Barrier()
    assert not comm.Iprobe()
    receive = comm.irecv(source=predecessor, tag=3)
    await comm.Barrier()
    await comm.rsend("next", successor, 3)
    assert await receive == "next"


@check
async def buffered_sends_are_local(comm: Any, rank: int, predecessor: int, successor: int) -> None:
    """S2.3-2, S3.4-4, S3.6-11, S3.7-5, S3.7.3-11: complete without a receive, and the memory of the user is free."""
    comm.Attach_buffer(bytearray(2 * ROOM))
    for nbytes in (0, SMALL, LARGE):
        memory = np.full(nbytes, rank, "u1")
        await comm.Bsend(memory, successor)
        memory[:] = 255
        send = comm.Ibsend(memory, successor)
        assert send.done()
        memory[:] = 254
        for content in (predecessor, 255):
            target = np.full(nbytes, 253, "u1")
            await comm.Recv(target, predecessor)
            assert (target == content).all()
        await send
    await comm.Barrier()  # what was sent has been received, so that there is room again
    await comm.bsend({"a": 1}, successor)
    assert await comm.ibsend({"b": 1}, successor) is None
    assert [await comm.recv(source=predecessor), await comm.recv(source=predecessor)] == [{"a": 1}, {"b": 1}]
    await comm.Detach_buffer()


@check
async def room(comm: Any, predecessor: int, successor: int) -> None:
    """S3.4-5, S3.6-7, S3.6-8, S3.6-10: of exactly two messages; until one has left, a third is refused."""
    comm.Attach_buffer(bytearray(2 * ROOM))
    for number in range(2):
        await comm.Bsend(bytes([number]) * LARGE, successor)
    received = bytearray(LARGE)
    for number in range(2, 6):
        for name in ways("b")[1]:
            with raises(MPI.InvalidBufferError, "has no such room"):
                await finish(comm, name, b"", successor)
        await comm.Barrier()
        await comm.Recv(received, predecessor)
        assert received == bytes([number - 2]) * LARGE
        await comm.Barrier()
        await comm.Bsend(bytes([number]) * LARGE, successor)
    for number in (4, 5):
        await comm.Recv(received, predecessor)
        assert received == bytes([number]) * LARGE
    await comm.Detach_buffer()


@check
async def attach_and_detach(comm: Any, predecessor: int, successor: int) -> None:
    """S3.6-1, S3.6-2, S3.6-3, S3.6-5, S3.6-6"""
    memory = bytearray(MPI.BSEND_OVERHEAD + 1)
    for without in (comm.Detach_buffer, comm.Flush_buffer, lambda: comm.Bsend(b"", 0), lambda: comm.ibsend(None, 0)):
        with raises(MPI.InvalidBufferError, "attached"):
            without()
    for _ in range(2):
        comm.Attach_buffer(memory)
        with raises(MPI.InvalidBufferError, "a buffer is attached already; detach it first"):
            comm.Attach_buffer(bytearray(10))
        large = comm.Isend(bytes(LARGE), successor, 1)
        await comm.Bsend(b"x", successor)
        await comm.Recv(bytearray(LARGE), predecessor, 1)
        await comm.Flush_buffer()
        assert await comm.Detach_buffer() is memory
        await large
        await comm.Recv(bytearray(1), predecessor)
    with raises(MPI.InvalidBufferError, "read-only"):
        comm.Attach_buffer(bytes(1000))
    with raises(TypeError, "buffer protocol"):
        comm.Attach_buffer(1000)
    comm.Attach_buffer(None)
    await comm.Bsend(bytes(LARGE), successor)
    await comm.Recv(bytearray(LARGE), predecessor)
    assert await comm.Detach_buffer() is None


@check
async def order_of_modes(comm: Any, predecessor: int, successor: int) -> None:
    """S3.5-3, S3.6.1-1: buffered messages leave in the order of their sends, among those of other modes."""
    comm.Attach_buffer(None)
    sends = []
    for number, mode in enumerate(("b", "", "s", "b", "s", "")):
        nbytes = LARGE if number % 2 else 1
        sends.append(getattr(comm, f"I{mode}send")(bytes([number]) * nbytes, successor, 3))
    received = bytearray(LARGE)
    for number in range(6):
        await comm.Recv(received, predecessor, 3)
        assert received[0] == number
    await all_of(sends)
    await comm.Detach_buffer()


@check
async def recalled_buffered_send(comm: Any, predecessor: int, successor: int) -> None:
    """S3.8-14, S3.8-18, S3.8-19: gives its room back."""
    comm.Attach_buffer(bytearray(ROOM))
    persistent = comm.Bsend_init(b"x" * LARGE, successor)
    for plain in (False, True):
        if not plain:
            persistent.start()
        send = comm.Ibsend(bytes(LARGE), successor) if plain else persistent
        await settle(comm)
        send.cancel()
        assert (await outcome(send)).Is_cancelled()
        await comm.Barrier()
    persistent.start()
    assert not (await outcome(persistent)).Is_cancelled()
    await comm.Recv(target := bytearray(LARGE), predecessor)
    assert set(target) == set(b"x")
    await comm.Detach_buffer()


# Exchanges.


@check
async def overlapping_buffers(comm: Any, predecessor: int, successor: int) -> None:
    """S2.2-2, S3.10-5: are refused before anything is sent; neighbours are not."""
    memory = bytearray(b"abcdefgh")
    whole = memoryview(memory)
    for sent, received in ((whole, whole), (whole[:5], whole[4:]), (whole[3:4], whole), (memory, memory)):
        with raises(MPI.InvalidBufferError, "sendbuf and recvbuf share memory"):
            comm.Sendrecv(sent, successor, 0, received, predecessor)
    await comm.Barrier()
    assert not comm.Iprobe()
    await comm.Barrier()
    await comm.Sendrecv(whole[:4], successor, 0, whole[4:], predecessor)
    assert memory == b"abcdabcd"
    await comm.Sendrecv(whole[:0], successor, 0, whole, predecessor)
    numbers = np.arange(8)
    await comm.Sendrecv(numbers[::2], successor, 0, numbers[1::2], predecessor)
    assert numbers.tolist() == [0, 0, 2, 2, 4, 4, 6, 6]


@check
async def replace(comm: Any, rank: int, predecessor: int, successor: int) -> None:
    """S3.10-1, S3.10-7: old content is sent, new content received; what a shorter message leaves is the old one."""
    status = Status()
    for count in (SMALL, LARGE):
        memory = np.full(count, rank, "i4")
        await comm.Sendrecv_replace(memory, successor, 4, predecessor, 4, status)
        assert fields(status) == (predecessor, 4, 4 * count)
        assert (memory == predecessor).all()
    text = bytearray(b"old content")
    short = comm.Isend(b"new", successor, 1)
    await comm.Sendrecv_replace(text, successor, 2, predecessor, 1, status)
    assert (bytes(text), status.nbytes) == (b"new content", 3)
    await comm.Recv(text, predecessor, 2)
    assert text == b"old content"
    await short


@check
async def replace_by_a_longer_message(comm: Any, predecessor: int, successor: int) -> None:
    """S3.2.4-5, S3.10-7"""
    long = comm.Isend(b"longer", successor, 1)
    memory = bytearray(b"old")
    with raises(MPI.TruncationError):
        await comm.Sendrecv_replace(memory, successor, 2, predecessor, 1)
    await comm.Recv(memory, predecessor, 2)
    assert memory == b"old"
    await long


@check
async def exchange_with_nobody(comm: Any, predecessor: int, successor: int) -> None:
    """S3.10-8, S3.11-1: either half, or both."""
    memory, status, again = bytearray(b"kept"), Status(), Status()
    await comm.Sendrecv_replace(memory, MPI.PROC_NULL, source=MPI.PROC_NULL, status=status)
    await comm.Sendrecv(b"x", MPI.PROC_NULL, recvbuf=memory, source=MPI.PROC_NULL, status=again)
    assert fields(status) == fields(again) == (MPI.PROC_NULL, MPI.ANY_TAG, 0)
    assert memory == b"kept"
    send = comm.Isend(b"came", successor)
    await comm.Sendrecv_replace(memory, MPI.PROC_NULL, source=predecessor, status=status)
    assert (bytes(memory), status.source) == (b"came", predecessor)
    await send
    await comm.sendrecv("went", successor, source=MPI.PROC_NULL)
    assert await comm.recv(source=predecessor) == "went"
