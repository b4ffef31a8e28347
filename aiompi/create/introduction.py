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
from aiompi.wire.hello import KEY_BYTES, NAMESPACE_BYTES, Namespace, pair_keys

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
    indices = range(len(local) + len(remote))
    split = len(local) if local[0] < remote[0] else len(remote)
    ours, others = (indices[:split], indices[split:]) if local[0] < remote[0] else (indices[split:], indices[:split])
    namespace = await _dealt(groups, offers, ours, others, group.rank)
    return Group.of(
        processes.meet(name, card, namespace, index) for name, card, index in zip(remote, cards, others, strict=True)
    )


async def _exchange_cards(groups: TwoGroups, cards: list[BusinessCard]) -> tuple[list[BusinessCard], list[bytes]]:
    """Return the cards of the remote group, and at the leader the random bytes that both leaders offer, sorted."""
    offer = os.urandom(KEY_BYTES)
    data: bytes = msgpack.packb(cards, unicode_errors=_SURROGATES)
    theirs = await groups.exchange(offer + data, kept=KEY_BYTES)
    kept = KEY_BYTES if groups.leads else 0
    try:
        their_cards = msgpack.unpackb(theirs[kept:], unicode_errors=_SURROGATES)
        if not all(map(is_card, their_cards)):
            raise TypeError(f"{their_cards!r:.100}")
        return their_cards, sorted((offer, theirs[:kept]))
    except (ValueError, TypeError, msgpack.UnpackException) as error:
        raise RemoteProtocolError(f"the leader of the remote group has sent no business cards: {error!r}") from None


async def _dealt(groups: TwoGroups, offers: list[bytes], ours: range, others: range, rank: int) -> Namespace:
    """Return the namespace of two groups, in which each process gets its keys from its leader.

    Args:
        offers: at the leader, what both leaders have offered.
        ours: numbers of the local group in the namespace.
        others: numbers of the remote group.
        rank: of this process in the local group.
    """
    parts: list[bytes] = []
    if groups.leads:
        id, master = (hmac.digest(offers[0], what + offers[1], hashlib.sha256) for what in (b"id", b"key"))
        parts = [id[:NAMESPACE_BYTES] + pair_keys(master, number, others) for number in ours]
    part = await groups.deal(parts)
    return Namespace(part[:NAMESPACE_BYTES], b"", ours[rank], pairs=part[NAMESPACE_BYTES:], first=others.start)


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
