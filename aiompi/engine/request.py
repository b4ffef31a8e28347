"""Requests: operations that have been started (section 3.7), and `Owned`, by which the asyncio face awaits them."""

from __future__ import annotations

import functools
import sys
import warnings
from collections.abc import Callable, Coroutine, Generator
from contextvars import Context, copy_context
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from aiompi.errors import LocalProtocolError, PendingError
from aiompi.status import Status

if TYPE_CHECKING:
    from aiompi.engine.progress import Progress
    from aiompi.engine.seams import Waiter

#: names of an object that asyncio and inspect read, and of a coroutine, beside what a generator calls them
_NAMES: Final = frozenset({"__name__", "__qualname__"})
_OF_COROUTINE: Final = {"cr_await": "gi_yieldfrom"} | {
    f"cr_{name}": f"gi_{name}" for name in ("code", "frame", "running", "suspended")
}
#: seconds between two checks of whether an operation can be withdrawn
_PAUSE: Final = 1e-3

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Request(Generic[T_co]):
    """An operation in progress; the call that returned it has started it.

    `await request` waits for it and returns its result. Cancelling the awaiting task does not cancel the operation:
    await it again, or `cancel` it. A request also has the methods of `asyncio.Future` that `asyncio.wait` and done
    callbacks need.
    """

    __slots__ = (
        "__weakref__",
        "_callbacks",
        "_cancelled",
        "_done",
        "_engine",
        "_error",
        "_error_seen",
        "_value",
        "_waiter",
    )

    def __init__(self, engine: Progress) -> None:
        self._engine = engine
        self._done = False
        self._cancelled = self._error_seen = False
        self._error: BaseException | None = None
        self._value: Any = None
        self._callbacks: list[Callable[[Request[Any]], object]] | None = None
        self._waiter: Waiter | None = None

    def done(self) -> bool:
        """Return True if the operation is complete: it has succeeded or failed, or was cancelled."""
        return self._done

    def cancelled(self) -> bool:
        """Return True if the operation was cancelled before it took effect (section 3.8)."""
        return self._cancelled

    def exception(self) -> BaseException | None:
        """Return the error that ended the operation, None if it succeeded.

        Raises:
            PendingError: it is not complete.
        """
        if not self._done:
            raise PendingError("the request is not complete: await it, or test done() first")
        self._error_seen = True
        return self._error

    def unseen_error(self) -> BaseException | None:
        """Return the error of the completed operation, None if `result` or `exception` has reported it already."""
        return None if self._error_seen else self._error

    def result(self) -> T_co:
        """Return the result of the operation: an object, a Status, or None.

        Raises:
            PendingError: it is not complete.
            aiompi.Exception: the operation failed.
        """
        if not self._done:
            raise PendingError("the request is not complete: await it, or test done() first")
        if self._error is not None:
            self._error_seen = True
            raise self._error
        return self._value  # type: ignore[no-any-return]

    def outcome(self) -> T_co | None:
        """Return `result`, but None in place of a Status, for callers that use `status` if they need it."""
        value = self.result()
        return None if isinstance(value, Status) else value

    @property
    def status(self) -> Status:
        """The status of the completed operation; the empty status for a send (section 3.7.3)."""
        return Status.of(cancelled=self._cancelled)

    def cancel(self) -> bool:
        """Ask for cancellation (MPI_Cancel, section 3.8). The call is local, and the request must still be completed.

        Returns:
            True if the request was not complete yet.
        """
        return not self._done

    def free(self) -> None:
        """Free the request (MPI_Request_free, section 3.7.3): the operation completes by itself.

        No call can report an error of it any more, so an error ends the job (section 2.7).
        """
        self._engine.disown(self)

    def add_done_callback(self, callback: Callable[[Request[Any]], object], *, context: Context | None = None) -> None:
        """Call `callback(request)` in a later turn of the driver, once the request is complete.

        Args:
            context: the context to run it in; a copy of the current one by default.
        """
        soon = _Soon(callback, copy_context() if context is None else context)
        if self._done:
            soon(self)
        else:
            self.when_done(soon)

    def remove_done_callback(self, callback: Callable[[Request[Any]], object]) -> int:
        """Undo `add_done_callback`; return the number of callbacks removed."""
        before = self._callbacks or []
        kept = [c for c in before if not (isinstance(c, _Soon) and c.callback == callback)]
        self._callbacks = kept or None
        return len(before) - len(kept)

    def when_done(self, callback: Callable[[Request[Any]], object]) -> None:
        """Call back inside the call that completes the request, which must not be complete yet."""
        if self._callbacks is None:
            self._callbacks = [callback]
        else:
            self._callbacks.append(callback)

    def forget(self, callback: Callable[[Request[Any]], object]) -> None:
        """Undo `when_done`; do nothing if the callback has been called already."""
        if self._callbacks is not None and callback in self._callbacks:
            self._callbacks.remove(callback)

    def complete(self, value: Any = None) -> None:
        """End the operation with success."""
        self._value = value
        self._finish()

    def fail(self, error: BaseException) -> None:
        """End the operation with an error; do nothing if it is complete."""
        if not self._done:
            self._error = error
            self._engine.failures += 1
            self._finish()

    def _finish(self) -> None:
        self._done = True
        waiter = self._waiter
        if waiter is not None and not waiter.done():
            waiter.set_result(None)
        callbacks = self._callbacks
        if callbacks is not None:
            self._callbacks = None
            for callback in callbacks:
                callback(self)

    def withdraw(self) -> None:
        """Undo the operation as far as possible. Only its owner may call this; see `quiescent` for when."""
        self.cancel()

    def lost_message_error(self) -> BaseException | None:
        """Return the error of a message that `withdraw` could not give back and that is lost; None if there is none.

        None also if the error has been reported. The caller reports what this returns.
        """
        return None

    def quiescent(self) -> bool:
        """Return True if no other process writes into the memory of the operation; none will begin to from now on."""
        return True

    def settle(self) -> Generator[Any, None, None]:
        """Wait until the operation can be withdrawn at once.

        An error that interrupts this, such as another cancellation, is raised at the end, since the caller must not use
        the memory before.
        """
        interrupt: BaseException | None = None
        while not self.quiescent():
            pause: Request[None] = Request(self._engine)
            self._engine.driver.call_later(_PAUSE, pause.complete)
            try:
                yield from pause.suspend()
            except (GeneratorExit, LocalProtocolError):  # nothing can wait here, as in another event loop
                raise
            except BaseException as error:
                interrupt = error
        if interrupt is not None:
            try:
                raise interrupt
            finally:
                interrupt = None  # the error refers to its frames, which must not refer to the error

    def suspend(self) -> Generator[Any, None, None]:
        """Wait for completion: inside a schedule by yielding the request to it, elsewhere as the driver waits."""
        engine = self._engine
        if engine.stepping:
            yield self
            return
        if self._waiter is not None:
            yield from self._suspend_too()
            return
        waiter = engine.driver.waiter(self)
        if waiter is None:
            return
        self._waiter = waiter
        try:
            yield from waiter
        finally:
            self._waiter = None

    def _suspend_too(self) -> Generator[Any, None, None]:
        """Wait for a request that other code already waits for."""
        waiter = self._engine.driver.waiter(self)
        if waiter is None:
            return

        def wake(_: Request[Any]) -> None:
            if not waiter.done():
                waiter.set_result(None)

        self.when_done(wake)
        try:
            yield from waiter
        except BaseException:
            self.forget(wake)
            raise

    def __await__(self) -> Generator[Any, None, T_co]:
        if not self._done:
            if self._engine.stepping:
                yield self  # as `suspend` does, in one step
            else:
                yield from self.suspend()
        elif self._engine.turn_due():
            yield
        return self.result()

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Return the name that tools show for an awaitable; attributes of other names do not exist."""
            if name in _NAMES:
                return self._label()
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def _label(self) -> str:
        return type(self).__name__

    def __repr__(self) -> str:
        state = "pending"
        if self._done:
            state = "cancelled" if self._cancelled else "failed" if self._error else "done"
        return f"<{type(self).__name__} {state}>"


class _Soon:
    """A public done callback: called by the driver, never inside the engine."""

    __slots__ = ("callback", "context")

    def __init__(self, callback: Callable[[Request[Any]], object], context: Context) -> None:
        self.callback = callback
        self.context = context

    def __call__(self, request: Request[Any]) -> None:
        request._engine.driver.call_soon(self.context.run, self.callback, request)


class Owned(Coroutine[Any, None, T_co]):
    """An operation that belongs to the code that awaits it, as in `await comm.send(obj, dest)`.

    If the await is cancelled or times out, the operation is withdrawn as far as that is still possible, once no other
    process is writing into its memory. If a message is lost all the same, there is a warning. For asyncio this is a
    coroutine: `create_task` takes it as it is, and a cancellation before its first step reaches it. For tools that show
    coroutines it has the attributes of one, and the name of the call.

    Args:
        request: the operation.
        name: of the call that has started it, for tools.
    """

    __slots__ = ("_name", "_request", "_steps")

    def __init__(self, request: Request[T_co], name: str = "operation") -> None:
        self._request: Request[T_co] | None = request
        self._steps: Generator[Any, None, T_co] | None = None
        self._name = name

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Return what asyncio and inspect ask a coroutine for."""
            if name in _NAMES:
                return self._name
            if name == "cr_origin":
                return None
            if name not in _OF_COROUTINE:
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            return getattr(self._begun(), _OF_COROUTINE[name])

    def _begun(self) -> Generator[Any, None, T_co]:
        if self._steps is None:
            self._steps = self.__await__()
        return self._steps

    def __await__(self) -> Generator[Any, None, T_co]:
        request, self._request = self._request, None
        if request is None:
            raise RuntimeError("this operation has been awaited already; use its i-form to await it twice")
        done = request._done
        if not done or request._engine.turn_due():
            try:
                if done:
                    yield
                else:
                    yield from request.suspend()
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
    """Withdraw an operation whose end no call reports any more."""
    request.withdraw()
    error = request.lost_message_error()
    if error is not None:
        warn_unraisable(f"a receive that was withdrawn has lost its message: {error}")


def _undone(request: Request[Any], error: BaseException) -> Generator[Any, None, Any]:
    """Withdraw an operation as soon as possible, and raise the error that has ended its await.

    If a message is lost, there is a warning. Its error is not raised in place of a cancellation, because a task that
    catches errors and goes on would then not be cancelled.
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

    When it is withdrawn, a message that it has already matched goes back to the front of the unexpected messages. A
    receive that is dropped without having been awaited is withdrawn as well, with a warning.
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
    """Issue a RuntimeWarning that raises in no call, even where warnings are errors: a finalizer issues it."""
    _UnraisableWarning(text)
