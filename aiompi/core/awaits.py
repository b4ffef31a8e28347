"""Functions of both forms of the core for awaited operations: words for `repr`, steps, withdrawal, warnings."""

from __future__ import annotations

import functools
import sys
import warnings
from collections.abc import Callable, Generator
from types import FrameType
from typing import TYPE_CHECKING, Any, Final

from aiompi.constants import ANY_SOURCE, ANY_TAG, PROC_NULL

if TYPE_CHECKING:
    from aiompi.core.pure.awaitable import AwaitableCall
    from aiompi.core.pure.request import Request

_PARTNERS: Final = {ANY_SOURCE: "any source", PROC_NULL: "PROC_NULL"}
_KEEP: Final = "make a task of it by asyncio.create_task, or call its form with an i, such as isend or Iwrite_at"

_DEBUG: Final = "PYTHONASYNCIODEBUG=1 shows the line of the call"


def in_words(call: str, comm: Any, partner: int | None, tag: int | None) -> str:
    """Return the words for an operation; for the arguments see `Request.describe`."""
    text = call if partner is None else f"{call} {_PARTNERS.get(partner, partner)}"
    if tag is not None:
        text += ", any tag," if tag == ANY_TAG else f", tag {tag},"
    return text.rstrip(",") if comm is None else f"{text} on {comm.label}"


def state(request: Request[Any]) -> str:
    """Return the word for the state of a request."""
    if not request._done:
        return "pending"
    return "cancelled" if request._cancelled else "failed" if request._error else "done"


def awaited_twice(awaitable: AwaitableCall[Any]) -> RuntimeError:
    """Return the error of a second await."""
    return RuntimeError(f"{awaitable.__name__} has been awaited already. To await it twice, {_KEEP}")


def missing(awaitable: AwaitableCall[Any], name: str, *, awaited: bool) -> AttributeError:
    """Return the error for an attribute that a call does not have. The program may mean an attribute of the result.

    Args:
        name: of the attribute.
        awaited: True if the call has been awaited.
    """
    text = f"'AwaitableCall' object has no attribute {name!r}"
    if not name.startswith("_"):  # tools look for names with an underscore in all objects
        state = "has been awaited" if awaited else "has not been awaited"
        text += f": {awaitable.__name__} {state}, and `await` returns its result"
    return AttributeError(text, name=name, obj=awaitable)


async def entered(awaitable: AwaitableCall[Any]) -> Any:
    """Await a call, and enter its result: `__aenter__` of the call."""
    result = await awaitable
    return await _of_manager(result, "__aenter__")()


async def left(awaitable: AwaitableCall[Any], *error: Any) -> Any:
    """Call `__aexit__` of the result of a call, with the same arguments."""
    return await _of_manager(awaitable.operation.result(), "__aexit__")(*error)


def _of_manager(result: object, method: str) -> Callable[..., Any]:
    found: Callable[..., Any] | None = getattr(result, method, None)
    if found is None:
        raise TypeError(f"{type(result).__name__!r} object does not support the asynchronous context manager protocol")
    return found


def waiting(operation: Request[Any]) -> Generator[Any, None, Any]:
    """Wait for an operation step by step, and undo the operation if the await ends earlier."""
    try:
        if not operation._done:
            yield from operation.suspend()
        elif operation._engine.turn_due():
            yield
    except BaseException as error:
        yield from undone(operation, error)
    return operation.result()


def undone(operation: Request[Any], error: BaseException) -> Generator[Any, None, Any]:
    """Withdraw an operation as soon as possible, and raise the error that has ended its await.

    A lost message is reported by a warning. An exception would replace the cancellation, and a task that catches
    exceptions would then go on in spite of the cancellation.
    """
    if not operation._engine.driver.in_own_thread:
        operation._engine.finalizers.defer(functools.partial(abandon, operation))
        try:
            raise error
        finally:
            del error, operation
    try:
        if not isinstance(error, GeneratorExit):  # a coroutine that is being closed cannot wait any more
            yield from operation.settle()
    finally:
        abandon(operation)
    try:
        raise error
    finally:
        # An error refers to its frames. This frame must refer neither to the error nor to the memory of the operation.
        del error, operation


def abandon(operation: Request[Any]) -> None:
    """Withdraw an operation whose outcome no call will report."""
    operation.withdraw()
    error = operation.lost_message_error()
    if error is not None:
        warn_unraisable(f"a receive that was withdrawn has lost its message: {error}")


def origin(depth: int) -> tuple[tuple[str, int, str], ...]:
    """Return the frames of the program that has made a call, in the format of a coroutine's `cr_origin`.

    Args:
        depth: most frames that are wanted.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and is_ours(frame):
        frame = frame.f_back
    frames: list[tuple[str, int, str]] = []
    while frame is not None and len(frames) < depth:
        frames.append((frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name))
        frame = frame.f_back
    return tuple(frames)


def is_ours(frame: FrameType) -> bool:
    """Return True for a frame of this package."""
    return str(frame.f_globals.get("__name__")).partition(".")[0] == "aiompi"


def forgotten(awaitable: AwaitableCall[Any], depth: int) -> None:
    """Warn, at the line of a call, that the call was never awaited. If the call is a receive, withdraw it.

    Args:
        depth: number of frames from this function to the code that has dropped the request.
    """
    operation, words = awaitable.operation, awaitable.__name__
    try:
        where = sys._getframe(depth)
    except ValueError:
        where = None  # no Python code has dropped the request
    if operation.outlives_await():
        error = operation.unseen_error()
        failed = "" if error is None else f". It has failed: {error}"
        advice = f"Write `await`; to await it later, {_KEEP}{failed}"
        text = f"{words} was never awaited: it goes on, and its errors are lost. {advice}"
    else:
        operation._engine.finalizers.defer(functools.partial(abandon, operation), where)
        text = f"{words} was never awaited, and is withdrawn. Write `await`; to await it later, {_KEEP}"
    if sys.is_finalizing():
        return
    frames = awaitable.cr_origin
    if frames:
        lines = "".join(f"\n  File {file!r}, line {line}, in {name}" for file, line, name in reversed(frames))
        warnings.warn_explicit(f"{text}\nThe call was made at{lines}", RuntimeWarning, *frames[0][:2])
    else:
        warnings.warn(f"{text}. {_DEBUG}", RuntimeWarning, stacklevel=depth + 1)


class _UnraisableWarning:
    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def __del__(self) -> None:
        warnings.warn(self._text, RuntimeWarning, stacklevel=3)


def warn_unraisable(text: str) -> None:
    """Issue a RuntimeWarning from a finalizer. It raises in no call, even where warnings are errors."""
    _UnraisableWarning(text)
