"""Slots: what a collective moves, whatever it is."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from aiompi.comm import Channel
from aiompi.engine import Request
from aiompi.engine.pt2pt import Receive
from aiompi.errors import InvalidCountError, TruncationError
from aiompi.wire.frame import Payload


class Slot:
    """Room for the contribution of one rank, empty or filled.

    With memory it is a block of a user's buffer: what is sent leaves from there, what is received goes there.
    Without, it holds the bytes of a serialised object, of any length; they are passed on as they came.

    Args:
        memory: the block.

    Attributes:
        payload: what the slot holds, in pieces, `nbytes` together.
    """

    __slots__ = ("memory", "nbytes", "payload")

    def __init__(self, memory: memoryview | None = None) -> None:
        self.memory = memory
        self.payload: Payload = () if memory is None else (memory,)
        self.nbytes = 0 if memory is None else memory.nbytes

    @classmethod
    def holding(cls, payload: Payload, nbytes: int) -> Slot:
        """A slot with the bytes of a serialised object."""
        slot = cls()
        slot.payload, slot.nbytes = payload, nbytes
        return slot

    @property
    def data(self) -> memoryview:
        """What the slot holds, in one piece; a copy if it was not."""
        if len(self.payload) == 1 and isinstance(self.payload[0], memoryview):
            return self.payload[0]
        return memoryview(bytearray().join(self.payload))

    def isend(self, channel: Channel, dest: int) -> Request[None]:
        """Start sending what the slot holds; until completion the slot must stay as it is."""
        return channel.isend(self.payload, self.nbytes, dest)

    def irecv(self, channel: Channel, source: int) -> Arrival:
        """Start receiving into the slot, which is filled once the result has been awaited."""
        return Arrival(channel, self, source)

    def fill(self, data: memoryview) -> None:
        """Hold these bytes, which are from now on the slot's own."""
        self.payload, self.nbytes = (data,), data.nbytes

    def copy(self, other: Slot) -> None:
        """Hold what another slot holds, in memory of its own."""
        if self is other:
            return
        if self.memory is None:
            self.fill(memoryview(bytearray().join(other.payload)))
        else:
            self.memory[:] = other.data


class Arrival:
    """A message that is being received into a slot; to be awaited once.

    Raises:
        TruncationError, InvalidCountError: the sender's amount of data is more, or less, than the slot's
            (section 4.1: they must be equal).
    """

    __slots__ = ("_channel", "_receive", "_slot", "_source")

    def __init__(self, channel: Channel, slot: Slot, source: int) -> None:
        self._channel = channel
        self._slot = slot
        self._source = source
        self._receive: Receive = channel.irecv(slot.memory, source)

    def __await__(self) -> Generator[Any, None, None]:
        receive, slot = self._receive, self._slot
        try:
            yield from receive.__await__()
        except TruncationError:
            raise TruncationError(self._mismatch()) from None
        if slot.memory is not None:
            if receive.length != slot.nbytes:
                raise InvalidCountError(self._mismatch())
        elif receive.data is not None:
            slot.fill(receive.data)

    def _mismatch(self) -> str:
        return (
            f"{self._channel.where}: rank {self._source} sent {self._receive.length} bytes where {self._slot.nbytes} "
            "are expected here; pass the same amount on all ranks, and call the same collectives in the same order"
        )
