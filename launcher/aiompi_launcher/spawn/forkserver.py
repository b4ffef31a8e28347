"""The process that ranks of one Python program are forked from; run by `forked`.

    forkserver.py DESCRIPTOR [-m MODULE | PROGRAM] [ARGUMENT ...]

Each message that comes through the socket makes a rank: it brings the three descriptors that the rank has as its
standard ones, and `NAME=VALUE` of what is in its environment alone. The answer is the number of its process, or minus
an errno. Little is imported before the fork, so that a program finds what it would find in a Python of its own.
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

#: bytes of a message, at most
_LIMIT: Final = 4096
_DESCRIPTORS: Final = 3
_USAGE: Final = "this is started by aiompi-launch, for a program"
#: whose frames are between Python and the program
_OURS: Final = frozenset({__file__, programs.__file__})
_show_all = sys.excepthook


def become_ranks(sock: socket.socket) -> None:
    """Fork a rank for each message; returns in the ranks, and never otherwise."""
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
            with contextlib.suppress(OSError):  # it may have done it itself, and ended
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
    """Make sys.stdin what Python makes of standard input: it was made of another one."""
    before: Any = sys.stdin
    raw: Any = io.FileIO(0, closefd=False)
    raw.name = before.name
    stdin: Any = io.TextIOWrapper(
        io.BufferedReader(raw), before.encoding, before.errors, newline="\n", write_through=before.write_through
    )
    stdin.mode = before.mode
    vars(sys).update(stdin=stdin, __stdin__=stdin)


def _show(kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
    """Show an exception as if there were nothing between Python and the program."""
    while traceback is not None and traceback.tb_frame.f_code.co_filename in _OURS:
        traceback = traceback.tb_next
    _show_all(kind, error.with_traceback(traceback), traceback)


def main(descriptor: str, *words: str) -> None:
    """Become ranks that run a program."""
    sys.orig_argv = [sys.executable, *words]
    become_ranks(socket.socket(fileno=int(descriptor)))
    sys.excepthook = sys.__excepthook__ = _show
    Program.take_over(words, _USAGE).run()


if __name__ == "__main__":
    main(*sys.argv[1:])
