"""The report on a trace as one page of HTML, with pictures in it."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any, Final

from aiompi.trace import analysis, pictures, report
from aiompi.trace.reading import Trace

#: rows of a table
_ROWS: Final = 200
#: title of a section -> caption of its picture, and the picture
_PICTURES: Final[dict[str, tuple[str, Callable[[Trace, list[analysis.Waiting]], Any]]]] = {
    report.LATE_RANKS: ("When each rank computed and waited, with the critical path", pictures.timeline),
    report.BY_RANK: ("For how long each rank computed and waited", pictures.by_rank),
    report.MATRIX: ("Bytes that ranks sent to each other", pictures.matrix),
    report.SIZES: ("Messages by size and way", pictures.sizes),
}


def html(trace: Trace, title: str) -> str:
    """Return the page.

    Args:
        trace: the trace.
        title: of the page, such as the directory of the trace.

    Raises:
        ModuleNotFoundError: `jinja2` or `matplotlib` is not installed.
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined  # an optional dependency

    found = analysis.waitings(trace)
    sections = report.sections(trace, found, _ROWS)
    drawn = {
        section.title: (text, _data(pictures.svg(draw(trace, found))))
        for section in sections
        for text, draw in (_PICTURES.get(section.title, ("", None)),)
        if draw is not None
    }
    environment = Environment(
        loader=PackageLoader("aiompi.trace", "."), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    environment.filters["shown"] = report.shown
    template = environment.get_template("page.html")
    return template.render(title=title, sections=sections, pictures=drawn)


def _data(svg: str) -> str:
    """Return a picture as a data URL. A separate image keeps the picture's ids from clashing with other ids."""
    return f"data:image/svg+xml;base64,{base64.b64encode(svg.encode()).decode()}"
