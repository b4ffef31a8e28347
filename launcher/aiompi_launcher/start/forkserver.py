"""The process from which the ranks of Python programs are forked; started by `forked`.

Each message on its socket starts a rank. The message has the three standard descriptors of the rank, and its `Order`.
The answer is the process id of the rank, or minus an errno.

The process imports the modules of every rank, once for all ranks. The imported modules keep no state: no generator of
random numbers, no thread and no descriptor (so NumPy is not among them). A program may have a module of its own with
the name of one of these modules. If the program has such a module, the rank executes Python again, so that the program
finds its own module.
"""

from __future__ import annotations

import atexit
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
from types import ModuleType, TracebackType
from typing import Any, Final, NamedTuple

import msgpack

from aiompi.job import program as programs
from aiompi.job.program import MainProgram
from aiompi.wire.variables import ENV_CONTROL

_DESCRIPTORS: Final = 3
_USAGE: Final = "aiompi-launch starts this module to run a program"
#: modules that both the launcher and its ranks need
_SHARED: Final = ("asyncio", "aiompi.settings", "aiompi.wire.control", "aiompi.wire.hello")
#: modules that ranks need
_NEEDED: Final = ("aiompi.MPI", "aiompi.face.native.job")
#: modules with objects of the program
_TORN_DOWN: Final = frozenset({"__main__", "builtins", "sys"})
#: files whose frames are between Python and the program
_OURS: Final = frozenset(
    {
        __file__,
        programs.__file__,
        os.path.join(os.path.dirname(os.path.dirname(__file__)), "cli", "__init__.py"),
        getattr(sys.modules["__main__"], "__file__", ""),
        "<frozen runpy>",
    }
)
#: most bytes of an order
LONGEST: Final = 2**17


class Order(NamedTuple):
    """The program of a rank.

    Attributes:
        executable: path of the Python.
        command: the Python interpreter, as the program's command line names it, and the interpreter's options.
        words: `-m`, `-c` or the program, and the arguments.
        directory: working directory.
        environ: the environment.
        mpi4py: True if aiompi replaces mpi4py.
    """

    executable: str
    command: tuple[str, ...]
    words: tuple[str, ...]
    directory: str
    environ: dict[str, str]
    mpi4py: bool

    def encode(self) -> bytes:
        """Return the message for the server."""
        encoded: bytes = msgpack.packb(self, unicode_errors="surrogateescape")
        return encoded


class Rank(NamedTuple):
    """This process, which has become a rank.

    Attributes:
        program: the program of the rank.
    """

    program: MainProgram

    def run(self) -> None:
        """Run the program. An uncaught exception is shown without the frames between Python and the program."""
        try:
            self.program.run()
        except SystemExit:
            raise
        except BaseException:
            sys.excepthook = partial(_show, sys.excepthook)
            raise


def serve(sock: socket.socket) -> Rank:
    """Fork a rank for each message. Returns in the ranks only."""
    import_what_ranks_need()
    marked: str | None = None
    while True:
        message, descriptors, *_ = socket.recv_fds(sock, LONGEST, _DESCRIPTORS)
        if not message:
            os._exit(0)
        order = Order(*msgpack.unpackb(message, unicode_errors="surrogateescape"))
        if order.environ.get(ENV_CONTROL) != marked:
            # The watchdog must find a rank from its first moment on, so this process shows the variable as well.
            marked = order.environ.get(ENV_CONTROL)
            os.environ.update({**os.environ})  # the C library copies the variables
            _describe(sys.orig_argv, {**os.environ, **order.environ})
        try:
            pid = os.fork()
        except OSError as error:
            sock.send(b"%d" % -(error.errno or 1))
        else:
            if not pid:
                sock.close()
                return _be_rank(order, descriptors)
            with contextlib.suppress(OSError):  # the rank may have done this itself, and ended
                os.setpgid(pid, pid)
            try:
                sock.send(b"%d" % pid)
            except OSError:  # the launcher has ended, and no other process would end the rank
                os.kill(pid, signal.SIGKILL)
                os._exit(1)
        for descriptor in descriptors:
            os.close(descriptor)


def _be_rank(order: Order, descriptors: list[int]) -> Rank:
    os.setpgid(0, 0)
    threading.main_thread()._native_id = threading.get_native_id()  # type: ignore[attr-defined]  # CPython before 3.13
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
        os.close(descriptor)
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        _reopen(number, name)
    os.environ.clear()
    os.environ.update(order.environ)
    os.chdir(order.directory)
    sys.executable, sys.orig_argv = order.executable, [*order.command, *order.words]
    _describe(sys.orig_argv, order.environ)
    if order.mpi4py:
        from aiompi import compat  # for --mpi4py only

        compat.install()
    sys.path.insert(0, "")
    program = MainProgram.take_over(order.words, _USAGE)
    if hides_modules(sys.path[0]):
        os.execv(sys.executable, sys.orig_argv)
    if not sys.warnoptions:
        atexit.register(_keep, {name: module for name, module in sys.modules.items() if name not in _TORN_DOWN})
    return Rank(program)


def _keep(modules: dict[str, ModuleType]) -> None:
    """Keep these modules when Python ends: let Python tear down only the modules of the program.

    Tearing down the modules that the server has imported would copy the pages that the ranks share with the server.
    This copying would take half of the time in which a rank ends.
    """
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(modules))
    for name in modules:
        sys.modules.pop(name, None)


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


def import_what_both_need() -> None:
    """Import modules before this process forks a server, because both will need them."""
    for name in _SHARED:
        importlib.import_module(name)


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


def _describe(words: list[str], environ: dict[str, str]) -> None:
    """Let /proc, and so ps and the watchdog, show this command line and environment, cut to the available room.

    The C library has copies of the variables, since `os.environ` has set them.
    """
    try:
        with open("/proc/self/stat", "rb") as file:
            fields = file.read().rpartition(b") ")[2].split()
    except OSError:  # /proc is not mounted
        return
    names = sorted(environ, key=ENV_CONTROL.__ne__)  # the watchdog needs this one
    variables = (f"{name}={environ[name]}" for name in names)
    for texts, field in ((words, 45), (variables, 47)):
        start, end = map(int, fields[field : field + 2])
        text = b"".join(os.fsencode(text) + b"\0" for text in texts)[: max(0, end - start - 1)]
        ctypes.memmove(start, text.ljust(end - start, b"\0"), end - start)


def main() -> None:
    """Be a fork server with its socket as standard input."""
    del sys.path[0]  # the directory of this file
    sock = socket.socket(fileno=os.dup(0))
    serve(sock).run()


if __name__ == "__main__":
    main()
