"""What is sent."""

from __future__ import annotations

import resource
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


def peak_memory() -> int:
    """The most memory that this process has ever had resident, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
