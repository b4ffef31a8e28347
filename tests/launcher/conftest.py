"""Launchers as real processes, in a runtime directory of their own."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import aiompi
import aiompi_launcher
from support.jobs import clean_environ
from support.limits import LIMIT

ROOTS = [str(Path(module.__file__ or "").parent.parent) for module in (aiompi, aiompi_launcher)]
RANK = str(Path(__file__).parent / "programs" / "rank.py")


class Running:
    """A launcher that runs.

    Attributes:
        process: it.
        home: directory in which it makes its own.
    """

    def __init__(self, process: subprocess.Popen[str], home: Path) -> None:
        self.process = process
        self.home = home

    def line(self) -> str:
        """The next line of its standard output."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().rstrip("\n")

    def error_line(self) -> str:
        """The next line of its standard error; that of a process that has ended has none."""
        assert self.process.stderr is not None
        line = self.process.stderr.readline()
        assert line, "it has ended its standard error"
        return line.rstrip("\n")

    def signal(self, signum: int) -> None:
        self.process.send_signal(signum)

    def end(self) -> subprocess.CompletedProcess[str]:
        """Wait for its end."""
        out, err = self.process.communicate(timeout=LIMIT)
        return subprocess.CompletedProcess(self.process.args, self.process.returncode, out, err)


class Launcher:
    """Starts launchers.

    Attributes:
        home: their runtime directory.
    """

    def __init__(self, home: Path) -> None:
        self.home = home
        self._running: list[subprocess.Popen[str]] = []

    def start(
        self, *words: str, env: dict[str, str] | None = None, program: str = "-m aiompi_launcher", **options: Any
    ) -> Running:
        """Start one with these arguments; `env` is added to a clean environment."""
        environ = clean_environ() | {
            "XDG_RUNTIME_DIR": str(self.home),
            "PYTHONPATH": os.pathsep.join(ROOTS),
            **(env or {}),
        }
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | options
        command = [sys.executable, *program.split(" ", 1), *words]
        process = subprocess.Popen(command, env=environ, text=True, **pipes)
        self._running.append(process)
        return Running(process, self.home)

    def __call__(self, *words: str, input: str | None = None, **options: Any) -> subprocess.CompletedProcess[str]:
        """Run one to its end."""
        if input is not None:
            options["stdin"] = subprocess.PIPE
        process = self.start(*words, **options).process
        out, err = process.communicate(input, timeout=LIMIT)
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    def close(self) -> None:
        for process in self._running:
            with process:
                process.kill()


@pytest.fixture
def home() -> Iterator[Path]:
    """A directory with a short name: paths of Unix sockets are limited."""
    path = tempfile.mkdtemp(prefix="aml", dir="/tmp")
    yield Path(path)
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture
def launch(home: Path) -> Iterator[Launcher]:
    """Runs a launcher: `launch("-n", "2", "program")`; checks afterwards that nothing is left behind."""
    launcher = Launcher(home)
    yield launcher
    launcher.close()
    eventually(lambda: not list(home.iterdir()), "the runtime directory is empty")


@pytest.fixture
def rank() -> str:
    """Path of a program that speaks the control protocol; see there."""
    return RANK


@pytest.fixture
def wait_until() -> Callable[[Callable[[], object], str], None]:
    """Waits for a condition: `wait_until(lambda: ..., "what is expected")`."""
    return eventually


def eventually(condition: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + LIMIT
    while not condition():
        assert time.monotonic() < deadline, f"never came true: {what}"
        time.sleep(0.005)


@pytest.fixture
def is_gone() -> Callable[[int], bool]:
    """Tells whether a process has ended; a zombie has."""

    def is_gone(pid: int) -> bool:
        with contextlib.suppress(OSError):
            return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
        return True

    return is_gone
