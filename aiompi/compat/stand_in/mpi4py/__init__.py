"""The package mpi4py, implemented by aiompi."""

from __future__ import annotations

import sys
from typing import Any

__version__ = "4.1.2"
__author__ = "aiompi"
__credits__ = "mpi4py, whose names these are"

__all__ = ["MPI"]


class Rc:
    """Options of mpi4py, to be set before `MPI` is imported; unknown ones are refused.

    Attributes:
        initialize: True if importing `MPI` joins the job.
        threads: True if the program may have threads that make MPI calls.
        thread_level: "single", "funneled", "serialized" or "multiple": which calls these threads may make. A higher
            level than necessary costs time: each call takes a lock, and a background thread makes progress.
        finalize: no effect: a program leaves the job when it ends.
        fast_reduce: no effect.
        recv_mprobe, irecv_bufsz: no effect: objects of any size are received as they come.
        errors: "exception", "default", "abort" or "fatal": the error handler of COMM_WORLD and COMM_SELF.
    """

    initialize: bool = True
    threads: bool = True
    thread_level: str = "multiple"
    finalize: bool | None = None
    fast_reduce: bool = True
    recv_mprobe: bool = True
    irecv_bufsz: int = 32768
    errors: str = "exception"

    def __init__(self, **options: Any) -> None:
        self(**options)

    def __setattr__(self, name: str, value: Any) -> None:
        if not hasattr(self, name):
            raise TypeError(f"mpi4py.rc has no option {name!r}")
        super().__setattr__(name, value)

    def __call__(self, **options: Any) -> None:
        """Set several options."""
        for name in options:
            if not hasattr(self, name):
                raise TypeError(f"unexpected argument {name!r}")
        for name, value in options.items():
            setattr(self, name, value)

    def __repr__(self) -> str:
        return "<mpi4py.rc>"


rc = Rc()
sys.modules[f"{__name__}.rc"] = rc  # type: ignore[assignment]


def get_include() -> str:
    """Folder of header files.

    Raises:
        NotImplementedError: there is no code in C to be compiled against.
    """
    raise NotImplementedError("mpi4py.get_include: aiompi has no interface for C")


def get_config() -> dict[str, str]:
    """Return no settings: no MPI library was compiled."""
    return {}


def profile(name: str, *, path: Any = None) -> None:
    """Load a profiler for MPI libraries.

    Raises:
        NotImplementedError: there is no library; use `aiompi.hooks`.
    """
    raise NotImplementedError("mpi4py.profile: aiompi has no library that it could wrap; use aiompi.hooks")
