"""Rounds: each of a few ranks posts something where all the others see it, and waits until all have."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, TypeAlias

from aiompi.engine.request import Request

if TYPE_CHECKING:
    from aiompi.engine.engine import Engine


#: what a rank has posted: a number for others to compare, the bytes that it contributes, and the content
Posting: TypeAlias = tuple[int, int, bytes]


class Member(Protocol):
    """Another rank that takes part in rounds.

    Attributes:
        rank: in the world.
    """

    rank: int

    def has_posted(self, number: int) -> bool:
        """Whether it has in the round of this number."""

    def posting(self, number: int) -> Posting:
        """What it has posted. It may be overwritten after this rank has posted in the next round."""


class Round(Request[list[Posting]]):
    """Complete when all others have posted; the result is what they have, in their order.

    Args:
        members: the others.
        number: of the round.

    Attributes:
        missing: those who have not posted, when they were last looked at.
    """

    __slots__ = ("_members", "_number", "missing")

    def __init__(self, engine: Engine, members: Sequence[Member], number: int) -> None:
        super().__init__(engine)
        self._members = self.missing = members
        self._number = number

    def ready(self) -> bool:
        """Whether all have posted by now."""
        self.missing = self.absent()
        return not self.missing

    def absent(self) -> list[Member]:
        """Those who have not posted by now, for somebody who only wants to tell."""
        number = self._number
        return [member for member in self.missing if not member.has_posted(number)]

    def end(self) -> None:
        """All have posted."""
        self.complete([member.posting(self._number) for member in self._members])
        self._members = ()

    def fail(self, error: BaseException) -> None:
        self._members = self.missing = ()
        super().fail(error)

    def cancel(self) -> bool:
        """A posting cannot be taken back: others may have seen it."""
        return False
