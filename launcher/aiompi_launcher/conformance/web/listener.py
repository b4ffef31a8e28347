"""The listener of the page: it serves a connection once a whole request has come, and drops it after a timeout."""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Callable
from typing import Final

#: most connections that have not sent a whole request; for a further one the oldest is closed
MOST_WAITING: Final = 64
#: seconds for a request
PATIENCE: Final = 5.0
_LONGEST: Final = 16 * 2**10  # bytes of a request without its body
_LOOKS: Final = 0.05  # seconds between looks at a request that has begun
_BREATHER: Final = 1.0  # seconds without accepting after descriptors have run out
_EXHAUSTED: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


class RequestListener:
    """Accepts connections.

    Args:
        listener: a listening socket, which `close` closes.
        serve: returns the protocol that serves a connection.
    """

    def __init__(self, listener: socket.socket, serve: Callable[[], asyncio.Protocol]) -> None:
        self._listener = listener
        self._serve = serve
        self._waiting: dict[socket.socket, asyncio.TimerHandle] = {}  # the oldest first, each with its time limit
        self._served: set[asyncio.Task[object]] = set()
        self._loop = asyncio.get_running_loop()
        listener.settimeout(0)
        self._open()

    def close(self) -> None:
        """Accept no more connections, and close the connections without a request."""
        self._loop.remove_reader(self._listener)
        self._listener.close()
        for sock in [*self._waiting]:
            self._drop(sock)

    def _open(self) -> None:
        if self._listener.fileno() >= 0:
            self._loop.add_reader(self._listener, self._acceptable)

    def _acceptable(self) -> None:
        try:
            sock, _ = self._listener.accept()
        except OSError as error:
            if error.errno in _EXHAUSTED and not self._drop_oldest():
                self._loop.remove_reader(self._listener)
                self._loop.call_later(_BREATHER, self._open)
            return
        sock.settimeout(0)
        if len(self._waiting) >= MOST_WAITING:
            self._drop_oldest()
        self._waiting[sock] = self._loop.call_later(PATIENCE, self._drop, sock)
        self._loop.add_reader(sock, self._look, sock)

    def _look(self, sock: socket.socket) -> None:
        try:
            data = sock.recv(_LONGEST, socket.MSG_PEEK)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if b"\r\n\r\n" in data.lstrip(b"\r\n"):  # empty lines before a request say nothing
            self._loop.remove_reader(sock)
            self._waiting.pop(sock).cancel()
            task = self._loop.create_task(self._loop.connect_accepted_socket(self._serve, sock))
            self._served.add(task)
            task.add_done_callback(self._served.discard)
        elif not data or len(data) == _LONGEST:
            self._drop(sock)
        else:  # it stays readable
            self._loop.remove_reader(sock)
            self._loop.call_later(_LOOKS, self._look_again, sock)

    def _look_again(self, sock: socket.socket) -> None:
        if sock in self._waiting:
            self._loop.add_reader(sock, self._look, sock)

    def _drop_oldest(self) -> bool:
        for sock in self._waiting:
            self._drop(sock)
            return True
        return False

    def _drop(self, sock: socket.socket) -> None:
        self._waiting.pop(sock).cancel()
        self._loop.remove_reader(sock)
        sock.close()
