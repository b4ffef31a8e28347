"""`Progress`: a bar in the terminal for the results of a `map`. The caller asks for the bar by naming it."""

from __future__ import annotations

import contextlib
import importlib.util
import sys
import warnings
from collections.abc import Iterable, Iterator, Sized
from typing import Any, Self, TypeVar

T = TypeVar("T")
F = TypeVar("F", bound=Any)


class Progress(contextlib.AbstractContextManager["Progress"]):
    """A bar of completed calls, in a block. No bar is shown without a name, or if standard error is no terminal.

    Args:
        name: of the bar; None for no bar.
        total: number of calls, None if it is not known.
    """

    def __init__(self, name: str | None, total: int | None) -> None:
        self._bar: Any = None
        if name is None or sys.stderr is None or not sys.stderr.isatty():
            return
        if importlib.util.find_spec("rich") is None:
            warnings.warn("a progress bar needs rich, which comes with the extra trace of aiompi", stacklevel=3)
            return
        from rich import progress  # an optional dependency
        from rich.console import Console

        columns = (
            progress.TextColumn("{task.description}", markup=False), progress.BarColumn(),
            progress.MofNCompleteColumn(), progress.TimeRemainingColumn(),
        )  # fmt: skip
        self._bar = progress.Progress(*columns, console=Console(stderr=True))
        self._task = self._bar.add_task(name, total=total)

    def __enter__(self) -> Self:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def count(self, future: F, calls: int) -> F:
        """Count the calls of a future when it is done; return the future."""
        if self._bar is not None:
            future.add_done_callback(lambda done: self._bar.advance(self._task, calls))
        return future

    def around(self, results: Iterator[T]) -> Iterator[T]:
        """Return an iterator of the same results. While it is used, the bar is shown."""
        return results if self._bar is None else self._show(results)

    def _show(self, results: Iterator[T]) -> Iterator[T]:
        with self:
            yield from results


def size_of(*iterables: Iterable[Any]) -> int | None:
    """Return how many items `zip` takes from iterables; None if an iterable does not tell its length."""
    sized = [each for each in iterables if isinstance(each, Sized)]
    return min(map(len, sized)) if sized and len(sized) == len(iterables) else None
