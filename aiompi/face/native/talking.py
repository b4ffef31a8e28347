"""`Talking`: messages, calls and topics for workers that talk to each other; `aiompi.talk` does the work.

This module knows only the interface of that package, which stands above the faces and is imported at the first use.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
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

    It ends when this member leaves the world, or by `close`. A subscription that nothing refers to is closed.

    Attributes:
        dropped: number of objects that were dropped, because the subscription was full.
    """

    dropped: int

    def __aiter__(self) -> Subscription: ...

    async def __anext__(self) -> Any: ...

    def close(self) -> None:
        """Get no more objects; those that wait are dropped."""


class Calling(Protocol):
    """The implementation of `Talking`: `aiompi.talk.talk.Talk`."""

    def call(self, rank: int, name: str, args: tuple[Any, ...], timeout: float | None) -> Awaitable[Any]: ...

    def handle(self, function: Callable[..., Any]) -> None: ...

    def publish(self, topic: str, obj: object, confirm: bool) -> Awaitable[None]: ...

    def subscribe(self, topic: str, bound: int, when_full: str) -> Subscription: ...


class Talking:
    """Calls and publications between the members of a world."""

    __slots__ = ()

    @property
    def _talk(self) -> Calling:
        raise NotImplementedError

    def handler(self, function: F) -> F:
        """Let other members call a function by its name; a decorator.

        An `async` function runs as a task, and is cancelled when the caller gives up or fails. Another function runs in
        the event loop, so that it must not block. The first handler of a rank begins to answer calls: until then they
        wait.

        Args:
            function: gets the arguments of `call`; its result is that of the call.

        Returns:
            The function.

        Raises:
            InvalidArgumentError: another handler has its name, or it is no function.

        Example:
            @world.handler
            async def add(a, b):
                return a + b
        """
        self._talk.handle(function)
        return function

    async def call(self, rank: int, name: str, *args: Any, timeout: float | None = None) -> Any:
        """Call a handler at a member, and return its result.

        The handler is called at most once. If this call raises ProcessFailedError, it may have been called or not.

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

        Each subscription gets it at most once, in the order of the calls of this member. A member that stays gets all;
        one that fails or leaves may miss some. The object may be changed after the call. The call waits while a
        member has 256 earlier publications of this one that have not reached its subscriptions.

        Args:
            topic: any text of at most 65,535 bytes.
            obj: an object as for `send`.
            confirm: True to wait until the subscriptions of every member have it. Then the failure of this member
                loses it no more.

        Raises:
            InvalidArgumentError: the topic is no text, or too long.
            RevokedError, LocalProtocolError: this member has left, or has not joined.

        Cancelling:
            Cancelling the await, as a time limit does, takes nothing back: an object that is sent reaches all members.

        Example:
            await world.publish("news", {"text": "hello"}, confirm=True)
        """
        await self._talk.publish(topic, obj, confirm)

    def subscribe(self, topic: str, *, bound: int = 1000, when_full: str = "wait") -> Subscription:
        """Get what is published under a topic from now on.

        Args:
            topic: the text that `publish` has.
            bound: most objects that wait to be read.
            when_full: "wait" makes publishers wait, "drop oldest" drops objects, and "fail" ends the iteration by
                `asyncio.QueueFull` after the objects that wait.

        Returns:
            An asynchronous iterator over the objects. Cancelling a step loses none.

        Raises:
            InvalidArgumentError: the topic, the bound or the policy is wrong.

        Example:
            async for news in world.subscribe("news", bound=100, when_full="drop oldest"):
                print(news["text"])
        """
        return self._talk.subscribe(topic, bound, when_full)


class WorldTalking(Talking):
    """`Talking` of a world, and its messages."""

    __slots__ = ()

    def messages(self: Any, source: int = ANY_SOURCE, tag: int = ANY_TAG) -> AsyncIterator[Received]:
        """Iterate over the messages that arrive; the iteration ends when this rank has left the world.

        Each step is a `recv`: the next message stays with its sender or in the bounded buffers of the engine.
        Cancelling a step loses no message.

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
