"""A live table of the ranks of a job that records a trace: `python -m aiompi.trace --top DIR`."""

from __future__ import annotations

import os
import time
from pathlib import Path

from aiompi.errors import InvalidArgumentError
from aiompi.trace.watched import Watched
from aiompi.wire.look import INTERVAL, RUNS, WAITS, Look, table


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
            InvalidArgumentError: the directory has no trace, or a file is no trace.
        """
        for path in self._directory.glob("rank-*.trace"):
            if path not in self._watched and path.with_suffix(".names").exists():
                self._watched[path] = Watched(path)
        if not self._watched:
            raise InvalidArgumentError(
                f"{self._directory} has no trace: start the job by aiompi-launch --trace {self._directory}"
            )
        return sorted((each.look() for each in self._watched.values()), key=lambda look: look.rank)


def show(directory: str | os.PathLike[str]) -> None:
    """Show the table in the terminal until all ranks have ended, or Ctrl-C. Without a terminal, print it once.

    Raises:
        InvalidArgumentError: there is no trace.
        ModuleNotFoundError: `rich` is not installed.
    """
    from rich.console import Console  # an optional dependency
    from rich.live import Live

    top, console = Top(directory), Console()
    looks = top.look()
    if not console.is_terminal:
        time.sleep(INTERVAL)
        console.print(table(top.look()), soft_wrap=True)
        return
    with Live(table(looks), console=console, auto_refresh=False) as live:
        while any(look.state in (RUNS, WAITS) for look in looks):
            time.sleep(INTERVAL)
            looks = top.look()
            live.update(table(looks), refresh=True)
