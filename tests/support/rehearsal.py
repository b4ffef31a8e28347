"""Jobs of the IMPI conformance tester in one event loop: simulated processes on both sides, over real TCP."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable
from dataclasses import dataclass, field

from aiompi_launcher.conformance.catalogue import Script
from aiompi_launcher.conformance.faults import Fallible, fault
from aiompi_launcher.conformance.journal import Deviation
from aiompi_launcher.conformance.model.client import Part
from aiompi_launcher.conformance.peer import Peer
from aiompi_launcher.conformance.results import Result, Verdict
from aiompi_launcher.conformance.session import Limits, Session
from aiompi_launcher.conformance.setup import Setup

from .limits import LIMIT

PATIENT = Limits(startup=LIMIT, quiet=LIMIT)  # for tests that are expected not to hang
HASTY = Limits(startup=1, quiet=0.3)  # for tests that are expected to hang


@dataclass
class Outcome:
    """The outcome of a job.

    Attributes:
        broken: why it did not start, or could not go on.
    """

    results: list[Result] = field(default_factory=list)
    broken: str = ""

    @property
    def passed(self) -> bool:
        return not self.broken and all(result.verdict is Verdict.PASS for result in self.results)

    @property
    def deviations(self) -> list[Deviation]:
        return [deviation for result in self.results for deviation in result.deviations]

    @property
    def rules(self) -> set[str]:
        return {deviation.rule for deviation in self.deviations}


def peers(setup: Setup, faulty: str = "") -> list[Peer]:
    """The clients under test."""
    return [
        Peer(
            Part(rank, (f"127.0.0.{200 + rank}",), setup.iut_procs, setup.key),
            Fallible(fault(faulty)) if faulty else None,
        )
        for rank in setup.under_test
    ]


async def rehearse(setup: Setup, scripts: Iterable[Script], faulty: str = "", limits: Limits = PATIENT) -> Outcome:
    """Run scripts, and the end of the job, against simulated clients of which the tester does not know."""
    outcome = Outcome()
    session = Session(setup, limits)
    address = await session.open()
    running = [asyncio.create_task(peer.run(*address)) for peer in peers(setup, faulty)]
    try:
        outcome.results.append(await session.start())
        if not session.broken:
            outcome.results.append(await session.first_test())
            for script in scripts:
                outcome.results.append(await session.run(script))
            outcome.results.append(await session.finish())
    finally:
        outcome.broken = session.broken
        await session.close()
        for task in running:
            task.cancel()
        for task in running:
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await task
    return outcome
