"""Reductions of large objects in an event loop: objects are encoded and decoded in slices, between turns of the loop.

The algorithms do not differ from those for other accumulators. A partial result is encoded when it is first sent, and
decoded when it is received. Only the operation itself runs in one call.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Coroutine, Generator, Sequence
from typing import Any, Final, Protocol

from aiompi.coll.accumulator import ObjectAccumulator, ObjectCodec
from aiompi.coll.block import Block, BlockReceive
from aiompi.coll.shm_sync import hold_turn
from aiompi.comm import Channel
from aiompi.core.allocation import joined
from aiompi.engine import Request
from aiompi.engine.engine import Engine
from aiompi.engine.schedule import settled
from aiompi.engine.seams import StepwiseCodec
from aiompi.engine.slices import Sliced
from aiompi.wire.frame import Payload

#: length of a message that is not made yet: longer than any slot
_UNKNOWN: Final = sys.maxsize


class StepwiseObjects(ObjectCodec, StepwiseCodec, Protocol):
    """A codec for collectives that works in steps if it is asked to."""


class SlicedAccumulator(ObjectAccumulator):
    """Python objects, the large ones encoded and decoded in slices.

    Args:
        engine: engine of the rank.
        codec: makes messages of objects.
    """

    __slots__ = ("_engine", "_received", "_stepwise")

    def __init__(self, engine: Engine, value: Any, op: Callable[[Any, Any], Any], codec: StepwiseObjects) -> None:
        super().__init__(value, op, codec)
        self._engine = engine
        self._stepwise = codec
        self._received: list[Any] = []
        self._prepare()

    def _prepare(self) -> None:
        if self._stepwise.is_large(self._value):
            self._block = LargeBlock(self._engine, self._stepwise.dumps_in_steps(self._value))

    @property
    def large(self) -> LargeBlock | None:
        """The block, if its object is large."""
        return self._block if isinstance(self._block, LargeBlock) else None

    def block(self) -> Block:
        if self._block is None:
            self._prepare()
        return super().block()

    def incoming(self) -> Block:
        self._received.clear()
        self._incoming = ArrivingBlock(self)
        return self._incoming

    async def take_in(self, data: memoryview) -> None:
        """Decode the received object. If the operation may change this rank's contribution, copy the contribution."""
        self._received.append(await self._decoded(data))
        await self.part()

    async def _decoded(self, data: memoryview) -> Any:
        if self._stepwise.is_large_message(data):
            return await Sliced(self._engine, self._stepwise.loads_in_steps(data))
        return self._codec.loads(data)

    def _arrived(self) -> Any:
        return self._received.pop()

    async def part(self) -> None:
        """Replace a large contribution by a copy that may be changed."""
        if self._value is not self._given or self._pure:
            return
        block = self.large
        if block is not None:
            await block.encode()
            self._become(await self._decoded(joined(block.payload, block.nbytes)))


def encoded_first(
    channel: Channel, accumulator: ObjectAccumulator, run: Callable[[], Coroutine[Any, None, None]]
) -> Coroutine[Any, None, None]:
    """Encode a large contribution, then run an algorithm. Later calls of this rank use slots only after its end."""
    block = accumulator.large if isinstance(accumulator, SlicedAccumulator) else None
    if block is None:
        return run()

    async def encode_and_run() -> None:
        await block.encode()
        await run()

    return hold_turn(channel, encode_and_run)


class LargeBlock(Block):
    """The message of a large object, encoded when it is first sent."""

    __slots__ = ("_encoding", "_engine", "_steps")

    def __init__(self, engine: Engine, steps: Generator[None, None, tuple[Payload, int]]) -> None:
        super().__init__()
        self.nbytes = _UNKNOWN
        self._engine = engine
        self._steps = steps
        self._encoding: Sliced[tuple[Payload, int]] | None = None

    async def encode(self) -> None:
        """Make the message, unless it exists already."""
        if self._encoding is None:
            self._encoding = Sliced(self._engine, self._steps)
        if not self._encoding.done():
            await settled([self._encoding])
        self.payload, self.nbytes = self._encoding.result()

    def isend(self, channel: Channel, dest: int) -> Request[None]:
        if self.nbytes != _UNKNOWN:
            return super().isend(channel, dest)
        return channel.comm.run(self._encode_and_send(channel, dest))

    async def _encode_and_send(self, channel: Channel, dest: int) -> None:
        await self.encode()
        await super().isend(channel, dest)

    def multicast(self, channel: Channel, dests: Sequence[int]) -> list[Request[None]]:
        return [self.isend(channel, dest) for dest in dests]


class ArrivingBlock(Block):
    """Room for the message of an object; the message is decoded as soon as it has arrived."""

    __slots__ = ("accumulator",)

    def __init__(self, accumulator: SlicedAccumulator) -> None:
        super().__init__()
        self.accumulator = accumulator

    def irecv(self, channel: Channel, source: int) -> BlockReceive:
        return ArrivingReceive(channel, self, source)


class ArrivingReceive(BlockReceive):
    """A receive that is complete when the object is decoded."""

    __slots__ = ("_accumulator",)

    def __init__(self, channel: Channel, block: ArrivingBlock, source: int) -> None:
        super().__init__(channel, block, source)
        self._accumulator = block.accumulator

    def __await__(self) -> Generator[Any, None, None]:
        yield from super().__await__()
        yield from self._accumulator.take_in(self._block.data).__await__()
