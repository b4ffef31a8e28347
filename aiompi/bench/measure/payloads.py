"""What is sent."""

from __future__ import annotations

import resource
from collections.abc import Awaitable, Callable
from typing import Any, Final

import numpy as np
import numpy.typing as npt

#: of every message, as in the OSU micro-benchmarks
TAG: Final = 1
#: bytes of the array in the object "array", unless told otherwise
ARRAY: Final = 2**20


def touched(nbytes: int) -> npt.NDArray[np.uint8]:
    """Memory that has been written to, so that the kernel has nothing left to do for it."""
    return np.ones(nbytes, np.uint8)


def blank(nbytes: int) -> npt.NDArray[np.uint8]:
    """As `touched`, for what comes: memory that no message looks like."""
    return np.full(nbytes, 0, np.uint8)


def check(received: npt.NDArray[Any], loop: Callable[[int], object]) -> None:
    """Refuse to have measured what has not happened: run a loop that was timed once more, on blank memory.

    Args:
        received: where it receives messages of `touched`.

    Raises:
        ValueError: something else has come, or nothing.
    """
    received.fill(0)
    loop(1)
    _look(received)


async def check_async(received: npt.NDArray[Any], loop: Callable[[int], Awaitable[object]]) -> None:
    """As `check`, for a loop that is awaited."""
    received.fill(0)
    await loop(1)
    _look(received)


def _look(received: npt.NDArray[Any]) -> None:
    if not received.all():
        raise ValueError(f"what was received is not what was sent: {received}")


def data(nbytes: int) -> bytes:
    """As `touched`, for those who send bytes."""
    return touched(nbytes).tobytes()


def make(name: str, nbytes: int = ARRAY) -> dict[str, Any]:
    """An object to send.

    Args:
        name: "dict", five short fields; "array", a dict with an array.
        nbytes: of the array.
    """
    if name == "array":
        return {"step": 1200, "gradient": touched(nbytes)}
    return {"step": 1200, "loss": 0.25, "phase": "train", "shape": [32, 128], "done": False}


def check_object(received: Any, sent: dict[str, Any]) -> None:
    """Refuse an object that is not what was sent.

    Raises:
        ValueError: it is another one.
    """
    if received.keys() != sent.keys() or not all(np.array_equal(received[key], sent[key]) for key in sent):
        raise ValueError(f"what was received is not what was sent: {received}, expected {sent}")


def peak_memory() -> int:
    """The most memory that this process has ever had resident, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
