"""Communicators of the blocking face (chapter 5)."""

from __future__ import annotations

from typing import NoReturn

from aiompi.face.blocking.collective import Collectives
from aiompi.face.blocking.point_to_point import PointToPoint
from aiompi.face.blocking.process import process


class Intracomm(PointToPoint, Collectives):
    """A communicator of the blocking face (chapter 5), with mpi4py's names.

    Errors are raised as `MPI.Exception`s by the call that meets them.
    """

    __slots__ = ()

    def Abort(self, errorcode: int = 1) -> NoReturn:
        """End all ranks of the job, and this process, with this exit status (section 7.5)."""
        runtime = process.runtime
        runtime.abort(errorcode, f"rank {runtime.engine.rank} called Abort({errorcode})")
        runtime.exit(errorcode)

    def __repr__(self) -> str:
        return repr(self._core) if process.initialized else f"<MPI {self._predefined}, not initialised yet>"

    def __reduce__(self) -> str:
        """By name: what arrives in another process is its own communicator (section 2.4.1)."""
        return "COMM_WORLD" if self is COMM_WORLD else "COMM_SELF"


COMM_WORLD = Intracomm("world")
COMM_SELF = Intracomm("self_comm")
