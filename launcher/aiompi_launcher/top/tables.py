"""The tables of a job and of the jobs that it has started, as lines."""

from __future__ import annotations

import importlib.util
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from aiompi.wire.look import WAITS, Look, table
from aiompi_launcher.output.overlay import rendered
from aiompi_launcher.top.watch import Title

#: lines of the terminal that tables leave to output
_LEFT: Final = 4
#: lines of a table beside those of ranks: title, header, summary
_AROUND: Final = 3
_WIDEST: Final = 1000  # columns of plain text
_PROGRAM: Final = 60  # most characters of a command

#: order in which ranks get the room for lines, by state: failed ranks, late ranks, ranks that wait for long
_ORDER: Final = ("failed", "gone", "computes", "starts", "runs", WAITS)


class JobLooks(NamedTuple):
    """A job, and what its ranks do."""

    launcher: int
    title: Title
    looks: Sequence[Look]


def obstacle(descriptor: int | None) -> str:
    """Return why a terminal cannot show a table; empty if it can.

    Args:
        descriptor: of the terminal, None if there is none.
    """
    if importlib.util.find_spec("rich") is None:
        return "needs rich, which comes with the extra trace of aiompi"
    if descriptor is None or os.environ.get("TERM", "dumb") == "dumb":
        return "needs a terminal"
    return ""


def lines(jobs: Iterable[JobLooks], width: int, height: int) -> list[str]:
    """Return the tables of jobs for a terminal of this width and height."""
    jobs = [*jobs]
    return rendered(width, *_parts(jobs, max(1, (height - _LEFT) // max(1, len(jobs)) - _AROUND)))


def text(jobs: Iterable[JobLooks]) -> str:
    """Return the tables of jobs as plain text, with all ranks."""
    return "".join(f"{line.rstrip()}\n" for line in rendered(_WIDEST, *_parts(jobs, None), plain=True))


def _parts(jobs: Iterable[JobLooks], room: int | None) -> Iterator[Any]:
    for job in jobs:
        shown, summary = _choose(job.looks, room)
        yield _title(job)
        yield table(shown)
        if summary:
            yield summary


def ranks(count: int) -> str:
    """Return words for a number of ranks."""
    return f"{count} rank{'s' * (count != 1)}"


def _title(job: JobLooks) -> str:
    program = job.title.program
    program = program if len(program) <= _PROGRAM else program[: _PROGRAM - 3] + "..."
    seconds = int(max(0.0, time.time() - job.title.since))
    minutes, hours = seconds // 60, seconds // 3600
    lasts = f"{hours}:{minutes % 60:02}:{seconds % 60:02}" if hours else f"{minutes}:{seconds % 60:02}"
    return f"job {job.launcher}: {program}, {ranks(len(job.looks))}, {lasts}"


def _choose(looks: Sequence[Look], room: int | None) -> tuple[Sequence[Look], str]:
    """Return the looks for which there is room, and a summary of the other looks."""
    if room is None or len(looks) <= room:
        return looks, ""
    order = {state: place for place, state in enumerate(_ORDER)}
    ranked = sorted(looks, key=lambda look: (order.get(look.state, len(order)), -look.seconds, look.rank))
    counts: dict[str, int] = {}
    for look in ranked[room:]:
        counts[look.state] = counts.get(look.state, 0) + 1
    rest = ", ".join(f"{count} {state}" for state, count in counts.items())
    return sorted(ranked[:room], key=lambda look: look.rank), f"and {len(looks) - room} more: {rest}"
