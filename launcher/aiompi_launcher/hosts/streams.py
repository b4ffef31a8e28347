"""Standard input and output of a rank on another host, between the launcher and the agent of the host."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import Final

#: bytes of standard input, and of each output of a rank, that may be under way between a host and the launcher
INPUT_WINDOW: Final = 64 * 2**10
OUTPUT_WINDOW: Final = 2**18
_READ: Final = 64 * 2**10
_MOST_IN_PIPE: Final = 2**20


class WindowReader:
    """Forwards what can be read from a descriptor within a flow-control window.

    Args:
        descriptor: closed at its end.
        window: bytes that may be forwarded before the first call of `granted`.
        send: called with data, and with empty data at the end.
    """

    def __init__(self, descriptor: int, window: int, send: Callable[[bytes], object]) -> None:
        self._descriptor = descriptor
        self._credit = window
        self._send = send
        self._loop = asyncio.get_running_loop()
        self._resume()

    def granted(self, count: int) -> None:
        """Enlarge the window: the other end has taken `count` bytes."""
        self._credit += count
        self._resume()

    def catch_up(self) -> None:
        """Send all data that the pipe holds now, even beyond the window. The descriptor must be non-blocking."""
        left = _MOST_IN_PIPE
        while left > 0 and (count := self._read(_READ)):
            left -= count

    def close(self) -> None:
        """Read nothing more."""
        if self._descriptor >= 0:
            self._loop.remove_reader(self._descriptor)
            os.close(self._descriptor)
            self._descriptor = -1

    def _resume(self) -> None:
        try:
            if self._descriptor >= 0 and self._credit > 0:
                self._loop.add_reader(self._descriptor, self._readable)
        except PermissionError:  # a regular file, which is always ready
            while self._descriptor >= 0 and self._credit > 0:
                self._readable()

    def _readable(self) -> None:
        if self._credit > 0:  # `catch_up` may have gone beyond the window
            self._read(min(self._credit, _READ))
        if self._credit <= 0 and self._descriptor >= 0:
            self._loop.remove_reader(self._descriptor)

    def _read(self, most: int) -> int:
        if self._descriptor < 0:
            return 0
        try:
            data = os.read(self._descriptor, most)
        except BlockingIOError:
            return 0
        except OSError:  # a terminal that has hung up
            data = b""
        self._credit -= len(data)
        self._send(data)
        if not data:
            self.close()
        return len(data)


class InputWriter:
    """Writes standard input to a rank.

    Args:
        descriptor: write end of a pipe.
        taken: called with the number of bytes that were written.
    """

    def __init__(self, descriptor: int, taken: Callable[[int], object]) -> None:
        os.set_blocking(descriptor, False)
        self._descriptor = descriptor
        self._taken = taken
        self._data = bytearray()
        self._ended = False
        self._loop = asyncio.get_running_loop()

    def write(self, data: bytes) -> None:
        """Write data; empty data means the end."""
        self._data += data
        self._ended = self._ended or not data
        self._writable()

    def _writable(self) -> None:
        if self._descriptor < 0:
            return
        self._loop.remove_writer(self._descriptor)
        try:
            count = os.write(self._descriptor, self._data) if self._data else 0
        except BlockingIOError:
            count = 0
        except OSError:  # the rank reads no more
            self._data.clear()
            self._ended, count = True, 0
        del self._data[:count]
        if count:
            self._taken(count)
        if self._data:
            self._loop.add_writer(self._descriptor, self._writable)
        elif self._ended:
            os.close(self._descriptor)
            self._descriptor = -1
