"""A live table of the ranks of a job that records a trace: `python -m aiompi.trace --top DIR`."""

from __future__ import annotations

import dataclasses
import mmap
import os
import time
from pathlib import Path
from typing import Any, Final

import numpy as np

from aiompi.core.pure import recorder as layout
from aiompi.errors import InvalidArgumentError
from aiompi.trace.reading import NOWHERE, Names, Place

#: seconds between two looks
INTERVAL: Final = 1.0
#: the latest records, among which is the one that a rank waits for
_RECENT: Final = 256
#: the fields of a record, see `layout.RECORD`
_FIELDS: Final = np.dtype([
    ("begin", "=u8"), ("wait", "=u8"), ("end", "=u8"), ("context", "=u8"), ("nbytes", "=u8"), ("peer", "=i4"),
    ("tag", "=i4"), ("place", "=u4"), ("wait_place", "=u4"), ("kind", "u1"), ("way", "u1"), ("word", "=u2"),
    ("", "V4"),
])  # fmt: skip


@dataclasses.dataclass(frozen=True, slots=True)
class Look:
    """What one rank does now.

    Attributes:
        rank: its rank.
        host: name of its machine.
        state: "runs"; "waits"; "ended" if its recording was stopped; "gone" if its process has ended without that.
        seconds: for how long it waits; 0.0 where its clock cannot be read.
        place: of the call that waits.
        peer: the process for which it waits, -1 if that may be any.
        messages: that it has sent and received, per second.
        nbytes: of these messages, per second.
        cpu: of one core; None on another machine.
        memory: resident bytes; None on another machine.
    """

    rank: int
    host: str
    state: str
    seconds: float
    place: Place
    peer: int
    messages: float
    nbytes: float
    cpu: float | None
    memory: int | None


class Watched:
    """The files of a rank that is being recorded.

    Args:
        path: of its records.

    Raises:
        InvalidArgumentError: the file is no trace.
    """

    def __init__(self, path: Path) -> None:
        with path.open("rb") as file:
            self._memory = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        if self._memory[: len(layout.MAGIC)] != layout.MAGIC:
            raise InvalidArgumentError(f"{path} is no trace of this version of aiompi")
        _, _, capacity, head, begin, _, _, self.rank, self._pid = layout.HEADER.unpack_from(self._memory)
        self._records = np.frombuffer(self._memory, _FIELDS, capacity, layout.RECORDS)
        self._mask = capacity - 1
        self._names = Names(path.with_suffix(".names"))
        self._names.read()
        self._here = self._names.host == os.uname().nodename
        # The first rates are those since the trace began, of which another machine has another clock.
        self._head: int = 0 if self._here else head
        self._time: float = begin / 1e9 if self._here else time.monotonic()
        self._cpu = 0

    def look(self) -> Look:
        """Look at the rank; rates are those since the last look."""
        self._names.read()
        head, ended = (layout.COUNT.unpack_from(self._memory, at)[0] for at in (layout.HEAD, layout.END))
        first = max(0, head - self._mask - 1, min(self._head, head - _RECENT))
        records = self._records[np.arange(first, head) & self._mask]
        new = records[max(0, self._head - first) :]
        messages = new[np.isin(new["kind"], (layout.SEND, layout.RECV, layout.PART))]
        now = time.monotonic()
        elapsed = max(now - self._time, 1e-3)
        cpu, memory, alive = self._process(elapsed) if self._here else (None, None, True)
        recent = records[-_RECENT:]
        waiting = recent[(recent["wait"] > 0) & (recent["end"] == 0)]
        state, seconds, place, peer = "runs", 0.0, NOWHERE, -1
        if ended or not alive:
            state = "ended" if ended else "gone"
        elif len(waiting):
            last = waiting[-1]
            state, peer = "waits", int(last["peer"])
            place = self._names.place(int(last["wait_place"]))
            place = place if place.call else self._names.place(int(last["place"]))
            seconds = max(0.0, now - int(last["wait"]) / 1e9) if self._here else 0.0
        self._head, self._time = head, now
        rates = len(messages) / elapsed, float(messages["nbytes"].sum()) / elapsed
        return Look(self.rank, self._names.host, state, seconds, place, peer, *rates, cpu, memory)

    def _process(self, elapsed: float) -> tuple[float, int, bool]:
        """Return the cores that the process uses, its resident bytes, and whether it lives."""
        try:
            fields = Path(f"/proc/{self._pid}/stat").read_bytes().rpartition(b")")[2].split()
        except OSError:
            return 0.0, 0, False
        ticks = int(fields[11]) + int(fields[12])
        cpu = (ticks - self._cpu) / os.sysconf("SC_CLK_TCK") / elapsed
        self._cpu = ticks
        return cpu, int(fields[21]) * mmap.PAGESIZE, fields[0] not in (b"Z", b"X")


class Top:
    """The ranks of a directory, which may come later.

    Args:
        directory: of the trace.
    """

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        self._directory = Path(directory)
        self._watched: dict[Path, Watched] = {}

    def look(self) -> list[Look]:
        """Look at all ranks, in their order.

        Raises:
            InvalidArgumentError: there is no trace, or a file is none.
        """
        for path in self._directory.glob("rank-*.trace"):
            if path not in self._watched and path.with_suffix(".names").exists():
                self._watched[path] = Watched(path)
        if not self._watched:
            raise InvalidArgumentError(
                f"{self._directory} has no trace: start the job by aiompi-launch --trace {self._directory}"
            )
        return sorted((each.look() for each in self._watched.values()), key=lambda look: look.rank)


def table(looks: list[Look]) -> Any:
    """Return a table of `rich`."""
    from rich.table import Table

    made = Table(box=None, header_style="bold", pad_edge=False)
    for name in ("rank", "host", "CPU", "memory", "messages/s", "MB/s", "state"):
        made.add_column(name, justify="left" if name in ("host", "state") else "right", no_wrap=name != "state")
    for look in looks:
        cpu = "" if look.cpu is None else f"{look.cpu:.0%}"
        memory = "" if look.memory is None else f"{look.memory / 1e6:.0f} MB"
        rates = f"{look.messages:,.0f}", f"{look.nbytes / 1e6:,.1f}"
        made.add_row(str(look.rank), look.host, cpu, memory, *rates, said(look), style=_STYLES.get(look.state, ""))
    return made


_STYLES: Final = {"gone": "red", "ended": "dim"}


def said(look: Look) -> str:
    """Return the state of a rank in words."""
    if look.state != "waits":
        return look.state
    peer = f" for rank {look.peer}" if look.peer >= 0 else ""
    return f"waits {look.seconds:.1f} s{peer}: {look.place}"


def show(directory: str | os.PathLike[str]) -> None:
    """Show the table in the terminal until all ranks have ended, or Ctrl-C; where there is no terminal, once.

    Raises:
        InvalidArgumentError: there is no trace.
        ModuleNotFoundError: `rich` is not installed.
    """
    from rich.console import Console
    from rich.live import Live

    top, console = Top(directory), Console()
    looks = top.look()
    if not console.is_terminal:
        time.sleep(INTERVAL)
        console.print(table(top.look()), soft_wrap=True)
        return
    with Live(table(looks), console=console, auto_refresh=False) as live:
        while any(look.state in ("runs", "waits") for look in looks):
            time.sleep(INTERVAL)
            looks = top.look()
            live.update(table(looks), refresh=True)
