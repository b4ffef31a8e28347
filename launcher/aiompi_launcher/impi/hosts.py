"""The IMPI hosts of one client: their listening sockets, their description, and their common start and end."""

from __future__ import annotations

import asyncio
import ipaddress
import itertools
import os
import socket
from collections.abc import Sequence

from aiompi.impi.label import NATIVE_VERSION, ClientPart
from aiompi.impi.universe import Universe, host_identifier
from aiompi.net import interfaces
from aiompi.settings import Settings
from aiompi_launcher.impi.host import HostAgent, HostContext
from aiompi_launcher.job.rendezvous import describe
from aiompi_launcher.net.listen import address_of, listen_tcp, resolve


class ImpiHosts:
    """All hosts of a client.

    Args:
        size: number of ranks.
        count: number of hosts, at most `size`.
        bind: addresses of the hosts, used in turn; empty for the address given to `describe`.
        settings: limits that the client announces.
        context: properties of the job.
    """

    def __init__(self, size: int, count: int, bind: Sequence[str], settings: Settings, context: HostContext) -> None:
        self._sizes = [size // count + (host < size % count) for host in range(count)]
        self._bind = bind
        self._settings = settings
        self._context = context
        self._listeners: list[socket.socket] = []
        self._agents: list[HostAgent] = []
        self._finishing: asyncio.Task[None] | None = None

    async def resolve(self) -> None:
        """Find the numeric addresses of the names to bind to.

        Raises:
            OSError: a name has no address.
        """
        self._bind = tuple([(await resolve(name))[0] for name in self._bind])

    def describe(self, address: str) -> ClientPart:
        """Listen, and return the description of the client.

        The procs get their identities before they exist, so that the start-up exchange can come before the ranks start.
        An identity need only be unique on this machine (IMPI 0.0, label P_PID).

        Args:
            address: of this machine, as the server sees it.

        Raises:
            OSError: an address does not belong to this machine, or no port is free.
            InvalidArgumentError: the machine has no such interface.
        """
        ports = []
        own = interfaces.select(self._settings.interface) if self._settings.interface else ()
        for bind, _ in zip(itertools.cycle(self._bind or own or [address]), self._sizes, strict=False):
            self._listeners.append(listen_tcp(bind, self._settings.ports))
            host, _, port = address_of(self._listeners[-1]).rpartition(":")
            ports.append((host_identifier(host.strip("[]")), int(port)))
        return describe(ports, self._sizes, self._settings, tls=self._context.credentials.encrypts)

    def warnings(self, universe: Universe, client: int) -> list[str]:
        """Return warnings about the addresses of the hosts (section 1.2.3)."""
        own = {universe.hosts[rank].address for rank in universe.clients[client].hosts}
        others = {host.address for host in universe.hosts} - own
        hidden = sorted(address for address in own if ipaddress.ip_address(address).is_loopback)
        warnings = []
        if hidden and not all(ipaddress.ip_address(address).is_loopback for address in others):
            warnings.append(
                f"client {client} is at {hidden[0]}, where other machines cannot reach it: name the server by another "
                "address, or set one with --bind"
            )
        known = all(NATIVE_VERSION in each.versions for each in universe.clients)  # all are aiompi
        for address in () if known else sorted(own):
            sharing = [str(rank) for rank, host in enumerate(universe.hosts) if host.address == address]
            if len(sharing) > 1:
                warnings.append(
                    f"IMPI hosts {', '.join(sharing)} publish one address, {address}, and some implementations tell "
                    "hosts apart by their addresses: give each its own, such as --bind 127.0.0.2 on one machine"
                )
        return warnings

    def open(self, universe: Universe, client: int) -> tuple[str, ...]:
        """Create the hosts. Accept ranks, unless the ranks reach each other directly.

        Args:
            universe: the job.
            client: rank of this client.

        Returns:
            Address of the host of each rank; empty if ranks do not need a host.
        """
        if len(universe.clients) == 1:
            return ()
        context = self._context
        addresses: list[str] = []
        for rank, listener in zip(universe.clients[client].hosts, self._listeners, strict=True):
            agent = HostAgent(universe, rank, listener, self._settings, context)
            self._agents.append(agent)
            if not universe.native:
                path = os.path.join(context.directory, f"host-{rank}")
                agent.serve(interfaces.listen_unix(path), context.key)
                addresses += [f"unix:{path}"] * len(universe.hosts[rank].procs)
        return tuple(addresses)

    async def connect(self, timeout: float) -> None:
        """Connect to the hosts of other clients.

        Args:
            timeout: seconds.

        Raises:
            RendezvousError: a connection was not possible.
        """
        await asyncio.gather(*(agent.connect(timeout) for agent in self._agents))

    async def finish(self) -> None:
        """Send FINI once all ranks have sent FINI, and wait for FINI of all other hosts. May be called again.

        Raises:
            RendezvousError: a host of another client has died.
        """
        if self._finishing is None:
            self._finishing = asyncio.create_task(self._finish())
        await asyncio.shield(self._finishing)

    async def _finish(self) -> None:
        await asyncio.gather(*(agent.finish() for agent in self._agents))

    def close(self) -> None:
        """Close everything at once."""
        if self._finishing is not None:
            self._finishing.cancel()
        for agent in self._agents:
            agent.close()
        for listener in self._listeners:
            listener.close()
