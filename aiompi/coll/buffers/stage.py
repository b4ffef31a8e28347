"""The slots of the buffers of a collective while it runs."""

from __future__ import annotations

from collections.abc import Sequence

from aiompi.coll.block import Block
from aiompi.coll.external import TypedSlot
from aiompi.datatype.buffer.allocation import allocate, joined
from aiompi.datatype.buffer.buffer import Buffer
from aiompi.datatype.external32 import is_native


class Stage:
    """The slots of one run. What is received elsewhere than where it belongs gets there by `finish`."""

    __slots__ = ("_received",)

    def __init__(self) -> None:
        self._received: list[tuple[Buffer, Block]] = []

    def outgoing(self, buffer: Buffer) -> Block:
        """A slot that holds what is in a buffer."""
        return Block(buffer.packed())

    def copied(self, buffer: Buffer) -> Block:
        """The same in memory of its own."""
        slot = self.outgoing(buffer)
        return Block(joined(slot.payload, slot.nbytes))

    def incoming(self, buffer: Buffer) -> Block:
        """A slot for what belongs into a buffer."""
        if buffer.contiguous:
            return Block(buffer.view)
        slot = Block(allocate(buffer.nbytes))
        self._received.append((buffer, slot))
        return slot

    def contribution(self, own: Buffer, places: Sequence[Buffer]) -> tuple[Block, list[Block]]:
        """Slots of `Call.contribution`: own block, and the blocks of all ranks, of which it may be one."""
        slot = self.outgoing(own)
        return slot, [slot if place is own else self.incoming(place) for place in places]

    def finish(self) -> None:
        """Unpack what has been received."""
        for buffer, slot in self._received:
            buffer.unpack(slot.data)


class ExternalStage(Stage):
    """The slots of one run over IMPI clients, which hold external32."""

    __slots__ = ()

    def outgoing(self, buffer: Buffer) -> Block:
        return TypedSlot(buffer.to_external32(), buffer.datatype, buffer.count)

    def incoming(self, buffer: Buffer) -> Block:
        if buffer.contiguous and is_native(buffer.datatype):
            return Block(buffer.view)
        slot = TypedSlot(allocate(buffer.external_nbytes), buffer.datatype, buffer.count)
        self._received.append((buffer, slot))
        return slot

    def finish(self) -> None:
        for buffer, slot in self._received:
            buffer.from_external32(slot.data)
