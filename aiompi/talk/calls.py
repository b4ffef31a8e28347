"""`Calls`: request and reply between members."""

from __future__ import annotations

import asyncio
import inspect
import struct
from collections import defaultdict
from collections.abc import Callable
from typing import Any, Final

from aiompi.core.pure import recorder
from aiompi.errors import InvalidArgumentError, InvalidTypeError, MPIError, RemoteProtocolError
from aiompi.objects import Codec
from aiompi.objects.remote_error import RemoteTraceback, portable
from aiompi.talk import spans
from aiompi.talk.exchange import Exchange
from aiompi.talk.line import Line

CALL: Final = 1
CANCEL: Final = 2
REPLY: Final = 3

#: number of a call, and the length of the context that follows, before the content
_CALL: Final = struct.Struct("<QH")
#: most calls of one member that run at another member; further calls wait at the caller
_LIMIT: Final = 1000
#: number of a call, before a reply
_NUMBER: Final = struct.Struct("<Q")


def _message(codec: Codec, content: object, subject: str) -> bytes:
    """Encode values of the program as a message; an error message calls the values `subject`."""
    try:
        return encoded(codec, content)
    except InvalidTypeError as error:
        raise InvalidTypeError(f"{subject} cannot be sent: {error.__cause__ or error}") from error.__cause__


def encoded(codec: Codec, obj: object) -> bytes:
    """Encode an object as a message. The message is a copy, which later changes of the object do not affect."""
    return b"".join(codec.dumps(obj)[0])


class Calls:
    """The calls of a member, and the calls of other members to its handlers."""

    def __init__(self, exchange: Exchange, codec: Codec) -> None:
        self._exchange, self._codec = exchange, codec
        self._functions: dict[str, Callable[..., Any]] = {}
        self._last = 0
        self._calls: dict[int, tuple[Line, asyncio.Future[memoryview]]] = {}  # calls whose handlers may still run
        self._room: defaultdict[Line, asyncio.Semaphore] = defaultdict(lambda: asyncio.Semaphore(_LIMIT))
        self._running: defaultdict[Line, dict[int, asyncio.Task[None]]] = defaultdict(dict)
        exchange.handlers |= {CALL: self._begin, CANCEL: self._cancel, REPLY: self._replied}
        exchange.on_lost.append(self._lost)

    def handle(self, function: Callable[..., Any]) -> None:
        name = getattr(function, "__name__", None)
        if not callable(function) or name is None:
            raise InvalidArgumentError(f"handler({function!r}): expected a function with a name: write @world.handler")
        if name in self._functions:
            raise InvalidArgumentError(f"there is a handler {name!r} already: give this one another name")
        self._functions[name] = function

    # The caller.

    async def call(self, rank: int, name: str, args: tuple[Any, ...], timeout: float | None) -> Any:
        line = self._exchange.line(rank)
        if not isinstance(name, str):
            raise InvalidArgumentError(f"call({rank}, {name!r}): expected the name of a handler, a str")
        request = _message(self._codec, (name, args), f"the arguments of the call of {name!r}")
        with spans.active.of_call(self._exchange.rank, rank, name) as context:
            try:
                async with asyncio.timeout(timeout):
                    with self._exchange.record(recorder.CALL, name) as record:
                        record.meets(rank)
                        record.awaits()
                        reply = await self._reply(line, context, request)
            except TimeoutError:
                raise TimeoutError(f"rank {rank} has not answered a call of {name!r} within {timeout:g} s") from None
            return self._result(reply, rank, name)

    def _result(self, reply: memoryview, rank: int, name: str) -> Any:
        """Return the result that a reply has, or raise its exception."""
        match self._codec.loads(reply):
            case (value, None, _):
                return value
            case (_, str(text), str(trace)):
                raise RuntimeError(text) from RemoteTraceback(trace)
            case (_, BaseException() as error, str(trace)):
                raise error from (RemoteTraceback(trace) if trace else None)
        raise RemoteProtocolError(f"the reply of rank {rank} to a call of {name!r} is malformed")

    async def _reply(self, line: Line, context: bytes, request: bytes) -> memoryview:
        """Send a request, and return the reply."""
        room = self._room[line]
        await room.acquire()
        try:
            if not line.has_room:
                await line.room()
            if line.error is not None:
                raise line.error
        except BaseException:
            room.release()
            raise
        self._last = number = self._last + 1
        future: asyncio.Future[memoryview] = asyncio.get_running_loop().create_future()
        self._calls[number] = line, future
        line.post(CALL, _CALL.pack(number, len(context)) + context + request)
        try:
            return await future
        except asyncio.CancelledError:
            line.post(CANCEL, _NUMBER.pack(number))
            raise

    def _replied(self, line: Line, data: memoryview) -> None:
        number = _NUMBER.unpack_from(data)[0]
        called, future = self._calls.get(number, (None, None))
        if called is line and future is not None:
            del self._calls[number]
            self._room[line].release()
            if not future.done():
                future.set_result(data[_NUMBER.size :])

    def _lost(self, line: Line) -> None:
        """Fail the calls to a member that is gone, and cancel the handlers that run for calls of that member."""
        room = self._room.pop(line, None)
        for number, (other, future) in [*self._calls.items()]:
            if other is line and room is not None and line.error is not None:
                del self._calls[number]
                room.release()
                if not future.done():
                    future.set_exception(line.error)
        for task in self._running.get(line, {}).values():
            task.cancel()

    # The handlers.

    def _begin(self, line: Line, data: memoryview) -> None:
        number, length = _CALL.unpack_from(data)
        context, content = spans.split(data, _CALL.size, length)
        running = self._running[line]
        if number in running:
            raise RemoteProtocolError(f"call {number} came twice")
        if len(running) >= _LIMIT:
            raise RemoteProtocolError(f"more than {_LIMIT:,} calls came that have not ended")
        running[number] = task = asyncio.get_running_loop().create_task(self._perform(line, number, context, content))
        task.add_done_callback(lambda _: self._end(line, number, b""))  # if the task was cancelled before it began

    def _cancel(self, line: Line, data: memoryview) -> None:
        task = self._running.get(line, {}).get(_NUMBER.unpack_from(data)[0])
        if task is not None:
            task.cancel()

    def _end(self, line: Line, number: int, message: bytes) -> None:
        """Reply to a call that has ended, unless the reply has been sent before."""
        running = self._running.get(line, {})
        if running.pop(number, None) is not None:
            line.post(REPLY, _NUMBER.pack(number) + message)
            if not running:
                del self._running[line]

    async def _perform(self, line: Line, number: int, context: bytes, content: memoryview) -> None:
        try:
            name, args = self._codec.loads(content)
            function, rank = self._functions.get(name), self._exchange.rank
            with spans.active.of_handler(rank, name if function else None, context):
                if function is None:
                    there = ", ".join(sorted(self._functions))
                    raise LookupError(
                        f"rank {rank} has {f'the handlers {there}' if there else 'no handlers'}, not {name!r}"
                    )
                result = function(*args)
                if inspect.isawaitable(result):
                    result = await result
            message = _message(self._codec, (result, None, ""), f"the result of the handler {name!r}")
        except asyncio.CancelledError as error:
            message = self._failure(error)  # a caller that has given up drops the message
        except Exception as error:
            message = self._failure(error)
        if not line.has_room:
            await line.room()
        self._end(line, number, message)

    def _failure(self, error: BaseException) -> bytes:
        """Return the reply for an exception; only the text of the exception if pickling is off."""
        text = f"{type(error).__name__}: {error}"
        error, trace = portable(error)
        try:
            return encoded(self._codec, (None, error, trace))
        except MPIError:
            return encoded(self._codec, (None, text, trace))

    async def finish(self) -> None:
        """Wait until the handlers in progress have ended."""
        if tasks := [task for running in self._running.values() for task in running.values()]:
            await asyncio.wait(tasks)
