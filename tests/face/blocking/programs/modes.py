"""Communication modes (section 3.4), memory for the buffered one (section 3.6), exchanges (section 3.10)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from checks import LARGE, SMALL, check, comm, fields, predecessor, raises, rank, settle, successor

from aiompi import MPI

MODES = ("", "b", "s", "r")
ROOM = LARGE + MPI.BSEND_OVERHEAD  # bytes that a large message takes


def ways(mode: str) -> tuple[list[str], list[str]]:
    """Names of the methods that send in a mode: objects, and buffers; the last one makes a persistent request."""
    name = f"{mode}send"
    return [name, f"i{name}"], [name.capitalize(), f"I{name}", f"{name}_init".capitalize()]


def finish(sent: MPI.Request[Any] | None) -> None:
    """Start what is persistent, and wait for what can be waited for."""
    if isinstance(sent, MPI.Prequest):
        sent.Start()
    if sent is not None:
        sent.Wait()


@check
def every_mode() -> None:
    """S3.4-1, S3.4-9, S3.7-2, S3.7-3, S3.9-3: every way to send meets the one receive."""
    MPI.Attach_buffer(memory := bytearray(3 * ROOM))
    for mode in MODES:
        for nbytes in (SMALL, LARGE):
            payload = bytes([rank + 65]) * nbytes
            theirs = bytes([predecessor + 65]) * nbytes
            objects, buffers = ways(mode)
            for name in objects:
                request = comm.irecv(source=predecessor, tag=3)
                comm.Barrier()
                finish(getattr(comm, name)(payload, successor, 3))
                assert request.wait() == theirs
            for name in buffers:
                target = bytearray(nbytes)
                receive = comm.Irecv(target, predecessor, 3)
                comm.Barrier()
                finish(getattr(comm, name)(payload, successor, 3))
                receive.Wait()
                assert target == theirs
    assert MPI.Detach_buffer() is memory


@check
def sends_before_the_receive() -> None:
    """S3.4-2: in every mode but the ready one."""
    MPI.Attach_buffer(bytearray(ROOM))
    for mode in ("", "b", "s"):
        for nbytes in (SMALL, LARGE):
            send = getattr(comm, f"I{mode}send")(bytes(nbytes), successor, 3)
            comm.Probe(predecessor, 3)
            comm.Recv(bytearray(nbytes), predecessor, 3)
            send.Wait()
    MPI.Detach_buffer()


@check
def ready_without_receive() -> None:
    """S3.4-8, S3.9-10: the send fails, the message is gone, and all goes on."""
    for nbytes in (SMALL, LARGE):
        for name in (*ways("r")[0], *ways("r")[1]):
            with raises(MPI.OtherError, f"rank {successor} had posted no receive for it"):
                finish(getattr(comm, name)(bytes(nbytes), successor, 3))
    comm.Barrier()
    assert not comm.Iprobe()
    receive = comm.irecv(source=predecessor, tag=3)
    comm.Barrier()
    comm.rsend("next", successor, 3)
    assert receive.wait() == "next"


@check
def buffered_sends_are_local() -> None:
    """S3.4-4, S3.6-11, S3.7-5, S3.7.3-11: complete without a receive, and the memory of the user is free."""
    MPI.Attach_buffer(bytearray(2 * ROOM))
    for nbytes in (0, SMALL, LARGE):
        memory = np.full(nbytes, rank, "u1")
        comm.Bsend(memory, successor)
        memory[:] = 255
        send = comm.Ibsend(memory, successor)
        assert send.Test()
        assert not send
        memory[:] = 254
        for content in (predecessor, 255):
            target = np.full(nbytes, 253, "u1")
            comm.Recv(target, predecessor)
            assert (target == content).all()
    comm.Barrier()  # what was sent has been received, so that there is room again
    comm.bsend({"a": 1}, successor)
    assert comm.ibsend({"b": 1}, successor).wait() is None
    assert [comm.recv(source=predecessor), comm.recv(source=predecessor)] == [{"a": 1}, {"b": 1}]
    MPI.Detach_buffer()


@check
def room() -> None:
    """S3.4-5, S3.6-7, S3.6-8, S3.6-10: of exactly two messages; until one has left, a third is refused."""
    MPI.Attach_buffer(bytearray(2 * ROOM))
    for number in range(2):
        comm.Bsend(bytes([number]) * LARGE, successor)
    received = bytearray(LARGE)
    for number in range(2, 6):
        for name in ways("b")[1]:
            with raises(MPI.InvalidBufferError, "has no such room"):
                finish(getattr(comm, name)(b"", successor))
        comm.Barrier()
        comm.Recv(received, predecessor)
        assert received == bytes([number - 2]) * LARGE
        comm.Barrier()
        comm.Bsend(bytes([number]) * LARGE, successor)
    for number in (4, 5):
        comm.Recv(received, predecessor)
        assert received == bytes([number]) * LARGE
    MPI.Detach_buffer()


@check
def attach_and_detach() -> None:
    """S3.6-1, S3.6-2, S3.6-3, S3.6-5, S3.6-6: to the process, and to a communicator."""
    places: list[tuple[Callable[[Any], None], Callable[[], Any], Callable[[], None]]] = [
        (MPI.Attach_buffer, MPI.Detach_buffer, MPI.Flush_buffer),
        (comm.Attach_buffer, comm.Detach_buffer, comm.Flush_buffer),
    ]
    memory = bytearray(MPI.BSEND_OVERHEAD + 1)
    for attach, detach, flush in places:
        for without in (detach, flush, lambda: comm.Bsend(b"", successor), lambda: comm.ibsend(None, successor)):
            with raises(MPI.InvalidBufferError, "attached"):
                without()
        for _ in range(2):
            attach(memory)
            with raises(MPI.InvalidBufferError, "a buffer is attached already; detach it first"):
                attach(bytearray(10))
            large = comm.Isend(bytes(LARGE), successor, 1)
            comm.Bsend(b"x", successor)
            comm.Recv(bytearray(LARGE), predecessor, 1)
            flush()
            assert detach() is memory
            large.Wait()
            comm.Recv(bytearray(1), predecessor)
        with raises(MPI.InvalidBufferError, "read-only"):
            attach(bytes(1000))
        with raises(TypeError, "buffer protocol"):
            attach(1000)
        attach(None)
        comm.Bsend(bytes(LARGE), successor)
        comm.Recv(bytearray(LARGE), predecessor)
        assert detach() is None


@check
def buffer_of_a_communicator() -> None:
    """Serves instead of that of the process, to this communicator alone."""
    MPI.Attach_buffer(bytearray(ROOM))
    comm.Attach_buffer(bytearray(0))
    with raises(MPI.InvalidBufferError, "has no such room"):
        comm.Bsend(b"x", successor)
    MPI.COMM_SELF.Bsend(b"x", 0)
    MPI.COMM_SELF.Recv(bytearray(1))
    comm.Detach_buffer()
    comm.Bsend(b"x", successor)
    comm.Recv(bytearray(1), predecessor)
    MPI.Detach_buffer()


@check
def order_of_modes() -> None:
    """S3.5-3, S3.6.1-1: buffered messages leave in the order of their sends, among those of other modes."""
    MPI.Attach_buffer(None)
    sends = []
    for number, mode in enumerate(("b", "", "s", "b", "s", "")):
        nbytes = LARGE if number % 2 else 1
        sends.append(getattr(comm, f"I{mode}send")(bytes([number]) * nbytes, successor, 3))
    received = bytearray(LARGE)
    for number in range(6):
        comm.Recv(received, predecessor, 3)
        assert received[0] == number
    MPI.Request.Waitall(sends)
    MPI.Detach_buffer()


@check
def recalled_buffered_send() -> None:
    """S3.8-14, S3.8-18, S3.7.3-10, S3.7.3-11: gives its room back; one that was waited for is not recalled."""
    MPI.Attach_buffer(bytearray(ROOM))
    status = MPI.Status()
    send = comm.Ibsend(bytes(LARGE), successor)
    settle()
    send.Cancel()
    send.Wait(status)
    assert status.Is_cancelled()
    comm.Barrier()
    send = comm.Ibsend(b"x" * LARGE, successor)
    assert send.Test(status)
    assert not status.Is_cancelled()
    with raises(MPI.InvalidRequestError):
        send.Cancel()
    comm.Recv(target := bytearray(LARGE), predecessor)
    assert set(target) == set(b"x")
    MPI.Detach_buffer()


# Exchanges.


@check
def overlapping_buffers() -> None:
    """S3.10-5, S2.2-2: are refused before anything is sent; neighbours are not."""
    memory = bytearray(b"abcdefgh")
    whole = memoryview(memory)
    for sent, received in ((whole, whole), (whole[:5], whole[4:]), (whole[3:4], whole)):
        with raises(MPI.InvalidBufferError, "sendbuf and recvbuf share memory"):
            comm.Sendrecv(sent, successor, 0, received, predecessor)
    comm.Barrier()
    assert not comm.Iprobe()
    comm.Barrier()
    comm.Sendrecv(whole[:4], successor, 0, whole[4:], predecessor)
    assert memory == b"abcdabcd"


@check
def replace() -> None:
    """S3.10-7, S3.10-1: old content is sent, new content received; what a shorter message leaves is the old one."""
    status = MPI.Status()
    for count in (SMALL, LARGE):
        memory = np.full(count, rank, "i4")
        comm.Sendrecv_replace(memory, successor, 4, predecessor, 4, status)
        assert fields(status) == (predecessor, 4, 4 * count)
        assert (memory == predecessor).all()
    text = bytearray(b"old content")
    short = comm.Isend(b"new", successor, 1)
    comm.Sendrecv_replace(text, successor, 2, predecessor, 1, status)
    assert (bytes(text), status.nbytes) == (b"new content", 3)
    comm.Recv(text, predecessor, 2)
    assert text == b"old content"
    short.Wait()


@check
def replace_by_a_longer_message() -> None:
    """S3.10-7, S3.2.4-5"""
    long = comm.Isend(b"longer", successor, 1)
    memory = bytearray(b"old")
    with raises(MPI.TruncationError):
        comm.Sendrecv_replace(memory, successor, 2, predecessor, 1)
    comm.Recv(memory, predecessor, 2)
    assert memory == b"old"
    long.Wait()
    with raises(MPI.InvalidBufferError, "read-only"):
        comm.Sendrecv_replace(b"old", successor)


@check
def exchange_with_nobody() -> None:
    """S3.10-8, S3.11-1"""
    memory, status = bytearray(b"kept"), MPI.Status()
    comm.Sendrecv_replace(memory, MPI.PROC_NULL, source=MPI.PROC_NULL, status=status)
    assert fields(status) == (MPI.PROC_NULL, MPI.ANY_TAG, 0)
    comm.Sendrecv(b"x", MPI.PROC_NULL, recvbuf=memory, source=MPI.PROC_NULL)
    assert memory == b"kept"
    send = comm.Isend(b"came", successor)
    comm.Sendrecv_replace(memory, MPI.PROC_NULL, source=predecessor)
    assert memory == b"came"
    comm.Sendrecv_replace(memory, successor, source=MPI.PROC_NULL)
    comm.Recv(target := bytearray(4), predecessor)
    assert target == b"came"
    send.Wait()
