"""Reports of tests with several ranks: those of the ranks become one."""

from __future__ import annotations

import contextlib
import pickle
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple
from warnings import WarningMessage

import pytest
from _pytest._code.code import TerminalRepr
from _pytest._io import TerminalWriter

from aiompi.base.words import ranks_text

if TYPE_CHECKING:
    from aiompi.testing.jobs import Result
    from aiompi.testing.orders import Warned


class Failure(NamedTuple):
    """A failure of some ranks.

    Attributes:
        ranks: numbers of the ranks; none if it is of the test as a whole.
        shown: representation of the error: a text or an object of pytest.
    """

    ranks: Sequence[int]
    shown: Any


class RankFailures(TerminalRepr):
    """The representation of the failures of a test, each with its ranks.

    Args:
        failures: the failures. Those that look the same are shown once.
        size: number of ranks of the test.
        notes: text about the other ranks.

    Attributes:
        reprcrash: has the `message` that stands in the summary.
    """

    def __init__(self, failures: Iterable[Failure], size: int, notes: str = "") -> None:
        merged: dict[str, Failure] = {}
        for failure in failures:
            first = merged.setdefault(str(failure.shown), failure._replace(ranks=[]))
            merged[str(failure.shown)] = first._replace(ranks=[*first.ranks, *failure.ranks])
        self._failures = [*merged.values()]
        self._size = size
        self._notes = notes
        first = self._failures[0]
        crash = getattr(first.shown, "reprcrash", None)
        message = str(first.shown).strip().partition("\n")[0] if crash is None else crash.message
        self.reprcrash = SimpleNamespace(message=f"{title(first.ranks, size)}: {message}" if first.ranks else message)

    def toterminal(self, tw: TerminalWriter) -> None:
        for failure in self._failures:
            if failure.ranks:
                tw.sep("-", title(failure.ranks, self._size), bold=True)
            if hasattr(failure.shown, "toterminal"):
                failure.shown.toterminal(tw)
            else:
                tw.line(str(failure.shown).rstrip())
        if self._notes:
            tw.line(self._notes)


def title(ranks: Sequence[int], size: int) -> str:
    """Return the name of some ranks of a test."""
    return f"{ranks_text(ranks)} of {size}"


def merge(item: pytest.Item, reports: Mapping[int, pytest.TestReport], size: int, notes: str) -> pytest.TestReport:
    """Return one report of a phase of a test (setup, call or teardown) from those of its ranks.

    Args:
        item: the test.
        reports: by rank, at least one.
        size: number of ranks of the test.
        notes: text about ranks without a report, for a failure.
    """
    expected = any(hasattr(report, "wasxfail") and report.skipped for report in reports.values())
    failed = {} if expected else {rank: report for rank, report in reports.items() if report.failed}
    skipped = [report for report in reports.values() if report.skipped]
    chosen = [*failed.values(), *skipped, *reports.values()][0]
    longrepr = chosen.longrepr
    if failed:
        shown = (Failure([rank], report.longrepr) for rank, report in failed.items())
        longrepr = RankFailures(shown, size, notes)
    merged = pytest.TestReport(
        item.nodeid,
        item.location,
        chosen.keywords,
        "failed" if failed else "skipped" if skipped else "passed",
        longrepr,
        chosen.when,
        [
            (header_of(header, rank), text)
            for rank, report in sorted(reports.items())
            for header, text in report.sections
            if text
        ],
        max(report.duration for report in reports.values()),
        min(report.start for report in reports.values()),
        max(report.stop for report in reports.values()),
        [each for report in reports.values() for each in report.user_properties],
    )
    if hasattr(chosen, "wasxfail"):
        merged.wasxfail = chosen.wasxfail
    return merged


def of_test(
    item: pytest.Item, of_ranks: Mapping[int, Sequence[pytest.TestReport]], size: int, result: Result
) -> list[pytest.TestReport]:
    """Return the reports of a test from those of its ranks.

    Args:
        item: the test.
        of_ranks: for each rank that has run it to its end, the reports of its phases.
        size: number of ranks of the test.
        result: how it has ended.
    """
    phases: dict[str, dict[int, pytest.TestReport]] = {}
    for rank, reports in sorted(of_ranks.items()):
        for report in reports:
            phases.setdefault(str(report.when), {})[rank] = report
    merged = [merge(item, phases[when], size, result.notes) for when in ("setup", "call", "teardown") if when in phases]
    if result.trouble and not any(report.failed for report in merged):
        failure = failed_report(item, RankFailures([Failure((), result.trouble)], size))
        failure.sections = [section for report in merged for section in report.sections]
        return [*(report for report in merged if report.when == "setup"), failure]
    return merged


def warnings_of(warned: Mapping[int, Sequence[Warned]], size: int) -> Iterator[tuple[WarningMessage, str]]:
    """Yield the warnings in the ranks of a test, each once, and the ranks in words if they are not all.

    Args:
        warned: the warnings, by rank.
        size: number of ranks of the test.
    """
    ranks: dict[Warned, dict[int, None]] = {}
    for rank, each in sorted(warned.items()):
        for warning in each:
            ranks.setdefault(warning, {})[rank] = None
    for warning, found in ranks.items():
        message = _unpacked(warning)
        record = WarningMessage(message, type(message), warning.filename, warning.lineno)
        yield record, "" if len(found) == size else title([*found], size)


def _unpacked(warned: Warned) -> Warning:
    with contextlib.suppress(Exception):  # of the program's class
        warning = pickle.loads(warned.packed)
        if isinstance(warning, Warning):
            return warning
    return UserWarning(warned.text)


def header_of(header: str, rank: int) -> str:
    """Return the header of captured output with the rank, as in "Captured stdout of rank 1 call"."""
    stream, _, when = header.rpartition(" ")
    return f"{stream} of rank {rank} {when}"


def failed_report(item: pytest.Item, longrepr: Any, seconds: float = 0.0) -> pytest.TestReport:
    """Return the report of a test that has failed as a whole."""
    return pytest.TestReport(item.nodeid, item.location, {**item.keywords}, "failed", longrepr, "call", (), seconds)


def skipped_report(item: pytest.Item, reason: str) -> pytest.TestReport:
    """Return the report of a test that is skipped without having been started."""
    path, line, _ = item.reportinfo()
    place = (str(path), (line or 0) + 1, f"Skipped: {reason}")
    return pytest.TestReport(item.nodeid, item.location, {**item.keywords}, "skipped", place, "setup")


def waits_text(lines: str, seconds: float | None) -> str:
    """Return the text on the ranks that had to be stopped.

    Args:
        lines: what each does, as `compare` has it.
        seconds: limit of the test that has passed; None if the others were stopped because a rank had failed.
    """
    _, _, states = lines.partition("\n")
    if seconds is None:
        return f"These ranks still waited, and were stopped:\n{states}"
    return f"The test has not ended after {seconds:g} s. The ranks wait:\n{states}"
