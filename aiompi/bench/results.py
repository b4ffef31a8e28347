"""What a command has measured, for the screen and for a file."""

from __future__ import annotations

import datetime
import json
import os
import sys
from pathlib import Path
from typing import Any

from aiompi.bench.contender import BenchError
from aiompi.bench.machine import machine, settings


def show(text: str) -> None:
    """Print lines at once.

    Raises:
        BrokenPipeError: nobody reads them any more.
        BenchError: they cannot be written.
    """
    try:
        print(text, flush=True)
    except OSError as error:
        # what could not be written is not to be tried again when the interpreter ends
        with open(os.devnull, "wb") as nowhere:
            os.dup2(nowhere.fileno(), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            raise
        raise BenchError(f"standard output: {error.strerror}") from None


def write(path: Path, text: str) -> None:
    """Write a file.

    Raises:
        BenchError: it cannot be written.
    """
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise BenchError(f"{path}: {error.strerror}") from None


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

    def save(self, complete: bool, *, more: bool = False, **measured: Any) -> None:
        """Write the file anew, so that what has been measured is there whatever happens next.

        Args:
            complete: whether this is all that was to be measured.
            more: whether this will be called again: a pipe, which cannot be written anew, gets what is there then.
            measured: what has been measured.

        Raises:
            BenchError: it cannot be written.
        """
        path = self._path
        if path is not None and (not more or path.is_file() or not path.exists()):
            everything = {**self._about, "complete": complete, **measured}
            write(path, json.dumps(everything, indent=1) + "\n")
