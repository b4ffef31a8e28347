"""The collectives in the blocking face; run by the launcher on any number of ranks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any, Final

from aiompi import MPI
from aiompi.bench.measure import blocking, payloads
from aiompi.bench.measure.turns import timed


def collective(comm: MPI.Intracomm, name: str, nbytes: int, iterations: int, blocks: int) -> list[float]:
    """Seconds per call.

    Args:
        name: in the registry.
        nbytes: of one rank's block, or of the vector.
    """
    call = CALLS[name](comm, nbytes)

    def loop(n: int) -> None:
        comm.Barrier()
        for _ in range(n):
            call()

    return timed(loop, iterations, blocks)


def _moved(name: str, sent: bool, received: bool) -> Callable[[MPI.Intracomm, int], Callable[[], None]]:
    """A call that moves blocks, of which the buffers have one, or one for each rank."""

    def bind(comm: MPI.Intracomm, nbytes: int) -> Callable[[], None]:
        method = getattr(comm, name)
        buffers = [payloads.touched(nbytes * (comm.size if many else 1)) for many in (sent, received)]
        return lambda: method(*buffers)

    return bind


def _combined(name: str) -> Callable[[MPI.Intracomm, int], Callable[[], None]]:
    """A call that combines vectors of doubles, or of bytes if they are no whole number of doubles."""

    def bind(comm: MPI.Intracomm, nbytes: int) -> Callable[[], None]:
        method = getattr(comm, name)
        kind = "d" if nbytes % 8 == 0 else "B"
        buffers = [payloads.touched(nbytes).view(kind) for _ in range(2)]
        return lambda: method(*buffers)

    return bind


def _segmented(comm: MPI.Intracomm, nbytes: int) -> Callable[[], None]:
    bounds = [rank * nbytes // comm.size for rank in range(comm.size + 1)]
    counts = [stop - start for start, stop in pairwise(bounds)]
    vector, segment = payloads.touched(nbytes), payloads.touched(counts[comm.rank])
    return lambda: comm.Reduce_scatter(vector, segment, counts)


def _broadcast(comm: MPI.Intracomm, nbytes: int) -> Callable[[], None]:
    buffer = payloads.touched(nbytes)
    return lambda: comm.Bcast(buffer)


CALLS: Final[Mapping[str, Callable[[MPI.Intracomm, int], Callable[[], None]]]] = {
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

WORKS: Final[dict[str, Callable[..., Any]]] = {work.__name__: work for work in (blocking.bind, collective)}


if __name__ == "__main__":
    blocking.main(WORKS)
