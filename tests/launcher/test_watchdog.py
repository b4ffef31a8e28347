"""The process that cleans up after a launcher that was killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from aiompi_launcher.start.watchdog import end_groups, signal_group
from support.limits import LIMIT

MARKER = "AIOMPI_TEST_MARKER"

# A launcher in small: makes the watchdog, starts what it is told, reports pids, and waits.
LAUNCHER = """
import os, signal, socket, subprocess, sys
from aiompi_launcher.start.watchdog import Watchdog
sockets = socket.socketpair()  # whose other ends must see when the launcher ends
dog = Watchdog(sys.argv[1], sys.argv[2])
print(dog.pid, flush=True)
for line in sys.stdin:
    verb, _, command = line.strip().partition(" ")
    if verb == "well":
        dog.all_well()
    elif verb == "clean":
        dog.clean_up()
    elif verb == "crash":
        os.kill(os.getpid(), signal.SIGKILL)
    elif verb in ("told", "untold", "marked"):
        mark = dict([sys.argv[2].split("=")]) if verb == "marked" else {}
        child = subprocess.Popen(command, shell=True, process_group=0, env=os.environ | mark)
        if verb == "told":
            dog.add(child.pid)
        print(child.pid, flush=True)
    print("done", flush=True)
"""


class Launcher:
    def __init__(self, directory: Path) -> None:
        command = [sys.executable, "-c", LAUNCHER, str(directory), f"{MARKER}={directory}"]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.pids = [self.number()]

    def number(self) -> int:
        assert self.process.stdout is not None
        return int(self.process.stdout.readline())

    def do(self, line: str) -> None:
        assert self.process.stdin is not None
        print(line, file=self.process.stdin, flush=True)
        if line.startswith(("told", "untold", "marked")):
            self.pids.append(self.number())
        if line != "crash":
            assert self.process.stdout is not None
            assert self.process.stdout.readline() == "done\n"


@pytest.fixture
def directory(home: Path) -> Path:
    path = home / "job"
    path.mkdir()
    (path / "control").touch()
    return path


@pytest.fixture
def launcher(directory: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Launcher]:
    import aiompi_launcher

    monkeypatch.setenv("PYTHONPATH", str(Path(aiompi_launcher.__file__).parent.parent))
    launcher = Launcher(directory)
    yield launcher
    with launcher.process:
        launcher.process.kill()
    for pid in launcher.pids:
        signal_group(pid, signal.SIGKILL)


def test_killed_launcher(launcher: Launcher, directory: Path, wait_until, is_gone: Callable[[int], bool]):
    launcher.do("told sleep 100 & sleep 100")
    launcher.do("told sleep 100")
    launcher.do("crash")
    wait_until(lambda: all(map(is_gone, launcher.pids)), "watchdog and processes are gone")
    assert not directory.exists()


def test_a_process_started_in_the_last_instant(
    launcher: Launcher, directory: Path, wait_until, is_gone: Callable[[int], bool]
):
    launcher.do("marked sleep 100")
    launcher.do("untold sleep 100")
    _, marked, other = launcher.pids
    launcher.do("crash")
    wait_until(lambda: is_gone(marked), "the marked process is gone")
    wait_until(lambda: not directory.exists(), "the watchdog has finished")
    assert not is_gone(other)


def test_a_process_that_gets_a_group_of_its_own_meanwhile(
    launcher: Launcher, directory: Path, wait_until, is_gone: Callable[[int], bool]
):
    """As a rank does that has just been forked."""
    said = directory.parent / "said"
    program = (
        "import os, signal, time\n"
        "def leave(*_):\n"
        "    if os.fork() == 0:\n"
        "        os.setpgid(0, 0)\n"
        f"        os.write(os.open({str(said)!r}, os.O_WRONLY | os.O_CREAT), b'%d' % os.getpid())\n"
        "        signal.signal(signal.SIGTERM, signal.SIG_DFL)\n"
        "        time.sleep(1000)\n"
        "    os._exit(0)\n"
        "signal.signal(signal.SIGTERM, leave)\n"
        f"open({str(said)!r}, 'w').close()\n"
        "time.sleep(1000)\n"
    )
    (directory.parent / "leaves.py").write_text(program)
    launcher.do(f"marked exec {sys.executable} {directory.parent / 'leaves.py'}")
    wait_until(said.exists, "the process is ready")
    launcher.do("crash")
    wait_until(lambda: all(map(is_gone, launcher.pids)), "watchdog and process are gone")
    wait_until(lambda: is_gone(int(said.read_text())), "the process that it has forked is gone")
    assert not directory.exists()


def test_all_well(launcher: Launcher, directory: Path, is_gone: Callable[[int], bool]):
    launcher.do("told sleep 100")
    launcher.do("well")
    dog, child = launcher.pids
    assert is_gone(dog)
    assert not is_gone(child)
    assert directory.exists()


def test_clean_up_on_demand(launcher: Launcher, directory: Path, wait_until, is_gone: Callable[[int], bool]):
    launcher.do("told sleep 1000")
    launcher.do("clean")
    wait_until(lambda: all(map(is_gone, launcher.pids)), "watchdog and process are gone")
    assert not directory.exists()


def test_signals_to_the_terminal_do_not_reach_it(launcher: Launcher, wait_until, is_gone: Callable[[int], bool]):
    (dog,) = launcher.pids
    wait_until(lambda: os.getsid(dog) == dog, "the watchdog has a session of its own")
    for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        os.kill(dog, signum)
    launcher.do("told sleep 100")  # a round trip
    assert not is_gone(dog)


def test_it_holds_no_output_and_no_connection_of_the_launcher(launcher: Launcher, wait_until):
    (dog,) = launcher.pids

    def open_files() -> list[str]:
        files = [os.readlink(f"/proc/{dog}/fd/{name}") for name in os.listdir(f"/proc/{dog}/fd")]
        return sorted(file.partition(":")[0] for file in files)

    wait_until(lambda: open_files() == [os.devnull] * 3 + ["pipe"], "the watchdog has let go of the launcher's files")


def test_a_group_that_ignores_sigterm(wait_until: Callable[..., None]):
    script = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); time.sleep(100)"
    command = [sys.executable, "-c", script]
    with subprocess.Popen(command, stdout=subprocess.PIPE, process_group=0) as process:
        assert process.stdout is not None
        process.stdout.readline()
        end_groups([process.pid], grace=0.05)
        assert process.wait(LIMIT) == -signal.SIGKILL


def test_a_group_that_is_gone():
    with subprocess.Popen(["true"], process_group=0) as process:
        process.wait()
    assert not signal_group(process.pid, 0)
    end_groups([process.pid])
