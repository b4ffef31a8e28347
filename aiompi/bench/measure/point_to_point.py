"""Measurements between pairs of ranks, for every library with the names of mpi4py.

`works` returns them for a library. With n ranks (n is even), the ranks below n / 2 are leaders, and the peer of leader
r is rank r + n / 2. Two ranks are one pair.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from aiompi.bench.measure import payloads
from aiompi.bench.measure.payloads import TAG
from aiompi.bench.measure.turns import timed


def peer_of(comm: Any) -> int:
    """Return the rank of the other process of this pair."""
    return int((comm.rank + comm.size // 2) % comm.size)


def leads(comm: Any) -> bool:
    """Return True if this rank begins in its pair."""
    return bool(comm.rank < comm.size // 2)


def latency(mpi: Any, comm: Any, nbytes: int, iterations: int, blocks: int) -> list[float]:
    """Seconds per round trip of a message."""
    sent, received = payloads.touched(nbytes), payloads.blank(nbytes)
    peer = peer_of(comm)

    def lead(n: int) -> None:
        for _ in range(n):
            comm.Send(sent, peer, TAG)
            comm.Recv(received, peer, TAG)

    def follow(n: int) -> None:
        for _ in range(n):
            comm.Recv(received, peer, TAG)
            comm.Send(sent, peer, TAG)

    loop = lead if leads(comm) else follow
    seconds = timed(loop, iterations, blocks, comm.Barrier)
    payloads.check(received, loop)
    return seconds


def bandwidth(mpi: Any, comm: Any, nbytes: int, window: int, iterations: int, blocks: int) -> list[float]:
    """Seconds for a window of messages and the answer to it; all these messages are outstanding at once."""
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


def early(mpi: Any, comm: Any, nbytes: int, window: int, iterations: int, blocks: int) -> list[float]:
    """Seconds for a window of messages and the answer to it; all messages arrive before their receives are posted."""
    sent, received = payloads.touched(nbytes), payloads.blank(nbytes)
    token = payloads.touched(1)
    peer = peer_of(comm)

    def lead(n: int) -> None:
        for _ in range(n):
            for _ in range(window):
                comm.Send(sent, peer, TAG)
            comm.Send(token, peer, TAG + 1)
            comm.Recv(token, peer, TAG)

    def follow(n: int) -> None:
        for _ in range(n):
            comm.Recv(token, peer, TAG + 1)
            for _ in range(window):
                comm.Recv(received, peer, TAG)
            comm.Send(token, peer, TAG)

    seconds = timed(lead if leads(comm) else follow, iterations, blocks, comm.Barrier)
    if leads(comm):
        lead(1)  # for the check of the other rank
    else:
        payloads.check(received, follow)
    return seconds


def bandwidth_both_ways(mpi: Any, comm: Any, nbytes: int, window: int, iterations: int, blocks: int) -> list[float]:
    """Seconds per round: a window of messages in both directions at once, and an answer."""
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
    """CPU seconds that a rank has used while it waited to receive a message that rank 0 sends after a sleep."""
    start = time.process_time()
    if comm.rank == 0:
        time.sleep(seconds)
        for rank in range(1, comm.size):
            comm.send(None, rank, TAG)
    else:
        comm.recv(source=0, tag=TAG)
    return time.process_time() - start


WORKS: Final[tuple[Callable[..., Any], ...]] = (latency, bandwidth, bandwidth_both_ways, early, objects, idle)


def works(mpi: Any) -> dict[str, Callable[..., Any]]:
    """Return the works by name, as functions of a communicator and the arguments.

    Args:
        mpi: the module of a library that has mpi4py's names.
    """
    return {work.__name__: partial(work, mpi) for work in WORKS}
