"""`mpi4py.util.dtlib` is `aiompi.util.dtlib`."""

from aiompi.util.dtlib import *  # noqa: F403
