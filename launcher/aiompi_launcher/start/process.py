"""Processes on this machine; each leads its own process group."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Mapping, Sequence

from aiompi_launcher.start.watchdog import signal_group


class Process:
    """The process of one rank.

    The process stays unreaped until `release`: while it is a zombie, the number of its process group cannot be reused,
    and signals to the group are safe.

    Attributes:
        pid: id of the process and of its group.
    """

    def __init__(self, pid: int) -> None:
        self.pid = pid

    def poll(self) -> int | None:
        """Return the exit status, or minus the number of the signal that killed the process; None while it runs."""
        result = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if result is None:
            return None
        return result.si_status if result.si_code == os.CLD_EXITED else -result.si_status

    def signal(self, signum: int) -> None:
        """Send a signal to all processes of its group."""
        signal_group(self.pid, signum)

    def release(self) -> bool:
        """Reap the ended process; return True if other processes are left in its group."""
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
        variables: additional environment variables.
        directory: working directory, None for the launcher's.
        environ: the environment.

    Raises:
        OSError: the program cannot be started.
    """
    stdin, stdout, stderr = descriptors
    # No preexec_fn, so that vfork is used.
    popen = subprocess.Popen(
        argv,
        cwd=directory,
        env={**environ, **variables},
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        process_group=0,
    )
    popen.returncode = 0  # this object must not reap it
    return Process(popen.pid)
