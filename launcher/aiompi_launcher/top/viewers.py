"""`Viewers`: lets other launchers of the same user look at a job (`--attach`)."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable
from typing import Any, Final, cast

from aiompi.errors import RemoteProtocolError
from aiompi.net import interfaces
from aiompi.wire import control, version
from aiompi.wire.look import Look
from aiompi_launcher.top.watch import CODES, Looks, Title, Watch

#: most viewers at a time
_MOST: Final = 16


class Viewers:
    """Lets other launchers of the same user look at a job. A viewer can only say that it looks.

    Args:
        title: returns the first message to a viewer.
        watch: tells viewers what the ranks do.
    """

    def __init__(self, title: Callable[[], Title], watch: Watch) -> None:
        self.title, self.watch = title, watch
        self.connected: set[asyncio.Transport] = set()
        self._steps: set[asyncio.Task[Any]] = set()

    def admit(self, connection: socket.socket) -> None:
        """Let the process at the other end of a Unix socket look at the job, if the process is of this user or root."""
        loop = asyncio.get_running_loop()
        step = loop.create_task(loop.connect_accepted_socket(lambda: _Viewer(self), connection))
        self._steps.add(step)
        step.add_done_callback(self._steps.discard)

    def close(self) -> None:
        """Refuse all viewers from now on."""
        for transport in [*self.connected]:
            transport.close()


class _Viewer(asyncio.Protocol):
    """The connection of a viewer."""

    _transport: asyncio.Transport

    def __init__(self, viewers: Viewers) -> None:
        self._viewers = viewers
        self._heard = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        user = interfaces.credentials(transport.get_extra_info("socket"))[1]
        if user not in (os.getuid(), 0) or len(self._viewers.connected) >= _MOST:
            self._transport.abort()
            return
        self._viewers.connected.add(self._transport)

    def data_received(self, data: bytes) -> None:
        """Answer a viewer's banner with the title. After one more byte, send the ranks' states each second."""
        if self._transport not in self._viewers.connected:
            return
        known = len(self._heard)
        self._heard += data
        try:
            version.check(self._heard)
        except RemoteProtocolError:
            self._transport.abort()
            return
        more = len(self._heard) - version.BANNER_BYTES
        if more > 1:
            self._transport.abort()
        elif more >= 0:
            if known < version.BANNER_BYTES:
                self._send(self._viewers.title())
            if more:
                self._viewers.watch.add(self._show)

    def connection_lost(self, error: Exception | None) -> None:
        self._viewers.connected.discard(self._transport)
        self._viewers.watch.remove(self._show)

    def _show(self, looks: list[Look]) -> None:
        if not self._transport.get_write_buffer_size():  # otherwise it has not read the last ones
            self._send(Looks([[*look] for look in looks]))

    def _send(self, message: Any) -> None:
        self._transport.write(control.encode(message, CODES))
