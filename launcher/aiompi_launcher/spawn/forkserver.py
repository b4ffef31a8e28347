"""The process from which the ranks of one Python program are forked; started by `forked`.

    forkserver.py DESCRIPTOR [-m MODULE | -c CODE | PROGRAM] [ARGUMENT ...]

Each message on the socket starts a rank. It carries the three standard descriptors of the rank, and `NAME=VALUE` of its
additional environment variables. The answer is the process id of the rank, or minus an errno.

The process imports what every rank needs, once for all. These modules have no state of their own: no generator of
random numbers, no thread and no descriptor (so NumPy is not among them). If a module beside the program has the name of
one of them, each rank executes Python anew, so that the program finds its own module.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import importlib.machinery
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
#: modules that ranks need
_NEEDED: Final = ("aiompi.MPI", "aiompi.face.native.job")
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
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        _reopen(number, name)


def _reopen(number: int, name: str) -> None:
    """Recreate a standard stream for the descriptor of the rank, which is no terminal, as Python does at its start."""
    before: Any = getattr(sys, name)
    raw: Any = io.FileIO(number, before.mode, closefd=False)
    raw.name = before.name
    buffer = io.BufferedReader(raw) if number == 0 else raw if before.write_through else io.BufferedWriter(raw)
    stream: Any = io.TextIOWrapper(
        buffer,
        before.encoding,
        before.errors,
        newline="\n",
        line_buffering=number == 2 and not before.write_through,
        write_through=before.write_through,
    )
    stream.mode = before.mode
    vars(sys).update({name: stream, f"__{name}__": stream})


def import_what_ranks_need() -> None:
    """Import the modules that ranks need."""
    gc.disable()
    for name in _NEEDED:
        importlib.import_module(name)
    gc.enable()
    gc.freeze()  # the garbage collector of a rank would write to these pages, and so make copies of them


def hides_modules(directory: str) -> bool:
    """Return True if a module in this directory has the name of one that has been imported from elsewhere."""
    with contextlib.suppress(OSError):
        for name in {entry.partition(".")[0] for entry in os.listdir(directory or ".")} & sys.modules.keys():
            here = importlib.machinery.PathFinder.find_spec(name, [directory])
            spec = sys.modules[name].__spec__
            if here is not None and here.loader is not None and (spec is None or spec.origin != here.origin):
                return True
    return False


def _show(kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
    """Print an exception without the frames between Python and the program."""
    while traceback is not None and traceback.tb_frame.f_code.co_filename in _OURS:
        traceback = traceback.tb_next
    _show_all(kind, error.with_traceback(traceback), traceback)


def main(descriptor: str, *words: str) -> None:
    """Fork ranks that run a program."""
    sys.orig_argv = [*sys.orig_argv[: -len(words) - 2], *words]
    program = Program.take_over(words, _USAGE)
    directory = sys.path.pop(0)
    import_what_ranks_need()
    hidden = hides_modules(directory)
    sys.path.insert(0, directory)
    become_ranks(socket.socket(fileno=int(descriptor)))
    if hidden:
        os.execv(sys.executable, sys.orig_argv)
    sys.excepthook = sys.__excepthook__ = _show
    program.run()


if __name__ == "__main__":
    main(*sys.argv[1:])
