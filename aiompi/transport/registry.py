"""The table of transports, and the choice of the transport for each peer."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Final

from aiompi import core
from aiompi.engine import Link, Peer
from aiompi.errors import OtherError
from aiompi.transport.loopback import Loopback
from aiompi.transport.shared_memory import SharedMemory
from aiompi.transport.sockets import TCP, Unix
from aiompi.transport.template import Transport
from aiompi.wire.control import BusinessCard

TRANSPORTS: Final[dict[str, type[Transport]]] = {cls.name: cls for cls in (Loopback, SharedMemory, Unix, TCP)}


def select(names: Iterable[str]) -> list[type[Transport]]:
    """Return `Loopback` and the transports with these names (without names: all), by descending preference."""
    wanted = set(names) | {Loopback.name} if names else set(TRANSPORTS)
    return sorted((TRANSPORTS[name] for name in wanted), key=lambda cls: -cls.preference)


def home(card: BusinessCard) -> Hashable:
    """Return a value that ranks have in common if they share memory; None if the rank of the card shares none."""
    address = card.get("transports", {}).get(SharedMemory.name)
    return None if address is None else SharedMemory.home(address)


def connect(transports: Iterable[Transport], peer: Peer, card: BusinessCard) -> Link:
    """Return a link to a peer over the first transport that reaches it.

    Raises:
        OtherError: no transport reaches it.
    """
    offered = card.get("transports", {})
    for transport in transports:
        address = offered.get(transport.name)
        if address is not None and transport.reaches(peer, address):
            return transport.connect(peer, address)
    lacks = "; shared memory needs the native core" if core.form == "pure" and SharedMemory.name in offered else ""
    raise OtherError(
        f"rank {peer.engine.rank} cannot reach rank {peer.rank}: it offers {', '.join(offered) or 'nothing'}, "
        f"this rank may use {', '.join(t.name for t in transports)} (settings `transports` and `bind`){lacks}"
    )
