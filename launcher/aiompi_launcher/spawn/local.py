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

    Attributes:
        pid: of the process, and of its group.
    """

    def __init__(self, pid: int) -> None:
        self.pid = pid

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
            os.waitpid(self.pid, 0)
        return signal_group(self.pid, 0)


def execute(
    argv: Sequence[str],
    descriptors: Sequence[int],
    variables: Mapping[str, str],
    *,
    directory: str | None,
    environ: Mapping[str, str],
) -> Process:
    """Start a program.

    Args:
        argv: executable and arguments.
        descriptors: standard input, output and error; the caller closes its copies.
        variables: what is in the environment beside `environ`.
        directory: working directory, None for the launcher's.
        environ: the environment.

    Raises:
        OSError: the program cannot be started.
    """
    stdin, stdout, stderr = descriptors
    # No preexec_fn, so that the child is made by vfork.
    popen = subprocess.Popen(
        argv,
        cwd=directory,
        env={**environ, **variables},
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        process_group=0,
    )
    popen.returncode = 0  # whoever reaps it, it is not this object
    return Process(popen.pid)
