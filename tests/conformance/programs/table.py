"""What the examples in the blocking face are made with; the list of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from aiompi import MPI

EXAMPLES: list[tuple[int, Callable[[], None]]] = []

comm = MPI.COMM_WORLD
rank, size = comm.rank, comm.size


def example(ranks: int) -> Callable[[Callable[[], None]], Callable[[], None]]:
    """List an example, with the number of ranks that it needs."""

    def register(function: Callable[[], None]) -> Callable[[], None]:
        EXAMPLES.append((ranks, function))
        return function

    return register


def reals(count: int, first: int = 0) -> np.ndarray[Any, Any]:
    return np.arange(first, first + count, dtype=np.float32)


def nothing(count: int) -> np.ndarray[Any, Any]:
    return np.full(count, -1, np.float32)
