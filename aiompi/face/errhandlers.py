"""Error handlers of communicators (section 7.2), with mpi4py's names; the same in both faces.

Before a failing call raises, it calls the error handler of its communicator through a hook. The program adds this hook
when it sets the first handler other than ERRORS_RETURN: until then, no call pays for the hook. An operation may fail
after the call that has started it. The handler is then called when the error is reported: in the asyncio face as soon
as the error is known, in the blocking face when the request is completed (section 2.7).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from aiompi import hooks
from aiompi.comm import Group
from aiompi.comm.errhandler import Errhandler, HandlerFunction
from aiompi.datatype import Datatype
from aiompi.engine import Request
from aiompi.errors import InvalidErrhandlerError, JobAbortedError, MPIError
from aiompi.info import Info
from aiompi.op import Op

# Hooks also see the calls of objects that both faces share: the calls with names of the standard, in upper case.
for _shared in (Group, Datatype, Op, Info, Errhandler):
    hooks.surface(_shared, [name for name in dir(_shared) if name[0].isupper()])


class ErrorHandling:
    """Methods of communicators and sessions that get, set and call the error handler.

    Attributes:
        _core: the object behind the handle; its attribute `errhandler` is the error handler.
    """

    __slots__ = ()

    _core: Any

    def __init_subclass__(cls, **arguments: Any) -> None:
        """Declare the calls of each subclass to the hooks: error handlers are called by a hook."""
        super().__init_subclass__(**arguments)
        hooks.surface(cls)

    @classmethod
    def Create_errhandler(cls, errhandler_fn: HandlerFunction) -> Errhandler:
        """A new error handler (MPI_Errhandler_create, section 7.2).

        Args:
            errhandler_fn: called with the communicator or session and the error code, before the failing call raises.
                An exception of this function is raised instead of the error.

        Returns:
            The error handler.
        """
        return Errhandler.create(errhandler_fn)

    def Set_errhandler(self, errhandler: Errhandler) -> None:
        """Use an error handler for this communicator or session, in this process (MPI_Errhandler_set, section 7.2).

        Args:
            errhandler: the handler to call when a call on this object fails.

        Raises:
            InvalidErrhandlerError: the error handler is null, or was freed.
        """
        if not errhandler:
            raise InvalidErrhandlerError(f"Set_errhandler on {self!r}: the error handler is null, or was freed")
        self._core.errhandler = Errhandler(errhandler)
        if not errhandler.raises_only and consult not in hooks.active():
            hooks.add(consult, always=True)

    def Get_errhandler(self) -> Errhandler:
        """A new handle of the error handler in use (MPI_Errhandler_get, section 7.2); by default ERRORS_RETURN.

        Returns:
            The error handler.
        """
        return Errhandler(self._core.errhandler)

    def Call_errhandler(self, errorcode: int) -> None:
        """Call the error handler, as a library on top of MPI does for errors of its own (MPI-2).

        Args:
            errorcode: error code. A handler that ends the job uses it as the exit status.
        """
        self._core.errhandler.call(self, errorcode)


_find_world: Callable[[], ErrorHandling | None] | None = None


def serve_calls_without_communicator(find: Callable[[], ErrorHandling | None]) -> None:
    """Set how COMM_WORLD is found. The handler of COMM_WORLD serves calls without a communicator (section 7.2).

    Args:
        find: returns COMM_WORLD, or None while there is none.
    """
    global _find_world
    _find_world = find


def consult(call: hooks.Call) -> Any:
    """Hook: call the error handler for a call that fails, and note which communicator started an operation."""
    completing = list(call.denoted(Request))
    try:
        result = call()
    except MPIError as error:
        comm = _responsible(call, completing)
        if comm is not None:
            _handle(comm, error)
        raise
    if isinstance(call.receiver, ErrorHandling):
        _watch(call.receiver, result)
    return result


def _responsible(call: hooks.Call, completing: list[Request[Any]]) -> ErrorHandling | None:
    """Return the communicator whose error handler is to be called; None if the communicator is not known."""
    if isinstance(call.receiver, ErrorHandling) and call.receiver:
        return call.receiver
    failed = [operation for operation in completing if _failed(operation) is not None]
    if completing:
        return getattr((failed or completing)[0], "starter", None)
    return None if _find_world is None else _find_world()


def _watch(comm: ErrorHandling, result: Any) -> None:
    """Call the error handler if the operation that a call has started fails."""
    if isinstance(result, Request):
        operation = result.operation
        if not operation.done():
            operation.when_done(lambda ended: _conclude(comm, ended))
        else:
            _conclude(comm, operation)
    elif isinstance(getattr(result, "_core", None), Request):
        result._core.starter = comm


def _conclude(comm: ErrorHandling, operation: Request[Any]) -> None:
    """If an operation has failed, call the handler; an exception of the handler becomes the error of the operation."""
    failed = _failed(operation)
    if failed is not None and isinstance(failed._error, MPIError):
        try:
            _handle(comm, failed._error)
        except BaseException as raised:
            failed._error = raised


def _failed(operation: Request[Any]) -> Request[Any] | None:
    """Return the failed operation: `operation`, or the send or receive of an exchange; None if none has failed.

    This function does not call `exception`, because the `exception` of a receive also turns the message into an object.
    If the await were cancelled after the message had become an object, the receive could not put the message back.
    """
    parts = operation, getattr(operation, "_send", None), getattr(operation, "_receive", None)
    return next((part for part in parts if isinstance(part, Request) and part._error is not None), None)


def _handle(comm: ErrorHandling, error: MPIError) -> None:
    """Call the handler. Errors of the calls that the handler makes itself call no handler."""
    if isinstance(error, JobAbortedError) or not comm:
        return  # the job is over, or the communicator has been freed by the call
    with hooks.library():
        handler = comm._core.errhandler
        if handler.aborts:
            import traceback  # few programs fail

            traceback.print_exception(error)
        handler.call(comm, error.error_code)
