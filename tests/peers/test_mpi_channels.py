"""mpi-channels, a library of PyPI: queues in windows, for whose locks the threads of a rank wait at the same time."""

from __future__ import annotations

import sys

import pytest

from aiompi import core
from peers.distribution import unpacked
from support.jobs import Site

#: as its documentation has it: rank 0 puts numbers into one queue, and takes their squares from another one
SQUARES = """
import sys
sys.path.insert(0, {path!r})
from mpi4py import MPI
from mpi_channels import RemoteChannel

count = 12
numbers, squares = [RemoteChannel(5, 1, s_threashold=4, r_wait=0.01) for _ in range(2)]
numbers.claim(count)
squares.claim(count)
MPI.COMM_WORLD.Barrier()
if MPI.COMM_WORLD.rank == 0:
    for number in range(count):
        numbers.putf((number,))
    print(sorted(int(squares.take()[0]) for _ in range(count)))
else:
    while (number := numbers.take()) is not None:
        squares.putf(number**2)
for future in (*numbers.put_futures, *squares.put_futures):
    future.result()
MPI.COMM_WORLD.Barrier()
"""


@pytest.mark.skipif(core.form != "native" and sys.version_info < (3, 12), reason="a window is no buffer")
def test_a_queue_of_work(site: Site) -> None:
    program = site.program(SQUARES.format(path=str(unpacked("mpi-channels", "0.1.4"))))
    job = site.launch("--mpi4py", "-n", "3", program).finish()
    assert (job.code, job.lines) == (0, [str([number**2 for number in range(12)])]), job.err
