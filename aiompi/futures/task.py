"""A task: what a worker is asked to call, how it does so, and what becomes of the outcome."""

from __future__ import annotations

import dataclasses
import pickle
import traceback
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol, TypeAlias

from aiompi.errors import Exception as MPIException

#: what a worker is sent: a function with its arguments; None: there will be nothing more to do
Call: TypeAlias = tuple[Callable[..., Any], tuple[Any, ...], Mapping[str, Any]]


class Promise(Protocol):
    """What the outcome of a task is told to: a future of `concurrent.futures` or of asyncio."""

    def start(self) -> bool:
        """The task is about to be sent to a worker; False when it has been cancelled meanwhile."""

    def succeed(self, result: Any) -> None: ...

    def fail(self, error: BaseException) -> None: ...


@dataclasses.dataclass(slots=True)
class Task:
    """A call that waits for a worker, or is under way.

    Attributes:
        call: to be made.
        promise: to be told.
    """

    call: Call
    promise: Promise


@dataclasses.dataclass(slots=True)
class Success:
    """What a worker answers: the result of the call."""

    result: Any

    def tell(self, promise: Promise) -> None:
        promise.succeed(self.result)


@dataclasses.dataclass(slots=True)
class Failure:
    """What a worker answers: the call raised.

    Attributes:
        error: the exception, or one that describes it if it cannot be pickled.
        trace: the traceback at the worker, empty if it was the master that failed.
    """

    error: BaseException
    trace: str

    def tell(self, promise: Promise) -> None:
        promise.fail(self.with_trace())

    def with_trace(self) -> BaseException:
        """The exception, with the traceback at the worker as its cause."""
        if self.trace:
            self.error.__cause__ = RemoteTraceback(self.trace)
        return self.error


class RemoteTraceback(Exception):
    """The cause of an exception that a worker raised: its traceback there."""

    def __init__(self, trace: str) -> None:
        super().__init__(trace)
        self.trace = trace

    def __str__(self) -> str:
        return f'\n"""\n{self.trace}"""'


def perform(call: Call) -> Success | Failure:
    """Make a call. An interrupt ends the worker; whatever else the call raises is the answer."""
    function, args, kwargs = call
    try:
        return Success(function(*args, **kwargs))
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        return failure(error)


def failure(error: BaseException) -> Failure:
    """The answer for an exception."""
    trace = "".join(traceback.format_exception(error))
    # What led to it is in the text. Libraries such as tblib have pickle take it along, with whatever it refers to.
    error = error.with_traceback(None)
    error.__cause__ = error.__context__ = None
    try:
        pickle.loads(pickle.dumps(error))
    except Exception as obstacle:
        error = RuntimeError(f"{type(error).__name__}: {error} (this exception itself cannot be pickled: {obstacle})")
    return Failure(error, trace)


def culprit(error: MPIException) -> BaseException:
    """What the program is to see when a call or an answer is no message: what its own object raised, if that did it."""
    cause = error.__cause__
    if cause is None:
        return error
    cause.add_note(str(error))
    return cause


def apply_to_all(function: Callable[..., Any], items: Iterable[tuple[Any, ...]]) -> list[Any]:
    """What a worker does with a chunk of `map` or `starmap`."""
    return [function(*item) for item in items]
