"""The IMPI clients and hosts to which the processes of a communicator belong (IMPI 0.0, section 2.5)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from aiompi.impi.universe import Universe


class Placement(NamedTuple):
    """The clients and hosts of some processes.

    Attributes:
        clients: for each process the rank of its client; all 0 without IMPI.
        hosts: for each process the rank of its host among the hosts of all clients; all 0 without IMPI.
        native: True if messages between the processes do not pass through hosts: the processes belong to one client, or
            all clients of the job are aiompi and connect their processes with each other.
    """

    clients: tuple[int, ...]
    hosts: tuple[int, ...]
    native: bool

    @classmethod
    def of(cls, universe: Universe | None, members: Sequence[int]) -> Placement:
        """Return the placement of the processes with these world ranks; without IMPI, all processes are at one host."""
        if universe is None:
            nowhere = (0,) * len(members)
            return cls(nowhere, nowhere, native=True)
        # Processes met later are at no host of this job.
        hosts = tuple(universe.procs[member].host if member < universe.size else 0 for member in members)
        clients = tuple(universe.hosts[host].client for host in hosts)
        return cls(clients, hosts, universe.native or len(set(clients)) < 2)


class Colors(NamedTuple):
    """The number of clients (or hosts) in a communicator, and the number of one process's client (or host), from 0.

    Attributes:
        size: number of clients or hosts.
        color: 0..size-1, in the order of their ranks in COMM_WORLD.
    """

    size: int
    color: int

    @classmethod
    def of(cls, places: Sequence[int], own: int) -> Colors:
        """Number the clients or hosts that occur.

        Args:
            places: for each process the rank of its client or host.
            own: rank of the client or host of this process.
        """
        parts = sorted(set(places))
        return cls(len(parts), parts.index(own))
