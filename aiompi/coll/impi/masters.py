"""Masters: one rank of each client that speaks for it (IMPI 0.0, section 4.2)."""

from __future__ import annotations

import functools
from collections.abc import Sequence


class Masters:
    """The clients of a communicator, numbered by ascending rank of their masters; the names are those of the standard.

    Nothing is communicated: all members know all clients.

    Args:
        clients: which client each rank belongs to.
    """

    __slots__ = ("_locals", "_numbers")

    def __init__(self, clients: Sequence[int]) -> None:
        numbers: dict[int, int] = {}
        self._numbers = [numbers.setdefault(client, len(numbers)) for client in clients]
        self._locals: list[list[int]] = [[] for _ in numbers]
        for rank, number in enumerate(self._numbers):
            self._locals[number].append(rank)

    @property
    def num_masters(self) -> int:
        """Number of masters: clients that have members."""
        return len(self._locals)

    def master_rank(self, number: int) -> int:
        """Rank of a master."""
        return self._locals[number][0]

    def is_master(self, rank: int) -> bool:
        """Return True if this is the lowest rank of its client."""
        return self.local_master_rank(rank) == rank

    def local_master_num(self, rank: int) -> int:
        """Number of the master of this rank's client."""
        return self._numbers[rank]

    def local_master_rank(self, rank: int) -> int:
        """Rank of the master of this rank's client."""
        return self.master_rank(self._numbers[rank])

    def num_local_to_master(self, number: int) -> int:
        """Number of ranks in the client of a master, itself included."""
        return len(self._locals[number])

    def locals_to_master(self, number: int) -> Sequence[int]:
        """The ranks of the client of a master, ascending, itself included."""
        return self._locals[number]

    def are_local(self, rank: int, other: int) -> bool:
        """Return True if two ranks belong to the same client."""
        return self._numbers[rank] == self._numbers[other]


@functools.lru_cache(maxsize=64)
def masters_of(clients: tuple[int, ...]) -> Masters:
    """The masters of a communicator, computed once."""
    return Masters(clients)
