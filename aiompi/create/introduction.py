"""Introductions: how the processes of two groups get to know each other (see `aiompi.engine.processes`)."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import os
import struct
from typing import Final

import msgpack

from aiompi.comm import Communicator, Group
from aiompi.create.participants import TwoGroups
from aiompi.engine import Peer
from aiompi.engine.processes import FIRST_MET, Name
from aiompi.errors import InvalidCommError, OtherError, RemoteProtocolError
from aiompi.wire.control import BusinessCard, is_card
from aiompi.wire.hello import KEY_BYTES, NAMESPACE_BYTES, Namespace

#: a name on the wire: the id of the job and the number in it
_NAME: Final = struct.Struct(f">{NAMESPACE_BYTES}sQ")
_SURROGATES: Final = "surrogatepass"  # paths in cards may hold bytes that are not UTF-8
#: the world of a group whose members are of several worlds
_MIXED: Final = b"\xff" * _NAME.size


async def introduce(groups: TwoGroups, comm: Communicator) -> Group:
    """Let two groups get to know each other; all their members call this.

    Groups of one world exchange only names, because their processes know each other from the start.

    Args:
        groups: the two groups.
        comm: communicator of the local group.

    Returns:
        The remote group. Its processes are forgotten when they end, unless `Processes.retain` is called for them.

    Raises:
        RemoteProtocolError: the remote leader has sent something else.
    """
    processes, group = comm.engine.processes, comm.group
    local = [processes.name(number) for number in group.members]
    met = any(number >= FIRST_MET for number in group.members)
    world = _MIXED if met else _NAME.pack(processes.job, processes.first)
    theirs = await groups.exchange(world + b"".join(_NAME.pack(*name) for name in local))
    if len(theirs) % _NAME.size or len(theirs) < 2 * _NAME.size:
        raise RemoteProtocolError("the leader of the remote group has sent no names")
    remote = [Name(*fields) for fields in _NAME.iter_unpack(theirs[_NAME.size :])]
    if world == theirs[: _NAME.size] != _MIXED:
        return Group.of(name.process - processes.first for name in remote)
    cards, offers = await _exchange_cards(groups, [processes.cards.get(number, {}) for number in group.members])
    if len(cards) != len(remote):
        raise RemoteProtocolError("the leader of the remote group has not sent the cards of all its members")
    first = local[0] < remote[0]
    namespace = _agreed(offers if first else offers[::-1], group.rank if first else len(remote) + group.rank)
    at = len(local) if first else 0
    numbers = [
        processes.meet(name, card, namespace, at + rank)
        for rank, (name, card) in enumerate(zip(remote, cards, strict=True))
    ]
    return Group.of(numbers)


async def _exchange_cards(groups: TwoGroups, cards: list[BusinessCard]) -> tuple[list[BusinessCard], tuple[bytes, ...]]:
    """Return the cards of the remote group, and the random bytes that the two leaders offer, the local one first."""
    offer = await groups.share(os.urandom(KEY_BYTES))
    data: bytes = msgpack.packb([offer, cards], unicode_errors=_SURROGATES)
    try:
        their_offer, their_cards = msgpack.unpackb(await groups.exchange(data), unicode_errors=_SURROGATES)
        if not all(map(is_card, their_cards)):
            raise TypeError(f"{their_cards!r:.100}")
        return their_cards, (offer, bytes(their_offer))
    except (ValueError, TypeError, msgpack.UnpackException) as error:
        raise RemoteProtocolError(f"the leader of the remote group has sent no business cards: {error!r}") from None


def _agreed(offers: tuple[bytes, ...], own: int) -> Namespace:
    """Return the namespace that follows from what both leaders have offered."""
    id, key = (hmac.digest(offers[0], what + offers[1], hashlib.sha256) for what in (b"id", b"key"))
    return Namespace(id[:NAMESPACE_BYTES], key, own)


def apart(where: str, comm: Communicator, remote: Group) -> Group:
    """Check that the remote group has no process of the local one, and return it.

    Raises:
        InvalidCommError: it has.
    """
    shared = Group.Intersection(comm.group, remote)
    if shared.size:
        names = ", ".join(map(comm.engine.processes.label, shared.members))
        raise InvalidCommError(f"{where}: the groups have processes in common, {names}: each must be in one of them")
    return remote


def connect_to_strangers(comm: Communicator, remote: Group) -> None:
    """Connect to processes of other jobs, of whose end no agent tells: the end of the connection does.

    One of two processes connects, so that there is one connection.
    """
    processes = comm.engine.processes
    for number in filter(processes.is_stranger, remote.members):
        peer = comm.engine.peer(number)
        if processes.own > processes.name(number) and isinstance(peer, Peer) and peer.link is None:
            with contextlib.suppress(OtherError):  # then the first message to it raises the error
                peer.connect()
