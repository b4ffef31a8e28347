"""The end of a job is one line, of the launcher, whatever its ranks were doing."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from support.jobs import Site

#: ranks that the SIGTERM behind the news of the end does not end, as if it came late
HEAD = """
import asyncio, os, signal, sys
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if len(sys.argv) > 1 and os.environ["PMI_RANK"] == "1":
    with open(sys.argv[1], "rb") as gate:
        gate.read()
    sys.exit(4)
"""
PROGRAMS = {
    "blocking": """
from aiompi import MPI
world = MPI.COMM_WORLD
if world.rank == 1:
    os._exit(4)
world.recv(source=1)
""",
    "run": """
import aiompi
async def main(world):
    if world.rank == 1:
        os._exit(4)
    await world.recv(source=1)
aiompi.run(main)
""",
    "init": """
import aiompi
async def main():
    async with aiompi.init() as world:
        if world.rank == 1:
            os._exit(4)
        await world.recv(source=1)
asyncio.run(main())
""",
}


@pytest.mark.parametrize(
    ("early", "hosts", "program"),
    [
        (True, (), "blocking"),
        (False, (), "blocking"),
        (True, (), "run"),
        (False, (), "run"),
        (False, ("--starter", "local", "--hosts", "a,b"), "init"),
    ],
    ids=str,
)
def test_one_cause_is_one_line(site: Site, early: bool, hosts: tuple[str, ...], program: str, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    path = site.program(HEAD + PROGRAMS[program])
    job = site.launch("-v", *hosts, "-n", "2", path, *([str(gate)] if early else []))
    if early:
        job.expect("has joined, process")
        gate.write_bytes(b"now")
    result = job.finish()
    assert (result.code, result.out) == (4, "")
    assert all(line.startswith("aiompi-launch: ") for line in result.err.splitlines()), result.err
    assert result.err.count("exited with status 4") == 1


@pytest.mark.parametrize("program", ["blocking", "run"])
def test_a_job_that_cannot_be_joined_is_one_line(site: Site, program: str) -> None:
    """It is not the launcher that says so."""
    environ = {"AIOMPI_CONTROL": f"unix:{site.directory}/nowhere", "AIOMPI_KEY": "ab" * 16, "AIOMPI_RANK": "0"}
    path = site.program(HEAD + PROGRAMS[program])
    result = site.start("python", path, env=environ).finish()
    assert (result.code, result.out) == (1, "")
    assert result.err == (
        f"aiompi: the job at {site.directory}/nowhere cannot be joined: cannot connect to it: "
        "No such file or directory\n"
    )
