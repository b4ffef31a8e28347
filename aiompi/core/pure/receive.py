"""The base of a receive: its matching, and the delivery of a message that arrives whole (sections 3.2 and 3.7)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from aiompi.constants import ANY_SOURCE, ANY_TAG
from aiompi.core.allocation import LARGE, copied
from aiompi.core.pure.request import Request
from aiompi.errors import ProcessFailedPendingError
from aiompi.status import Status

if TYPE_CHECKING:
    from aiompi.core.progress import Progress

#: bytes up to which a message is never decoded in steps
SHORT: Final = 16 * 2**10


class PostedReceive(Request[Any]):
    """The base of a receive, which takes messages that arrive whole; see `aiompi.engine.receive.Receive`.

    Args:
        memory: destination of the message, as bytes; None to take a message of any length into new memory.
        source, tag: wanted envelope; the source is a rank of the communicator. Both may be wildcards.
        peer_rank: world rank of `source`, or ANY_SOURCE.
        decode: makes the result from the bytes of the message; without it the result is the Status.
        status: Status that gets the envelope when the result is taken.

    Attributes:
        want_source, want_tag: the wanted envelope.
        source, tag, length: envelope of the message, once matched.
        note: in collectives, the number that the sender has sent beside the message; otherwise 0.
        order: number of the receive in the order of posting; once matched, the arrival number of the message.
        data: the bytes of a message that was received into new memory.
        landing: the `Landing` at which the message arrives.
        unpacks: True if `take` is overridden, because the message goes into memory with gaps.
        stays: True if it stays posted when a possible sender fails.
    """

    __slots__ = (
        "_decoding", "data", "decode", "landing", "length", "matcher", "memory", "note", "order", "peer_rank", "source",
        "status_out", "stays", "tag", "unpacks", "want_source", "want_tag",
    )  # fmt: skip

    def __init__(
        self,
        engine: Progress,
        matcher: Any,
        memory: memoryview | None,
        source: int,
        tag: int,
        peer_rank: int,
        decode: Any = None,
        status: Status | None = None,
    ) -> None:
        super().__init__(engine)
        self.matcher = matcher
        self.memory = memory
        self.want_source = source
        self.want_tag = tag
        self.peer_rank = peer_rank
        self.decode = decode
        self.status_out = status
        self.data: bytearray | memoryview | None = None
        self.landing: Any = None
        self._decoding: Any = None
        self.source = ANY_SOURCE
        self.tag = ANY_TAG
        self.length = self.note = self.order = 0
        self.stays = self.unpacks = False

    @property
    def status(self) -> Status:
        return Status.of(self.source, self.tag, self.length, self._cancelled)

    def result(self) -> Any:
        value = self.outcome()
        return value if self.decode is not None else self.status

    def outcome(self) -> Any:
        if self._done and self.status_out is not None:
            self.status_out.assign(self.status)
        if self._error is not None or not self._done:
            if self._done and type(self._error) is not ProcessFailedPendingError:
                self._let_go()
            return super().result()
        self.memory = None  # an exporter such as bytearray may be resized from now on
        data, decode = self.data, self.decode
        if data is not None and decode is not None:
            self.data = None
            try:
                self._value = decode(data) if self._decoding is None else self._decoding.result()
                self._decoding = None
            except Exception as error:
                self._error = error
                raise
            except BaseException:
                self.data = data  # so that the next call can decode it
                raise
        return self._value

    def outlives_await(self) -> bool:
        return False

    def take(self, source: int, tag: int, payload: memoryview, own: bool = False) -> None:
        """Take a whole message.

        Args:
            own: True if `payload` is memory that now belongs to the receive.
        """
        self.source = source
        self.tag = tag
        self.length = length = len(payload)
        memory = self.memory
        if memory is None:
            try:
                self.data = payload if own else bytearray(payload) if length < LARGE else copied(payload)
            except MemoryError:
                self.out_of_memory(source, tag, length)
                return
            if length > SHORT and self._decodes_in_steps(self.data):
                return
        elif length <= len(memory):
            memory[:length] = payload
        else:
            memory[:] = payload[: len(memory)]
            self._truncated(len(memory))
            return
        self._done = True
        if self._callbacks is not None or self._waiter is not None or self.traced:
            self._finish()

    # Rare cases; see `aiompi.engine.receive.Receive`.

    def resume(self) -> None:
        """Make this receive incomplete again: a failure had interrupted it, and now its message has come."""
        raise NotImplementedError

    def out_of_memory(self, source: int, tag: int, length: int) -> None:
        """Match a message for which this rank has no memory, and fail."""
        raise NotImplementedError

    def _let_go(self) -> None:
        raise NotImplementedError

    def _truncated(self, capacity: int) -> None:
        raise NotImplementedError

    def _decodes_in_steps(self, data: bytearray | memoryview) -> bool:
        raise NotImplementedError
