"""aiompi under test: its own launcher, processes and channels, judged by the conformance tester."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest

from aiompi_launcher.conformance import archive, catalogue
from aiompi_launcher.conformance.catalogue import Script
from aiompi_launcher.conformance.command import TEMPLATE, Command, environment, fill
from aiompi_launcher.conformance.peer import Peer
from aiompi_launcher.conformance.results import Result, Verdict
from aiompi_launcher.conformance.runner import Runner, plan
from aiompi_launcher.conformance.session import Limits, Session
from aiompi_launcher.conformance.setup import Setup
from support.limits import LIMIT

COMMAND = list(TEMPLATE)
LIMITS = Limits(startup=LIMIT, quiet=LIMIT)

#: one of each kind, none of which needs a setup of its own
CHOSEN = (
    "pt2pt/pairs",
    "modes/ssend",
    "probe/probe",
    "flow/burst",
    "ops/locate_double_int",
    "collectives/scan_alternating",
    "collectives/gatherv_short",
    "collectives/alltoall_long",
    "collectives/reduce_ordered",
    "comm/split_keys",
    "intercomm/merge_high",
)
ALL = catalogue.load()
ANYWHERE = [script for script in ALL if not script.setup]

#: aiompi with two hosts in each client
HOSTS = [*COMMAND[: COMMAND.index("-n")], "--hosts-per-client", "2", *COMMAND[COMMAND.index("-n") :]]
#: in each of them any script can be run
CONFIGURATIONS = {
    "last": Setup(),
    "first, with a key": Setup(first=1, key=2**63 + 1, iut_procs=3),
    "four processes": Setup(procs=4, iut_procs=4),
    "two hosts on both sides": Setup(hosts=2, procs=1, iut_procs=2),
    "three simulated clients": Setup(clients=3, procs=1, iut_procs=2),
    "three clients under test": Setup(iut_clients=3, iut_procs=1, procs=1),
}
#: in these, some have nobody opposite
NARROW = {"between": Setup(iut_clients=2, first=1, iut_procs=1), "one process each": Setup(procs=1, iut_procs=1)}

BY_TWO = {"flow/pairs_are_independent"}  # needs two processes on each side
#: the scripts that need a job of their own, in parts that do not take long
OWN_JOBS = plan(Setup(iut_procs=1), [script for script in ALL if script.setup])
PARTS = [OWN_JOBS[start : start + 6] for start in range(0, len(OWN_JOBS), 6)]


def shares() -> list[list[Script]]:
    """What each configuration runs: the chosen ones, and its share of the others; more would be the same again."""
    chosen = catalogue.select(ALL, [], list(CHOSEN))
    others = [script for script in ANYWHERE if script not in chosen]
    return [chosen + others[number :: len(CONFIGURATIONS)] for number in range(len(CONFIGURATIONS))]


def failures(results: list[Result]) -> list[Result]:
    return [result for result in results if result.verdict is not Verdict.PASS]


@pytest.mark.spec("I5.1-18", "I5.3-2", "I5.3-3", "I5.3-4")
@pytest.mark.parametrize(
    ("name", "scripts"), list(zip(CONFIGURATIONS, shares(), strict=True)), ids=list(CONFIGURATIONS)
)
@pytest.mark.asyncio
async def test_aiompi_passes(name: str, scripts: list[Script]):
    runner = Runner(HOSTS if "both" in name else COMMAND, LIMITS)
    results = await runner.run(CONFIGURATIONS[name], scripts)
    assert failures(results) == []
    assert len(results) == len(scripts) + 3  # start-up, delivery, shutdown


@pytest.mark.spec("I5.1-18")
@pytest.mark.parametrize("setup", NARROW.values(), ids=list(NARROW))
@pytest.mark.asyncio
async def test_aiompi_passes_what_fits(setup: Setup):
    results = await Runner(COMMAND, LIMITS).run(setup, catalogue.select(ALL, [], list(CHOSEN)))
    assert failures(results) == []


@pytest.mark.spec("I5.1-18", "I5.4-3")
@pytest.mark.parametrize("part", PARTS, ids=lambda part: part[0][1][0].name)
@pytest.mark.asyncio
async def test_aiompi_passes_in_jobs_of_all_kinds(part: list[tuple[Setup, list[Script]]]):
    """Other limits, more clients and hosts: each job that a script asks for."""

    def run(scripts: list[Script]) -> Coroutine[Any, Any, list[Result]]:
        two = any(script.name in BY_TWO for script in scripts)
        return Runner(COMMAND, LIMITS).run(Setup(iut_procs=1 + two), scripts)

    jobs = await asyncio.gather(*(run(scripts) for _, scripts in part))
    assert [result for results in jobs for result in failures(results)] == []
    assert [len(results) for results in jobs] == [len(scripts) + 3 for _, scripts in part]


def test_every_script_is_run():
    run = {script.name for scripts in shares() for script in scripts}
    run |= {script.name for _, scripts in OWN_JOBS for script in scripts}
    assert run == {script.name for script in ALL}
    assert len(CONFIGURATIONS) >= 6


@pytest.mark.asyncio
async def test_programs_of_mpi4py_are_interpreted():
    """The interpreter imports mpi4py.MPI, which the launcher provides; in groups that lean on more than messages."""
    command = [*COMMAND[:3], "--mpi4py", *COMMAND[3:], "--mpi", "mpi4py.MPI"]
    groups = ("cancel", "flow", "long", "shutdown", "startup")
    scripts = [script for script in ALL if script.group in groups and script.setup in ({}, {"maxdatalen": 64})]
    results = await Runner(command, LIMITS).run(Setup(), scripts)
    assert failures(results) == []
    assert {result.group for result in results} > set(groups)


@pytest.mark.spec("I5.1-8", "I5.1-10")
@pytest.mark.asyncio
async def test_aiompi_starts_and_ends():
    results = await Runner(COMMAND, LIMITS).startup_only(Setup(first=1))
    assert failures(results) == []
    assert [result.name for result in results] == ["start-up", "start-up only"]


@pytest.mark.spec("I5.1-19")
@pytest.mark.asyncio
async def test_another_implementation_in_the_same_job():
    """aiompi, the tester's processes, and a third implementation, here a simulated peer."""
    setup = Setup(iut_clients=2, iut_procs=1)
    session = Session(setup, LIMITS)
    address = await session.open()
    command = Command(fill(COMMAND, setup, 1, address), environment(setup), lambda _: None)
    await command.start()
    other = asyncio.create_task(Peer(setup.part(2)).run(*address))
    try:
        results = [await session.start(), await session.first_test()]
        scripts = catalogue.select(catalogue.load(), ["intercomm"], ["pt2pt/pairs"])
        results += [await session.run(script) for script in scripts]
        results.append(await session.finish())
        assert failures(results) == []
        await other
    finally:
        other.cancel()
        await session.close()
        await command.end()


@pytest.mark.spec("I5.1-3", "I5.3-15")
@pytest.mark.asyncio
async def test_one_file_interprets_what_is_written_later(tmp_path: Path):
    """The interpreter as it is downloaded; it says how far it is."""
    file = tmp_path / archive.NAME
    file.write_bytes(archive.interpreter())
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "script.impi").write_text('/* New.\n   Rules: I5.1-3 */\n{ report("Result: Pass"); }')
    lines: list[str] = []
    command = [*COMMAND[: COMMAND.index("-m", 3)], sys.executable, str(file)]
    runner = Runner(command, LIMITS, say=lines.append)
    assert failures(await runner.run(Setup(iut_procs=1), catalogue.load(tmp_path))) == []
    for line in ("rank 2 of 3", "END EXECUTING rank 2", "new/script rank 2 done", "exit rank 2 done"):
        assert line in lines
