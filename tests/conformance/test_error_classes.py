"""Every error class that point-to-point communication and datatypes can give, with what gives it, in both faces.

The triggers are statements that the only rank of a job executes.
"""

from __future__ import annotations

import json
import sys
import textwrap
from typing import Any, Final, NamedTuple

import pytest

from aiompi import MPI
from aiompi.errors import ERROR_CLASSES
from support.jobs import FACES, Site, in_face


class Trigger(NamedTuple):
    """What raises, and a part of the message of the error.

    Attributes:
        statement: in the native face, with awaits; "" if it cannot happen there.
        text: names the argument, or says what is wrong.
        blocking: in the blocking face, if the difference is more than the awaits; "" if it cannot happen there.
    """

    statement: str
    text: str
    blocking: str | None = None


#: what the statements may use
PREPARED: Final = """
import json
import numpy as np
from aiompi import MPI, PROC_NULL
from aiompi.MPI import BYTE, DOUBLE, INT, TAG_UB
from aiompi.datatype import BOTTOM, Datatype

null, pair, freed = MPI.DATATYPE_NULL, INT.Create_contiguous(2), INT.Create_contiguous(2).Commit()
freed.Free()
backwards = INT.Create_hindexed([1], [-8]).Commit()
twice = INT.Create_hindexed([1, 1], [0, 2]).Commit()
four, fixed = bytearray(4), bytes(4)
block = [MPI.DISTRIBUTE_BLOCK]

def failed():
    comm.Isend(four, 0, 20)
    return comm.Irecv(bytearray(3), 0, 20)

def raise_from_status(requests):
    statuses = []
    try:
        MPI.Request.Waitall(requests, statuses)
    except MPI.InStatusError:
        raise MPI.ERROR_CLASSES[statuses[-1].error]("in a status")
"""

TRIGGERS: Final = {
    "ERR_BUFFER": [
        Trigger("await comm.Recv(fixed, 0)", "read-only"),
        Trigger("comm.Irecv(fixed, 0)", "read-only"),
        Trigger("comm.Recv_init(fixed, 0)", "read-only"),
        Trigger("(await comm.mprobe(PROC_NULL)).Recv(fixed)", "read-only"),
        Trigger("await comm.Sendrecv_replace(fixed, 0)", "read-only"),
        Trigger("await comm.Sendrecv(four, 0, recvbuf=four)", "sendbuf and recvbuf share memory"),
        Trigger("await comm.Send([four, 2, INT], 0)", "holds 4 bytes"),
        Trigger("await comm.Recv([four, (1, 1), INT], 0)", "holds 4 bytes"),
        Trigger("comm.Send_init([four, 1, DOUBLE], 0)", "holds 4 bytes"),
        Trigger("await comm.Send([four, 1, backwards], 0)", "buf"),
        Trigger("await comm.Recv([BOTTOM, 1, backwards], 0)", "Get_address"),
        Trigger("await comm.Bsend(four, 0)", "needs an attached buffer"),
        Trigger("comm.Attach_buffer(four); await comm.Bsend(four, 0)", "has no such room"),
        Trigger("comm.Attach_buffer(four)", "attached already"),
        Trigger("await comm.Detach_buffer(); await comm.Detach_buffer()", "no buffer is attached"),
        Trigger("comm.Attach_buffer(fixed)", "read-only"),
        Trigger("INT.Pack(four, fixed, 0, comm)", "outbuf is read-only"),
        Trigger("INT.Unpack(four, 0, fixed, comm)", "outbuf is read-only"),
    ],
    "ERR_COUNT": [
        Trigger("await comm.Send([four, -1, BYTE], 0)", "count"),
        Trigger("comm.Irecv([four, -1, BYTE], 0)", "count"),
        Trigger("comm.Recv_init([four, -1, BYTE], 0)", "count"),
        Trigger("await comm.Send([bytearray(5), INT], 0)", "not a whole number"),
        Trigger("INT.Create_contiguous(-1)", "count is -1"),
        Trigger("INT.Create_vector(-1, 1, 1)", "count is -1"),
        Trigger("INT.Create_hvector(1, -1, 1)", "blocklength is -1"),
        Trigger("INT.Create_indexed([1, -1], [0, 1])", "blocklengths[1] is -1"),
        Trigger("INT.Create_indexed_block(-1, [0])", "blocklength is -1"),
        Trigger("Datatype.Create_struct([-1], [0], [INT])", "blocklengths[0] is -1"),
        Trigger("INT.Pack([four, -1], bytearray(9), 0, comm)", "inbuf"),
        Trigger("INT.Pack_size(-1, comm)", "count is -1"),
        Trigger("INT.Pack_external_size('external32', -1)", "count is -1"),
    ],
    "ERR_TYPE": [
        Trigger("await comm.Send([four, 1, null], 0)", "DATATYPE_NULL"),
        Trigger("await comm.Recv([four, 0, pair], 0)", "not committed"),
        Trigger("comm.Send_init([four, 0, pair], 0)", "not committed"),
        Trigger("comm.Isend([four, 1, freed], 0)", "freed"),
        Trigger("comm.Irecv([four, 0, MPI.LB], 0)", "marker"),
        Trigger("comm.Irecv([bytearray(8), 1, twice], 0)", "overlap"),
        Trigger("await comm.Send(np.array([{}]), 0)", "references to Python objects"),
        Trigger("await comm.send(lambda: None, 0)", "cannot send an object of type"),
        Trigger("INT.Free()", "predefined"),
        Trigger("null.Free()", "DATATYPE_NULL"),
        Trigger("null.Create_contiguous(1)", "DATATYPE_NULL"),
        Trigger("freed.Dup()", "freed"),
        Trigger("freed.Commit()", "freed"),
        Trigger("DOUBLE.Get_contents()", "predefined"),
        Trigger("pair.Pack(bytes(8), bytearray(8), 0, comm)", "not committed"),
        Trigger("aiompi.Status().Get_count(null)", "DATATYPE_NULL"),
        Trigger("aiompi.Status().Get_elements(freed)", "freed"),
    ],
    "ERR_TAG": [
        Trigger("await comm.send('x', 0, -5)", "tag -5 of a send"),
        Trigger("await comm.Ssend(four, 0, aiompi.ANY_TAG)", "of a send"),
        Trigger("comm.Ibsend(four, 0, TAG_UB + 1)", f"tag {MPI.TAG_UB + 1}"),
        Trigger("comm.Send_init(four, 0, -5)", "tag -5 of a send"),
        Trigger("await comm.recv(source=0, tag=-5)", "tag -5 of a receive"),
        Trigger("comm.Recv_init(four, 0, -5)", "tag -5 of a receive"),
        Trigger("await comm.probe(0, -5)", "tag -5"),
        Trigger("comm.improbe(0, -5)", "tag -5"),
        Trigger("await comm.Sendrecv_replace(four, 0, -5)", "tag -5 of a send"),
    ],
    "ERR_RANK": [
        Trigger("await comm.Send(four, 1)", "destination 1 is not in 0..0"),
        Trigger("await comm.rsend('x', aiompi.ANY_SOURCE)", "destination"),
        Trigger("comm.Rsend_init(four, 1)", "destination 1"),
        Trigger("await comm.Recv(four, 1)", "source 1 is not in 0..0"),
        Trigger("comm.Recv_init(four, 1)", "source 1"),
        Trigger("comm.iprobe(1)", "source 1"),
        Trigger("await comm.mprobe(1)", "source 1"),
        Trigger("await comm.sendrecv('x', 0, source=1)", "source 1"),
        Trigger("await comm.Sendrecv_replace(four, 1)", "destination 1"),
    ],
    "ERR_REQUEST": [
        Trigger(
            "receive = comm.Recv_init(four, 0, 1); receive.start(); receive.start()",
            "active",
            "receive = comm.Recv_init(four, 0, 1); receive.Start(); receive.Start()",
        ),
        Trigger("aiompi.PersistentRequest.startall([receive])", "active", "MPI.Prequest.Startall([receive])"),
        Trigger("comm.Recv_init(four, 0).cancel()", "inactive"),
        Trigger("message = await comm.mprobe(PROC_NULL); message.irecv(); message.irecv()", "received before", ""),
        Trigger("", "MPI_MESSAGE_NULL", "MPI.MESSAGE_NULL.irecv()"),
        Trigger("", "MPI_REQUEST_NULL", "MPI.REQUEST_NULL.Cancel()"),
        Trigger("", "MPI_REQUEST_NULL", "MPI.REQUEST_NULL.Free()"),
        Trigger("", "not persistent", "MPI.Prequest.Startall([comm.Irecv(four, 0, 2)])"),
        Trigger("", "listed twice", "MPI.Request.Waitall([comm.Irecv(four, 0, 3)] * 2)"),
    ],
    "ERR_ARG": [
        Trigger("INT.Create_subarray([4], [5], [0])", "subsizes[0] is 5"),
        Trigger("INT.Create_subarray([4], [2], [3])", "starts[0] is 3"),
        Trigger("INT.Create_subarray([], [], [])", "at least 1 dimension"),
        Trigger("INT.Create_subarray([4], [2], [0], order=5)", "order is 5"),
        Trigger("INT.Create_darray(2, 2, [4], block, [2], [2])", "rank is 2"),
        Trigger("INT.Create_darray(3, 0, [4], block, [2], [2])", "size is 3"),
        Trigger("INT.Create_darray(2, 0, [4], block, [1], [2])", "dargs[0]"),
        Trigger("INT.Create_indexed([1, 1], [0])", "equal length"),
        Trigger("Datatype.Create_struct([1], [0, 1], [INT])", "equal length"),
        Trigger("INT.Pack(four, bytearray(9), -1, comm)", "position is -1"),
        Trigger("INT.Pack_external('native', four, bytearray(9), 0)", "external32"),
    ],
    "ERR_COMM": [
        Trigger("INT.Pack(four, bytearray(9), 0, 'comm')", "comm is 'comm'"),
        Trigger("INT.Pack_size(1, 7)", "comm is 7"),
    ],
    "ERR_TRUNCATE": [
        Trigger("comm.Isend(four, 0, 4); await comm.Recv(bytearray(3), 0, 4)", "receive buffer of 3 bytes"),
        Trigger("await failed()", "receive buffer of 3 bytes", "failed().Wait()"),
        Trigger("comm.Isend(four, 0, 5); await (await comm.mprobe(0, 5)).Recv(bytearray(3))", "buffer of 3 bytes"),
        Trigger("comm.Isend(four, 0, 6); await comm.Sendrecv_replace(bytearray(3), 0, 6, 0, 6)", "buffer of 3 bytes"),
        Trigger("INT.Pack(four, bytearray(7), 4, comm)", "outbuf"),
        Trigger("INT.Unpack(four, 1, bytearray(4), comm)", "inbuf"),
        Trigger("INT.Unpack_external('external32', four, 0, bytearray(8))", "inbuf"),
    ],
    "ERR_IN_STATUS": [
        # Given by calls on several requests alone, of which the native face has none.
        Trigger("", "1 of 1 requests failed; request 0", "MPI.Request.Waitall([failed()])"),
        Trigger("", "1 of 1 requests failed; request 0", "MPI.Request.Waitsome([failed()])"),
        Trigger("", "1 of 1 requests failed; request 0", "MPI.Request.Testall([failed()])"),
        Trigger("", "1 of 1 requests failed; request 0", "MPI.Request.Testsome([failed()])"),
    ],
    "ERR_PENDING": [
        Trigger("comm.irecv(source=0, tag=7).result()", "await it, or test done() first", ""),
        Trigger("comm.irecv(source=0, tag=7).exception()", "await it, or test done() first", ""),
        Trigger("", "in a status", "raise_from_status([failed(), comm.Irecv(four, 0, 7)])"),
    ],
    "ERR_OTHER": [
        Trigger("await comm.Rsend(four, 0, 8)", "rank 0 had posted no receive for it"),
        Trigger("await comm.irsend('x', 0, 8)", "rank 0 had posted no receive for it", "comm.irsend('x', 0, 8).wait()"),
        Trigger("", "deadlock: this operation waits for a message", "comm.Recv(four, 0, 9)"),
    ],
}
#: classes that only other chapters give, or nothing at all
ELSEWHERE: Final = {
    "ERR_ROOT": "collectives",
    "ERR_OP": "collectives",
    "ERR_GROUP": "groups",
    "ERR_TOPOLOGY": "topologies",
    "ERR_DIMS": "topologies",
    "ERR_UNKNOWN": "every error that this library finds has a class",
    "ERR_INTERN": "a fault of the library itself",
}
ONE_FACE: Final = {"native": {"ERR_IN_STATUS"}, "blocking": set[str]()}


def statements(face: str) -> list[tuple[str, str, str]]:
    """(class, statement, text) of all triggers of a face, without awaits in the blocking one."""
    found = []
    for name, triggers in TRIGGERS.items():
        for native, text, blocking in triggers:
            statement = native if face == "native" or blocking is None else blocking
            if statement:
                found.append((name, statement, text))
    return found


def test_every_class_has_a_trigger() -> None:
    names = {name for name in dir(MPI) if name.startswith("ERR_") and getattr(MPI, name) in ERROR_CLASSES}
    assert names == TRIGGERS.keys() | ELSEWHERE.keys()
    for face in FACES:
        assert TRIGGERS.keys() - {name for name, _, _ in statements(face)} == ONE_FACE[face]


@pytest.mark.spec(
    "S2.2-2", "S2.4.1-5", "S2.4.1-6", "S3.2.2-2", "S3.2.3-3", "S3.2.3-6", "S3.2.4-5", "S3.2.4-7", "S3.4-5", "S3.4-8",
    "S3.6-2", "S3.6-6", "S3.7.3-15", "S3.7.5-12", "S3.7.5-21", "S3.8-20", "S3.9-4", "S3.10-5", "S3.12.1-10",
    "S3.12.4-1", "S3.12.4-7", "S3.12.5-4", "S3.13-9", "D4.1.3-4", "D4.1.4-1", "D4.1.4-3", "D4.1.13-2", "D4.3-4",
)  # fmt: skip
@pytest.mark.parametrize("face", FACES)
def test_triggers(site: Site, face: str) -> None:
    """Each raises the exception of its class, with a message that says what is wrong."""
    body = PREPARED
    for _, statement, _ in statements(face):
        body += f"try:\n    {statement}\nexcept aiompi.MPIError as error:\n    result = error.error_class, str(error)\n"
        body += "else:\n    result = 0, 'nothing was raised'\nprint(json.dumps(result))\n"
    ended = site.start(sys.executable, site.program(in_face(face, textwrap.dedent(body)))).finish()
    assert (ended.code, ended.err) == (0, "")
    results: list[tuple[int, str]] = [tuple(json.loads(line)) for line in ended.out.splitlines()]
    for (name, statement, text), (number, message) in zip(statements(face), results, strict=True):
        expected: Any = getattr(MPI, name)
        assert (number, text in message) == (expected, True), (statement, name, message)
