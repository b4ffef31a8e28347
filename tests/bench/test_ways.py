"""`python -m aiompi.bench ways` as a user runs it: each way is switched off in ranks that take turns with others."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest
from jobs import Site

from aiompi.bench import ways as command
from aiompi.bench.__main__ import main
from aiompi.bench.measure import ways
from aiompi.bench.measure.without import WAYS

BENCH = (sys.executable, "-m", "aiompi.bench", "ways")


def test_ways_are_switched_off_by_turns(site: Site) -> None:
    path = site.directory / "ways.json"
    arguments = ("--quick", "--sizes", "8,512k", "--placed", "apart", "--waiting", "spin", "--json", str(path))
    result = site.start(*BENCH, "pool", "slots", *arguments).finish()
    assert (result.code, result.err) == (0, "")
    results = json.loads(path.read_text(encoding="utf8"))
    assert results["complete"]
    rows = [(row["way"], row["payload"], row["memory"], [*row["ratios"]]) for row in results["ways"]]
    exchanged = [
        ("pool", payload, memory, ["524288"]) for payload in ("buffer", "object") for memory in command.MEMORY[:2]
    ]
    assert rows == exchanged + [("slots", payload, "again", ["8"]) for payload in WAYS["slots"].payloads]
    assert all(ratio > 0 for row in results["ways"] for turns in row["ratios"].values() for ratio in turns)
    assert f"\npool: {WAYS['pool'].about}" in result.out
    assert result.out.count("earn") == 2, "a verdict for each"


def test_what_is_replaced_is_there() -> None:
    for way in WAYS.values():
        assert all(hasattr(place, name) for place, name, _ in way.replaced)
        assert way.replaced or way.variables


def test_time_of_writing_messages_does_not_count() -> None:
    leader, follower = [[10.0, 1.0], [11.0, 2.0]], [[99.0, 2.0], [99.0, 2.0]]
    assert command._round_trip([leader, follower]) == 7.0
    other = [[20.0, 0.0], [20.0, 0.0]]
    assert command._round_trip([leader, other, follower, other]) == 13.5, "the mean of two pairs"


def test_memory_that_is_cycled_through() -> None:
    parts = ways._parts("a test", 10, 3)
    found = [next(parts) for _ in range(6)]
    assert len({array.ctypes.data for array in found}) == 3
    assert all(np.shares_memory(*pair) for pair in zip(found[:3], found[3:], strict=True))


@pytest.mark.parametrize("arguments", [["magic"], ["--memory", "warm"], ["--sizes", "4x"]], ids=" ".join)
def test_what_cannot_be_measured_is_refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["ways", *arguments])
    assert arguments[-1] in capsys.readouterr().err
