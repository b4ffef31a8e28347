"""What a command has measured, for the screen and for a file."""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Any

from aiompi.bench.machine import machine, settings


class Results:
    """All that has been measured so far, with what it depends on.

    Args:
        path: of a file for them in JSON, None for none.
        options: of the command, "awake" among them.
    """

    def __init__(self, path: Path | None, **options: Any) -> None:
        self._path = path
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        self._about: dict[str, Any] = {"time": now, "machine": machine(), "settings": settings(), "options": options}

    @property
    def head(self) -> str:
        """A line about the machine and the settings."""
        about = [f"{name} {value}" for name, value in self._about["machine"].items()]
        about += [f"{name}={value}" for name, value in self._about["settings"].items()]
        if self._about["options"]["awake"]:
            about.append("idle cores kept awake")
        return ", ".join(about)

    def save(self, complete: bool, **measured: Any) -> None:
        """Write the file anew, so that what has been measured is there whatever happens next.

        Args:
            complete: whether this is all that was to be measured.
            measured: what has been measured.

        Raises:
            OSError: it cannot be written.
        """
        if self._path is not None:
            everything = {**self._about, "complete": complete, **measured}
            self._path.write_text(json.dumps(everything, indent=1) + "\n", encoding="utf-8")
