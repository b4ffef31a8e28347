"""Slots: shared memory in which each rank of a group shows all others its contribution to a collective.

Where ranks share memory, collectives on short blocks use slots. The native core implements them. This module has the
sizes, and the interface between the engine and the transport of shared memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from aiompi.core._native import SlotGroup
    from aiompi.engine.endpoint import Endpoint

#: most bytes of a contribution in the first communicators of a job; longer contributions are messages
ROOM: Final = 256 * 2**10
#: most bytes of a contribution in all other communicators, for which addresses are reserved as well
LITTLE_ROOM: Final = 2 * 2**10
#: most ranks whose long blocks go through slots in rounds: in each round a rank has a line of memory for each rank
MOST_IN_ROUNDS: Final = ROOM // 64
#: number of the first communicators. Few programs make more.
FIRST_COMMUNICATORS: Final = 32


def ordinal(context: int) -> int:
    """Return the number of a communicator in its job.

    All members derive this number from the two context ids of the communicator.
    """
    return context // 2


def room(context: int) -> int:
    """Return the maximum size in bytes of a contribution in the communicator with this context id."""
    return ROOM if ordinal(context) < FIRST_COMMUNICATORS else LITTLE_ROOM


class SlotProvider(Protocol):
    """Memory of this rank that others read: its slots."""

    def affords(self, context: int, peers: Sequence[Endpoint]) -> bool:
        """Return True if this process has enough descriptors and addresses for `assemble`. This opens none of them."""

    def connected(self, peers: Sequence[Endpoint]) -> bool:
        """Return True if this rank already shares memory with all these peers."""

    def assemble(self, context: int, rank: int, peers: Sequence[Endpoint]) -> SlotGroup | None:
        """Return the slots of a communicator; None if some member cannot read the slots of all others now.

        Args:
            context: id of the communicator.
            rank: rank of this process in the communicator.
            peers: all members but this rank.
        """
