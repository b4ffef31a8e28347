"""`MPI.pickle`, and messages that are objects for one side and memory for the other, in jobs of real processes."""

from __future__ import annotations

import pickle

import pytest

from aiompi import MPI
from support.cases import cases
from support.jobs import Site

MIXED = """
import pickle, warnings
from aiompi import MPI

comm = MPI.COMM_WORLD
other = 1 - comm.rank
for obj in (None, {}, [], 7, "text", {"k": bytes(100_000)}, slice(2), Exception("pickled")):
    comm.isend(obj, other)
    status = MPI.Status()
    comm.Probe(other, 0, status)
    memory = bytearray(status.count)
    comm.Recv(memory, other)
    assert repr(MPI.pickle.loads(memory)) == repr(MPI.pickle.loads(MPI.buffer(memory))) == repr(obj)
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        request = comm.Isend(pickle.dumps(obj, protocol), other)
        assert repr(comm.recv(source=other)) == repr(obj)
        request.Wait()
comm.Isend([None, 0, MPI.BYTE], other)
assert comm.irecv(source=other).wait() is None
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    comm.recv(bytearray(1), MPI.PROC_NULL)
    comm.sendrecv(1, other, recvbuf=bytearray(1), source=other)
assert [(it.category, it.filename) for it in caught] == [(UserWarning, __file__)] * 2
"""

CHOSEN = """
import marshal
from aiompi import MPI

comm = MPI.COMM_WORLD
other = 1 - comm.rank
MPI.pickle.__init__(marshal.dumps, marshal.loads)
assert MPI.pickle.PROTOCOL is None
code = compile("6 * 7", "sent", "eval")
assert eval(comm.sendrecv(code, other, source=other)) == 42
assert [eval(it) for it in comm.allgather(code)] == [42, 42]
comm.Isend([None, 0, MPI.BYTE], other)
assert comm.recv(source=other) is None
MPI.pickle.__init__(marshal.dumps, marshal.loads, 2)
assert marshal.loads(MPI.pickle.dumps(3)) == 3
MPI.pickle.__init__()
assert comm.sendrecv({1: slice(2)}, other, source=other) == {1: slice(2)}
"""


@pytest.mark.parametrize("program", [MIXED, CHOSEN], ids=["mixed", "chosen functions"])
def test_messages(site: Site, program: str) -> None:
    site.ok(2, program)


def test_attributes() -> None:
    way = MPI.Pickle(protocol=2, threshold=7)
    assert (way.PROTOCOL, way.THRESHOLD) == (2, 7)
    way.PROTOCOL = way.THRESHOLD = None
    assert (way.PROTOCOL, way.THRESHOLD) == (pickle.HIGHEST_PROTOCOL, 2**18)
    assert MPI.Pickle(lambda obj: b"").PROTOCOL is None


@cases("protocol", [None, -1, 0, 5])
def test_buffers_out_of_band(protocol: int | None) -> None:
    way = MPI.Pickle(protocol=protocol, threshold=8)
    data, buffers = way.dumps_oob([pickle.PickleBuffer(bytearray(length)) for length in (7, 8)])
    assert [len(it) for it in buffers] == [8]
    assert list(map(bytes, way.loads_oob(data, buffers))) == [bytes(7), bytes(8)]
