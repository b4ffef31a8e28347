"""The blocking face, shaped as mpi4py: every call starts an operation of the engine and waits for it in place.

Importing does no I/O. The first use of a communicator joins the job for which the launcher has started this process, or
makes a job of one rank. At its end the process leaves the job.
"""

from aiompi.face.blocking.communicator import (
    COMM_NULL,
    COMM_SELF,
    COMM_WORLD,
    Cartcomm,
    Comm,
    Distgraphcomm,
    Graphcomm,
    Intercomm,
    Intracomm,
    Topocomm,
)
from aiompi.face.blocking.message import MESSAGE_NO_PROC, MESSAGE_NULL, Message
from aiompi.face.blocking.request_kinds import Grequest, Prequest
from aiompi.face.blocking.requests import REQUEST_NULL, Request

__all__ = [
    "COMM_NULL", "COMM_SELF", "COMM_WORLD", "MESSAGE_NO_PROC", "MESSAGE_NULL", "REQUEST_NULL", "Cartcomm", "Comm",
    "Distgraphcomm", "Graphcomm", "Grequest", "Intercomm", "Intracomm", "Message", "Prequest", "Request", "Topocomm",
]  # fmt: skip
