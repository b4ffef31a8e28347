"""Blocks: the data that collectives move, memory of buffers or serialised objects."""

from __future__ import annotations

import itertools
from collections.abc import Generator, Sequence
from typing import Any

from aiompi.coll.signature import disagreement
from aiompi.comm import Channel
from aiompi.core.allocation import allocate, copied, joined
from aiompi.engine import Receive, Request
from aiompi.errors import InternalError, InvalidCountError, TruncationError
from aiompi.wire.frame import Payload


class Block:
    """The contribution of one rank, or room for it.

    A block with memory is a part of a user's buffer: sends read this buffer, and receives write it. A block without
    memory holds the bytes of a serialised object. These bytes may have any length, and are forwarded unchanged.

    Args:
        memory: memory of the block; None for an object.

    Attributes:
        payload: content of the block in pieces, `nbytes` in all.
    """

    __slots__ = ("memory", "nbytes", "payload")

    def __init__(self, memory: memoryview | None = None) -> None:
        self.memory = memory
        self.payload: Payload = () if memory is None else (memory,)
        self.nbytes = 0 if memory is None else memory.nbytes

    @classmethod
    def holding(cls, payload: Payload, nbytes: int) -> Block:
        """Make a block with the bytes of a serialised object."""
        block = cls()
        block.payload, block.nbytes = payload, nbytes
        return block

    @classmethod
    def of(cls, nbytes: int) -> Block:
        """Make a block with new memory."""
        return cls(allocate(nbytes))

    @property
    def data(self) -> memoryview:
        """The content in one piece; a copy if the content has several pieces."""
        if len(self.payload) == 1 and isinstance(self.payload[0], memoryview):
            return self.payload[0]
        return joined(self.payload, self.nbytes)

    def part(self, start: int, stop: int) -> Block:
        """Return a block of the bytes `start` to `stop - 1`, in the same memory. No `any_form` algorithm does this."""
        if self.memory is None:
            raise InternalError("the bytes of an object cannot be cut; the algorithm must not be `any_form`")
        return Block(self.memory[start:stop])

    def cut(self, lengths: Sequence[int]) -> list[Block]:
        """Cut the content into consecutive blocks of these lengths, in the same memory.

        Raises:
            InvalidCountError: the lengths do not add up to the length of the content.
        """
        if sum(lengths) != self.nbytes:
            raise InvalidCountError(
                f"{self.nbytes} bytes have come where blocks of {sum(lengths)} together are expected; pass the same "
                "amount on all ranks"
            )
        data = self.data
        return [Block(data[start:stop]) for start, stop in itertools.pairwise(itertools.accumulate(lengths, initial=0))]

    def isend(self, channel: Channel, dest: int) -> Request[None]:
        """Start sending the content, which must not change until the request is complete."""
        return channel.isend(self.payload, self.nbytes, dest)

    def multicast(self, channel: Channel, dests: Sequence[int]) -> list[Request[None]]:
        """Start sending the content to several ranks."""
        return channel.multicast(self.payload, self.nbytes, dests)

    def irecv(self, channel: Channel, source: int) -> BlockReceive:
        """Start receiving into the block; its content is complete once the result has been awaited."""
        return BlockReceive(channel, self, source)

    def fill(self, data: memoryview) -> None:
        """Set the content to these bytes, which belong to the block from now on."""
        self.payload, self.nbytes = (data,), data.nbytes

    def store(self, data: bytes | memoryview) -> None:
        """Set the content to a copy of these bytes, which must fill the memory."""
        if self.memory is None:
            self.fill(copied(data))
        else:
            self.memory[:] = data

    def copy(self, other: Block) -> None:
        """Set the content to a copy of that of another block."""
        if self is other:
            return
        if self.memory is None:
            self.fill(joined(other.payload, other.nbytes))
        else:
            self.memory[:] = other.data


class BlockReceive:
    """A receive into a block, to be awaited once.

    Attributes:
        receive: the request.

    Raises:
        InvalidRootError, InvalidOpError, OtherError: the sender has called another collective, or has passed another
            root or operation.
        TruncationError, InvalidCountError: the sender has sent more, or fewer, bytes than the block has
            (section 4.1: the amounts must be equal).
    """

    __slots__ = ("_channel", "_block", "_source", "receive")

    def __init__(self, channel: Channel, block: Block, source: int) -> None:
        self._channel = channel
        self._block = block
        self._source = source
        self.receive: Receive = channel.irecv(block.memory, source)

    def __await__(self) -> Generator[Any, None, None]:
        receive, block = self.receive, self._block
        try:
            yield from receive.__await__()
        except TruncationError:
            self._compare()
            raise TruncationError(self._mismatch()) from None
        if receive.note != self._channel.note:
            self._compare()
        if block.memory is not None:
            if receive.length != block.nbytes:
                raise InvalidCountError(self._mismatch())
        elif receive.data is not None:
            block.fill(memoryview(receive.data))

    def _compare(self) -> None:
        compare(self._channel, self._source, self.receive.note)

    def _mismatch(self) -> str:
        return mismatch(self._channel, self._source, self.receive.length, self._block.nbytes)


def compare(channel: Channel, source: int, theirs: int) -> None:
    """Check by their notes that another rank and this rank make the same call. A note of 0 is not checked.

    Raises:
        InvalidRootError, InvalidOpError, OtherError: the other rank has called another collective, or has passed
            another root or operation.
    """
    ours = channel.note
    if ours and theirs and ours != theirs:
        raise disagreement(channel.where, source, theirs, ours) from None


def mismatch(channel: Channel, source: int, came: int, expected: int) -> str:
    """Return the message of the error for a wrong number of bytes from a rank."""
    return (
        f"{channel.where}: rank {source} sent {came} bytes where {expected} are expected here; pass the same amount on "
        "all ranks, and call the same collectives in the same order"
    )


class Bundle:
    """Consecutive blocks in one message; sender and receiver know the length of each.

    Blocks are sent from their own memory. Received bytes are copied into the blocks, unless there is only one block.

    Args:
        blocks: the blocks; those to receive into have memory.
    """

    __slots__ = ("_blocks", "nbytes")

    def __init__(self, blocks: Sequence[Block]) -> None:
        self._blocks = blocks
        self.nbytes = sum(block.nbytes for block in blocks)

    def joined(self) -> Block:
        """Return the contents as one block, in the same memory."""
        return Block.holding([piece for block in self._blocks for piece in block.payload], self.nbytes)

    def isend(self, channel: Channel, dest: int) -> Request[None]:
        """Start sending the contents, which must not change until the request is complete."""
        return self.joined().isend(channel, dest)

    def irecv(self, channel: Channel, source: int) -> BundleReceive:
        """Start receiving into the blocks; their contents are complete once the result has been awaited."""
        return BundleReceive(channel, self._blocks, self.nbytes, source)


class BundleReceive:
    """A receive into several blocks, to be awaited once. It raises the errors of `BlockReceive`."""

    __slots__ = ("_arrival", "_blocks", "_stage")

    def __init__(self, channel: Channel, blocks: Sequence[Block], nbytes: int, source: int) -> None:
        self._blocks = blocks
        self._stage = blocks[0] if len(blocks) == 1 else Block(allocate(nbytes))
        self._arrival = self._stage.irecv(channel, source)

    def __await__(self) -> Generator[Any, None, None]:
        yield from self._arrival.__await__()
        if len(self._blocks) == 1:
            return
        start = 0
        for block in self._blocks:
            block.copy(self._stage.part(start, start + block.nbytes))
            start += block.nbytes
