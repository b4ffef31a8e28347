"""A full memory fence.

Python has none. Posting a semaphore is one: a single call, of an atomic instruction that neither loads nor stores pass
on the processors that are served. A lock that is taken and released is one, too; it takes several times as long.
"""

from __future__ import annotations

import contextlib
import os
import threading
from typing import Final, Protocol

#: how often a semaphore is posted: somewhat less than it can be (SEM_VALUE_MAX), since the copy of a fork posts it, too
_MOST: Final = 2**31 - 2**16
#: kind of a semaphore that counts, and is not its owner's
_COUNTING: Final = 1


class _Semaphore(Protocol):
    def release(self) -> None:
        """Post it.

        Raises:
            ValueError: it is full.
        """

    def _get_value(self) -> int:
        """How often it has been posted."""


class _Lock:
    """In place of a semaphore where there is none, as without /dev/shm; never full."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def release(self) -> None:
        with self._lock:  # so that no signal handler runs in between, and leaves it locked
            pass

    def _get_value(self) -> int:
        return 0


#: that of the process, whose state it is not: to post it changes nothing for anybody
_newest: _Semaphore | None = None


class Fenced:
    """Who stores and then loads what others store and load the other way round."""

    __slots__ = ("_semaphore",)

    def __init__(self) -> None:
        self._semaphore = _semaphore(None)

    def fence(self) -> None:
        """Let all stores so far become visible before what is loaded from now on is loaded.

        It is the release of the semaphore, which takes a call less by itself, followed by `fence_anew` on ValueError.
        """
        try:
            self._semaphore.release()
        except ValueError as error:
            self.fence_anew(error)

    def fence_anew(self, error: ValueError) -> None:
        """Be a fence when the semaphore is full: there will be another one.

        Args:
            error: that it has raised; or a signal handler, which runs as soon as it has been posted.

        Raises:
            ValueError: that of a signal handler.
        """
        full = self._semaphore
        if full._get_value() < _MOST:
            raise error
        self._semaphore = _semaphore(full)
        self.fence()  # others may have filled that one, too


def _semaphore(full: _Semaphore | None) -> _Semaphore:
    """The newest one, or one that is newer if that is full."""
    global _newest
    if _newest is full:
        _newest = _open() or _Lock()
    assert _newest is not None
    return _newest


def _open() -> _Semaphore | None:
    with contextlib.suppress(ImportError, OSError):
        # What `multiprocessing` makes its semaphores of, without the 12 ms that its import takes.
        from _multiprocessing import SemLock  # type: ignore[import-not-found]

        # It has no name any more when this returns.
        semaphore: _Semaphore = SemLock(_COUNTING, 0, _MOST, f"/aiompi-{os.urandom(8).hex()}", True)
        return semaphore
    return None
