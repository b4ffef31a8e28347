"""`python -m aiompi.bench steps` as a user runs it: functions are found in their order, each with what it takes."""

from __future__ import annotations

import json
import sys

import pytest
from jobs import Site

from aiompi.bench.__main__ import main
from aiompi.bench.measure import steps
from aiompi.status import Status

HALVES = ("send", "recv")
SENDING = ["Peer.send", "RingLink.dispatch", "Outbound.put"]
BENCH = (sys.executable, "-m", "aiompi.bench", "steps")


def test_the_way_of_a_message(site: Site) -> None:
    path = site.directory / "steps.json"
    result = site.start(*BENCH, "--quick", "--sizes", "64,8", "--objects", "dict", "--json", str(path)).finish()
    assert (result.code, result.err) == (0, "")
    results = json.loads(path.read_text(encoding="utf8"))
    assert results["complete"]
    assert [(work["payload"], work["nbytes"]) for work in results["steps"]][1:] == [("", 8), ("", 64)]
    for work in results["steps"]:
        for rank in work["ranks"]:
            assert all(seconds > 0 for seconds in rank["seconds"])
            send, recv = ({name: (depth, calls) for depth, name, _, calls, _ in rank[half]} for half in HALVES)
            assert [name for name in send if name in SENDING] == SENDING
            assert send["Peer.send"] == (2, 1)
            assert recv["Engine.receive"][1] == 1
            assert ("Codec.dumps" in send) == bool(work["payload"])
            assert all(seconds >= 0 for half in HALVES for *_, seconds in rank[half])
    assert "\n8 B: " in result.out
    assert "\n    Peer.send  " in result.out
    assert "  engine/peer.py:" in result.out


def test_what_the_profiler_takes_is_known() -> None:
    overhead = steps._overhead()
    assert 0 < overhead.inside + overhead.outside < 1e-4
    assert min(overhead) >= 0


def test_functions_are_found_in_the_order_of_their_first_calls() -> None:
    names = [(code.co_qualname, depth) for code, depth in steps._passed(lambda: [Status.of(), Status()]).items()]
    assert names == [("Status.of", 0), ("Status.__new__", 0), ("Status.assign", 1)]


@pytest.mark.parametrize("arguments", [["--objects", "magic"], ["--sizes", "4x"]], ids=" ".join)
def test_what_cannot_be_sent_is_refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["steps", *arguments])
    assert arguments[-1] in capsys.readouterr().err
