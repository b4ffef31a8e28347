"""One rank of a run of files of mpi4py's test suite: runs its tests, and writes how each one ended.

usage: suite_worker.py SECONDS EVERY FOLDER_OF_TESTS MODULE,... RESULTS [GLOB_LEFT_OUT ...]
"""

from __future__ import annotations

import faulthandler
import fnmatch
import importlib
import itertools
import json
import sys
import traceback
import unittest
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final


class Outcomes(unittest.TestResult):
    """The outcome of each test; the worst outcome of its subtests counts."""

    order = ("pass", "skip", "fail", "error")

    def __init__(self) -> None:
        super().__init__()
        self.outcomes: dict[str, tuple[str, str]] = {}

    def note(self, test: Any, outcome: str, why: str) -> None:
        known = self.outcomes.get(test.id(), ("pass", ""))[0]
        if self.order.index(outcome) > self.order.index(known):
            self.outcomes[test.id()] = outcome, why

    def startTest(self, test: Any) -> None:
        super().startTest(test)
        self.outcomes[test.id()] = "pass", ""

    def addSkip(self, test: Any, reason: str) -> None:
        self.note(test, "skip", reason)

    def addFailure(self, test: Any, err: Any) -> None:
        self.note(test, "fail", _text(err))

    def addError(self, test: Any, err: Any) -> None:
        self.note(test, "error", _text(err))

    def addSubTest(self, test: Any, subtest: Any, err: Any) -> None:
        if err is not None:
            bad = issubclass(err[0], test.failureException)
            self.note(test, "fail" if bad else "error", f"{subtest._subDescription()}: {_text(err)}")


def _text(err: Any) -> str:
    return "".join(traceback.format_exception(*err))[-2000:]


def cases(suite: Any) -> Iterator[Any]:
    for item in suite:
        if isinstance(item, unittest.TestSuite):
            yield from cases(item)
        else:
            yield item


def thin(every: int) -> None:
    """Let a loop over all kinds of arrays and types take one pair of so many; the next loop begins with another one."""
    arrays: Any = importlib.import_module("arrayimpl")
    loop, turns = arrays.loop, itertools.count()
    arrays.loop = lambda *args: itertools.islice(loop(*args), next(turns) % every, None, every)


#: classes whose tests make datatypes of all basic types and all arguments, and their tests with thousands of them
DATATYPES: Final = {
    "test_util_dtlib.TestUtilDTLib": (".testStruct1", ".testStruct2"),
    "test_datatype.TestDatatypeCreate": (".testDarray", ".testSubarray", ".testVector", ".testHvector"),
    "test_datatype.TestDatatypePickle": (".testDarray", ".testSubarray", ".testVector", ".testHvector"),
}


def thin_datatypes(name: str, every: int) -> None:
    """Let the tests of a class that make thousands of datatypes check one of so many."""
    module, _, kind = name.partition(".")
    tests: Any = getattr(importlib.import_module(module), kind)
    check, turns = tests.check, itertools.count()

    def check_some(test: Any, *args: Any) -> None:
        if not test.id().endswith(DATATYPES[name]) or next(turns) % every == 0:
            check(test, *args)

    tests.check = check_some


def main(limit: float, every: int, folder: str, modules: str, results: str, left_out: list[str]) -> None:
    faulthandler.dump_traceback_later(limit, exit=True)
    sys.path.insert(0, folder)
    thin(every)
    sys.argv = [str(Path(folder, "main.py"))]
    for name in DATATYPES:
        if name.partition(".")[0] in modules.split(","):
            thin_datatypes(name, every)
    load = unittest.defaultTestLoader.loadTestsFromModule
    tests = [load(importlib.import_module(module)) for module in modules.split(",")]
    chosen = [case for case in cases(tests) if not any(fnmatch.fnmatchcase(case.id(), glob) for glob in left_out)]
    outcomes = Outcomes()
    unittest.TestSuite(chosen).run(outcomes)
    from mpi4py import MPI

    path = Path(results, f"{MPI.COMM_WORLD.Get_rank()}.json")
    path.write_text(json.dumps(outcomes.outcomes), encoding="utf-8")


if __name__ == "__main__":
    main(float(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:6], sys.argv[6:])
