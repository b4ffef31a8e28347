"""Processes of this machine, from /proc: `Usage` tells cores and memory of a process, and `standing` its state."""

from __future__ import annotations

import os
from typing import Final

#: least seconds between two measurements of the cores, because the kernel counts in hundredths of a second
_LEAST: Final = 0.15


def standing(pid: int) -> tuple[str, float]:
    """Return the state of a process (the letter in `/proc/PID/stat`), and the CPU seconds that the process has used.

    Raises:
        OSError: there is no such process.
    """
    fields = _fields(pid)
    return fields[0].decode(), (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _fields(pid: int) -> list[bytes]:
    """Return the fields of `/proc/PID/stat` from the state on."""
    with open(f"/proc/{pid}/stat", "rb") as stat:
        return stat.read().rpartition(b")")[2].split()


class Usage:
    """The cores and the memory that a process uses.

    Args:
        pid: its id.
    """

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._ticks = 0
        self._time = 0.0
        self._cores: float | None = None

    def read(self, now: float) -> tuple[float | None, int, bool]:
        """Return the mean number of used cores since the last call, the resident bytes, and True if the process lives.

        Args:
            now: time in seconds. The first call returns None as the number of cores.
        """
        try:
            fields = _fields(self._pid)
        except OSError:
            return None, 0, False
        ticks = int(fields[11]) + int(fields[12])
        if now - self._time > _LEAST:
            if self._time:
                self._cores = (ticks - self._ticks) / os.sysconf("SC_CLK_TCK") / (now - self._time)
            self._ticks, self._time = ticks, now
        return self._cores, int(fields[21]) * os.sysconf("SC_PAGE_SIZE"), fields[0] not in (b"Z", b"X")
