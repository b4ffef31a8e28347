"""One rank of a run of files of mpi4py's test suite: runs their tests, and writes after each file how they ended.

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
import unittest.mock
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


def thin_messages(every: int) -> None:
    """Let test_msgspec go through each form of a buffer with one pair of a type and a length of so many."""
    tests: Any = importlib.import_module("test_msgspec")
    turns = itertools.count()

    def thinned(check: Any) -> Any:
        return lambda self, test: check(self, lambda *args: test(*args) if next(turns) % every == 0 else None)

    for kind in (tests.BaseTestMessageSimpleArray, tests.BaseTestMessageVectorArray):
        kind.check = thinned(kind.check)


#: modules whose tests make datatypes of all basic types, with the name of their list, and tests that make thousands
DATATYPES: Final = {
    "test_util_dtlib": ("typecodes", "testStruct1", "testStruct2", "testStruct5"),
    "test_datatype": (
        "datatypes",
        "testDarray",
        "testSubarray",
        "testVector",
        "testHvector",
        "testStruct",
        "testResized",
    ),
}


def thin_datatypes(name: str) -> None:
    """Let tests that make thousands of datatypes make them of one basic type of each size and extent."""
    from mpi4py import MPI

    module: Any = importlib.import_module(name)
    known, *heavy = DATATYPES[name]

    def size(basic: Any) -> tuple[int, int]:
        datatype = MPI.Datatype.fromcode(basic) if isinstance(basic, str) else basic
        return datatype.size, datatype.extent

    few = list({size(basic): basic for basic in getattr(module, known)}.values())
    for kind in vars(module).values():
        if isinstance(kind, type) and issubclass(kind, unittest.TestCase):
            for test in filter(lambda test: hasattr(kind, test), heavy):
                setattr(kind, test, unittest.mock.patch.object(module, known, few)(getattr(kind, test)))


def main(limit: float, every: int, folder: str, modules: str, results: str, left_out: list[str]) -> None:
    faulthandler.dump_traceback_later(limit, exit=True)
    sys.path.insert(0, folder)
    sys.argv = [str(Path(folder, "main.py"))]
    thin(every)
    for name in modules.split(","):
        module = importlib.import_module(name)
        if every > 1 and name == "test_msgspec":
            thin_messages(every)
        if every > 1 and name in DATATYPES:
            thin_datatypes(name)
        tests = cases(unittest.defaultTestLoader.loadTestsFromModule(module))
        chosen = [case for case in tests if not any(fnmatch.fnmatchcase(case.id(), glob) for glob in left_out)]
        outcomes = Outcomes()
        unittest.TestSuite(chosen).run(outcomes)
        from mpi4py import MPI

        path = Path(results, f"{name}.{MPI.COMM_WORLD.Get_rank()}.json")
        path.write_text(json.dumps(outcomes.outcomes), encoding="utf-8")


if __name__ == "__main__":
    main(float(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:6], sys.argv[6:])
