"""`Looking`: tells the launcher what this rank does now, while the user watches the job."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from types import FrameType
from typing import Any, Final

from aiompi.engine import Engine
from aiompi.trace.recording import Recording, is_library, is_standard
from aiompi.trace.watched import Watched
from aiompi.wire.look import RUNS, WAITS, Look

#: records that are kept, 1 MiB
_RECORDS: Final = 2**14
#: left out of the text of a wait, because it says nothing in most programs, and takes room
_EVERYBODY: Final = " on MPI_COMM_WORLD"


class Looking:
    """Looks at the rank of which it is a part. If nothing records this rank, the first look begins a recording.

    The recording lacks a wait that began before the recording. The stacks of threads or the tasks of the event loop
    show a wait of this kind.

    Args:
        engine: engine of the rank.
        directory: for a directory with the records; empty for any place.
    """

    def __init__(self, engine: Engine, directory: str) -> None:
        self._engine = engine
        self._directory = directory
        self._recording: Recording | None = None
        self._path = ""
        self._watched: Watched | None = None
        self._waits = ("", 0.0)  # a wait that is not recorded, and since when it is known

    def look(self) -> Look:
        """Return what the rank does; the rates are those since the previous look."""
        with contextlib.suppress(OSError):  # without room for records there are no rates
            self._watch()
        if self._watched is None:
            look = Look(self._engine.rank, os.uname().nodename, RUNS)
        else:
            look = self._watched.look()
        if look.state != RUNS:
            return look
        place, now = self._unrecorded_wait(), time.monotonic()
        if place != self._waits[0]:
            self._waits = place, now
        return look._replace(state=WAITS, place=place, seconds=now - self._waits[1]) if place else look

    def _watch(self) -> None:
        """Watch the recording of the rank, or begin one."""
        if self._engine.recorder is None:
            self._remove()
            place = tempfile.mkdtemp(prefix="look-", dir=self._directory or None)
            self._recording = Recording(self._engine, place, _RECORDS, yields=True)
        assert self._engine.recorder is not None
        path: str = self._engine.recorder.naming.recording.path  # type: ignore[attr-defined]
        if path != self._path:
            self._path, self._watched = path, Watched(Path(path))

    def _unrecorded_wait(self) -> str:
        tasks = self._engine.driver.tasks()
        return wait_of_threads() if tasks is None else wait_of_tasks(tasks)

    def stop(self) -> None:
        """Look no more, and end the recording that a look has begun."""
        self._remove()
        self._path, self._watched = "", None

    def _remove(self) -> None:
        if self._recording is not None:
            self._recording.stop()
            shutil.rmtree(os.path.dirname(self._recording.path), ignore_errors=True)
            self._recording = None


def wait_of_threads() -> str:
    """Return a call of aiompi in progress in any thread, and the program's line that makes it; "" if there is none."""
    return next(filter(None, map(_call, sys._current_frames().values())), "")


def _call(frame: FrameType | None) -> str:
    name = ""
    while frame is not None:
        code = frame.f_code
        if is_library(code.co_filename):
            name = code.co_name if not name or not code.co_name.startswith("_") else name
        elif not is_standard(code.co_filename):
            return f"{name} at {os.path.basename(code.co_filename)}:{frame.f_lineno}" if name else ""
        frame = frame.f_back
    return ""


def wait_of_tasks(tasks: Iterable[Any]) -> str:
    """Return the operation that a task awaits, its line in the program, and how many other tasks wait; "" if none."""
    waits = sorted(filter(None, map(_operation, tasks)))
    more = f", and {len(waits) - 1} more" if len(waits) > 1 else ""
    return waits[0] + more if waits else ""


def _operation(task: Any) -> str:
    """Follow a task's chain of awaits into aiompi; return the operation there and the program's line; "" if none."""
    link, place = task.get_coro(), ""
    while link is not None:
        words = link.__name__ if type(link).__module__.startswith("aiompi.") else ""
        words = words.removesuffix(_EVERYBODY).rstrip(",")
        if words:
            return f"{words} at {place}" if place else words
        frame = getattr(link, "cr_frame", None) or getattr(link, "gi_frame", None)
        file = "" if frame is None else frame.f_code.co_filename
        if is_library(file) or file.endswith(".pxi"):
            if place:
                return f"{getattr(link, '__name__', 'await').strip('_')} at {place}"
        elif frame is not None and not is_standard(file):
            place = f"{os.path.basename(file)}:{frame.f_lineno}"
        link = getattr(link, "cr_await", None) or getattr(link, "gi_yieldfrom", None)
    return ""
