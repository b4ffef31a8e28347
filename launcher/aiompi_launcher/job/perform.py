"""`Performer`: performs the actions of a state table."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from aiompi.wire import control
from aiompi_launcher.job.actions import Hangup, Send, StartTimer, StopTimer, Timer
from aiompi_launcher.net.control import Connection


class Table(Protocol):
    """A state table: events are method calls; after each event, `actions` returns the actions to perform."""

    def actions(self) -> Sequence[Any]:
        """Return the actions to perform now, in this order."""

    def expired(self, timer: Timer) -> None:
        """A timer has run out."""


class Performer:
    """Passes events to a table, and performs its actions: messages and timers by itself, other actions by handlers.

    Args:
        table: the table.
        handlers: by type of action. A handler for `Send` or `Hangup` replaces that of this class.
        after: called when the actions that followed an event have been performed.

    Attributes:
        links: connections of ranks or members.
    """

    def __init__(
        self,
        table: Table,
        handlers: Mapping[type[Any], Callable[[Any], object]],
        after: Callable[[], object] = lambda: None,
    ) -> None:
        self.links: dict[int, Connection] = {}
        self._table = table
        self._after = after
        self._timers: dict[Timer, asyncio.TimerHandle] = {}
        self._sent: tuple[object, bytes] = (None, b"")  # the last message and its bytes: cards go to many ranks
        self._loop = asyncio.get_running_loop()
        self._handlers: dict[type[Any], Callable[[Any], object]] = {
            Send: self.send,
            Hangup: self.hang_up,
            StartTimer: self._start_timer,
            StopTimer: self._stop_timer,
            **handlers,
        }

    def inform(self, event: Callable[..., object], *args: object) -> None:
        """Call `event`, a method of the table, and perform the actions that the table then returns."""
        event(*args)
        for action in self._table.actions():
            self._handlers[type(action)](action)
        self._after()

    def send(self, action: Send) -> None:
        """Send a message; it is dropped if the rank or member has no connection."""
        if (link := self.links.get(action.number)) is not None:
            if action.message is not self._sent[0]:
                self._sent = action.message, control.encode(action.message)
            link.send(self._sent[1])

    def hang_up(self, action: Hangup) -> None:
        """Close a connection once everything is sent."""
        if (link := self.links.pop(action.number, None)) is not None:
            link.close()

    def _start_timer(self, action: StartTimer) -> None:
        self._timers[action.timer] = self._loop.call_later(action.seconds, self._expire, action.timer)

    def _stop_timer(self, action: StopTimer) -> None:
        if (handle := self._timers.pop(action.timer, None)) is not None:
            handle.cancel()

    def _expire(self, timer: Timer) -> None:
        self._timers.pop(timer, None)
        self.inform(self._table.expired, timer)
