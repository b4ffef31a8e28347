"""`mpi4py.futures.aplus` is `aiompi.futures.aplus`."""

from aiompi.futures.aplus import *  # noqa: F403
