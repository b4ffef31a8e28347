"""The setup of a job of the tester (section 5.1)."""

from __future__ import annotations

import dataclasses
import ipaddress
from dataclasses import dataclass
from typing import Final

from aiompi_launcher.conformance.model.client import Part
from aiompi_launcher.conformance.wire.startup import MOST_CLIENTS

#: parameters that a script may set in its comment: `Setup: hiwater=1 clients=5`
_ADJUSTABLE: Final = (
    "clients",
    "hosts",
    "procs",
    "first",
    "maxdatalen",
    "tag_ub",
    "crossover",
    "max_linear",
    "ackmark",
    "hiwater",
)


class SetupError(Exception):
    """The parameters do not make a job; the message says why."""


def _is_own(address: str) -> bool:
    """Return True if simulated hosts can publish this address."""
    try:
        return not ipaddress.IPv4Address(address).is_unspecified
    except ValueError:
        return False


def check_port(port: int) -> None:
    """Check a port number; 0 stands for any port.

    Raises:
        SetupError: there is no such port.
    """
    if not 0 <= port < 2**16:
        raise SetupError(f"there is no port {port}")


@dataclass(frozen=True, slots=True)
class Setup:
    """The setup of a job.

    Attributes:
        clients: number of simulated clients.
        hosts: number of hosts of each simulated client.
        procs: number of processes of each simulated host.
        first: client rank of the first simulated client; the others follow.
        iut_clients: number of clients under test.
        iut_procs: number of processes of each client under test, which replaces `{np}` in command templates. The actual
            numbers come from the labels of these clients.
        key: IMPI_AUTH_KEY, None for IMPI_AUTH_NONE.
        address: IPv4 address of server and simulated hosts.
        port: port of the server, 0 for any.
        server: (host, port) of a server elsewhere; None: the tester's own.
        crossover, max_linear: -1 for the default. The simulated clients announce these and the following values.
    """

    clients: int = 1
    hosts: int = 1
    procs: int = 2
    first: int = 0
    iut_clients: int = 1
    iut_procs: int = 2
    key: int | None = None
    address: str = "127.0.0.1"
    port: int = 0
    server: tuple[str, int] | None = None
    maxdatalen: int = 65536
    tag_ub: int = 2**31 - 1
    crossover: int = -1
    max_linear: int = -1
    ackmark: int = 10
    hiwater: int = 20

    def __post_init__(self) -> None:
        for name in ("clients", "hosts", "procs", "iut_clients", "iut_procs"):
            if getattr(self, name) < 1:
                raise SetupError(f"{name} is {getattr(self, name)}: at least 1")
        if not _is_own(self.address):
            raise SetupError(f"{self.address} is no IPv4 address to which others can connect")
        if self.key is not None and not 0 <= self.key < 2**64:
            raise SetupError(f"IMPI_AUTH_KEY {self.key} is no number of 64 bits")
        for port in (self.port, 1 if self.server is None else self.server[1]):
            check_port(port)
        if self.total > MOST_CLIENTS:
            raise SetupError(f"{self.total} clients; a job has at most {MOST_CLIENTS}")
        if not 0 <= self.first <= self.iut_clients:
            raise SetupError(f"first is {self.first}: 0 to {self.iut_clients}, the clients under test")
        if self.hosts * self.clients > 200 or self.procs > 64:
            raise SetupError("at most 200 simulated hosts, and 64 processes of each")

    @property
    def total(self) -> int:
        """Number of clients of the job."""
        return self.clients + self.iut_clients

    @property
    def simulated(self) -> list[int]:
        """Client ranks of the simulated clients."""
        return list(range(self.first, self.first + self.clients))

    @property
    def under_test(self) -> list[int]:
        """Client ranks of the clients under test."""
        return [rank for rank in range(self.total) if rank not in self.simulated]

    def adjusted(self, changes: dict[str, int]) -> Setup:
        """Return a copy with the parameters of a script.

        Raises:
            SetupError: the script asks for a parameter that setups do not have.
        """
        unknown = changes.keys() - set(_ADJUSTABLE)
        if unknown:
            raise SetupError(f"Setup: knows {', '.join(_ADJUSTABLE)}, not {', '.join(sorted(unknown))}")
        return dataclasses.replace(self, **changes)  # type: ignore[arg-type]

    def part(self, rank: int) -> Part:
        """Return the description of a simulated client.

        On loopback each host has a separate address, because an acceptor may tell hosts apart by the address.
        """
        index = (rank - self.first) * self.hosts
        return Part(
            rank,
            tuple(self._address(index + host) for host in range(self.hosts)),
            self.procs,
            self.key,
            self.maxdatalen,
            self.tag_ub,
            self.crossover,
            self.max_linear,
            self.ackmark,
            self.hiwater,
        )

    def _address(self, index: int) -> str:
        if self.address != "127.0.0.1":
            return self.address
        return f"127.0.0.{2 + index}"
