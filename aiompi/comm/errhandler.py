"""Error handlers, which run when a call on a communicator fails (section 7.2).

A handler is a function of the communicator and the error code. It is called before the failing call raises. The
predefined handlers are such functions, too: ERRORS_RETURN does nothing, ERRORS_ARE_FATAL and ERRORS_ABORT end the job.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Self, TypeAlias

from aiompi.base.opaque import Reference
from aiompi.errors import InvalidErrhandlerError

__all__ = ["ERRHANDLER_NULL", "ERRORS_ABORT", "ERRORS_ARE_FATAL", "ERRORS_RETURN", "Errhandler"]

HandlerFunction: TypeAlias = Callable[[Any, int], object]


class _Handler:
    """The object behind handles of an error handler; it lives as long as a handle or a communicator refers to it."""

    __slots__ = ("__weakref__", "function", "name")

    def __init__(self, function: HandlerFunction, name: str = "") -> None:
        self.function = function
        self.name = name


class Errhandler(Reference[_Handler]):
    """A handle of an error handler (section 7.2), or a null handle. Handles of the same error handler are equal.

    Args:
        errhandler: error handler of which to make another handle; None for a null handle.
    """

    __slots__ = ()

    _kind = _Handler

    def __new__(cls, errhandler: Errhandler | None = None) -> Self:
        return cls._another(Errhandler, errhandler)

    @classmethod
    def create(cls, function: HandlerFunction) -> Errhandler:
        """Make an error handler (MPI_Errhandler_create, section 7.2).

        Args:
            function: function of the communicator and the error code.
        """
        if not callable(function):
            raise TypeError(f"an error handler is a function of a communicator and a code, not {function!r}")
        return cls._denote(_Handler(function))

    @property
    def raises_only(self) -> bool:
        """True for ERRORS_RETURN, the default of communicators: a failing call raises, and the handler does nothing."""
        return self == ERRORS_RETURN

    @property
    def aborts(self) -> bool:
        """True if the handler ends the job."""
        return self in (ERRORS_ARE_FATAL, ERRORS_ABORT)

    def call(self, comm: Any, code: int) -> None:
        """Call the function of the handler.

        Args:
            comm: communicator, session or file in which the error occurred.
            code: error code.

        Raises:
            InvalidErrhandlerError: the handle is null.
        """
        if self._denoted is None:
            raise InvalidErrhandlerError("a null error handler cannot be called")
        self._denoted.function(comm, code)

    def Free(self) -> None:
        """Make the handle null (MPI_Errhandler_free, section 7.2); communicators keep the error handler.

        Raises:
            InvalidErrhandlerError: the handle is null, or one of the predefined constants.
        """
        if self._denoted is None or self._constant:
            raise InvalidErrhandlerError(f"Errhandler.Free: {self!r} is null or predefined, and cannot be freed")
        self._denoted = None

    def __repr__(self) -> str:
        if self._denoted is None:
            return "<Errhandler null>"
        return f"<Errhandler {self._denoted.name or repr(self._denoted.function)}>"


def _leave_to_exception(comm: Any, code: int) -> None:
    """Do nothing: the call raises."""


def _abort(failed: Any, code: int) -> None:
    (failed.Abort if hasattr(failed, "Abort") else failed._abort)(code)  # a communicator, or a session


ERRHANDLER_NULL: Final = Errhandler()

#: The call raises, and has no other effect. Both faces give this handler to all communicators, as mpi4py does; MPI's
#: own default is ERRORS_ARE_FATAL. An uncaught exception ends the job.
ERRORS_RETURN: Final = Errhandler._denote(_Handler(_leave_to_exception, "ERRORS_RETURN"))

#: The job ends, as if the process had called Abort with the error code.
ERRORS_ARE_FATAL: Final = Errhandler._denote(_Handler(_abort, "ERRORS_ARE_FATAL"))

#: The processes of the communicator end (MPI-4). Since the job ends with them, this is the same as ERRORS_ARE_FATAL.
ERRORS_ABORT: Final = Errhandler._denote(_Handler(_abort, "ERRORS_ABORT"))

Errhandler._constants = {
    "ERRHANDLER_NULL": ERRHANDLER_NULL,
    "ERRORS_RETURN": ERRORS_RETURN,
    "ERRORS_ARE_FATAL": ERRORS_ARE_FATAL,
    "ERRORS_ABORT": ERRORS_ABORT,
}
