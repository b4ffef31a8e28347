"""`mpi4py.util.sync` is `aiompi.util.sync`."""

from aiompi.util.sync import *  # noqa: F403
