"""Processes of another version of aiompi, whose protocol differs: they are refused at once, as both sides say."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import pytest

from support.jobs import KEY, Site
from support.versions import SAID_HERE, SAID_THERE, other_version

BLOCKING = "from aiompi import MPI\nprint(MPI.COMM_WORLD.allreduce(1), flush=True)\n"
JOINING = """
import asyncio, sys, aiompi
async def main():
    async with aiompi.init(sys.argv[1]) as world:
        print(await world.allreduce(1), flush=True)
asyncio.run(main())
"""
MEMBER = """
import asyncio, sys, aiompi
async def main():
    async with aiompi.join(sys.argv[1]) as member:
        print("joined", flush=True)
asyncio.run(main())
"""


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Variables of processes of the other version, which the first of them compiles."""
    return {"PYTHONPATH": other_version(tmp_path_factory.mktemp("version"))}


@pytest.mark.parametrize("width", ["32", "1"])
def test_a_host_with_another_version(site: Site, other: dict[str, str], width: str) -> None:
    """Also if another host reaches it, which has the right one."""
    starter = site.program(
        "#!/bin/sh\nfor last; do :; done\n"
        f"new='s#PYTHONPATH=[^ ]*#PYTHONPATH={other['PYTHONPATH']}#'\n"
        'case "$*" in *" b "*) last=$(echo "$last" | sed "$new");; esac\n'
        'exec sh -c "$last"\n',
        "ssh",
    )
    Path(starter).chmod(0o700)
    app = site.program(BLOCKING)
    result = site.launch("--starter", starter, "--width", width, "--hosts", "a,b,c", app).finish()
    behind = " (reached through b)" if width == "1" else ""
    lines = [f"aiompi-launch: host b cannot be used: {SAID_HERE}\n"]
    lines += [f"aiompi-launch: host c{behind} cannot be used: {SAID_HERE}\n"] if behind else []
    assert (result.code, result.out) == (1, "")
    assert result.err in lines


def test_a_launched_rank_with_another_version(site: Site, other: dict[str, str]) -> None:
    app = site.program(BLOCKING)
    words = ("env", *(f"{name}={value}" for name, value in other.items()), sys.executable, app)
    result = site.launch("-v", "-n", "1", *words).finish()
    assert (result.code, result.out) == (1, "")
    assert f"cannot be joined: {SAID_THERE}\n" in result.err
    assert f"aiompi-launch: dropped a connection from this machine: {SAID_HERE}\n" in result.err
    assert "Traceback" not in result.err


def test_a_rank_that_joins_with_another_version(site: Site, other: dict[str, str]) -> None:
    """The job goes on with the one that it was waiting for."""
    job, address = site.serve(1)
    app = site.program(JOINING)
    environ = {"AIOMPI_KEY": KEY}
    stranger = site.start(sys.executable, app, address, env=environ | other).finish()
    assert stranger.code == 1
    assert stranger.err.endswith(f"JobAbortedError: the job at {address} cannot be joined: {SAID_THERE}\n")
    job.expect(SAID_HERE)
    assert site.start(sys.executable, app, address, env=environ).finish().out == "1\n"
    assert job.finish().code == 0


def test_a_member_with_another_version(site: Site, other: dict[str, str]) -> None:
    job = site.launch("--serve", env={"AIOMPI_KEY": KEY})
    job.expect("\n")
    address = job.out.strip()
    app = site.program(MEMBER)
    stranger = site.start(sys.executable, app, address, env={"AIOMPI_KEY": KEY} | other).finish()
    assert (stranger.code, stranger.out) == (1, "")
    assert stranger.err.endswith(f"JobAbortedError: the job at {address} cannot be joined: {SAID_THERE}\n")
    job.expect(SAID_HERE)
    assert site.start(sys.executable, app, address, env={"AIOMPI_KEY": KEY}).finish().out == "joined\n"
    job.signal(signal.SIGTERM)
    job.finish()
