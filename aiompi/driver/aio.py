"""Waiting inside an asyncio event loop, the application's own: asyncio's or uvloop's."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from aiompi.engine import Timer, Waiter

T = TypeVar("T")


class AsyncioDriver:
    """Progress comes from the event loop that runs when the driver is first used."""

    background = True

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
        return self._loop

    def waiter(self) -> Waiter:
        return (self._loop or self.loop).create_future()

    def desert(self, deserted: Callable[[], bool] | None) -> None:
        """Nothing: other tasks of this process may still complete what one waits for."""

    def call_soon(self, callback: Callable[..., object], *args: Any) -> None:
        self.loop.call_soon(callback, *args)

    def call_later(self, delay: float, callback: Callable[[], object]) -> Timer:
        return self.loop.call_later(delay, callback)

    def add_reader(self, fd: int, callback: Callable[[], object]) -> None:
        self.loop.add_reader(fd, callback)

    def remove_reader(self, fd: int) -> None:
        if not self.loop.is_closed():
            self.loop.remove_reader(fd)

    def add_writer(self, fd: int, callback: Callable[[], object]) -> None:
        self.loop.add_writer(fd, callback)

    def remove_writer(self, fd: int) -> None:
        if not self.loop.is_closed():
            self.loop.remove_writer(fd)


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in a new event loop, uvloop's when it is installed."""
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        return runner.run(main)


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory
