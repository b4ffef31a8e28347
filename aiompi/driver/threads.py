"""Threads and forks: the calling thread and its event loop, calls that may block, descriptors after a fork."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Collection
from threading import Lock as Lock
from threading import RLock as RLock
from threading import get_ident as get_ident
from typing import TYPE_CHECKING, Any, Final, NoReturn

from aiompi.errors import BlockingCallError, LocalProtocolError

if TYPE_CHECKING:
    from aiompi.engine import Driver

#: a number that identifies no thread
NO_THREAD: Final = 0
#: the module that every running event loop has imported
ASYNCIO_EVENTS: Final = "asyncio.events"


def name_of_thread(thread: threading.Thread | None = None) -> str:
    """Return the name of a thread for messages, by default the name of the calling thread."""
    return f"thread {(thread or threading.current_thread()).name!r}"


def call_in_thread(
    driver: Driver, function: Callable[[], Any], done: Callable[[Any, BaseException | None], object]
) -> None:
    """Make a blocking call in a new thread, and then call `done(result, error)` in the driver.

    The thread is a daemon thread instead of a thread of the event loop's executor. Programs fill executors with long
    work, and `asyncio.run` waits for the threads of executors before it returns.
    """

    def call() -> None:
        result: Any = None
        failure: BaseException | None = None
        try:
            result = function()
        except BaseException as error:
            failure = error
        driver.call_soon_threadsafe(lambda: done(result, failure))

    threading.Thread(target=call, name="aiompi-call", daemon=True).start()


def refuse_stale_method() -> NoReturn:
    """Refuse a call of a method that the program looked up before MPI was initialised with threads.

    Such a method does not take the lock by which threads take turns.

    Raises:
        LocalProtocolError: always.
    """
    raise LocalProtocolError(
        "this method was looked up before MPI was initialised with threads, and does not lock: look it up again"
    )


def report_thread_failures(report: Callable[[BaseException], object]) -> None:
    """Call `report` with each uncaught exception of a thread, after the exception has been printed as usual."""
    show = threading.excepthook

    def excepthook(failure: threading.ExceptHookArgs) -> None:
        show(failure)
        if failure.exc_value is not None:
            report(failure.exc_value)

    threading.excepthook = excepthook


def loop_is_running() -> bool:
    """Return True if an event loop is running in the calling thread."""
    events = sys.modules.get(ASYNCIO_EVENTS)
    try:
        return events is not None and events._get_running_loop() is not None
    except AttributeError:
        return False  # another thread is importing asyncio at this moment


def refuse_running_loop(call: str, awaitable: str, otherwise: str = "") -> None:
    """Refuse a blocking call in a thread whose event loop is running, because the call would stop the loop.

    Args:
        call: the call.
        awaitable: the awaitable call to use instead.
        otherwise: another remedy, for the end of the message.

    Raises:
        BlockingCallError: an event loop is running; the message names the awaitable call.
    """
    if loop_is_running():
        raise BlockingCallError(
            f"{call} blocks, and an event loop is running in this thread: use `{awaitable}` of the asyncio face "
            f"(aiompi.run, aiompi.init) instead{otherwise}"
        )


def detach_descriptors(descriptors: Collection[int]) -> None:
    """In the child of a fork, replace descriptors by an unused eventfd.

    If the child kept these descriptors, the parent's connections would stay open after the end of the parent. The
    numbers stay open, because objects refer to them and will close them.

    Raises:
        OSError: the system has no memory for the eventfd.
    """
    if not descriptors:
        return
    os.close(next(iter(descriptors)))  # the next call may need this number, if no other is free
    nowhere = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
    for descriptor in descriptors:
        if descriptor != nowhere:
            os.dup2(nowhere, descriptor, inheritable=False)
    if nowhere not in descriptors:
        os.close(nowhere)
