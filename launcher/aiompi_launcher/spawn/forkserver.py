"""The process from which the ranks of one Python program are forked; started by `forked`.

    forkserver.py DESCRIPTOR [-m MODULE | PROGRAM] [ARGUMENT ...]

Each message on the socket starts a rank. It carries the three standard descriptors of the rank, and `NAME=VALUE` of its
additional environment variables. The answer is the process id of the rank, or minus an errno. Little is imported before
the fork, so that a program finds the modules that it would find in a new Python process.
"""

from __future__ import annotations

import contextlib
import io
import os
import socket
import sys
from types import TracebackType
from typing import Any, Final

from aiompi import program as programs
from aiompi.program import Program

#: most bytes of a message
_LIMIT: Final = 4096
_DESCRIPTORS: Final = 3
_USAGE: Final = "aiompi-launch starts this module to run a program"
#: files whose frames are between Python and the program
_OURS: Final = frozenset({__file__, programs.__file__})
_show_all = sys.excepthook


def become_ranks(sock: socket.socket) -> None:
    """Fork a rank for each message; returns only in the ranks."""
    while True:
        message, descriptors, *_ = socket.recv_fds(sock, _LIMIT, _DESCRIPTORS)
        if not message:
            os._exit(0)
        try:
            pid = os.fork()
        except OSError as error:
            sock.send(b"%d" % -(error.errno or 1))
        else:
            if not pid:
                sock.close()
                _be_rank(os.fsdecode(message), descriptors)
                return
            with contextlib.suppress(OSError):  # the rank may have done it itself, and ended
                os.setpgid(pid, pid)
            sock.send(b"%d" % pid)
        for descriptor in descriptors:
            os.close(descriptor)


def _be_rank(variables: str, descriptors: list[int]) -> None:
    os.setpgid(0, 0)
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
        os.close(descriptor)
    for variable in variables.split("\0"):
        name, _, value = variable.partition("=")
        os.environ[name] = value
    _reopen_input()


def _reopen_input() -> None:
    """Recreate sys.stdin for the standard input of the rank, as Python does at its start."""
    before: Any = sys.stdin
    raw: Any = io.FileIO(0, closefd=False)
    raw.name = before.name
    stdin: Any = io.TextIOWrapper(
        io.BufferedReader(raw), before.encoding, before.errors, newline="\n", write_through=before.write_through
    )
    stdin.mode = before.mode
    vars(sys).update(stdin=stdin, __stdin__=stdin)


def _show(kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
    """Print an exception without the frames between Python and the program."""
    while traceback is not None and traceback.tb_frame.f_code.co_filename in _OURS:
        traceback = traceback.tb_next
    _show_all(kind, error.with_traceback(traceback), traceback)


def main(descriptor: str, *words: str) -> None:
    """Fork ranks that run a program."""
    sys.orig_argv = [sys.executable, *words]
    become_ranks(socket.socket(fileno=int(descriptor)))
    sys.excepthook = sys.__excepthook__ = _show
    Program.take_over(words, _USAGE).run()


if __name__ == "__main__":
    main(*sys.argv[1:])
