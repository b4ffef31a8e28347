"""Tasks: a call for a worker to make, the answer of the worker, and the future that gets the outcome."""

from __future__ import annotations

import dataclasses
import inspect
import itertools
import signal
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import BuiltinFunctionType, FunctionType
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from aiompi.errors import MPIError
from aiompi.objects.remote_error import RemoteTraceback, portable

if TYPE_CHECKING:
    from aiompi.futures.workers import WorkerProxy

#: a function with its arguments, as it is sent to a worker
Call: TypeAlias = tuple[Callable[..., Any], tuple[Any, ...], Mapping[str, Any]]


class Promise(Protocol):
    """The writing side of the future of a task. The future is of `concurrent.futures` or of asyncio."""

    def start(self) -> bool:
        """Mark the task as begun, before it is sent to a worker; return False if it has been cancelled.

        After the failure of the worker this is called again, before the task is sent to another worker.
        """

    def succeed(self, result: Any) -> None: ...

    def fail(self, error: BaseException) -> None: ...


@dataclasses.dataclass(slots=True)
class Task:
    """A call that waits for a worker, or is in progress.

    Attributes:
        call: the call to make.
        promise: gets the outcome.
        is_async: True if the function is a coroutine function.
        failures: number of workers that have failed while they had the task.
        place: (proxy of the worker, number of the call at this worker) while the task is in progress; otherwise None.
    """

    call: Call
    promise: Promise
    is_async: bool = dataclasses.field(init=False)
    failures: int = 0
    place: tuple[WorkerProxy, int] | None = None

    def __post_init__(self) -> None:
        function, args, _ = self.call
        self.is_async = is_async(args[0] if function is apply_to_all else function)


@dataclasses.dataclass(slots=True)
class Success:
    """The answer of a worker whose call has returned."""

    result: Any

    def settle(self, promise: Promise) -> None:
        promise.succeed(self.result)


@dataclasses.dataclass(slots=True)
class Failure:
    """The answer of a worker whose call has raised.

    Attributes:
        error: the exception; if it cannot be pickled, an exception that describes it.
        trace: the traceback in the worker; empty if the master itself has failed to send or receive.
    """

    error: BaseException
    trace: str

    def settle(self, promise: Promise) -> None:
        promise.fail(self.with_trace())

    def with_trace(self) -> BaseException:
        """Return the exception, with the traceback in the worker as its cause."""
        if self.trace:
            self.error.__cause__ = RemoteTraceback(self.trace)
        return self.error


def perform(call: Call) -> Success | Failure:
    """Make a call and return the answer: the result, or an exception. A signal to the worker ends the worker."""
    function, args, kwargs = call
    try:
        return Success(function(*args, **kwargs))
    except BaseException as error:
        if from_signal(error):
            raise
        return failure(error)


def from_signal(error: BaseException) -> bool:
    """Return True for a KeyboardInterrupt or SystemExit that a signal handler has raised in the running function."""
    if not isinstance(error, KeyboardInterrupt | SystemExit):
        return False
    handlers = {getattr(signal.getsignal(number), "__code__", None) for number in signal.valid_signals()} - {None}
    return any(frame.f_code in handlers for frame, _ in traceback.walk_tb(error.__traceback__))


def failure(error: BaseException) -> Failure:
    """Return the answer for an exception."""
    return Failure(*portable(error))


def original_error(error: MPIError) -> BaseException:
    """Return the cause of an error, which an object raised as it was pickled or unpickled, or else the error."""
    cause = error.__cause__
    if cause is None:
        return error
    cause.add_note(str(error))
    return cause


def is_async(function: Any) -> bool:
    """Return True for a function or an object whose call returns a coroutine."""
    if isinstance(function, FunctionType | BuiltinFunctionType):  # `inspect` takes ten times as long
        return isinstance(function, FunctionType) and bool(function.__code__.co_flags & inspect.CO_COROUTINE)
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)


def apply_to_all(function: Callable[..., Any], items: Iterable[tuple[Any, ...]]) -> list[Any]:
    """Make the calls of a chunk of `map` or `starmap`."""
    return [function(*item) for item in items]


def chunks(iterable: Iterable[Iterable[Any]], size: int) -> Iterator[list[tuple[Any, ...]]]:
    """Yield the arguments of calls in lists of at most `size`."""
    items = map(tuple, iterable)
    while chunk := list(itertools.islice(items, size)):
        yield chunk
