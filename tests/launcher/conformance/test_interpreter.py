"""The test interpreter by itself: alone, in one file, and on another MPI (IMPI 0.0, section 5.3)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from aiompi.bench.contender import mpich_job
from aiompi_launcher.conformance import archive, catalogue
from support.limits import LIMIT

MODULE = [sys.executable, "-m", "aiompi_launcher.conformance.interpreter"]
OUTSIDE = Path(__file__).parent / "programs" / "outside.py"

#: what only IMPI says: attributes, the agreed bound of tags, external32 in MPI_Pack
ONLY_IMPI = {
    "comm/split_by_client",
    "startup/client_attributes",
    "startup/host_attributes",
    "startup/tag_bound",
    "types/packed",
}


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(words, capture_output=True, text=True, timeout=LIMIT, check=False)


@pytest.mark.spec("I5.1-8")
def test_it_says_what_it_is():
    done = run(*MODULE, "--startup-only")
    assert (done.returncode, done.stdout) == (0, "rank 0 of 1\n")


def test_a_module_that_is_not_there():
    done = run(*MODULE, "--mpi", "no_such.MPI")
    assert (done.returncode, done.stdout) == (2, "")
    assert "--mpi no_such.MPI: No module named 'no_such'" in done.stderr


SCRIPTS = {
    "right": ('{ report("Result: Pass"); }', "rank 0: Result: Pass\n"),
    "wrong": ('{ report("Result: Fail"); }', "rank 0: Result: Fail\n"),
    "undeclared": ("{ x = 1; }", "line 1, column 3: x is not declared"),
    "short": ("{\nint x[2];\nMPI_Send(x, 3, MPI_INT, 0, 0, MPI_COMM_WORLD); }", "3 elements take 12 bytes of 8"),
    "nobody": ("{\nint x;\nMPI_Send(x, 1, MPI_INT, 5, 0, MPI_COMM_WORLD); }", "MPI_ERR_RANK"),
}


@pytest.mark.spec("I5.3-14")
@pytest.mark.parametrize(
    ("names", "status"), [(["right"], 0), (["wrong", "right", "short", "nobody"], 1), (["undeclared", "right"], 2)]
)
def test_it_runs_scripts_alone(names: list[str], status: int, tmp_path: Path):
    paths = [tmp_path / f"{name}.impi" for name in names]
    for path in paths:
        path.write_text(SCRIPTS[path.stem][0])
    done = run(*MODULE, "--script", *map(str, paths))
    assert done.returncode == status
    for name in names:
        assert SCRIPTS[name][1] in done.stdout + done.stderr


@pytest.mark.spec("I5.1-1", "I5.1-3")
def test_scripts_hold_on_another_mpi_with_one_file_installed(tmp_path: Path):
    """MPICH agrees with what the scripts expect of MPI, where the interpreter is all that there is of the tester."""
    (tmp_path / archive.NAME).write_bytes(archive.interpreter())
    paths = sorted(catalogue.SCRIPTS.glob("*/*.impi"))
    launcher = mpich_job(2).command[:-3]  # without the Python that measures
    program = [sys.executable, str(OUTSIDE), str(tmp_path / archive.NAME), "--mpi", "mpi4py.MPI"]
    done = run(*launcher, *program, "--script", *map(str, paths))
    lines = [line for line in done.stdout.splitlines() if "rank 0" in line]
    ended = {line.removesuffix(" rank 0 done"): lines[number - 1] for number, line in enumerate(lines)}
    names = [str(path.relative_to(catalogue.SCRIPTS).with_suffix("")) for path in paths]
    reports = {name: ended[str(path)] for name, path in zip(names, paths, strict=True)}
    assert {name for name, report in reports.items() if "Result: Fail" in report} == ONLY_IMPI, done.stderr
    assert sum("Result: Pass" in report for report in reports.values()) > 180  # the others need simulated processes
