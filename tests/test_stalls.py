"""A run of tests that hang, in ways of all kinds and on several workers at once, ends with its summary."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from support.limits import LIMIT

TESTS = Path(__file__).parent
CONFTEST = f"""
import sys
sys.path.insert(0, {str(TESTS)!r})
from support import stalls
stalls.LIMIT, stalls.GRACE, stalls.AGAIN = 1.5, GRACE, 0.2

def pytest_configure(config):
    config.pluginmanager.register(stalls.Limits())
"""
#: what hangs, and lets itself be interrupted
SOFT = """
import asyncio, threading
import pytest, uvloop

@pytest.fixture
def locked():
    threading.Event().wait()

def test_thread():
    waiting = threading.Thread(target=threading.Event().wait, name="waits", daemon=True)
    waiting.start()
    waiting.join()

@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_loop(loop):
    async def deep():
        await asyncio.get_running_loop().create_future()
    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(deep())

def test_setup(locked):
    pass

@pytest.fixture
def unlocked():
    yield
    threading.Event().wait()

def test_teardown(unlocked):
    pass

def test_next():
    pass
"""
#: what does not
HARD = {
    "catches": """
import time
def test_catches():
    while True:
        try:
            time.sleep(1.0)
        except BaseException:
            pass
""",
    "holds": """
import ctypes
def test_holds():
    ctypes.PyDLL(None).sleep(3600)
""",
}
NEXT = """
def test_next():
    pass
"""


def run(directory: Path, grace: float, *arguments: str) -> str:
    (directory / "pytest.ini").write_text("[pytest]\n")
    (directory / "conftest.py").write_text(CONFTEST.replace("GRACE, 0", f"{grace}, 0"))
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "xdist", *arguments]
    environ = os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}  # most of a worker's start are plugins
    return subprocess.run(words, cwd=directory, env=environ, capture_output=True, text=True, check=False).stdout


def test_what_hangs_is_interrupted(tmp_path: Path) -> None:
    (tmp_path / "test_soft.py").write_text(SOFT)
    printed = run(tmp_path, LIMIT)
    failed = set(re.findall(r"^(?:FAILED|ERROR) test_soft.py::(\w+)", printed, re.MULTILINE))
    assert failed == {"test_thread", "test_loop", "test_setup", "test_teardown"}, printed
    assert re.search(r"^3 failed, 2 passed, 2 errors in", printed, re.MULTILINE), printed
    assert printed.count("in deep") >= 2, "it shows the stacks of tasks"
    assert 'threading.py", line' in printed, "it shows the stacks of threads"


@pytest.mark.parametrize("kind", HARD)
def test_a_worker_that_has_to_end_costs_one_test(tmp_path: Path, kind: str) -> None:
    """Also when both end at once, and when tests of the same file are left, or a single one."""
    for number in range(3):
        (tmp_path / f"test_{number}.py").write_text(NEXT.replace("next", "first") + HARD[kind] + NEXT)
    for number in range(3, 6):
        (tmp_path / f"test_{number}.py").write_text(NEXT)
    printed = run(tmp_path, 1.0, "-n", "2", "--dist", "loadfile")
    failed = re.findall(r"^FAILED test_(\d).py::(\w+)", printed, re.MULTILINE)
    assert sorted(failed) == [(str(number), f"test_{kind}") for number in range(3)], printed
    assert re.search(r"^3 failed, 9 passed in", printed, re.MULTILINE), printed
