"""Those who make a communicator together: the members of one group, or of two that are about to meet."""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from typing import Final, TypeAlias

from aiompi.coll.accumulator import ObjectAccumulator
from aiompi.coll.allgather.ring import ring
from aiompi.coll.allreduce.recursive_doubling import recursive_doubling
from aiompi.coll.bcast.binomial import binomial
from aiompi.coll.block import Block
from aiompi.comm import Channel
from aiompi.errors import InvalidCountError
from aiompi.wire.frame import Payload

Numbers: TypeAlias = tuple[int, ...]

#: bytes of one of them in a message
NUMBER: Final = 8


class Union(ABC):
    """Processes that all call the same constructor."""

    __slots__ = ()

    @abstractmethod
    async def maximum(self, *numbers: int) -> Numbers:
        """The largest of the numbers that the processes give, place by place; 0..2**64-1, as many everywhere."""


class OneGroup(Union):
    """The members of one group.

    Args:
        channel: among them.
    """

    __slots__ = ("_channel",)

    def __init__(self, channel: Channel) -> None:
        self._channel = channel

    async def maximum(self, *numbers: int) -> Numbers:
        return await _maximum(self._channel, numbers)


class TwoGroups(Union):
    """The members of two groups, whose leaders can communicate with each other.

    Args:
        local: channel among the own group.
        bridge: channel between the leaders; used only by them.
        leader: rank of the leader in the own group.
        remote_leader: rank of the other leader on the bridge.
    """

    __slots__ = ("_bridge", "_leader", "_local", "_remote_leader")

    def __init__(self, local: Channel, bridge: Channel, leader: int = 0, remote_leader: int = 0) -> None:
        self._local = local
        self._bridge = bridge
        self._leader = leader
        self._remote_leader = remote_leader

    async def maximum(self, *numbers: int) -> Numbers:
        ours = await _maximum(self._local, numbers)
        theirs = unpack(await self.exchange(pack(ours)))
        return larger(ours, theirs)

    async def local_maximum(self, *numbers: int) -> Numbers:
        """The same for the own group alone."""
        return await _maximum(self._local, numbers)

    async def exchange(self, data: bytes) -> bytes:
        """What the leader of the other group gives.

        Args:
            data: for the other group; that of the leader counts.
        """
        answer = Block()
        if self._local.rank == self._leader:
            arrival = answer.irecv(self._bridge, self._remote_leader)
            await self._bridge.isend((data,), len(data), self._remote_leader)
            await arrival
        await binomial(self._local, answer, self._leader)
        return bytes(answer.data)


async def collect(channel: Channel, data: bytes) -> list[bytes]:
    """What each process of a group gives, of any length, in rank order."""
    slots = [Block() for _ in range(channel.size)]
    slots[channel.rank] = Block.holding((data,), len(data))
    await ring(channel, slots)
    return [bytes(slot.data) for slot in slots]


def pack(numbers: Numbers) -> bytes:
    """Numbers as unsigned integers of 8 bytes."""
    return struct.pack(f">{len(numbers)}Q", *numbers)


def unpack(data: bytes | memoryview) -> Numbers:
    """Undo `pack`.

    Raises:
        InvalidCountError: no message of numbers.
    """
    count, rest = divmod(len(data), NUMBER)
    if rest:
        raise InvalidCountError(f"{len(data)} bytes have come where numbers of {NUMBER} bytes each are expected")
    return struct.unpack(f">{count}Q", data)


async def _maximum(channel: Channel, numbers: Numbers) -> Numbers:
    operand = ObjectAccumulator(numbers, larger, NUMBERS)
    await recursive_doubling(channel, operand)
    return tuple(operand.value)


def larger(one: Numbers, other: Numbers) -> Numbers:
    """The larger of two numbers, place by place."""
    return tuple(map(max, one, other))


class _NumbersCodec:
    """Makes messages of numbers."""

    def dumps(self, obj: Numbers) -> tuple[Payload, int]:
        return (pack(obj),), 8 * len(obj)

    def loads(self, data: memoryview) -> Numbers:
        return unpack(data)


#: codec of numbers
NUMBERS: Final = _NumbersCodec()
