"""What the checks of the blocking face are made with; the table of them."""

from __future__ import annotations

from collections.abc import Callable

from waiting import both

from aiompi import MPI

CHECKS: dict[str, Callable[[], None]] = {}

comm = MPI.COMM_WORLD
rank, size = comm.rank, comm.size
successor, predecessor = (rank + 1) % size, (rank - 1) % size
SMALL, LARGE, raises, fields, waste = both.SMALL, both.LARGE, both.raises, both.fields, both.waste


def check(function: Callable[[], None]) -> Callable[[], None]:
    assert function.__name__ not in both.CHECKS
    CHECKS[function.__name__] = function
    return function


def is_empty(status: MPI.Status) -> bool:
    """The empty status of section 3.7.3."""
    return (
        fields(status) == (MPI.ANY_SOURCE, MPI.ANY_TAG, 0)
        and status.Get_count(MPI.DOUBLE) == 0
        and status.Get_error() == MPI.SUCCESS
        and not status.Is_cancelled()
    )


def settle() -> None:
    """All that the predecessor has sent before is here: this cannot overtake it."""
    assert comm.sendrecv("settle", successor, 1000, source=predecessor, recvtag=1000) == "settle"
