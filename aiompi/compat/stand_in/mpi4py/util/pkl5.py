"""Objects with their buffers out of band: the communicators of aiompi send all objects so."""

from aiompi.MPI import Comm, Intercomm, Intracomm, Message, Request

__all__ = ["Comm", "Intercomm", "Intracomm", "Message", "Request"]
