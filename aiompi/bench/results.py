"""Output of the commands: text for the screen, and `Results`, a JSON file with all measurements."""

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
        BrokenPipeError: nothing reads the output any more.
        BenchError: the lines cannot be written.
    """
    try:
        print(text, flush=True)
    except OSError as error:
        # the interpreter must not try to write the rest again when it ends
        with open(os.devnull, "wb") as nowhere:
            os.dup2(nowhere.fileno(), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            raise
        raise BenchError(f"standard output: {error.strerror}") from None


def write(path: Path, text: str) -> None:
    """Write a file.

    Raises:
        BenchError: the file cannot be written.
    """
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise BenchError(f"{path}: {error.strerror}") from None


class Results:
    """All measurements so far, with the machine, settings and options that they depend on.

    Args:
        path: path of the JSON file, None for no file.
        options: options of the command, including "awake".
    """

    def __init__(self, path: Path | None, **options: Any) -> None:
        self._path = path
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        self._about: dict[str, Any] = {"time": now, "machine": machine(), "settings": settings(), "options": options}

    @property
    def head(self) -> str:
        """Line about the machine and the settings."""
        about = [f"{name} {value}" for name, value in self._about["machine"].items()]
        about += [f"{name}={value}" for name, value in self._about["settings"].items()]
        if self._about["options"]["awake"]:
            about.append("idle cores kept awake")
        return ", ".join(about)

    def save(self, *, complete: bool, more: bool = False, **measured: Any) -> None:
        """Write the whole file again, so that no measurement is lost whatever happens next.

        Args:
            complete: True if nothing is left to measure.
            more: True if this method will be called again. Only the last call writes to a pipe, which cannot be
                rewritten.
            measured: the measurements.

        Raises:
            BenchError: the file cannot be written.
        """
        path = self._path
        if path is not None and (not more or path.is_file() or not path.exists()):
            everything = {**self._about, "complete": complete, **measured}
            write(path, json.dumps(everything, indent=1) + "\n")
