"""Groups: ordered sets of processes (section 5.3). All operations are local."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, Self

from aiompi.base.arguments import instance, integer, integers, several
from aiompi.base.opaque import Reference
from aiompi.constants import IDENT, PROC_NULL, SIMILAR, UNDEFINED, UNEQUAL
from aiompi.engine.processes import FIRST_MET
from aiompi.errors import InvalidArgumentError, InvalidGroupError, InvalidRankError

if TYPE_CHECKING:
    from aiompi.comm.session import SessionState


class _Members:
    """The object behind the handles of a group: its members.

    Args:
        ranks: the process numbers of the members at this rank, in the order of the ranks in the group.
        own: number of this process; negative if the group need not know it.
        session: see `Group.session`.
    """

    __slots__ = ("__weakref__", "index", "own", "ranks", "session")

    def __init__(self, ranks: Iterable[int], own: int, session: SessionState | None) -> None:
        self.ranks = tuple(ranks)
        self.own = own
        self.session = session
        self.index = {member: rank for rank, member in enumerate(self.ranks)}


class Group(Reference[_Members]):
    """An ordered set of processes, named by their numbers at this rank (see aiompi.engine.processes).

    Groups with the same members in the same order are equal. A group is true unless it is null. Freeing a group makes
    it null; then every operation except comparison raises InvalidGroupError.

    Args:
        group: group of which to make another handle; None for a null handle.
    """

    __slots__ = ()

    _kind = _Members
    _advice = "send the ranks of its members instead"

    def __new__(cls, group: Group | None = None) -> Self:
        return cls._another(Group, group)

    @classmethod
    def of(cls, members: Iterable[int], own: int = -1, session: SessionState | None = None) -> Self:
        """Make a group of the processes with these numbers.

        Args:
            members: their numbers in the order of the ranks in the group.
            own: number of this process; negative if the group need not know it.
            session: session of the group; None if the group needs none.

        Returns:
            The group.
        """
        return cls._denote(_Members(members, own, session))

    @property
    def _valid(self) -> _Members:
        """The members; the group must not be null.

        Raises:
            InvalidGroupError: the group is null.
        """
        if self._denoted is None:
            raise InvalidGroupError(
                "the group is null: it has been freed, or is GROUP_NULL; GROUP_EMPTY has no members"
            )
        return self._denoted

    @property
    def members(self) -> tuple[int, ...]:
        """Numbers of the processes, in the order of the ranks in the group.

        Raises:
            InvalidGroupError: the group is null.
        """
        return self._valid.ranks

    @property
    def own(self) -> int:
        """Number of this process; negative if the group need not know it."""
        return self._valid.own

    @property
    def session(self) -> SessionState | None:
        """Session, or World Model, of the group; None for GROUP_EMPTY and groups made only from it."""
        return self._valid.session

    @property
    def index(self) -> dict[int, int]:
        """Rank in the group by number of the process."""
        return self._valid.index

    @property
    def size(self) -> int:
        """Number of members."""
        return len(self._valid.ranks)

    @property
    def rank(self) -> int:
        """Rank of this process, UNDEFINED if it is no member."""
        valid = self._valid
        return valid.index.get(valid.own, UNDEFINED)

    @classmethod
    def Create_from_session_pset(cls, session: Any, pset_name: str) -> Self:
        """Make the group of a process set, as `Session.Create_group` (MPI_Group_from_session_pset, MPI-4).

        Args:
            session: a session.
            pset_name: name of a process set.

        Returns:
            The group.
        """
        made = session.Create_group(pset_name)
        return cls.of(made.members, made.own, made.session)

    def Get_size(self) -> int:
        """Number of processes (MPI_Group_size, section 5.3.1).

        Returns:
            The number.
        """
        return self.size

    def Get_rank(self) -> int:
        """Rank of this process, UNDEFINED if it is not a member (MPI_Group_rank, section 5.3.1).

        Returns:
            The rank; UNDEFINED for a process that is not in the group.
        """
        return self.rank

    def Translate_ranks(self, ranks: Sequence[int] | None = None, group: Group | None = None) -> list[int]:
        """Translate ranks of this group to ranks in another group (MPI_Group_translate_ranks).

        Args:
            ranks: 0..size-1 or PROC_NULL; by default all ranks in order.
            group: the other group; by default the group of the world.

        Returns:
            For each rank the rank in `group`; UNDEFINED for a process that is not a member of it.

        Raises:
            InvalidRankError: a rank is outside 0..size-1.
        """
        members = self.members
        if group is not None:
            _valid(group, "group")
        chosen = range(len(members)) if ranks is None else integers(ranks, "ranks")
        return [self._translate(rank, group) for rank in chosen]

    def _translate(self, rank: int, other: Group | None) -> int:
        if rank == PROC_NULL:
            return PROC_NULL
        member = self._member(rank)
        if other is None:
            return member if member < FIRST_MET else UNDEFINED
        return other.index.get(member, UNDEFINED)

    def _member(self, rank: int) -> int:
        members = self.members
        if not 0 <= integer(rank, "rank") < len(members):
            raise InvalidRankError(f"rank {rank} is not in a group of {len(members)}")
        return members[rank]

    def Compare(self, group: Group) -> int:
        """Return IDENT, SIMILAR (same members in another order) or UNEQUAL (MPI_Group_compare).

        Args:
            group: another group.

        Returns:
            IDENT for the same processes in the same order, SIMILAR in another order, otherwise UNEQUAL.
        """
        if self.members == _valid(group, "group"):
            return IDENT
        return SIMILAR if self.index.keys() == group.index.keys() else UNEQUAL

    # Constructors (section 5.3.2).

    def Dup(self) -> Self:
        """Make a group of the same members, which is freed separately.

        Returns:
            The group.
        """
        return self._with(self.members)

    @classmethod
    def Union(cls, group1: Group, group2: Group) -> Self:
        """Make a group of all members of the first group, then the other members of the second (MPI_Group_union).

        Args:
            group1: a group.
            group2: a group.

        Returns:
            The new group.
        """
        first, second = _valid(group1, "group1"), _valid(group2, "group2")
        return cls.of((*first, *(m for m in second if m not in group1.index)), *_origin(group1, group2))

    @classmethod
    def Intersection(cls, group1: Group, group2: Group) -> Self:
        """Make a group of the members of both groups, in the order of the first (MPI_Group_intersection).

        Args:
            group1: a group.
            group2: a group.

        Returns:
            The new group.
        """
        first, _ = _valid(group1, "group1"), _valid(group2, "group2")
        return cls.of((m for m in first if m in group2.index), *_origin(group1, group2))

    Intersect = Intersection

    @classmethod
    def Difference(cls, group1: Group, group2: Group) -> Self:
        """Make a group of the members of the first group that are not in the second (MPI_Group_difference).

        Args:
            group1: a group.
            group2: a group.

        Returns:
            The new group.
        """
        first, _ = _valid(group1, "group1"), _valid(group2, "group2")
        return cls.of((m for m in first if m not in group2.index), *_origin(group1, group2))

    def Incl(self, ranks: Sequence[int]) -> Self:
        """Make a group of these ranks, in this order (MPI_Group_incl).

        Args:
            ranks: ranks in this group, in the order of the new one.

        Returns:
            The new group.

        Raises:
            InvalidRankError: a rank is outside 0..size-1, or occurs twice.
        """
        return self._with(self._chosen(ranks))

    def Excl(self, ranks: Sequence[int]) -> Self:
        """Make a group of all but these ranks; the order stays (MPI_Group_excl).

        Args:
            ranks: ranks in this group.

        Returns:
            The new group.

        Raises:
            InvalidRankError: a rank is outside 0..size-1, or occurs twice.
        """
        excluded = set(self._chosen(ranks))
        return self._with(member for member in self.members if member not in excluded)

    def Range_incl(self, ranks: Sequence[tuple[int, int, int]]) -> Self:
        """Make a group of ranges of ranks, in this order (MPI_Group_range_incl).

        Args:
            ranks: triples (first, last, stride). Each triple stands for the ranks first, first + stride, ..., which go
                up to `last` at most, or down to `last` if the stride is negative.

        Returns:
            The new group.

        Raises:
            InvalidArgumentError: a stride is zero, or leads away from `last`.
            InvalidRankError: a rank is outside 0..size-1, or occurs twice.
        """
        return self.Incl(_expanded(ranks))

    def Range_excl(self, ranks: Sequence[tuple[int, int, int]]) -> Self:
        """Make a group of all but ranges of ranks (MPI_Group_range_excl); see `Range_incl`.

        Args:
            ranks: triples (first, last, stride) as of `Range_incl`.

        Returns:
            The new group.
        """
        return self.Excl(_expanded(ranks))

    def _with(self, members: Iterable[int]) -> Self:
        """Return a group of the same session with other members."""
        return self.of(members, self.own, self.session)

    def _chosen(self, ranks: Sequence[int]) -> list[int]:
        """Return the processes of distinct ranks."""
        self.members  # noqa: B018
        return [self._member(rank) for rank in _distinct(integers(ranks, "ranks"))]

    def Free(self) -> None:
        """Make the handle null (MPI_Group_free, section 5.3.3). Communicators and groups made from it are unaffected.

        Raises:
            InvalidGroupError: the group is already null, or is GROUP_EMPTY.
        """
        self.members  # noqa: B018
        if self._constant:
            raise InvalidGroupError("GROUP_EMPTY is predefined: it cannot be freed")
        self._denoted = None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Group):
            return NotImplemented
        if self._denoted is None or other._denoted is None:
            return self._denoted is other._denoted
        return self._denoted.ranks == other._denoted.ranks

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return "Group(null)" if self._denoted is None else f"Group({list(self._denoted.ranks)})"


def _valid(group: object, name: str) -> tuple[int, ...]:
    """Return the processes of a group that is an argument.

    Raises:
        InvalidGroupError: the group is null.
        TypeError: it is not a group.
    """
    return instance(group, Group, name, "a Group").members


def _origin(first: Group, second: Group) -> tuple[int, SessionState | None]:
    """Return `own` and `session` from whichever group has them; a group made only from GROUP_EMPTY has neither."""
    return max(first.own, second.own), first.session or second.session


def _distinct(ranks: Sequence[int]) -> Sequence[int]:
    """Return the ranks.

    Raises:
        InvalidRankError: one occurs twice.
    """
    if len(set(ranks)) != len(ranks):
        twice = next(rank for position, rank in enumerate(ranks) if rank in ranks[:position])
        raise InvalidRankError(f"rank {twice} occurs twice: the members of a group are distinct")
    return ranks


def _expanded(ranges: Sequence[tuple[int, int, int]]) -> list[int]:
    ranks: list[int] = []
    for i, given in enumerate(several(ranges, "ranks", "ranges")):
        triple = integers(given, f"ranks[{i}]")
        if len(triple) != 3:
            raise InvalidArgumentError(f"ranks[{i}] is {triple}: expected (first, last, stride)")
        first, last, stride = triple
        if stride == 0:
            raise InvalidArgumentError(f"range ({first}, {last}, {stride}): the stride must not be zero")
        if (last - first) * stride < 0:
            raise InvalidArgumentError(f"range ({first}, {last}, {stride}): the stride leads away from {last}")
        ranks.extend(range(first, last + (1 if stride > 0 else -1), stride))
    return ranks


GROUP_NULL: Final = Group()
GROUP_EMPTY: Final = Group.of(())

Group._constants = {"GROUP_NULL": GROUP_NULL, "GROUP_EMPTY": GROUP_EMPTY}
