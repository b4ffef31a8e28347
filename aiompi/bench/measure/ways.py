"""Round trips between pairs of ranks, in memory that is used as programs use it."""

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
#: maximum of parts of it, each of which is an array
_MOST: Final = 2**16

#: memory of this rank by purpose, allocated once
_memory: Final[dict[str, npt.NDArray[np.uint8]]] = {}


class _Partner:
    """A rank of a pair, with the memory of its messages.

    Attributes:
        writing: seconds in which this rank has written messages.
        latest: the message that was received last.
    """

    def __init__(self, comm: Any, payload: str, nbytes: int, memory: str) -> None:
        number = min(max(1, CYCLE // nbytes), _MOST) if memory == "cycling" else 1
        self._comm = comm
        self._peer = peer_of(comm)
        self._object = payload == "object"
        self._fresh = memory == "fresh"
        self._sent, self._received = (_parts(purpose, nbytes, number) for purpose in ("sent", "received"))
        self._values = itertools.cycle(range(1, 256))
        self.writing = 0.0
        self.latest = np.zeros(0, np.uint8)

    def give(self) -> None:
        """Send a message."""
        array = next(self._sent)
        if self._fresh:
            start = time.perf_counter()
            array.fill(next(self._values))
            self.writing += time.perf_counter() - start
        if self._object:
            self._comm.send({"step": 1200, "gradient": array}, self._peer, TAG)
        else:
            self._comm.Send(array, self._peer, TAG)

    def take(self) -> None:
        """Receive a message."""
        if self._object:
            self.latest = self._comm.recv(source=self._peer, tag=TAG)["gradient"]
        else:
            self.latest = next(self._received)
            self._comm.Recv(self.latest, self._peer, TAG)
        if self._fresh:
            self.latest.max()

    def loop(self, n: int) -> None:
        """Make round trips."""
        steps = (self.give, self.take) if leads(self._comm) else (self.take, self.give)
        for _ in range(n):
            for step in steps:
                step()

    def check(self, nbytes: int) -> None:
        """Check that messages are transferred: exchange one more message, into blank memory."""
        _memory["received"].fill(0)
        self.loop(1)
        if len(self.latest) != nbytes or not self.latest.all():
            raise ValueError(f"what was received is not what was sent: {self.latest}")


def exchange(comm: Any, payload: str, nbytes: int, memory: str, rounds: int, blocks: int) -> list[list[float]]:
    """Make round trips.

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
    partner, spent = _Partner(comm, payload, nbytes, memory), []

    def loop(n: int) -> None:
        partner.writing = 0.0
        partner.loop(n)
        spent.append(partner.writing / n)

    seconds = timed(loop, rounds, blocks, comm.Barrier)
    partner.check(nbytes)
    return [list(block) for block in zip(seconds, spent[1:], strict=True)]


def _parts(purpose: str, nbytes: int, number: int) -> Iterator[npt.NDArray[np.uint8]]:
    """Yield parts of the memory of this rank in an endless cycle."""
    whole = _memory.get(purpose)
    if whole is None or len(whole) < nbytes * number:
        whole = _memory[purpose] = payloads.touched(nbytes * number)
    return itertools.cycle([*whole[: nbytes * number].reshape(number, nbytes)])


WORKS: Final[dict[str, Callable[..., Any]]] = {"exchange": exchange}
