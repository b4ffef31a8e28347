"""Slots: each rank of a group shows all others what it contributes to a collective.

Collectives on blocks that are not long are made of them where ranks share memory. They are in the native core. Here is
what the engine and the transport of shared memory say of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from aiompi.core._native import SlotGroup
    from aiompi.engine.endpoint import Endpoint

#: bytes of a contribution in the first communicators of a job; longer ones are messages
ROOM: Final = 256 * 2**10
#: the same in all other communicators, for which addresses are reserved as well
LITTLE_ROOM: Final = 2 * 2**10
#: number of the first communicators. Few programs make more.
FIRST_COMMUNICATORS: Final = 32


def ordinal(context: int) -> int:
    """Return the number of a communicator in its job. All members know its context id; each has two of them."""
    return context // 2


def room(context: int) -> int:
    """Return the bytes of a contribution in a communicator, by its context id."""
    return ROOM if ordinal(context) < FIRST_COMMUNICATORS else LITTLE_ROOM


class SlotProvider(Protocol):
    """Memory of this rank that others read: its slots."""

    def affords(self, context: int, peers: Sequence[Endpoint]) -> bool:
        """Return True if this process has descriptors and addresses for `assemble`. Nothing is opened for it yet."""

    def connected(self, peers: Sequence[Endpoint]) -> bool:
        """Return True if this rank shares memory with all these already."""

    def assemble(self, context: int, rank: int, peers: Sequence[Endpoint]) -> SlotGroup | None:
        """Prepare the slots of a communicator; None if not all members see the others' slots, or not yet.

        Args:
            context: id of the communicator.
            rank: rank of this process in it.
            peers: all members but this rank.
        """
