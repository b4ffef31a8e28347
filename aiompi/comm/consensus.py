"""Agreements on communicators that several jobs share, where no agent knows all members (Comm.Agree, Comm.Shrink).

Each member sends its part to all others. When it has the part of each other member, or knows that this one has failed,
it makes a result of the parts that it has. The results may differ, because a member that fails may have sent its part
to some members only. Therefore each member in turn sends its result to all others, which take it in place of their own.
They skip the turn of a member that they know to have failed. After the turn of the first member that does not fail, all
have the same result. The last result is therefore uniform, also at members that fail once they have it.

This takes a perfect failure detector, which notices each failure and suspects no living process (Chandra and Toueg,
"Unreliable failure detectors for reliable distributed systems"). The agents are one, and so are the ends of
connections. With p members there are 2 p (p - 1) messages, of which p + 1 are in succession.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple, TypeVar

import msgpack

from aiompi.comm.communicator import Communicator
from aiompi.engine import NotedReceive, Request
from aiompi.engine.matching import Matcher
from aiompi.engine.schedule import settled
from aiompi.errors import Exception as MPIError
from aiompi.errors import ProcessFailedError, RemoteProtocolError
from aiompi.wire.control import Agreed

#: tags, of which one agreement after the other has the next one
_TAGS: Final = 2**30


class _Part(NamedTuple):
    """What one member gives: as in `aiompi.wire.control.Agree`; members are places in the order of their names."""

    flag: int
    proposal: int
    acknowledged: list[int]


class _Result(NamedTuple):
    """What a turn spreads: as in `aiompi.wire.control.Agreed`."""

    flag: int
    proposal: int
    failed: list[int]
    acknowledged: bool


M = TypeVar("M", _Part, _Result)

_TYPES: Final[dict[type, tuple[type, ...]]] = {_Part: (int, int, list), _Result: (int, int, list, bool)}


class Consensus:
    """The part of this process in one agreement.

    Args:
        comm: communicator that several jobs share.
        matcher: queues of its agreements.
        number: of the agreement.
    """

    def __init__(self, comm: Communicator, matcher: Matcher, number: int) -> None:
        self._comm = comm
        self._engine = comm.engine
        self._matcher = matcher
        self._number = number
        self._members = sorted(comm.everybody(), key=comm.engine.processes.name)
        self._own = self._members.index(comm.engine.rank)
        self._sends: list[Request[None]] = []

    async def reach(self, flag: int, proposal: int, acknowledged: list[int]) -> Agreed:
        """Take part; return the result. The arguments are those of `aiompi.comm.recovery.ask`."""
        own = self._own
        parts, turns = ({at: self._receive(at) for at in range(len(self._members)) if at != own} for _ in range(2))
        part = _Part(flag, proposal, [self._members.index(number) for number in acknowledged])
        known = {own: part}
        self._send_all(part)
        for at, receive in parts.items():
            arrived = await self._arrival(receive, _Part)
            if arrived is not None:
                known[at] = arrived
        result = _combined(known, len(self._members))
        for at in range(len(self._members)):
            if at == own:
                self._send_all(result)
            else:
                result = await self._arrival(turns[at], _Result) or result
        await settled(self._sends)
        return self._agreed(result)

    def _receive(self, at: int) -> NotedReceive:
        receive = NotedReceive(self._engine, self._matcher, None, at, self._number % _TAGS, self._members[at])
        self._engine.receive(receive)
        return receive

    def _send_all(self, message: _Part | _Result) -> None:
        data: bytes = msgpack.packb(message)
        for number in self._members:
            if number != self._engine.rank:
                try:
                    peer = self._engine.peer(number)
                    tag = self._number % _TAGS
                    self._sends.append(peer.send((data,), len(data), self._matcher.context, self._own, tag))
                except MPIError:
                    continue  # it has failed

    async def _arrival(self, receive: NotedReceive, kind: type[M]) -> M | None:
        """Return what another member sends, None if it has failed."""
        try:
            await receive
        except MPIError:
            if self._engine.error is not None:
                raise
            return None
        try:
            fields: Any = msgpack.unpackb(receive.data or b"")
            if (*map(type, fields),) == _TYPES[kind] and set(fields[2]) <= set(range(len(self._members))):
                return kind(*fields)
        except (ValueError, TypeError, msgpack.UnpackException):
            pass
        raise RemoteProtocolError(f"{self._comm.label}: a member has sent something else than its part of an agreement")

    def _agreed(self, result: _Result) -> Agreed:
        """Return a result with the numbers of processes. The failed ones are known to be failed from now on."""
        if self._own in result.failed:
            raise ProcessFailedError(f"{self._comm.label}: the other members take this process for failed")
        failed = [self._members[at] for at in result.failed]
        processes = self._engine.processes
        for number in failed:
            peer = self._engine.peer(number)
            if processes.is_stranger(number) and peer.error is None and peer.finalize_error is None:
                peer.mark_failed("the other members of a communicator have agreed that it has failed")
        return Agreed(self._comm.context_id, self._number, result.flag, result.proposal, failed, result.acknowledged)


def _combined(parts: Mapping[int, _Part], count: int) -> _Result:
    """Return the result of the parts of some of the members, of which there are `count`."""
    flag = -1
    for part in parts.values():
        flag &= part.flag
    failed = [at for at in range(count) if at not in parts]
    acknowledged = all(set(failed) <= set(part.acknowledged) for part in parts.values())
    return _Result(flag, max(part.proposal for part in parts.values()), failed, acknowledged)
