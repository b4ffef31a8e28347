"""`Talking`: messages, calls, topics and shared dicts for workers that talk to each other; `aiompi.talk` does the work.

This module has only the interfaces of the package `aiompi.talk`. That package depends on the faces, so it is imported
at the first use.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from aiompi.constants import ANY_SOURCE, ANY_TAG
from aiompi.errors import LocalProtocolError, RevokedError
from aiompi.status import Status

if TYPE_CHECKING:
    from aiompi.face.native.communicator import Comm

F = TypeVar("F", bound=Callable[..., Any])


class Received(NamedTuple):
    """A message of `World.messages`.

    Attributes:
        object: the object that was sent.
        source: rank of the sender.
        tag: tag of the message.
    """

    object: Any
    source: int
    tag: int


class Messages(AsyncIterator[Received]):
    """The messages of a communicator, one receive for each step."""

    def __init__(self, comm: Comm, source: int, tag: int) -> None:
        comm.iprobe(source, tag)  # checks the arguments
        self._comm, self._source, self._tag = comm, source, tag

    async def __anext__(self) -> Received:
        comm, status = self._comm, Status()
        try:
            obj = await comm.recv(self._source, self._tag, status)
        except (LocalProtocolError, RevokedError):
            if comm._runtime.finalized or comm._runtime.end_error is not None or comm.Is_revoked():
                raise StopAsyncIteration from None
            raise
        return Received(obj, status.source, status.tag)


class Subscription(Protocol):
    """The publications of a topic, an asynchronous iterator over their objects.

    The iteration ends when this member leaves the world, or by `close`. A subscription that nothing refers to is
    closed.

    Attributes:
        dropped: number of objects that were dropped, because the subscription was full.
    """

    dropped: int

    def __aiter__(self) -> Subscription: ...

    async def __anext__(self) -> Any: ...

    def close(self) -> None:
        """Get no more objects, and drop the objects that wait."""


class Calling(Protocol):
    """The implementation of `Talking`: `aiompi.talk.talk.Talk`."""

    def call(self, rank: int, name: str, args: tuple[Any, ...], timeout: float | None) -> Awaitable[Any]: ...

    def handle(self, function: Callable[..., Any]) -> None: ...

    def publish(self, topic: str, obj: object, confirm: bool) -> Awaitable[None]: ...

    def subscribe(self, topic: str, bound: int, when_full: str) -> Subscription: ...

    def shared_dict(self, name: str) -> SharedDict: ...


class Copies(Protocol):
    """What `SharedDict` reads and writes: `aiompi.talk.shared_dict.Dicts`."""

    copies: dict[str, dict[str, bytes]]

    def loads(self, value: bytes) -> Any: ...

    async def write(self, operation: str, name: str, key: str, value: object, old: object) -> Any: ...


class SharedDict(Mapping[str, Any]):
    """A dict of which every member has a copy. It is read as a dict; writes are awaited.

    All members get the writes in one order. When the await of a write returns, the write is in the copies of all
    members. A read may see a write that its writer still awaits. After the cancellation of a write, it is unknown
    whether the write is made.

    Each read returns a new object, and changing it changes no copy. Keys are texts; values are objects as for `send`.

    Raises:
        InvalidArgumentError: writing: the key is no `str`, or the values cannot be compared or added.
        ProcessFailedError: writing: the team has gone on without this member for a time, or rank 0 has failed in a
            world that belongs to no team. Whether the write was made is unknown.
        RevokedError, LocalProtocolError: writing: this member has left.
    """

    __slots__ = ("_copies", "_name")

    def __init__(self, copies: Copies, name: str) -> None:
        self._copies, self._name = copies, name

    @property
    def _values(self) -> dict[str, bytes]:
        return self._copies.copies.get(self._name, {})

    def __getitem__(self, key: str) -> Any:
        return self._copies.loads(self._values[key])

    def __contains__(self, key: object) -> bool:
        return key in self._values

    def __iter__(self) -> Iterator[str]:
        return iter([*self._values])

    def __len__(self) -> int:
        return len(self._values)

    if not TYPE_CHECKING:  # type checkers would accept assignments

        def __setitem__(self, key: str, value: object) -> None:
            raise TypeError(f"a write to {self!r} is awaited: `await d.set({key!r}, value)`, not `d[{key!r}] = value`")

        def __delitem__(self, key: str) -> None:
            raise TypeError(f"a write to {self!r} is awaited: `await d.delete({key!r})`, not `del d[{key!r}]`")

    def __repr__(self) -> str:
        return f"<shared dict {self._name!r}: {len(self)} keys>"

    async def set(self, key: str, value: object) -> None:
        """Set the value of a key."""
        await self._copies.write("set", self._name, key, value, None)

    async def delete(self, key: str) -> bool:
        """Delete a key.

        Returns:
            True if the key had a value.
        """
        deleted: bool = await self._copies.write("delete", self._name, key, None, None)
        return deleted

    async def compare_and_set(self, key: str, old: object, new: object) -> bool:
        """Set the value of a key if the present value equals another one.

        Args:
            key: the key. The present value of a key without a value counts as None.
            old: the value to compare with, by `==` at rank 0.
            new: the new value.

        Returns:
            True if the value was set.
        """
        equal: bool = await self._copies.write("compare and set", self._name, key, new, old)
        return equal

    async def add(self, key: str, n: int = 1) -> int:
        """Add to the value of a key, an int.

        Args:
            key: the key. Without a value it counts as 0.
            n: what to add.

        Returns:
            The new value.
        """
        total: int = await self._copies.write("add", self._name, key, n, None)
        return total


class Talking:
    """Calls, publications and shared dicts of the members of a world."""

    __slots__ = ()

    @property
    def _talk(self) -> Calling:
        raise NotImplementedError

    def handler(self, function: F) -> F:
        """Let other members call a function by its name; a decorator.

        An `async` function runs as a task, and is cancelled when the caller gives up or fails. A plain function runs in
        the event loop, so it must not block. Calls to a rank wait until the rank has its first handler.

        Args:
            function: gets the arguments of `call`, which returns the result of the function.

        Returns:
            The function.

        Raises:
            InvalidArgumentError: another handler has the name of the function, or `function` is no function.

        Example:
            @world.handler
            async def add(a, b):
                return a + b
        """
        self._talk.handle(function)
        return function

    async def call(self, rank: int, name: str, *args: Any, timeout: float | None = None) -> Any:
        """Call a handler at a member, and return its result.

        The handler is called at most once. If this call raises ProcessFailedError, the handler may have been called or
        not. At most 1,000 calls of this member run at one other member at a time; further calls wait.

        Args:
            rank: the member, which may be this one.
            name: of the handler.
            args: arguments of the handler: objects as for `send`.
            timeout: seconds to wait; None for no limit.

        Returns:
            The result of the handler.

        Raises:
            Exception: the exception of the handler; its `__cause__` has the traceback of the other process as text.
            LookupError: the member has no handler of this name.
            TimeoutError: there is no result after this time.
            ProcessFailedError: the member has failed, or has left.

        Cancelling:
            Cancelling the await, as a time limit does, cancels the handler at the other end.

        Example:
            total = await world.call(1, "add", 20, 22, timeout=5)
        """
        return await self._talk.call(rank, name, args, timeout)

    async def publish(self, topic: str, obj: object, *, confirm: bool = False) -> None:
        """Send an object to all subscriptions of a topic, at all members, this one included.

        Each subscription gets the object at most once, and gets the objects of this member in the order in which it
        published them. A member that stays gets all objects; a member that fails or leaves may miss some. The object
        may be changed after the call. Flow control: the call waits while 256 earlier objects of this member have not
        yet reached the subscriptions of another member.

        Args:
            topic: any text of at most 65,535 bytes.
            obj: an object as for `send`.
            confirm: True to wait until the subscriptions of every member have the object. After that, a failure of this
                member cannot lose the object.

        Raises:
            InvalidArgumentError: the topic is no text, or too long.
            RevokedError, LocalProtocolError: this member has left, or has not joined.

        Cancelling:
            Cancelling the await, as a time limit does, takes nothing back: an object that was sent reaches all members.

        Example:
            await world.publish("news", {"text": "hello"}, confirm=True)
        """
        await self._talk.publish(topic, obj, confirm)

    def subscribe(self, topic: str, *, bound: int = 1000, when_full: str = "wait") -> Subscription:
        """Get the objects that are published under a topic from now on.

        Args:
            topic: the topic of `publish`.
            bound: most objects that wait to be read.
            when_full: "wait" makes publishers wait, "drop oldest" drops the oldest object, and "fail" ends the
                iteration: it yields the objects that wait, and then raises `asyncio.QueueFull`.

        Returns:
            An asynchronous iterator over the objects. Cancelling a step loses no object.

        Raises:
            InvalidArgumentError: the topic, the bound or the policy is wrong.

        Example:
            async for news in world.subscribe("news", bound=100, when_full="drop oldest"):
                print(news["text"])
        """
        return self._talk.subscribe(topic, bound, when_full)

    def shared_dict(self, name: str) -> SharedDict:
        """Return a dict of which every member has a copy.

        A new member of a team has the whole copy when its `async with` begins. In a world that belongs to no team,
        writes wait until each rank has called this or another method of `Talking`.

        Args:
            name: any text. The same name is the same dict at all members.

        Returns:
            The dict. It is empty until a member writes.

        Raises:
            InvalidArgumentError: the name is no `str`.

        Example:
            visits = team.shared_dict("visits")
            await visits.add("/index.html")
            print(visits.get("/index.html", 0))
        """
        return self._talk.shared_dict(name)


class WorldTalking(Talking):
    """`Talking` of a world, and its messages."""

    __slots__ = ()

    def messages(self: Any, source: int = ANY_SOURCE, tag: int = ANY_TAG) -> AsyncIterator[Received]:
        """Iterate over the messages that arrive; the iteration ends when this rank has left the world.

        Each step is a `recv`. Until a step takes it, a message stays with its sender or in the bounded buffers of the
        engine. Cancelling a step loses no message.

        Args:
            source: rank, or ANY_SOURCE.
            tag: 0..TAG_UB, or ANY_TAG.

        Returns:
            An iterator over tuples of object, source and tag.

        Raises:
            InvalidRankError, InvalidTagError: an argument is out of range.
            ProcessFailedError: from a step: a rank that may send has failed.

        Example:
            async for obj, source, tag in world.messages(tag=7):
                print(obj, "from", source)
        """
        return Messages(self, source, tag)
