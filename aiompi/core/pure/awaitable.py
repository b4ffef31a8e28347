"""`AwaitableCall`: the request of a call that is awaited directly, as in `await comm.send(obj, dest)`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Coroutine, Generator
from contextlib import AbstractAsyncContextManager
from contextvars import Context
from types import CodeType, FrameType, TracebackType
from typing import TYPE_CHECKING, Any, Final, TypeVar

from aiompi.core.awaits import abandon, awaited_twice, entered, forgotten, left, missing, origin, undone, waiting
from aiompi.core.pure.request import Request
from aiompi.status import Status

T_co = TypeVar("T_co", covariant=True)
U = TypeVar("U")

#: states of an operation that is to be awaited: nothing yet, `await` was called, steps were made, it has ended
FRESH: Final = 0
AWAITED: Final = 1
STEPPED: Final = 2
ENDED: Final = 3


class AwaitableCall(Request[T_co], Coroutine[Any, None, T_co]):
    """The request of a call, owned by the code that awaits the call, as in `await comm.send(obj, dest)`.

    It is awaited once. If the await is cancelled or times out, the operation is withdrawn as far as possible. The
    withdrawal waits until no other process writes into the operation's memory. A warning reports a message that is lost
    in spite of the withdrawal. A second warning reports a call that is never awaited: a receive is then withdrawn, and
    other operations go on.

    For asyncio an `AwaitableCall` is a coroutine: `create_task` accepts the object itself, and a cancellation before
    the first step reaches the operation. For tools that show coroutines it has a coroutine's attributes.

    The engine refers to the operation, but not to this object. So this object notices when the program has dropped it.

    Args:
        operation: what is awaited.
        call, comm: name of the call, and its communicator; by default those of the operation.
    """

    __slots__ = ("_operation", "_state", "_steps", "cr_origin")

    def __init__(self, operation: Request[T_co], call: str | None = None, comm: Any = None) -> None:
        super().__init__(operation._engine)
        self._operation = operation
        self._steps: Any = None  # a generator, once it is needed
        self._state = FRESH
        depth = sys.get_coroutine_origin_tracking_depth()
        #: the frames of the call as (file, line, function), innermost first, where asyncio's debug mode asks for them
        self.cr_origin = origin(depth) if depth else None
        if call is not None:
            self.describe(call, comm)

    @property
    def operation(self) -> Request[T_co]:
        return self._operation

    @property
    def __name__(self) -> str:
        return self._operation.__name__ if self._words is None else super().__name__

    if not TYPE_CHECKING:  # type checkers would accept any attribute

        def __getattr__(self, name: str) -> Any:
            known = name != "_state"  # which an object without `__init__` does not have
            raise missing(self, name, awaited=known and self._state != FRESH)

    # Attributes of a coroutine.

    @property
    def cr_await(self) -> object:
        """What the operation waits for."""
        return None if (steps := self._begun()) is None else steps.gi_yieldfrom

    @property
    def cr_code(self) -> CodeType:
        """The code of the steps in which it waits."""
        return waiting.__code__

    @property
    def cr_frame(self) -> FrameType | None:
        """The frame of these steps; None once the steps have ended."""
        frame: FrameType | None = None if (steps := self._begun()) is None else steps.gi_frame
        return frame

    @property
    def cr_running(self) -> bool:
        """True while a step is made."""
        return (steps := self._begun()) is not None and bool(steps.gi_running)

    @property
    def cr_suspended(self) -> bool:
        """True while it waits."""
        return (steps := self._begun()) is not None and bool(steps.gi_suspended)

    def _begun(self) -> Any:
        if self._steps is None and self._state != ENDED:
            self._steps = waiting(self._operation)
        return self._steps

    def __await__(self) -> Generator[Any, None, T_co]:
        if self._state != FRESH:
            raise awaited_twice(self)
        self._state = AWAITED
        return self  # type: ignore[return-value]

    def __next__(self) -> Any:
        # `__getattr__` makes each access to an attribute slower before Python 3.12. These are as few as can be.
        if self._state == ENDED:
            raise awaited_twice(self)
        self._state = STEPPED
        steps = self._steps
        if steps is None:
            steps = self._steps = waiting(self._operation)
        try:
            return next(steps)
        except StopIteration:
            self._state = ENDED
            raise
        except BaseException:
            self._let_go()
            raise

    def send(self, value: None) -> Any:
        """Run the first or the next step, like a coroutine."""
        return self.__next__()

    def throw(self, *error: Any) -> Any:
        """Raise an error where the coroutine waits, or in place of its first step."""
        try:
            if self._state < STEPPED:
                self._steps = undone(self._operation, _instance(*error))
                return self.__next__()
            steps = self._begun()
            if steps is None:
                raise _instance(*error)
            return steps.throw(*error)
        except BaseException:
            self._let_go()
            raise
        finally:
            del error  # it refers to its frames, which must not refer to it

    async def __aenter__(self: AwaitableCall[AbstractAsyncContextManager[U, bool | None]]) -> U:
        """Await the call, and enter its result: `async with aiompi.File.Open(...) as file`."""
        return await entered(self)  # type: ignore[no-any-return]

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool | None:
        """Leave the result of the call."""
        return await left(self, kind, error, traceback)  # type: ignore[no-any-return]

    def _let_go(self) -> None:
        """Replace the failed or withdrawn operation by a request that has only its description and its outcome.

        A traceback may refer to this object for long, and would keep the operation's memory alive.
        """
        operation, words = self._operation, self.__name__
        self._state = ENDED
        last: Request[T_co] = Request(self._engine)
        self._operation = last
        self._words = words, None, None, None
        last._done, last._cancelled, last._error = operation._done, operation._cancelled, operation._error

    def close(self) -> None:
        """End the coroutine."""
        if self._state < STEPPED:
            abandon(self._operation)
        self._state = ENDED
        if self._steps is not None:
            self._steps.close()

    def __del__(self) -> None:
        if self._state == FRESH:
            forgotten(self, 2)

    # The methods of a request; the operation answers. A program that takes the outcome here need not await the call.

    def done(self) -> bool:
        return self._operation.done()

    def cancelled(self) -> bool:
        return self._operation.cancelled()

    def unseen_error(self) -> BaseException | None:
        return self._operation.unseen_error()

    def exception(self) -> BaseException | None:
        error = self._operation.exception()
        self._state = self._state or ENDED
        return error

    def result(self) -> T_co:
        if self._operation.done():
            self._state = self._state or ENDED
        return self._operation.result()

    @property
    def status(self) -> Status:
        return self._operation.status

    def cancel(self) -> bool:
        return self._operation.cancel()

    def free(self) -> None:
        self._state = self._state or ENDED
        self._operation.free()

    def add_done_callback(self, callback: Callable[[Request[Any]], object], *, context: Context | None = None) -> None:
        self._operation.add_done_callback(callback, context=context)

    def remove_done_callback(self, callback: Callable[[Request[Any]], object]) -> int:
        return self._operation.remove_done_callback(callback)

    def when_done(self, callback: Callable[[Request[Any]], object]) -> None:
        self._operation.when_done(callback)

    def forget(self, callback: Callable[[Request[Any]], object]) -> None:
        self._operation.forget(callback)


def _instance(kind: Any, value: Any = None, _: object = None) -> BaseException:
    """Return the error that the arguments of `throw` stand for."""
    error = kind if value is None else value
    return error if isinstance(error, BaseException) else error()
