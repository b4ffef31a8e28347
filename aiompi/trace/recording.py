"""`Recording`: the trace of one rank while it is written."""

from __future__ import annotations

import contextlib
import errno
import functools
import gc
import json
import mmap
import os
import sys
import time
import warnings
from types import CodeType, TracebackType
from typing import Any, BinaryIO, Final, Self

from aiompi.core import Recorder
from aiompi.core.pure import recorder as layout
from aiompi.engine import Engine, Timer
from aiompi.errors import LocalProtocolError

#: number of records that a trace keeps. They take 64 MiB; the file system provides only the part that was written
CAPACITY: Final = 2**20
#: records for which the file's memory is reserved at a time: 1 MiB
_STEP: Final = 2**14
#: the most words, whose numbers have 16 bits: a program may use any number of topics
_WORDS: Final = 2**16 - 1
#: larger than any number of records
_ALL: Final = 2**63
#: seconds between two looks at the event loop, and the delay that is recorded
_LOOK: Final = 0.02
_LATE: Final = 0.01
_PACKAGE: Final = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_STANDARD: Final = os.path.dirname(os.__file__) + os.sep
_SITE: Final = "site-packages"
#: functions between a call and the program whose names are not names of calls
_WRAPPERS: Final = frozenset({"hooked", "guarded", "bypassing", "__call__", "wrapper", "inner"})
#: function -> its call, for functions that the program calls without writing their names
_CALLS: Final = {"Subscription.__anext__": "subscription"}
#: functions of asyncio that run callbacks, below which no call is made by the program
_LOOPS: Final = frozenset({"_run", "run", "run_forever", "run_until_complete"})
_ASYNCIO: Final = os.path.join(_STANDARD, "asyncio", "")
_WAYS: Final = {"RingLink": layout.RING, "LoopbackLink": layout.LOOPBACK}


class Recording:
    """The recording of one rank, which is also a context manager.

    Args:
        engine: engine of the rank.
        directory: directory of the trace.
        capacity: records that are kept, a power of two; the oldest ones are overwritten.
        yields: True for a recording that any other recording ends. Such a recording does not record how late the event
            loop is.

    Raises:
        LocalProtocolError: the rank is recorded already.
        OSError: the file cannot be made; FileExistsError: the directory has a trace of this rank.
    """

    def __init__(
        self,
        engine: Engine,
        directory: str | os.PathLike[str],
        capacity: int = CAPACITY,
        *,
        yields: bool = False,
    ) -> None:
        if engine.recorder is not None:
            other = getattr(engine.recorder.naming, "recording", None)
            if other is None or not other.yields:
                raise LocalProtocolError(f"rank {engine.rank} is recorded already: stop the first recording")
            other.stop()
        self.yields = yields
        os.makedirs(directory, exist_ok=True)
        self.path = os.path.join(directory, f"rank-{engine.rank}.trace")
        nbytes = layout.RECORDS + capacity * layout.RECORD.size
        file = open(self.path, "x+b")  # noqa: SIM115
        try:
            file.truncate(nbytes)
            _reserve(file.fileno(), 0, layout.RECORDS)
            self._memory = mmap.mmap(file.fileno(), nbytes)
        except BaseException:
            file.close()
            raise
        now = time.monotonic_ns(), time.time_ns()
        place = layout.MAGIC, layout.RECORD.size, capacity, 0, *now, 0, engine.rank, os.getpid()
        layout.HEADER.pack_into(self._memory, 0, *place)
        self._names = _Names(os.path.splitext(self.path)[0] + ".names", file, capacity)
        self._names.recording = self
        self._names.say(rank=engine.rank, size=engine.size, host=os.uname().nodename, clock=_clock(), program=sys.argv)
        self._engine = engine
        self._process = os.getpid()
        self._collecting = 0.0
        self._timer: Timer | None = None
        self._recorder = engine.recorder = Recorder(self._memory, self._names)
        gc.callbacks.append(self._collects)
        if engine.driver.background and not yields:
            self._look(None)

    def stop(self) -> None:
        """End the recording. It can be called again."""
        if self._engine.recorder is not self._recorder:
            return
        self._engine.recorder = None
        if self._timer is not None:
            self._timer.cancel()
        gc.callbacks.remove(self._collects)
        self._recorder.close()
        layout.COUNT.pack_into(self._memory, layout.END, time.monotonic_ns())
        self._names.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def _collects(self, phase: str, info: dict[str, int]) -> None:
        """Record a garbage collection."""
        if phase == "start":
            self._collecting = time.perf_counter()
        elif self._collecting and os.getpid() == self._process:  # not in a child process, which shares the file
            seconds = time.perf_counter() - self._collecting
            self._recorder.past(layout.GC, seconds, info.get("generation", 0), info.get("collected", 0))

    def _look(self, due: float | None) -> None:
        """Record how late the event loop runs a callback that was due."""
        now = time.monotonic()
        if due is not None and now - due > _LATE:
            self._recorder.past(layout.LATE, now - due)
        self._timer = self._engine.driver.call_later(_LOOK, functools.partial(self._look, now + _LOOK))


def is_library(path: str) -> bool:
    """Return True for the path of code of this package."""
    return path.startswith(_PACKAGE)


def is_standard(path: str) -> bool:
    """Return True for the path of code of the standard library."""
    return path.startswith("<frozen ") or (path.startswith(_STANDARD) and _SITE not in path)


def _clock() -> str:
    """Return the identity of the monotonic clock; empty if it is unknown. The processes of one boot share this clock.

    Containers of one machine share the clock, although their host names differ, unless they have their own time
    namespaces.
    """
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            return f"{file.read().strip()} {os.readlink('/proc/self/ns/time')}"
    except OSError:
        return ""


def _reserve(file: int, start: int, nbytes: int) -> None:
    """Allocate disk space for a part of a mapped file, because a write without such space ends the process (SIGBUS).

    Raises:
        OSError: the file system has no room.
    """
    try:
        os.posix_fallocate(file, start, nbytes)
    except OSError as error:
        if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL):  # the file system cannot do that
            raise


def _line(position: layout.Position) -> tuple[str, int, str]:
    """Return the file, line and function of a position."""
    code, instruction = position
    lines = list(code.co_positions())
    line = lines[instruction // 2][0] if instruction // 2 < len(lines) else None
    return code.co_filename, line or code.co_firstlineno, code.co_qualname


class _Names:
    """The names of places and words, in lines of JSON; see `aiompi.core.pure.recorder.Naming`.

    Attributes:
        recording: the recording to which the names belong.
    """

    recording: Recording

    def __init__(self, path: str, records: BinaryIO, capacity: int) -> None:
        self._file = open(path, "wb", buffering=0)  # noqa: SIM115
        self._records, self._capacity = records, capacity
        self._full = False
        self._words: dict[str, int] = {}
        self._places = 0

    def now(self) -> int:
        return time.monotonic_ns()

    def say(self, **fields: Any) -> None:
        """Write a line. Once the file system has no room for a line, write no further line."""
        line = json.dumps(fields).encode() + b"\n"
        if self._full:
            return
        try:
            self._full = self._file.write(line) != len(line)
        except OSError:
            self._full = True

    def room(self, written: int) -> int:
        if written >= self._capacity:
            return _ALL
        step = min(_STEP, self._capacity - written)
        try:
            _reserve(self._records.fileno(), layout.RECORDS + written * layout.RECORD.size, step * layout.RECORD.size)
        except OSError as error:
            with contextlib.suppress(Warning):  # a message must not fail because of its record
                warnings.warn(f"the recording of a rank ends after {written} operations: {error}", stacklevel=2)
            return written
        return written + step

    def close(self) -> None:
        self._file.close()
        self._records.close()

    def classify(self, code: CodeType) -> int:
        path = code.co_filename
        if not is_library(path):
            if path.startswith(_ASYNCIO) and code.co_name in _LOOPS:
                return layout.LOOP
            return layout.WRAPPER if is_standard(path) else layout.PROGRAM
        if code.co_qualname in _CALLS:
            return layout.LIBRARY
        return layout.WRAPPER if code.co_name in _WRAPPERS or code.co_name.startswith("_") else layout.LIBRARY

    def place(self, called: CodeType | None, at: layout.Position, caller: layout.Position | None) -> int:
        self._places += 1
        call = "" if called is None else _CALLS.get(called.co_qualname, called.co_name)
        self.say(place=self._places, call=call, at=_line(at), caller=None if caller is None else _line(caller))
        return self._places

    def word(self, text: str) -> int:
        if text not in self._words:
            if len(self._words) == _WORDS:
                return 0
            self._words[text] = len(self._words) + 1
            self.say(word=self._words[text], text=text)
        return self._words[text]

    def way(self, peer: Any) -> int:
        link = getattr(peer, "link", None)
        if link is None:
            return 0
        return _WAYS.get(type(link).__name__) or (layout.TCP if getattr(link, "far", False) else layout.UNIX)
