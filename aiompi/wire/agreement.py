"""`Agreements`: agreements among the members of a communicator, even if some members fail (Comm.Agree, Comm.Shrink).

The agent of a job collects the contributions of the ranks, and knows which ranks have failed. An agreement is complete
when each member has contributed or failed. The agent sends the result to all members, so that it is uniform.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Final

from aiompi.errors import RemoteProtocolError
from aiompi.wire.control import Agree, Agreed

#: most incomplete agreements in which one rank takes part
MAX_OPEN: Final = 4096

#: messages, each with the rank that gets it
Results = list[tuple[int, Agreed]]


class Agreements:
    """The incomplete agreements of a job.

    Args:
        size: number of processes that the job has had.

    Attributes:
        size: as above.
        failed: the processes that have failed or left, in the order in which they ended.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.failed: dict[int, None] = {}
        self._parts: dict[tuple[int, int, tuple[int, ...]], dict[int, Agree]] = {}

    def agree(self, rank: int, part: Agree) -> Results:
        """Take the contribution of a rank.

        Raises:
            RemoteProtocolError: the rank is not a member, contributes twice or to too many agreements, or names ranks
                that do not exist.
        """
        # Communicators without a common member may have the same context id. A rank that names other members than the
        # rest is in a separate agreement, because the agent cannot tell which rank is right.
        key = part.context, part.number, tuple(part.members)
        parts = self._parts.get(key, {})
        if not _are_ranks(part.members, range(self.size)) or not _are_ranks(part.acknowledged, set(part.members)):
            raise RemoteProtocolError(f"rank {rank} names members of an agreement that there are not")
        if rank not in part.members or rank in parts:
            raise RemoteProtocolError(f"rank {rank} takes part in an agreement twice, or is no member")
        if sum(rank in others for others in self._parts.values()) >= MAX_OPEN:
            raise RemoteProtocolError(f"rank {rank} takes part in more than {MAX_OPEN} agreements at once")
        parts[rank] = part
        self._parts[key] = parts
        return self._results(key)

    def fail(self, rank: int) -> Results:
        """Record that a rank has failed or left, and will take part in no agreement."""
        self.failed[rank] = None
        return [result for key in list(self._parts) for result in self._results(key)]

    def _results(self, key: tuple[int, int, tuple[int, ...]]) -> Results:
        parts, members = self._parts[key], key[2]
        if any(member not in parts and member not in self.failed for member in members):
            return []
        del self._parts[key]
        flag = -1
        for part in parts.values():
            flag &= part.flag
        failed = [rank for rank in self.failed if rank in members]
        acknowledged = all(set(failed) <= set(part.acknowledged) for part in parts.values())
        agreed = Agreed(*key[:2], flag, max(part.proposal for part in parts.values()), failed, acknowledged)
        return [(rank, agreed) for rank in parts if rank not in self.failed]


def _are_ranks(named: Sequence[int], possible: Container[int]) -> bool:
    """Return True if all are possible, and no rank is named twice."""
    return len(set(named)) == len(named) and all(rank in possible for rank in named)
