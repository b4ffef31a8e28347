"""`Transport`, the base class of all transports, and `Site`, which says where a rank is.

To add a transport, derive from `Transport` in a new module and add the class to `registry`.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

from aiompi.engine import Endpoint, Engine, Link, Peer
from aiompi.engine.slots import SlotProvider


@dataclasses.dataclass(frozen=True, slots=True)
class Site:
    """Where a rank is and what it may use.

    Attributes:
        directory: directory for sockets, mode 0700; empty if the job has none.
        bind: numeric address on which TCP listens; if it is empty, TCP listens on `hosts`.
        hosts: numeric addresses under which other hosts reach this host; if empty, TCP uses `bind`, or loopback without
            `bind`.
        heartbeat: seconds after which a machine that does not answer counts as cut off; 0 for never.
        may_return: True if a rank that is expelled while its process is stopped may later continue to run.
        agent: process id of the agent; 0 without an agent, or if it is on another machine or in another pid namespace.
    """

    directory: str = ""
    bind: str = ""
    hosts: tuple[str, ...] = ()
    heartbeat: float = 0.0
    may_return: bool = False
    agent: int = 0


class Transport(ABC):
    """Makes links from this rank to other ranks, and accepts links from them.

    A link carries frames in order. Each rank sends only on its first link to a peer. The two directions may therefore
    use different links, and two connections that both ranks make at the same time do not conflict. A link that breaks
    calls `peer.connection_lost(cause)` once.

    Attributes:
        name: name in business cards and in the setting `transports`.
        preference: priority; of the transports that reach a peer, the transport with the highest priority is used.
        drained: called whenever a link has become idle.
        slot_provider: provides slots, which peers read directly; None if this transport has no slots.
    """

    name: ClassVar[str]
    preference: ClassVar[int]

    def __init__(self, engine: Engine, site: Site) -> None:
        self.engine = engine
        self.site = site
        self.drained: Callable[[], object] = lambda: None
        self.slot_provider: SlotProvider | None = None

    @abstractmethod
    def address(self) -> Any:
        """Start listening. Return the address for the business card (msgpack types), None if others cannot connect."""

    @abstractmethod
    def reaches(self, peer: Peer, address: Any) -> bool:
        """Return True if this rank can connect to the address of the peer."""

    @abstractmethod
    def connect(self, peer: Peer, address: Any) -> Link:
        """Return a link that takes frames at once, even while the connection is still being made."""

    def pending(self, peer: Endpoint) -> bool:
        """Return True if a connection of the peer, with unread frames, is still being accepted."""
        return False

    def idle(self) -> bool:
        """Return True if every frame that was sent has left this process."""
        return True

    def linked(self, peer: Endpoint) -> bool:
        """Return True if frames of the peer may still come from a link."""
        return False

    def abandon(self, peer: Endpoint, cause: str) -> None:
        """Close all links to a peer that has failed: nothing more is read from it."""
        return

    def dismiss(self, peer: Endpoint) -> bool:
        """Close the idle links to a forgotten peer; return False if a link still has unsent data."""
        return True

    def disown(self) -> None:
        """In the child of a fork: forget the memory that the parent shares with its peers."""
        return

    @abstractmethod
    def close(self) -> None:
        """Close everything at once and leave nothing behind."""
