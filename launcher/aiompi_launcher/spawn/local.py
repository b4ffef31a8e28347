"""Processes on this machine, each the leader of a process group of its own."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Mapping, Sequence

from aiompi_launcher.watchdog import signal_group


class Process:
    """One rank's process.

    It stays unreaped until `release`: as long as it is a zombie, the number of its process group cannot be
    given to strangers, and signals to the group are safe.

    Args:
        argv: executable and arguments.
        directory: working directory, None for the launcher's.
        environ: the complete environment.
        stdin, stdout, stderr: descriptors; the caller closes its copies.

    Raises:
        OSError: the program cannot be started.
    """

    def __init__(
        self,
        argv: Sequence[str],
        *,
        directory: str | None,
        environ: Mapping[str, str],
        stdin: int,
        stdout: int,
        stderr: int,
    ) -> None:
        # No preexec_fn, so that the child is made by vfork.
        self._popen = subprocess.Popen(
            argv,
            cwd=directory,
            env=environ,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            process_group=0,
        )
        self.pid = self._popen.pid

    def poll(self) -> int | None:
        """Exit status, or minus the signal that killed it; None while it runs."""
        result = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if result is None:
            return None
        return result.si_status if result.si_code == os.CLD_EXITED else -result.si_status

    def signal(self, signum: int) -> None:
        """Send a signal to the process and all that are still in its group."""
        signal_group(self.pid, signum)

    def release(self) -> bool:
        """Reap the ended process; returns whether others are left in its group."""
        with contextlib.suppress(ChildProcessError):
            _, status = os.waitpid(self.pid, 0)
            self._popen.returncode = os.waitstatus_to_exitcode(status)
        return signal_group(self.pid, 0)
