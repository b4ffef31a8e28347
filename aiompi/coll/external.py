"""Blocks and accumulators whose messages are in external32, for collectives over IMPI clients."""

from __future__ import annotations

from aiompi.coll.accumulator import VectorAccumulator
from aiompi.coll.block import Block
from aiompi.core.allocation import allocate
from aiompi.datatype import external32
from aiompi.datatype.buffer.buffer import Buffer
from aiompi.datatype.datatype import Datatype
from aiompi.datatype.layout.layout import Layout
from aiompi.op import Op


class TypedBlock(Block):
    """Room for items of a known datatype in external32.

    Args:
        memory: of `count` items.
        datatype: type of the items.
    """

    __slots__ = ("_count", "_datatype")

    def __init__(self, memory: memoryview, datatype: Datatype, count: int) -> None:
        super().__init__(memory)
        self._datatype = datatype
        self._count = count

    @property
    def native(self) -> Block:
        """A block with the same items in native representation, in new memory."""
        block = Block.of(self._count * self._datatype.size)
        external32.unpack(self._form, self.data, block.data)
        return block

    def copy_native(self, block: Block) -> None:
        """Convert the items of a native block to external32 in this block."""
        external32.pack(self._form, block.data, 0, self.data)

    @property
    def _form(self) -> Layout:
        return external32.packed_layout(self._datatype, self._count)


class ExternalAccumulator(VectorAccumulator):
    """The contribution and the result of a reduction on buffers between IMPI clients; see `VectorAccumulator`.

    It is combined in native representation, and cannot be cut.
    """

    __slots__ = ("_arrived", "_form")

    def __init__(self, value: Buffer, result: Buffer | None, op: Op) -> None:
        super().__init__(value, result, op)
        self._form: Layout = external32.packed_layout(value.datatype, value.count)
        self._arrived: memoryview | None = None

    @property
    def item_nbytes(self) -> int:
        return self._datatype.external.size

    def block(self) -> Block:
        return TypedBlock(external32.to_external32(self._form, self._value), self._datatype, self.count)

    def incoming(self) -> Block:
        self._arrived = room = allocate(self._form.size)
        return TypedBlock(room, self._datatype, self.count)

    def absorb(self, lower: bool) -> None:
        self._read()
        super().absorb(lower)

    def adopt(self) -> None:
        self._read()
        super().adopt()

    def _read(self) -> None:
        """Convert the received items to native representation; do nothing if they have been converted already."""
        arrived, self._arrived = self._arrived, None
        if arrived is None:
            return
        room = super().incoming().memory
        assert room is not None
        external32.unpack(self._form, arrived, room)

    def become(self, block: Block, count: int) -> None:
        native = Block.of(count * self._datatype.size)
        external32.unpack(external32.packed_layout(self._datatype, count), block.data, native.data)
        super().become(native, count)
