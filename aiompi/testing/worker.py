"""A process that runs tests as a rank: `python -m aiompi.testing.worker ADDRESS`.

A worker is a session of pytest that collects only the files whose tests it is told to run.
"""

from __future__ import annotations

import os
import pickle
import queue
import sys
import threading
import warnings
from collections.abc import Mapping
from pathlib import Path
from types import FrameType
from typing import Any, Final

import pytest
from _pytest.config import _prepareconfig

from aiompi.face.blocking import process as blocking
from aiompi.testing import links, place
from aiompi.testing.orders import Begun, Ended, Inquire, Order, Setting, Settle, Settled, State, Warned
from aiompi.wire.wait_report import WaitReport

#: options that only the process with the user's session obeys
_OFF: Final[Mapping[str, Any]] = {
    "collectonly": False, "dist": "no", "distload": False, "failedfirst": False, "keyword": "", "lf": False,
    "looponfail": False, "markexpr": "", "maxfail": 0, "maxprocesses": None, "newfirst": False, "numprocesses": None,
    "deselect": None, "stepwise": False, "tx": [], "usepdb": False, "xmlpath": None,
}  # fmt: skip

#: seconds between calls that make progress for other ranks
_PAUSE: Final = 0.01


class Worker:
    """Hooks of the session of a worker.

    Args:
        link: to the process that sends the orders.
    """

    def __init__(self, link: links.Link) -> None:
        self._link = link
        self._orders: queue.SimpleQueue[Order | Settle | None] = queue.SimpleQueue()
        self._items: dict[str, pytest.Item] = {}
        self._trouble: list[str] = []
        self._reports: list[pytest.TestReport] = []
        self._warned: list[Warned] = []
        self._ended = False  # True once this rank has ended the test; other ranks may still run it
        self._main = threading.get_ident()

    @pytest.hookimpl(trylast=True)
    def pytest_configure(self, config: pytest.Config) -> None:
        """Be silent: the other process shows the reports."""
        config.pluginmanager.unregister(name="terminalreporter")

    def pytest_collection(self) -> bool:
        """Collect nothing yet."""
        return True

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._trouble.append(report.longreprtext)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._reports.append(report)

    def pytest_warning_recorded(self, warning_message: warnings.WarningMessage, when: str) -> None:
        """Keep a warning in a test. Warnings during the import of its file appear in the other process, too."""
        if when == "runtest":
            self._warned.append(_packed(warning_message))

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Run tests until there are no more orders."""
        threading.Thread(target=self._listen, args=(session.config.rootpath,), daemon=True).start()
        while (order := self._next()) is not None:
            if isinstance(order, Settle):
                self._link.send(Settled(_is_clean()))
                continue
            item = self._find(session, order.nodeid)
            if item is None:
                reason = "\n".join(self._trouble) or f"a process of another rank does not find {order.nodeid}"
                self._link.send(Ended([], reason))
                continue
            self._run(session, item, self._items.get(order.following))
        session._setupstate.teardown_exact(None)
        return True

    def _next(self) -> Order | Settle | None:
        """Return the next order. Until all ranks have ended the test, make progress for the others."""
        while self._ended:
            try:
                order = self._orders.get(timeout=_PAUSE)
            except queue.Empty:
                _is_clean()  # any call makes progress
            else:
                self._ended = False
                return order
        return self._orders.get()

    def _find(self, session: pytest.Session, nodeid: str) -> pytest.Item | None:
        if nodeid not in self._items:
            self._trouble.clear()
            file = session.config.rootpath / nodeid.partition("::")[0]
            self._items.update((item.nodeid, item) for item in session.perform_collect([str(file)]))
        return self._items.get(nodeid)

    def _run(self, session: pytest.Session, item: pytest.Item, following: pytest.Item | None) -> None:
        self._reports, self._warned = [], []
        if "aiompi.MPI" in sys.modules and not blocking.process.joined:
            blocking.process.start()  # waiting for ranks that join is no part of the test's time
        self._link.send(Begun())
        session._setupstate.teardown_exact(item)  # this test may not be the one that was announced
        item.ihook.pytest_runtest_protocol(item=item, nextitem=following)
        hook = item.config.hook
        packed = [hook.pytest_report_to_serializable(config=item.config, report=each) for each in self._reports]
        self._link.send(Ended(packed, warned=self._warned))
        self._ended = True

    # In a thread of its own.

    def _listen(self, root: Path) -> None:
        try:
            while (told := self._link.recv()) is not None:
                if isinstance(told, Inquire):
                    frame = sys._current_frames().get(self._main)
                    self._link.send(State(_waits().pack(), _place(frame, root)))
                else:
                    self._orders.put(told)
        except (EOFError, OSError):
            pass
        self._orders.put(None)


def _packed(warning: warnings.WarningMessage) -> Warned:
    try:
        packed = pickle.dumps(warning.message)
    except Exception:  # of the program's class
        packed = b""
    return Warned(packed, f"{warning.category.__name__}: {warning.message}", warning.filename, warning.lineno)


def _is_clean() -> bool:
    """Return True if no message on COMM_WORLD waits for a receive."""
    if not blocking.process.initialized or blocking.process.finalized:
        return not blocking.process.finalized
    from aiompi import MPI  # this process is a rank already

    try:
        return not MPI.COMM_WORLD.Iprobe()
    except MPI.Exception:  # another rank has died
        return False


def _waits() -> WaitReport:
    """Return the calls in which this rank waits."""
    reporter = blocking.process.runtime._hang_reporter if blocking.process.joined else None
    return WaitReport() if reporter is None else reporter.report()


def _place(frame: FrameType | None, root: Path) -> str:
    """Return the innermost line of the project in a stack."""
    while frame is not None:
        path = Path(frame.f_code.co_filename)
        if path.is_relative_to(root) and "site-packages" not in path.parts:
            return f"{path.relative_to(root)}:{frame.f_lineno}, in {frame.f_code.co_name}"
        frame = frame.f_back
    return ""


def main(address: str) -> None:
    """Run tests until the other process closes the link."""
    place.is_worker = True
    rank = int(os.environ["AIOMPI_RANK"])
    link = links.connect(address, bytes.fromhex(os.environ.pop(links.ENV_KEY)), rank)
    setting: Setting = link.recv()
    os.chdir(setting.directory)
    sys.path[:] = setting.path
    config = _prepareconfig(setting.args)
    # Another host does not have the directory of this session, so pytest makes a separate directory there.
    is_here = os.path.isdir(os.path.dirname(setting.basetemp))
    vars(config.option).update(_OFF, basetemp=f"{setting.basetemp}-{rank}" if is_here else None)
    config.pluginmanager.register(Worker(link), "aiompi-worker")
    config.hook.pytest_cmdline_main(config=config)


if __name__ == "__main__":
    main(sys.argv[1])
