"""The fixtures of the plugin. Those that begin with `mpi_` are also in pytest-mpi and pytest-isolate-mpi."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import pytest

from aiompi.testing import place

if TYPE_CHECKING:
    from aiompi import World
    from aiompi.MPI import Intracomm


class EachRank:
    """Placeholder that pytest gets for a fixture of an `async def` test; each rank makes its own value of the fixture.

    Args:
        name: of the fixture.
        function: function that returns or yields the value; None for `world`.
        args, kwargs: arguments of the function, which may be placeholders themselves.
    """

    def __init__(
        self,
        name: str,
        function: Callable[..., Any] | None = None,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        self._name, self._function, self._args, self._kwargs = name, function, args, kwargs

    def __getattr__(self, name: str) -> Any:
        advice = "; a blocking test takes `comm`" * (self._function is None)
        raise TypeError(f"`{self._name}` is for `async def` tests and their fixtures{advice}")


class RankFixtures:
    """The fixtures of one rank of an `async def` test.

    Args:
        world: value of `world`.
    """

    def __init__(self, world: World) -> None:
        self._made: dict[EachRank, Any] = {WORLD: world}
        self._ends = AsyncExitStack()

    async def get(self, value: Any) -> Any:
        """Return the value of a fixture for this rank. A value that is no `EachRank` is returned unchanged."""
        if not isinstance(value, EachRank):
            return value
        if value not in self._made:
            assert value._function is not None
            kwargs = {name: await self.get(each) for name, each in value._kwargs.items()}
            self._made[value] = await self._make(value._function, value._args, kwargs)
        return self._made[value]

    async def _make(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        made = function(*args, **kwargs)
        if inspect.isasyncgenfunction(function):
            self._ends.push_async_callback(anext, made, None)
            return await anext(made)
        if inspect.isgeneratorfunction(function):
            self._ends.callback(next, made, None)
            return next(made)
        return await made if inspect.iscoroutinefunction(function) else made

    async def end(self) -> None:
        """Let the fixtures go on after their `yield`, the last one first."""
        await self._ends.aclose()


#: `world`
WORLD: Final = EachRank("world")


@pytest.fixture
def world() -> World:
    """COMM_WORLD of the rank that runs the test: for `async def` tests, whose ranks share a process.

    A test without the mark `mpi` that names `world` in its own arguments has one rank.
    """
    each: Any = WORLD
    return each  # type: ignore[no-any-return]


@pytest.fixture(scope="session")
def comm() -> Intracomm:
    """COMM_WORLD of the process that runs the test: for blocking tests. A test without a mark has one rank."""
    from aiompi import MPI  # makes this process a rank

    return MPI.COMM_WORLD


@pytest.fixture
def mpi_ranks() -> int:
    """The number of ranks that run the test."""
    return _size()


@pytest.fixture
def launch(pytestconfig: pytest.Config) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs a program as a job of several ranks: `launch(3, "sums.py")`.

    Further options of aiompi-launch may stand before the program, and arguments of the program behind it. The result
    has the `returncode`, `stdout` and `stderr` of the launcher. A job that hangs ends with status 124, and `stderr`
    tells where each rank waits.
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
    """A temporary directory that is the same for all ranks; `tmp_path` differs from process to process."""
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
    from aiompi import MPI  # makes this process a rank

    shared: str = MPI.COMM_WORLD.bcast(text, root=0)
    return shared
