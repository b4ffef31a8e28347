"""The works in the blocking face; run by the launcher on two ranks."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np

from aiompi import MPI
from aiompi.bench.measure import payloads, turns
from aiompi.bench.measure.payloads import TAG
from aiompi.bench.measure.turns import timed


def bind(comm: MPI.Intracomm, cores: list[int]) -> None:
    """Stay on one core."""
    turns.bind(comm.rank, cores)


def latency(comm: MPI.Intracomm, nbytes: int, iterations: int, blocks: int) -> list[float]:
    """Seconds per round trip of a message."""
    return _ping_pong(comm, payloads.touched(nbytes), iterations, blocks, (1 - comm.rank, TAG))


def latency_typed(comm: MPI.Intracomm, count: int, derived: bool, iterations: int, blocks: int) -> list[float]:
    """Seconds per round trip of doubles, which are one item of a derived type without gaps, or items of DOUBLE."""
    buffer = np.ones(count)
    spec = [buffer, 1, MPI.DOUBLE.Create_vector(count // 2, 2, 2).Commit()] if derived else [buffer, count, MPI.DOUBLE]
    return _ping_pong(comm, spec, iterations, blocks, (1 - comm.rank, TAG))


def latency_wildcards(comm: MPI.Intracomm, nbytes: int, iterations: int, blocks: int) -> list[float]:
    """Seconds per round trip of a message that is received from any source with any tag."""
    return _ping_pong(comm, payloads.touched(nbytes), iterations, blocks, (MPI.ANY_SOURCE, MPI.ANY_TAG))


def _ping_pong(comm: MPI.Intracomm, buffer: Any, iterations: int, blocks: int, wanted: tuple[int, int]) -> list[float]:
    source, tag = wanted
    peer = 1 - comm.rank

    def lead(n: int) -> None:
        for _ in range(n):
            comm.Send(buffer, peer, TAG)
            comm.Recv(buffer, source, tag)

    def follow(n: int) -> None:
        for _ in range(n):
            comm.Recv(buffer, source, tag)
            comm.Send(buffer, peer, TAG)

    return timed(follow if comm.rank else lead, iterations, blocks)


def bandwidth(comm: MPI.Intracomm, nbytes: int, window: int, iterations: int, blocks: int) -> list[float]:
    """Seconds per window of messages, all outstanding at once, and the answer to them."""
    buffers = [payloads.touched(nbytes) for _ in range(window)]
    token = payloads.touched(1)
    peer = 1 - comm.rank

    def lead(n: int) -> None:
        for _ in range(n):
            MPI.Request.Waitall([comm.Isend(buffer, peer, TAG) for buffer in buffers])
            comm.Recv(token, peer, TAG)

    def follow(n: int) -> None:
        for _ in range(n):
            MPI.Request.Waitall([comm.Irecv(buffer, peer, TAG) for buffer in buffers])
            comm.Send(token, peer, TAG)

    return timed(follow if comm.rank else lead, iterations, blocks)


def objects(comm: MPI.Intracomm, payload: str, iterations: int, blocks: int) -> list[float]:
    """Seconds per round trip of an object."""
    obj = payloads.make(payload)
    peer = 1 - comm.rank

    def lead(n: int) -> None:
        for _ in range(n):
            comm.send(obj, peer, TAG)
            comm.recv(source=peer, tag=TAG)

    def follow(n: int) -> None:
        for _ in range(n):
            comm.send(comm.recv(source=peer, tag=TAG), peer, TAG)

    return timed(follow if comm.rank else lead, iterations, blocks)


def idle(comm: MPI.Intracomm, seconds: float) -> float:
    """CPU seconds that a rank has used while it waited in a receive."""
    start = time.process_time()
    if comm.rank == 0:
        time.sleep(seconds)
        comm.send(None, 1, TAG)
    else:
        comm.recv(source=0, tag=TAG)
    return time.process_time() - start


def memory(comm: MPI.Intracomm, nbytes: int) -> int:
    """Bytes by which a transfer raises the peak of resident memory above its buffer."""
    buffer = payloads.touched(nbytes)
    comm.Barrier()
    before = payloads.peak_memory()
    if comm.rank == 0:
        comm.Send(buffer, 1, TAG)
    else:
        comm.Recv(buffer, 0, TAG)
    return payloads.peak_memory() - before


def matching(comm: MPI.Intracomm, outstanding: int, reverse: bool, blocks: int) -> list[float]:
    """Seconds per message when many receives are outstanding, each with a tag of its own."""
    buffers = payloads.touched(8 * outstanding).reshape(outstanding, 8)
    token = payloads.touched(1)
    tags = range(outstanding)[::-1] if reverse else range(outstanding)

    def lead(n: int) -> None:
        comm.Recv(token, 1, outstanding)
        MPI.Request.Waitall([comm.Isend(buffers[tag], 1, tag) for tag in tags])

    def follow(n: int) -> None:
        requests = [comm.Irecv(buffers[tag], 0, tag) for tag in range(outstanding)]
        comm.Send(token, 0, outstanding)
        MPI.Request.Waitall(requests)

    return timed(follow if comm.rank else lead, outstanding, blocks)


WORKS: Final[dict[str, Callable[..., Any]]] = {
    work.__name__: work
    for work in (bind, latency, latency_typed, latency_wildcards, bandwidth, objects, idle, memory, matching)
}


def main(works: Mapping[str, Callable[..., Any]] = WORKS, ranks: int | None = None) -> None:
    """Do one work after the other.

    Args:
        works: by name.
        ranks: number of those that work, the others are only there; None for all.
    """
    comm = MPI.COMM_WORLD
    if ranks is not None and comm.size > ranks:
        comm = comm.Split(0 if comm.rank < ranks else MPI.UNDEFINED)
        if comm == MPI.COMM_NULL:
            return
    while work := comm.bcast(None if comm.rank else turns.next_work()):
        name = work.pop("work")
        results = comm.gather(works[name](comm, **work))
        if comm.rank == 0:
            turns.answer(results)


if __name__ == "__main__":
    main(ranks=2)
