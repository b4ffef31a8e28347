"""mpi4py's own test suite, on aiompi in the place of mpi4py.

It is taken from mpi4py's source distribution, which pip fetches once. A test of the files that are listed in
mpi4py_expected.toml passes, or is named there with the reason why it does not; what is named there does not pass.
"""

from __future__ import annotations

import fnmatch
import functools
import importlib.util
import json
import os
import tempfile
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from peers.distribution import unpacked
from support.jobs import Result, Site
from support.limits import LIMIT

HERE: Final = Path(__file__).parent
EXPECTED: Final[dict[str, Any]] = tomllib.loads((HERE / "mpi4py_expected.toml").read_text(encoding="utf-8"))
JOBS: Final[dict[str, list[str]]] = EXPECTED["jobs"]
RANKS: Final = int(os.environ.get("MPI4PY_SUITE_RANKS", "2"))
SECONDS: Final = 4 * LIMIT  # for a job
#: Tests go through some hundred pairs of an array and a type. Each takes one of so many pairs, another one than the
#: test before it: the same code resolves the buffers of all calls. 1 takes all, and all datatypes.
THINNED: Final = int(os.environ.get("MPI4PY_SUITE_THINNED", "17"))


class Job(NamedTuple):
    """A job that has run files of the suite: its number of ranks, how it ended, and the folder of its results."""

    size: int
    result: Result
    place: Path


@pytest.fixture(scope="module")
def ran(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Job]]:
    """Return what runs a job of that name, once: its files, as far as tests of them are selected."""
    selected = {item.callspec.params.get("name") for item in request.session.items if hasattr(item, "callspec")}
    tests = unpacked("mpi4py", "4.1.2") / "test"

    @functools.cache
    def run(name: str) -> Job:
        files = [file for file in JOBS[name] if file in selected] or JOBS[name]
        size = 1 if name == "alone" else RANKS
        environ = {} if name == "threads" else {"MPI4PY_RC_THREADS": "0"}
        if "test_io" in files and os.access("/dev/shm", os.W_OK):
            environ["TMPDIR"] = "/dev/shm"  # some thousand calls of fsync would wait for a disk
        place = tmp_path_factory.mktemp("results")
        worker = (str(HERE / "suite_worker.py"), str(SECONDS), str(THINNED), str(tests), ",".join(files), str(place))
        running = site.launch("--mpi4py", "-n", str(size), *worker, *EXPECTED["left_out"], env=environ)
        try:
            result = running.finish(SECONDS + 10)
        except AssertionError as hangs:
            result = Result(-1, "", str(hangs))
        return Job(size, result, place)

    with tempfile.TemporaryDirectory(prefix="jobs-") as base:
        site = Site(tmp_path_factory.mktemp("jobs"), Path(base))
        try:
            yield run
            site.settle()
        finally:
            site.close()


def outcomes(job: Job, name: str) -> Iterator[tuple[str, str, str]]:
    """Return the id of each test, its worst outcome on any rank, and the reason; one rank that runs it is enough."""
    ranks = [json.loads(path.read_text(encoding="utf-8")) for path in job.place.glob(f"{name}.*.json")]
    assert len(ranks) == job.size, f"the job has not come to its end: {job.result}"
    for test in ranks[0]:
        found = [tuple(rank[test]) for rank in ranks]
        bad = [outcome for outcome in found if outcome[0] in ("fail", "error")]
        skipped = all(outcome[0] == "skip" for outcome in found)
        yield (test, *(bad[0] if bad else found[0] if skipped else ("pass", "")))


def expected(size: int) -> Iterator[dict[str, Any]]:
    """Return the entries about tests that do not pass here in a job of so many ranks."""
    for entry in EXPECTED["expected"]:
        installed = "without" in entry and importlib.util.find_spec(entry["without"]) is not None
        if size in entry.get("ranks", [size]) and not installed:
            yield entry


@pytest.mark.parametrize(("name", "job"), [(name, job) for job, names in JOBS.items() for name in names])
def test_file(ran: Callable[[str], Job], name: str, job: str) -> None:
    size = ran(job).size
    entries = [entry["tests"] for entry in expected(size)]
    named = [glob for globs in entries for glob in globs if fnmatch.fnmatchcase(name, glob.split(".")[0])]
    found = list(outcomes(ran(job), name))
    assert found
    for test, outcome, why in found:
        globs = [glob for glob in named if fnmatch.fnmatchcase(test, glob)]
        assert (outcome == "pass") is (globs == []), (test, outcome, why)
    assert [glob for glob in named if not any(fnmatch.fnmatchcase(test, glob) for test, _, _ in found)] == []


@pytest.mark.parametrize("job", JOBS)
def test_job_ends(ran: Callable[[str], Job], job: str) -> None:
    assert ran(job).result.code == 0, ran(job).result.err


def test_every_exception_has_a_reason() -> None:
    assert all(entry["reason"] for entry in EXPECTED["expected"])
