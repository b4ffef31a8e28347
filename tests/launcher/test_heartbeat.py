"""Which ranks the heartbeat of a job finds stuck: `test_survival.py` and tests/cluster have it in real jobs."""

from __future__ import annotations

import asyncio
import signal
import subprocess

import pytest

from aiompi.wire import liveness
from aiompi_launcher.job.heartbeat import Heartbeat
from aiompi_launcher.job.states import Rank
from support.limits import LIMIT


@pytest.mark.asyncio
async def test_a_stopped_rank_is_stuck_only_if_the_job_says_so() -> None:
    """Engines have a heartbeat for machines by default, and Ctrl-Z may stop all of their ranks."""
    with subprocess.Popen(["sleep", "60"]) as process:
        process.send_signal(signal.SIGSTOP)
        rank = Rank(3)
        rank.joiner, rank.namespace = process.pid, liveness.namespace()
        found: list[tuple[str, int, str]] = []
        watches = [
            Heartbeat(0.1, lambda: [rank], {}, lambda number, cause: found.append(("all", number, cause))),
            Heartbeat(0.1, lambda: [rank], {}, lambda number, cause: found.append(("cut", number, cause)), False),
        ]
        try:
            async with asyncio.timeout(LIMIT):
                while len(found) < 2:
                    await asyncio.sleep(0.01)
        finally:
            for watch in watches:
                watch.close()
            process.kill()
    assert set(found) == {("all", 3, "was stopped for 0.1 s (AIOMPI_HEARTBEAT)")}
