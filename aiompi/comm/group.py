"""Groups: ordered sets of processes (section 5.3). All of it is local."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import index
from typing import Final

from aiompi.constants import IDENT, PROC_NULL, SIMILAR, UNDEFINED, UNEQUAL
from aiompi.errors import InvalidArgumentError, InvalidGroupError, InvalidRankError


class Group:
    """An ordered set of processes, named by their ranks in the world.

    Groups with the same members in the same order are equal. A group is true unless it is null: that is what a group
    becomes when it is freed, and anything but comparing it is then an InvalidGroupError.

    Args:
        members: world ranks; the position is the rank in the group. None makes a null group.
        own: world rank of this process, negative if that is of no concern.
    """

    __slots__ = ("_index", "_ranks", "own")

    def __init__(self, members: Iterable[int] | None = None, own: int = -1) -> None:
        self.own = own
        self._ranks: tuple[int, ...] | None = None if members is None else tuple(members)
        self._index = {member: rank for rank, member in enumerate(self._ranks or ())}

    @property
    def members(self) -> tuple[int, ...]:
        """World ranks, in the order of the ranks here.

        Raises:
            InvalidGroupError: the group is null.
        """
        if self._ranks is None:
            raise InvalidGroupError(
                "the group is null: it has been freed, or is GROUP_NULL; GROUP_EMPTY has no members"
            )
        return self._ranks

    @property
    def size(self) -> int:
        """Number of members."""
        return len(self.members)

    @property
    def rank(self) -> int:
        """Rank of this process, UNDEFINED if it is no member."""
        return UNDEFINED if not self.members else self._index.get(self.own, UNDEFINED)

    def Get_size(self) -> int:
        return self.size

    def Get_rank(self) -> int:
        return self.rank

    def Translate_ranks(self, ranks: Sequence[int] | None = None, group: Group | None = None) -> list[int]:
        """Ranks in another group of the processes that have these ranks here (MPI_Group_translate_ranks).

        Args:
            ranks: 0..size-1 or PROC_NULL; by default all, in their order.
            group: the other group; by default the one of the world.

        Returns:
            For each rank the one in `group`, UNDEFINED for a process that is no member of it.

        Raises:
            InvalidRankError: a rank is outside 0..size-1.
        """
        members = self.members
        if group is not None:
            group.members  # noqa: B018
        return [self._translate(rank, group) for rank in (range(len(members)) if ranks is None else ranks)]

    def _translate(self, rank: int, other: Group | None) -> int:
        if rank == PROC_NULL:
            return PROC_NULL
        member = self._member(rank)
        return member if other is None else other._index.get(member, UNDEFINED)

    def _member(self, rank: int) -> int:
        members = self.members
        if not 0 <= index(rank) < len(members):
            raise InvalidRankError(f"rank {rank} is not in a group of {len(members)}")
        return members[rank]

    def Compare(self, group: Group) -> int:
        """IDENT, SIMILAR (same members in another order) or UNEQUAL (MPI_Group_compare)."""
        if self.members == group.members:
            return IDENT
        return SIMILAR if self._index.keys() == group._index.keys() else UNEQUAL

    # Constructors (section 5.3.2).

    def Dup(self) -> Group:
        """A group of the same members, to be freed separately."""
        return Group(self.members, self.own)

    @classmethod
    def Union(cls, group1: Group, group2: Group) -> Group:
        """All members of the first group, then those of the second that are not in the first (MPI_Group_union)."""
        first, second = group1.members, group2.members
        return cls((*first, *(m for m in second if m not in group1._index)), _own(group1, group2))

    @classmethod
    def Intersection(cls, group1: Group, group2: Group) -> Group:
        """Members of the first group that are in the second too, in the order of the first."""
        first, _ = group1.members, group2.members
        return cls((m for m in first if m in group2._index), _own(group1, group2))

    Intersect = Intersection

    @classmethod
    def Difference(cls, group1: Group, group2: Group) -> Group:
        """Members of the first group that are not in the second, in the order of the first."""
        first, _ = group1.members, group2.members
        return cls((m for m in first if m not in group2._index), _own(group1, group2))

    def Incl(self, ranks: Sequence[int]) -> Group:
        """The processes of these ranks, in this order (MPI_Group_incl).

        Raises:
            InvalidRankError: a rank is outside 0..size-1, or comes twice.
        """
        return Group(self._distinct(ranks), self.own)

    def Excl(self, ranks: Sequence[int]) -> Group:
        """All but the processes of these ranks, in the order they have here (MPI_Group_excl).

        Raises:
            InvalidRankError: a rank is outside 0..size-1, or comes twice.
        """
        excluded = set(self._distinct(ranks))
        return Group((member for member in self.members if member not in excluded), self.own)

    def Range_incl(self, ranks: Sequence[tuple[int, int, int]]) -> Group:
        """The processes of ranges of ranks, in this order (MPI_Group_range_incl).

        Args:
            ranks: (first, last, stride) for the ranks first, first + stride, ... up to, or down to, last.

        Raises:
            InvalidArgumentError: a stride is zero, or leads away from `last`.
            InvalidRankError: a rank is outside 0..size-1, or comes twice.
        """
        return self.Incl(_expanded(ranks))

    def Range_excl(self, ranks: Sequence[tuple[int, int, int]]) -> Group:
        """All but the processes of ranges of ranks; see `Range_incl`."""
        return self.Excl(_expanded(ranks))

    def _distinct(self, ranks: Sequence[int]) -> list[int]:
        """World ranks of members."""
        self.members  # noqa: B018
        chosen = dict.fromkeys(ranks)
        if len(chosen) != len(ranks):
            twice = next(rank for position, rank in enumerate(ranks) if rank in ranks[:position])
            raise InvalidRankError(f"rank {twice} comes twice: the members of a group are distinct")
        return [self._member(rank) for rank in chosen]

    def Free(self) -> None:
        """Become null (MPI_Group_free, section 5.3.3). Communicators and groups made from this one are unaffected.

        Raises:
            InvalidGroupError: the group is null already, or GROUP_EMPTY.
        """
        self.members  # noqa: B018
        if self is GROUP_EMPTY:
            raise InvalidGroupError("GROUP_EMPTY is predefined: it cannot be freed")
        self._ranks = None
        self._index = {}

    def __bool__(self) -> bool:
        return self._ranks is not None

    def __eq__(self, other: object) -> bool:
        return self._ranks == other._ranks if isinstance(other, Group) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._ranks)

    def __repr__(self) -> str:
        return "Group(null)" if self._ranks is None else f"Group({list(self._ranks)})"

    def __reduce__(self) -> str:
        """By name for the constants; other groups mean something only in their own job (section 2.4.1)."""
        for name, constant in (("GROUP_NULL", GROUP_NULL), ("GROUP_EMPTY", GROUP_EMPTY)):
            if self is constant:
                return name
        raise ValueError(f"cannot pickle {self!r}: send the ranks of its members instead")


def _own(first: Group, second: Group) -> int:
    """World rank of this process, which the groups made from GROUP_EMPTY do not know."""
    return max(first.own, second.own)


def _expanded(ranges: Sequence[tuple[int, int, int]]) -> list[int]:
    ranks: list[int] = []
    for first, last, stride in ranges:
        if stride == 0:
            raise InvalidArgumentError(f"range ({first}, {last}, {stride}): the stride must not be zero")
        if (last - first) * stride < 0:
            raise InvalidArgumentError(f"range ({first}, {last}, {stride}): the stride leads away from {last}")
        ranks.extend(range(first, last + (1 if stride > 0 else -1), stride))
    return ranks


GROUP_NULL: Final = Group()
GROUP_EMPTY: Final = Group(())
