"""`Screen`: the table of a job in a terminal, below the output of the job."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import io
import os
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

from aiompi.wire.look import WAITS, Look, table
from aiompi_launcher.output.streams import Sink
from aiompi_launcher.top.watch import Title

#: seconds after output until the table is drawn again
_PAUSE: Final = 0.1
#: lines of the terminal that tables leave to output
_LEFT: Final = 4
#: lines of a table beside those of ranks: title, header, summary
_AROUND: Final = 3
_PROGRAM: Final = 60  # most characters of a command

#: of all ranks those that are shown if there is no room for all: failed ones, late ones, and those that wait for long
_ORDER: Final = ("failed", "gone", "computes", "starts", "runs", WAITS)

# Sequences of terminals (ECMA-48, and DEC's for the cursor).
_CLEAR_BELOW: Final = "\x1b[J"
_CLEAR_LINE: Final = "\x1b[K"
_DOWN: Final = "\x1bD"  # and scroll at the end of the screen, which a movement does not
_UP: Final = "\x1b[{}A"
_SAVE: Final = "\x1b7"
_RESTORE: Final = "\x1b8"


class JobLooks(NamedTuple):
    """A job, and what its ranks do."""

    launcher: int
    title: Title
    looks: Sequence[Look]


def obstacle(descriptor: int | None) -> str:
    """Return why there can be no table in a terminal; empty if there can.

    Args:
        descriptor: of the terminal, None if there is none.
    """
    if importlib.util.find_spec("rich") is None:
        return "needs rich, which comes with the extra trace of aiompi"
    if descriptor is None or os.environ.get("TERM", "dumb") == "dumb":
        return "needs a terminal"
    return ""


def text(jobs: Iterable[JobLooks], width: int | None = None, height: int | None = None) -> str:
    """Return the tables of jobs as lines of text.

    Args:
        width, height: of a terminal. Without them there are no colours, and all ranks are shown.
    """
    from rich.console import Console

    plain = width is None
    file = io.StringIO()
    console = Console(file=file, force_terminal=not plain, width=width or 1000, highlight=False)
    jobs = [*jobs]
    room = None if height is None else max(1, (height - _LEFT) // max(1, len(jobs)) - _AROUND)
    for job in jobs:
        shown, summary = _choose(job.looks, room)
        console.print(_title(job), markup=False, no_wrap=True, overflow="ellipsis")
        console.print(table(shown))
        if summary:
            console.print(summary, markup=False, no_wrap=True, overflow="ellipsis")
    lines = file.getvalue().splitlines()
    return "".join(f"{line.rstrip() if plain else line}\n" for line in lines)


def _title(job: JobLooks) -> str:
    program = job.title.program
    program = program if len(program) <= _PROGRAM else program[: _PROGRAM - 3] + "..."
    seconds = int(max(0.0, time.time() - job.title.since))
    minutes, hours = seconds // 60, seconds // 3600
    lasts = f"{hours}:{minutes % 60:02}:{seconds % 60:02}" if hours else f"{minutes}:{seconds % 60:02}"
    return f"job {job.launcher}: {program}, {len(job.looks)} ranks, {lasts}"


def _choose(looks: Sequence[Look], room: int | None) -> tuple[Sequence[Look], str]:
    """Return the looks for which there is room, and a summary of the others."""
    if room is None or len(looks) <= room:
        return looks, ""
    order = {state: place for place, state in enumerate(_ORDER)}
    ranked = sorted(looks, key=lambda look: (order.get(look.state, len(order)), -look.seconds, look.rank))
    counts: dict[str, int] = {}
    for look in ranked[room:]:
        counts[look.state] = counts.get(look.state, 0) + 1
    rest = ", ".join(f"{count} {state}" for state, count in counts.items())
    return sorted(ranked[:room], key=lambda look: look.rank), f"and {len(looks) - room} more: {rest}"


class Screen:
    """Draws the tables below the output of the job (protocol `aiompi_launcher.output.streams.Overlay`).

    The cursor stays at the end of the output, also in the middle of a line, where the user may type.

    Args:
        sink: of the output that goes to the terminal.
        descriptor: of the terminal.
        jobs: returns what is shown.
    """

    def __init__(self, sink: Sink, descriptor: int, jobs: Callable[[], Iterable[JobLooks]]) -> None:
        self._sink, self._descriptor, self._jobs = sink, descriptor, jobs
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._shown = self._closed = False
        self._lines: list[str] = []
        sink.overlay = self

    def hide(self) -> bytes:
        """Return what makes room for output; the table comes back after a moment."""
        if not self._shown:
            return b""
        self._shown = False
        self._soon()
        return _CLEAR_BELOW.encode()

    def update(self) -> None:
        """Draw the tables of now."""
        if not self._closed:
            self._render()
            self._draw()

    def _render(self) -> None:
        with contextlib.suppress(OSError):  # the terminal has gone, and the job ends by SIGHUP
            size = os.get_terminal_size(self._descriptor)
            self._lines = text(self._jobs(), max(size.columns - 1, 20), size.lines).splitlines()

    def close(self) -> None:
        """Leave the last tables as output of the launcher."""
        if self._closed:
            return
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        self._render()
        self._sink.write(self, "".join(f"{line}\n" for line in self._lines).encode())

    def _soon(self) -> None:
        if self._timer is None and not self._closed:
            self._timer = self._loop.call_later(_PAUSE, self._draw)

    def _draw(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._sink.busy:
            self._soon()
        elif self._lines:
            count = len(self._lines)
            lines = "".join(f"\r\n{line}{_CLEAR_LINE}" for line in self._lines)
            room = _DOWN * count + _UP.format(count)
            self._shown = True
            self._sink.draw(f"{room}{_SAVE}{lines}{_CLEAR_BELOW}{_RESTORE}".encode())
