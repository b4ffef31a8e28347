"""Server and clients joined in memory: every job of one client starts so, and tests do."""

from __future__ import annotations

import secrets
from collections.abc import Iterable

from aiompi.impi import client, server
from aiompi.impi.auth import Credentials
from aiompi.impi.client import Client
from aiompi.impi.label import ClientPart
from aiompi.impi.server import Server, ServerConnection


def pump(links: Iterable[tuple[Client, ServerConnection]]) -> list[client.Event]:
    """Carry bytes between clients and server until all are quiet.

    A connection that the server closes is reported to its client, which then raises.

    Args:
        links: the two ends of each connection.

    Returns:
        What the clients report, in order of time.

    Raises:
        RemoteProtocolError: and its subclasses, as `Client.receive_data` and `Client.receive_eof`.
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
        part: what the client tells about itself. Nobody connects to the ports of its hosts.

    Attributes:
        universe: the job.
        server: its server.
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
        """All procs have ended: FINI.

        Returns:
            What the server has to report, JobFinished at the end.
        """
        self._client.finish()
        pump([self._link])
        return self.server.events()
