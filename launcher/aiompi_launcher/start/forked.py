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
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from aiompi_launcher.start import forkserver
from aiompi_launcher.start.forkserver import Order, Rank
from aiompi_launcher.start.process import Process, execute
from aiompi_launcher.start.python import PythonProgram

_PR_SET_CHILD_SUBREAPER: Final = 36
_LIMIT: Final = 32
#: prefixes of variables that Python, a library or aiompi reads when a process starts or when it imports a module
AT_START: Final = ("PYTHON", "LD_", "LC_", "LANG", "MALLOC_", "GLIBC_", "TZ", "OPENSSL_", "AIOMPI_CORE")


class ForkServer:
    """A process that starts ranks of Python programs. It has begun to import their modules.

    Args:
        pid: id of the process.
        sock: the connection to it.
    """

    def __init__(self, pid: int, sock: socket.socket) -> None:
        self._pid, self._socket = pid, sock
        self._environ = dict(os.environ)
        self._status: int | None = None

    def serves(self, program: PythonProgram, environ: Mapping[str, str]) -> bool:
        """Return True if this fork server, which `fork` has returned, can start a program with these variables.

        Options of Python, and variables with a prefix in AT_START, take effect only when a process starts. So the
        program must have no options, and the same values of these variables as the fork server.
        """
        names = environ.keys() | self._environ.keys()
        return len(program.command) == 1 and not any(
            environ.get(name) != self._environ.get(name) for name in names if name.startswith(AT_START)
        )

    def start(self, order: Order, descriptors: Sequence[int], variables: Mapping[str, str]) -> Process:
        """Start a rank.

        Args:
            order: the program of the rank.
            descriptors: standard input, output and error; the caller closes its copies.
            variables: additional environment variables of this rank.

        Raises:
            OSError: it cannot be started.
        """
        message = order._replace(environ={**order.environ, **variables}).encode()
        try:
            socket.send_fds(self._socket, [message], descriptors)
            answer = int(self._socket.recv(_LIMIT))
        except (OSError, ValueError):
            raise OSError(f"the fork server has ended with status {self.close()}") from None
        if answer < 0:
            raise OSError(-answer, os.strerror(-answer))
        return Process(answer)

    def discard(self) -> None:
        """End the fork server before it has started a rank."""
        os.kill(self._pid, signal.SIGKILL)
        self.close()

    def close(self) -> int:
        """End the fork server. Call it within `adopting`, so that the ranks become children of this process.

        Returns:
            The exit status of the fork server.
        """
        self._socket.close()
        if self._status is None:
            self._status = os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1])
        return self._status


def fork() -> ForkServer | Rank:
    """Fork this process, before it has threads or more than its standard descriptors.

    The fork server therefore need not start Python or repeat the imports of this process. The fork server can import
    the modules of ranks while this process does other work.

    Returns:
        The fork server; in each rank the rank, which the caller runs.
    """
    forkserver.import_what_both_need()
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    pid = os.fork()
    if pid:
        theirs.close()
        return ForkServer(pid, ours)
    ours.close()
    os.setpgid(0, 0)
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1):
        os.dup2(null, descriptor)
    os.closerange(3, theirs.fileno())
    os.closerange(theirs.fileno() + 1, os.sysconf("SC_OPEN_MAX"))
    return forkserver.serve(theirs)


def execute_server(program: PythonProgram, directory: str | None, environ: Mapping[str, str]) -> ForkServer:
    """Start a fork server with the Python options and the environment variables of a program.

    Args:
        program: the program.
        directory: working directory of the program; None for the launcher's working directory.
        environ: environment of the program.

    Raises:
        OSError: it cannot be started.
    """
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with contextlib.ExitStack() as stack, theirs:
        stack.enter_context(ours)
        argv = (*program.command, forkserver.__file__, *program.words)  # room for a rank to show its command line
        process = execute(argv, (theirs.fileno(), 1, 2), {}, directory=directory, environ=environ)
        stack.pop_all()
    return ForkServer(process.pid, ours)


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
