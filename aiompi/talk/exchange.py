"""`Exchange`: the lines of a member to all members of its world. A line continues in the next world of both members."""

from __future__ import annotations

import asyncio
import contextlib
import struct
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, TypeAlias

from aiompi.comm import Communicator
from aiompi.engine import Request
from aiompi.errors import InvalidRankError, MPIError, ProcessFailedError, RemoteProtocolError
from aiompi.talk.line import Line
from aiompi.talk.records import UNRECORDED, Record, Unrecorded

#: tag of all messages on the communicator of an exchange
_TAG: Final = 0
#: seconds between two questions, at the end, whether the other members have all messages
_PAUSE: Final = 0.01

#: name of a member: a number in a world, or a text that no other member has in any world
Name: TypeAlias = int | str
#: takes the messages of one kind
Handler: TypeAlias = Callable[[Line, memoryview], object]


class Exchange:
    """The lines of one member.

    Attributes:
        lines: to the members of the latest world, by rank. This member's own rank has a line, too.
        rank: of this member in that world.
        own: the line to this member itself, None before the first world. A publication to this member itself needs no
            message, and bypasses the line.
        handlers: kind of messages -> its handler. Handlers run inside the engine. A malformed message makes a handler
            raise RemoteProtocolError, `struct.error` or UnicodeDecodeError; this ends the line.
        on_lost: called with each line whose other end is gone, or has broken the protocol.
        on_end: called with the error when no world follows.
        error: why this member receives nothing more; None while it does.
    """

    def __init__(self) -> None:
        self.lines: Sequence[Line] = ()
        self.rank = 0
        self.own: Line | None = None
        self.handlers: dict[int, Handler] = {}
        self.on_lost: list[Callable[[Line], object]] = []
        self.on_end: list[Callable[[Exception], object]] = []
        self.error: Exception | None = None
        self._core: Communicator | None = None
        self._receives: set[Request[memoryview]] = set()
        self._lines: dict[Name, Line] = {}

    def births(self) -> dict[Name, int]:
        """Return the number of the world in which each line began, by the name of the member at its other end."""
        return {name: line.birth for name, line in self._lines.items() if line.error is None}

    def line(self, rank: int) -> Line:
        """Return the line to a rank.

        Raises:
            InvalidRankError: there is no such rank.
            MPIError: this member has no world any more.
        """
        if self.error is not None:
            raise self.error
        if rank not in range(len(self.lines)):
            raise InvalidRankError(f"there is no rank {rank!r} in a world of {len(self.lines)} members")
        return self.lines[rank]

    def record(self, tag: int, name: str) -> Unrecorded:
        """Begin the trace record of a call, and return it; return `UNRECORDED` if this rank records no trace."""
        core = self._core
        if core is None or core.engine.recorder is None:
            return UNRECORDED
        return Record(core, core.engine.recorder, tag, name)

    def rank_of(self, line: Line) -> int | None:
        """Return the rank of the member at the other end of a line; None if that member is not in this world."""
        return self.lines.index(line) if line in self.lines else None

    def attach(self, core: Communicator, names: Sequence[Name], births: Sequence[int | None], birth: int) -> None:
        """Go on in a world.

        Args:
            core: communicator of the members, used only for this.
            names: of the members, by rank; a member keeps its name from world to world.
            births: by rank, the number of the world in which that member's line to this member began; None if that
                member has no line to this member.
            birth: number of this world.
        """
        before, self._lines = self._lines, {}
        for name, theirs in zip(names, births, strict=True):
            line = before.get(name)
            if line is None or line.error is not None or line.birth != theirs:
                line = Line(birth, self._take)
            self._lines[name] = line
        self.lines, self.rank, self._core = [self._lines[name] for name in names], core.rank, core
        self.own = self.lines[core.rank]
        kept = set(self.lines)
        for line in before.values():
            if line not in kept:
                self._lose(line, ProcessFailedError("the member has failed, or has left the job"))
        loop = asyncio.get_running_loop()
        for rank, line in enumerate(self.lines):
            loop.call_soon(self._listen, core, rank)  # later, when the call that needs this line has added its handler
            line.resume(partial(self._transmit, core, rank))

    def begin(self) -> None:
        """Begin, at first and after an end."""
        self.error, self.lines, self._lines = None, (), {}

    async def flush(self) -> None:
        """Wait until all other members have all messages, or are gone."""
        while not all(line.is_idle for line in self._lines.values()):
            for line in self._lines.values():
                line.ask()
            await asyncio.sleep(_PAUSE)

    def detach(self) -> None:
        """Leave the world; messages wait for the next one."""
        self._core = None
        for line in self.lines:
            line.transmit = None
        for receive in [*self._receives]:
            receive.cancel()
        self._receives.clear()

    def end(self, error: Exception) -> None:
        """No world follows: every line ends."""
        if self.error is None:
            self.error = error
            self.detach()
            for line in self._lines.values():
                self._lose(line, error)
            for call in self.on_end:
                call(error)

    def _lose(self, line: Line, error: Exception) -> None:
        if line.error is None:
            line.end(error)
            for call in self.on_lost:
                call(line)

    def _take(self, line: Line, kind: int, data: memoryview) -> None:
        handler = self.handlers.get(kind)
        if handler is None:
            raise RemoteProtocolError(f"a message of the unknown kind {kind} came")
        try:
            handler(line, data)
        except (struct.error, UnicodeDecodeError) as error:
            raise RemoteProtocolError(f"a message of kind {kind} is malformed: {error}") from error

    @staticmethod
    def _transmit(core: Communicator, rank: int, message: bytes) -> None:
        with contextlib.suppress(MPIError):  # the receive from this rank fails, too
            request = core.send((message,), len(message), rank, _TAG)
            if request.done():
                request.exception()
            else:
                request.free()

    def _listen(self, core: Communicator, rank: int) -> None:
        """Take the present and the future messages of a rank."""
        while self._core is core:
            try:
                receive: Request[Any] = core.irecv(None, rank, _TAG, memoryview)
            except MPIError as error:
                self._failed(rank, error)
                return
            if not receive.done():
                self._receives.add(receive)
                receive.when_done(partial(self._received, core, rank))
                return
            if not self._arrived(core, rank, receive):
                return

    def _received(self, core: Communicator, rank: int, receive: Request[Any]) -> None:
        self._receives.discard(receive)
        if self._core is core and self._arrived(core, rank, receive):
            self._listen(core, rank)

    def _arrived(self, core: Communicator, rank: int, receive: Request[Any]) -> bool:
        """Take a message; return False if no further message of its sender follows."""
        error = receive.exception()
        if error is None and not receive.cancelled():
            try:
                self.lines[rank].arrived(receive.result())
            except RemoteProtocolError as broken:
                self._lose(self.lines[rank], broken)
            return self.lines[rank].error is None
        if isinstance(error, MPIError):
            self._failed(rank, error)
        return False

    def _failed(self, rank: int, error: MPIError) -> None:
        """Handle the failure of a receive. If another world follows, that world decides which lines end."""
        raise NotImplementedError


class ExchangeOfWorld(Exchange):
    """The exchange of a world that no other one follows."""

    def _failed(self, rank: int, error: MPIError) -> None:
        if isinstance(error, ProcessFailedError) and rank != self.rank:
            self._lose(self.lines[rank], error)
        else:
            self.end(error)


class ExchangeOfTeam(Exchange):
    """The exchange of a member that goes from world to world."""

    def _failed(self, rank: int, error: MPIError) -> None:
        """Wait for the next world."""
