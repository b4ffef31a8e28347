"""The report on a trace, and the trace for Perfetto."""

from __future__ import annotations

import json
import sys

from aiompi.coll.registry import ALLGATHER
from support.jobs import Site

SLOW = """\
import time
from aiompi import MPI
world = MPI.COMM_WORLD
for step in range(5):
    if world.rank == 2:
        time.sleep(0.2)
    world.Barrier()
    if world.rank == 0:
        time.sleep(0.1)
        world.send(step, dest=1)
    elif world.rank == 1:
        world.recv(source=0)
world.Allgather(bytes(2**16), bytearray(3 * 2**16))
"""


def test_the_late_rank_and_its_line_are_named(site: Site) -> None:
    trace = site.directory / "trace"
    assert site.launch("-n", "3", "--trace", str(trace), site.program(SLOW, "slow.py")).finish().code == 0
    command = [sys.executable, "-m", "aiompi.trace", str(trace)]
    done = site.start(*command).finish()
    assert (done.code, done.err) == (0, "")
    report = done.out
    assert report.startswith("Late ranks:\n  rank 2 comes late to Barrier at slow.py:7")
    assert "rank 0 comes late to send at slow.py:10, after Barrier at slow.py:7" in report
    assert "late sender         recv at slow.py:12: rank 1" in report
    events = json.loads((trace / "trace.json").read_text())["traceEvents"]
    assert sum(event["ph"] == "s" for event in events) == sum(event["ph"] == "f" for event in events) == 5
    assert {event["pid"] for event in events if event.get("name") == "Barrier"} == {0, 1, 2}
    [algorithm] = {event["args"]["algorithm"] for event in events if event.get("name") == "Allgather"}
    assert algorithm in ALLGATHER.algorithms


def test_a_directory_without_a_trace_is_refused(site: Site) -> None:
    failed = site.start(sys.executable, "-m", "aiompi.trace", str(site.directory)).finish()
    assert failed.code == 2
    assert "has no trace" in failed.err
