"""MPI for asyncio: awaitable message passing between Python programs, on one machine or many.

    import aiompi

    async def main(world):
        if world.rank == 0:
            await world.send({"answer": 42}, dest=1)
        elif world.rank == 1:
            print(await world.recv(source=0))

    aiompi.run(main)

This package is the asyncio API (the native face), with the classes, errors and constants of daily use.
`from aiompi import MPI` imports the blocking API (the blocking face), with all names of the MPI standard.

The package imports a name on its first use (PEP 562), because the launcher imports parts of this package but needs
neither NumPy nor the engine.

PYTEST_DONT_REWRITE tells pytest, which loads a plugin from this package, not to rewrite the package's assertions.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from aiompi.base import release

__version__ = release.VERSION

__all__ = [
    "ANY_SOURCE", "ANY_TAG", "COMM_NULL", "IN_PLACE", "MAX", "MIN", "MPI", "PROC_NULL", "ROOT", "SUM",
    "UNDEFINED", "AssembledWorld", "AuthenticationError", "BlockingCallError", "Cartcomm", "Comm", "Datatype",
    "Distgraphcomm", "File", "FileError", "Graphcomm", "Group", "Info", "Intercomm", "Intracomm",
    "InvalidArgumentError", "InvalidBufferError", "Job", "JobAbortedError", "LocalProtocolError",
    "MPIError", "Member", "MemberChange", "Membership", "Message", "Op", "OutputLine", "OutputLines",
    "PersistentRequest", "ProcessFailedError", "RemoteProtocolError", "Request", "RevokedError", "ServedJob", "Session",
    "Settings", "SpawnError", "Status", "Team", "TruncationError", "Win", "WindowError", "World", "init", "join",
    "local_world", "rc", "run", "serve", "spawn",
]  # fmt: skip

if TYPE_CHECKING:
    from aiompi import MPI
    from aiompi.comm import Group
    from aiompi.constants import ANY_SOURCE, ANY_TAG, PROC_NULL, ROOT, UNDEFINED
    from aiompi.datatype import IN_PLACE, Datatype
    from aiompi.engine import PersistentRequest, Request
    from aiompi.errors import (
        AuthenticationError,
        BlockingCallError,
        FileError,
        InvalidArgumentError,
        InvalidBufferError,
        JobAbortedError,
        LocalProtocolError,
        MPIError,
        ProcessFailedError,
        RemoteProtocolError,
        RevokedError,
        SpawnError,
        TruncationError,
        WindowError,
    )
    from aiompi.face.native import (
        COMM_NULL,
        Cartcomm,
        Comm,
        Distgraphcomm,
        File,
        Graphcomm,
        Intercomm,
        Intracomm,
        Message,
    )
    from aiompi.face.native.job import World, local_world, run
    from aiompi.face.native.output import OutputLine, OutputLines
    from aiompi.face.native.session import Session
    from aiompi.face.native.window import Win
    from aiompi.info import Info
    from aiompi.job.changes import Member, MemberChange
    from aiompi.job.joining import init, join, spawn
    from aiompi.job.members import AssembledWorld, Job, Membership, ServedJob, serve
    from aiompi.op import Op
    from aiompi.op.predefined import MAX, MIN, SUM
    from aiompi.settings import Settings, rc
    from aiompi.status import Status
    from aiompi.talk.team import Team

#: module -> the names that come from it on first use
_MODULES = {
    "aiompi.comm": ("Group",),
    "aiompi.constants": ("ANY_SOURCE", "ANY_TAG", "PROC_NULL", "ROOT", "UNDEFINED"),
    "aiompi.datatype": ("IN_PLACE", "Datatype"),
    "aiompi.engine": ("PersistentRequest", "Request"),
    "aiompi.errors": (
        "AuthenticationError", "BlockingCallError", "FileError", "InvalidArgumentError", "InvalidBufferError",
        "JobAbortedError", "LocalProtocolError", "MPIError", "ProcessFailedError",
        "RemoteProtocolError", "RevokedError", "SpawnError", "TruncationError", "WindowError",
    ),
    "aiompi.face.native": (
        "COMM_NULL", "Cartcomm", "Comm", "Distgraphcomm", "File", "Graphcomm", "Intercomm", "Intracomm", "Message",
    ),
    "aiompi.face.native.job": ("World", "local_world", "run"),
    "aiompi.face.native.output": ("OutputLine", "OutputLines"),
    "aiompi.face.native.session": ("Session",),
    "aiompi.face.native.window": ("Win",),
    "aiompi.info": ("Info",),
    "aiompi.job.changes": ("Member", "MemberChange"),
    "aiompi.job.joining": ("init", "join", "spawn"),
    "aiompi.job.members": ("AssembledWorld", "Job", "Membership", "ServedJob", "serve"),
    "aiompi.op": ("Op",),
    "aiompi.op.predefined": ("MAX", "MIN", "SUM"),
    "aiompi.settings": ("Settings", "rc"),
    "aiompi.status": ("Status",),
    "aiompi.talk.team": ("Team",),
}  # fmt: skip
_HOMES = {name: module for module, names in _MODULES.items() for name in names}


if not TYPE_CHECKING:  # type checkers would accept any name

    def __getattr__(name: str) -> Any:
        if name == "MPI":
            return importlib.import_module("aiompi.MPI")
        if name not in _HOMES:
            from importlib.util import find_spec  # only here, since it takes milliseconds

            is_module = find_spec(f"aiompi.{name}") is not None
            hint = f"import aiompi.{name} first" if is_module else "aiompi.MPI has all names of the standard"
            raise AttributeError(f"module 'aiompi' has no attribute {name!r}; {hint}")
        value = globals()[name] = getattr(importlib.import_module(_HOMES[name]), name)
        return value


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
