"""`Overlay`: lines in the terminal below the output of a job, and `Progress`, a bar for a start that takes long."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import os
from collections.abc import Callable
from typing import Any, Final

from aiompi_launcher.output.outputs import Outputs
from aiompi_launcher.output.streams import Sink

#: seconds after output until the lines are drawn again
_PAUSE: Final = 0.1
#: seconds after which a start has a bar, and seconds between two drawings of the bar
_AFTER: Final = 1.0
_EVERY: Final = 0.1
_BAR: Final = 40  # columns
_COLUMNS, _LINES = 80, 24  # of a terminal that does not say

# Sequences of terminals (ECMA-48, and DEC's for the cursor).
_CLEAR_BELOW: Final = "\x1b[J"
_CLEAR_LINE: Final = "\x1b[K"
_DOWN: Final = "\x1bD"  # and scroll at the end of the screen, which a movement does not
_UP: Final = "\x1b[{}A"
_SAVE: Final = "\x1b7"
_RESTORE: Final = "\x1b8"


def rendered(width: int, *parts: Any, plain: bool = False) -> list[str]:
    """Return what `rich` prints as lines.

    Args:
        width: columns.
        parts: texts, and other objects that rich renders.
        plain: True for text without sequences of terminals.
    """
    import io  # an optional dependency

    from rich.console import Console

    file = io.StringIO()
    console = Console(file=file, force_terminal=not plain, width=width, highlight=False, markup=False)
    for part in parts:
        console.print(part, no_wrap=True, overflow="ellipsis")
    return file.getvalue().splitlines()


class Overlay:
    """Draws lines below the output of a job (protocol `aiompi_launcher.output.streams.Drawing`).

    The cursor stays at the end of the output, where the user may type, even if the output ends in the middle of a line.

    Args:
        sink: of the output that goes to the terminal.
        descriptor: of the terminal.
        lines: called with the columns and lines of the terminal; returns the lines to show now.
        stays: True to leave the last lines as output.
    """

    def __init__(
        self, sink: Sink, descriptor: int, lines: Callable[[int, int], list[str]], *, stays: bool = False
    ) -> None:
        self._sink, self._descriptor, self._make, self._stays = sink, descriptor, lines, stays
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._shown = self._closed = False
        self._lines: list[str] = []
        sink.drawing = self

    def hide(self) -> bytes:
        """Return the bytes that clear the lines to make room for output; the lines come back after a moment."""
        if not self._shown:
            return b""
        self._shown = False
        self._soon()
        return _CLEAR_BELOW.encode()

    def update(self) -> None:
        """Draw the current lines, unless they are drawn already."""
        before = self._lines
        if not self._closed:
            self._render()
            if not self._shown or self._lines != before:
                self._draw()

    def close(self) -> None:
        """Draw no more."""
        if self._closed:
            return
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        if self._stays:
            self._render()
            self._sink.write(self, "".join(f"{line}\n" for line in self._lines).encode())
        else:
            self._sink.draw(self.hide())
        self._sink.drawing = None

    def _render(self) -> None:
        with contextlib.suppress(OSError):  # the terminal has gone, and the job ends by SIGHUP
            size = os.get_terminal_size(self._descriptor)
            self._lines = self._make(max((size.columns or _COLUMNS) - 1, 20), size.lines or _LINES)

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


class Progress:
    """Shows in the terminal how far a start has come, if the start takes long. With rich there is a bar.

    Args:
        outputs: of the job.
        what: name of the counted things, such as "hosts".
        count: number of these things.
    """

    def __init__(self, outputs: Outputs, what: str, count: int) -> None:
        self._outputs, self._what, self._count = outputs, what, count
        self._done = 0
        self._overlay: Overlay | None = None
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        terminal = outputs.terminal()
        if terminal is not None:
            self._timer = self._loop.call_later(_AFTER, self._begin, *terminal)

    def step(self) -> None:
        """Another one has started."""
        self._done += 1

    def close(self) -> None:
        """The start has ended: remove the line from the terminal."""
        if self._timer is not None:
            self._timer.cancel()
        if self._overlay is not None:
            self._overlay.close()

    def _begin(self, sink: Sink, descriptor: int) -> None:
        if sink.drawing is None:  # a table of the job shows more
            self._overlay = Overlay(sink, descriptor, self._lines)
            self._show()

    def _show(self) -> None:
        if self._overlay is not None:
            self._overlay.update()
            self._timer = self._loop.call_later(_EVERY, self._show)

    def _lines(self, width: int, height: int) -> list[str]:
        text = f"{self._outputs.name}: {self._done} of {self._count} {self._what} have started"
        bar = min(_BAR, width - len(text) - 1)
        if bar < 1 or importlib.util.find_spec("rich") is None:
            return [text[:width]]
        from rich.progress_bar import ProgressBar  # an optional dependency
        from rich.table import Table

        row = Table.grid(padding=(0, 1))
        row.add_row(text, ProgressBar(total=self._count, completed=self._done, width=bar))
        return rendered(width, row)
