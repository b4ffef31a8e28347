"""A terminal for a process, and its screen."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from .limits import LIMIT

_SEQUENCE: Final = re.compile(r"\x1b\[[?]?([0-9;]*)([A-Za-z])|\x1b([78DM])|([\r\n])|([^\x1b\r\n]+)")


class Screen:
    """The lines of a terminal, also those that have scrolled away, for the sequences that the launcher uses."""

    def __init__(self, width: int, height: int) -> None:
        self.width, self.height = width, height
        self.lines = [""]
        self._row = self._column = 0
        self._saved = 0, 0
        self._rest = ""

    @property
    def text(self) -> str:
        return "\n".join(line.rstrip() for line in self.lines)

    def feed(self, data: str) -> None:
        """Take output; a sequence at its end may be incomplete."""
        data, self._rest = self._rest + data, ""
        cut = data.rfind("\x1b")
        if cut >= 0 and not _SEQUENCE.match(data, cut):
            data, self._rest = data[:cut], data[cut:]
        for number, letter, short, control, text in _SEQUENCE.findall(data):
            if text:
                self._put(text)
            elif control == "\r":
                self._column = 0
            elif control == "\n" or short == "D":
                self._row += 1
                self.lines += [""] * (self._row + 1 - len(self.lines))
            elif short == "7":
                self._saved = self._row, self._column
            elif short == "8":
                self._row, self._column = self._saved
            elif letter == "A":
                top = max(0, len(self.lines) - self.height)
                self._row = max(top, self._row - int(number or 1))
            elif letter in "JK":
                self.lines[self._row] = self.lines[self._row][: self._column]
                if letter == "J":
                    del self.lines[self._row + 1 :]

    def _put(self, text: str) -> None:
        while text:
            if self._column == self.width:
                self._row, self._column = self._row + 1, 0
                self.lines += [""] * (self._row + 1 - len(self.lines))
            part, text = text[: self.width - self._column], text[self.width - self._column :]
            line = self.lines[self._row].ljust(self._column)
            self.lines[self._row] = line[: self._column] + part + line[self._column + len(part) :]
            self._column += len(part)


class InTerminal:
    """A process in a terminal of its own. It is a context manager that ends the process.

    Attributes:
        screen: what the terminal shows.
    """

    def __init__(
        self, argv: Sequence[str], environ: Mapping[str, str], directory: Path, width: int = 100, height: int = 30
    ) -> None:
        self.screen = Screen(width, height)
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))
        environ = {**environ, "TERM": "xterm", "NO_COLOR": "1"}
        self.process = subprocess.Popen(
            argv, env=environ, cwd=directory, stdin=slave, stdout=slave, stderr=slave, start_new_session=True
        )
        os.close(slave)

    def __enter__(self) -> InTerminal:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._master)

    def until(self, seen: Callable[[str], object]) -> str:
        """Wait until the screen is as a function wants it; return its text."""
        deadline = time.monotonic() + LIMIT
        while not seen(self.screen.text):
            assert time.monotonic() < deadline, self.screen.text
            assert self._read(0.5), f"it has ended: {self.screen.text}"
        return self.screen.text

    def type(self, text: str) -> None:
        os.write(self._master, text.encode())

    def finish(self) -> int:
        """Wait for the end; return the exit status."""
        deadline = time.monotonic() + LIMIT
        while self._read(0.5):
            assert time.monotonic() < deadline, self.screen.text
        return self.process.wait(LIMIT)

    def _read(self, seconds: float) -> bool:
        """Read output for some time; return False at its end."""
        data = b""
        with contextlib.suppress(OSError):
            if not select.select([self._master], [], [], seconds)[0]:
                return True
            data = os.read(self._master, 2**16)
        self.screen.feed(data.decode(errors="replace"))
        return bool(data)
