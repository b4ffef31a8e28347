"""Messages to and fro between pairs of ranks, in memory that is used in the ways in which programs use it."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from aiompi.bench.measure import payloads
from aiompi.bench.measure.payloads import TAG
from aiompi.bench.measure.point_to_point import leads, peer_of
from aiompi.bench.measure.turns import timed

#: bytes of the memory from which a rank sends messages one after the other, and of that into which it receives them:
#: both of two ranks together are more than the caches of most machines hold
CYCLE: Final = 96 * 2**20

#: memory of this rank by purpose, made once
_memory: Final[dict[str, npt.NDArray[np.uint8]]] = {}


def exchange(comm: Any, payload: str, nbytes: int, memory: str, rounds: int, blocks: int) -> list[list[float]]:
    """Send messages to and fro.

    Args:
        payload: "buffer", or "object" for a dict with an array.
        nbytes: of each buffer or array.
        memory: "again": each message is sent from the same memory and received into the same other memory, and is not
            looked at. "fresh": the sender writes each message before it sends it, and the receiver reads it.
            "cycling": like "again", but messages follow each other in `CYCLE` bytes of memory.
        rounds: round trips per block.
        blocks: to be timed.

    Returns:
        For each block the seconds of a round trip, and the part of them in which this rank wrote messages.

    Raises:
        ValueError: a message was not received as it was sent.
    """
    number = max(1, CYCLE // nbytes) if memory == "cycling" else 1
    fresh = memory == "fresh"
    sent, received = (_parts(purpose, nbytes, number) for purpose in ("sent", "received"))
    values, writing, latest = itertools.cycle(range(1, 256)), 0.0, next(received)
    peer, clock = peer_of(comm), time.perf_counter

    def give() -> None:
        nonlocal writing
        array = next(sent)
        if fresh:
            start = clock()
            array.fill(next(values))
            writing += clock() - start
        if payload == "object":
            comm.send({"step": 1200, "gradient": array}, peer, TAG)
        else:
            comm.Send(array, peer, TAG)

    def take() -> None:
        nonlocal latest
        if payload == "object":
            latest = comm.recv(source=peer, tag=TAG)["gradient"]
        else:
            latest = next(received)
            comm.Recv(latest, peer, TAG)
        if fresh:
            latest.max()

    steps = (give, take) if leads(comm) else (take, give)
    spent = []

    def loop(n: int) -> None:
        nonlocal writing
        writing = 0.0
        for _ in range(n):
            for step in steps:
                step()
        spent.append(writing / n)

    seconds = timed(loop, rounds, blocks, comm.Barrier)
    latest = np.zeros(0, np.uint8)
    for array in itertools.islice(received, number) if payload != "object" else ():
        array.fill(0)
    loop(1)
    if len(latest) != nbytes or not latest.all():
        raise ValueError(f"what was received is not what was sent: {latest}")
    return [list(block) for block in zip(seconds, spent[1:], strict=False)]


def _parts(purpose: str, nbytes: int, number: int) -> Iterator[npt.NDArray[np.uint8]]:
    """Parts of memory of this rank, again and again."""
    whole = _memory.get(purpose)
    if whole is None or len(whole) < nbytes * number:
        whole = _memory[purpose] = payloads.touched(nbytes * number)
    return itertools.cycle([*whole[: nbytes * number].reshape(number, nbytes)])


WORKS: Final[dict[str, Callable[..., Any]]] = {"exchange": exchange}
