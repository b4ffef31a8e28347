"""Operations of a random program as the model sees them: their arguments, and how they have ended."""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import pytest

from aiompi.errors import OtherError, TruncationError
from aiompi.objects import Codec
from aiompi.status import Status

from .matching_model import Fate, Mailbox, Message, Probe, Receive
from .worlds import pattern

CODEC: Final = Codec()
FILL: Final = b"\xa5"
GUARD: Final = 5  # bytes around a receive buffer


def message_of(size: int, number: int) -> bytes:
    """Return the message of an object, which any receive can take; an empty message for size 0."""
    if size == 0:
        return b""
    segments, _ = CODEC.dumps(pattern(size, number))
    return b"".join(segments)


class Sending:
    """A send, and the memory that belongs to it until it is complete."""

    def __init__(self, message: Message, mailbox: Mailbox, cut: int) -> None:
        self.message = message
        self.mailbox = mailbox
        self.request: Any = None
        self._memory = bytearray(message.content)
        cut = min(cut, len(self._memory))
        view = memoryview(self._memory)
        self.payload = (view[:cut], view[cut:]) if cut else (view,)

    def give_back(self) -> None:
        """Write into the memory, as the sender may do now."""
        self._memory[:] = b"\xee" * len(self._memory)

    def observe(self) -> None:
        self.give_back()
        cancelled, error = self.request.cancelled(), self.request.exception()
        if error is not None:
            assert isinstance(error, OtherError), error
            assert "posted no receive" in str(error)
        else:
            self.request.result()
        assert self.request.status.Is_cancelled() is cancelled
        self.message.fate = Fate.CANCELLED if cancelled else Fate.REFUSED if error else Fate.SENT


class Objects:
    """Receives messages of any length, as objects."""

    memory = None

    def __init__(self, capacity: int) -> None:
        self.capacity = 2**30

    @staticmethod
    def decode(data: memoryview) -> Any:
        return CODEC.loads(data) if len(data) else None

    def content(self, result: Any, nbytes: int) -> bytes:
        return b"".join(CODEC.dumps(result)[0]) if nbytes else b""

    def check(self) -> None:
        """Do nothing: there is no memory of the user."""


class Buffer:
    """Memory of the receiver, of which a message may touch only the bytes that it fills.

    Args:
        capacity: bytes of the longest message.
        stride: bytes from one byte of the message to the next.
    """

    decode = None

    def __init__(self, capacity: int, stride: int = 1) -> None:
        self.capacity = capacity
        self._stride = stride
        self._whole = bytearray(FILL * (capacity * stride + 2 * GUARD))
        self._content = b""
        self.memory: Any = memoryview(self._whole)[GUARD : GUARD + capacity]

    def _place(self, nbytes: int) -> slice:
        return slice(GUARD, GUARD + nbytes * self._stride, self._stride)

    def content(self, result: Status | None, nbytes: int) -> bytes:
        self._content = bytes(self._whole[self._place(min(nbytes, self.capacity))])
        return self._content

    def check(self) -> None:
        expected = bytearray(FILL * len(self._whole))
        expected[self._place(len(self._content))] = self._content
        assert self._whole == expected, "the receive has written beyond the message"


class Gaps(Buffer):
    """Memory that is not contiguous (protocol aiompi.engine.Scattered)."""

    def __init__(self, capacity: int) -> None:
        super().__init__(capacity, 3)
        self.nbytes = capacity
        self.memory = self

    def unpack(self, payload: memoryview) -> None:
        self._whole[self._place(len(payload))] = payload

    def packed(self) -> memoryview:
        return memoryview(self._whole[self._place(self.nbytes)])


Target: TypeAlias = Objects | Buffer


class Receiving:
    """A receive."""

    def __init__(self, receive: Receive, mailbox: Mailbox, target: Target) -> None:
        self.want = receive
        self.mailbox = mailbox
        self.target = target
        self.request: Any = None
        self.status = Status()

    def observe(self) -> None:
        status, error, result = self.request.status, self.request.exception(), None
        if status.nbytes > self.target.capacity:
            with pytest.raises(TruncationError):
                self.request.result()
        else:
            assert error is None, error
            result = self.request.result()
        assert not self.request.cancelled()
        for other in (self.status, *([result] if isinstance(result, Status) else [])):
            assert (other.source, other.tag, other.nbytes) == (status.source, status.tag, status.nbytes)
            assert not other.Is_cancelled()
        content = self.target.content(result, status.nbytes)
        self.want.found = self.mailbox.lookalikes(status.source, status.tag, status.nbytes, content)


class Probing:
    """A probe; a matched one has a message when it is complete."""

    def __init__(self, probe: Probe, mailbox: Mailbox, box: tuple[int, int]) -> None:
        self.want = probe
        self.mailbox = mailbox
        self.box = box
        self.request: Any = None

    def observe(self) -> None:
        self.settle_for(self.request.result())

    def settle_for(self, result: Any) -> None:
        """Return what it has found."""
        self.message = result
        status = result.envelope() if self.want.consumes else result
        self.want.found = self.mailbox.lookalikes(status.source, status.tag, status.nbytes)
