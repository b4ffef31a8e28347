"""Doorbells for drivers whose descriptors are level-triggered.

A doorbell is an eventfd that a peer writes. `BlockingDriver` sees each write by edge-triggered epoll. The other drivers
see only that the descriptor is readable, and use `reading` or `LoopDoorbell`.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable


def reading(fd: int, callback: Callable[[], object]) -> Callable[[], None]:
    """Return a callback for a readable eventfd, which reads the eventfd and then calls `callback`."""

    def on_readable() -> None:
        try:
            os.eventfd_read(fd)
        except BlockingIOError:
            return  # another thread has read it, and called
        callback()

    return on_readable


def _nothing() -> bool:
    return False


class LoopDoorbell:
    """A doorbell in an event loop. Tasks that wait for an arrived message run before the eventfd is read.

    For the arguments see `Driver.add_doorbell`.
    """

    __slots__ = ("_callback", "_echo", "_echoes", "_fd", "_hand_out", "_later", "_loop")

    def __init__(
        self, loop: asyncio.AbstractEventLoop, fd: int, hand_out: Callable[[], bool], callback: Callable[[], object]
    ) -> None:
        self._loop = loop
        self._fd = fd
        self._hand_out = hand_out
        self._callback: Callable[[], object] | None = callback
        self._later = False
        # asyncio polls before the callbacks of a turn, so it reports an eventfd once more that they have read.
        self._echoes = isinstance(loop, asyncio.BaseEventLoop)
        self._echo = False

    def on_readable(self) -> None:
        """Handle a readable descriptor."""
        if self._echo:
            self._echo = False  # if the doorbell has been rung again the loop reports it again
        elif self._later or not self._hand_out():
            self._rest()
        else:
            self._later = True
            self._loop.call_soon(self._rest)

    def _rest(self) -> None:
        self._echo, self._later = self._later and self._echoes, False
        if self._callback is None:
            return
        try:  # noqa: SIM105 (`suppress` takes longer than the call)
            os.eventfd_read(self._fd)
        except BlockingIOError:
            pass
        self._callback()

    def remove(self) -> None:
        """Call nothing any more, even if a call is scheduled: the descriptor's number may soon be reused."""
        self._callback, self._hand_out = None, _nothing
