"""Measurements of collectives, for every library whose communicators have the methods of mpi4py."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any, Final, TypeAlias

from aiompi.bench.measure import payloads, turns

#: calls before the timed ones
WARM_UP: Final = 2

#: returns the call of a collective for a communicator and a number of bytes
Binding: TypeAlias = Callable[[Any, int], Callable[[], object]]


def bind(comm: Any, cores: list[int]) -> None:
    """Bind this process to one core."""
    turns.bind(comm.Get_rank(), cores)


def collective(comm: Any, name: str, nbytes: int, calls: int) -> list[float]:
    """Seconds that each call of a collective takes.

    Args:
        name: in the registry of collectives.
        nbytes: length of one rank's block, or of the vector.
        calls: to be timed.
    """
    return apart(comm, CALLS[name](comm, nbytes), calls)


def collective_objects(comm: Any, name: str, payload: str, calls: int, nbytes: int = payloads.ARRAY) -> list[float]:
    """Seconds that each call of a collective on objects takes.

    Args:
        name: of the method.
        payload: kind of every rank's object, see `payloads.make`; reductions take an array instead.
        nbytes: of the array.
    """
    return apart(comm, object_call(comm, name, payload, nbytes), calls)


def object_call(comm: Any, name: str, payload: str, nbytes: int) -> Callable[[], object]:
    """Return the call of a collective on objects."""
    method = getattr(comm, name)
    if name in ("reduce", "allreduce", "scan"):
        vector = payloads.touched(nbytes)
        return lambda: method(vector)
    obj = payloads.make(payload, nbytes)
    given = [obj] * comm.Get_size() if name in ("scatter", "alltoall") else obj
    return lambda: method(given)


def apart(comm: Any, call: Callable[[], object], calls: int) -> list[float]:
    """Time calls one by one, each after a barrier.

    Without the barrier a rank that only sends runs ahead of the receiving ranks. Calls would then overlap, and the
    result would be the throughput of calls instead of the duration of one call.

    Returns:
        Seconds of each call on this rank. The call takes as long as its slowest rank.
    """
    clock = time.perf_counter
    seconds = []
    for _ in range(WARM_UP + calls):
        comm.Barrier()
        start = clock()
        call()
        seconds.append(clock() - start)
    return seconds[WARM_UP:]


def _moved(name: str, sent: bool, received: bool) -> Binding:
    """Return a `Binding`. `sent`, `received`: True if that buffer has one block per rank, False if it has one block."""

    def bind(comm: Any, nbytes: int) -> Callable[[], object]:
        method = getattr(comm, name)
        buffers = [payloads.touched(nbytes * (comm.Get_size() if many else 1)) for many in (sent, received)]
        return lambda: method(*buffers)

    return bind


def _combined(name: str) -> Binding:
    """Return the `Binding` of a reduction of doubles, or of bytes if the size is not a multiple of 8."""

    def bind(comm: Any, nbytes: int) -> Callable[[], object]:
        method = getattr(comm, name)
        kind = "d" if nbytes % 8 == 0 else "B"
        buffers = [payloads.touched(nbytes).view(kind) for _ in range(2)]
        return lambda: method(*buffers)

    return bind


def _segmented(comm: Any, nbytes: int) -> Callable[[], object]:
    size = comm.Get_size()
    bounds = [rank * nbytes // size for rank in range(size + 1)]
    counts = [stop - start for start, stop in pairwise(bounds)]
    vector, segment = payloads.touched(nbytes), payloads.touched(counts[comm.Get_rank()])
    return lambda: comm.Reduce_scatter(vector, segment, counts)


def _broadcast(comm: Any, nbytes: int) -> Callable[[], object]:
    buffer = payloads.touched(nbytes)
    return lambda: comm.Bcast(buffer)


CALLS: Final[Mapping[str, Binding]] = {
    "barrier": lambda comm, nbytes: comm.Barrier,
    "bcast": _broadcast,
    "gather": _moved("Gather", sent=False, received=True),
    "scatter": _moved("Scatter", sent=True, received=False),
    "allgather": _moved("Allgather", sent=False, received=True),
    "alltoall": _moved("Alltoall", sent=True, received=True),
    "reduce": _combined("Reduce"),
    "allreduce": _combined("Allreduce"),
    "reduce_scatter": _segmented,
    "scan": _combined("Scan"),
    "exscan": _combined("Exscan"),
}

WORKS: Final[dict[str, Callable[..., Any]]] = {work.__name__: work for work in (bind, collective, collective_objects)}
