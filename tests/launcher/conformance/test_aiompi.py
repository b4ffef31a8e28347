"""aiompi under test: its own launcher, processes and channels, judged by the conformance tester."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import pytest

import aiompi
import aiompi_launcher
from aiompi_launcher.conformance import archive, catalogue
from aiompi_launcher.conformance.command import TEMPLATE, Command, environment, fill
from aiompi_launcher.conformance.peer import Peer
from aiompi_launcher.conformance.results import Result, Verdict
from aiompi_launcher.conformance.runner import Runner
from aiompi_launcher.conformance.session import Limits, Session
from aiompi_launcher.conformance.setup import Setup

ROOTS = os.pathsep.join(str(Path(module.__file__ or "").parent.parent) for module in (aiompi, aiompi_launcher))
COMMAND = ["python", "-m", "aiompi_launcher", *TEMPLATE[1:]]

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

CONFIGURATIONS = {
    "last": Setup(),
    "first": Setup(first=1),
    "between": Setup(iut_clients=2, first=1, iut_procs=1),
    "one process each": Setup(procs=1, iut_procs=1),
    "four processes": Setup(procs=4, iut_procs=4),
    "two hosts": Setup(hosts=2, procs=1),
    "three simulated clients": Setup(clients=3, procs=1, iut_procs=2),
    "three clients under test": Setup(iut_clients=3, iut_procs=1, procs=1),
    "with a key": Setup(key=2**63 + 1, iut_procs=3),
}


@pytest.fixture(autouse=True)
def importable(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The launcher finds the packages, and makes its files in a place of its own."""
    monkeypatch.setenv("PYTHONPATH", ROOTS)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))


def failures(results: list[Result]) -> list[Result]:
    return [result for result in results if result.verdict is not Verdict.PASS]


@pytest.mark.spec("I5.1-18", "I5.3-2", "I5.3-3", "I5.3-4")
@pytest.mark.parametrize("setup", CONFIGURATIONS.values(), ids=list(CONFIGURATIONS))
@pytest.mark.asyncio
async def test_aiompi_passes(setup: Setup):
    runner = Runner(COMMAND, Limits(startup=30, quiet=15))
    results = await runner.run(setup, catalogue.select(catalogue.load(), [], list(CHOSEN)))
    assert failures(results) == []
    assert len(results) == len(CHOSEN) + 3  # start-up, delivery, shutdown


@pytest.mark.spec("I5.1-8", "I5.1-10")
@pytest.mark.asyncio
async def test_aiompi_starts_and_ends():
    results = await Runner(COMMAND, Limits(startup=30, quiet=15)).startup_only(Setup(first=1))
    assert failures(results) == []
    assert [result.name for result in results] == ["start-up", "start-up only"]


@pytest.mark.spec("I5.1-19")
@pytest.mark.asyncio
async def test_another_implementation_in_the_same_job():
    """aiompi, the tester's processes, and somebody else, who is a simulated peer here."""
    setup = Setup(iut_clients=2, iut_procs=1)
    session = Session(setup, Limits(startup=30, quiet=15))
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
    runner = Runner(command, Limits(startup=30, quiet=15), say=lines.append)
    assert failures(await runner.run(Setup(iut_procs=1), catalogue.load(tmp_path))) == []
    for line in ("rank 2 of 3", "END EXECUTING rank 2", "new/script rank 2 done", "exit rank 2 done"):
        assert line in lines
