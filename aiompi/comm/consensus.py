"""Agreements on communicators that several jobs share, where no agent knows all members (Comm.Agree, Comm.Shrink).

Each member sends its contribution to all others. Each member waits until every other member has contributed or is known
to have failed, and combines the contributions to a result. The results may differ, because a failing member may have
sent its contribution to some members only. Therefore each member in turn sends its result to all others. The others
replace their own results by the received result. They skip the turn of a member that they know to have failed. After
the turn of the first member that does not fail, all members have the same result. So the last result is uniform, even
at members that fail later.

The algorithm needs a perfect failure detector, which notices each failure and suspects no living process (Chandra and
Toueg, "Unreliable failure detectors for reliable distributed systems"). The agents and the ends of connections are such
a detector. With p members there are 2 p (p - 1) messages, in p + 1 rounds.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple, TypeVar

import msgpack

from aiompi.comm.communicator import Communicator
from aiompi.engine import Receive, Request
from aiompi.engine.matching import Matcher
from aiompi.engine.schedule import settled
from aiompi.errors import MPIError, ProcessFailedError, RemoteProtocolError
from aiompi.wire.control import Agreed

#: tags; each agreement uses the next one
_TAGS: Final = 2**30


class _Part(NamedTuple):
    """The contribution of a member, as in `aiompi.wire.control.Agree`. Indices of sorted names stand for members."""

    flag: int
    proposal: int
    acknowledged: list[int]


class _Result(NamedTuple):
    """The result that a member sends in its turn; for the fields see `aiompi.wire.control.Agreed`."""

    flag: int
    proposal: int
    failed: list[int]
    acknowledged: bool


M = TypeVar("M", _Part, _Result)

_TYPES: Final[dict[type, tuple[type, ...]]] = {_Part: (int, int, list), _Result: (int, int, list, bool)}


class Consensus:
    """The participation of this process in one agreement.

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

    def _receive(self, at: int) -> Receive:
        receive = Receive(self._engine, self._matcher, None, at, self._number % _TAGS, self._members[at])
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

    async def _arrival(self, receive: Receive, kind: type[M]) -> M | None:
        """Return the message of another member; None if it has failed."""
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
        """Convert the indices in a result to process numbers, and mark the failed members as failed at this rank."""
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
    """Return the result of the contributions of some of the `count` members."""
    flag = -1
    for part in parts.values():
        flag &= part.flag
    failed = [at for at in range(count) if at not in parts]
    acknowledged = all(set(failed) <= set(part.acknowledged) for part in parts.values())
    return _Result(flag, max(part.proposal for part in parts.values()), failed, acknowledged)
