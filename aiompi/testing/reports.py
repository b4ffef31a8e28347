"""Reports of tests with several ranks: the reports of the ranks become one report."""

from __future__ import annotations

import contextlib
import copy
import pickle
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias
from warnings import WarningMessage

import pytest
from _pytest._code.code import ReprEntryNative, ReprFileLocation, ReprTraceback, TerminalRepr
from _pytest._io import TerminalWriter

from aiompi.base.words import ranks_text
from aiompi.wire.wait_report import WaitReport

if TYPE_CHECKING:
    from aiompi.testing.jobs import Result
    from aiompi.testing.orders import Warned

#: activity and place of a rank that has ended a test while others wait in it
ENDED: Final = "it has ended the test"
AT_END: Final = "at the end of the test"


class Failure(NamedTuple):
    """A failure of some ranks.

    Attributes:
        ranks: numbers of the ranks; none if the report is about the test as a whole.
        shown: representation of the error: a text or an object of pytest.
    """

    ranks: Sequence[int]
    shown: Any


class RankFailures(TerminalRepr):
    """The representation of the failures of a test, each with its ranks.

    Args:
        item: the test.
        failures: the failures. Equal failures are shown once.
        size: number of ranks of the test.
        notes: text about the other ranks.
        message: text for pytest's summary; by default the first line of the first failure.

    Attributes:
        reprcrash: the line of the first failure, and the message.
        sections: empty. A process of pytest-xdist sends `reprcrash`, `reprtraceback` and `sections` to the main
            process.
    """

    def __init__(
        self, item: pytest.Item, failures: Iterable[Failure], size: int, notes: str = "", message: str = ""
    ) -> None:
        merged: dict[str, Failure] = {}
        for failure in failures:
            first = merged.setdefault(str(failure.shown), failure._replace(ranks=[]))
            merged[str(failure.shown)] = first._replace(ranks=[*first.ranks, *failure.ranks])
        self._failures = [*merged.values()]
        self._size = size
        self._notes = notes
        self.sections: list[tuple[str, str, str]] = []
        ranks, shown = self._failures[0]
        path, line, _ = item.location
        crash = getattr(shown, "reprcrash", None) or ReprFileLocation(path, (line or 0) + 1, str(shown).strip())
        message = message or crash.message.partition("\n")[0]
        message = f"{title(ranks, size)}: {message}" if ranks else message
        self.reprcrash = ReprFileLocation(crash.path, crash.lineno, message)

    @property
    def reprtraceback(self) -> ReprTraceback:
        """All of the representation as one text."""
        return ReprTraceback([ReprEntryNative([f"{self}\n"])], None, "native")

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


#: identifies a report among the reports of a rank: its phase, its subtest if it has one, and the number of such reports
#: before it
_Phase: TypeAlias = tuple[str, str, int]


def merge(item: pytest.Item, reports: Mapping[int, pytest.TestReport], size: int, notes: str) -> pytest.TestReport:
    """Merge the reports of ranks on one phase of a test (setup, call or teardown), or on one subtest, into one report.

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
    merged = copy.copy(chosen)
    merged.outcome = "failed" if failed else "skipped" if skipped else "passed"
    if failed:
        shown = (Failure([rank], report.longrepr) for rank, report in failed.items())
        merged.longrepr = RankFailures(item, shown, size, notes)
    merged.sections = [
        (header_of(header, rank), text)
        for rank, report in sorted(reports.items())
        for header, text in report.sections
        if text
    ]
    merged.duration = max(report.duration for report in reports.values())
    merged.start = min(report.start for report in reports.values())
    merged.stop = max(report.stop for report in reports.values())
    merged.user_properties = [each for report in reports.values() for each in report.user_properties]
    return merged


def of_test(
    item: pytest.Item, of_ranks: Mapping[int, Sequence[pytest.TestReport]], size: int, result: Result
) -> list[pytest.TestReport]:
    """Return the reports of a test, made from the reports of its ranks.

    Args:
        item: the test.
        of_ranks: for each rank that has run the test to its end, the reports of the rank's phases and subtests.
        size: number of ranks of the test.
        result: how it has ended.
    """
    phases: dict[_Phase, dict[int, pytest.TestReport]] = {}
    for rank, reports in sorted(of_ranks.items()):
        before = Counter[tuple[str, str]]()
        for report in reports:
            phase = (str(report.when), str(getattr(report, "context", "")))
            phases.setdefault((*phase, before[phase]), {})[rank] = report
            before[phase] += 1
    when = ("setup", "call", "teardown").index
    found = sorted(phases.items(), key=lambda each: (when(each[0][0]), not each[0][1]))  # subtests before their test
    merged = [merge(item, reports, size, result.notes) for _, reports in found]
    subtests = sum(report.failed for report in merged if hasattr(report, "context"))
    for report in merged:
        if subtests and report.when == "call" and report.passed and not hasattr(report, "context"):
            report.outcome = "failed"
            report.longrepr = f"contains {subtests} failed subtest{'s' * (subtests > 1)}"
    if result.trouble and not any(report.failed for report in merged):
        shown = RankFailures(item, [Failure((), result.trouble)], size, message=result.summary)
        failure = failed_report(item, shown)
        failure.sections = [section for report in merged for section in report.sections]
        return [*(report for report in merged if report.when == "setup"), failure]
    return merged


def warnings_of(warned: Mapping[int, Sequence[Warned]], size: int) -> Iterator[tuple[WarningMessage, str]]:
    """Yield each warning of a test once, with a text that names its ranks; the text is empty if all ranks have warned.

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
    with contextlib.suppress(Exception):  # the class of the warning is the program's: loading may raise anything
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
    where = item.nodeid, item.location
    # Keywords are names only, as in pytest's own reports: marks cannot be sent to another process.
    return pytest.TestReport(*where, dict.fromkeys(item.keywords, 1), "failed", longrepr, "call", (), seconds)


def skipped_report(item: pytest.Item, reason: str) -> pytest.TestReport:
    """Return the report of a test that is skipped without having been started."""
    path, line, _ = item.reportinfo()
    place = (str(path), (line or 0) + 1, f"Skipped: {reason}")
    return pytest.TestReport(item.nodeid, item.location, dict.fromkeys(item.keywords, 1), "skipped", place, "setup")


def waits_text(lines: str, seconds: float | None) -> str:
    """Return the text on the ranks that had to be stopped.

    Args:
        lines: the activity of each rank, as `compare` returns it.
        seconds: the time limit, if the ranks were stopped because the test exceeded it; None if they were stopped
            because a rank had failed.
    """
    _, _, states = lines.partition("\n")
    if seconds is None:
        return f"These ranks still waited, and were stopped:\n{states}"
    return f"The test has not ended after {seconds:g} s. The ranks wait:\n{states}"


def hang_title(reports: Mapping[int, WaitReport], elsewhere: Mapping[int, str]) -> str:
    """Return the places of the ranks in a test that does not end, for the summary.

    Places with the fewest ranks come first. Ranks that have ended the test come last.

    Args:
        reports: by rank.
        elsewhere: the known places of ranks that do not wait in a call.
    """
    places: dict[str, list[int]] = {}
    for rank, report in sorted(reports.items()):
        place = elsewhere.get(rank, "in no MPI call")
        if report.waits:
            wait = report.waits[0]
            place = f"in {wait.call}{f' #{wait.number}' * bool(wait.number)} at {wait.place}"
        places.setdefault(place, []).append(rank)
    ordered = sorted(places.items(), key=lambda each: (each[0] == AT_END, len(each[1])))
    return f"Hang: {'; '.join(f'{ranks_text(ranks)} {place}' for place, ranks in ordered)}"
