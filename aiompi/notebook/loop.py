"""`LoopThread`: a thread with the event loop in which the notebook is a rank."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class LoopThread:
    """An event loop that runs in a separate thread from its construction on."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop
        self._over: asyncio.Event
        begun = threading.Event()
        self._thread = threading.Thread(target=self._live, args=[begun], name="aiompi-notebook", daemon=True)
        self._thread.start()
        begun.wait()

    def _live(self, begun: threading.Event) -> None:
        async def live() -> None:
            self._loop, self._over = asyncio.get_running_loop(), asyncio.Event()
            begun.set()
            await self._over.wait()

        asyncio.run(live())

    def soon(self, function: Callable[..., object], *args: object) -> None:
        """Call a function in the loop, after all functions of earlier calls."""
        self._loop.call_soon_threadsafe(function, *args)

    def begin(self, coroutine: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
        """Begin to run a coroutine in the loop."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    def end(self) -> None:
        """End the loop and its thread."""
        self.soon(self._over.set)
        self._thread.join()
