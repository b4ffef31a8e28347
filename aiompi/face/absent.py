"""What MPI has and aiompi has not: the names are there, and say so when they are used."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NoReturn

PARTITIONED: Final = "partitioned communication (MPI-4)"
PROCESSES: Final = "dynamic processes: a job has those that it was started with, and those that join"
SESSIONS: Final = "sessions (MPI-4)"
FAULTS: Final = "the recovery of MPI-5 from failures: a failure ends the job"
WINDOWS: Final = "one-sided communication"
FILES: Final = "parallel files: use the file objects of Python, or a library such as h5py, in each rank"


def absent(name: str, part: str) -> Callable[..., Any]:
    """A function in the place of one that is not there.

    Args:
        name: of the function, for messages.
        part: of MPI, to which it belongs.

    Returns:
        It never returns; typed as if it did, so that type checkers read on in programs that call it.
    """

    def function(*args: Any, **kwargs: Any) -> NoReturn:
        raise NotImplementedError(f"{name}: aiompi does not have {part}")

    function.__name__ = function.__qualname__ = name
    function.is_absent = True  # type: ignore[attr-defined]
    function.__doc__ = f"Not there: aiompi does not have {part}."
    return function
