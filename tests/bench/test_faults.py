"""`python -m aiompi.bench faults`: a short campaign, and what it would find."""

from __future__ import annotations

import asyncio
import itertools
import math
import random
import sys
from pathlib import Path
from typing import Any

import pytest

import aiompi
from aiompi.bench.__main__ import main
from aiompi.bench.faults import growth
from aiompi.bench.faults.command import KINDS, TRANSPORTS, WAYS, plan_of
from aiompi.bench.faults.storms import Members, Ranks
from aiompi.bench.faults.trial import Injection, Plan
from aiompi.bench.measure import storm
from support.jobs import NEAREST, Site

#: way -> the seed of a small job whose first injection finds its victim; that of pools ends with their process
SEEDS = {
    "native": 336,
    "serve": 83,
    "members": 46,
    "spawn": 269,
    "executor": 23,
    "pool": 23,
    "open": 23,
    "blocking": 38,
}


@pytest.mark.parametrize(("transport", "way"), [*zip(itertools.cycle(TRANSPORTS), SEEDS, strict=False)])
def test_a_short_campaign(transport: str, way: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["faults", "--count", "1", "--seed", str(SEEDS[way]), "--transports", transport, "--ways", way]) == 0
    out = capsys.readouterr().out
    assert f"{transport:14}{way:10}" in out


def test_recovery_and_churn(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(growth, "BOUND", math.inf)  # this machine may be busy
    monkeypatch.setattr(growth, "_NOISE", 2**24)  # a few visits are no time to fill caches
    monkeypatch.setattr(growth, "_PARTS", 2)
    assert main(["faults", "--recovery", "1", "--transports", "tcp"]) == 0
    assert main(["faults", "--churn", "2", "--transports", NEAREST]) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[0].startswith("tcp: from the death of one of 3 members to a sum of the others: median ")
    assert len(out) == 3
    assert all("launcher" in line and line.count("KiB") == 3 for line in out[1:])


def test_a_seed_decides_everything() -> None:
    everything = TRANSPORTS, WAYS, KINDS
    assert {*SEEDS} == {*WAYS}
    plans = [plan_of(seed, *everything) for seed in range(300)]
    assert plans == [plan_of(seed, *everything) for seed in range(300)]
    assert {(plan.transport, plan.way) for plan in plans} == {(t, w) for t in TRANSPORTS for w in WAYS}
    for plan in plans:
        if plan.way in ("blocking", "native", "serve"):
            assert len({injection.victim for injection in plan.injections}) < plan.size, "somebody survives"


def end(rank: int, **more: Any) -> dict[str, Any]:
    return {"rank": rank, "members": [0, 1], "stale": [], "descriptors": [9, 9], "kept": [], "first_after": 0.0, **more}


@pytest.mark.parametrize(
    ("said", "errors", "wrong"),
    [
        ([end(0), end(1)], "", []),
        ([end(0), end(1, members=[1])], "", ["survivors disagree"]),
        ([end(0)], "", ["ranks [1] are missing, which were not hit"]),
        ([end(0, stale=[2]), end(1)], "", ["rank 0 has kept links to [2]"]),
        ([end(0, descriptors=[9, 11]), end(1)], "", ["rank 0 has kept links to [], descriptors 9 -> 11"]),
        ([end(0), end(1)], "aiompi-launch: rank 1 was stopped\n", ["the launcher reports ranks ['1']"]),
        ([end(0), end(1)], "Traceback", ["unexpected output"]),
    ],
)
def test_what_is_wrong_is_found(said: list[dict[str, Any]], errors: str, wrong: list[str], tmp_path: Path) -> None:
    injection = Injection(0.1, "kill", 2)
    trial = Ranks(Plan(1, "tcp", "native", 3, 0.5, (injection,)), tmp_path)
    trial.popen(("true",)).wait()
    trial.outcome.said, trial.outcome.errors = said, errors
    trial.check()
    found = trial.outcome.wrong
    assert all(any(text.startswith(start) for text in found) for start in wrong)
    assert bool(found) == bool(wrong)
    trial.clean_up()


def test_members_that_disagree_or_keep_descriptors_are_found(tmp_path: Path) -> None:
    trial = Members(Plan(1, "tcp", "members", 2, 0.5, ()), tmp_path)
    trial.outcome.said = [
        {"of": 7, "world": 1, "members": [7, 8]},
        {"of": 8, "world": 1, "members": [8]},
        {"of": 8, "kept": ["socket:[1]"]},
    ]
    trial.check()
    assert trial.outcome.wrong == ["process 8 has kept descriptors: ['socket:[1]']", "members disagree on world 1"]


def test_a_hang_is_found(site: Site) -> None:
    """Here no rank comes."""
    result = site.start(sys.executable, "-c", HANGS, str(site.directory)).finish()
    assert result.out == "the ranks did not start\n"


HANGS = """
import pathlib, sys
from aiompi.bench.faults import command, storms, trial
trial.START = 0.2
storms.LAUNCHER = (sys.executable, "-c", "import time; time.sleep(60)")
directory = pathlib.Path(sys.argv[1], "trial")
directory.mkdir()
print(storms.Ranks(command.plan_of(1, ["tcp"], ["native"], ["kill"]), directory).run().wrong[0])
"""


@pytest.mark.parametrize("operation", storm.OPERATIONS)
def test_each_operation_checks_its_results(operation: Any) -> None:
    async def run() -> None:
        worlds = aiompi.local_world(3)
        await asyncio.gather(*(operation(world, random.Random(1)) for world in worlds))

    asyncio.run(run())
    with pytest.raises(storm.WrongResult, match="3 in place of 4"):
        storm.check(3, 4)
