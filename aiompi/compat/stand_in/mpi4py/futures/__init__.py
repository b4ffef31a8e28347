"""`mpi4py.futures` is `aiompi.futures`."""

from aiompi.futures import *  # noqa: F403
