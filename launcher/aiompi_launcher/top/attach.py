"""`aiompi-launch --attach`: the live table of a job that another launcher has started."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable, Iterator
from typing import Any, Final

from aiompi_launcher.output.outputs import Outputs
from aiompi_launcher.output.overlay import Overlay
from aiompi_launcher.spec import EXIT_FAILURE, AttachSpec
from aiompi_launcher.top import client
from aiompi_launcher.top.client import Client, Spawned, is_below
from aiompi_launcher.top.tables import JobLooks, lines, obstacle, ranks, text

#: number of looks before the table is shown once, without a terminal; rates need two looks
_LOOKS: Final = 2


def run(spec: AttachSpec, name: str) -> int:
    """Show the table of a job until the job ends, or Ctrl-C; without a terminal, show it once.

    Args:
        spec: says which job.
        name: of the program, for messages.

    Returns:
        The exit code for the launcher.
    """
    with contextlib.suppress(KeyboardInterrupt):
        return asyncio.run(_attach(spec, name))
    return 0


async def _attach(spec: AttachSpec, name: str) -> int:
    outputs = Outputs(name, tag=False, verbose=False, on_broken=lambda reason: None)
    found: list[Client] = []
    try:
        found += (await client.find()).values()
        jobs = [job for job in found if spec.launcher in (None, job.pid)]
        if spec.launcher is None:  # jobs that others have started are shown with those
            jobs = [job for job in jobs if not any(is_below(job.title.parent, other.pid) for other in found)]
        if not jobs:
            which = "" if spec.launcher is None else f" with the launcher {spec.launcher}"
            outputs.say(f"--attach: no job{which} of this user runs on this machine")
            return EXIT_FAILURE
        if len(jobs) > 1:
            _list(jobs)
            return 0
        for other in found:
            if other is not jobs[0]:  # the launcher of a job has room for few viewers
                other.close()
        return await _show(jobs[0], outputs)
    finally:
        outputs.close()
        for job in found:
            job.close()
        await asyncio.sleep(0)  # in which their connections end
        await outputs.drain()
        outputs.stop()


def _list(jobs: Iterable[Client]) -> None:
    for job in sorted(jobs, key=lambda job: job.title.since):
        print(f"aiompi-launch --attach {job.pid}    {job.title.program}, {ranks(job.title.size)}")


async def _show(job: Client, outputs: Outputs) -> int:
    terminal = outputs.terminal()
    reason = obstacle(None if terminal is None else terminal[1])
    if "rich" in reason:
        outputs.say(f"--attach {reason}")
        return EXIT_FAILURE
    spawned = Spawned(job.pid)

    def tables() -> Iterator[JobLooks]:
        for each in (job, *spawned):
            yield JobLooks(each.pid, each.title, each.looks)

    if reason or terminal is None:
        looks = asyncio.Semaphore(0)
        job.watch(looks.release)
        for _ in range(_LOOKS):
            either: list[asyncio.Future[Any]] = [job.ended, asyncio.ensure_future(looks.acquire())]
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        print(text(tables()), end="")
    else:
        overlay = Overlay(*terminal, lambda width, height: lines(tables(), width, height), stays=True)
        job.watch(overlay.update)
        await job.ended
    await spawned.close()
    return 0
