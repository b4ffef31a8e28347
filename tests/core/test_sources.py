"""A native core that was not built from the sources that are there, as after a `git pull`."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from aiompi import core
from support.limits import LIMIT

ROOT = Path(__file__).parents[2]
SHOW = "from aiompi import core; print(core.form)"

pytestmark = pytest.mark.skipif(core.form == "pure", reason="there is no native core here that could be old")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return a copy of the project, with the native core as it was built."""
    for folder in ("aiompi", "launcher"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


def start(project: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join((str(project), str(project / "launcher")))
    environ = {name: value for name, value in os.environ.items() if name != "AIOMPI_CORE"}
    environ |= {"PYTHONPATH": path, **variables}
    return subprocess.run(
        (sys.executable, *words), cwd=project, env=environ, capture_output=True, text=True, timeout=LIMIT, check=False
    )


def said(project: Path) -> str:
    return (
        f"the native core was built from other sources than those in {project / 'aiompi/core/native'}: build it again "
        f"(pip install -e {project}), or choose the pure form (AIOMPI_CORE=pure)"
    )


def change(path: Path, old: str, new: str) -> None:
    text = path.read_text("utf8")
    assert old in text
    path.write_text(text.replace(old, new), "utf8")


def test_another_source_than_that_which_was_built(project: Path) -> None:
    assert start(project, "-c", SHOW).stdout == "native\n"
    change(project / "aiompi/core/native/awaitable.pxi", "cdef class", "cdef  class")
    refused = start(project, "-c", SHOW)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr.splitlines()[-1] == f"ImportError: {said(project)}"
    assert start(project, "-c", SHOW, AIOMPI_CORE="native").stderr.splitlines()[-1] == f"ImportError: {said(project)}"
    assert start(project, "-c", SHOW, AIOMPI_CORE="pure").stdout == "pure\n"


def test_a_core_that_imports_what_is_no_longer_there(project: Path) -> None:
    # Python says "cannot import name", which is also what is said of a core for another machine.
    change(project / "aiompi/core/native/_native.pyx", "import allocate, copied", "import allocate, copy")
    change(project / "aiompi/core/allocation.py", "def copied(", "def copy(")
    assert start(project, "-c", SHOW).stderr.splitlines()[-1] == f"ImportError: {said(project)}"


def test_what_the_launcher_says(project: Path) -> None:
    change(project / "aiompi/core/native/awaitable.pxi", "cdef class", "cdef  class")
    launch = "from aiompi_launcher.cli import main; raise SystemExit(main())"
    refused = start(project, "-c", launch, "-n", "2", "-c", "from aiompi import MPI")
    assert refused.returncode == 126  # as of a shell: it was found, and cannot be started
    assert refused.stderr.splitlines() == [
        f"aiompi: {said(project)}",
        "aiompi-launch: rank 0 cannot be started: the fork server has ended with status 1",
    ]
    version = start(project, "-c", launch, "--version")
    assert (version.returncode, version.stdout) == (1, "")
    assert version.stderr.startswith("aiompi ")
    assert version.stderr.endswith(f": {said(project)}\n")


def test_no_sources(project: Path) -> None:
    # As in a wheel.
    shutil.rmtree(project / "aiompi/core/native")
    assert start(project, "-c", SHOW).stdout == "native\n"
