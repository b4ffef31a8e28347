"""The environment of the blocking face (chapters 7 and 8): threads, versions, control of profilers."""

from __future__ import annotations

import functools
import re
from typing import Any, Final

from aiompi import hooks
from aiompi.base.arguments import integer
from aiompi.constants import THREAD_MULTIPLE, THREAD_SINGLE
from aiompi.create.hardware import TYPES, resources
from aiompi.errors import InvalidArgumentError, LocalProtocolError
from aiompi.face import errhandlers
from aiompi.face.absent import absent
from aiompi.face.blocking.communicator import COMM_WORLD
from aiompi.face.blocking.message import Message
from aiompi.face.blocking.process import process
from aiompi.face.blocking.request_kinds import Grequest, Prequest
from aiompi.face.blocking.requests import Request
from aiompi.info import Info
from aiompi.standard import VERSION

__all__ = [
    "Get_abi_fortran_info", "Get_abi_info", "Get_abi_version", "Get_hw_resource_info", "Get_library_version",
    "Init_thread", "Is_thread_main", "Pcontrol", "Query_thread", "get_vendor",
]  # fmt: skip

for _seen in (Request, Prequest, Grequest, Message):
    hooks.surface(_seen)


def Init_thread(required: int = THREAD_MULTIPLE) -> int:
    """Join the job now, as `Init`, for a program with threads (MPI_Init_thread, MPI-2).

    Args:
        required: lowest thread level that the program needs; the setting `thread_level` may ask for a higher level.
            THREAD_SINGLE, THREAD_FUNNELED: only the thread that joins makes calls; calls of other threads are refused.
            THREAD_SERIALIZED: any thread makes calls, but never two at once; overlapping calls are refused.
            THREAD_MULTIPLE: any thread makes calls at any time, and progress is made while the program computes.

    Returns:
        The level that the program has: the required level or a higher one. THREAD_SINGLE gives THREAD_FUNNELED.

    Raises:
        LocalProtocolError: the job has been joined already.
        InvalidArgumentError: there is no such level.
    """
    required = integer(required, "Init_thread: required")
    if not THREAD_SINGLE <= required <= THREAD_MULTIPLE:
        raise InvalidArgumentError(f"Init_thread: {required} is none of the THREAD_ levels")
    if process.initialized:
        raise LocalProtocolError(
            "MPI_Init_thread was called after MPI_Init, or a communicator has been used: call it first and once"
        )
    process.start(required)
    return Query_thread()


def Query_thread() -> int:
    """Return the thread level (MPI_Query_thread, MPI-2), THREAD_FUNNELED by default; see `Init_thread`."""
    process.runtime  # noqa: B018
    return process.driver.level


def Is_thread_main() -> bool:
    """Return True if this thread has joined the job (MPI_Is_thread_main, MPI-2).

    Once that thread has ended, return True in every thread.
    """
    process.runtime  # noqa: B018
    return process.driver.in_first_thread


def Get_library_version() -> str:
    """Name and version of the library, of the standard, and of Python (MPI_Get_library_version, MPI-3).

    The text names MPICH, because packages search it for a known MPI library to choose the options of `mpiexec`.
    """
    import platform  # seldom needed

    python = f"{platform.python_implementation()} {platform.python_version()}"
    standard = ".".join(map(str, VERSION))
    return f"aiompi {_version()}, MPI {standard}, on {python}, with an mpiexec that takes the options of MPICH"


def Get_hw_resource_info() -> Info:
    """Types of hardware resources that are known here (MPI_Get_hw_resource_info, MPI-4.1).

    Returns:
        The types, such as "hwloc://Package", for `Split_type`. The value is "true" if this process is bound to one
        resource of the type, "false" if it may use several.
    """
    found = resources()
    return Info.Create({f"hwloc://{TYPES[name]}": "false" if cpus is None else "true" for name, cpus in found.items()})


def get_vendor() -> tuple[str, tuple[int, int, int]]:
    """Name and version of this library, in the form of `get_vendor` in mpi4py."""
    major, minor, micro = (int(number) for number in re.findall(r"\d+", _version())[:3])
    return "aiompi", (major, minor, micro)


_ABI: Final = "a binary interface (MPI-5): there is no binary code"

Get_abi_version = absent("Get_abi_version", _ABI)
Get_abi_info = absent("Get_abi_info", _ABI)
Get_abi_fortran_info = absent("Get_abi_fortran_info", _ABI)


@functools.cache
def _version() -> str:
    from importlib import metadata  # takes 28 ms, and few programs ask

    return metadata.version("aiompi")


def Pcontrol(level: int, *args: Any) -> None:
    """Do nothing; a profiler sees this call through its hook, and may obey it (MPI_Pcontrol, section 8.3.1).

    Args:
        level: 0 to switch profiling off, 1 for the usual amount, 2 to write out all records; other levels have the
            meaning that the profiler gives them. Programs start as if 1 had been called.
        args: for the profiler.
    """
    integer(level, "Pcontrol: level")


def _world() -> errhandlers.ErrorHandling | None:
    comm: Any = COMM_WORLD
    return comm if process.initialized and isinstance(comm, errhandlers.ErrorHandling) else None


errhandlers.serve_calls_without_communicator(_world)
