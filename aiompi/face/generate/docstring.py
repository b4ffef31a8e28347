"""Docstrings in parts, and how they change from one form of a call to another."""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

WIDTH: Final = 120
BLOCKED: Final = "BlockingCallError: an event loop is running in this thread."

#: the statements under a time limit
_TIMED: Final = re.compile(r"^async with asyncio\.timeout\(.*\):\n((?: {4}.*\n?)+)", re.MULTILINE)
_RESULT: Final = re.compile(
    r"^(?:A|The) request(?:, to be awaited once| that is complete at once)?[,;]? (?:whose|its) result is "
)
_HEADING: Final = re.compile(r"^(Args|Returns|Raises|Cancelling|Example):\n", re.MULTILINE)


@dataclass
class Doc:
    """A docstring in parts.

    Attributes:
        summary: the first paragraph, in one line.
        text: further paragraphs, without indentation.
        sections: heading -> its lines, without indentation.
    """

    summary: str
    text: str
    sections: dict[str, str]

    @classmethod
    def parse(cls, docstring: str) -> Doc:
        top, *parts = _HEADING.split(inspect.cleandoc(docstring))
        summary, _, text = top.strip().partition("\n\n")
        sections = {name: textwrap.dedent(part).strip() for name, part in zip(parts[::2], parts[1::2], strict=True)}
        return cls(" ".join(summary.split()), text.strip(), sections)

    def entries(self, heading: str) -> list[str]:
        """Return the entries of a section, such as "root: rank.", each in one line."""
        section = self.sections.get(heading, "")
        return [" ".join(entry.split()) for entry in re.split(r"\n(?=\S)", section) if entry]

    def errors(self, when: str) -> list[str]:
        """Return the entries on errors, with `when` in place of "awaiting it: "."""
        return [entry.replace("awaiting it: ", when) for entry in self.entries("Raises")]

    @property
    def returns(self) -> str:
        """The section Returns, in one line."""
        return " ".join(self.entries("Returns"))

    @property
    def result(self) -> str:
        """The result of the returned request, as a sentence; empty if the section Returns names no result."""
        begin = _RESULT.match(self.returns)
        result = self.returns[begin.end() :] if begin else ""
        return result[:1].upper() + result[1:]

    def render(self) -> str:
        """Return the lines of the docstring in a method, with the quotes."""
        parts = [filled(self.summary, WIDTH - 8, '"""')]
        parts += [self.text] if self.text else []
        for heading in ("Args", "Returns", "Raises", "Cancelling", "Example"):
            if section := self.sections.get(heading):
                parts.append(f"{heading}:\n{textwrap.indent(section, '    ')}")
        return "\n\n".join(parts) + ('"""' if len(parts) == 1 else '\n"""')


def filled(text: str, width: int, first: str = "", hanging: str = "") -> str:
    return "\n".join(
        textwrap.wrap(text, width, initial_indent=first, subsequent_indent=hanging, break_on_hyphens=False)
    )


def section(entries: Iterable[str], hanging: str = "    ") -> str:
    return "\n".join(filled(entry, WIDTH - 12, hanging=hanging) for entry in entries)


def waiting(example: str) -> str:
    """Return an example of the asyncio face, converted to the blocking face."""
    example = _TIMED.sub(lambda timed: textwrap.dedent(timed[1]), example)
    return (
        example.replace("await ", "")
        .replace("world.", "comm.")
        .replace("aiompi.MPI.", "MPI.")
        .replace("aiompi.", "MPI.")
    )
