"""Buffered sends: copies in memory that the user has attached (section 3.6).

Each message takes `BSEND_OVERHEAD` bytes more than its length, as the model of section 3.6.1 allows. A standard send
sends the copy. The memory of the copy is free again once the message has left this process, or was recalled.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any

from aiompi.constants import BSEND_OVERHEAD
from aiompi.core import Request
from aiompi.engine.schedule import Schedule, settled
from aiompi.errors import InvalidBufferError, OtherError

if TYPE_CHECKING:
    from aiompi.core.progress import Progress
    from aiompi.engine.engine import Engine
    from aiompi.wire.frame import Payload


class AttachedBuffer:
    """Memory for messages in buffered mode (MPI_Buffer_attach, section 3.6).

    Args:
        owner: the user's object, which `Attachment.detach` returns.
        memory: the bytes of `owner`; None to take new memory for each message.
        look: callback that finds out which sends are complete. The buffer calls it before it refuses a message for lack
            of room.

    Attributes:
        pending: the sends of the messages in the buffer.
    """

    def __init__(self, owner: object, memory: memoryview | None, look: Callable[[], object]) -> None:
        self.owner = owner
        self.pending: set[Request[None]] = set()
        self._memory = memory
        self._look = look
        self._starts: list[int] = []  # of the places in use, ascending
        self._ends: list[int] = []
        self._tail = 0  # end of the newest place

    def copy(self, payload: Payload, nbytes: int) -> tuple[memoryview, int]:
        """Copy a message; return the copy and its place.

        Raises:
            InvalidBufferError: there is not enough room.
        """
        if self._memory is None:
            return memoryview(b"".join(payload)), -1
        start = at = self._take(nbytes + BSEND_OVERHEAD)
        for piece in payload:
            self._memory[at : at + len(piece)] = piece
            at += len(piece)
        return self._memory[start:at], start

    def _take(self, nbytes: int) -> int:
        """Take room for a copy. If there is no room, first find out which messages have left."""
        start = self._find(nbytes)
        if start is None:
            self._look()
            start = self._find(nbytes)
        if start is None:
            assert self._memory is not None
            raise InvalidBufferError(
                f"buffered send: the message takes {nbytes} bytes (with BSEND_OVERHEAD, {BSEND_OVERHEAD}), and the "
                f"attached buffer of {len(self._memory)} bytes has no such room: {self._used()} are taken by "
                f"{len(self._starts)} messages that have not left; attach a larger one"
            )
        return start

    def _find(self, nbytes: int) -> int | None:
        """Find room behind the newest copy, otherwise in the first gap from the start that is wide enough."""
        assert self._memory is not None
        last = len(self._starts)
        if last == 0:
            self._tail = 0
        limits = [*self._starts, len(self._memory)]
        newest = bisect_left(self._starts, self._tail)
        gaps = ((index, self._ends[index - 1] if index else 0) for index in range(last + 1))
        for index, begin in ((newest, self._tail), *gaps):
            if limits[index] - begin >= nbytes:
                self._starts.insert(index, begin)
                self._tail = begin + nbytes
                self._ends.insert(index, self._tail)
                return begin
        return None

    def _used(self) -> int:
        return sum(self._ends) - sum(self._starts)

    def hold(self, send: Request[None], start: int) -> None:
        """Keep the place of a message until its send is complete."""
        if send.done():
            self._free(start)
            return
        self.pending.add(send)
        send.when_done(lambda _: self._release(send, start))

    def _release(self, send: Request[None], start: int) -> None:
        self.pending.discard(send)
        self._free(start)

    def _free(self, start: int) -> None:
        if self._memory is not None:
            index = bisect_left(self._starts, start)
            del self._starts[index], self._ends[index]


class Attachment:
    """Holds the buffer that is attached to the process, a session or a communicator (MPI-4.1), if one is attached.

    Attributes:
        buffer: the attached buffer; None if no buffer is attached.
    """

    __slots__ = ("_engine", "buffer")

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.buffer: AttachedBuffer | None = None

    def attach(self, owner: object, memory: memoryview | None) -> None:
        """Give memory to buffered sends (MPI_Buffer_attach, section 3.6).

        Args:
            owner: the user's object.
            memory: the bytes of `owner`; None to take new memory for each message, without a limit.

        Raises:
            InvalidBufferError: a buffer is attached already.
        """
        if self.buffer is not None:
            raise InvalidBufferError("a buffer is attached already; detach it first")
        self.buffer = AttachedBuffer(owner, memory, self._engine.look)

    def detach(self) -> Schedule[object]:
        """Take the memory back (MPI_Buffer_detach). The request completes with the owner once all messages have left.

        Raises:
            InvalidBufferError: no buffer is attached.
        """
        attached = self._attached()
        self.buffer = None
        return Schedule(self._engine, self._detach(attached))

    def flush(self) -> Schedule[None]:
        """Wait until all messages that are now in the buffer have left (MPI_Buffer_flush, MPI-4.1).

        Raises:
            InvalidBufferError: no buffer is attached.
        """
        return Schedule(self._engine, settled(self._attached().pending))

    def _attached(self) -> AttachedBuffer:
        if self.buffer is None:
            raise InvalidBufferError("no buffer is attached")
        return self.buffer

    async def _detach(self, attached: AttachedBuffer) -> object:
        await settled(attached.pending)
        return attached.owner


class BufferedSend(Request[None]):
    """A buffered send: it is complete at once (section 3.4), although its copy may still have to be sent.

    The message can be recalled until the result of the request is taken. A recall makes the request pending until the
    receiver has answered.
    """

    __slots__ = ("_send", "_taken")

    def __init__(self, engine: Progress, send: Request[None]) -> None:
        super().__init__(engine)
        self._send = send
        self._taken = False
        self._done = True

    def result(self) -> None:
        self._taken = self._done
        return super().result()

    def cancel(self) -> bool:
        """Recall the message, unless the result has been taken (sections 3.7.3 and 3.8)."""
        if self._taken or not self._done or not self._send.cancel():
            return False
        self._done = False
        if self._send.done():
            self._decided(self._send)
        else:
            self._send.when_done(self._decided)
        return True

    def _decided(self, send: Request[Any]) -> None:
        self._cancelled = send.cancelled()
        self._finish()


def send_in_steps(
    engine: Progress,
    buffer: AttachedBuffer,
    steps: Generator[None, None, tuple[Payload, int]],
    start: Callable[[Generator[None, None, tuple[Payload, int]]], Request[None]],
) -> Request[None]:
    """Start a buffered send of a large object. The request is complete when the message is in the buffer.

    Args:
        steps: makes the message.
        start: starts a standard send of the message that `steps` makes.
    """
    buffered: Request[None] = Request(engine)

    def copied() -> Generator[None, None, tuple[Payload, int]]:
        payload, nbytes = yield from steps
        copy, place = buffer.copy(payload, nbytes)
        buffer.hold(send, place)
        buffered.complete()
        engine.disown(send)
        return (copy,), nbytes

    send = start(copied())
    if send.done():  # to PROC_NULL
        return send
    buffer.pending.add(send)
    send.when_done(lambda _: buffer.pending.discard(send))
    send.when_done(lambda _: None if buffered.done() else _pass_on(send, buffered))
    return buffered


def _pass_on(send: Request[None], buffered: Request[None]) -> None:
    """Fail a buffered send whose message was never copied into the buffer."""
    buffered.fail(send.exception() or OtherError("the buffered send was cancelled"))
