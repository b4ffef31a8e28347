"""`Watched`: what a rank does now, by the files that it is writing."""

from __future__ import annotations

import mmap
import os
import time
from pathlib import Path
from typing import Final

import numpy as np

from aiompi.base.usage import Usage
from aiompi.core.pure import recorder as layout
from aiompi.errors import InvalidArgumentError
from aiompi.trace.reading import NOWHERE, Names
from aiompi.wire.look import RUNS, WAITS, Look

#: the latest records, among which is the one that a rank waits for
_RECENT: Final = 256
_MESSAGES: Final = (layout.SEND, layout.RECV, layout.READY, layout.PUT, layout.GET, layout.PART)
#: the fields of a record, see `layout.RECORD`
_FIELDS: Final = np.dtype([
    ("begin", "=u8"), ("wait", "=u8"), ("end", "=u8"), ("context", "=u8"), ("nbytes", "=u8"), ("peer", "=i4"),
    ("tag", "=i4"), ("place", "=u4"), ("wait_place", "=u4"), ("kind", "u1"), ("way", "u1"), ("word", "=u2"),
    ("", "V4"),
])  # fmt: skip


class Watched:
    """The files of a rank that is being recorded.

    Args:
        path: path of the file with the records.

    Raises:
        InvalidArgumentError: the file is no trace.
    """

    def __init__(self, path: Path) -> None:
        with path.open("rb") as file:
            self._memory = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        if self._memory[: len(layout.MAGIC)] != layout.MAGIC:
            raise InvalidArgumentError(f"{path} is no trace of this version of aiompi")
        _, _, capacity, head, begin, _, _, self.rank, pid = layout.HEADER.unpack_from(self._memory)
        self._records = np.frombuffer(self._memory, _FIELDS, capacity, layout.RECORDS)
        self._mask = capacity - 1
        self._names = Names(path.with_suffix(".names"))
        self._names.read()
        self._here = self._names.host == os.uname().nodename
        # The first rates count from the beginning of the trace, or from now if the trace uses the clock of another
        # machine.
        self._head: int = 0 if self._here else head
        self._time: float = begin / 1e9 if self._here else time.monotonic()
        self._usage = Usage(pid)

    def look(self) -> Look:
        """Look at the rank; the rates count from the last look."""
        self._names.read()
        head, ended = (layout.COUNT.unpack_from(self._memory, at)[0] for at in (layout.HEAD, layout.END))
        first = max(0, head - self._mask - 1, min(self._head, head - _RECENT))
        records = self._records[np.arange(first, head) & self._mask]
        new = records[max(0, self._head - first) :]
        messages = new[np.isin(new["kind"], _MESSAGES)]
        now = time.monotonic()
        elapsed = max(now - self._time, 1e-3)
        cpu, memory, alive = self._usage.read(now) if self._here else (None, None, True)
        recent = records[-_RECENT:]
        waiting = recent[(recent["wait"] > 0) & (recent["end"] == 0)]
        state, seconds, place, peer = RUNS, 0.0, NOWHERE, -1
        if ended or not alive:
            state = "ended" if ended else "gone"
        elif len(waiting):
            last = waiting[-1]
            state, peer = WAITS, int(last["peer"])
            place = self._names.place(int(last["wait_place"]))
            place = place if place.call else self._names.place(int(last["place"]))
            seconds = max(0.0, now - int(last["wait"]) / 1e9) if self._here else 0.0
        more = (head - self._head) / max(1, len(new))  # the ring has not kept all records since the last look
        self._head, self._time = head, now
        rates = more * len(messages) / elapsed, more * float(messages["nbytes"].sum()) / elapsed
        where = place.short if place is not NOWHERE else ""
        return Look(self.rank, self._names.host, state, seconds, where, peer, *rates, cpu, memory)
