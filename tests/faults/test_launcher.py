"""The launcher is killed or interrupted: every process and file of its job is gone afterwards."""

from __future__ import annotations

import os
import signal

import pytest

from aiompi import core
from support.jobs import Site, in_face

# All ranks wait for each other, after they have said so; rank 1 would survive a polite signal.
WAITING = """
if comm.rank == 1:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("ready", flush=True)
await comm.recv(source=1 - comm.rank)
"""


def test_killed_launcher_leaves_nothing_behind(site: Site) -> None:
    job = site.launch("-n", "2", site.program(in_face("native", WAITING)))
    job.expect("ready", 2)
    assert len(site.directories()) == 1
    job.signal(signal.SIGKILL)
    assert job.finish().code == -signal.SIGKILL
    site.settle()


@pytest.mark.parametrize(
    ("face", "signum", "code"), [("blocking", signal.SIGINT, 130), ("native", signal.SIGTERM, 143)]
)
def test_signal_to_the_launcher_ends_the_job(site: Site, face: str, signum: int, code: int) -> None:
    polite = WAITING.replace("SIGTERM, signal.SIG_IGN", "SIGTERM, signal.SIG_DFL")
    job = site.launch("-n", "2", site.program(in_face(face, polite)))
    job.expect("ready", 2)
    job.signal(signum)
    assert job.finish().code == code
    site.settle()


def test_directory_of_a_dead_job_is_swept(site: Site) -> None:
    """When launcher and watchdog were both killed, the next launcher of this user cleans up."""
    job = site.launch("-n", "2", site.program(in_face("blocking", WAITING)))
    job.expect("ready", 2)
    (stale,) = site.directories()
    for signum in (signal.SIGSTOP, signal.SIGKILL):  # none of them sees the end of another
        for pid in site.processes():
            os.kill(pid, signum)
    job.finish()
    assert site.directories() == [stale]
    left = sorted(os.listdir(site.base / stale))
    memory = ["memory-0", "memory-1"] if core.form == "native" else []
    assert left == ["control", "lock", *memory, "rank-0", "rank-1", "top"]
    foreign = site.base / "aiompi-not-a-job"
    foreign.mkdir()
    assert site.ok(1, "").code == 0
    assert site.directories() == [foreign.name]
    foreign.rmdir()


INTERRUPTED = {
    "blocking": """
from aiompi import MPI
world = MPI.COMM_WORLD
world.Barrier()
if world.rank == 1:
    {act}
world.recv(source=1 - world.rank)
""",
    "native": """
import aiompi

async def main(world):
    await world.barrier()
    if world.rank == 1:
        {act}
    await world.recv(source=1 - world.rank)

aiompi.run(main)
""",
    "asyncio": """
import asyncio, aiompi

async def main():
    async with aiompi.init() as world:
        await world.barrier()
        if world.rank == 1:
            {act}
        await world.recv(source=1 - world.rank)

asyncio.run(main())
""",
}


KILL = "import os, signal; os.kill(os.getpid(), signal.SIGINT)"


# In the blocking face the signal raises the exception where it comes.
@pytest.mark.parametrize(
    ("face", "act"),
    [("blocking", KILL), *((face, act) for face in ("native", "asyncio") for act in (KILL, "raise KeyboardInterrupt"))],
)
def test_an_interrupt_of_one_rank(site: Site, face: str, act: str) -> None:
    """Its status is that of a process that SIGINT ends, and it is named."""
    result = site.run(2, INTERRUPTED[face].format(act=act))
    assert result.code == 130
    assert "aiompi-launch: rank 1 was ended by KeyboardInterrupt (SIGINT)" in result.err


def test_an_exception_text_with_a_surrogate(site: Site) -> None:
    """It reaches the launcher, with the surrogate escaped."""
    result = site.run(2, INTERRUPTED["native"].format(act='raise ValueError("\\udcff bad")'))
    assert result.code == 1
    assert "aiompi-launch: rank 1 failed: ValueError: \\udcff bad" in result.err
