"""`mpi4py.futures.util`: futures made of other futures."""

from aiompi.futures import collect, compose

__all__ = ["collect", "compose"]
