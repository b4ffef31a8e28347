"""MPI for asyncio: awaitable message passing between Python programs, on one machine or many.

    import aiompi

    async def main(world):
        if world.rank == 0:
            await world.send({"answer": 42}, dest=1)
        elif world.rank == 1:
            print(await world.recv(source=0))

    aiompi.run(main)

This is the native face. `from aiompi import MPI` is the blocking one.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from aiompi import MPI as MPI
    from aiompi.comm import Group as Group
    from aiompi.comm.errhandler import *
    from aiompi.comm.group import GROUP_EMPTY as GROUP_EMPTY
    from aiompi.comm.group import GROUP_NULL as GROUP_NULL
    from aiompi.comm.topology import Compute_dims as Compute_dims
    from aiompi.constants import *
    from aiompi.datatype import BOTTOM as BOTTOM
    from aiompi.datatype import IN_PLACE as IN_PLACE
    from aiompi.datatype import Aint_add as Aint_add
    from aiompi.datatype import Aint_diff as Aint_diff
    from aiompi.datatype import Free_address as Free_address
    from aiompi.datatype import Get_address as Get_address
    from aiompi.datatype.deprecated import *
    from aiompi.datatype.predefined import *
    from aiompi.engine import PersistentRequest as PersistentRequest
    from aiompi.engine import Request as Request
    from aiompi.errors import *
    from aiompi.face.native import COMM_NULL as COMM_NULL
    from aiompi.face.native import Cartcomm as Cartcomm
    from aiompi.face.native import Comm as Comm
    from aiompi.face.native import Distgraphcomm as Distgraphcomm
    from aiompi.face.native import Graphcomm as Graphcomm
    from aiompi.face.native import Intercomm as Intercomm
    from aiompi.face.native import Intracomm as Intracomm
    from aiompi.face.native import Message as Message
    from aiompi.face.native import Session as Session
    from aiompi.face.native import World as World
    from aiompi.face.native import init as init
    from aiompi.face.native import join as join
    from aiompi.face.native import local_world as local_world
    from aiompi.face.native import run as run
    from aiompi.info import *
    from aiompi.op import Op as Op
    from aiompi.op.predefined import *
    from aiompi.settings import Settings as Settings
    from aiompi.settings import rc as rc
    from aiompi.status import Status as Status

# The launcher imports parts of this package and needs neither numpy nor the engine: names are found when used.
_MODULES = {
    "aiompi.comm": ("Group",),
    "aiompi.comm.group": ("GROUP_EMPTY", "GROUP_NULL"),
    "aiompi.comm.topology": ("Compute_dims",),
    "aiompi.datatype": ("BOTTOM", "IN_PLACE", "Aint_add", "Aint_diff", "Free_address", "Get_address"),
    "aiompi.engine": ("PersistentRequest", "Request"),
    "aiompi.errors": ("error_string",),
    "aiompi.face.native": (
        "COMM_NULL", "Cartcomm", "Comm", "Distgraphcomm", "Graphcomm", "Intercomm", "Intracomm", "Message", "Session",
        "World", "init", "join", "local_world", "run",
    ),
    "aiompi.op": ("Op",),
    "aiompi.settings": ("Settings", "rc"),
    "aiompi.status": ("Status",),
}  # fmt: skip
_STARRED = (
    "aiompi.constants", "aiompi.errors", "aiompi.datatype.predefined", "aiompi.datatype.deprecated",
    "aiompi.op.predefined", "aiompi.info", "aiompi.comm.errhandler",
)  # fmt: skip
_HOMES = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name == "MPI":
        return importlib.import_module("aiompi.MPI")
    if name not in _HOMES and (name.startswith("_") or name.islower()):  # the import system looks here for submodules
        raise AttributeError(f"module 'aiompi' has no attribute {name!r}")
    for home in (_HOMES[name],) if name in _HOMES else _STARRED:
        module = importlib.import_module(home)
        if name in _public(module):
            value = globals()[name] = getattr(module, name)
            return value
    raise AttributeError(f"module 'aiompi' has no attribute {name!r}")


def __dir__() -> list[str]:
    starred = (name for home in _STARRED for name in _public(importlib.import_module(home)))
    return sorted({*globals(), *_HOMES, *starred, "MPI"})


def _public(module: Any) -> list[str]:
    names: list[str] = getattr(module, "__all__", None) or [n for n in vars(module) if not n.startswith("_")]
    return names
