"""A process that cleans up if the launcher is killed.

The launcher has the only write end of a pipe to the watchdog, through which it sends the process groups of the job. If
the pipe ends without the word "well", the watchdog ends the groups and deletes the directory of the job.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterable, Iterator
from typing import Final

from aiompi.wire.variables import ENV_CONTROL
from aiompi_launcher.start import directory as directories
from aiompi_launcher.start.directory import RunDirectory

CONTROL: Final = "control"  # the socket of the agent in the directory of a job
KILL_GRACE: Final = 2.0  # seconds between SIGTERM and SIGKILL
_POLL: Final = 0.02  # seconds
_ALL_WELL: Final = "well"
_IGNORED: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


class Watchdog:
    """The launcher's side. Create the object before the first thread or event loop, because it forks.

    Args:
        directory: of the job, which the watchdog deletes.
        marker: `NAME=VALUE` in the environment of every process of the job. The watchdog uses the marker to find
            processes that were started just before the launcher died.
    """

    def __init__(self, directory: str, marker: str) -> None:
        read_end, self._pipe = os.pipe()
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, _IGNORED)
        self.pid = os.fork()
        if self.pid == 0:
            try:
                _detach(read_end)
                signal.pthread_sigmask(signal.SIG_SETMASK, mask)
                _watch(read_end, directory, os.fsencode(marker))
            finally:
                os._exit(0)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        os.close(read_end)

    def add(self, pgid: int) -> None:
        """Add a process group, whose leader must stay unreaped until the end, so that its number is not reused."""
        self._tell(str(pgid))

    def all_well(self) -> None:
        """End the watchdog, because there is nothing to clean up."""
        self._tell(_ALL_WELL)
        os.close(self._pipe)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self.pid, 0)

    def clean_up(self) -> None:
        """Let the watchdog end the groups and delete the directory, and wait until it has done so."""
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # ranks are reaped by the system, their groups vanish
        os.close(self._pipe)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self.pid, 0)

    def _tell(self, line: str) -> None:
        with contextlib.suppress(BrokenPipeError):
            os.write(self._pipe, line.encode() + b"\n")


@contextlib.contextmanager
def job_directory() -> Iterator[tuple[RunDirectory, Watchdog]]:
    """Context manager with a directory and a watchdog for a job; it removes both, however the job ends."""
    directory = RunDirectory()
    watchdog = Watchdog(directory.path, f"{ENV_CONTROL}={contact(directory)}")
    try:
        yield directory, watchdog
    except BaseException:
        watchdog.clean_up()
        raise
    directory.remove()
    watchdog.all_well()


def contact(directory: RunDirectory) -> str:
    """Return the value of AIOMPI_CONTROL, by which ranks on this machine find the agent."""
    return f"unix:{directory.join(CONTROL)}"


def _watch(pipe: int, directory: str, marker: bytes) -> None:
    groups: set[int] = set()
    with open(pipe) as lines:
        for line in lines:
            if line.rstrip() == _ALL_WELL:
                return
            groups.add(int(line))
    groups.update(_marked_groups(marker))
    ended: set[int] = set()
    while new := groups - ended:  # again for ranks that have left the group of their fork server meanwhile
        end_groups(new)
        ended |= new
        groups = _marked_groups(marker)
    directories.remove_tree(directory)


def _detach(pipe: int) -> None:
    """Leave the terminal and the files of the launcher.

    Without this call the watchdog would keep the launcher's pipes and sockets open after the launcher has ended.
    """
    os.closerange(3, pipe)
    os.closerange(pipe + 1, os.sysconf("SC_OPEN_MAX"))
    os.setsid()
    for signum in _IGNORED:
        signal.signal(signum, signal.SIG_IGN)
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in range(3):
        os.dup2(null, descriptor)
    os.close(null)
    os.chdir("/")


def _marked_groups(marker: bytes) -> set[int]:
    """Return the process groups of all processes that have the marker in their environment."""
    groups = set()
    for name in os.listdir("/proc") if os.path.exists("/proc/self") else ():
        if not name.isdigit():
            continue
        with contextlib.suppress(OSError), open(f"/proc/{name}/environ", "rb") as environ:
            if marker in environ.read().split(b"\0"):
                groups.add(os.getpgid(int(name)))
    return groups - {os.getpgrp()}


def end_groups(groups: Iterable[int], grace: float = KILL_GRACE) -> None:
    """Send SIGTERM to process groups, and SIGKILL to the groups that still exist after `grace` seconds. Blocks."""
    left = {pgid for pgid in groups if signal_group(pgid, signal.SIGTERM)}
    deadline = time.monotonic() + grace
    while (left := living(left)) and time.monotonic() < deadline:
        time.sleep(_POLL)
    for pgid in left:
        signal_group(pgid, signal.SIGKILL)


def signal_group(pgid: int, signum: int) -> bool:
    """Send a signal (0 sends none); return True if the group exists."""
    try:
        os.killpg(pgid, signum)
    except ProcessLookupError:
        return False
    except PermissionError:  # a member has changed its user
        return False
    return True


def living(groups: Iterable[int]) -> set[int]:
    """Return the process groups with a member that is not a zombie: in a container, zombies may remain."""
    candidates = {pgid for pgid in groups if signal_group(pgid, 0)}
    if not candidates or not os.path.exists("/proc/self"):  # /proc is not mounted
        return candidates
    return candidates & {pgid for state, pgid in _processes() if state not in "ZX"}


def _processes() -> Iterator[tuple[str, int]]:
    """Yield state and process group of every process."""
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError), open(f"/proc/{name}/stat", "rb") as stat:
                state, _, pgid = stat.read().rpartition(b") ")[2].split(maxsplit=3)[:3]
                yield state.decode(), int(pgid)
