"""Windows between real processes: a target that computes, a rank that is killed, one that breaks the protocol."""

from __future__ import annotations

import pytest

from aiompi import core
from support.jobs import Site

BUSY = """
import time
import numpy as np
from aiompi import MPI

comm = MPI.COMM_WORLD
win = MPI.Win.Allocate(8, 8, comm=comm)
comm.Barrier()
if comm.rank == 0:
    time.sleep(LONG)  # it computes, and calls nothing
else:
    before, began = np.zeros(1, dtype="i8"), time.monotonic()
    for _ in range(20):
        win.Lock(0)
        win.Fetch_and_op(np.ones(1, dtype="i8"), before, 0)
        win.Unlock(0)
    print(time.monotonic() - began < LONG)
comm.Barrier()
if comm.rank == 0:
    print(np.frombuffer(win.tomemory(), "i8")[0])
win.Free()
"""


@pytest.mark.skipif(core.form != "native", reason="the pure form asks the target")
def test_a_target_that_computes_delays_nobody(site: Site) -> None:
    result = site.launch("-n", "3", site.program(BUSY.replace("LONG", "15"))).finish()
    assert (result.code, sorted(result.lines), result.err) == (0, ["40", "True", "True"], "")


DEATH = """
import os
import signal
import time
import numpy as np
from aiompi import MPI

comm = MPI.COMM_WORLD
win = MPI.Win.Allocate(8, 8, comm=comm)
if comm.rank == 1:
    win.Lock(0)
    win.Put(np.ones(1), 0)
    comm.Barrier()
    time.sleep(0.2)
    os.kill(os.getpid(), signal.SIGKILL)
comm.Barrier()
try:
    win.Lock(0)
except MPI.ProcessFailedError:
    print("told")
"""


def test_who_waits_for_the_lock_of_a_killed_rank_is_told(site: Site) -> None:
    result = site.launch("-n", "3", "--on-failure=continue", site.program(DEATH)).finish()
    assert result.lines == ["told", "told"], result.err


HOSTILE = """
import numpy as np
from aiompi import MPI
from aiompi.window.messages import Kind

comm = MPI.COMM_WORLD
win = MPI.Win.Create(np.zeros(2), 8, comm=comm)
comm.Barrier()
if comm.rank == 1:
    window = win._core
    REQUEST
    comm.recv(source=0)
else:
    try:
        comm.recv(source=1)
    except MPI.ProcessFailedError:
        print("told")
"""


@pytest.mark.parametrize(
    "request_of_it",
    [
        "window.tell(0, Kind.PUT, 0, 2**40, b'')",
        "window.tell(0, Kind.GET, -8, 8, b'')",
        "window.tell(0, Kind.PUT, 0, 8, b'x')",
        "window.tell(0, Kind.GET, 0, 24, np.array([[0] * 3, [8] * 3], '<i8').tobytes())",
        "window.tell(0, Kind.UNLOCK)",
        "window.tell(0, Kind.COMBINE, 0, 8, b'', 99, 'MPI_DOUBLE', False, False)",
        "window.comm.isend((b'abc',), 3, 0, 0)",
    ],
)
def test_a_request_that_breaks_the_protocol_ends_its_sender(site: Site, request_of_it: str) -> None:
    program = site.program(HOSTILE.replace("REQUEST", request_of_it))
    result = site.launch("-n", "2", "--on-failure=continue", program).finish()
    assert result.lines == ["told"], result.err
