"""Requests: operations that have been started (section 3.7)."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextvars import Context, copy_context
from typing import TYPE_CHECKING, Any, Final, Generic, NoReturn, TypeVar

from aiompi.core.awaits import in_words, state
from aiompi.errors import LocalProtocolError, PendingError
from aiompi.status import Status

if TYPE_CHECKING:
    from aiompi.core.progress import Progress
    from aiompi.core.seams import Waiter

#: seconds between two checks whether an operation can be withdrawn
_PAUSE: Final = 1e-3

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Request(Generic[T_co]):
    """An operation in progress; the call that returned it has started it.

    `await request` waits for it and returns its result. Cancelling the awaiting task does not cancel the operation:
    await the request again, or `cancel` it. A request also has the methods of `asyncio.Future` that `asyncio.wait` and
    done callbacks need.

    Attributes:
        record, starter: for a persistent request, the `CallRecord` of the call that has made the request, and the
            communicator of this call. Both are set only while calls are observed; otherwise None.
        traced: handle of the request's record in the trace of this rank; 0 for none.
    """

    __slots__ = (
        "_callbacks",
        "_cancelled",
        "_done",
        "_engine",
        "_error",
        "_error_seen",
        "_value",
        "_waiter",
        "_words",
        "record",
        "starter",
        "traced",
    )

    def __init__(self, engine: Progress) -> None:
        self._engine = engine
        self.record: Any = None
        self.starter: Any = None
        self.traced = 0
        self._done = False
        self._cancelled = self._error_seen = False
        self._error: BaseException | None = None
        self._value: Any = None
        self._callbacks: list[Callable[[Request[Any]], object]] | None = None
        self._waiter: Waiter | None = None
        self._words: tuple[str, Any, int | None, int | None] | None = None

    @property
    def operation(self) -> Request[T_co]:
        """The operation in progress: this request, or for an `AwaitableCall` the request that it awaits."""
        return self

    def describe(self, call: str, comm: Any = None, partner: int | None = None, tag: int | None = None) -> None:
        """Set the parts of `repr`: the call, such as "recv from", the communicator, and the envelope if there is one.

        Args:
            comm: communicator; its `label` is read only when the text is made.
        """
        self._words = call, comm, partner, tag

    def done(self) -> bool:
        """Return True if the operation is complete: it has succeeded, has failed, or was cancelled."""
        return self._done

    def cancelled(self) -> bool:
        """Return True if the operation was cancelled before it had an effect (section 3.8)."""
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
        """Return the error of the completed operation; None if `result` or `exception` has already reported it."""
        return None if self._error_seen else self._error

    def result(self) -> T_co:
        """Return the result of the operation: an object, a Status, or None.

        Raises:
            PendingError: it is not complete.
            aiompi.MPIError: the operation failed.
        """
        if not self._done:
            raise PendingError("the request is not complete: await it, or test done() first")
        if self._error is not None:
            self._error_seen = True
            raise self._error
        return self._value  # type: ignore[no-any-return]

    def outcome(self) -> T_co | None:
        """Return `result`, but None in place of a Status: the callers read `status` if they need it."""
        value = self.result()
        return None if isinstance(value, Status) else value

    @property
    def status(self) -> Status:
        """The status of the completed operation; for a send, the empty status (section 3.7.3)."""
        return Status.of(cancelled=self._cancelled)

    def cancel(self) -> bool:
        """Ask for cancellation (MPI_Cancel, section 3.8). The call is local, and the request must still be completed.

        Returns:
            True if the request was not complete yet.
        """
        return not self._done

    def free(self) -> None:
        """Free the request (MPI_Request_free, section 3.7.3): the operation completes by itself.

        No call can report the operation's error any more, so an error ends the job (section 2.7).
        """
        self._engine.disown(self)

    def add_done_callback(self, callback: Callable[[Request[Any]], object], *, context: Context | None = None) -> None:
        """Call `callback(request)` once the request is complete; the driver calls it later, never inside this method.

        Args:
            context: the context in which the callback runs; a copy of the current one by default.
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
        """Call `callback` inside the call that completes the request. The request must not be complete yet."""
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
        if self.traced and self._engine.recorder is not None:
            self._engine.recorder.ended(self)
        waiter = self._waiter
        if waiter is not None and not waiter.done():
            waiter.set_result(None)
        callbacks = self._callbacks
        if callbacks is not None:
            self._callbacks = None
            for callback in callbacks:
                callback(self)

    def attend(self) -> None:
        """Make progress without further calls from now on. Only requests that `begin` has returned need this call."""

    def follow(self, place: int) -> Request[Any] | None:
        """Return the inner request for which this request waits at present; None if it waits for no other request.

        Args:
            place: number of the place that waits, see `aiompi.core.pure.recorder`.
        """
        return None

    def spin(self) -> bool:
        """Poll for a short while before the driver waits; return True if the operation is complete."""
        return self._done

    def withdraw(self) -> None:
        """Undo the operation as far as possible. Only its owner may call this, and only when it is `quiescent`."""
        self.cancel()

    def outlives_await(self) -> bool:
        """Return True if the operation goes on after its call was dropped without an await; False for a receive."""
        return True

    def lost_message_error(self) -> BaseException | None:
        """Return the error of the message that `withdraw` could not put back and has lost; None if no message is lost.

        The result is None also if a call has already reported the error. The caller reports the returned error.
        """
        return None

    def quiescent(self) -> bool:
        """Return True if no other process writes, or will write, into the operation's memory."""
        return True

    def settle(self) -> Generator[Any, None, None]:
        """Wait until the operation can be withdrawn at once.

        An error that interrupts this wait, such as another cancellation, is raised when the wait is over, because the
        caller must not use the memory earlier.
        """
        interrupt: BaseException | None = None
        while not self.quiescent():
            pause: Request[None] = Request(self._engine)
            self._engine.driver.call_later(_PAUSE, pause.complete)
            try:
                yield from pause.suspend()
            except (GeneratorExit, LocalProtocolError):  # this code cannot wait, for example in another event loop
                raise
            except BaseException as error:
                interrupt = error
        if interrupt is not None:
            try:
                raise interrupt
            finally:
                interrupt = None  # the error refers to its frames, which must not refer to the error

    def suspend(self) -> Generator[Any, None, None]:
        """Wait for completion. A schedule yields the request; other code waits by a waiter of the driver."""
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
        if engine.recorder is not None:
            engine.recorder.waits(self)
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
        if self._done and self._engine.turn_due():
            yield
        while not self._done:  # repeated if a receive was interrupted, and was resumed before this code continued
            if self._engine.stepping:
                yield self  # as `suspend` does, in one step
            else:
                yield from self.suspend()
        return self.result()

    @property
    def __name__(self) -> str:
        """The operation in words, such as "recv from 3, tag 7, on MPI_COMM_WORLD"; tools show it."""
        return str(type(self).__name__) if self._words is None else in_words(*self._words)

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"cannot pickle {type(self).__name__!r} object")

    def __repr__(self) -> str:
        return f"<{self.__name__}: {state(self.operation)}>"


class _Soon:
    """A public done callback: called by the driver, never inside the engine."""

    __slots__ = ("callback", "context")

    def __init__(self, callback: Callable[[Request[Any]], object], context: Context) -> None:
        self.callback = callback
        self.context = context

    def __call__(self, request: Request[Any]) -> None:
        request._engine.driver.call_soon(self.context.run, self.callback, request)
