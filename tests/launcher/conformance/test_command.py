"""Commands under test, and what they leave behind."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable

import pytest

from aiompi_launcher.conformance import catalogue, command, runner
from aiompi_launcher.conformance.catalogue import Script
from aiompi_launcher.conformance.command import Command
from aiompi_launcher.conformance.results import Verdict
from aiompi_launcher.conformance.runner import Runner
from aiompi_launcher.conformance.session import Limits, Session
from aiompi_launcher.conformance.setup import Setup
from support.limits import LIMIT

pytestmark = pytest.mark.asyncio


@pytest.mark.parametrize(
    ("script", "status", "left"),
    [
        ("echo one; echo two", 0, False),
        ("echo one; sleep 3600 & echo two", 0, False),  # ended with its session
        ("echo one; echo two; exec sleep 3600", -signal.SIGTERM, False),
        ("echo one; setsid sh -c 'echo pid $$; exec sleep 3600' & echo two", 0, True),
    ],
)
async def test_the_end_of_a_command(monkeypatch, script: str, status: int, left: bool):
    """It is bounded, although a process of another session keeps the output open."""
    monkeypatch.setattr(command, "_PATIENCE", 0.5 if left else LIMIT)
    said: list[str] = []
    before = len(os.listdir("/proc/self/fd"))
    tested = Command(["sh", "-c", script], {}, said.append)
    await tested.start()
    async with asyncio.timeout(LIMIT):
        while len(said) < 2 + left:
            await asyncio.sleep(0.01)
    assert await tested.end(0.5 if status else LIMIT) == status
    assert [line for line in said if line in ("one", "two")] == ["one", "two"]
    assert any("keeps its output open" in line for line in said) == left
    assert len(os.listdir("/proc/self/fd")) == before
    for line in said:
        if line.startswith("pid "):
            os.kill(int(line[4:]), signal.SIGKILL)


async def test_a_command_that_is_not_there():
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(FileNotFoundError):
        await Command(["/nonexistent"], {}, print).start()
    assert len(os.listdir("/proc/self/fd")) == before


async def test_a_start_that_fails_is_not_repeated_at_full_length(monkeypatch):
    """Each set-up gets its start, but only the first one has the whole time."""
    times = []

    def session(setup: Setup, limits: Limits, say: Callable[[str], None]) -> Session:
        times.append(limits.startup)
        return Session(setup, limits, say)

    monkeypatch.setattr(runner, "Session", session)
    monkeypatch.setattr(runner, "_AFTER_FAILURE", 0.1)
    chosen: dict[str, Script] = {}
    for script in catalogue.load():
        chosen.setdefault(str(script.setup), script)
    results = await Runner(["sleep", "3600"], Limits(startup=0.6)).run(Setup(), list(chosen.values())[:4])
    starts = [result for result in results if result.name == "start-up"]
    assert len(starts) == 4
    assert all(result.verdict is not Verdict.PASS for result in starts)
    assert times == pytest.approx([0.6, 0.1, 0.1, 0.1])
