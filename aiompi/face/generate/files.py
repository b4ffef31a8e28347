"""Files of the faces: where they are, what they import, and how they are formatted."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

FACE: Final = Path(__file__).parents[1]


def read(path: str) -> str:
    """Return the text of a file of the faces, such as "native/sending.py"."""
    return (FACE / path).read_text("utf-8")


def beginning(inputs: Sequence[str], doc: str) -> list[str]:
    """Return the first lines of a file that is generated from others: comment, docstring and first import."""
    return [first_line(inputs), f'"""{doc}"""\n', "from __future__ import annotations\n"]


def first_line(inputs: Sequence[str]) -> str:
    """Return the comment that names the files from which a file is written."""
    named = "these files" if inputs[1:] else "this file"
    return f"# Written by aiompi/face/generate from {', '.join(inputs)}: edit {named}."


def formatted(text: str, path: str) -> str:
    """Return a text as ruff formats it, without unused imports."""
    name = str(Path(__file__).parents[1] / path)  # the settings for this path apply
    for command in (["check", "--quiet", "--select", "I,F401", "--fix"], ["format", "--quiet"]):
        ruff = [sys.executable, "-m", "ruff", *command, "--stdin-filename", name, "-"]
        text = subprocess.run(ruff, input=text, capture_output=True, text=True, check=True).stdout
    return text
