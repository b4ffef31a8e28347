"""`Owned`: an operation as the asyncio face awaits it."""

from __future__ import annotations

import functools
import sys
import warnings
from collections.abc import Coroutine, Generator
from typing import Any, TypeVar

from aiompi.core import OwnedBase, Request

T_co = TypeVar("T_co", covariant=True)


class Owned(OwnedBase[T_co], Coroutine[Any, None, T_co]):
    """An operation that belongs to the code that awaits it, as in `await comm.send(obj, dest)`.

    If the await is cancelled or times out, the operation is withdrawn, as far as that is possible, as soon as no other
    process writes into its memory. A warning reports a message that is lost all the same. For asyncio this is a
    coroutine: `create_task` takes it as it is, and a cancellation before its first step reaches it. For tools that show
    coroutines it has a coroutine's attributes, and the name of the call.

    Args:
        request: the operation.
        name: of the call that has started it, for tools.
    """

    __slots__ = ()

    # Attributes of a coroutine. With `__getattr__` instead, each access to any attribute would take 3 times as long.
    cr_await = property(lambda self: self._begun().gi_yieldfrom)
    cr_code = property(lambda self: self._begun().gi_code)
    cr_frame = property(lambda self: self._begun().gi_frame)
    cr_origin = None
    cr_running = property(lambda self: self._begun().gi_running)
    cr_suspended = property(lambda self: self._begun().gi_suspended)

    def _begun(self) -> Generator[Any, None, T_co]:
        if self._steps is None:
            self._steps = self._wait()
        return self._steps

    def _wait(self) -> Generator[Any, None, T_co]:
        request, self._request = self._request, None
        if request is None:
            raise RuntimeError("this operation has been awaited already; use its i-form to await it twice")
        try:
            if not request._done:
                yield from request.suspend()
            elif request._engine.turn_due():
                yield
        except BaseException as error:
            yield from _undone(request, error)
        return request.result()

    def send(self, value: None) -> Any:
        """Run the first or the next step, like a coroutine."""
        return self._begun().send(value)

    def throw(self, *error: Any) -> Any:
        """Raise an error where the coroutine waits, or in place of its first step."""
        request, self._request = self._request, None
        if request is not None:  # the first step has not been made
            raised = error[1] if len(error) > 1 and error[1] is not None else error[0]
            self._steps = _undone(request, raised if isinstance(raised, BaseException) else raised())
            return self._steps.send(None)
        return self._begun().throw(*error)

    def close(self) -> None:
        """End the coroutine."""
        self._withdraw()  # if the first step has not been made
        if self._steps is not None:
            self._steps.close()

    def _withdraw(self) -> None:
        """Undo an operation that is not awaited any more."""
        request, self._request = self._request, None
        if request is not None:
            _abandon(request)

    def __del__(self) -> None:
        request = self._request
        if request is not None and not sys.is_finalizing():
            error = request.unseen_error()
            warnings.warn(
                "an operation was never awaited: it was started, and nothing reports how it ends. Await it, or use its "
                f"i-form (isend, Isend), which gives a request{'' if error is None else f'. It has failed: {error}'}",
                RuntimeWarning,
                stacklevel=2,
            )


def _abandon(request: Request[Any]) -> None:
    """Withdraw an operation whose outcome no call will report."""
    request.withdraw()
    error = request.lost_message_error()
    if error is not None:
        warn_unraisable(f"a receive that was withdrawn has lost its message: {error}")


def _undone(request: Request[Any], error: BaseException) -> Generator[Any, None, Any]:
    """Withdraw an operation as soon as possible, and raise the error that has ended its await.

    A warning reports a lost message. An exception would replace the cancellation: a task that catches it and goes on
    would not be cancelled.
    """
    if not request._engine.driver.in_own_thread:
        request._engine.finalizers.defer(functools.partial(_abandon, request))
        try:
            raise error
        finally:
            del error, request
    try:
        if not isinstance(error, GeneratorExit):  # a coroutine that is being closed cannot wait any more
            yield from request.settle()
    finally:
        _abandon(request)
    try:
        raise error
    finally:
        # An error refers to its frames. This frame must refer neither to it nor to the memory of the operation.
        del error, request


class OwnedReceive(Owned[T_co]):
    """A receive that belongs to the code that awaits it, as in `await comm.recv()`.

    When a matched receive is withdrawn, its message goes back to the front of the unexpected messages. Dropping a
    receive that was never awaited withdraws it as well, with a warning.
    """

    __slots__ = ()

    def __del__(self) -> None:
        request = self._request
        if request is not None:
            request._engine.finalizers.defer(functools.partial(_abandon, request), sys._getframe().f_back)
            if not sys.is_finalizing():
                warnings.warn("a receive was never awaited, and is withdrawn", RuntimeWarning, stacklevel=2)


class _UnraisableWarning:
    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def __del__(self) -> None:
        warnings.warn(self._text, RuntimeWarning, stacklevel=3)


def warn_unraisable(text: str) -> None:
    """Issue a RuntimeWarning from a finalizer. It raises in no call, even where warnings are errors."""
    _UnraisableWarning(text)
