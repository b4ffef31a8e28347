"""Ranks that are forked from one process, as by the start method "forkserver" of multiprocessing.

Python's code has the same addresses in all of them. So if ranks share a core, the branch predictor of this core learns
from one rank for the others.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from aiompi_launcher.start.process import Process
from aiompi_launcher.start.python import PythonProgram, find

_SERVER: Final = os.path.join(os.path.dirname(__file__), "forkserver.py")
_PR_SET_CHILD_SUBREAPER: Final = 36
_LIMIT: Final = 32
#: prefixes of variables that Python or the C library reads when a process starts
AT_START: Final = ("PYTHON", "LD_", "LC_", "LANG", "MALLOC_", "GLIBC_")


class ForkServer:
    """A process that starts the ranks of one program; it begins to import their modules.

    Args:
        program: the program.
        directory: working directory, None for the launcher's.
        environ: the environment of the ranks.

    Raises:
        OSError: it cannot be started.
    """

    def __init__(self, program: PythonProgram, directory: str | None, environ: Mapping[str, str]) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with contextlib.ExitStack() as stack, theirs:
            stack.enter_context(self._socket)
            self._server = subprocess.Popen(
                [*program.command, _SERVER, str(theirs.fileno()), *program.words],
                cwd=directory,
                env=environ,
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                process_group=0,
            )
            stack.pop_all()

    def start(self, descriptors: Sequence[int], variables: Mapping[str, str]) -> Process:
        """Start a rank.

        Args:
            descriptors: standard input, output and error; the caller closes its copies.
            variables: additional environment variables of this rank.

        Raises:
            OSError: it cannot be started.
        """
        message = b"\0".join(os.fsencode(f"{name}={value}") for name, value in variables.items())
        try:
            socket.send_fds(self._socket, [message], descriptors)
            answer = int(self._socket.recv(_LIMIT))
        except (OSError, ValueError):
            raise OSError(f"the fork server has ended with status {self.close()}") from None
        if answer < 0:
            raise OSError(-answer, os.strerror(-answer))
        return Process(answer)

    def close(self) -> int:
        """End the fork server. Call it within `adopting`, so that the ranks become children of this process.

        Returns:
            The exit status of the fork server.
        """
        self._socket.close()
        return self._wait()

    def _wait(self) -> int:
        return self._server.wait()


class EarlyForkServer(ForkServer):
    """A fork server that an agent forks from itself before the agent knows the program.

    So the fork server need not start Python or repeat the agent's imports, and it works while the agent waits for its
    plan.

    Args:
        pid: its process.
        sock: the connection to it.
    """

    def __init__(self, pid: int, sock: socket.socket) -> None:
        self._pid, self._socket = pid, sock
        self._environ = dict(os.environ)

    def run(self, program: PythonProgram, directory: str | None, environ: Mapping[str, str]) -> bool:
        """Begin with a program; return False if another process has to run it. For the arguments see `ForkServer`.

        This process cannot run a program that needs other options or variables than those with which it was started.
        """
        (name, *options), names = program.command, environ.keys() | self._environ.keys()
        if options or find(name, environ.get("PATH")) != sys.executable:
            return False
        if any(environ.get(each) != self._environ.get(each) for each in names if each.startswith(AT_START)):
            return False
        import msgpack  # the launcher has an early fork server on other hosts only

        order = [directory or os.getcwd(), dict(environ), name, *program.words]
        try:
            self._socket.send(msgpack.packb(order, unicode_errors="surrogateescape"))
        except OSError:  # such as a message that is too long
            return False
        return True

    def discard(self) -> None:
        """End the process, which has no program."""
        os.kill(self._pid, signal.SIGKILL)
        self.close()

    def _wait(self) -> int:
        return os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1])


@contextlib.contextmanager
def adopting() -> Iterator[None]:
    """Context manager in which orphaned descendants become children of this process.

    Raises:
        OSError: the kernel does not support it.
    """
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    if prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "processes cannot be adopted")
    try:
        yield
    finally:
        prctl(_PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
