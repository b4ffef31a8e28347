"""Objects whose large buffers are not copied into their pickles, with the names of mpi4py.util.pkl5.

Here every communicator sends objects so: arrays and other buffers of pickle protocol 5 go out of band, from where they
lie. `pkl5.Intracomm(comm)` is another handle of the same communicator, for programs that ask for it.
"""

from aiompi.MPI import Comm, Intercomm, Intracomm, Message, Pickle, Request

__all__ = ["Comm", "Intercomm", "Intracomm", "Message", "Pickle", "Request"]
