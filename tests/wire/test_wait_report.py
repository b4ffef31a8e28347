"""Reports of ranks: what follows from them, and reports that cannot be read."""

from __future__ import annotations

from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiompi.wire import control
from aiompi.wire.wait_report import MAX_FINDINGS, MAX_TEXT, MAX_WAITS, Wait, WaitReport, compare
from support.cases import cases

WORLD = (0, 1, 2)


def recv(source: int, **fields: Any) -> WaitReport:
    return WaitReport((Wait(f"recv(source={source})", "app.py:3", 2.04, "WORLD", (source,)),), **fields)


def collective(name: str, number: int, *on: int, place: str = "app.py:9") -> WaitReport:
    wait = Wait(name, place, 2.0, "WORLD", on, "ring", context=0, number=number, members=WORLD)
    return WaitReport((wait,), {0: number})


def findings(reports: dict[int, WaitReport], *silent: int) -> list[str]:
    return [line for line in compare(reports, silent).splitlines()[1:] if not line.startswith("  ")]


def test_what_each_rank_does() -> None:
    waiting = Wait("Ibcast", "app.py:8", 1.0, "WORLD", (0, 1), "ring", 0, 4, WORLD, "of app.py:7, in Wait")
    many = Wait("Recv", "app.py:1", 0.26, on=tuple(range(1, 22, 2)))
    reports = {0: WaitReport((waiting, many)), 1: WaitReport(last="its last call ended"), 3: WaitReport()}
    assert compare(reports, [2]).splitlines()[:6] == [
        "some ranks have been waiting for a while; this is what all do:",
        "  rank 0: Ibcast #4 on WORLD (ring) of app.py:7, in Wait at app.py:8 for 1.0 s, waiting for ranks 0-1",
        "  rank 0: Recv at app.py:1 for 0.3 s, waiting for ranks 1, 3, 5, 7, 9, 11, 13, 15, ...",
        "  rank 1: in no MPI call; its last call ended",
        "  rank 2: no answer: it computes, or waits for something else, and makes no MPI call",
        "  rank 3: in no MPI call",
    ]


def test_ranks_that_have_not_come() -> None:
    """Ranks that wait elsewhere, ranks that do not wait, and ranks without a report."""
    here = collective("Barrier", 4)
    assert findings({0: here, 1: recv(0, counts={0: 3}), 2: here}) == [
        "rank 1 has not come to Barrier #4 on WORLD: it is in recv(source=0) on WORLD at app.py:3",
    ]
    assert findings({0: here, 2: WaitReport(counts={0: 3}, last="its last call, x, ended 1.0 s ago")}, 1) == [
        "rank 1 may not have come to Barrier #4 on WORLD: it does not answer",
        "rank 2 has not come to Barrier #4 on WORLD: it is in no MPI call; its last call, x, ended 1.0 s ago",
    ]


def test_ranks_that_were_there() -> None:
    """One that is past the collective is told only if somebody waits for it there, as when its part has failed."""
    failed = WaitReport(counts={0: 4}, last="its last call, Bcast at app.py:9, failed (TruncationError: ...) 1.0 s ago")
    assert findings({0: collective("Bcast", 4, 1), 1: failed, 2: WaitReport(counts={0: 4})}) == [
        "rank 1 is past Bcast #4 on WORLD, where others wait for it: it is in no MPI call; its last call, Bcast at "
        "app.py:9, failed (TruncationError: ...) 1.0 s ago",
    ]


def test_ranks_that_disagree() -> None:
    reports = {rank: collective("Bcast(root=0)", 4) for rank in (0, 1)}
    reports[2] = collective("Bcast(root=1)", 4, place="app.py:5")
    assert findings(reports) == [
        "ranks disagree: rank 2 has called Bcast(root=1) #4 on WORLD at app.py:5, others Bcast(root=0) #4 on WORLD"
    ]


@cases(
    ("sources", "circles"),
    [
        ([1, 0], ["rank 0 for rank 1, rank 1 for rank 0"]),
        ([2, 0, 1, 0], ["rank 0 for rank 2, rank 2 for rank 1, rank 1 for rank 0"]),
        ([1, 0, 3, 2], ["rank 0 for rank 1, rank 1 for rank 0", "rank 2 for rank 3, rank 3 for rank 2"]),
        ([1, 2, 3, 9], []),
    ],
)
def test_ranks_that_wait_in_a_circle(sources: list[int], circles: list[str]) -> None:
    found = findings({rank: recv(source) for rank, source in enumerate(sources)})
    assert sorted(found) == [f"ranks wait in a circle: {circle}" for circle in circles]


def test_reports_travel() -> None:
    report = WaitReport((Wait("Recv", "a.py:1", 1.5, "c", (1,), "ring", 2, 3, (0, 1), "of b.py:2"),), {0: 4, 7: 1}, "x")
    assert WaitReport.unpack(msgpack.unpackb(msgpack.packb(report.pack()))) == report


def test_reports_are_bounded() -> None:
    packed = WaitReport(tuple(Wait("R" * 1000, "p", 1.0) for _ in range(100)), last="l" * 1000).pack()
    read = WaitReport.unpack({**packed, "waits": packed["waits"] * 5})
    assert len(read.waits) == MAX_WAITS
    assert {len(wait.call) for wait in read.waits} == {MAX_TEXT}
    assert len(packed["last"]) == MAX_TEXT


def test_a_report_of_many_ranks_is_short_enough() -> None:
    everybody = tuple(range(10**9, 10**9 + 10**5))
    text = "\U0001f40d" * 1000
    waits = [Wait(text, text, 1.0, text, everybody, text, 2**63, 2**63, everybody[:4096], text) for _ in range(100)]
    report = WaitReport(tuple(waits), {2**63 + n: 2**63 for n in range(10**5)}, text)
    packed = control.encode(control.Report(1, report.pack()))
    (read,) = control.Decoder(most=control.MAX_FROM_RANK).receive_data(packed)
    assert len(WaitReport.unpack(read.report).waits) == MAX_WAITS


@pytest.mark.parametrize("text", ["a\nb", "\x1b[2J", "\u202e"])
def test_texts_of_reports_stay_in_their_line(text: str) -> None:
    packed = WaitReport((Wait(text, text, 1.0, text, (), text, 0, 1, (0,), text),), {}, text).pack()
    lines = compare({0: WaitReport.unpack(packed), 1: WaitReport.unpack({**packed, "waits": []})}, [])
    assert len(lines.splitlines()) == 3
    assert all(line.isprintable() for line in lines.split("\n"))


def test_a_report_that_is_nested_deeply_is_empty() -> None:
    deep: list[Any] = []
    for _ in range(900):
        deep = [deep]
    wait = [deep, "", 1.0, "", [], "", 0, 0, [], ""]
    for packed in ({"waits": [wait], "counts": [], "last": ""}, {"waits": [], "counts": [], "last": deep}):
        assert WaitReport.unpack(packed) == WaitReport()


def test_members_that_are_named_often_are_described_once() -> None:
    wait = Wait("Bcast", "a.py:1", 1.0, "WORLD", (), "", 0, 1, (1,) * 4096)
    assert len(compare({0: WaitReport.unpack(WaitReport((wait,)).pack())}, [1]).splitlines()) == 4


JUNK = st.recursive(
    st.one_of(st.none(), st.integers(), st.text(max_size=5), st.floats()),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=3), inner, max_size=3)),
    max_leaves=8,
)


@given(st.one_of(JUNK, st.fixed_dictionaries({"waits": JUNK, "counts": JUNK, "last": JUNK})))
def test_reports_that_cannot_be_read_are_empty(packed: Any) -> None:
    """Whatever a rank sends, the launcher lives on."""
    compare({0: WaitReport.unpack(packed)}, [1])


def test_the_text_about_hostile_reports_is_bounded() -> None:
    """Each character of a report may take ten when it is printed, and each of its waits a line for each rank."""
    ranks, strange = 200, "\U000e0001" * MAX_TEXT
    everyone = tuple(range(ranks))
    waits = tuple(
        Wait(strange, strange, 1.0, strange, everyone, strange, 100 + nth, 1, everyone, strange)
        for nth in range(MAX_WAITS)
    )
    reports = dict.fromkeys(everyone, WaitReport()) | {0: WaitReport.unpack(WaitReport(waits).pack())}
    lines = compare(reports, []).splitlines()
    assert len(lines) == 1 + MAX_WAITS + (ranks - 1) + MAX_FINDINGS
    assert max(map(len, lines)) < 10 * MAX_TEXT
    digits = WaitReport((waits[0]._replace(on=("9" * 4000,), number="9" * 4000),)).pack()  # type: ignore[arg-type]
    assert WaitReport.unpack(digits) == WaitReport()
