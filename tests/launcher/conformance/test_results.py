"""Results as text, JSON and JUnit XML (IMPI 0.0, section 5.1)."""

from __future__ import annotations

import json
from xml.etree import ElementTree

import pytest

from aiompi_launcher.conformance.journal import Deviation, Journal, Severity, Step, show
from aiompi_launcher.conformance.results import Result, Verdict, as_json, as_junit, as_text

WRONG = Deviation("I3.7.1-3", "no SYNCACK", b"\0\0\0\3", b"\0\0\0\0")
HINT = Deviation("I3.5-9", "junk", None, b"\xff" * 5, Severity.NOTE)
RESULTS = [
    Result("a/one", Verdict.PASS, "", 0.25, ("I3.5-1",), ("rank 0: Result: Pass",), (HINT,)),
    Result(
        "a/two", Verdict.FAIL, "no SYNCACK\x01", 1.5, (), ("rank 1 waits",), (WRONG,), (Step("x > y", b"\1", (WRONG,)),)
    ),
    Result("b/three", Verdict.INDETERMINATE, "Test skipped."),
]


@pytest.mark.spec("I5.1-20")
def test_text():
    assert as_text(RESULTS).splitlines() == [
        "PASS          a/one",
        "    note: junk (rule I3.5-9, section 3.5)",
        "        actual   ffffffff ff",
        "FAIL          a/two                                no SYNCACK\x01",
        "    rank 1 waits",
        "    error: no SYNCACK (rule I3.7.1-3, section 3.7.1)",
        "        expected 00000003",
        "        actual   00000000",
        "INDETERMINATE b/three                              Test skipped.",
        "3 tests: 1 pass, 1 fail, 1 indeterminate",
    ]


@pytest.mark.spec("I5.1-20")
def test_json():
    one, two, three = json.loads(as_json(RESULTS))["tests"]
    assert (one["group"], one["verdict"], one["seconds"], one["rules"]) == ("a", "pass", 0.25, ["I3.5-1"])
    assert one["deviations"][0]["severity"] == "note"
    assert two["deviations"][0] | {"severity": ""} == {
        "rule": "I3.7.1-3",
        "section": "3.7.1",
        "severity": "",
        "problem": "no SYNCACK",
        "expected": "00000003",
        "actual": "00000000",
    }
    assert two["steps"][0]["data"] == "01"
    assert three["verdict"] == "indeterminate"


@pytest.mark.spec("I5.1-20")
def test_junit():
    suite = ElementTree.fromstring(as_junit(RESULTS))[0]
    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == ("3", "1", "1")
    one, two, three = suite
    assert (one.get("classname"), one.get("name"), one.get("time"), list(one)) == ("a", "a/one", "0.250", [])
    assert two[0].get("message") == "no SYNCACK?"
    assert "expected 00000003" in (two[0].text or "")
    assert three[0].tag == "skipped"


def test_journals_are_bounded_and_make_a_note_once():
    journal = Journal()
    for _ in range(600):
        journal.write("packet", b"", (WRONG, HINT))
    assert len(journal.errors) < len(journal.steps)
    assert sum(deviation is HINT for deviation in journal.deviations) == 1
    journal.begin()
    assert (list(journal.steps), journal.deviations) == ([], [])
    assert show(bytes(200)).endswith("... (200 bytes)")
