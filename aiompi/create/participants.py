"""The processes that make a communicator together: the members of one group, or of two groups."""

from __future__ import annotations

import functools
import struct
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Final, TypeAlias

from aiompi.coll.algorithms.allgather import ring
from aiompi.coll.algorithms.bcast import binomial
from aiompi.coll.block import Block
from aiompi.comm import Channel
from aiompi.errors import InvalidCountError, MPIError, ProcessFailedError
from aiompi.wire.frame import Payload

Numbers: TypeAlias = tuple[int, ...]

#: bytes of a number in a message
NUMBER: Final = 8


class Participants(ABC):
    """Processes that all call the same constructor."""

    __slots__ = ()

    @abstractmethod
    async def maximum(self, *numbers: int) -> Numbers:
        """Return the element-wise maximum of the numbers, 0..2**64-1; all processes give the same count."""


class OneGroup(Participants):
    """The members of one group.

    Args:
        channel: channel between the members.
    """

    __slots__ = ("_channel",)

    def __init__(self, channel: Channel) -> None:
        self._channel = channel

    async def maximum(self, *numbers: int) -> Numbers:
        return await _maximum(self._channel, numbers)


class Gathering(OneGroup):
    """The members of one group; `maximum` also sends an entry of each member to all other members.

    Args:
        channel: channel between the members.
        entry: entry of this process.

    Attributes:
        entries: entries of all processes, in rank order, after the first `maximum`.
    """

    __slots__ = ("_entry", "entries")

    def __init__(self, channel: Channel, entry: bytes) -> None:
        super().__init__(channel)
        self._entry = entry
        self.entries: list[bytes] = []

    async def maximum(self, *numbers: int) -> Numbers:
        nbytes = len(numbers) * NUMBER
        gathered = await collect(self._channel, pack(numbers) + self._entry)
        self.entries = [data[nbytes:] for data in gathered]
        return functools.reduce(larger, [unpack(data[:nbytes]) for data in gathered])


class TwoGroups(Participants):
    """The members of two groups, whose leaders can communicate with each other.

    Args:
        local: channel between the members of the local group.
        bridge: channel between the leaders; only they use it.
        leader: rank of the leader in the local group.
        remote_leader: rank of the remote leader on the bridge.

    Attributes:
        local: as above.
        gone: class of the error if the other group has ended.
    """

    __slots__ = ("_bridge", "_leader", "_remote_leader", "gone", "local")

    def __init__(self, local: Channel, bridge: Channel, leader: int = 0, remote_leader: int = 0) -> None:
        self.local = local
        self._bridge = bridge
        self._leader = leader
        self._remote_leader = remote_leader
        self.gone: type[MPIError] = ProcessFailedError

    async def maximum(self, *numbers: int) -> Numbers:
        ours = await _maximum(self.local, numbers)
        theirs = unpack(await self.exchange(pack(ours)))
        return larger(ours, theirs)

    async def local_maximum(self, *numbers: int) -> Numbers:
        """Return the element-wise maximum within the local group."""
        return await _maximum(self.local, numbers)

    async def share(self, data: bytes) -> bytes:
        """Broadcast the leader's data within the local group; the arguments of other processes are ignored."""
        block = Block.holding((data,), len(data)) if self.local.rank == self._leader else Block()
        await binomial(self.local, block, self._leader)
        return bytes(block.data)

    async def exchange(self, data: bytes, kept: int = 0) -> bytes:
        """Exchange data between the leaders, and broadcast the data of the remote leader.

        Args:
            data: data for the remote group; only the argument of the leader counts.
            kept: number of bytes at the beginning that only the leader gets.
        """
        answer = await self._swap(data) if self.local.rank == self._leader else b""
        return answer[:kept] + await self.share(answer[kept:])

    async def deal(self, parts: Sequence[bytes]) -> bytes:
        """Send each process of the local group its part, by rank; only the argument of the leader counts."""
        if self.local.rank != self._leader:
            part = Block()
            await part.irecv(self.local, self._leader)
            return bytes(part.data)
        sends = [self.local.isend((part,), len(part), rank) for rank, part in enumerate(parts) if rank != self._leader]
        for send in sends:
            await send
        return parts[self._leader]

    @property
    def leads(self) -> bool:
        """True at the leader of the local group."""
        return self.local.rank == self._leader

    async def _swap(self, data: bytes) -> bytes:
        """Exchange data with the remote leader."""
        answer = Block()
        arrival = answer.irecv(self._bridge, self._remote_leader)
        await self._bridge.isend((data,), len(data), self._remote_leader)
        await arrival
        return bytes(answer.data)


async def collect(channel: Channel, data: bytes) -> list[bytes]:
    """Gather data of any length from each process of a group, in rank order."""
    blocks = [Block() for _ in range(channel.size)]
    blocks[channel.rank] = Block.holding((data,), len(data))
    await ring(channel, blocks)
    return [bytes(block.data) for block in blocks]


def pack(numbers: Numbers) -> bytes:
    """Pack numbers as big-endian unsigned integers of 8 bytes."""
    return struct.pack(f">{len(numbers)}Q", *numbers)


def unpack(data: bytes | memoryview) -> Numbers:
    """Undo `pack`.

    Raises:
        InvalidCountError: the length is not a multiple of 8 bytes.
    """
    count, rest = divmod(len(data), NUMBER)
    if rest:
        raise InvalidCountError(f"{len(data)} bytes have come where numbers of {NUMBER} bytes each are expected")
    return struct.unpack(f">{count}Q", data)


async def _maximum(channel: Channel, numbers: Numbers) -> Numbers:
    """Return the maximum by dissemination: a message has the maximum of all numbers that have reached its sender."""
    rank, size, distance = channel.rank, channel.size, 1
    while distance < size:
        data, answer = pack(numbers), Block()
        arrival = answer.irecv(channel, (rank - distance) % size)
        sent = channel.isend((data,), len(data), (rank + distance) % size)
        await arrival
        await sent
        numbers = larger(numbers, unpack(answer.data))
        distance *= 2
    return numbers


def larger(one: Numbers, other: Numbers) -> Numbers:
    """Return the element-wise maximum.

    Raises:
        InvalidCountError: another process has sent more or fewer numbers.
    """
    if len(one) != len(other):
        raise InvalidCountError(f"{len(other)} numbers have come where {len(one)} are expected")
    return tuple(map(max, one, other))


class _NumbersCodec:
    """Codec that makes messages of numbers."""

    def dumps(self, obj: Numbers) -> tuple[Payload, int]:
        return (pack(obj),), 8 * len(obj)

    def loads(self, data: memoryview) -> Numbers:
        return unpack(data)


#: the codec
NUMBERS: Final = _NumbersCodec()
