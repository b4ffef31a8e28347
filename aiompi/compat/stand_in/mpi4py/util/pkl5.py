"""`mpi4py.util.pkl5` is `aiompi.util.pkl5`."""

from aiompi.MPI import pickle as pickle
from aiompi.util.pkl5 import *  # noqa: F403


class _BigMPI:
    """The place of mpi4py's helper for large counts, which its tests replace. Counts have any size here."""


_bigmpi = _BigMPI()
