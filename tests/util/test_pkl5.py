"""Communicators of pkl5 are the same as all others."""

from __future__ import annotations

from support.jobs import Site

BODY = """
import numpy
from aiompi import MPI
from aiompi.util import pkl5

comm = pkl5.Intracomm(MPI.COMM_WORLD)
assert comm == MPI.COMM_WORLD
array = numpy.arange(100_000.0)
send = comm.isend({"array": array}, dest=1 - comm.rank)
received = comm.mprobe(source=1 - comm.rank).recv()
assert isinstance(send, pkl5.Request)
send.wait()
assert (received["array"] == array).all() and received["array"].base is not None
print(type(comm).__name__)
"""


def test_arrays_are_views_of_the_message(site: Site) -> None:
    assert site.ok(2, BODY).lines == ["Intracomm"] * 2
