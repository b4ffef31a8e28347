"""The blocking, mpi4py-shaped face: `from aiompi import MPI`.

Importing this module does no I/O. A process joins the job at its first use of a communicator, and leaves the job when
it ends.
"""

from __future__ import annotations

import sys as _sys
import typing as _typing
from socket import gethostname as _gethostname
from time import get_clock_info as _get_clock_info
from time import monotonic as _monotonic
from typing import Any as _Any

from aiompi.base.unsupported_errors import *
from aiompi.comm import Group
from aiompi.comm.errhandler import *
from aiompi.comm.group import GROUP_EMPTY, GROUP_NULL
from aiompi.comm.topology import Compute_dims
from aiompi.constants import *
from aiompi.datatype import BOTTOM, BUFFER_AUTOMATIC, IN_PLACE, Aint_add, Aint_diff, Free_address, Get_address
from aiompi.datatype.buffer.address import Bottom as BottomType
from aiompi.datatype.buffer.address import BufferAutomatic as BufferAutomaticType
from aiompi.datatype.buffer.address import InPlace as InPlaceType
from aiompi.datatype.deprecated import *
from aiompi.datatype.predefined import *
from aiompi.errors import *
from aiompi.face.blocking import *
from aiompi.face.blocking.environment import *
from aiompi.face.blocking.file import *
from aiompi.face.blocking.internals import *
from aiompi.face.blocking.process import check_running_loop as _check_running_loop
from aiompi.face.blocking.process import process as _process
from aiompi.face.blocking.processes import Close_port, Lookup_name, Open_port, Publish_name, Unpublish_name
from aiompi.face.blocking.serializer import *
from aiompi.face.blocking.session import *
from aiompi.face.blocking.window import *
from aiompi.face.common import allocate as _allocate
from aiompi.face.common import attach as _attach
from aiompi.file.modes import *
from aiompi.hooks import surface as _surface
from aiompi.info import *
from aiompi.op import Op
from aiompi.op.predefined import *
from aiompi.standard import VERSION as _VERSION
from aiompi.status import Status
from aiompi.typing import BufSpec as _BufSpec
from aiompi.window.constants import *

if _typing.TYPE_CHECKING:
    from aiompi.datatype.buffer.memory import *

__all__ = [
    "AINT", "ANY_SOURCE", "ANY_TAG", "APPNUM", "BAND", "BFLOAT16_T", "BOOL", "BOR", "BOTTOM", "BSEND_OVERHEAD",
    "BUFFER_AUTOMATIC", "BXOR", "BYTE", "CART", "CHAR", "CHARACTER", "COMBINER_CONTIGUOUS", "COMBINER_DARRAY",
    "COMBINER_DUP", "COMBINER_F90_COMPLEX", "COMBINER_F90_INTEGER", "COMBINER_F90_REAL", "COMBINER_HINDEXED",
    "COMBINER_HINDEXED_BLOCK", "COMBINER_HVECTOR", "COMBINER_INDEXED", "COMBINER_INDEXED_BLOCK", "COMBINER_NAMED",
    "COMBINER_RESIZED", "COMBINER_STRUCT", "COMBINER_SUBARRAY", "COMBINER_VALUE_INDEX", "COMBINER_VECTOR", "COMM_NULL",
    "COMM_SELF", "COMM_TYPE_HW_GUIDED", "COMM_TYPE_HW_UNGUIDED", "COMM_TYPE_RESOURCE_GUIDED", "COMM_TYPE_SHARED",
    "COMM_WORLD", "COMPLEX", "COMPLEX16", "COMPLEX32", "COMPLEX4", "COMPLEX8", "CONGRUENT", "COUNT", "CXX_BOOL",
    "CXX_DOUBLE_COMPLEX", "CXX_FLOAT_COMPLEX", "CXX_LONG_DOUBLE_COMPLEX", "C_BOOL", "C_COMPLEX", "C_DOUBLE_COMPLEX",
    "C_FLOAT_COMPLEX", "C_LONG_DOUBLE_COMPLEX", "DATATYPE_NULL", "DISPLACEMENT_CURRENT", "DISP_CUR", "DISTRIBUTE_BLOCK",
    "DISTRIBUTE_CYCLIC", "DISTRIBUTE_DFLT_DARG", "DISTRIBUTE_NONE", "DIST_GRAPH", "DOUBLE", "DOUBLE_COMPLEX",
    "DOUBLE_INT", "DOUBLE_PRECISION", "ERRHANDLER_NULL", "ERRORS_ABORT", "ERRORS_ARE_FATAL", "ERRORS_RETURN",
    "ERROR_CLASSES", "ERR_ABI", "ERR_ACCESS", "ERR_AMODE", "ERR_ARG", "ERR_ASSERT", "ERR_BAD_FILE", "ERR_BASE",
    "ERR_BUFFER", "ERR_COMM", "ERR_CONVERSION", "ERR_COUNT", "ERR_DIMS", "ERR_DISP", "ERR_DUP_DATAREP",
    "ERR_ERRHANDLER", "ERR_FILE", "ERR_FILE_EXISTS", "ERR_FILE_IN_USE", "ERR_GROUP", "ERR_INFO", "ERR_INFO_KEY",
    "ERR_INFO_NOKEY", "ERR_INFO_VALUE", "ERR_INTERN", "ERR_IN_STATUS", "ERR_IO", "ERR_KEYVAL", "ERR_LASTCODE",
    "ERR_LOCKTYPE", "ERR_NAME", "ERR_NOT_SAME", "ERR_NO_MEM", "ERR_NO_SPACE", "ERR_NO_SUCH_FILE", "ERR_OP", "ERR_OTHER",
    "ERR_PENDING", "ERR_PORT", "ERR_PROC_ABORTED", "ERR_PROC_FAILED", "ERR_PROC_FAILED_PENDING", "ERR_QUOTA",
    "ERR_RANK", "ERR_READ_ONLY", "ERR_REQUEST", "ERR_REVOKED", "ERR_RMA_ATTACH", "ERR_RMA_CONFLICT", "ERR_RMA_FLAVOR",
    "ERR_RMA_RANGE", "ERR_RMA_SHARED", "ERR_RMA_SYNC", "ERR_ROOT", "ERR_SERVICE", "ERR_SESSION", "ERR_SIZE",
    "ERR_SPAWN", "ERR_TAG", "ERR_TOPOLOGY", "ERR_TRUNCATE", "ERR_TYPE", "ERR_UNKNOWN", "ERR_UNSUPPORTED_DATAREP",
    "ERR_UNSUPPORTED_OPERATION", "ERR_VALUE_TOO_LARGE", "ERR_WIN", "FILE_NULL", "FLOAT", "FLOAT16_T", "FLOAT32_T",
    "FLOAT64_T", "FLOAT_INT", "F_BOOL", "F_COMPLEX", "F_DOUBLE", "F_DOUBLE_COMPLEX", "F_ERROR", "F_FLOAT",
    "F_FLOAT_COMPLEX", "F_INT", "F_SOURCE", "F_STATUS_SIZE", "F_TAG", "GRAPH", "GROUP_EMPTY", "GROUP_NULL", "HOST",
    "IDENT", "IMPI_CLIENT_COLOR", "IMPI_CLIENT_SIZE", "IMPI_HOST_COLOR", "IMPI_HOST_SIZE", "INFO_ENV", "INFO_NULL",
    "INT", "INT16_T", "INT32_T", "INT64_T", "INT8_T", "INTEGER", "INTEGER1", "INTEGER16", "INTEGER2", "INTEGER4",
    "INTEGER8", "INT_INT", "IN_PLACE", "IO", "KEYVAL_INVALID", "LAND", "LASTUSEDCODE", "LATER_ERROR_CLASSES", "LB",
    "LOCK_EXCLUSIVE", "LOCK_SHARED", "LOGICAL", "LOGICAL1", "LOGICAL16", "LOGICAL2", "LOGICAL4", "LOGICAL8", "LONG",
    "LONG_DOUBLE", "LONG_DOUBLE_INT", "LONG_INT", "LONG_LONG", "LONG_LONG_INT", "LOR", "LXOR", "MAX", "MAXLOC",
    "MAX_DATAREP_STRING", "MAX_ERROR_STRING", "MAX_INFO_KEY", "MAX_INFO_VAL", "MAX_LIBRARY_VERSION_STRING",
    "MAX_OBJECT_NAME", "MAX_PORT_NAME", "MAX_PROCESSOR_NAME", "MAX_PSET_NAME_LEN", "MAX_STRINGTAG_LEN",
    "MESSAGE_NO_PROC", "MESSAGE_NULL", "MIN", "MINLOC", "MODE_APPEND", "MODE_CREATE", "MODE_DELETE_ON_CLOSE",
    "MODE_EXCL", "MODE_NOCHECK", "MODE_NOPRECEDE", "MODE_NOPUT", "MODE_NOSTORE", "MODE_NOSUCCEED", "MODE_RDONLY",
    "MODE_RDWR", "MODE_SEQUENTIAL", "MODE_UNIQUE_OPEN", "MODE_WRONLY", "NO_OP", "OFFSET", "OP_NULL", "ORDER_C",
    "ORDER_F", "ORDER_FORTRAN", "PACKED", "PROC_NULL", "PROD", "REAL", "REAL16", "REAL2", "REAL4", "REAL8", "REPLACE",
    "REQUEST_NULL", "ROOT", "SEEK_CUR", "SEEK_END", "SEEK_SET", "SESSION_NULL", "SHORT", "SHORT_INT", "SIGNED_CHAR",
    "SIGNED_INT", "SIGNED_LONG", "SIGNED_LONG_LONG", "SIGNED_SHORT", "SIMILAR", "SINT16_T", "SINT32_T", "SINT64_T",
    "SINT8_T", "SUBVERSION", "SUCCESS", "SUM", "TAG_UB", "THREAD_FUNNELED", "THREAD_MULTIPLE", "THREAD_SERIALIZED",
    "THREAD_SINGLE", "TWODOUBLE_PRECISION", "TWOINT", "TWOINTEGER", "TWOREAL", "TYPECLASS_COMPLEX", "TYPECLASS_INTEGER",
    "TYPECLASS_LOGICAL", "TYPECLASS_REAL", "UB", "UINT16_T", "UINT32_T", "UINT64_T", "UINT8_T", "UNDEFINED", "UNEQUAL",
    "UNIVERSE_SIZE", "UNSIGNED", "UNSIGNED_CHAR", "UNSIGNED_INT", "UNSIGNED_LONG", "UNSIGNED_LONG_LONG",
    "UNSIGNED_SHORT", "UNWEIGHTED", "VERSION", "WCHAR", "WEIGHTS_EMPTY", "WIN_BASE", "WIN_CREATE_FLAVOR",
    "WIN_DISP_UNIT", "WIN_FLAVOR", "WIN_FLAVOR_ALLOCATE", "WIN_FLAVOR_CREATE", "WIN_FLAVOR_DYNAMIC",
    "WIN_FLAVOR_SHARED", "WIN_MODEL", "WIN_NULL", "WIN_SEPARATE", "WIN_SIZE", "WIN_UNIFIED", "WTIME_IS_GLOBAL",
    "Add_error_class", "Add_error_code", "Add_error_string", "Address", "Aint_add", "Aint_diff", "Alloc_mem",
    "Attach_buffer", "AuthenticationError", "BlockingCallError", "BottomType", "BufferAutomaticType", "Cartcomm",
    "Close_port", "Comm", "Compute_dims", "Datatype", "Detach_buffer", "Distgraphcomm", "Errhandler", "Exception",
    "File", "FileError", "Finalize", "Flush_buffer", "Free_address", "Free_mem", "Get_abi_fortran_info", "Get_abi_info",
    "Get_abi_version", "Get_address", "Get_error_class", "Get_error_string", "Get_hw_resource_info",
    "Get_library_version", "Get_processor_name", "Get_version", "Graphcomm", "Grequest", "Group", "Iflush_buffer",
    "InPlaceType", "InStatusError", "Info", "InfoNoKeyError", "Init", "Init_thread", "Intercomm", "InternalError",
    "Intracomm", "InvalidArgumentError", "InvalidBufferError", "InvalidCommError", "InvalidCountError",
    "InvalidDimsError", "InvalidErrhandlerError", "InvalidGroupError", "InvalidInfoError", "InvalidInfoKeyError",
    "InvalidInfoValueError", "InvalidKeyvalError", "InvalidOpError", "InvalidPortError", "InvalidRankError",
    "InvalidRequestError", "InvalidRootError", "InvalidSessionError", "InvalidServiceError", "InvalidTagError",
    "InvalidTopologyError", "InvalidTypeError", "Is_finalized", "Is_initialized", "Is_thread_main", "JobAbortedError",
    "LocalProtocolError", "Lookup_name", "MPIError", "Message", "NotPublishedError", "Op", "Open_port", "OtherError",
    "Pcontrol", "PendingError", "Pickle", "Prequest", "ProcessFailedError", "ProcessFailedPendingError", "Publish_name",
    "Query_thread", "Register_datarep", "RemoteProtocolError", "Remove_error_class", "Remove_error_code",
    "Remove_error_string", "Request", "RevokedError", "Session", "SpawnError", "Status", "Topocomm", "TruncationError",
    "Type_extent", "Type_hindexed", "Type_hvector", "Type_lb", "Type_struct", "Type_ub", "UnknownError",
    "Unpublish_name", "Win", "WindowError", "Wtick", "Wtime", "buffer", "error_string", "get_vendor", "memory",
    "pickle",
]  # fmt: skip

VERSION, SUBVERSION = _VERSION
Exception = MPIError  # mpi4py's name


def Init() -> None:
    """Join the job now instead of at the first use of a communicator (section 7.5).

    Raises:
        LocalProtocolError: Init or Finalize was called before.
    """
    if _process.initialized:
        raise LocalProtocolError("MPI_Init was called before, or a communicator has been used: call it first and once")
    _process.start()


def Is_initialized() -> bool:
    """Return True once this process has joined the job, even after Finalize (section 7.5).

    Init or the first use of a communicator joins the job.
    """
    return _process.initialized


def Finalize() -> None:
    """End communication, and return when every rank of the job has called Finalize (section 7.5).

    A process that ends without calling Finalize leaves the job without waiting for the other ranks. While sessions are
    open, Finalize ends COMM_WORLD and COMM_SELF only. The last `Session.Finalize` then waits for the other ranks.

    Raises:
        LocalProtocolError: Finalize was called before.
    """
    _process.finalize()


def Is_finalized() -> bool:
    """Return True if this process has called Finalize (MPI_Finalized, MPI-2)."""
    return _process.finalized


def Attach_buffer(buf: _BufSpec | BufferAutomaticType) -> None:
    """Give memory to buffered sends (MPI_Buffer_attach, section 3.6).

    Args:
        buf: writable memory. A message occupies its length and BSEND_OVERHEAD bytes of the memory. None: each message
            gets new memory.

    Raises:
        InvalidBufferError: a buffer is attached already, or `buf` is read-only.
    """
    attachment = _process.runtime.engine.attachment
    with _process.driver.exclusive("Attach_buffer"):
        _attach(attachment, buf)


def Detach_buffer() -> _Any:
    """Wait until all messages in the attached buffer have left, then detach it (MPI_Buffer_detach, section 3.6).

    Returns:
        The object that was attached.

    Raises:
        InvalidBufferError: no buffer is attached.
    """
    _check_running_loop("MPI.Detach_buffer", "await comm.Detach_buffer()")
    attachment = _process.runtime.engine.attachment
    with _process.driver.exclusive("Detach_buffer"):
        return _process.driver.wait(attachment.detach())


def Flush_buffer() -> None:
    """Wait until the messages in the attached buffer have left (MPI_Buffer_flush, MPI-4.1).

    Raises:
        InvalidBufferError: no buffer is attached.
    """
    _check_running_loop("MPI.Flush_buffer", "await comm.Flush_buffer()")
    attachment = _process.runtime.engine.attachment
    with _process.driver.exclusive("Flush_buffer"):
        _process.driver.wait(attachment.flush())


def Iflush_buffer() -> Request[None]:
    """Return a request that completes when all messages in the attached buffer have left (MPI_Buffer_iflush, MPI-4.1).

    Raises:
        InvalidBufferError: no buffer is attached.
    """
    attachment = _process.runtime.engine.attachment
    with _process.driver.exclusive("Iflush_buffer"):
        return Request._denote(attachment.flush())


def Alloc_mem(size: int, info: object = None) -> buffer:
    """Allocate memory (MPI_Alloc_mem, MPI-2).

    Args:
        size: bytes.
        info: hints; none has an effect.

    Raises:
        TypeError: the size is not an integer.
        ValueError: the size is negative.
    """
    _process.runtime  # noqa: B018
    with _process.driver.exclusive("Alloc_mem"):
        return _allocate(size)


def Free_mem(mem: buffer) -> None:
    """Free memory that `Alloc_mem` returned (MPI_Free_mem, MPI-2).

    Args:
        mem: memory that `Alloc_mem` returned.

    Raises:
        TypeError: `mem` is not an `MPI.buffer`.
    """
    from aiompi.datatype.buffer.memory import buffer  # imports NumPy, which programs without arrays do not need

    if not isinstance(mem, buffer):
        raise TypeError(f"mem is of type {type(mem).__name__}: expected the MPI.buffer that Alloc_mem returned")
    mem.release()


def Wtime() -> float:
    """Return the seconds since a fixed time in the past. All processes of a machine share this time (section 7.4)."""
    return _monotonic()


def Wtick() -> float:
    """Return the resolution of Wtime in seconds (section 7.4)."""
    return _get_clock_info("monotonic").resolution


def Get_processor_name() -> str:
    """Return the name of the machine (section 7.1.1)."""
    return _gethostname()


def Get_version() -> tuple[int, int]:
    """Return the (version, subversion) of the MPI standard that this module follows (section 7.1.1).

    `aiompi.standard` says which chapters this module has in full. Calls of the missing part raise NotImplementedError:
    a binary interface.
    """
    return VERSION, SUBVERSION


if not _typing.TYPE_CHECKING:  # type checkers would accept any name

    def __dir__() -> list[str]:
        return sorted({*globals(), "buffer", "memory"})

    def __getattr__(name: str) -> _Any:
        """Return the class `buffer`, which is also named `memory`. Its module, which needs NumPy, is imported here."""
        if name not in ("buffer", "memory"):
            raise AttributeError(f"module 'aiompi.MPI' has no attribute {name!r}")
        from aiompi.datatype.buffer.memory import buffer  # imports NumPy, which programs without arrays do not need

        globals().update(buffer=buffer, memory=buffer)
        return buffer


_surface(_sys.modules[__name__])
_process.expect_threads()
del _sys, _typing  # tools that list the attributes of this module find only its own names
