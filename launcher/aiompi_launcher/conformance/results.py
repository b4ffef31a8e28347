"""Results of tests, as text, JSON and JUnit XML (section 5.1)."""

from __future__ import annotations

import enum
import json
from dataclasses import dataclass, field
from typing import Any
from xml.etree import ElementTree

from aiompi_launcher.conformance.journal import Deviation, Severity, Step


class Verdict(enum.Enum):
    """Outcome of a test."""

    PASS = "pass"
    FAIL = "fail"
    INDETERMINATE = "indeterminate"


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a test.

    Attributes:
        reason: one line.
        reports: what the simulated processes reported, in order.
        steps: packets; kept for tests that did not pass.
    """

    name: str
    verdict: Verdict
    reason: str
    seconds: float = 0.0
    rules: tuple[str, ...] = ()
    reports: tuple[str, ...] = ()
    deviations: tuple[Deviation, ...] = ()
    steps: tuple[Step, ...] = field(default=(), repr=False)

    @property
    def group(self) -> str:
        return self.name.partition("/")[0]


def as_text(results: list[Result]) -> str:
    """Return a text: one line per test, with details of the tests that did not pass."""
    return "".join(map(details, results)) + summary(results) + "\n"


def details(result: Result) -> str:
    """Return one result as text."""
    lines = [f"{result.verdict.name:13} {result.name:36} {result.reason}".rstrip()]
    if result.verdict is not Verdict.PASS:
        lines += [f"    {report}" for report in result.reports]
    lines += [f"    {deviation}".replace("\n", "\n    ") for deviation in result.deviations]
    return "\n".join(lines) + "\n"


def summary(results: list[Result]) -> str:
    """Return the counts in one line."""
    counts = {verdict: sum(result.verdict is verdict for result in results) for verdict in Verdict}
    numbers = ", ".join(f"{count} {verdict.value}" for verdict, count in counts.items())
    return f"{len(results)} tests: {numbers}"


def as_dict(result: Result) -> dict[str, Any]:
    """Return a result in JSON types."""
    return {
        "name": result.name,
        "group": result.group,
        "verdict": result.verdict.value,
        "reason": result.reason,
        "seconds": round(result.seconds, 3),
        "rules": list(result.rules),
        "reports": list(result.reports),
        "deviations": [_deviation(deviation) for deviation in result.deviations],
        "steps": [step_as_dict(step) for step in result.steps],
    }


def step_as_dict(step: Step) -> dict[str, Any]:
    return {
        "text": step.text,
        "data": step.data.hex(),
        "deviations": [_deviation(deviation) for deviation in step.deviations],
    }


def _deviation(deviation: Deviation) -> dict[str, Any]:
    return {
        "rule": deviation.rule,
        "section": deviation.section,
        "severity": deviation.severity.value,
        "problem": deviation.problem,
        "expected": None if deviation.expected is None else deviation.expected.hex(),
        "actual": None if deviation.actual is None else deviation.actual.hex(),
    }


def as_json(results: list[Result]) -> str:
    return json.dumps({"summary": summary(results), "tests": [as_dict(result) for result in results]}, indent=1) + "\n"


def as_junit(results: list[Result]) -> str:
    """Return JUnit XML, with indeterminate tests as skipped."""
    failures = sum(result.verdict is Verdict.FAIL for result in results)
    skipped = sum(result.verdict is Verdict.INDETERMINATE for result in results)
    counts = {"tests": str(len(results)), "failures": str(failures), "skipped": str(skipped), "errors": "0"}
    suite = ElementTree.Element("testsuite", {"name": "aiompi-impi-tester", **counts})
    for result in results:
        case = ElementTree.SubElement(suite, "testcase", classname=result.group, name=result.name)
        case.set("time", f"{result.seconds:.3f}")
        if result.verdict is Verdict.FAIL:
            failure = ElementTree.SubElement(case, "failure", message=_printable(result.reason))
            errors = [deviation for deviation in result.deviations if deviation.severity is Severity.ERROR]
            failure.text = _printable("\n".join([*result.reports, *map(str, errors)]))
        elif result.verdict is Verdict.INDETERMINATE:
            ElementTree.SubElement(case, "skipped", message=_printable(result.reason))
    root = ElementTree.Element("testsuites")
    root.append(suite)
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _printable(text: str) -> str:
    """Replace control characters, which XML does not allow."""
    return "".join(character if character >= " " or character in "\n\t" else "?" for character in text)
