"""Accumulators: the partial results of a reduction, vectors in memory or Python objects.

Operands are combined in the order of ranks (section 4.9.4), even if the operation commutes, except in a part of a
vector whose result only one rank computes. Results are then the same on all ranks to the last bit. Results are also the
same in each call with the same algorithm and number of ranks.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Sequence
from types import NoneType
from typing import TYPE_CHECKING, Any, Final, Protocol

from aiompi import core
from aiompi.base.lazy import np, numpy_is_loaded
from aiompi.coll.block import Block
from aiompi.coll.shm_sync import has_rounds, share_in_rounds
from aiompi.comm import Channel
from aiompi.core.allocation import allocate, copied, joined
from aiompi.datatype.buffer.buffer import Buffer
from aiompi.datatype.datatype import Datatype
from aiompi.op import Op
from aiompi.op.combine import Combine, combiner
from aiompi.wire.frame import Payload

if TYPE_CHECKING or core.form == "native":
    from aiompi.core._native import SlotExchange, SlotGroup, combines

#: types of immutable objects, which need no copy
UNCHANGING: Final = frozenset({NoneType, bool, int, float, complex, str, bytes})


class ObjectCodec(Protocol):
    """Converts objects to messages and back."""

    def dumps(self, obj: Any) -> tuple[Payload, int]:
        """Return a serialised object as pieces of memory, and their total length in bytes."""

    def loads(self, data: memoryview) -> Any:
        """Return the object of a message. It may keep using the memory."""


class Accumulator(ABC):
    """The partial result of one rank, at first its own contribution.

    Receive the partial result of other ranks into `incoming()`, then `absorb` or `adopt` the result. At that time no
    send of `block()` may be in progress, because `absorb` and `adopt` reuse its memory.
    """

    __slots__ = ()

    @abstractmethod
    def block(self) -> Block:
        """The partial result, for sending."""

    @abstractmethod
    def incoming(self) -> Block:
        """Room for another partial result."""

    @abstractmethod
    def absorb(self, lower: bool) -> None:
        """Combine with the received partial result, that of lower ranks if `lower` is True, else of higher ranks."""

    @abstractmethod
    def adopt(self) -> None:
        """Replace the partial result by the received one."""

    @abstractmethod
    def combine(self, contributions: Sequence[bytes]) -> None:
        """Become the combination of the contributions of some ranks."""


async def exchange(channel: Channel, given: Accumulator, kept: Accumulator, partner: int) -> None:
    """Send `given` to a partner, and combine the partner's partial result with `kept`, which may be `given` itself."""
    arrival = kept.incoming().irecv(channel, partner)
    send = given.block().isend(channel, partner)
    await arrival
    await send
    kept.absorb(lower=partner < channel.rank)


async def scatter_segments(
    channel: Channel,
    accumulator: Accumulator,
    counts: Sequence[int],
    scatter: Callable[[Channel, Sequence[Block] | None, Block, int], Coroutine[Any, Any, None]],
) -> None:
    """Give each rank its segment of the result of rank 0.

    Args:
        counts: items of the segment of each rank.
        scatter: algorithm that sends the segments.
    """
    assert isinstance(accumulator, Vector)
    lengths = [count * accumulator.item_nbytes for count in counts]
    blocks = None if channel.rank else accumulator.block().cut(lengths)
    own = Block.of(lengths[channel.rank])
    await scatter(channel, blocks, own, 0)
    accumulator.become(own, counts[channel.rank])


class Scratch(list[memoryview]):
    """Reusable memory for partial results; usually empty."""

    __slots__ = ()

    def take(self, nbytes: int) -> memoryview:
        for i, memory in enumerate(self):
            if len(memory) >= nbytes:
                del self[i]
                return memory[:nbytes]
        return allocate(nbytes)


class Vector(Accumulator):
    """Packed items, combined in place. Only vectors can be cut into parts.

    Each partial result is made in the memory of one of its two operands. A rank therefore needs room for two results at
    a time; one of them is the destination of the final result.

    Args:
        op: operation, defined for the datatype.
        datatype: type of the items.
        value: contribution of this rank.
        place: destination of the result, which may be `value`; None for any memory.
        own: True if `value` may be changed.
        pool: reusable memory.
    """

    __slots__ = (
        "_combine", "_datatype", "_incoming", "_op", "_ordered", "_own", "_place", "_pool", "_vacant", "_value",
    )  # fmt: skip

    def __init__(
        self,
        op: Op,
        datatype: Datatype,
        value: memoryview,
        place: memoryview | None,
        *,
        own: bool,
        pool: Scratch,
    ) -> None:
        self._op = op
        self._datatype = datatype
        self._value = self._incoming = value
        self._place = place
        self._vacant = place is not None and place is not value
        self._own = own
        self._pool = pool
        self._ordered = True
        self._combine: Combine | None = None

    @property
    def count(self) -> int:
        """Number of items."""
        size = self._datatype.size
        return len(self._value) // size if size else 0

    @property
    def memory(self) -> memoryview:
        """The partial result, to be read."""
        return self._value

    @property
    def item_nbytes(self) -> int:
        """Bytes of an item in a message."""
        return self._datatype.size

    def become(self, block: Block, count: int) -> None:
        """Replace the partial result by a block of `count` items, which may be more or fewer than before."""
        self._value, self._own = block.data, True
        self._place, self._vacant = None, False

    def block(self) -> Block:
        return Block(self._value)

    def incoming(self) -> Block:
        self._incoming = self._room()
        return Block(self._incoming)

    def absorb(self, lower: bool) -> None:
        combine = self._combine
        if combine is None:
            combine = self._combine = combiner(self._op, self._datatype, self.count)
        if lower if self._ordered else self._own:
            self._make_own()
            combine((self._incoming,), self._value)
            self._release(self._incoming)
        else:
            combine((self._value,), self._incoming)
            self.adopt()

    def adopt(self) -> None:
        if self._own:
            self._release(self._value)
        self._value, self._own = self._incoming, True

    def span(self, start: int, stop: int) -> slice:
        """Return the bytes of the items `start` to `stop - 1`."""
        size = self._datatype.size
        return slice(start * size, stop * size)

    def part(self, start: int, stop: int) -> Vector:
        """Return an accumulator of the items `start` to `stop - 1`, which shares the memory.

        While there are parts, use the whole only to `join` or `keep` them.
        """
        place, cut = self._settled_place(), self.span(start, stop)
        target = place[cut]
        value = target if self._value is place else self._value[cut]
        part = Vector(self._op, self._datatype, value, target, own=self._own, pool=self._pool)
        # Only one rank computes the result of a part and sends it to the others, so all get the same bits.
        part._ordered = not self._op.commute
        return part

    def room(self) -> Block:
        """Return room for another partial result. There may be several rooms at a time."""
        return Block(self._pool.take(len(self._value)))

    def take(self, room: Block, lower: bool) -> None:
        """Combine with the partial result received in a room; for `lower` see `absorb`."""
        assert room.memory is not None
        self._incoming = room.memory
        self.absorb(lower)

    def started(self, room: Block) -> Vector:
        """Return an accumulator of the partial result in `room`.

        The caller must not use the accumulator once it has taken the accumulator's block.
        """
        assert room.memory is not None
        return Vector(self._op, self._datatype, room.memory, None, own=True, pool=self._pool)

    def replacement(self) -> Block:
        """Return room to receive a result that replaces the partial result. No `adopt` is needed."""
        return Block(self._replaced())

    def _replaced(self) -> memoryview:
        """Return memory for a result that replaces the partial one."""
        if self._vacant or not self._own:
            self._incoming = self._room()
            self.adopt()
        return self._value

    @property
    def op(self) -> Op:
        """The operation."""
        return self._op

    def goes_in_rounds(self, channel: Channel, whole: int) -> bool:
        """Return True, on all ranks alike, if the core combines vectors of this length and type in rounds.

        Args:
            whole: most bytes of a vector that the ranks combine as a whole.
        """
        dtype = self._datatype.dtype
        if len(self._value) <= whole or not has_rounds(channel) or core.form == "pure":
            return False
        return self._op.is_predefined and dtype is not None and combines(np.empty(1, dtype), self._op)

    async def share_in_rounds(
        self, channel: Channel, begin: Callable[[SlotGroup, Any, Any], SlotExchange | None], *, wanted: bool = True
    ) -> bool:
        """Become the result of a reduction by the core.

        Args:
            begin: function that begins the call. The function takes two arrays: the contribution, which is None if the
                result array holds it; and the result, which is None if this rank gets no result.
            wanted: True if this rank gets the result.

        Returns:
            False, on all ranks alike, if the slots cannot be used: see `aiompi.coll.shm_sync.share_in_rounds`.
        """
        dtype = self._datatype.dtype
        place = self._settled_place() if wanted else None
        value = None if self._value is place else np.require(np.frombuffer(self._value, dtype), requirements="A")
        result = None if place is None else np.require(np.frombuffer(place, dtype), requirements="A")
        done = await share_in_rounds(channel, lambda slots: begin(slots, value, result))
        if done and place is not None and result is not None:
            if not np.may_share_memory(result, np.frombuffer(place, np.uint8)):
                place[:] = result.view(np.uint8).data  # the place is not aligned for NumPy
            self._value, self._own, self._vacant = place, True, False
        return done

    def combine(self, contributions: Sequence[bytes]) -> None:
        result = self._replaced()
        size = self._datatype.size
        combine = combiner(self._op, self._datatype, len(result) // size if size else 0)
        result[:] = contributions[-1]
        # A user function may change an operand that it should only read.
        others = contributions[-2::-1]
        combine(others if self._op.is_predefined else map(copied, others), result)

    def join(self, *parts: Vector) -> None:
        """Take over the results of the parts, which together cover the vector."""
        for part in parts:
            part.settle()
        self._value, self._own, self._vacant = self._settled_place(), True, False

    def keep(self, part: Vector) -> None:
        """Become one of the parts; the others are not needed any more."""
        self._value, self._own = part._value, part._own
        self._place, self._vacant = None, False

    def settle(self) -> None:
        """Move the value to the destination of the result."""
        place = self._settled_place()
        if self._value is not place:
            place[:] = self._value
            self._value, self._own, self._vacant = place, True, False

    def _settled_place(self) -> memoryview:
        """Return the destination of the result; the first call chooses the destination."""
        if self._place is None:
            self._place = self._value if self._own else self._pool.take(len(self._value))
            self._vacant = self._place is not self._value
        return self._place

    def _room(self) -> memoryview:
        if self._vacant and self._place is not None:
            self._vacant = False
            return self._place
        return self._pool.take(len(self._value))

    def _release(self, memory: memoryview) -> None:
        if memory is self._place:
            self._vacant = True
        else:
            self._pool.append(memory)

    def _make_own(self) -> None:
        if not self._own:
            room = self._room()
            room[:] = self._value
            self._value, self._own = room, True


class VectorAccumulator(Vector):
    """The contribution to a reduction of buffers, and its result.

    Args:
        value: contribution of this rank; unchanged unless it is `result`.
        result: destination of the result; None if this rank gets no result. If `result` has as many items as `value`,
            partial results are stored in it, too. Otherwise `result` has as many items as the result of the algorithm.
        op: operation, defined for the datatype.
    """

    __slots__ = ("_home", "_result")

    def __init__(self, value: Buffer, result: Buffer | None, op: Op) -> None:
        self._result = result
        whole = result is not None and result.contiguous and result.count == value.count
        self._home = result.view if whole and result is not None else None
        packed = self._home if value is result and self._home is not None else value.packed()
        own = value is result or not value.contiguous
        super().__init__(op, value.datatype, packed, self._home, own=own, pool=Scratch())

    def finish(self) -> None:
        """Put the result into its destination."""
        if self._result is not None and self._value is not self._home:
            self._result.unpack(self._value)


class ObjectAccumulator(Accumulator):
    """Python objects, combined by calling the operation.

    Args:
        value: contribution of this rank; it is not changed, even if the operation changes its operands.
        op: takes two objects, first the object of lower ranks, and returns their combination.
        codec: makes messages of objects.
    """

    __slots__ = ("_codec", "_given", "_incoming", "_op", "_pure", "_block", "_value")

    def __init__(self, value: Any, op: Callable[[Any, Any], Any], codec: ObjectCodec) -> None:
        self._value = self._given = value
        self._block: Block | None = None  # the message of the partial result, once it is needed
        self._op = Op(op) if isinstance(op, Op) else op
        # The result of a predefined operation on numbers shares no memory with them, unlike a sum of lists.
        plain = numpy_is_loaded() and isinstance(value, np.ndarray | np.generic) and not value.dtype.hasobject
        self._pure = plain and isinstance(op, Op) and op.is_predefined
        self._codec = codec
        self._incoming = Block()

    @property
    def value(self) -> Any:
        """The partial result, which may be the contribution itself."""
        return self._value

    def _become(self, value: Any) -> None:
        self._value, self._block = value, None

    @property
    def own(self) -> Any:
        """The partial result, which the caller may keep and change. A mutable contribution is copied first."""
        if self._value is self._given and type(self._value) not in UNCHANGING:
            block = self.block()
            self._become(self._codec.loads(joined(block.payload, block.nbytes)))
        return self._value

    def block(self) -> Block:
        block = self._block
        if block is None:
            block = self._block = Block.holding(*self._codec.dumps(self._value))
        return block

    def incoming(self) -> Block:
        self._incoming = Block()
        return self._incoming

    def absorb(self, lower: bool) -> None:
        other = self._arrived()
        value = self._value if self._pure else self.own
        self._become(self._op(other, value) if lower else self._op(value, other))

    def adopt(self) -> None:
        self._become(self._arrived())

    def _arrived(self) -> Any:
        """Return the received object."""
        return self._codec.loads(self._incoming.data)

    async def part(self) -> None:
        """Prepare `own` in advance, if the preparation takes long."""

    def combine(self, contributions: Sequence[bytes]) -> None:
        values = [self._codec.loads(copied(message)) for message in contributions]
        while len(values) > 1:  # pairs first until a power of two is left, as in recursive doubling
            pairs = len(values) - (1 << (len(values) - 1).bit_length() - 1)
            values[: 2 * pairs] = [self._op(values[i], values[i + 1]) for i in range(0, 2 * pairs, 2)]
        self._become(values[0])
