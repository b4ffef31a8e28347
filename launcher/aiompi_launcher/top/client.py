"""Looks at jobs of other launchers of this user: `find`, `Client`, and `Spawned` for jobs that a job has started."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable, Iterator
from typing import Final, cast

from aiompi.errors import RemoteProtocolError
from aiompi.net import interfaces
from aiompi.wire import control, version
from aiompi.wire.look import Look
from aiompi_launcher.start import directory
from aiompi_launcher.top.watch import MESSAGES, Looks, Title

#: seconds between two looks for jobs that a job has started
_PAUSE: Final = 2.0
#: seconds that a launcher has for its title
_PATIENCE: Final = 5.0


class Client(asyncio.Protocol):
    """A connection to the launcher of a job.

    Attributes:
        pid: process of the launcher; 0 if it is in another pid namespace.
        title: of the job.
        looks: what the ranks of the job do now; empty until `watch` is called and answers have come.
        introduced: done once the title has arrived, with this client as its result; the result is None if the
            connection has ended before.
        ended: done when the job has ended.
    """

    title: Title
    _transport: asyncio.Transport

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self._decoder = control.Decoder(MESSAGES)
        self.pid = 0
        self.looks: list[Look] = []
        self.introduced: asyncio.Future[Client | None] = loop.create_future()
        self.ended: asyncio.Future[None] = loop.create_future()
        self.on_looks: Callable[[], object] = lambda: None

    def watch(self, on_looks: Callable[[], object]) -> None:
        """Ask for looks, and call a function with each new one."""
        self.on_looks = on_looks
        self._transport.write(b"\0")

    def close(self) -> None:
        """Look no more."""
        self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self.pid, user = interfaces.credentials(transport.get_extra_info("socket"))
        if user == os.getuid():
            self._transport.write(version.banner())
        else:
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        try:
            messages = self._decoder.receive_data(data)
        except RemoteProtocolError:  # of another version
            self._transport.abort()
            return
        for message in messages:
            if isinstance(message, Title):
                self.title = message
                if not self.introduced.done():
                    self.introduced.set_result(self)
            elif isinstance(message, Looks):
                self.looks = [look for look in map(Look.unpack, message.looks) if look is not None]
                self.on_looks()

    def connection_lost(self, error: Exception | None) -> None:
        if not self.introduced.done():
            self.introduced.set_result(None)
        if not self.ended.done():
            self.ended.set_result(None)


async def find(known: Callable[[str], bool] = lambda path: False) -> dict[str, Client]:
    """Connect to all jobs of this user on this machine. Return the path of a job's directory -> client.

    Args:
        known: returns True for the path of a job that is not wanted.
    """
    loop, clients = asyncio.get_running_loop(), {}
    try:
        for path in directory.of_this_user():
            if not known(path):
                with contextlib.suppress(OSError):
                    _, client = await loop.create_unix_connection(Client, os.path.join(path, directory.TOP))
                    clients[path] = client
        if clients:
            await asyncio.wait({client.introduced for client in clients.values()}, timeout=_PATIENCE)
    except BaseException:
        for client in clients.values():
            client.close()
        raise
    for path, client in [*clients.items()]:
        if not client.introduced.done() or client.introduced.result() is None:
            client.close()
            del clients[path]
    return clients


def is_below(process: int, ancestor: int) -> bool:
    """Return True if a process descends from another one."""
    while process > 1:
        if process == ancestor:
            return True
        process = _parent(process)
    return False


def _parent(process: int) -> int:
    with contextlib.suppress(OSError), open(f"/proc/{process}/stat", "rb") as stat:
        return int(stat.read().rpartition(b")")[2].split()[1])
    return 0


class Spawned:
    """Watches the jobs that a job has started on this machine.

    Args:
        launcher: process of the launcher of the job.
    """

    def __init__(self, launcher: int) -> None:
        self._launcher = launcher
        self._clients: dict[str, Client] = {}
        self._others: set[str] = set()  # directories of other jobs
        self._task = asyncio.get_running_loop().create_task(self._search())

    def __iter__(self) -> Iterator[Client]:
        """Iterate over those that run."""
        return iter([client for client in self._clients.values() if not client.ended.done()])

    async def _search(self) -> None:
        while True:
            found = await find(lambda path: path in self._others)
            self._others |= found.keys()
            for path, client in found.items():
                if client.pid != self._launcher and is_below(client.title.parent, self._launcher):
                    self._clients[path] = client
                    client.watch(lambda: None)
                else:
                    client.close()
            await asyncio.sleep(_PAUSE)

    async def close(self) -> None:
        """Look no more."""
        self._task.cancel()
        await asyncio.wait({self._task})
        for client in self:
            client.close()
