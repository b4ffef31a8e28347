"""The live table of a job that records a trace."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import pytest

from aiompi.errors import InvalidArgumentError
from aiompi.trace.top import Top
from aiompi.wire.look import Look
from support.jobs import Site
from support.limits import LIMIT
from support.machines import until

PROGRAM = """\
import os, sys, time
from aiompi import MPI
world = MPI.COMM_WORLD
other = 1 - world.rank
for step in range(100):  # in both directions, so that the messages of a rank are recorded once the other one goes on
    world.Sendrecv(bytes(1000), other, recvbuf=bytearray(1000), source=other)
if world.rank == 1:
    while not os.path.exists("go"):
        pass
world.Barrier()
world.recv(source=other)
"""


def test_what_each_rank_does(site: Site) -> None:
    """Rates, the line of a wait with its partner, processor and memory; in the end no rank runs."""
    trace = site.directory / "trace"
    job = site.launch("-n", "2", "--trace", str(trace), site.program(PROGRAM, "app.py"))
    looks, rates = waiting(trace, 10)
    assert looks[0].host == os.uname().nodename
    assert rates[0] > 0 < rates[1]
    top = Top(trace)
    until(lambda: top.look()[1].state == "runs")
    until(lambda: (top.look()[1].cpu or 0.0) > 0.1)  # on a busy machine it gets little for a while
    assert all(look.memory and look.memory > 5e6 for look in looks)
    command = [sys.executable, "-m", "aiompi.trace", "--top", str(trace)]
    shown = site.start(*command).finish()
    assert (shown.code, shown.err) == (0, "")
    head, first, second = (line.split() for line in shown.out.splitlines())
    assert head == ["rank", "host", "CPU", "memory", "messages/s", "MB/s", "state"]
    assert (first[-3:], second[-1]) == (["Barrier", "at", "app.py:10"], "runs")
    (site.directory / "go").touch()
    looks, _ = waiting(trace, 11)
    assert [look.peer for look in looks] == [1, 0]
    job.signal(signal.SIGKILL)
    top = Top(trace)
    until(lambda: not {look.state for look in top.look()} & {"runs", "waits"})


def waiting(trace: Path, line: int) -> tuple[list[Look], list[float]]:
    """Look until rank 0 waits in a line; return the last looks, and the sums of the rates of all."""
    deadline, sums, top = time.monotonic() + LIMIT, [0.0, 0.0], None
    while True:
        assert time.monotonic() < deadline
        time.sleep(0.2)
        if top is None and len([*trace.glob("rank-*.names")]) == 2:
            top = Top(trace)
        looks = [] if top is None else top.look()
        for look in looks:
            sums[look.rank] += look.messages * look.nbytes
        if looks and looks[0].state == "waits" and looks[0].place.endswith(f"app.py:{line}"):
            time.sleep(0.5)
            assert top is not None
            return top.look(), sums


def test_a_directory_without_a_trace(tmp_path: Path) -> None:
    """It is refused with what to do; so is a file that is no trace."""
    with pytest.raises(InvalidArgumentError, match="has no trace: start the job by aiompi-launch --trace"):
        Top(tmp_path).look()
    (tmp_path / "rank-0.trace").write_bytes(bytes(5000))
    (tmp_path / "rank-0.names").touch()
    with pytest.raises(InvalidArgumentError, match=r"rank-0.trace is no trace of this version of aiompi"):
        Top(tmp_path).look()
