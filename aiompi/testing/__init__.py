"""Tests of parallel programs with pytest: a plugin, which pytest loads wherever aiompi is installed.

    @pytest.mark.mpi(ranks=[1, 2, 5])
    async def test_sum(world):  # each rank is a task of this process
        assert await world.allreduce(1) == world.size

    @pytest.mark.mpi(ranks=3)
    def test_barrier(comm):  # each rank is a process
        comm.Barrier()

This module has the options and decides whether the plugin is active; `plugin` has its hooks. A run without such tests
imports only these two, `marks` and `fixtures`.

PYTEST_DONT_REWRITE: workers import this module before pytest.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Generator
from importlib.util import find_spec
from typing import Final

import pytest

from aiompi.testing import place

#: other plugins that define the same marks: package, and name of the plugin
OTHERS: Final = (
    ("pytest_mpi", "pytest_mpi"),  # of pytest-mpi
    ("pytest_mpi", "mpi-pytest"),  # of mpi-pytest
    ("pytest_isolate_mpi", "pytest_isolate_mpi"),
)
#: seconds that a test may take
LIMIT: Final = 60.0


def pytest_addoption(parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
    """Add the options, whose names are also those of pytest-mpi and pytest-isolate-mpi."""
    if _other(pluginmanager):
        return
    group = parser.getgroup("mpi", "tests with several ranks (aiompi)")
    group.addoption("--with-mpi", action="store_true", help="run tests with the bare mark mpi too, on 2 ranks or more")
    group.addoption("--only-mpi", action="store_true", help="run only tests with the mark mpi")
    group.addoption(
        "--mpi4py", action="store_true", help="the tests were written for mpi4py, which aiompi takes the place of"
    )
    group.addoption(
        "--mpi-parallel", type=int, default=0, metavar="RANKS",
        help="run tests side by side, on at most this number of processes",
    )  # fmt: skip
    group.addoption(
        "--mpi-hosts", default="", metavar="NAME[:SLOTS],...",
        help="run the processes of tests on these hosts, on each in turn, as aiompi-launch --hosts does",
    )  # fmt: skip
    group.addoption(
        "--mpi-timeout", "--mpi-default-test-timeout", dest="mpi_timeout", type=float, default=LIMIT, metavar="SECONDS",
        help=f"end a test of several ranks after this time, and show where each rank waits ({LIMIT:.0f})",
    )  # fmt: skip


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> Generator[None]:
    """Prepare the process before it imports the first module of the project.

    `aiompi-launch -n 3 pytest` starts pytest three times. Rank 0 runs the tests, and starts processes for them. The
    other ranks end here.
    """
    if not _other(early_config.pluginmanager) and not place.is_worker:
        if "AIOMPI_CONTROL" in os.environ and "AIOMPI_RANK" in os.environ:
            place.ranks_of_job = _leave_job()
        if early_config.known_args_namespace.mpi4py:
            from aiompi import compat  # pytest loads this module also in projects without MPI

            compat.install()
    return (yield)


def pytest_configure(config: pytest.Config) -> None:
    """Register the hooks and the fixtures."""
    if not _other(config.pluginmanager):
        from aiompi.testing import fixtures, plugin  # pytest loads this module also in projects without MPI

        config.pluginmanager.register(plugin.MPITests(config), "aiompi-tests")
        config.pluginmanager.register(fixtures, "aiompi-fixtures")


def _other(pluginmanager: pytest.PytestPluginManager) -> bool:
    """Return True if another plugin for these marks is installed, and not blocked with `-p no:NAME`."""
    return any(not pluginmanager.is_blocked(name) for module, name in OTHERS if find_spec(module) and _is_entry(name))


def _is_entry(name: str) -> bool:
    from importlib.metadata import entry_points  # only if there is such a package

    return not os.environ.get("PYTEST_DISABLE_PLUGIN_AUTOLOAD") and bool(entry_points(group="pytest11", name=name))


def _leave_job() -> int:
    """Become a process outside of the job; return the number of its ranks. Ranks other than 0 end."""
    rank, size = int(os.environ["AIOMPI_RANK"]), int(os.environ["AIOMPI_SIZE"])
    if rank:
        sys.exit(0)
    for name in [*os.environ]:
        if name.startswith(("AIOMPI_CONTROL", "AIOMPI_KEY", "AIOMPI_RANK", "AIOMPI_SIZE", "AIOMPI_APPNUM", "PMI_")):
            del os.environ[name]
    return size
