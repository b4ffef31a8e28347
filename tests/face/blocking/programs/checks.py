"""What the checks of the blocking face are made with; the table of them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from aiompi import MPI

CHECKS: dict[str, Callable[[], None]] = {}

#: Checks of what only ranks of one IMPI client do: IMPI has no packet that says that no receive is posted.
WITHIN_A_CLIENT = {"ready_without_receive"}

comm = MPI.COMM_WORLD
rank, size = comm.rank, comm.size
successor, predecessor = (rank + 1) % size, (rank - 1) % size
SMALL, LARGE = 10, 300_000  # bytes; the large ones are more than is sent without asking the receiver


def check(function: Callable[[], None]) -> Callable[[], None]:
    CHECKS[function.__name__] = function
    return function


@contextlib.contextmanager
def raises(kind: type[BaseException], text: str = "") -> Iterator[None]:
    try:
        yield
    except kind as error:
        assert text in str(error), error
    else:
        raise AssertionError(f"no {kind.__name__}")


def fields(status: MPI.Status) -> tuple[int, int, int]:
    return status.source, status.tag, status.nbytes


def is_empty(status: MPI.Status) -> bool:
    """The empty status of section 3.7.3."""
    return (
        fields(status) == (MPI.ANY_SOURCE, MPI.ANY_TAG, 0)
        and status.Get_count(MPI.DOUBLE) == 0
        and status.Get_error() == MPI.SUCCESS
        and not status.Is_cancelled()
    )


def waste() -> MPI.Status:
    """A status in which anything that is not set shows."""
    status = MPI.Status.of(77, 88, 99, cancelled=True)
    status.error = MPI.ERR_UNKNOWN
    return status


def settle() -> None:
    """All that the predecessor has sent before is here: this cannot overtake it."""
    assert comm.sendrecv("settle", successor, 1000, source=predecessor, recvtag=1000) == "settle"
