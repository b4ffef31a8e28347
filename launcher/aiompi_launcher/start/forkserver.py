"""The process from which the ranks of one Python program are forked; started by `forked`.

    forkserver.py DESCRIPTOR [-m MODULE | -c CODE | PROGRAM] [ARGUMENT ...]

Each message on the socket starts a rank. The message has the three standard descriptors of the rank, and `NAME=VALUE`
for each additional environment variable. The answer is the process id of the rank, or minus an errno.

The process imports the modules of every rank, once for all ranks. These modules have no state of their own: no
generator of random numbers, no thread and no descriptor (so NumPy is not among them). A module beside the program, or
in its directory or archive, may have the name of one of these modules. Then each rank executes Python again, so that
the program finds its own module.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import importlib.machinery
import io
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable
from functools import partial
from types import TracebackType
from typing import Any, Final

import msgpack

from aiompi.job import program as programs
from aiompi.job.program import MainProgram

#: most bytes of a message, and of the order to run a program
_LIMIT: Final = 4096
_LONGEST: Final = 2**20
_DESCRIPTORS: Final = 3
_USAGE: Final = "aiompi-launch starts this module to run a program"
#: modules that ranks need
_NEEDED: Final = ("aiompi.MPI", "aiompi.face.native.job")
#: files whose frames are between Python and the program
_OURS: Final = frozenset(
    {__file__, programs.__file__, getattr(sys.modules["__main__"], "__file__", ""), "<frozen runpy>"}
)


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
            with contextlib.suppress(OSError):  # the rank may have done this itself, and ended
                os.setpgid(pid, pid)
            try:
                sock.send(b"%d" % pid)
            except OSError:  # the launcher has ended, and no other process would end the rank
                os.kill(pid, signal.SIGKILL)
                os._exit(1)
        for descriptor in descriptors:
            os.close(descriptor)


def _be_rank(variables: str, descriptors: list[int]) -> None:
    os.setpgid(0, 0)
    threading.main_thread()._native_id = threading.get_native_id()  # type: ignore[attr-defined]  # CPython before 3.13
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
        os.close(descriptor)
    for variable in variables.split("\0"):
        name, _, value = variable.partition("=")
        os.environ[name] = value
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        _reopen(number, name)


def _reopen(number: int, name: str) -> None:
    """Recreate a standard stream as Python does when it starts, for a descriptor that is not a terminal."""
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
    try:
        for name in _NEEDED:
            importlib.import_module(name)
    except ImportError as error:
        if error.name != "aiompi.core":
            raise
        os.write(2, f"aiompi: {error}\n".encode(errors="backslashreplace"))  # no form of the core can be used
        os._exit(1)
    gc.enable()
    gc.freeze()  # the garbage collector of a rank would write to these pages, and so make copies of them


def hides_modules(place: str) -> bool:
    """Return True if a directory or archive has a module with the name of a module that was imported from elsewhere."""
    names = {name for name in sys.modules if "." not in name} - {"__main__"}
    with contextlib.suppress(OSError):
        if not os.path.isfile(place):
            names &= {entry.partition(".")[0] for entry in os.listdir(place or ".")}
        for name in names:
            here = importlib.machinery.PathFinder.find_spec(name, [place])
            spec = sys.modules[name].__spec__
            if here is not None and here.loader is not None and (spec is None or spec.origin != here.origin):
                return True
    return False


def _run(program: MainProgram) -> None:
    try:
        program.run()
    except SystemExit:
        raise
    except BaseException:
        sys.excepthook = partial(_show, sys.excepthook)
        raise


def _show(
    hook: Callable[[type[BaseException], BaseException, TracebackType | None], object],
    kind: type[BaseException],
    error: BaseException,
    traceback: TracebackType | None,
) -> None:
    """Call the hook for uncaught exceptions, without the frames between Python and the program."""
    sys.excepthook = hook
    while traceback is not None and traceback.tb_frame.f_code.co_filename in _OURS:
        traceback = traceback.tb_next
    sys.last_traceback = traceback
    hook(kind, error.with_traceback(traceback), traceback)


def main(descriptor: str, *words: str) -> None:
    """Fork ranks that run a program."""
    sys.orig_argv = [*sys.orig_argv[: -len(words) - 2], *words]
    _rename(sys.orig_argv)
    program = MainProgram.take_over(words, _USAGE)
    directory = sys.path.pop(0)
    import_what_ranks_need()
    _serve(socket.socket(fileno=int(descriptor)), program, directory)


def _serve(sock: socket.socket, program: MainProgram, directory: str) -> None:
    hidden = hides_modules(directory)
    sys.path.insert(0, directory)
    become_ranks(sock)
    if hidden:
        os.execv(sys.executable, sys.orig_argv)
    _run(program)


def fork_early() -> tuple[int, socket.socket] | None:
    """Fork a process that imports the modules of ranks, and then serves the program that it receives.

    Returns:
        Its id and a connection to it. None in the ranks, at the end of the program.
    """
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    pid = os.fork()
    if pid:
        theirs.close()
        return pid, ours
    ours.close()
    os.setpgid(0, 0)
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1):
        os.dup2(null, descriptor)
    os.close(null)
    import_what_ranks_need()
    order = theirs.recv(_LONGEST)
    if not order:
        os._exit(0)
    directory, environ, *sys.orig_argv = msgpack.unpackb(order, unicode_errors="surrogateescape")
    os.chdir(directory)
    os.environ.clear()
    os.environ.update(environ)
    _rename(sys.orig_argv)
    sys.path.insert(0, "")
    program = MainProgram.take_over(sys.orig_argv[1:], _USAGE)
    _serve(theirs, program, sys.path.pop(0))
    return None


def _rename(words: list[str]) -> None:
    """Let tools such as ps show this command line, cut to the available room."""
    try:
        with open("/proc/self/stat", "rb") as file:
            start, end = map(int, file.read().rpartition(b") ")[2].split()[45:47])
    except OSError:  # /proc is not mounted
        return
    text = b"".join(os.fsencode(word) + b"\0" for word in words)[: end - start - 1]
    ctypes.memmove(start, text.ljust(end - start, b"\0"), end - start)


if __name__ == "__main__":
    main(*sys.argv[1:])
