"""The hooks of the plugin: which tests have several ranks, and how they run."""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Generator
from typing import TYPE_CHECKING, Any, Final

import pytest
from _pytest.skipping import evaluate_skip_marks

from aiompi.testing import fixtures, marks, place

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

    from aiompi.testing.jobs import Jobs, Result
    from aiompi.testing.tasks import TaskTest

#: number of processes that run a test; a test without this number runs in this process
_PROCESSES: Final = pytest.StashKey[int]()
#: the `TaskTest` that runs a test of the asyncio face
_TASKS: Final[pytest.StashKey[TaskTest]] = pytest.StashKey()


class MPITests:
    """The hooks.

    Args:
        config: of the session.
    """

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._options = config.option
        # If the project itself has registered a mark of this name, the mark has the project's meaning.
        registered = {line.partition(":")[0].partition("(")[0].strip() for line in config.getini("markers")}
        self._known = frozenset(marks.LINES) - registered
        for name in sorted(self._known):
            config.addinivalue_line("markers", marks.LINES[name])
        self._following: dict[str, str] = {}
        self._jobs: Jobs | None = None
        self._threads: ThreadPoolExecutor | None = None
        self._ahead: dict[str, Future[Result]] = {}

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Make a test for each number of ranks."""
        try:
            ranks = marks.ranks_of(metafunc.definition, self._known)
        except pytest.UsageError as error:
            raise pytest.Collector.CollectError(str(error)) from None  # which pytest shows without a traceback
        if ranks is not None and ranks.labels:
            if "mpi_ranks" not in metafunc.fixturenames:
                metafunc.fixturenames.append("mpi_ranks")
            metafunc.parametrize("mpi_ranks", ranks.sizes, ids=ranks.labels)

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Decide how each test runs. In a worker all tests run unchanged."""
        firedrake = "parallel" in self._known and any(item.get_closest_marker("parallel") for item in items)
        for item in items:
            size = self._size(item)
            if firedrake:
                self._label(item, size or 1)
            if not isinstance(item, pytest.Function) or self._skip(item) or size is None or place.is_worker:
                continue
            if inspect.iscoroutinefunction(item.function) and self._is_ours(item):
                self._run_as_tasks(item, size)
            else:
                item.stash[_PROCESSES] = size

    def _size(self, item: pytest.Item) -> int | None:
        """Return the number of ranks of a test; None for an ordinary test, which pytest itself runs."""
        ranks = marks.ranks_of(item, self._known)
        if ranks is not None:
            callspec = getattr(item, "callspec", None)
            if callspec is not None and "mpi_ranks" in callspec.params:
                return int(callspec.params["mpi_ranks"])
            if len(ranks.sizes) > 1:
                raise pytest.UsageError(f"{item.nodeid}: a test of unittest has one number of ranks, not {ranks.sizes}")
            return ranks.sizes[0]
        if place.ranks_of_job is not None:
            return place.ranks_of_job
        if "mpi" in self._known and item.get_closest_marker("mpi"):
            return marks.least_of(item)
        return 1 if self._wants_world(item) else None

    def _is_ours(self, item: pytest.Item) -> bool:
        return self._wants_world(item) or item.get_closest_marker("mpi") is not None

    @staticmethod
    def _wants_world(item: pytest.Item) -> bool:
        """Return True for a test with the fixture `world` of this plugin."""
        info = getattr(item, "_fixtureinfo", None)
        if info is None or "world" not in info.argnames:
            return False
        found = info.name2fixturedefs.get("world")
        return bool(found) and found[-1].func.__module__ == fixtures.__name__

    def _label(self, item: pytest.Item, size: int) -> None:
        """Add the marks by which mpi-pytest selects tests, as in `-m parallel[3]`."""
        for name in [f"parallel[{size}]", *(["parallel[match]"] if size == (place.ranks_of_job or 1) else [])]:
            line = f"{name}: tests with this number of processes"
            if line not in self._config.getini("markers"):
                self._config.addinivalue_line("markers", line)
            item.add_marker(name)

    def _skip(self, item: pytest.Item) -> bool:
        """Apply the marks and options of pytest-mpi; return True if the test needs no ranks (is skipped or fails)."""
        mpi = item.get_closest_marker("mpi")
        if mpi is not None and mpi.args and "mpi" in self._known:
            return True  # its setup fails
        if self._options.with_mpi:
            for name in ("mpi_skip", "mpi_break"):
                if name in self._known and item.get_closest_marker(name):
                    item.add_marker(pytest.mark.skip(reason="test does not work under mpi"))
                    return True
            if "mpi_xfail" in self._known and item.get_closest_marker("mpi_xfail"):
                item.add_marker(pytest.mark.xfail(reason="test fails under mpi"))
        elif self._options.only_mpi:
            if mpi is None and item.get_closest_marker("parallel") is None:
                item.add_marker(pytest.mark.skip(reason="test does not use mpi"))
                return True
        elif mpi is not None and "ranks" not in mpi.kwargs and "mpi" in self._known:
            item.add_marker(pytest.mark.skip(reason="need --with-mpi option to run"))
            return True
        return False

    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        if "mpi" in self._known:
            size = int(os.environ["AIOMPI_SIZE"]) if place.is_worker else None
            marks.check(item, size)

    # Tests whose ranks are tasks.

    def _run_as_tasks(self, item: pytest.Function, size: int) -> None:
        from aiompi.testing.tasks import TaskTest  # delays the start of pytest, and tests without ranks do not need it

        test = item.stash[_TASKS] = TaskTest(item, size, self._seconds(item))
        item.runtest = test  # type: ignore[method-assign]

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_fixture_setup(
        self, fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest
    ) -> Generator[None, object, object]:
        """Let each rank of an `async def` test make the async fixtures, and the fixtures that use async fixtures.

        No other plugin for asyncio is involved.
        """
        function, name = fixturedef.func, str(request.fixturename)
        if _TASKS not in request._pyfuncitem.stash or not (
            inspect.iscoroutinefunction(function)
            or inspect.isasyncgenfunction(function)
            or any(isinstance(request.getfixturevalue(each), fixtures.EachRank) for each in fixturedef.argnames)
        ):
            return (yield)

        def each_rank(*args: Any, **kwargs: Any) -> fixtures.EachRank:
            if fixturedef.scope != "function":
                reason = f"each rank makes `{name}` for one test, so its scope cannot be {fixturedef.scope!r}"
                pytest.fail(reason, pytrace=False)
            return fixtures.EachRank(name, function, args, kwargs)

        fixturedef.func = each_rank  # type: ignore[misc]
        try:
            return (yield)
        finally:
            fixturedef.func = function  # type: ignore[misc]

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Show all ranks that have failed."""
        report = yield
        test = item.stash.get(_TASKS, None)
        if test is not None and call.when == "call" and report.failed and call.excinfo is not None:
            test.represent(report, call.excinfo.value)
        return report

    # Tests whose ranks are processes.

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """For each test whose ranks are processes, record the next test with the same number of processes."""
        later: dict[int, str] = {}
        for item in reversed(session.items):
            size = item.stash.get(_PROCESSES, None)
            if size is not None:
                self._following[item.nodeid] = later.get(size, "")
                later[size] = item.nodeid

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> None:
        """With `--mpi-parallel`, begin each test as soon as there is room. Reports come in the order of the tests."""
        if self._options.mpi_parallel and not self._options.collectonly and not hasattr(self._config, "workerinput"):
            # Delays the start of pytest, and tests without ranks do not need it.
            from concurrent.futures import ThreadPoolExecutor

            self._started()
            self._threads = ThreadPoolExecutor(self._options.mpi_parallel)
            for item in session.items:
                if _PROCESSES in item.stash and evaluate_skip_marks(item) is None:
                    self._ahead[item.nodeid] = self._threads.submit(self._result, item)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
        """Run a test in the processes of a job."""
        if _PROCESSES not in item.stash or not isinstance(item, pytest.Function):
            return None
        hook = item.ihook
        hook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        for report in self._reports(item):
            hook.pytest_runtest_logreport(report=report)
        call = pytest.CallInfo.from_call(lambda: item.session._setupstate.teardown_exact(nextitem), when="teardown")
        if call.excinfo is not None:  # the error of a fixture that an earlier test of this process has set up
            hook.pytest_runtest_logreport(report=pytest.TestReport.from_item_and_call(item, call))
        hook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        return True

    def _reports(self, item: pytest.Function) -> list[pytest.TestReport]:
        from aiompi.testing import reports  # delays the start of pytest, and tests without ranks do not need it

        skipped = evaluate_skip_marks(item)
        if skipped is not None:
            return [reports.skipped_report(item, skipped.reason)]
        ahead = self._ahead.pop(item.nodeid, None)
        result = self._result(item) if ahead is None else ahead.result()
        size = item.stash[_PROCESSES]
        for warning, ranks in reports.warnings_of(result.warned, size):
            nodeid = f"{item.nodeid} ({ranks})" if ranks else item.nodeid
            found = {"warning_message": warning, "when": "runtest", "nodeid": nodeid, "location": None}
            item.ihook.pytest_warning_recorded.call_historic(kwargs=found)
        load = self._config.hook.pytest_report_from_serializable
        of_ranks = {
            rank: [load(config=self._config, data=data) for data in packed] for rank, packed in result.reports.items()
        }
        return reports.of_test(item, of_ranks, size, result)

    def _result(self, item: pytest.Item) -> Result:
        from aiompi.testing.jobs import Kind  # delays the start of pytest, and tests without ranks do not need it
        from aiompi.testing.orders import Order

        kind = Kind(item.stash[_PROCESSES], marks.limits_of(item).threads, self._options.mpi_hosts)
        order = Order(item.nodeid, self._following.get(item.nodeid, ""))
        return self._started().run(kind, order, self._seconds(item))

    def _seconds(self, item: pytest.Item) -> float:
        seconds = marks.limits_of(item).seconds
        return float(self._options.mpi_timeout if seconds is None else seconds)

    def _started(self) -> Jobs:
        if self._jobs is None:
            from aiompi.testing.jobs import Jobs  # delays the start of pytest, and tests without ranks do not need it
            from aiompi.testing.orders import Setting

            given = self._config.invocation_params
            base = self._config._tmp_path_factory.getbasetemp() / "ranks"  # type: ignore[attr-defined]
            setting = Setting([str(word) for word in given.args], str(given.dir), [*sys.path], str(base))
            room = self._options.mpi_parallel
            self._jobs = Jobs(setting, shows=self._options.capture == "no", room=room)
        return self._jobs

    def pytest_sessionfinish(self) -> None:
        """End the processes."""
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)
        if self._jobs is not None:
            self._jobs.close()
