"""An IMPI server and its clients joined in memory, for jobs of one client and for tests."""

from __future__ import annotations

import secrets
from collections.abc import Iterable

from aiompi.impi import client, server
from aiompi.impi.auth import Credentials
from aiompi.impi.client import Client
from aiompi.impi.label import ClientPart
from aiompi.impi.server import Server, ServerConnection


def pump(links: Iterable[tuple[Client, ServerConnection]]) -> list[client.Event]:
    """Carry bytes between clients and server until neither sends any more.

    A connection that the server closes is reported to its client, which then raises.

    Args:
        links: the two ends of each connection.

    Returns:
        Events of the clients, in chronological order.

    Raises:
        Exception: an exception of `Client.receive_data` or `Client.receive_eof`.
    """
    events: list[client.Event] = []
    links = list(links)
    busy = True
    while busy:
        busy = False
        for end, far_end in links:
            upward = end.data_to_send()
            far_end.receive_data(upward)
            downward = far_end.data_to_send()
            events += end.receive_data(downward)
            busy = busy or bool(upward or downward)
    for end, far_end in links:
        if far_end.closing:
            end.receive_eof()
    return events


class SoloJob:
    """A job of one client, started.

    Args:
        part: how the client describes itself. The ports of its hosts are not used.

    Attributes:
        universe: the job.
        server: the IMPI server of the job.
    """

    def __init__(self, part: ClientPart) -> None:
        credentials = Credentials(key=secrets.randbits(64))
        self.server = Server(1, credentials)
        self._client = Client(0, credentials, part)
        self._link = (self._client, self.server.add_connection("this process", now=0.0))
        events = pump([self._link])
        if self._client.may_submit:
            self._client.done()
            events += pump([self._link])
        (self.universe,) = (event.universe for event in events if isinstance(event, client.Started))

    def finish(self) -> list[server.Event]:
        """Send FINI after all procs have ended.

        Returns:
            Events of the server, JobFinished at the end.
        """
        self._client.finish()
        pump([self._link])
        return self.server.events()
