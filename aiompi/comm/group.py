"""Groups: ordered sets of processes (section 5.3)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from aiompi.constants import IDENT, PROC_NULL, SIMILAR, UNDEFINED, UNEQUAL
from aiompi.errors import InvalidRankError


class Group:
    """An ordered set of processes, named by their ranks in the world.

    Args:
        members: world ranks; the position is the rank in the group.
        own: world rank of this process.
    """

    __slots__ = ("_index", "_own", "members")

    def __init__(self, members: Iterable[int], own: int) -> None:
        self.members: Final = tuple(members)
        self._own = own
        self._index = {member: rank for rank, member in enumerate(self.members)}

    @property
    def size(self) -> int:
        """Number of members."""
        return len(self.members)

    @property
    def rank(self) -> int:
        """Rank of this process, UNDEFINED if it is no member."""
        return self._index.get(self._own, UNDEFINED)

    def Get_size(self) -> int:
        return self.size

    def Get_rank(self) -> int:
        return self.rank

    def Translate_ranks(self, ranks: Sequence[int], other: Group) -> list[int]:
        """Ranks in another group of the processes that have these ranks here (MPI_Group_translate_ranks).

        Returns:
            For each rank the one in `other`, UNDEFINED for a process that is no member of it.

        Raises:
            InvalidRankError: a rank is outside 0..size-1.
        """
        return [self._translate(rank, other) for rank in ranks]

    def _translate(self, rank: int, other: Group) -> int:
        if rank == PROC_NULL:
            return PROC_NULL
        if not 0 <= rank < self.size:
            raise InvalidRankError(f"rank {rank} is not in a group of {self.size}")
        return other._index.get(self.members[rank], UNDEFINED)

    def Compare(self, other: Group) -> int:
        """IDENT, SIMILAR (same members in another order) or UNEQUAL (MPI_Group_compare)."""
        if self.members == other.members:
            return IDENT
        return SIMILAR if self._index.keys() == other._index.keys() else UNEQUAL

    def __repr__(self) -> str:
        return f"Group({list(self.members)})"
