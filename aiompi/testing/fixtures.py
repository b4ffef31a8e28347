"""The fixtures of the plugin. Those that begin with `mpi_` are also in pytest-mpi and pytest-isolate-mpi."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from aiompi.testing import place

if TYPE_CHECKING:
    from aiompi import World
    from aiompi.MPI import Intracomm


class EachRank:
    """The fixture `world` outside of its test: there each rank has another one."""

    def __getattr__(self, name: str) -> Any:
        raise TypeError("`world` is for the arguments of an `async def` test; a blocking test takes `comm`")


@pytest.fixture
def world() -> World:
    """COMM_WORLD of the rank that runs the test: for `async def` tests, whose ranks share a process."""
    each: Any = EachRank()
    return each  # type: ignore[no-any-return]


@pytest.fixture(scope="session")
def comm() -> Intracomm:
    """COMM_WORLD of the process that runs the test: for blocking tests."""
    from aiompi import MPI

    return MPI.COMM_WORLD


@pytest.fixture
def mpi_ranks() -> int:
    """The number of ranks that run the test."""
    return _size()


@pytest.fixture
def launch(pytestconfig: pytest.Config) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs a program as a job of several ranks: `launch(3, "sums.py")`.

    More options of aiompi-launch may stand before the program, and its arguments after it. The result has the
    `returncode`, `stdout` and `stderr` of the launcher. A job that hangs ends with status 124, and `stderr` tells where
    each rank waits.
    """
    limit: float = pytestconfig.option.mpi_timeout

    def launch(ranks: int, *command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "aiompi_launcher", "--timeout", str(limit), "-n", str(ranks), *command],
            env={"AIOMPI_DEBUG": str(limit / 2), **os.environ},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )

    return launch


@pytest.fixture
def mpi_tmp_path(tmp_path: Path) -> Path:
    """A temporary directory that is the same for all ranks."""
    return Path(_shared(str(tmp_path)))


@pytest.fixture
def mpi_tmpdir(tmpdir: Any) -> Any:
    """The same as `py.path.local`."""
    return type(tmpdir)(_shared(str(tmpdir)))


@pytest.fixture
def mpi_file_name(tmp_path: Path, request: pytest.FixtureRequest) -> str:
    """The name of a file that does not exist, the same for all ranks."""
    return _shared(str(tmp_path / f"{request.node.name}.hdf5"))


def _size() -> int:
    return int(os.environ["AIOMPI_SIZE"]) if place.is_worker else 1


def _shared(text: str) -> str:
    """Return the text of rank 0."""
    if _size() == 1:
        return text
    from aiompi import MPI

    shared: str = MPI.COMM_WORLD.bcast(text, root=0)
    return shared
