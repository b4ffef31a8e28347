"""MPI for asyncio: awaitable message passing between Python programs, on one machine or many.

    import aiompi

    async def main(world):
        if world.rank == 0:
            await world.send({"answer": 42}, dest=1)
        elif world.rank == 1:
            print(await world.recv(source=0))

    aiompi.run(main)

This is the native face. `from aiompi import MPI` is the blocking face.

Names are imported on first use (PEP 562): the launcher imports parts of this package and needs neither NumPy nor the
engine.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from aiompi.base import release

__version__ = release.VERSION

__all__ = [
    "AINT", "ANY_SOURCE", "ANY_TAG", "APPNUM", "BAND", "BFLOAT16_T", "BOOL", "BOR", "BOTTOM", "BSEND_OVERHEAD", "BXOR",
    "BYTE", "CART", "CHAR", "CHARACTER", "COMBINER_CONTIGUOUS", "COMBINER_DARRAY", "COMBINER_DUP",
    "COMBINER_F90_COMPLEX", "COMBINER_F90_INTEGER", "COMBINER_F90_REAL", "COMBINER_HINDEXED", "COMBINER_HINDEXED_BLOCK",
    "COMBINER_HVECTOR", "COMBINER_INDEXED", "COMBINER_INDEXED_BLOCK", "COMBINER_NAMED", "COMBINER_RESIZED",
    "COMBINER_STRUCT", "COMBINER_SUBARRAY", "COMBINER_VALUE_INDEX", "COMBINER_VECTOR", "COMM_NULL",
    "COMM_TYPE_HW_GUIDED", "COMM_TYPE_HW_UNGUIDED", "COMM_TYPE_RESOURCE_GUIDED", "COMM_TYPE_SHARED", "COMPLEX",
    "COMPLEX16", "COMPLEX32", "COMPLEX4", "COMPLEX8", "CONGRUENT", "COUNT", "CXX_BOOL", "CXX_DOUBLE_COMPLEX",
    "CXX_FLOAT_COMPLEX", "CXX_LONG_DOUBLE_COMPLEX", "C_BOOL", "C_COMPLEX", "C_DOUBLE_COMPLEX", "C_FLOAT_COMPLEX",
    "C_LONG_DOUBLE_COMPLEX", "DATATYPE_NULL", "DISTRIBUTE_BLOCK", "DISTRIBUTE_CYCLIC", "DISTRIBUTE_DFLT_DARG",
    "DISTRIBUTE_NONE", "DIST_GRAPH", "DOUBLE", "DOUBLE_COMPLEX", "DOUBLE_INT", "DOUBLE_PRECISION", "ERRHANDLER_NULL",
    "ERRORS_ABORT", "ERRORS_ARE_FATAL", "ERRORS_RETURN", "ERROR_CLASSES", "ERR_ARG", "ERR_BUFFER", "ERR_COMM",
    "ERR_COUNT", "ERR_DIMS", "ERR_ERRHANDLER", "ERR_GROUP", "ERR_INFO", "ERR_INFO_KEY", "ERR_INFO_NOKEY",
    "ERR_INFO_VALUE", "ERR_INTERN", "ERR_IN_STATUS", "ERR_KEYVAL", "ERR_LASTCODE", "ERR_NAME", "ERR_OP", "ERR_OTHER",
    "ERR_PENDING", "ERR_PORT", "ERR_PROC_ABORTED", "ERR_PROC_FAILED", "ERR_PROC_FAILED_PENDING", "ERR_RANK",
    "ERR_REQUEST", "ERR_REVOKED", "ERR_ROOT", "ERR_SERVICE", "ERR_SESSION", "ERR_SPAWN", "ERR_TAG", "ERR_TOPOLOGY",
    "ERR_TRUNCATE", "ERR_TYPE", "ERR_UNKNOWN", "FLOAT", "FLOAT16_T", "FLOAT32_T", "FLOAT64_T", "FLOAT_INT", "F_BOOL",
    "F_COMPLEX", "F_DOUBLE", "F_DOUBLE_COMPLEX", "F_ERROR", "F_FLOAT", "F_FLOAT_COMPLEX", "F_INT", "F_SOURCE",
    "F_STATUS_SIZE", "F_TAG", "GRAPH", "GROUP_EMPTY", "GROUP_NULL", "HOST", "IDENT", "IMPI_CLIENT_COLOR",
    "IMPI_CLIENT_SIZE", "IMPI_HOST_COLOR", "IMPI_HOST_SIZE", "INFO_ENV", "INFO_NULL", "INT", "INT16_T", "INT32_T",
    "INT64_T", "INT8_T", "INTEGER", "INTEGER1", "INTEGER16", "INTEGER2", "INTEGER4", "INTEGER8", "INT_INT", "IN_PLACE",
    "IO", "KEYVAL_INVALID", "LAND", "LASTUSEDCODE", "LATER_ERROR_CLASSES", "LB", "LOGICAL", "LOGICAL1", "LOGICAL16",
    "LOGICAL2", "LOGICAL4", "LOGICAL8", "LONG", "LONG_DOUBLE", "LONG_DOUBLE_INT", "LONG_INT", "LONG_LONG",
    "LONG_LONG_INT", "LOR", "LXOR", "MAX", "MAXLOC", "MAX_DATAREP_STRING", "MAX_ERROR_STRING", "MAX_INFO_KEY",
    "MAX_INFO_VAL", "MAX_LIBRARY_VERSION_STRING", "MAX_OBJECT_NAME", "MAX_PORT_NAME", "MAX_PROCESSOR_NAME",
    "MAX_PSET_NAME_LEN", "MAX_STRINGTAG_LEN", "MIN", "MINLOC", "MPI", "NO_OP", "OFFSET", "OP_NULL", "ORDER_C",
    "ORDER_F", "ORDER_FORTRAN", "PACKED", "PROC_NULL", "PROD", "REAL", "REAL16", "REAL2", "REAL4", "REAL8", "REPLACE",
    "ROOT", "SHORT", "SHORT_INT", "SIGNED_CHAR", "SIGNED_INT", "SIGNED_LONG", "SIGNED_LONG_LONG", "SIGNED_SHORT",
    "SIMILAR", "SINT16_T", "SINT32_T", "SINT64_T", "SINT8_T", "SUCCESS", "SUM", "TAG_UB", "THREAD_FUNNELED",
    "THREAD_MULTIPLE", "THREAD_SERIALIZED", "THREAD_SINGLE", "TWODOUBLE_PRECISION", "TWOINT", "TWOINTEGER", "TWOREAL",
    "TYPECLASS_COMPLEX", "TYPECLASS_INTEGER", "TYPECLASS_LOGICAL", "TYPECLASS_REAL", "UB", "UINT16_T", "UINT32_T",
    "UINT64_T", "UINT8_T", "UNDEFINED", "UNEQUAL", "UNIVERSE_SIZE", "UNSIGNED", "UNSIGNED_CHAR", "UNSIGNED_INT",
    "UNSIGNED_LONG", "UNSIGNED_LONG_LONG", "UNSIGNED_SHORT", "UNWEIGHTED", "WCHAR", "WEIGHTS_EMPTY", "WTIME_IS_GLOBAL",
    "Add_error_class", "Add_error_code", "Add_error_string", "Address", "Aint_add", "Aint_diff", "AssembledWorld",
    "AuthenticationError", "BlockingCallError", "Cartcomm", "Comm", "Compute_dims", "Datatype", "Distgraphcomm",
    "Errhandler", "Exception", "Free_address", "Get_address", "Get_error_class", "Get_error_string", "Graphcomm",
    "Group", "InStatusError", "Info", "InfoNoKeyError", "Intercomm", "InternalError", "Intracomm",
    "InvalidArgumentError", "InvalidBufferError", "InvalidCommError", "InvalidCountError", "InvalidDimsError",
    "InvalidErrhandlerError", "InvalidGroupError", "InvalidInfoError", "InvalidInfoKeyError", "InvalidInfoValueError",
    "InvalidKeyvalError", "InvalidOpError", "InvalidPortError", "InvalidRankError", "InvalidRequestError",
    "InvalidRootError", "InvalidSessionError", "InvalidServiceError", "InvalidTagError", "InvalidTopologyError",
    "InvalidTypeError", "Job", "JobAbortedError", "Joining", "LocalProtocolError", "Member", "MemberChange",
    "Membership", "Message", "NotPublishedError", "Op", "OtherError", "OutputLine", "OutputLines", "PendingError",
    "PersistentRequest", "ProcessFailedError", "ProcessFailedPendingError", "RemoteProtocolError",
    "Remove_error_class", "Remove_error_code", "Remove_error_string", "Request", "RevokedError", "ServedJob",
    "Session", "Settings", "SpawnError", "Status", "TruncationError", "Type_extent", "Type_hindexed", "Type_hvector",
    "Type_lb", "Type_struct", "Type_ub", "UnknownError", "World", "error_string", "init", "join", "load",
    "local_world", "rc", "run", "serve", "spawn",
]  # fmt: skip

if TYPE_CHECKING:
    from aiompi import MPI
    from aiompi.comm import Group
    from aiompi.comm.errhandler import *
    from aiompi.comm.group import GROUP_EMPTY, GROUP_NULL
    from aiompi.comm.topology import Compute_dims
    from aiompi.constants import *
    from aiompi.datatype import BOTTOM, IN_PLACE, Aint_add, Aint_diff, Free_address, Get_address
    from aiompi.datatype.deprecated import *
    from aiompi.datatype.predefined import *
    from aiompi.engine import PersistentRequest, Request
    from aiompi.errors import *
    from aiompi.face.native import *
    from aiompi.face.native.job import World, local_world, run
    from aiompi.face.native.output import OutputLine, OutputLines
    from aiompi.face.native.session import Session
    from aiompi.face.native.spawn import spawn
    from aiompi.info import *
    from aiompi.job.joining import Joining, init, join
    from aiompi.job.members import AssembledWorld, Job, Member, MemberChange, Membership, ServedJob, serve
    from aiompi.op import Op
    from aiompi.op.predefined import *
    from aiompi.settings import Settings, rc
    from aiompi.status import Status

# Where names come from on first use: of each module the names listed, and then all names of the modules with a star.
_MODULES = {
    "aiompi.comm": ("Group",),
    "aiompi.comm.group": ("GROUP_EMPTY", "GROUP_NULL"),
    "aiompi.comm.topology": ("Compute_dims",),
    "aiompi.datatype": ("BOTTOM", "IN_PLACE", "Aint_add", "Aint_diff", "Free_address", "Get_address"),
    "aiompi.engine": ("PersistentRequest", "Request"),
    "aiompi.errors": ("error_string",),
    "aiompi.face.native": (
        "COMM_NULL", "Cartcomm", "Comm", "Distgraphcomm", "Graphcomm", "Intercomm", "Intracomm", "Message",
    ),
    "aiompi.face.native.job": ("World", "local_world", "run"),
    "aiompi.face.native.output": ("OutputLine", "OutputLines"),
    "aiompi.face.native.session": ("Session",),
    "aiompi.face.native.spawn": ("spawn",),
    "aiompi.job.joining": ("Joining", "init", "join"),
    "aiompi.job.members": ("AssembledWorld", "Job", "Member", "MemberChange", "Membership", "ServedJob", "serve"),
    "aiompi.op": ("Op",),
    "aiompi.settings": ("Settings", "rc"),
    "aiompi.status": ("Status",),
}  # fmt: skip
_STARRED = (
    "aiompi.constants", "aiompi.errors", "aiompi.datatype.predefined", "aiompi.datatype.deprecated",
    "aiompi.op.predefined", "aiompi.info", "aiompi.comm.errhandler",
)  # fmt: skip
_HOMES = {name: module for module, names in _MODULES.items() for name in names}


async def load() -> None:
    """Import all that the asyncio face needs now, in a thread, so that the running event loop goes on meanwhile.

    `init` and `join` do so too. Await it before the first use of something else that needs the engine, such as `spawn`,
    which holds the loop for 0.1 to 0.3 s otherwise.
    """
    from aiompi.job.joining import import_in_thread

    await import_in_thread("aiompi.job.members")


if not TYPE_CHECKING:  # type checkers would accept any name

    def __getattr__(name: str) -> Any:
        if name not in __all__:
            raise AttributeError(f"module 'aiompi' has no attribute {name!r}")
        if name == "MPI":
            return importlib.import_module("aiompi.MPI")
        homes = map(importlib.import_module, (_HOMES[name],) if name in _HOMES else _STARRED)
        value = globals()[name] = next(getattr(home, name) for home in homes if name in vars(home))
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__} - {"Any", "TYPE_CHECKING", "annotations", "importlib", "os"})
