"""`python -m aiompi.bench steps` as a user runs it: functions are found in their order, each with what it takes."""

from __future__ import annotations

import contextlib
import json
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable

import pytest
from jobs import Site

from aiompi.arguments import integer
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


def half(call: Callable[[], object]) -> steps._Half:
    return steps._Half("send", call, {}, Counter(), Counter())


def test_functions_are_found_in_the_order_of_their_first_calls() -> None:
    found = half(lambda: [Status.of(), Status()])
    steps._trace(found)
    assert [(code.co_qualname, depth) for code, depth in found.order.items()] == [
        ("Status.of", 0),
        ("Status.__new__", 0),
        ("Status.assign", 1),
    ]
    steps._count(found)
    steps._count(found)
    assert found.calls[Status.of.__func__.__code__] == 2


def test_a_slow_function_is_found_running() -> None:
    class Slow(Status):
        def __index__(self) -> int:
            time.sleep(0.001)
            return 1

    def call() -> None:
        with contextlib.suppress(TypeError, ValueError):
            integer(Slow(), "slow")

    found, before = half(call), signal.getsignal(signal.SIGALRM)
    steps._look([found], 50)
    ((code, looks),) = found.looks.most_common(1)
    assert code is integer.__code__, "it is charged with what it has others do"
    assert 20 <= looks <= 400
    assert signal.getsignal(signal.SIGALRM) is before
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


@pytest.mark.parametrize("arguments", [["--objects", "magic"], ["--sizes", "4x"]], ids=" ".join)
def test_what_cannot_be_sent_is_refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["steps", *arguments])
    assert arguments[-1] in capsys.readouterr().err
