"""The blocking, mpi4py-shaped face: `from aiompi import MPI`.

Importing it does no I/O; the first use of a communicator initialises, the end of the process finalizes.
"""

from __future__ import annotations

import socket as _socket
import sys as _sys
import time as _time
from typing import Any as _Any

from aiompi import hooks as _hooks
from aiompi.comm import Group as Group
from aiompi.comm.errhandler import *
from aiompi.comm.group import GROUP_EMPTY as GROUP_EMPTY
from aiompi.comm.group import GROUP_NULL as GROUP_NULL
from aiompi.comm.topology import Compute_dims as Compute_dims
from aiompi.constants import *
from aiompi.datatype import BOTTOM as BOTTOM
from aiompi.datatype import BUFFER_AUTOMATIC as BUFFER_AUTOMATIC
from aiompi.datatype import IN_PLACE as IN_PLACE
from aiompi.datatype import Aint_add as Aint_add
from aiompi.datatype import Aint_diff as Aint_diff
from aiompi.datatype import Free_address as Free_address
from aiompi.datatype import Get_address as Get_address
from aiompi.datatype.buffer.address import Bottom as BottomType  # noqa: F401
from aiompi.datatype.buffer.constant import BufferAutomatic as BufferAutomaticType  # noqa: F401
from aiompi.datatype.buffer.constant import InPlace as InPlaceType  # noqa: F401
from aiompi.datatype.buffer.memory import *
from aiompi.datatype.deprecated import *
from aiompi.datatype.predefined import *
from aiompi.driver.caller import refuse_running_loop as _refuse_running_loop
from aiompi.errors import *
from aiompi.face import common as _common
from aiompi.face.blocking import COMM_NULL as COMM_NULL
from aiompi.face.blocking import COMM_SELF as COMM_SELF
from aiompi.face.blocking import COMM_WORLD as COMM_WORLD
from aiompi.face.blocking import MESSAGE_NO_PROC as MESSAGE_NO_PROC
from aiompi.face.blocking import MESSAGE_NULL as MESSAGE_NULL
from aiompi.face.blocking import REQUEST_NULL as REQUEST_NULL
from aiompi.face.blocking import Cartcomm as Cartcomm
from aiompi.face.blocking import Comm as Comm
from aiompi.face.blocking import Distgraphcomm as Distgraphcomm
from aiompi.face.blocking import Graphcomm as Graphcomm
from aiompi.face.blocking import Grequest as Grequest
from aiompi.face.blocking import Intercomm as Intercomm
from aiompi.face.blocking import Intracomm as Intracomm
from aiompi.face.blocking import Message as Message
from aiompi.face.blocking import Prequest as Prequest
from aiompi.face.blocking import Request as Request
from aiompi.face.blocking import Topocomm as Topocomm
from aiompi.face.blocking import process as _process
from aiompi.face.blocking.environment import *
from aiompi.face.blocking.internals import *
from aiompi.face.blocking.missing import *
from aiompi.face.blocking.serializer import *
from aiompi.foreign_errors import *
from aiompi.info import *
from aiompi.op import Op as Op
from aiompi.op.predefined import *
from aiompi.status import Status as Status

VERSION, SUBVERSION = 3, 1


def Init() -> None:
    """Join the job now instead of at the first use of a communicator (section 7.5).

    Raises:
        LocalProtocolError: it was called before, or Finalize was.
    """
    if _process.initialized:
        raise LocalProtocolError("MPI_Init was called before, or a communicator has been used: call it first and once")
    _process.runtime  # noqa: B018


def Is_initialized() -> bool:
    """Whether the job has been joined; stays true after Finalize (section 7.5)."""
    return _process.initialized


def Finalize() -> None:
    """End communication: returns when every rank of the job has called it (section 7.5).

    A program that ends without it leaves the job by itself, without waiting for the others.

    Raises:
        LocalProtocolError: it was called before.
    """
    _process.finalize()


def Is_finalized() -> bool:
    """Whether this process has called Finalize."""
    return _process.finalized


def Attach_buffer(buf: _Any) -> None:
    """Give memory to buffered sends (MPI_Buffer_attach, section 3.6).

    Args:
        buf: writable memory; each message takes its length and BSEND_OVERHEAD. None: new memory for each message.

    Raises:
        InvalidBufferError: one is attached already, or it is read-only.
    """
    attachment = _process.runtime.engine.attachment
    with _process.driver.exclusive("Attach_buffer"):
        _common.attach(attachment, buf)


def Detach_buffer() -> _Any:
    """Take the memory back when the messages in it have left (MPI_Buffer_detach, section 3.6).

    Returns:
        The object that was attached.

    Raises:
        InvalidBufferError: none is attached.
    """
    _refuse_running_loop("MPI.Detach_buffer", "await comm.Detach_buffer()")
    attachment = _process.runtime.engine.attachment
    with _process.driver.exclusive("Detach_buffer"):
        return _process.driver.wait(attachment.detach())


def Flush_buffer() -> None:
    """Wait until the messages in the attached buffer have left (MPI_Buffer_flush, MPI-4.1).

    Raises:
        InvalidBufferError: none is attached.
    """
    _refuse_running_loop("MPI.Flush_buffer", "await comm.Flush_buffer()")
    attachment = _process.runtime.engine.attachment
    with _process.driver.exclusive("Flush_buffer"):
        _process.driver.wait(attachment.flush())


def Iflush_buffer() -> Request[None]:
    """Start to wait until the messages in the attached buffer have left (MPI_Buffer_iflush, MPI-4.1).

    Raises:
        InvalidBufferError: none is attached.
    """
    attachment = _process.runtime.engine.attachment
    with _process.driver.exclusive("Iflush_buffer"):
        return Request._denote(attachment.flush())


def Alloc_mem(size: int, info: object = None) -> buffer:
    """New memory (MPI_Alloc_mem, MPI-2).

    Args:
        size: bytes.
        info: hints, of which none is known.

    Raises:
        TypeError: the size is not an integer.
        ValueError: it is negative.
    """
    runtime = _process.runtime
    with _process.driver.exclusive("Alloc_mem"):
        return runtime.allocate(size)


def Wtime() -> float:
    """Seconds since some moment in the past; the same clock for all processes of a machine (section 7.4)."""
    return _time.monotonic()


def Wtick() -> float:
    """Resolution of Wtime in seconds (section 7.4)."""
    return _time.get_clock_info("monotonic").resolution


def Get_processor_name() -> str:
    """Name of the machine (section 7.1.1)."""
    return _socket.gethostname()


def Get_version() -> tuple[int, int]:
    """(version, subversion) of the MPI standard to which names and their meaning belong (section 7.1.1).

    Of MPI-3.1 there is all but one-sided communication, files and dynamic processes, whose calls raise
    NotImplementedError; of MPI-4 there are persistent collectives and other calls.
    """
    return VERSION, SUBVERSION


_hooks.surface(_sys.modules[__name__])
