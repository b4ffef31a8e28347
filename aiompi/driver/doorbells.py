"""`Doorbells`: the eventfds by which peers wake a rank that sleeps in an event loop or in a shared epoll.

A peer shares the counter and the flags of the eventfd, and could thereby block this rank in a read or a write. So no
rank reads a doorbell. Therefore the counter of its eventfd starts above 0, and each write adds 0. Such a write never
blocks, whatever a peer writes. A write of 0 wakes as well, because epoll reports each write (EPOLLET).
"""

from __future__ import annotations

import select
from typing import Final

_RUNG: Final = select.EPOLLIN | select.EPOLLET


class Doorbells:
    """A descriptor that is readable while a doorbell has been rung and `rung` has not yet returned this doorbell.

    Args:
        fds: the doorbells, at least one.
    """

    def __init__(self, *fds: int) -> None:
        self._epoll = select.epoll()
        self._fds: set[int] = set()
        for fd in fds:
            self.add(fd)

    def fileno(self) -> int:
        return self._epoll.fileno()

    def add(self, fd: int) -> None:
        """Report an eventfd once now, because it may have been written before, and then after each write."""
        self._epoll.register(fd, _RUNG)
        self._fds.add(fd)

    def remove(self, fd: int) -> None:
        """Undo `add`."""
        self._fds.remove(fd)
        self._epoll.unregister(fd)

    def rung(self) -> list[int]:
        """Return the doorbells that have been rung since the last call, each once."""
        return [fd for fd, _ in self._epoll.poll(0.0, len(self._fds) or 1)]

    def repeat(self) -> None:
        """Report all doorbells again, because some reported ones have not been handled."""
        for fd in self._fds:
            self._epoll.modify(fd, _RUNG)

    def close(self) -> None:
        self._epoll.close()
