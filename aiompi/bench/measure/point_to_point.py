"""Works between pairs of ranks, for every library with the names of mpi4py.

`works` returns them for a library. In any even number n of ranks the first half leads, and the peer of rank r is rank
r + n / 2. Two ranks are one pair.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from aiompi.bench.measure import payloads
from aiompi.bench.measure.payloads import TAG
from aiompi.bench.measure.turns import timed

#: what is sent, and where what comes is put: memory of its own, as in the OSU micro-benchmarks
Buffers: TypeAlias = tuple[npt.NDArray[Any], npt.NDArray[Any]]


def peer_of(comm: Any) -> int:
    """Return the rank of the other process of this pair."""
    return int((comm.rank + comm.size // 2) % comm.size)


def leads(comm: Any) -> bool:
    """Return True if this rank begins in its pair."""
    return bool(comm.rank < comm.size // 2)


def latency(mpi: Any, comm: Any, nbytes: int, iterations: int, blocks: int) -> list[float]:
    """Seconds per round trip of a message."""
    buffers = payloads.touched(nbytes), payloads.blank(nbytes)
    return _ping_pong(comm, buffers, buffers, iterations, blocks, (peer_of(comm), TAG))


def latency_typed(mpi: Any, comm: Any, count: int, derived: bool, iterations: int, blocks: int) -> list[float]:
    """Seconds per round trip of an even number of doubles: an item of a derived type without gaps, or DOUBLE items."""
    buffers = np.ones(count), np.full(count, 0.0)
    described = (1, mpi.DOUBLE.Create_vector(count // 2, 2, 2).Commit()) if derived else (count, mpi.DOUBLE)
    specs = [[buffer, *described] for buffer in buffers]
    return _ping_pong(comm, buffers, specs, iterations, blocks, (peer_of(comm), TAG))


def latency_wildcards(mpi: Any, comm: Any, nbytes: int, iterations: int, blocks: int) -> list[float]:
    """Seconds per round trip of a message that is received from any source with any tag."""
    buffers = payloads.touched(nbytes), payloads.blank(nbytes)
    return _ping_pong(comm, buffers, buffers, iterations, blocks, (mpi.ANY_SOURCE, mpi.ANY_TAG))


def _ping_pong(
    comm: Any, buffers: Buffers, specs: Sequence[Any], iterations: int, blocks: int, wanted: tuple[int, int]
) -> list[float]:
    """Make round trips of a message, which is sent from one buffer and received into the other."""
    source, tag = wanted
    peer = peer_of(comm)
    sent, received = specs

    def lead(n: int) -> None:
        for _ in range(n):
            comm.Send(sent, peer, TAG)
            comm.Recv(received, source, tag)

    def follow(n: int) -> None:
        for _ in range(n):
            comm.Recv(received, source, tag)
            comm.Send(sent, peer, TAG)

    loop = lead if leads(comm) else follow
    seconds = timed(loop, iterations, blocks, comm.Barrier)
    payloads.check(buffers[1], loop)
    return seconds


def bandwidth(mpi: Any, comm: Any, nbytes: int, window: int, iterations: int, blocks: int) -> list[float]:
    """Seconds per window of messages, all outstanding at once, and the answer to them."""
    sent, received = payloads.touched(nbytes), payloads.blank(nbytes)
    token = payloads.touched(1)
    peer = peer_of(comm)

    def lead(n: int) -> None:
        for _ in range(n):
            mpi.Request.Waitall([comm.Isend(sent, peer, TAG) for _ in range(window)])
            comm.Recv(token, peer, TAG)

    def follow(n: int) -> None:
        for _ in range(n):
            mpi.Request.Waitall([comm.Irecv(received, peer, TAG) for _ in range(window)])
            comm.Send(token, peer, TAG)

    if leads(comm):
        seconds = timed(lead, iterations, blocks, comm.Barrier)
        lead(1)  # for the check of the other rank
        return seconds
    seconds = timed(follow, iterations, blocks, comm.Barrier)
    payloads.check(received, follow)
    return seconds


def bandwidth_both_ways(mpi: Any, comm: Any, nbytes: int, window: int, iterations: int, blocks: int) -> list[float]:
    """Seconds per window of messages each way at the same time, and an answer to them."""
    sent, received = payloads.touched(nbytes), payloads.blank(nbytes)
    token = payloads.touched(1)
    peer, answer = peer_of(comm), comm.Recv if leads(comm) else comm.Send

    def loop(n: int) -> None:
        for _ in range(n):
            requests = [comm.Irecv(received, peer, TAG) for _ in range(window)]
            requests += [comm.Isend(sent, peer, TAG) for _ in range(window)]
            mpi.Request.Waitall(requests)
            answer(token, peer, TAG)

    seconds = timed(loop, iterations, blocks, comm.Barrier)
    payloads.check(received, loop)
    return seconds


def objects(
    mpi: Any, comm: Any, payload: str, iterations: int, blocks: int, nbytes: int = payloads.ARRAY
) -> list[float]:
    """Seconds per round trip of an object."""
    obj = payloads.make(payload, nbytes)
    peer = peer_of(comm)

    def lead(n: int) -> None:
        for _ in range(n):
            comm.send(obj, peer, TAG)
            comm.recv(source=peer, tag=TAG)

    def follow(n: int) -> None:
        for _ in range(n):
            comm.send(comm.recv(source=peer, tag=TAG), peer, TAG)

    seconds = timed(lead if leads(comm) else follow, iterations, blocks, comm.Barrier)
    payloads.check_object(comm.sendrecv(obj, peer, TAG, source=peer, recvtag=TAG), obj)
    return seconds


def idle(mpi: Any, comm: Any, seconds: float) -> float:
    """CPU seconds that a rank has used while it waited in a receive for rank 0, which sleeps."""
    start = time.process_time()
    if comm.rank == 0:
        time.sleep(seconds)
        for rank in range(1, comm.size):
            comm.send(None, rank, TAG)
    else:
        comm.recv(source=0, tag=TAG)
    return time.process_time() - start


def memory(mpi: Any, comm: Any, nbytes: int) -> int:
    """Bytes by which a transfer raises the peak of resident memory above its buffer."""
    buffer = payloads.touched(nbytes)
    comm.Barrier()
    before = payloads.peak_memory()
    if comm.rank == 0:
        comm.Send(buffer, 1, TAG)
    else:
        comm.Recv(buffer, 0, TAG)
    return payloads.peak_memory() - before


def matching(mpi: Any, comm: Any, outstanding: int, reverse: bool, blocks: int) -> list[float]:
    """Seconds per message when many receives are outstanding, each with a tag of its own."""
    buffers = payloads.touched(8 * outstanding).reshape(outstanding, 8)
    token = payloads.touched(1)
    tags = range(outstanding)[::-1] if reverse else range(outstanding)

    def lead(n: int) -> None:
        comm.Recv(token, 1, outstanding)
        mpi.Request.Waitall([comm.Isend(buffers[tag], 1, tag) for tag in tags])

    def follow(n: int) -> None:
        requests = [comm.Irecv(buffers[tag], 0, tag) for tag in range(outstanding)]
        comm.Send(token, 0, outstanding)
        mpi.Request.Waitall(requests)

    return timed(lead if leads(comm) else follow, outstanding, blocks)


WORKS: Final[tuple[Callable[..., Any], ...]] = (
    latency,
    latency_typed,
    latency_wildcards,
    bandwidth,
    bandwidth_both_ways,
    objects,
    idle,
    memory,
    matching,
)


def works(mpi: Any) -> dict[str, Callable[..., Any]]:
    """Return the works by name, as functions of a communicator and the arguments.

    Args:
        mpi: the module of a library that has mpi4py's names.
    """
    return {work.__name__: partial(work, mpi) for work in WORKS}
