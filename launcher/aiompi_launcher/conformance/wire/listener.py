"""A listener that loses no accepted connection when listening ends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

Take = Callable[[asyncio.StreamReader, asyncio.StreamWriter], None]

_LAST_ROUNDS: Final = 4  # of the loop


class Listener:
    """A listening socket and the connections that it has accepted.

    Args:
        take: called with the streams of each accepted connection.
    """

    def __init__(self, take: Take) -> None:
        self._take = take
        self._server: asyncio.Server | None = None
        self._accepted: list[asyncio.StreamWriter] = []
        self._closed = False

    async def start(self, address: str, port: int = 0) -> tuple[str, int]:
        """Listen; return the address and the port.

        Raises:
            OSError: the address or the port cannot be used.
        """
        # in two steps, because asyncio forgets the socket of a call that is cancelled between the two
        self._server = await asyncio.start_server(self._accept, address, port, start_serving=False)
        await self._server.start_serving()
        host, port = self._server.sockets[0].getsockname()[:2]
        return host, port

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._accepted = [other for other in self._accepted if not other.is_closing()]
        self._accepted.append(writer)
        if self._closed:
            writer.close()
        else:
            self._take(reader, writer)

    def stop(self) -> None:
        """Accept no more connections; the accepted connections stay.

        If a listener is closed just after it has accepted a connection, asyncio loses this connection without closing
        it. So the listener is closed only after all accepted connections have come.
        """
        if self._server is None:
            return
        loop = self._server.get_loop()
        for listening in self._server.sockets:
            loop.remove_reader(listening.fileno())
        loop.call_soon(self._server.close)

    def close(self) -> None:
        """Do what `stop` does, and close all connections, even those that come a moment later."""
        self._closed = True
        for writer in self._accepted:
            writer.close()
        self.stop()


async def settle() -> None:
    """Wait until connections of closed listeners have come and are closed."""
    for _ in range(_LAST_ROUNDS):
        await asyncio.sleep(0)
