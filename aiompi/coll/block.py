"""Blocks: what a collective moves, whatever it is."""

from __future__ import annotations

import itertools
from collections.abc import Generator, Sequence
from typing import Any

from aiompi.coll.signature import disagreement
from aiompi.comm import Channel
from aiompi.datatype.buffer.allocation import allocate, copied, joined
from aiompi.engine import NotedReceive, Request
from aiompi.errors import InternalError, InvalidCountError, TruncationError
from aiompi.wire.frame import Payload


class Block:
    """Room for the contribution of one rank, empty or filled.

    With memory it is a block of a user's buffer: what is sent leaves from there, what is received goes there.
    Without, it holds the bytes of a serialised object, of any length; they are passed on as they came.

    Args:
        memory: the block.

    Attributes:
        payload: what the block holds, in pieces, `nbytes` together.
    """

    __slots__ = ("memory", "nbytes", "payload")

    def __init__(self, memory: memoryview | None = None) -> None:
        self.memory = memory
        self.payload: Payload = () if memory is None else (memory,)
        self.nbytes = 0 if memory is None else memory.nbytes

    @classmethod
    def holding(cls, payload: Payload, nbytes: int) -> Block:
        """A block with the bytes of a serialised object."""
        block = cls()
        block.payload, block.nbytes = payload, nbytes
        return block

    @classmethod
    def of(cls, nbytes: int) -> Block:
        """A block with memory of its own."""
        return cls(allocate(nbytes))

    @property
    def data(self) -> memoryview:
        """What the block holds, in one piece; a copy if it was not."""
        if len(self.payload) == 1 and isinstance(self.payload[0], memoryview):
            return self.payload[0]
        return joined(self.payload, self.nbytes)

    def part(self, start: int, stop: int) -> Block:
        """The bytes `start` to `stop - 1` of a block, sharing its memory; for algorithms that are not `any_form`."""
        if self.memory is None:
            raise InternalError("the bytes of an object cannot be cut; the algorithm must not be `any_form`")
        return Block(self.memory[start:stop])

    def cut(self, lengths: Sequence[int]) -> list[Block]:
        """What the block holds in blocks of these lengths, one after the other, sharing its memory.

        Raises:
            InvalidCountError: it holds more, or less.
        """
        if sum(lengths) != self.nbytes:
            raise InvalidCountError(
                f"{self.nbytes} bytes have come where blocks of {sum(lengths)} together are expected; pass the same "
                "amount on all ranks"
            )
        data = self.data
        return [Block(data[start:stop]) for start, stop in itertools.pairwise(itertools.accumulate(lengths, initial=0))]

    def isend(self, channel: Channel, dest: int) -> Request[None]:
        """Start sending what the block holds; until completion the block must stay as it is."""
        return channel.isend(self.payload, self.nbytes, dest)

    def multicast(self, channel: Channel, dests: Sequence[int]) -> list[Request[None]]:
        """Start sending what the block holds to several ranks."""
        return channel.multicast(self.payload, self.nbytes, dests)

    def irecv(self, channel: Channel, source: int) -> BlockReceive:
        """Start receiving into the block, which is filled once the result has been awaited."""
        return BlockReceive(channel, self, source)

    def fill(self, data: memoryview) -> None:
        """Hold these bytes, which are from now on the block's own."""
        self.payload, self.nbytes = (data,), data.nbytes

    def store(self, data: bytes | memoryview) -> None:
        """Hold a copy of these bytes, of a block as many as there is memory for."""
        if self.memory is None:
            self.fill(copied(data))
        else:
            self.memory[:] = data

    def copy(self, other: Block) -> None:
        """Hold what another block holds, in memory of its own."""
        if self is other:
            return
        if self.memory is None:
            self.fill(joined(other.payload, other.nbytes))
        else:
            self.memory[:] = other.data


class BlockReceive:
    """A message that is being received into a block; to be awaited once.

    Attributes:
        receive: the request.

    Raises:
        InvalidRootError, InvalidOpError, OtherError: the sender has called another collective, or with another root or
            operation.
        TruncationError, InvalidCountError: the sender's amount of data is more, or less, than the block's
            (section 4.1: they must be equal).
    """

    __slots__ = ("_channel", "_block", "_source", "receive")

    def __init__(self, channel: Channel, block: Block, source: int) -> None:
        self._channel = channel
        self._block = block
        self._source = source
        self.receive: NotedReceive = channel.irecv(block.memory, source)

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
    """Compare which call something is part of that has come from a rank with our own, where both are known.

    Raises:
        InvalidRootError, InvalidOpError, OtherError: it is another collective, or has another root or operation.
    """
    ours = channel.note
    if ours and theirs and ours != theirs:
        raise disagreement(channel.where, source, theirs, ours) from None


def mismatch(channel: Channel, source: int, came: int, expected: int) -> str:
    """What is wrong when another number of bytes has come from a rank than was expected."""
    return (
        f"{channel.where}: rank {source} sent {came} bytes where {expected} are expected here; pass the same amount on "
        "all ranks, and call the same collectives in the same order"
    )


class Bundle:
    """Blocks that travel in one message, one after the other; sender and receiver know the length of each.

    They are sent from where they are. What is received is copied into its places, unless it is a single block.

    Args:
        blocks: with memory, where something is to be received.
    """

    __slots__ = ("_blocks", "nbytes")

    def __init__(self, blocks: Sequence[Block]) -> None:
        self._blocks = blocks
        self.nbytes = sum(block.nbytes for block in blocks)

    def joined(self) -> Block:
        """What the blocks hold as the message that it is, sharing their memory."""
        return Block.holding([piece for block in self._blocks for piece in block.payload], self.nbytes)

    def isend(self, channel: Channel, dest: int) -> Request[None]:
        """Start sending what the blocks hold; until completion they must stay as they are."""
        return self.joined().isend(channel, dest)

    def irecv(self, channel: Channel, source: int) -> BundleReceive:
        """Start receiving into the blocks, which are filled once the result has been awaited."""
        return BundleReceive(channel, self._blocks, self.nbytes, source)


class BundleReceive:
    """A message that is being received into several blocks; to be awaited once. It raises what `BlockReceive` does."""

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
