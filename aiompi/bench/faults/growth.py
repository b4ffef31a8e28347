"""Measurements of elastic jobs: recovery time of survivors, and resources that leak as members join and leave."""

from __future__ import annotations

import itertools
import os
import random
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final

from aiompi.bench.contender import BenchError
from aiompi.bench.faults.storms import Members
from aiompi.bench.faults.trial import START, Plan
from aiompi.bench.results import show

#: milliseconds from the death of a replica to shared work again: the bound of the 99th percentile
BOUND: Final = 50.0
_PARTS: Final = 3  # parts of the visits, whose growth is compared
_PATIENCE: Final = 10.0  # seconds until the last worlds have no links: members leave a world within 5 s
#: bytes by which a process grows in each part if it has a leak
_NOISE: Final = 2**17


@contextmanager
def _members(count: int, transport: str) -> Iterator[Members]:
    """Start a job with members that only add numbers."""
    with tempfile.TemporaryDirectory(prefix="f") as directory:
        job = Members(Plan(0, transport, "members", count, 0.0, ()), Path(directory), calm=True)
        try:
            job.start()
            yield job
        finally:
            job.clean_up()


def recovery(count: int, transport: str) -> None:
    """Kill one of three members, again and again; print the time from each death to the next sum of the others.

    Raises:
        BenchError: the 99th percentile is above the bound.
    """
    times = []
    with _members(3, transport) as job:
        for _ in range(count):
            job.await_world(3)
            time.sleep(0.05)
            begin = time.monotonic()
            signal.pidfd_send_signal(job.pids[random.choice(job.living())], signal.SIGKILL)
            times.append(1e3 * (job.await_world(2) - begin))
            job.add()
    text, high = percentiles(times)
    show(f"{transport}: from the death of one of 3 members to a sum of the others: {text}")
    if high > BOUND:
        raise BenchError(f"the 99th percentile is above {BOUND:g} ms")


def percentiles(milliseconds: list[float]) -> tuple[str, float]:
    """Return the median and the 99th percentile as a text, and the 99th percentile as a number."""
    ordered = sorted(milliseconds)
    median, high = ordered[len(ordered) // 2], ordered[min(len(ordered) - 1, int(0.99 * len(ordered)))]
    return f"median {median:.1f} ms, 99th percentile {high:.1f} ms, of {len(ordered)}", high


def churn(count: int, transport: str) -> None:
    """Let a third member join and leave again and again; print how descriptors and memory of the others grow.

    Raises:
        BenchError: descriptors or memory grow.
    """
    found: list[dict[str, tuple[int, int]]] = []
    with _members(2, transport) as job:
        job.await_world(2)
        processes = {"launcher": job.processes[0].pid, **{f"member {pid}": pid for pid in job.living()}}
        for _ in range(_PARTS):
            visitor = job.visit(max(1, count // _PARTS))
            job.read_until(partial(_ended, visitor), time.monotonic() + START + count, "the visits hang")
            job.await_world(2)
            found.append(_settled(processes, found[-1] if found else {}))
            show(
                f"{transport}: "
                + ", ".join(f"{name} {size[0]} descriptors, {size[1] >> 10} KiB" for name, size in found[-1].items())
            )
    grown = []
    for name in processes:
        sizes = [part[name] for part in found]
        steps = [after[1] - before[1] for before, after in itertools.pairwise(sizes)]
        if sizes[-1][0] > sizes[-2][0] or min(steps) > _NOISE:  # a leak grows in each part, an allocator now and then
            grown.append(name)
    if grown:
        raise BenchError(f"visits leave something in: {', '.join(grown)}")


def _settled(processes: dict[str, int], before: dict[str, tuple[int, int]]) -> dict[str, tuple[int, int]]:
    """Return the `_size` of each process once none has more descriptors than in `before`, or after a timeout."""
    begin = time.monotonic()
    while True:
        sizes = {name: _size(pid) for name, pid in processes.items()}
        level = all(sizes[name][0] <= descriptors for name, (descriptors, _) in before.items())
        if time.monotonic() - begin > (1.0 if level else _PATIENCE):
            return sizes
        time.sleep(0.05)


def _ended(process: subprocess.Popen[bytes]) -> bool:
    return process.poll() is not None


def _size(pid: int) -> tuple[int, int]:
    """Return a process's number of open descriptors, and its anonymous resident memory in bytes."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    (kilobytes,) = (line.split()[1] for line in lines if line.startswith("RssAnon:"))
    return len(os.listdir(f"/proc/{pid}/fd")), 1024 * int(kilobytes)
