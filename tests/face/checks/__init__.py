"""Checks of what both faces do alike: written once, for the asyncio face, and run with either.

A check is a coroutine that all ranks of a job of any size run. It names the values that it takes as its arguments: the
communicator `comm` of all ranks, `alone` of this rank, `rank` and `size`, and the neighbours in a ring of ranks. Its
docstring names the rules that it is for. It leaves no message behind, nor a buffer.

The asyncio face runs it as it is. For the blocking face `support.waiting` loads it such that each `await` is a call
that waits.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator
from typing import Any, TypeAlias

from aiompi import MPI, Status

Check: TypeAlias = Callable[..., Coroutine[Any, Any, None]]

SMALL, LARGE = 10, 300_000  # bytes; the large ones are more than is sent without asking the receiver
CHECKS: dict[str, Check] = {}

#: Checks of what only ranks of one IMPI client do: IMPI has no packet that says that no receive is posted.
WITHIN_A_CLIENT = {"ready_without_receive"}


def check(function: Check) -> Check:
    assert function.__name__ not in CHECKS
    CHECKS[function.__name__] = function
    return function


def prepared(function: Check, comm: Any, alone: Any) -> Coroutine[Any, Any, None]:
    """Return a check of a rank, with its arguments."""
    rank, size = comm.rank, comm.size
    values = {"comm": comm, "alone": alone, "rank": rank, "size": size}
    values |= {"predecessor": (rank - 1) % size, "successor": (rank + 1) % size}
    return function(**{name: values[name] for name in inspect.signature(function).parameters})


@contextlib.contextmanager
def raises(kind: type[BaseException], text: str = "") -> Iterator[None]:
    try:
        yield
    except kind as error:
        assert text in str(error), error
    else:
        raise AssertionError(f"no {kind.__name__}")


def fields(status: Status) -> tuple[int, int, int]:
    return status.source, status.tag, status.nbytes


def waste() -> Status:
    """A status in which anything that is not set shows."""
    status = Status.of(77, 88, 99, cancelled=True)
    status.error = MPI.ERR_UNKNOWN
    return status


async def all_of(requests: Iterable[Awaitable[Any]]) -> list[Any]:
    """Wait for each of several requests, and return their results."""
    return [await request for request in requests]


async def settle(comm: Any) -> None:
    """All that the predecessor has sent before is here: this cannot overtake it."""
    successor, predecessor = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    assert await comm.sendrecv("settle", successor, 1000, source=predecessor, recvtag=1000) == "settle"


# Where the faces differ: the blocking one fills a status that the asyncio one returns.


async def outcome(request: Any) -> Status:
    """Wait for a request, and return its status."""
    result = await request
    status: Status = result if isinstance(result, Status) else request.status
    return status


def seen(comm: Any, *envelope: int) -> Status | None:
    """Return the status of a message that is there."""
    status: Status | None = comm.Iprobe(*envelope)
    return status
