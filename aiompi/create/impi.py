"""The messages of communicator constructors between IMPI clients (IMPI 0.0, sections 4.4 to 4.9).

Context identifiers and flags travel as 8 bytes each (IMPI_UINT8), colours, keys and ranks as 4 (INT).
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from aiompi.coll.accumulator import ObjectAccumulator
from aiompi.coll.algorithms.bcast import binomial as native_bcast
from aiompi.coll.algorithms.clients import DUP_TAG, MERGE_TAG
from aiompi.coll.algorithms.impi import allgather, allreduce_commutative, bcast, reduce_commutative
from aiompi.coll.algorithms.reduce import binomial as native_reduce
from aiompi.coll.block import Block
from aiompi.comm import Channel
from aiompi.create.participants import NUMBER, NUMBERS, Numbers, OneGroup, Participants, TwoGroups, larger, pack, unpack
from aiompi.errors import RemoteProtocolError

_ROW: Final = struct.Struct(">iii")
#: range of a colour or a key
INT: Final = range(-(2**31), 2**31)


class ImpiOneGroup(OneGroup):
    """The members of one group in several clients; `maximum` is an Allreduce (sections 4.4, 4.6 and 4.7)."""

    __slots__ = ()

    async def maximum(self, *numbers: int) -> Numbers:
        accumulator = ObjectAccumulator(numbers, larger, NUMBERS)
        await allreduce_commutative(self._channel, accumulator)
        return tuple(accumulator.value)


class ImpiTwoGroups(TwoGroups):
    """The members of an intercommunicator whose groups are in several clients (section 4.6)."""

    __slots__ = ()

    async def maximum(self, *numbers: int) -> Numbers:
        """Return the largest numbers of both groups.

        All ranks but 0 send their numbers to rank 0 of the other group. Each rank 0 takes the maxima of the received
        numbers and its own numbers, exchanges them with the other rank 0, and sends the result to all other ranks of
        the other group. So rank 0 of a group learns the numbers of its own group from the remote rank 0.
        """
        exchange = RemoteExchange(self._bridge.tagged(DUP_TAG))
        found = await exchange.gather(numbers)
        if found is None:
            return await exchange.get_result(len(numbers))
        highest = larger(found, await exchange.swap(found))
        await exchange.send_result(highest)
        return highest


class RemoteExchange:
    """Exchange of two groups: ranks send to the remote rank 0; the two ranks 0 exchange, and answer all remote ranks.

    Args:
        channel: channel to the remote group, with the tag of the constructor.
    """

    __slots__ = ("_channel",)

    def __init__(self, channel: Channel) -> None:
        self._channel = channel

    async def gather(self, own: Numbers) -> Numbers | None:
        """Send numbers to the remote rank 0. Rank 0 returns the maxima of the received numbers and its own numbers."""
        if self._channel.rank:
            await self._send(own, 0)
            return None
        for remote in range(1, self._channel.size):
            own = larger(own, await self._receive(remote, len(own)))
        return own

    async def swap(self, own: Numbers) -> Numbers:
        """Exchange numbers with the remote rank 0; only rank 0 calls this."""
        block = Block.of(NUMBER * len(own))
        arrival = block.irecv(self._channel, 0)
        await self._send(own, 0)
        await arrival
        return unpack(block.data)

    async def send_result(self, numbers: Numbers) -> None:
        """Send numbers to the remote ranks above 0; only rank 0 calls this."""
        for remote in range(1, self._channel.size):
            await self._send(numbers, remote)

    async def get_result(self, count: int) -> Numbers:
        """Receive numbers from the remote rank 0; only ranks above 0 call this."""
        return await self._receive(0, count)

    async def _send(self, numbers: Numbers, dest: int) -> None:
        data = pack(numbers)
        await Block.holding((data,), len(data)).isend(self._channel, dest)

    async def _receive(self, source: int, count: int) -> Numbers:
        block = Block.of(NUMBER * count)
        await block.irecv(self._channel, source)
        return unpack(block.data)


async def fence(channel: Channel, tag: int) -> None:
    """Wait for all processes of an intercommunicator, with messages of 0 bytes (section 4.5)."""
    exchange = RemoteExchange(channel.tagged(tag))
    if await exchange.gather(()) is None:
        await exchange.get_result(0)
    else:
        await exchange.swap(())
        await exchange.send_result(())


class ImpiMergedGroups(Participants):
    """The groups of an intercommunicator that become one (section 4.9).

    Args:
        channel: channel to the remote group.
        high: True if the local group is to be the second.

    Attributes:
        other_high: the argument `high` of rank 0 of the remote group; `maximum` sets it.
    """

    __slots__ = ("_channel", "_high", "other_high")

    def __init__(self, channel: Channel, high: bool) -> None:
        self._channel = channel
        self._high = int(high)
        self.other_high = False

    async def maximum(self, *numbers: int) -> Numbers:
        """Do what `ImpiTwoGroups` does; the ranks 0 also send the `high` of their group."""
        exchange = RemoteExchange(self._channel.tagged(MERGE_TAG))
        found = await exchange.gather(numbers)
        if found is None:
            *highest, other = await exchange.get_result(len(numbers) + 1)
        else:
            *theirs, other = await exchange.swap((*found, self._high))
            highest = list(larger(found, tuple(theirs)))
            await exchange.send_result((*highest, self._high))
        self.other_high = bool(other)
        return tuple(highest)


class Row(NamedTuple):
    """The arguments of a process in Comm_split; every negative colour means UNDEFINED."""

    color: int
    key: int
    rank: int


async def split_table(channel: Channel, color: int, key: int) -> list[Row]:
    """Return the rows of all processes, in rank order (section 4.7)."""
    blocks = [Block.of(_ROW.size) for _ in range(channel.size)]
    blocks[channel.rank].data[:] = _ROW.pack(color, key, channel.rank)
    await allgather(channel, blocks)
    return [Row(*_ROW.unpack(block.data)) for block in blocks]


class ImpiSeparateGroups(Participants):
    """Two groups whose leaders can communicate; other members do not know the remote group yet (section 4.8).

    Args:
        local: channel of the local group, in one client or in several.
        bridge: channel between the leaders; only they use it.
        leader: rank of the leader in the local group.
        remote_leader: rank of the remote leader on the bridge.
        own: world ranks of the local group.

    Attributes:
        others: world ranks of the remote group, once the maximum is known.
    """

    __slots__ = ("_bridge", "_leader", "_local", "_own", "_remote_leader", "others")

    def __init__(self, local: Channel, bridge: Channel, leader: int, remote_leader: int, own: tuple[int, ...]) -> None:
        self._local = local
        self._bridge = bridge
        self._leader = leader
        self._remote_leader = remote_leader
        self._own = own
        self.others: tuple[int, ...] = ()

    async def maximum(self, *numbers: int) -> Numbers:
        """Reduce to the leader, exchange maxima and group sizes between the leaders, and broadcast the result.

        Then the leaders exchange the members of the groups and broadcast them.
        """
        accumulator = ObjectAccumulator(numbers, larger, NUMBERS)
        combine = native_reduce if self._local.comm.native else reduce_commutative
        await combine(self._local, accumulator, self._leader)
        ours = pack((*accumulator.value, len(self._own)))
        *theirs, size = unpack(await self._exchange(ours, len(ours)))
        highest = larger(tuple(accumulator.value), tuple(theirs))
        *final, size = unpack(await self._spread(pack((*highest, size))))
        self._check(size <= self._local.comm.engine.size, f"a group of {size}")
        members = await self._exchange(struct.pack(f">{len(self._own)}i", *self._own), 4 * size)
        self.others = struct.unpack(f">{size}i", await self._spread(members))
        known = range(self._local.comm.engine.size)
        self._check(all(member in known for member in self.others), f"a group of the ranks {self.others}")
        return tuple(final)

    def _check(self, valid: bool, what: str) -> None:
        """Refuse impossible values from the remote leader."""
        if not valid:
            world = self._local.comm.engine.size
            raise RemoteProtocolError(f"{self._local.where}: the other leader has {what} in a world of {world}")

    @property
    def _is_leader(self) -> bool:
        return self._local.rank == self._leader

    async def _exchange(self, data: bytes, nbytes: int) -> bytes:
        """Exchange data with the remote leader. Ranks other than the leader return `nbytes` bytes of value 0."""
        if not self._is_leader:
            return bytes(nbytes)
        answer = Block.of(nbytes)
        arrival = answer.irecv(self._bridge, self._remote_leader)
        await Block.holding((data,), len(data)).isend(self._bridge, self._remote_leader)
        await arrival
        return bytes(answer.data)

    async def _spread(self, data: bytes) -> bytes:
        """Broadcast the leader's data in the local group; other ranks pass any data of the same length."""
        block = Block.holding((data,), len(data)) if self._is_leader else Block.of(len(data))
        await (native_bcast if self._local.comm.native else bcast)(self._local, block, self._leader)
        return bytes(block.data)
