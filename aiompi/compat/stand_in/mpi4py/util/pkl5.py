"""`mpi4py.util.pkl5` is `aiompi.util.pkl5`."""

from aiompi.MPI import pickle as pickle
from aiompi.util.pkl5 import *  # noqa: F403


class _BigMPI:
    """Stands for mpi4py's helper for large counts, which tests of mpi4py replace. In aiompi, counts have any size."""


_bigmpi = _BigMPI()
