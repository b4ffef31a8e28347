"""`Doorbells`: the eventfds by which peers wake a rank that sleeps in an event loop, or whose threads share its sleep.

A peer shares the eventfd, its counter and its flags, and could make a read or a write wait. So no doorbell is ever
read. Its counter is not 0 from the beginning, and a write adds 0, for which there is room whatever a peer writes: that
wakes as well, because epoll reports each write (EPOLLET).
"""

from __future__ import annotations

import select
from typing import Final

_RUNG: Final = select.EPOLLIN | select.EPOLLET


class Doorbells:
    """A descriptor that is readable while a doorbell has been rung and `rung` has not said so.

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
        """Report each write to an eventfd, and one that was made before."""
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
        """Report all doorbells again, because some that were reported have not been handled."""
        for fd in self._fds:
            self._epoll.modify(fd, _RUNG)

    def close(self) -> None:
        self._epoll.close()
