"""mpi4py's own test suite, on aiompi in the place of mpi4py.

It is taken from mpi4py's source distribution, which pip fetches once. A test of the files that are listed in
mpi4py_expected.toml passes, or is named there with the reason why it does not; what is named there does not pass.
"""

from __future__ import annotations

import fnmatch
import importlib.util
import json
import os
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from peers.distribution import unpacked
from support.jobs import Site
from support.limits import LIMIT

HERE: Final = Path(__file__).parent
EXPECTED: Final[dict[str, Any]] = tomllib.loads((HERE / "mpi4py_expected.toml").read_text(encoding="utf-8"))
RANKS: Final = int(os.environ.get("MPI4PY_SUITE_RANKS", "2"))
SECONDS: Final = 4 * LIMIT  # for a job
THINNED: Final = int(os.environ.get("MPI4PY_SUITE_THINNED", "0"))  # in place of the numbers of jobs: 1 takes all


@pytest.fixture(scope="session")
def tests() -> Path:
    """Return the folder of the suite."""
    return unpacked("mpi4py", "4.1.2") / "test"


def outcomes(folder: Path, size: int) -> Iterator[tuple[str, str, str]]:
    """Return the id of each test, its worst outcome on any rank, and the reason; one rank that runs it is enough."""
    ranks = [json.loads(path.read_text(encoding="utf-8")) for path in folder.glob("*.json")]
    assert len(ranks) == size
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


@pytest.mark.parametrize("name", EXPECTED["jobs"])
def test_files(site: Site, tests: Path, tmp_path: Path, name: str) -> None:
    files = EXPECTED["jobs"][name]
    size = 1 if name in EXPECTED["alone"] else RANKS
    # Threads, for which every call is guarded, are for the file that is about them.
    environ = {} if name == "threads" else {"MPI4PY_RC_THREADS": "0"}
    if name == "files" and os.access("/dev/shm", os.W_OK):
        environ["TMPDIR"] = "/dev/shm"  # some thousand calls of fsync would wait for a disk
    left_out = EXPECTED["left_out"]
    every = THINNED or EXPECTED["thinned"].get(name, 1)
    places = (str(tests), ",".join(files), str(tmp_path))
    arguments = [str(HERE / "suite_worker.py"), str(SECONDS), str(every), *places, *left_out]
    job = site.launch("--mpi4py", "-n", str(size), *arguments, env=environ).finish(SECONDS + 10)
    assert job.code == 0, job.err
    named = list(expected(size))
    unused = {glob for entry in named for glob in entry["tests"] if glob.split(".")[0] in files}
    begun = set()
    for test, outcome, why in outcomes(tmp_path, size):
        globs = [glob for entry in named for glob in entry["tests"] if fnmatch.fnmatchcase(test, glob)]
        assert (outcome == "pass") is (globs == []), (test, outcome, why)
        unused.difference_update(globs)
        begun.add(test.split(".")[0])
    assert not unused
    assert begun == set(files)


def test_every_exception_has_a_reason() -> None:
    assert all(entry["reason"] for entry in EXPECTED["expected"])
