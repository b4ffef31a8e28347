"""The marks of tests: how many ranks a test has.

Mark                                plugins that define it; further arguments or marks
@pytest.mark.mpi(ranks=[1, 2])      this plugin and pytest-isolate-mpi; also timeout, unit, threads
@pytest.mark.mpi(min_size=2)        pytest-mpi; also mpi_skip, mpi_break, mpi_xfail
@pytest.mark.parallel(nprocs=2)     mpi-pytest
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Final, NamedTuple

import pytest

#: number of ranks for the mark `parallel` without arguments, as in mpi-pytest
_PARALLEL: Final = 3
#: least number of ranks for the mark `mpi` without arguments
_BARE: Final = 2
#: seconds of each unit of pytest-isolate-mpi
_UNITS: Final = {"s": 1.0, "m": 60.0, "h": 3600.0}

#: names of the arguments that the mark `mpi` has in any of the plugins
_ARGUMENTS: Final = ("ranks", "timeout", "unit", "threads", "min_size")

LINES: Final = {
    "mpi": "mpi(ranks, timeout, threads): run the test with these numbers of ranks; `async def` in one process",
    "parallel": "parallel(nprocs): run the test with these numbers of processes (3), as mpi-pytest does",
    "mpi_skip": "mpi_skip: skip the test with --with-mpi",
    "mpi_break": "mpi_break: skip the test with --with-mpi",
    "mpi_xfail": "mpi_xfail: the test fails with --with-mpi",
}


class Ranks(NamedTuple):
    """The numbers of ranks with which a test runs.

    Attributes:
        sizes: the numbers.
        labels: parameter ids of the tests, one per number; empty if there is only one test, which has no parameter id.
    """

    sizes: Sequence[int]
    labels: Sequence[str] = ()


class Limits(NamedTuple):
    """The other arguments of the mark `mpi`.

    Attributes:
        seconds: time limit of the test; None for the default.
        threads: value of OMP_NUM_THREADS; None for the value in this process.
    """

    seconds: float | None = None
    threads: int | None = None


def ranks_of(node: pytest.Item, known: frozenset[str]) -> Ranks | None:
    """Return the numbers of ranks that the marks of a test ask for; None if no mark gives a number.

    Args:
        node: the test, or its definition.
        known: marks that have the meaning of this plugin.

    Raises:
        pytest.UsageError: a mark is wrong.
    """
    mpi, parallel = node.get_closest_marker("mpi"), node.get_closest_marker("parallel")
    unknown = mpi.kwargs.keys() - _ARGUMENTS if mpi is not None and "mpi" in known else ()
    if unknown:
        raise pytest.UsageError(
            f"{node.nodeid}: mpi has no argument {', '.join(sorted(unknown))}, but {', '.join(_ARGUMENTS)}"
        )
    if mpi is not None and "ranks" in mpi.kwargs:
        sizes = _numbers(mpi.kwargs["ranks"], f"{node.nodeid}: mpi(ranks)")
        return Ranks(sizes, [str(size) for size in sizes])
    if parallel is not None and "parallel" in known:
        sizes = _numbers(parallel.kwargs.get("nprocs", [*parallel.args, _PARALLEL][0]), f"{node.nodeid}: parallel")
        most = int(os.environ.get("PYTEST_MPI_MAX_NPROCS", max(sizes)))
        if max(sizes) > most:
            raise pytest.UsageError(f"{node.nodeid}: {max(sizes)} processes, more than PYTEST_MPI_MAX_NPROCS={most}")
        return Ranks(sizes, [f"nprocs={size}" for size in sizes] if len(sizes) > 1 else ())
    return None


def least_of(node: pytest.Item) -> int:
    """Return the number of ranks of a test whose mark `mpi` has no `ranks`, if pytest itself does not run in a job."""
    mark = node.get_closest_marker("mpi")
    return max((mark and mark.kwargs.get("min_size")) or 0, _BARE)


def limits_of(node: pytest.Item) -> Limits:
    """Return the other arguments of the mark `mpi` of a test.

    Raises:
        pytest.UsageError: the number of threads is wrong.
    """
    mark = node.get_closest_marker("mpi")
    if mark is None:
        return Limits()
    seconds, threads = mark.kwargs.get("timeout"), mark.kwargs.get("threads")
    if threads is not None:
        (threads,) = _numbers(threads, "Number of OpenMP threads")
    return Limits(None if seconds is None else seconds * _UNITS[mark.kwargs.get("unit", "s")], threads)


def check(node: pytest.Item, size: int | None) -> None:
    """Check the mark `mpi` of a test that is about to run in a job of `size` ranks.

    Raises:
        pytest.fail.Exception: the mark has an argument without a name.
        pytest.skip.Exception: the job is too small.
    """
    for mark in node.iter_markers("mpi"):
        if mark.args:
            first, written = mark.args[0], ", ".join(map(repr, mark.args))
            pytest.fail(f"mpi({written}): the number of ranks needs its name: mpi(ranks={first!r})", pytrace=False)
        least = mark.kwargs.get("min_size")
        if least is not None and size is not None and size < least:
            pytest.skip(f"the test needs {least} ranks, and the job has {size}")


def _numbers(given: object, name: str) -> list[int]:
    numbers = [*given] if isinstance(given, Sequence | range) and not isinstance(given, str) else [given]
    right = [number for number in numbers if isinstance(number, int) and not isinstance(number, bool) and number > 0]
    if not right or len(right) < len(numbers):
        raise pytest.UsageError(f"{name} must be a positive integer or several, not {given!r}")
    return right
