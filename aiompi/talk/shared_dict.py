"""`Dicts`: dicts of which every member has a copy.

Rank 0 orders all writes. Rank 0 applies each write to its own copy, and sends the change to all other members. All
members apply the changes in the order of rank 0. The writer gets the result of the write when every member has made the
change or is gone.

When a new world begins, all members take the newest copy of any member. Then each writer sends its unanswered writes
again, to rank 0 of the new world. A copy includes the results of writes, so that rank 0 applies no write twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from functools import partial
from types import NoneType
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

from aiompi.core.pure import recorder
from aiompi.errors import InvalidArgumentError, MPIError, ProcessFailedError, RemoteProtocolError
from aiompi.objects import Codec
from aiompi.talk import spans
from aiompi.talk.calls import encoded
from aiompi.talk.exchange import Exchange, Name
from aiompi.talk.line import Line

WRITE: Final = 6
CHANGE: Final = 7
RESULT: Final = 8

_MALFORMED: Final = "the copies of shared dicts that another member has sent are malformed"

#: encodes messages; the values in them are encoded before
_PLAIN: Final = Codec(pickle=False)

#: of a copy: number of the world of its last change, number of that change in this world, and rank 0 of the world
Version: TypeAlias = tuple[int, int, Name]
#: of a write: its value, and None or the text of an error
Result: TypeAlias = tuple[Any, str | None]

M = TypeVar("M", bound=tuple[Any, ...])


class _Write(NamedTuple):
    """A write, as a writer sends it to rank 0.

    Attributes:
        world: number of the world.
        number: number of the write among the writes of its writer.
        oldest: number of the writer's first write without a result so far.
        operation: "set", "delete", "compare and set" or "add".
        dict: name of the dict.
        key: in the dict.
        value: the new value, encoded; a number for "add".
        old: the value to compare with, encoded.
    """

    world: int
    number: int
    oldest: int
    operation: str
    dict: str
    key: str
    value: bytes | int
    old: bytes


class _Change(NamedTuple):
    """A change, as rank 0 sends it to the other members.

    Attributes:
        world: number of the world.
        place: number of the change in this world, from 1 on.
        writer: name of the member that has sent the write.
        number, oldest, dict, key: see the fields of the write.
        value: the new value, encoded; None if the key is deleted.
        changes: False for a write that changes nothing.
        result: of the write, if it has no error.
        error: the text of its error.
    """

    world: int
    place: int
    writer: Name
    number: int
    oldest: int
    dict: str
    key: str
    value: bytes | None
    changes: bool
    result: Any
    error: str | None


class _Reply(NamedTuple):
    """The reply to a writer: the number of the write, its result, and the text of its error."""

    number: int
    result: Any
    error: str | None


_TYPES: Final[dict[type, tuple[Any, ...]]] = {
    _Write: (int, int, int, str, str, str, (bytes, int), bytes),
    _Change: (int, int, (int, str), int, int, str, str, (bytes, NoneType), bool, object, (str, NoneType)),
    _Reply: (int, object, (str, NoneType)),
}


def _loads(kind: type[M], data: memoryview) -> M:
    """Return a message.

    Raises:
        RemoteProtocolError: the message is malformed.
    """
    try:
        fields = _PLAIN.loads(data)
    except (MPIError, OSError) as error:
        raise RemoteProtocolError(f"a message of a shared dict is malformed: {error}") from error
    types = _TYPES[kind]
    if not isinstance(fields, tuple) or len(fields) != len(types) or not all(map(isinstance, fields, types)):
        raise RemoteProtocolError("a message of a shared dict has wrong fields")
    return kind(*fields)


def _sound(state: object) -> tuple[Any, ...]:
    """Return the copies of another member.

    Raises:
        RemoteProtocolError: the copies are malformed.
    """

    match state:
        case (dict(copies), dict(results), dict(since)):
            values = [pair for each in _dicts(copies, str) for pair in each.items()]
            kept = [pair for each in _dicts(results, int, str) for pair in each.items()]
            if (
                all(type(key) is str and type(value) is bytes for key, value in values)
                and all(type(number) is int and _is_result(result) for number, result in kept)
                and all(type(world) is int for world in since.values())
            ):
                return copies, results, since
    raise RemoteProtocolError(_MALFORMED)


def _dicts(outer: dict[Any, Any], *keys: type) -> Iterable[dict[Any, Any]]:
    if not all(isinstance(key, keys) and isinstance(inner, dict) for key, inner in outer.items()):
        raise RemoteProtocolError(_MALFORMED)
    return outer.values()


def _is_result(result: object) -> bool:
    return isinstance(result, tuple) and len(result) == 2 and isinstance(result[1], str | None)


def newest(versions: Sequence[Version]) -> int | None:
    """Return the rank whose copy all members take, given all members' versions; None if all copies are the same."""
    if len(set(versions)) == 1:
        return None
    return versions.index(max(versions))


class Dicts:
    """The copies of a member, and its writes.

    Args:
        exchange: of the member.
        codec: makes values.

    Attributes:
        copies: name of a dict -> its keys, with encoded values.
        version: of the copies.
    """

    def __init__(self, exchange: Exchange, codec: Codec) -> None:
        self._exchange, self._codec = exchange, codec
        self._names: Sequence[Name] = ()  # of the members, by rank
        self._last = 0
        self._writes: dict[int, tuple[tuple[Any, ...], asyncio.Future[Any]]] = {}
        # Changes that rank 0 has ordered -> the line of the writer, the reply, and the members that must still make the
        # change.
        self._ordered: dict[Version, tuple[Line, _Reply, set[Line]]] = {}
        exchange.handlers |= {WRITE: self._order, CHANGE: self._arrived, RESULT: self._replied}
        exchange.on_lost.append(self._lost)
        exchange.on_end.append(self._fail)
        self.begin()

    def begin(self) -> None:
        """Begin with no dicts, at first and after an end."""
        self.copies: dict[str, dict[str, bytes]] = {}
        self._results: dict[Name, dict[int, Result]] = {}  # results of writes that writers may send again
        self._since: dict[Name, int] = {}  # member -> the world since which it has been in all worlds
        self.version: Version = 0, 0, ""
        self._is_leaving = False

    def leave(self) -> None:
        """Order no more writes: rank 0 of the next world orders them."""
        self._is_leaving = True

    # From world to world.

    def state(self) -> tuple[Any, ...]:
        """Return the copies for members that take them."""
        return self.copies, self._results, self._since

    def adopt(self, world: int, names: Sequence[Name], rank: int, state: Sequence[Any] | None) -> None:
        """Begin to be in a world, before its lines go on.

        Args:
            world: number of the world.
            names: names of the world's members, by rank.
            rank: of this member.
            state: copies of the dicts that all members take; None if the members have equal copies already.

        Raises:
            RemoteProtocolError: the copies are malformed.
        """
        self._names = names
        if state is not None:
            self.copies, self._results, self._since = _sound(state)
        self._since = {name: self._since.get(name, world) for name in names}
        self._results = {name: self._results.get(name, {}) for name in names}
        if self._since[names[rank]] > self.version[0]:  # others have been in a world without this member
            self._fail(ProcessFailedError("this member was cut off: the write has been made, or not"))
        self._ordered.clear()  # writers send again what was under way
        self.version = world, 0, names[0]

    def resume(self) -> None:
        """Send the writes without a result again, when the lines go on."""
        for number, (_, future) in [*self._writes.items()]:
            if not future.done():
                self._send(number)

    def loads(self, value: bytes) -> Any:
        """Return a value."""
        return self._codec.loads(value)

    # The writer.

    async def write(self, operation: str, name: str, key: str, value: object, old: object) -> Any:
        """Write, and return the result when all members have made the change."""
        if type(key) is not str:
            raise InvalidArgumentError(f"shared dict {name!r:.100}: expected a key that is a str, not {key!r:.100}")
        if operation == "add" and type(value) is not int:
            raise InvalidArgumentError(f"add {value!r:.100} to {key!r:.100}: expected an int")
        error = self._exchange.line(0).error
        if error is not None:
            raise error
        content = value if operation == "add" else encoded(self._codec, value)
        request = operation, name, key, content, encoded(self._codec, old)
        self._last = number = self._last + 1
        future = asyncio.get_running_loop().create_future()
        self._writes[number] = request, future
        record = self._exchange.record(recorder.WRITE, name)
        with record, spans.active.of_write(self._exchange.rank, operation, name):
            try:
                self._send(number)
                record.meets(0)
                record.awaits()
                if future.done():  # for a member that is alone, so that its loop of writes lets other tasks run
                    await asyncio.sleep(0)
                value, text = await future
            finally:
                del self._writes[number]
            if text is not None:
                raise InvalidArgumentError(text)
            return value

    def _send(self, number: int) -> None:
        line = self._exchange.lines[0]
        if line.transmit is not None:  # between worlds, `resume` sends the write later
            oldest = next(iter(self._writes))
            line.post(WRITE, encoded(_PLAIN, (self.version[0], number, oldest, *self._writes[number][0])))

    def _replied(self, _line: Line, data: memoryview) -> None:
        reply: _Reply = _loads(_Reply, data)
        _, future = self._writes.get(reply.number, (None, None))
        if future is not None and not future.done():
            future.set_result(reply[1:])

    def _lost(self, line: Line) -> None:
        """Fail all writes when rank 0 is gone and no world follows."""
        if line is self._exchange.lines[0] and line.error is not None:
            self._fail(line.error)

    def _fail(self, error: Exception) -> None:
        for _, future in self._writes.values():
            if not future.done():
                future.set_exception(error)

    # Rank 0.

    def _order(self, line: Line, data: memoryview) -> None:
        """Make a write, and tell all members."""
        write = _loads(_Write, data)
        world, count, owner = self.version
        if write.world != world or self._exchange.rank != 0 or self._is_leaving:
            return  # the write comes again in the next world
        if write.oldest > write.number:
            raise RemoteProtocolError(f"write {write.number} came, whose oldest is {write.oldest}")
        writer = self._names[self._exchange.lines.index(line)]
        value, changes = None, False
        result = self._results[writer].get(write.number)
        if result is None:
            value, changes, result = self._outcome(write)
        change = _Change(
            world, count + 1, writer, write.number, write.oldest, write.dict, write.key, value, changes, *result
        )
        self._make(change)
        message, lines = encoded(_PLAIN, tuple(change)), [*self._exchange.lines]
        version = world, count + 1, owner
        self._ordered[version] = line, _Reply(write.number, *result), {*lines}
        for each in lines[1:]:
            each.post(CHANGE, message, partial(self._made, version, each))
        self._made(version, lines[0])

    def _outcome(self, write: _Write) -> tuple[bytes | None, bool, Result]:
        """Return the new value (None deletes the key), whether the write changes the dict, and the write's result."""
        before = self.copies.get(write.dict, {}).get(write.key)
        try:
            match write.operation, write.value:
                case "set", bytes(value):
                    return value, True, (None, None)
                case "delete", _:
                    return None, before is not None, (before is not None, None)
                case "compare and set", bytes(value):
                    current = None if before is None else self._codec.loads(before)
                    equal = bool(current == self._codec.loads(write.old))
                    return value, equal, (equal, None)
                case "add", int(value):
                    current = 0 if before is None else self._codec.loads(before)
                    if type(current) is not int:
                        raise TypeError(f"{write.key!r} is no int: {current!r:.100}")
                    return encoded(self._codec, current + value), True, (current + value, None)
        except Exception as error:  # an error of the value, whose class may be the program's
            return None, False, (None, f"{write.operation} in {write.dict!r}: {error}")
        raise RemoteProtocolError(f"a member writes by {write.operation!r}")

    def _made(self, version: Version, line: Line, _error: Exception | None = None) -> None:
        """Record that a member has made a change, or is gone."""
        if version in self._ordered:
            writer, reply, missing = self._ordered[version]
            missing.discard(line)
            if not missing:
                del self._ordered[version]
                writer.post(RESULT, encoded(_PLAIN, tuple(reply)))

    # All members.

    def _arrived(self, line: Line, data: memoryview) -> None:
        """Make a change that rank 0 has ordered."""
        change = _loads(_Change, data)
        world, count, _ = self.version
        if change[:2] <= (world, count):
            return  # this copy has had the change since the world began
        is_next = change[:2] == (world, count + 1) and line is self._exchange.lines[0]
        if not is_next or change.writer not in self._results:
            raise RemoteProtocolError(f"change {change.place} of world {change.world} came after {count} of {world}")
        self._make(change)

    def _make(self, change: _Change) -> None:
        self.version = change.world, change.place, self.version[2]
        if change.changes and change.value is not None:
            self.copies.setdefault(change.dict, {})[change.key] = change.value
        elif change.changes:
            self.copies.get(change.dict, {}).pop(change.key, None)
        results = self._results[change.writer]
        results[change.number] = change.result, change.error
        while results and (first := next(iter(results))) < change.oldest:  # the order of results is that of the writes
            del results[first]
