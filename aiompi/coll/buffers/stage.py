"""The blocks of the buffers of a collective while it runs."""

from __future__ import annotations

from collections.abc import Sequence

from aiompi.coll.block import Block
from aiompi.coll.external import TypedBlock
from aiompi.core.allocation import allocate, joined
from aiompi.datatype.buffer.buffer import Buffer
from aiompi.datatype.external32 import is_native


class Stage:
    """The blocks of one run; `finish` unpacks the received blocks into buffers with gaps."""

    __slots__ = ("_received",)

    def __init__(self) -> None:
        self._received: list[tuple[Buffer, Block]] = []

    def outgoing(self, buffer: Buffer) -> Block:
        """Return a block with the contents of a buffer."""
        return Block(buffer.packed())

    def copied(self, buffer: Buffer) -> Block:
        """Return a block with a copy of the contents of a buffer."""
        block = self.outgoing(buffer)
        return Block(joined(block.payload, block.nbytes))

    def incoming(self, buffer: Buffer) -> Block:
        """Return a block to receive the contents of a buffer."""
        if buffer.contiguous:
            return Block(buffer.view)
        block = Block(allocate(buffer.nbytes))
        self._received.append((buffer, block))
        return block

    def own(self, block: Block, buffer: Buffer) -> Block:
        """A block for what belongs into a buffer and is in a block of this rank already; they may be the same."""
        if buffer.contiguous:
            return self.incoming(buffer)
        self._received.append((buffer, block))
        return block

    def contribution(self, own: Buffer | None, places: Sequence[Buffer]) -> tuple[Block, list[Block]]:
        """Return the own block for `Call.contribution`, and the blocks of all ranks, one of which it may be.

        The own block is empty without a contribution.
        """
        block = Block() if own is None else self.outgoing(own)
        return block, [block if place is own else self.incoming(place) for place in places]

    def finish(self) -> None:
        """Unpack the received blocks."""
        for buffer, block in self._received:
            buffer.unpack(block.data)


class ExternalStage(Stage):
    """The blocks of one run over IMPI clients, which hold external32."""

    __slots__ = ()

    def outgoing(self, buffer: Buffer) -> Block:
        return TypedBlock(buffer.to_external32(), buffer.datatype, buffer.count)

    def incoming(self, buffer: Buffer) -> Block:
        if buffer.contiguous and is_native(buffer.datatype):
            return Block(buffer.view)
        block = TypedBlock(allocate(buffer.external_nbytes), buffer.datatype, buffer.count)
        self._received.append((buffer, block))
        return block

    def finish(self) -> None:
        for buffer, block in self._received:
            buffer.from_external32(block.data)
