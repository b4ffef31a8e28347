"""`Watcher`, which ends a rank that computes while its job has ended."""

from __future__ import annotations

import os
import select
import signal
import socket
import threading
from typing import Final

#: seconds that a rank has to end by itself once the agent is gone
_GRACE: Final = 1.0


class Watcher:
    """Ends this process if the agent is gone and the rank does not notice it, because it computes.

    A thread sleeps until the connection ends. It reads nothing.
    """

    def __init__(self, connection: socket.socket) -> None:
        self._connection = socket.socket(fileno=os.dup(connection.fileno()))
        self._wake, self._woken = os.pipe()
        threading.Thread(target=self._watch, name="aiompi-watcher", daemon=True).start()

    def close(self) -> None:
        """Stop watching: this process may outlive the agent."""
        woken, self._woken = self._woken, -1
        if woken >= 0:
            os.close(woken)

    def _watch(self) -> None:
        poll = select.poll()
        poll.register(self._connection, select.POLLRDHUP)
        poll.register(self._wake, 0)
        poll.poll()
        grace = select.poll()
        grace.register(self._wake, 0)
        if not grace.poll(1000 * _GRACE):
            os.kill(os.getpid(), signal.SIGKILL)
        self._connection.close()
        os.close(self._wake)
