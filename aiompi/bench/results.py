"""What a command has measured, for the screen and for a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from aiompi.bench.machine import machine


class Results:
    """All that has been measured so far, with what it depends on.

    Args:
        path: of a file for them in JSON, None for none.
        repeat: turns of each side.
        quick: whether the figures mean little.
        awake: whether idle cores are kept awake.
    """

    def __init__(self, path: Path | None, repeat: int, quick: bool, awake: bool) -> None:
        self._path = path
        self._about = {"machine": machine(), "options": {"repeat": repeat, "quick": quick, "awake": awake}}

    @property
    def head(self) -> str:
        """A line about the machine."""
        about = [f"{name} {value}" for name, value in self._about["machine"].items()]
        if self._about["options"]["awake"]:
            about.append("idle cores kept awake")
        return ", ".join(about)

    def save(self, **measured: Any) -> None:
        """Write the file anew, so that what has been measured is there whatever happens next.

        Raises:
            OSError: it cannot be written.
        """
        if self._path is not None:
            self._path.write_text(json.dumps({**self._about, **measured}, indent=1) + "\n", encoding="utf-8")
