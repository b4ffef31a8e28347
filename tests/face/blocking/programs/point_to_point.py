"""Sends, receives and probes: what only the blocking face has."""

from __future__ import annotations

import numpy as np
from checks import LARGE, SMALL, check, comm, fields, predecessor, raises, settle, successor

from aiompi import MPI


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


@check
def probes_of_messages() -> None:
    """`Message.Probe` and `Message.Iprobe` are other names of `Mprobe` and `Improbe`."""
    for probe in (MPI.Message.Probe, MPI.Message.Iprobe):
        status, received, memory = MPI.Status(), MPI.Status(), bytearray(SMALL)
        send = comm.Isend(b"x" * SMALL, successor, 5)
        settle()
        message = probe(comm, MPI.ANY_SOURCE, 5, status)
        assert message
        assert message != MPI.MESSAGE_NULL
        message.Recv(memory, received)
        assert message == MPI.MESSAGE_NULL
        assert fields(status) == fields(received) == (predecessor, 5, SMALL)
        assert memory == b"x" * SMALL
        send.Wait()
        comm.Barrier()


@check
def null_messages() -> None:
    for null in (MPI.MESSAGE_NULL, MPI.Message()):
        assert not null
        assert null == MPI.MESSAGE_NULL
        for again in (null.recv, null.irecv, lambda: null.Recv(bytearray(9)), lambda: null.Irecv(bytearray(9))):
            with raises(MPI.InvalidRequestError, "MPI_MESSAGE_NULL"):
                again()


@check
def predefined_message_of_nobody() -> None:
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
