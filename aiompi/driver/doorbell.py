"""Doorbells where the kernel tells that a descriptor is readable, and not that it has just been written."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable


def silencing(fd: int, callback: Callable[[], object]) -> Callable[[], None]:
    """A callback for when an eventfd is readable: it takes note of the ringing so far first."""

    def heard() -> None:
        try:
            os.eventfd_read(fd)
        except BlockingIOError:
            return  # another thread has read it, and called
        callback()

    return heard


def _nothing() -> bool:
    return False


class LoopDoorbell:
    """A doorbell in an event loop. Tasks that wait for what has come run before it is read, and looked at further.

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
        # asyncio asks the kernel before the callbacks of a turn, and tells of what they have read after them.
        self._echoes = isinstance(loop, asyncio.BaseEventLoop)
        self._echo = False

    def heard(self) -> None:
        """The descriptor is readable."""
        if self._echo:
            self._echo = False  # if it has been rung again it is told again
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
        """Call nobody any more, whatever is under way: the descriptor may soon be that of something else."""
        self._callback, self._hand_out = None, _nothing
