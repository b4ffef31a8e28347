"""Matched probes, and the messages that they take (MPI-3, section 3.8.2)."""

from __future__ import annotations

from collections.abc import Callable

from checks import LARGE, SMALL, check, comm, fields, predecessor, raises, settle, successor

from aiompi import MPI


@check
def probed_objects() -> None:
    """No other receive gets the message; the envelope is known before it is received."""
    assert comm.Improbe() is comm.improbe(predecessor) is None
    comm.Barrier()
    sends = [comm.issend(("first", bytes(LARGE)), successor, 4), comm.issend("second", successor, 4)]
    status, again = MPI.Status(), MPI.Status()
    message = comm.mprobe(predecessor, 4, status)
    assert fields(status)[:2] == (predecessor, 4)
    assert message
    assert message != MPI.MESSAGE_NULL
    assert comm.recv(source=predecessor, tag=4) == "second"
    comm.Barrier()
    assert not sends[0].Test()
    comm.Barrier()
    assert message.recv(again) == ("first", bytes(LARGE))
    assert fields(status) == fields(again)
    assert not message
    assert message == MPI.MESSAGE_NULL
    MPI.Request.Waitall(sends)


@check
def probed_buffers() -> None:
    """By every probe, and every receive."""
    probes: list[Callable[[MPI.Status], MPI.Message]] = [
        lambda status: comm.Mprobe(predecessor, 5, status),
        lambda status: MPI.Message.Probe(comm, MPI.ANY_SOURCE, 5, status),
        lambda status: _until_there(comm.Improbe, status),
        lambda status: _until_there(lambda *args: MPI.Message.Iprobe(comm, *args), status),
    ]
    for nbytes in (0, SMALL, LARGE):
        for probe in probes:
            status, received, memory = MPI.Status(), MPI.Status(), bytearray(nbytes + 1)
            send = comm.Isend(b"x" * nbytes, successor, 5)
            message = probe(status)
            if nbytes == SMALL:
                message.Recv(memory, received)
            else:
                request = message.Irecv(memory)
                assert not message
                request.Wait(received)
            assert fields(status) == fields(received) == (predecessor, 5, nbytes)
            assert memory == b"x" * nbytes + b"\0"
            send.Wait()
            comm.Barrier()


def _until_there(improbe: Callable[..., MPI.Message | None], status: MPI.Status) -> MPI.Message:
    while (message := improbe(predecessor, MPI.ANY_TAG, status)) is None:
        pass
    return message


@check
def message_is_received_once() -> None:
    """By whatever way."""
    send = comm.isend("once", successor)
    message = comm.Mprobe()
    with raises(MPI.InvalidBufferError, "read-only"):
        message.Recv(b"read-only")
    assert message
    request = message.irecv()
    for null in (message, MPI.MESSAGE_NULL, MPI.Message()):
        assert not null
        assert null == MPI.MESSAGE_NULL
        for again in (null.recv, null.irecv, lambda: null.Recv(bytearray(9)), lambda: null.Irecv(bytearray(9))):
            with raises(MPI.InvalidRequestError, "MPI_MESSAGE_NULL"):
                again()
    assert request.wait() == "once"
    send.Wait()


@check
def truncated_message() -> None:
    """S3.2.4-5, S3.2.4-6"""
    for nbytes in (SMALL, LARGE):
        send = comm.Isend(b"x" * nbytes, successor)
        memory, status = bytearray(nbytes), MPI.Status()
        with raises(MPI.TruncationError, f"message of {nbytes} bytes from rank {predecessor}"):
            comm.Mprobe(predecessor).Recv(memoryview(memory)[:-1], status)
        assert memory[-1:] == b"\0"
        assert fields(status)[:2] == (predecessor, 0)
        send.Wait()


@check
def probes_take_messages_in_order() -> None:
    """S3.8-3, S3.8-6"""
    sends = [comm.isend(number, successor, number) for number in range(3)]
    settle()
    taken = [comm.improbe(predecessor, 1), comm.improbe(predecessor), comm.improbe()]
    assert [message and message.recv() for message in taken] == [1, 0, 2]
    MPI.Request.Waitall(sends)


@check
def message_of_nobody() -> None:
    """S3.11-1, S3.11-4: MESSAGE_NO_PROC, which can be received again and again."""
    status, memory = MPI.Status(), bytearray(b"kept")
    for probe in (comm.Mprobe, comm.mprobe, comm.Improbe, comm.improbe):
        message = probe(MPI.PROC_NULL, 5, status)
        assert message == MPI.MESSAGE_NO_PROC
        assert fields(status) == (MPI.PROC_NULL, MPI.ANY_TAG, 0)
        assert message.recv() is None
        assert message == MPI.MESSAGE_NULL
    for _ in range(2):
        assert MPI.MESSAGE_NO_PROC
        assert MPI.MESSAGE_NO_PROC != MPI.MESSAGE_NULL
        assert MPI.MESSAGE_NO_PROC.recv() is None
        MPI.MESSAGE_NO_PROC.Recv(memory, status)
        assert fields(status) == (MPI.PROC_NULL, MPI.ANY_TAG, 0)
        MPI.MESSAGE_NO_PROC.Irecv(None).Wait()
    assert memory == b"kept"
