"""`Topics`: publications to all members, and the subscriptions that get them."""

from __future__ import annotations

import asyncio
import struct
import weakref
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from aiompi.core.pure import recorder
from aiompi.errors import InvalidArgumentError, RemoteProtocolError
from aiompi.objects import Codec
from aiompi.talk import spans
from aiompi.talk.calls import encoded
from aiompi.talk.exchange import Exchange
from aiompi.talk.line import Line
from aiompi.talk.records import UNRECORDED, Unrecorded

PUBLISH: Final = 4
TAKEN: Final = 5

#: the number of a publication, whether its publisher waits until it is taken, and the lengths of topic and context
_HEADER: Final = struct.Struct("<Q?HH")
#: how many publications have been taken; and the number of a publication whose publisher waits, otherwise 0
_TAKEN: Final = struct.Struct("<LQ")

#: most publications of one publisher that a member has not taken
_LIMIT: Final = 256
#: most bytes of the name of a topic
_LONGEST: Final = 65_535
#: number of publications after which a member reports that it has taken them
_BATCH: Final = _LIMIT // 4

#: actions of a subscription that is full
POLICIES: Final = ("wait", "drop oldest", "fail")


class _Publication:
    """A publication for the subscriptions of this member.

    Attributes:
        line: of the publisher.
        number: of the publication if its publisher waits, otherwise 0.
        context: of the span of the publisher.
        content: the object, encoded.
        pending: number of subscriptions that hold the publication back.
    """

    __slots__ = ("content", "context", "line", "number", "pending")

    def __init__(self, line: Line, number: int, context: bytes, content: memoryview) -> None:
        self.line, self.number, self.context, self.content, self.pending = line, number, context, content, 0


def _name_of(topic: str) -> bytes:
    """Return the name of a topic as it travels."""
    name = topic.encode() if isinstance(topic, str) else None
    if name is None or len(name) > _LONGEST:
        raise InvalidArgumentError(f"topic {topic!r:.100}: expected a str of at most {_LONGEST:,} bytes")
    return name


def _current_task() -> asyncio.Task[Any] | None:
    try:
        return asyncio.current_task()
    except RuntimeError:  # no event loop runs
        return None


class Subscription:
    """The publications of a topic, an asynchronous iterator over their objects.

    The iteration ends when this member leaves, or by `close`. A subscription that nothing refers to is closed.

    Attributes:
        dropped: number of objects that were dropped, because the subscription was full.
    """

    def __init__(self, topics: Topics, topic: str, bound: int, when_full: str) -> None:
        if when_full not in POLICIES or bound < 1:
            raise InvalidArgumentError(
                f"subscribe(bound={bound}, when_full={when_full!r}): expected a positive bound, and one of {POLICIES}"
            )
        _name_of(topic)
        self.dropped = 0
        self._topics, self._topic, self._bound, self._when_full = topics, topic, bound, when_full
        self._objects: deque[_Publication] = deque()
        self._beyond: deque[_Publication] = deque()  # their publishers wait
        self._waiting: set[asyncio.Future[None]] = set()  # tasks may share a subscription
        #: task -> ends the span of its object
        self._in_process: dict[asyncio.Task[Any] | None, Callable[[], object]] = {}
        self._error: Exception | None = None
        self._closed = False

    def put(self, publication: _Publication) -> None:
        """Take the object of a publication."""
        if len(self._objects) < self._bound:
            self._objects.append(publication)
        elif self._when_full == "wait":
            publication.pending += 1
            self._beyond.append(publication)
        elif self._when_full == "drop oldest":
            self.dropped += 1
            self._objects.popleft()
            self._objects.append(publication)
        else:
            self.end(asyncio.QueueFull(f"{self._bound} objects of the topic {self._topic!r} wait, and one more came"))
        self._wake()

    def __aiter__(self) -> Subscription:
        return self

    async def __anext__(self) -> Any:
        if self._in_process:
            self._processed()
        with self._topics.exchange.record(recorder.SUBSCRIBE, self._topic) as record:
            while not self._objects:
                if self._error is not None:
                    raise self._error
                if self._closed:
                    raise StopAsyncIteration
                record.awaits()
                future = asyncio.get_running_loop().create_future()
                self._waiting.add(future)
                try:
                    await future
                finally:
                    self._waiting.discard(future)
            publication = self._objects.popleft()
            if record is not UNRECORDED:
                record.meets(self._topics.exchange.rank_of(publication.line))
        if self._beyond:
            more = self._beyond.popleft()
            self._objects.append(more)
            self._topics.release(more)
        obj = self._topics.codec.loads(publication.content)
        end = spans.active.of_object(self._topics.rank, self._topic, publication.context)
        if end is not None:
            self._in_process[_current_task()] = end
        return obj

    def _processed(self) -> None:
        """End the spans of processed objects: those that this task, a task that is done, or no task has taken."""
        current = _current_task()
        for task in [task for task in self._in_process if task is None or task is current or task.done()]:
            self._in_process.pop(task)()

    def close(self) -> None:
        """Get no more objects, and drop the waiting ones."""
        self._processed()
        self._objects.clear()
        self.end(None)

    def end(self, error: Exception | None) -> None:
        """Get no more objects. The iteration yields the waiting objects, and then ends or raises the error."""
        if not self._closed:
            self._closed, self._error = True, error
            self._topics.forget(self._topic, self)
            beyond, self._beyond = self._beyond, deque()
            for publication in beyond:
                self._topics.release(publication)
            self._wake()

    def _wake(self) -> None:
        for future in self._waiting:
            if not future.done():
                future.set_result(None)

    def __del__(self) -> None:
        if hasattr(self, "_closed"):
            self.close()
            for end in self._in_process.values():
                end()


class Topics:
    """The publications of a member, and its subscriptions."""

    def __init__(self, exchange: Exchange, codec: Codec) -> None:
        self.codec = codec
        self.exchange = exchange
        self._subscribers: dict[str, dict[int, Callable[[], Subscription | None]]] = {}
        self._last = 0
        self._under_way: dict[Line, int] = {}  # publications that the other end has not taken
        self._taken: dict[Line, int] = {}  # publications of the other end, taken but not yet reported to it
        self._held: dict[Line, int] = {}  # publications of the other end that subscriptions hold back
        self._awaited: dict[int, tuple[set[Line], asyncio.Future[Line]]] = {}
        self._turn = asyncio.Lock()
        self._before = 0  # calls of `publish` that wait for their turn
        self._moved: asyncio.Future[None] | None = None
        exchange.handlers |= {PUBLISH: self._arrived, TAKEN: self._acknowledged}
        exchange.on_lost.append(self._lost)
        exchange.on_end.append(self._end)

    @property
    def rank(self) -> int:
        """Rank of this member."""
        return self.exchange.rank

    # The publisher.

    async def publish(self, topic: str, obj: object, confirm: bool) -> None:
        name, content = _name_of(topic), encoded(self.codec, obj)
        record = self.exchange.record(recorder.PUBLISH, topic)
        with record, spans.active.of_publication(self.rank, topic) as context:
            if self._before or self._full() is not None:
                await self._room(record)
            if self.exchange.error is not None:
                raise self.exchange.error
            self._last = number = self._last + 1
            data = _HEADER.pack(number, confirm, len(name), len(context)) + name + context + content
            future = self._await(number) if confirm else None
            own, under_way = self.exchange.own, self._under_way
            for line in self.exchange.lines:
                if line is own and future is None and topic not in self._subscribers:
                    continue
                if line.error is None:
                    under_way[line] = under_way.get(line, 0) + 1
                    if line is own:
                        publication = _Publication(line, number if confirm else 0, context, memoryview(content))
                        self._deliver(topic, publication)
                    else:
                        line.post(PUBLISH, data)
            if future is not None:
                try:
                    record.awaits()
                    record.meets(self.exchange.rank_of(await future))
                finally:
                    self._awaited.pop(number, None)

    async def _room(self, record: Unrecorded) -> None:
        """Wait until there is room for a publication. Publications leave in the order of the calls."""
        self._before += 1
        record.awaits()
        try:
            async with self._turn:
                while (line := self._full()) is not None:
                    record.meets(self.exchange.rank_of(line))
                    self._moved = asyncio.get_running_loop().create_future()
                    await self._moved
        finally:
            self._before -= 1

    def _await(self, number: int) -> asyncio.Future[Line]:
        """Return a future that is done when all members have taken a publication; its result is the last one's line."""
        future: asyncio.Future[Line] = asyncio.get_running_loop().create_future()
        self._awaited[number] = {line for line in self.exchange.lines if line.error is None}, future
        return future

    def _full(self) -> Line | None:
        """Return a line without room for a publication; None if all lines have room."""
        under_way = self._under_way
        for line in self.exchange.lines:
            if line.error is None and (not line.has_room or under_way.get(line, 0) >= _LIMIT):
                return line
        return None

    def _acknowledged(self, line: Line, data: memoryview) -> None:
        count, number = _TAKEN.unpack(data)
        under_way = self._under_way.get(line, 0)
        if count > under_way:
            raise RemoteProtocolError(f"{count} publications are said to be taken, of {under_way} under way")
        self._took(line, count, number)

    def _took(self, line: Line, count: int, number: int) -> None:
        """Record that another member has taken publications of this member."""
        self._under_way[line] = self._under_way.get(line, 0) - count
        if number:
            self._confirm(line, number)
        if self._moved is not None:
            self._go_on()

    def _confirm(self, line: Line, number: int) -> None:
        lines, future = self._awaited.get(number, (None, None))
        if lines is not None and future is not None:
            lines.discard(line)
            if not lines and not future.done():
                future.set_result(line)

    def _lost(self, line: Line) -> None:
        """Wait no longer for a member that is gone."""
        self._under_way.pop(line, None)
        self._taken.pop(line, None)
        self._held.pop(line, None)
        for number in [*self._awaited]:
            self._confirm(line, number)
        self._go_on()

    def _go_on(self) -> None:
        if self._moved is not None and not self._moved.done():
            self._moved.set_result(None)

    # The subscriber.

    def subscribe(self, topic: str, bound: int, when_full: str) -> Subscription:
        subscription = Subscription(self, topic, bound, when_full)
        self._subscribers.setdefault(topic, {})[id(subscription)] = weakref.ref(subscription)
        return subscription

    def forget(self, topic: str, subscription: Subscription) -> None:
        """Give a subscription no more publications."""
        subscribers = self._subscribers.get(topic, {})
        subscribers.pop(id(subscription), None)
        if not subscribers:
            self._subscribers.pop(topic, None)

    def release(self, publication: _Publication) -> None:
        """Record that a subscription has taken a publication that it held back."""
        publication.pending -= 1
        if not publication.pending:
            line = publication.line
            self._held[line] = self._held.get(line, 1) - 1
            self._note(line, publication.number)

    def _arrived(self, line: Line, data: memoryview) -> None:
        number, confirm, length, context_length = _HEADER.unpack_from(data)
        end = _HEADER.size + length
        context, content = spans.split(data, end, context_length)
        if self._held.get(line, 0) >= _LIMIT:
            raise RemoteProtocolError(f"more than {_LIMIT} publications came that were not taken")
        topic = str(data[_HEADER.size : end], "utf8")
        self._deliver(topic, _Publication(line, number if confirm else 0, context, content))

    def _deliver(self, topic: str, publication: _Publication) -> None:
        """Give a publication to the subscriptions of this member."""
        for reference in [*self._subscribers.get(topic, {}).values()]:
            subscription = reference()
            if subscription is not None:
                subscription.put(publication)
        line = publication.line
        if publication.pending:
            self._held[line] = self._held.get(line, 0) + 1
        else:
            self._note(line, publication.number)

    def _note(self, line: Line, number: int) -> None:
        """Record that a publication is taken, and tell its publisher now or later."""
        if line.error is not None:
            return
        if line is self.exchange.own:
            self._took(line, 1, number)
            return
        taken = self._taken.get(line, 0) + 1
        if number or taken >= _BATCH:
            line.post(TAKEN, _TAKEN.pack(taken, number))
            taken = 0
        self._taken[line] = taken

    def _end(self, error: Exception) -> None:
        for subscribers in [*self._subscribers.values()]:
            for reference in [*subscribers.values()]:
                subscription = reference()
                if subscription is not None:
                    subscription.end(None)
        for _, future in self._awaited.values():
            if not future.done():
                future.set_exception(error)
        self._go_on()
