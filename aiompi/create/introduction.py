"""Introductions: the processes of two groups learn each other's names and addresses (see `aiompi.engine.processes`)."""

from __future__ import annotations

import hashlib
import hmac
import os
import struct
from collections.abc import Coroutine
from typing import Any, Final

import msgpack

from aiompi.comm import Channel, Communicator, Group
from aiompi.create.participants import TwoGroups
from aiompi.engine import Engine, Receive, Request
from aiompi.engine.processes import FIRST_MET, Name
from aiompi.errors import InvalidCommError, MPIError, RemoteProtocolError
from aiompi.wire.control import BusinessCard, is_card
from aiompi.wire.hello import KEY_BYTES, NAMESPACE_BYTES, Namespace, pair_keys

#: a name on the wire: the id of the job and the number in it
_NAME: Final = struct.Struct(f">{NAMESPACE_BYTES}sQ")
_SURROGATES: Final = "surrogatepass"  # paths in cards may hold bytes that are not UTF-8
_TAG: Final = 0
#: added to ids of contexts that no communicator uses
_CONTEXTS: Final = 2**63
#: the world of a group whose members are of several worlds
_MIXED: Final = b"\xff" * _NAME.size


async def introduce(groups: TwoGroups, comm: Communicator) -> tuple[Group, bool]:
    """Introduce two groups to each other; all their members call this.

    Groups of one world exchange only names, because their processes know each other from the start.

    Args:
        groups: the two groups.
        comm: communicator of the local group.

    Returns:
        The remote group, and False if both groups are of one world. Processes of another world are forgotten when they
        end, unless `Processes.retain` is called for them.

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
    numbers = [processes.number(name) for name in remote]
    if any(name.job == processes.job and number is None for name, number in zip(remote, numbers, strict=True)):
        raise RemoteProtocolError("the leader of the remote group names processes of this job that there are not")
    if world == theirs[: _NAME.size] != _MIXED:
        return Group.of(number for number in numbers if number is not None), False
    cards, offers = await _exchange_cards(groups, [processes.cards.get(number, {}) for number in group.members])
    if len(cards) != len(remote):
        raise RemoteProtocolError("the leader of the remote group has not sent the cards of all its members")
    indices = range(len(local) + len(remote))
    split = len(local) if local[0] < remote[0] else len(remote)
    ours, others = (indices[:split], indices[split:]) if local[0] < remote[0] else (indices[split:], indices[:split])
    namespace = await _dealt(groups, offers, ours, others, group.rank)
    fields = zip(remote, cards, others, strict=True)
    return Group.of(processes.meet(name, card, namespace, index) for name, card, index in fields), True


async def _exchange_cards(groups: TwoGroups, cards: list[BusinessCard]) -> tuple[list[BusinessCard], list[bytes]]:
    """Return the cards of the remote group and, useful only at the leader, the sorted random bytes of both leaders."""
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
        offers: at the leader, the random bytes of both leaders.
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


def context_of(namespace: bytes) -> int:
    """Return the context of messages between processes that have met only in a namespace."""
    return _CONTEXTS | int.from_bytes(namespace[:7])


def apart(where: str, comm: Communicator, remote: Group) -> Group:
    """Check that no process belongs to both groups, and return the remote group.

    Raises:
        InvalidCommError: the groups have processes in common.
    """
    shared = Group.Intersection(comm.group, remote)
    if shared.size:
        names = ", ".join(map(comm.engine.processes.label, shared.members))
        raise InvalidCommError(f"{where}: the groups have processes in common, {names}: each must be in one of them")
    return remote


class Strangers:
    """The connections to processes of other jobs, necessary because no agent reports the ends of such processes.

    In each pair of processes, one connects and sends a message, and the other answers the message. When all processes
    of both groups have awaited `reached`, each process is connected to every process of the other group, and notices
    the end of each connection. The processes must have been introduced to each other before.

    Args:
        engine: of this process.
        remote: the introduced other group.
        local: channel between the members of the group of this process.
    """

    def __init__(self, engine: Engine, remote: Group, local: Channel) -> None:
        self._engine = engine
        self._receives: list[Receive] = []
        self._contexts: set[int] = set()
        self._end: Request[MPIError | None] = Request(engine)
        processes = engine.processes
        strangers = [*filter(processes.is_stranger, remote.members)]
        self._awaited = {n for n in strangers if processes.own > processes.name(n) and engine.peer(n).link is None}
        for number in strangers:
            engine.spawn(self._attempt(self._meet(number, number in self._awaited)))
        if self._awaited:
            engine.spawn(self._attempt(self._watch(local)))
        else:
            self._stop(None)

    async def reached(self) -> MPIError | None:
        """Wait for the answers of the processes to which this process connects; return the first error, or None."""
        return await self._end

    def close(self) -> None:
        """Wait no more."""
        for receive in self._receives:
            receive.cancel()
        for context in self._contexts:
            self._engine.contexts.pop(context, None)

    def _stop(self, error: MPIError | None) -> None:
        if not self._end.done():
            self._end.complete(error)

    async def _attempt(self, coroutine: Coroutine[Any, None, None]) -> None:
        try:
            await coroutine
        except MPIError as error:
            self._stop(error)

    async def _meet(self, number: int, connects: bool) -> None:
        """Exchange a message with a process. Over an existing connection this only notices the end of the process."""
        engine = self._engine
        namespace, index = engine.processes.namespace_of(number)
        context, peer = context_of(namespace.id), engine.peer(number)
        self._contexts.add(context)
        receive = Receive(engine, engine.matcher(context), None, index, _TAG, number)
        self._receives.append(receive)
        engine.receive(receive)
        if connects:
            await peer.send((), 0, context, namespace.own, _TAG)
        await receive
        if connects:
            self._awaited.discard(number)
            if not self._awaited:
                self._stop(None)
        elif not receive.cancelled():
            await peer.send((), 0, context, namespace.own, _TAG)

    async def _watch(self, local: Channel) -> None:
        """Notice a failure in the local group: await a receive that no message matches and only a failure ends."""
        receive = local.irecv(None, local.rank)
        self._receives.append(receive)
        await receive
