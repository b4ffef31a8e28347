"""The other IMPI clients of a job, through their server; most jobs have none and use a server in memory."""

from __future__ import annotations

import itertools
import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Final

from aiompi.impi.label import ClientPart, HostPart, ProcPart
from aiompi.impi.local import SoloJob
from aiompi.impi.universe import host_identifier
from aiompi.settings import Settings
from aiompi.wire.control import BusinessCard
from aiompi_launcher.job.states import World
from aiompi_launcher.spec import LOOPBACK

_UNUSED_PORT: Final = 1  # port of a host to which no other host connects
_CLIENT_BITS: Final = 39
_PROC_BITS: Final = 24


class RendezvousError(Exception):
    """The job cannot start or continue; the message of the error names the peer and the cause."""


class Rendezvous(ABC):
    """The other clients of a job, for the launcher of one client. Call the methods in the order of their definition."""

    @abstractmethod
    async def meet(self) -> World:
        """Run the IMPI start-up protocol until all clients have joined and described themselves.

        Returns:
            The world of our ranks.

        Raises:
            RendezvousError: the server cannot be reached, rejects us or ends, or the clients disagree.
        """

    @abstractmethod
    def watch(self, on_lost: Callable[[str], None]) -> None:
        """Report if the server ends before this client.

        Args:
            on_lost: called with the reason.
        """

    @abstractmethod
    async def exchange(self, cards: list[BusinessCard]) -> list[BusinessCard]:
        """Exchange business cards with the other clients after all our ranks have joined.

        Args:
            cards: cards of our ranks; empty if these ranks have ended without joining.

        Returns:
            The cards of all ranks of the job; empty cards for ranks that only their IMPI host reaches.

        Raises:
            RendezvousError: the server or another client is gone, or hosts cannot connect.
        """

    @abstractmethod
    async def fence(self) -> None:
        """Our ranks have sent their last messages: wait until the ranks of all clients have done so (section 2.4).

        Raises:
            RendezvousError: another client is gone.
        """

    @abstractmethod
    async def finish(self) -> None:
        """All our ranks have ended well: send FINI to the server, and wait for its answer.

        Raises:
            RendezvousError: the server has ended.
        """

    @abstractmethod
    async def close(self) -> None:
        """Close all connections. Unless `finish` was called before, the other clients take this as a failure."""


class ServerInMemory(Rendezvous):
    """The server of a job without other clients; no port is open.

    Args:
        size: number of ranks.
        address: see `control.Welcome`.
    """

    def __init__(self, size: int, address: str = "") -> None:
        self._size = size
        self._address = address
        self._job: SoloJob

    async def meet(self) -> World:
        self._job = SoloJob(describe([(host_identifier(LOOPBACK), _UNUSED_PORT)], [self._size], Settings()))
        return World(size=self._size, address=self._address)

    def watch(self, on_lost: Callable[[str], None]) -> None:
        pass

    async def exchange(self, cards: list[BusinessCard]) -> list[BusinessCard]:
        return cards

    async def fence(self) -> None:
        pass

    async def finish(self) -> None:
        self._job.finish()

    async def close(self) -> None:
        pass


def describe(
    ports: Sequence[tuple[bytes, int]], sizes: Sequence[int], settings: Settings, *, tls: bool = False
) -> ClientPart:
    """Return the IMPI description of a client.

    Args:
        ports: host identifier and port of each host.
        sizes: number of ranks of each host.
        settings: limits that the client announces.
        tls: True if the hosts encrypt their channels to hosts that also encrypt.
    """
    # Random, because containers with one address may have equal process numbers.
    numbers = itertools.count(secrets.randbits(_CLIENT_BITS) << _PROC_BITS)
    hosts = tuple(
        HostPart(
            identifier,
            port,
            tuple(ProcPart(identifier, next(numbers)) for _ in range(size)),
            ackmark=settings.impi_ackmark,
            hiwater=settings.impi_hiwater,
        )
        for (identifier, port), size in zip(ports, sizes, strict=True)
    )
    return ClientPart(
        hosts,
        datalen=settings.impi_datalen,
        xsize=settings.impi_xsize,
        maxlinear=settings.impi_maxlinear,
        native=settings.impi_native,
        tls=tls,
    )
