"""A process that cleans up when the launcher is killed.

The launcher holds the only write end of a pipe and tells the watchdog over it which process groups exist.
When the pipe ends without "all well", the watchdog ends the groups and deletes the directory of the job.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterable, Iterator
from typing import Final

from aiompi_launcher import rundir

KILL_GRACE: Final = 2.0  # seconds between SIGTERM and SIGKILL
_POLL: Final = 0.02  # seconds
_ALL_WELL: Final = "well"
_IGNORED: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


class Watchdog:
    """The launcher's side. Create it before the first thread or event loop: it forks.

    Args:
        directory: of the job, to be deleted.
        marker: `NAME=VALUE` that every process of the job has in its environment. It finds those that were
            started in the instant before the launcher died.
    """

    def __init__(self, directory: str, marker: str) -> None:
        read_end, self._pipe = os.pipe()
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, _IGNORED)
        self.pid = os.fork()
        if self.pid == 0:
            try:
                os.close(self._pipe)
                _detach()
                signal.pthread_sigmask(signal.SIG_SETMASK, mask)
                _watch(read_end, directory, marker.encode())
            finally:
                os._exit(0)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        os.close(read_end)

    def add(self, pgid: int) -> None:
        """A process group was started. Its leader must stay unreaped until the end, so that the number stays its."""
        self._tell(str(pgid))

    def all_well(self) -> None:
        """Nothing is left to clean up: the watchdog ends."""
        self._tell(_ALL_WELL)
        os.close(self._pipe)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self.pid, 0)

    def clean_up(self) -> None:
        """End the groups and delete the directory after all, and wait until that is done."""
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # ranks are reaped by the system, their groups vanish
        os.close(self._pipe)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self.pid, 0)

    def _tell(self, line: str) -> None:
        with contextlib.suppress(BrokenPipeError):
            os.write(self._pipe, line.encode() + b"\n")


def _watch(pipe: int, directory: str, marker: bytes) -> None:
    groups: set[int] = set()
    with open(pipe) as lines:
        for line in lines:
            if line.rstrip() == _ALL_WELL:
                return
            groups.add(int(line))
    groups.update(_marked_groups(marker))
    end_groups(groups)
    rundir.remove_tree(directory)


def _detach() -> None:
    """Leave the terminal and the files of the launcher, so that nobody waits for the watchdog by mistake."""
    os.setsid()
    for signum in _IGNORED:
        signal.signal(signum, signal.SIG_IGN)
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in range(3):
        os.dup2(null, descriptor)
    os.chdir("/")


def _marked_groups(marker: bytes) -> set[int]:
    """Process groups of all processes that have the marker in their environment."""
    groups = set()
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        with contextlib.suppress(OSError), open(f"/proc/{name}/environ", "rb") as environ:
            if marker in environ.read().split(b"\0"):
                groups.add(os.getpgid(int(name)))
    return groups - {os.getpgrp()}


def end_groups(groups: Iterable[int], grace: float = KILL_GRACE) -> None:
    """SIGTERM to process groups and, to those that still exist after `grace` seconds, SIGKILL. Blocks."""
    left = {pgid for pgid in groups if signal_group(pgid, signal.SIGTERM)}
    deadline = time.monotonic() + grace
    while (left := living(left)) and time.monotonic() < deadline:
        time.sleep(_POLL)
    for pgid in left:
        signal_group(pgid, signal.SIGKILL)


def signal_group(pgid: int, signum: int) -> bool:
    """Send a signal (0: only look); returns whether the group existed."""
    try:
        os.killpg(pgid, signum)
    except ProcessLookupError:
        return False
    except PermissionError:  # a member changed its user; it is not ours to end
        return False
    return True


def living(groups: Iterable[int]) -> set[int]:
    """Those process groups that have a member that is not a zombie: in a container nobody may reap orphans."""
    candidates = {pgid for pgid in groups if signal_group(pgid, 0)}
    if not candidates:
        return candidates
    return candidates & {pgid for state, pgid in _processes() if state not in "ZX"}


def _processes() -> Iterator[tuple[str, int]]:
    """State and process group of every process."""
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError), open(f"/proc/{name}/stat", "rb") as stat:
                state, _, pgid = stat.read().rpartition(b") ")[2].split(maxsplit=3)[:3]
                yield state.decode(), int(pgid)
