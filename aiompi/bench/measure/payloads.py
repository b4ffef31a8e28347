"""Payloads of messages, and checks that they were received."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

import numpy as np
import numpy.typing as npt

#: of every message, as in the OSU micro-benchmarks
TAG: Final = 1
#: default of bytes of the array in the object "array"
ARRAY: Final = 2**20


def touched(nbytes: int) -> npt.NDArray[np.uint8]:
    """Return memory that has been written to, so that the kernel has mapped it."""
    return np.ones(nbytes, np.uint8)


def blank(nbytes: int) -> npt.NDArray[np.uint8]:
    """Return memory for receives, with a content that no message has."""
    return np.full(nbytes, 0, np.uint8)


def check(received: npt.NDArray[Any], loop: Callable[[int], object]) -> None:
    """Check that a timed loop transfers messages: run the loop once more with a cleared receive buffer.

    Args:
        received: buffer into which the loop receives messages of `touched`.

    Raises:
        ValueError: the loop received something else, or nothing.
    """
    received.fill(0)
    loop(1)
    look(received)


async def check_async(received: npt.NDArray[Any], loop: Callable[[int], Awaitable[object]]) -> None:
    """Check like `check`, for a loop that is awaited."""
    received.fill(0)
    await loop(1)
    look(received)


def look(received: npt.NDArray[Any]) -> None:
    """Check that memory has the content of `touched`.

    Raises:
        ValueError: the memory has another content.
    """
    if not received.all():
        raise ValueError(f"what was received is not what was sent: {received}")


def data(nbytes: int) -> bytes:
    """Return the content of `touched` as bytes."""
    return touched(nbytes).tobytes()


def make(name: str, nbytes: int = ARRAY) -> dict[str, Any]:
    """Return an object to send.

    Args:
        name: "dict", five short fields; "array", a dict with an array.
        nbytes: of the array.
    """
    if name == "array":
        return {"step": 1200, "gradient": touched(nbytes)}
    return {"step": 1200, "loss": 0.25, "phase": "train", "shape": [32, 128], "done": False}


def check_object(received: Any, sent: dict[str, Any]) -> None:
    """Check that an object is the one that was sent.

    Raises:
        ValueError: the two objects differ.
    """
    if received.keys() != sent.keys() or not all(np.array_equal(received[key], sent[key]) for key in sent):
        raise ValueError(f"what was received is not what was sent: {received}, expected {sent}")
