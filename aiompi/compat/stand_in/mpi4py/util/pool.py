"""`mpi4py.util.pool` is `aiompi.util.pool`."""

from aiompi.util.pool import *  # noqa: F403
