"""The seam: what a transport is. To add one, derive from `Transport` in a module of its own and register it."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

from aiompi.engine import Endpoint, Engine, Link, Peer


@dataclasses.dataclass(frozen=True, slots=True)
class Site:
    """Where a rank is and what it may use.

    Attributes:
        key: of the job, for the hello on each connection.
        directory: for sockets, mode 0700; empty when the job has none.
        host: address of this machine for others, for listeners that are bound to all addresses.
        bind: numeric address on which TCP listens; empty for loopback.
    """

    key: bytes
    directory: str
    host: str = ""
    bind: str = ""


class Transport(ABC):
    """Makes links from this rank to others, and accepts theirs.

    A link carries frames in order; the two directions between two ranks may use one link or two, since each rank
    sends on one link only, the first that it had: connections made by both at once need no arbitration. A link
    that breaks calls `peer.lost(cause)`, once.

    Attributes:
        name: in business cards and in the setting `transports`.
        preference: of all transports that reach a peer the one with the highest is used.
        drained: called whenever a link has become idle.
    """

    name: ClassVar[str]
    preference: ClassVar[int]

    def __init__(self, engine: Engine, site: Site) -> None:
        self.engine = engine
        self.site = site
        self.drained: Callable[[], object] = lambda: None

    @abstractmethod
    def address(self) -> Any:
        """Start listening; what goes into the business card (msgpack types), None when others cannot come this way."""

    @abstractmethod
    def reaches(self, peer: Peer, address: Any) -> bool:
        """Whether this rank can connect to the address of that peer."""

    @abstractmethod
    def connect(self, peer: Peer, address: Any) -> Link:
        """A link that takes frames at once, even while the connection is still being made."""

    def pending(self) -> bool:
        """Whether connections from peers are still being accepted, so that frames of theirs may be behind them."""
        return False

    def idle(self) -> bool:
        """Whether every frame that was handed over has left this process."""
        return True

    def linked(self, peer: Endpoint) -> bool:
        """Whether there is a link with that peer, from which frames may still come."""
        return False

    @abstractmethod
    def close(self) -> None:
        """Close everything at once and leave nothing behind."""
