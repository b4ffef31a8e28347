"""Sending objects with out-of-band buffers (pickle protocol 5), with the names of mpi4py.util.pkl5.

In aiompi every communicator sends objects in this way: arrays and other buffers of pickle protocol 5 go out of band,
from their own memory. `pkl5.Intracomm(comm)` is another handle of the same communicator, for programs written for
mpi4py.
"""

from aiompi.MPI import Comm, Intercomm, Intracomm, Message, Pickle, Request

__all__ = ["Comm", "Intercomm", "Intracomm", "Message", "Pickle", "Request"]
