"""The thread that makes a call: its identity and name, its locks, and whether an event loop runs in it."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from threading import Lock as Lock
from threading import RLock as RLock
from threading import get_ident as get_ident
from typing import Final

from aiompi.errors import BlockingCallError, LocalProtocolError

#: what no thread has as its identifier
NOBODY: Final = 0
#: the module without which no event loop can run
EVENTS: Final = "asyncio.events"


def name_of_thread(thread: threading.Thread | None = None) -> str:
    """What messages call a thread, the calling one by default."""
    return f"thread {(thread or threading.current_thread()).name!r}"


def looked_up_early() -> LocalProtocolError:
    return LocalProtocolError(
        "this method was looked up before MPI was initialised with threads, and knows nothing of them: look it up again"
    )


def tell_of_failed_threads(tell: Callable[[BaseException], object]) -> None:
    """Have exceptions that nobody catches in a thread told, after they have been shown as ever."""
    show = threading.excepthook

    def excepthook(failure: threading.ExceptHookArgs) -> None:
        show(failure)
        if failure.exc_value is not None:
            tell(failure.exc_value)

    threading.excepthook = excepthook


def refuse_running_loop(call: str, awaitable: str) -> None:
    """Raise if an event loop runs in this thread: a blocking call would stop it.

    Raises:
        BlockingCallError: it does; names the awaitable to use instead.
    """
    events = sys.modules.get(EVENTS)
    try:
        runs = events is not None and events._get_running_loop() is not None
    except AttributeError:
        return  # another thread is just importing it
    if runs:
        raise BlockingCallError(
            f"{call} blocks, and an event loop is running in this thread: use `{awaitable}` of the asyncio face "
            "(aiompi.run, aiompi.init) instead"
        )
