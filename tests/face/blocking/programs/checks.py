"""What the checks of the blocking face are made with; the table of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from aiompi import MPI
from support.waiting import load, run

TESTS = Path(__file__).parents[3]


async def outcome(request: MPI.Request[Any]) -> MPI.Status:
    status = MPI.Status()
    request.Wait(status)
    return status


def seen(comm: MPI.Comm, *envelope: int) -> MPI.Status | None:
    status = MPI.Status()
    return status if comm.Iprobe(*envelope, status=status) else None


CHECKS: dict[str, Callable[[], None]] = {}

#: the checks of both faces
both = load(TESTS / "face" / "checks" / "__init__.py", "face.checks")
vars(both).update(outcome=outcome, seen=seen)
for path in sorted((TESTS / "face" / "checks").glob("[a-z]*.py")):
    load(path, f"face.checks.{path.stem}")

comm = MPI.COMM_WORLD
rank, size = comm.rank, comm.size
successor, predecessor = (rank + 1) % size, (rank - 1) % size
SMALL, LARGE, raises, fields, waste = both.SMALL, both.LARGE, both.raises, both.fields, both.waste


def run_both(function: Any) -> None:
    """Run a check of both faces."""
    run(both.prepared(function, MPI.COMM_WORLD, MPI.COMM_SELF))


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
