"""Where the processes of a communicator are: their IMPI clients and hosts (IMPI 0.0, section 2.5)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from aiompi.impi.universe import Universe


class Placement(NamedTuple):
    """The clients and hosts of some processes.

    Attributes:
        clients: rank of the client of each process; all 0 without IMPI.
        hosts: rank of its host over all clients; all 0 without IMPI.
        native: whether the processes reach each other without the hosts: they belong to one client, or all clients of
            the job are aiompi and connect their processes with each other.
    """

    clients: tuple[int, ...]
    hosts: tuple[int, ...]
    native: bool

    @classmethod
    def of(cls, universe: Universe | None, members: Sequence[int]) -> Placement:
        """The placement of the processes with these world ranks; without a universe they are at one host."""
        if universe is None:
            nowhere = (0,) * len(members)
            return cls(nowhere, nowhere, True)
        hosts = tuple(universe.procs[member].host for member in members)
        clients = tuple(universe.hosts[host].client for host in hosts)
        return cls(clients, hosts, universe.native or len(set(clients)) < 2)


class Colors(NamedTuple):
    """How often a communicator is cut at the borders of clients, or of hosts, and which part a process is in.

    Attributes:
        size: number of parts.
        color: 0..size-1; parts are numbered as they come in COMM_WORLD.
    """

    size: int
    color: int

    @classmethod
    def of(cls, places: Sequence[int], own: int) -> Colors:
        """Number the places that there are.

        Args:
            places: rank of the client, or of the host, of each process.
            own: that of this process.
        """
        parts = sorted(set(places))
        return cls(len(parts), parts.index(own))
