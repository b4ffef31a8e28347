"""The asyncio face: everything is awaited, in the application's own event loop.

Names are mpi4py's: upper case first letters for buffers, lower case for Python objects. Every call starts its operation
at once. The i-forms, such as `isend`, return a `Request`, which can be awaited any number of times; cancelling an await
does not affect the operation. All other calls return an awaitable that owns the operation and is awaited once.
Cancelling or timing out this await withdraws the operation, and loses no message.
"""

from aiompi.face.native.communicator import (
    COMM_NULL,
    Cartcomm,
    Comm,
    Distgraphcomm,
    Graphcomm,
    Intercomm,
    Intracomm,
)
from aiompi.face.native.file import FILE_NULL, File
from aiompi.face.native.message import Message

__all__ = [
    "COMM_NULL", "FILE_NULL", "Cartcomm", "Comm", "Distgraphcomm", "File", "Graphcomm", "Intercomm", "Intracomm",
    "Message",
]  # fmt: skip
