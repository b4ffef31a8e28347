"""Communicators of the native face (chapter 5)."""

from __future__ import annotations

from typing import NoReturn

from aiompi.comm import Communicator
from aiompi.errors import JobAbortedError
from aiompi.face.native.collective import Collectives
from aiompi.face.native.point_to_point import PointToPoint
from aiompi.runtime import Runtime


class Intracomm(PointToPoint, Collectives):
    """A communicator of the native face (chapter 5).

    Ranks are those of its group, tags are 0..TAG_UB. Errors of arguments are raised by the call itself, errors of
    the communication by the await; both are `aiompi.Exception`s.
    """

    __slots__ = ("_codec", "_core", "_runtime")

    def __init__(self, runtime: Runtime, core: Communicator) -> None:
        self._runtime = runtime
        self._core = core
        self._codec = runtime.codec

    def Abort(self, errorcode: int = 1) -> NoReturn:
        """End all ranks of the job (section 7.5).

        A process that a launcher started ends here, with this exit status; one that has joined gets the exception.

        Raises:
            JobAbortedError: this process was not started by a launcher.
        """
        reason = f"rank {self._runtime.engine.rank} called Abort({errorcode})"
        self._runtime.abort(errorcode, reason)
        if self._runtime.launched:
            self._runtime.exit(errorcode)
        raise JobAbortedError(reason)

    def __repr__(self) -> str:
        return repr(self._core)

    def __reduce__(self) -> NoReturn:
        raise TypeError("a communicator means something only in its own process (section 2.4.1)")
