"""`mpi4py.util.pkl5` is `aiompi.util.pkl5`."""

from aiompi.util.pkl5 import *  # noqa: F403
