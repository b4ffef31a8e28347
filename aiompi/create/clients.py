"""What the constructors of communicators send between IMPI clients (IMPI 0.0, sections 4.4 to 4.9).

Context identifiers and flags travel as 8 bytes each (IMPI_UINT8), colours, keys and ranks as 4 (INT).
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from aiompi.coll.accumulator import ObjectAccumulator
from aiompi.coll.bcast.binomial import binomial as native_bcast
from aiompi.coll.block import Block
from aiompi.coll.impi import allreduce, reduce
from aiompi.coll.impi.allgather import allgather
from aiompi.coll.impi.bcast import bcast
from aiompi.coll.impi.tags import DUP_TAG, MERGE_TAG
from aiompi.coll.reduce.binomial import binomial as native_reduce
from aiompi.comm import Channel
from aiompi.create.union import NUMBER, NUMBERS, Numbers, OneGroup, TwoGroups, Union, larger, pack, unpack
from aiompi.errors import RemoteProtocolError

_ROW: Final = struct.Struct(">iii")
#: what a colour or a key can be
INT: Final = range(-(2**31), 2**31)


class OneGroupOverClients(OneGroup):
    """The members of one group, in several clients: an Allreduce gives the maximum (sections 4.4, 4.6 and 4.7)."""

    __slots__ = ()

    async def maximum(self, *numbers: int) -> Numbers:
        operand = ObjectAccumulator(numbers, larger, NUMBERS)
        await allreduce.commutative(self._channel, operand)
        return tuple(operand.value)


class TwoGroupsOverClients(TwoGroups):
    """The members of an intercommunicator whose groups are in several clients (section 4.6)."""

    __slots__ = ()

    async def maximum(self, *numbers: int) -> Numbers:
        """The largest numbers of both groups.

        All but the ranks 0 send theirs to the rank 0 of the other group, these exchange the maxima of what they have
        got and of their own, and send the result to all others of the other group. Rank 0 of a group so learns the
        numbers of its own group but its own from the other side.
        """
        fan = Fan(self._bridge.tagged(DUP_TAG))
        found = await fan.gather(numbers)
        if found is None:
            return await fan.told(len(numbers))
        highest = larger(found, await fan.swap(found))
        await fan.tell(highest)
        return highest


class Fan:
    """The way between the groups of an intercommunicator: to the remote rank 0, to each other, and to the rest.

    Args:
        channel: to the remote group, with the tag of the constructor.
    """

    __slots__ = ("_channel",)

    def __init__(self, channel: Channel) -> None:
        self._channel = channel

    async def gather(self, own: Numbers) -> Numbers | None:
        """Send numbers to the remote rank 0; at rank 0 the maxima of its own and those of the remote ranks above 0."""
        if self._channel.rank:
            await self._send(own, 0)
            return None
        for remote in range(1, self._channel.size):
            own = larger(own, await self._receive(remote, len(own)))
        return own

    async def swap(self, own: Numbers) -> Numbers:
        """As many of the remote rank 0; at rank 0."""
        slot = Block.of(NUMBER * len(own))
        arrival = slot.irecv(self._channel, 0)
        await self._send(own, 0)
        await arrival
        return unpack(slot.data)

    async def tell(self, numbers: Numbers) -> None:
        """Send numbers to the remote ranks above 0; at rank 0."""
        for remote in range(1, self._channel.size):
            await self._send(numbers, remote)

    async def told(self, count: int) -> Numbers:
        """The numbers that the remote rank 0 tells; at the ranks above 0."""
        return await self._receive(0, count)

    async def _send(self, numbers: Numbers, dest: int) -> None:
        data = pack(numbers)
        await Block.holding((data,), len(data)).isend(self._channel, dest)

    async def _receive(self, source: int, count: int) -> Numbers:
        slot = Block.of(NUMBER * count)
        await slot.irecv(self._channel, source)
        return unpack(slot.data)


async def fence(channel: Channel, tag: int) -> None:
    """Wait until all processes of an intercommunicator do, with messages of no bytes (section 4.5)."""
    fan = Fan(channel.tagged(tag))
    if await fan.gather(()) is None:
        await fan.told(0)
    else:
        await fan.swap(())
        await fan.tell(())


class MergingGroups(Union):
    """The groups of an intercommunicator that become one (section 4.9).

    Args:
        channel: to the remote group.
        high: whether the own group wants to be the second.

    Attributes:
        other_high: whether the rank 0 of the other group wants that, once the maximum is known.
    """

    __slots__ = ("_channel", "_high", "other_high")

    def __init__(self, channel: Channel, high: bool) -> None:
        self._channel = channel
        self._high = int(high)
        self.other_high = False

    async def maximum(self, *numbers: int) -> Numbers:
        """As `TwoGroupsOverClients`; those who know more of their group send its wish along."""
        fan = Fan(self._channel.tagged(MERGE_TAG))
        found = await fan.gather(numbers)
        if found is None:
            *highest, other = await fan.told(len(numbers) + 1)
        else:
            *theirs, other = await fan.swap((*found, self._high))
            highest = list(larger(found, tuple(theirs)))
            await fan.tell((*highest, self._high))
        self.other_high = bool(other)
        return tuple(highest)


class Row(NamedTuple):
    """What a process gives to Comm_split; colours that are negative are UNDEFINED, whatever their number."""

    color: int
    key: int
    rank: int


async def split_table(channel: Channel, color: int, key: int) -> list[Row]:
    """The rows of all processes, in rank order (section 4.7)."""
    slots = [Block.of(_ROW.size) for _ in range(channel.size)]
    slots[channel.rank].data[:] = _ROW.pack(color, key, channel.rank)
    await allgather(channel, slots)
    return [Row(*_ROW.unpack(slot.data)) for slot in slots]


class MeetingGroups(Union):
    """Two groups that do not know each other yet, whose leaders can communicate (section 4.8).

    Args:
        local: channel of the own group, in one client or in several.
        bridge: channel between the leaders; used only by them.
        leader: rank of the leader in the own group.
        remote_leader: rank of the other leader on the bridge.
        own: world ranks of the own group.

    Attributes:
        others: world ranks of the other group, once the maximum is known.
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
        """Reduce to the leader, who exchanges the maxima and the size of the group, and spreads what he gets; then he
        does the same with the members."""
        operand = ObjectAccumulator(numbers, larger, NUMBERS)
        combine = native_reduce if self._local.comm.native else reduce.commutative
        await combine(self._local, operand, self._leader)
        ours = pack((*operand.value, len(self._own)))
        *theirs, size = unpack(await self._exchange(ours, len(ours)))
        highest = larger(tuple(operand.value), tuple(theirs))
        *final, size = unpack(await self._spread(pack((*highest, size))))
        self._check(size <= self._local.comm.engine.size, f"a group of {size}")
        members = await self._exchange(struct.pack(f">{len(self._own)}i", *self._own), 4 * size)
        self.others = struct.unpack(f">{size}i", await self._spread(members))
        known = range(self._local.comm.engine.size)
        self._check(all(member in known for member in self.others), f"a group of the ranks {self.others}")
        return tuple(final)

    def _check(self, valid: bool, what: str) -> None:
        """Refuse what the other leader has told that cannot be."""
        if not valid:
            world = self._local.comm.engine.size
            raise RemoteProtocolError(f"{self._local.where}: the other leader has {what} in a world of {world}")

    @property
    def _is_leader(self) -> bool:
        return self._local.rank == self._leader

    async def _exchange(self, data: bytes, nbytes: int) -> bytes:
        """What the other leader gives, of this length; elsewhere anything of this length."""
        if not self._is_leader:
            return bytes(nbytes)
        answer = Block.of(nbytes)
        arrival = answer.irecv(self._bridge, self._remote_leader)
        await Block.holding((data,), len(data)).isend(self._bridge, self._remote_leader)
        await arrival
        return bytes(answer.data)

    async def _spread(self, data: bytes) -> bytes:
        """What the leader gives, at all processes of the group, of the length of the data here."""
        slot = Block.holding((data,), len(data)) if self._is_leader else Block.of(len(data))
        await (native_bcast if self._local.comm.native else bcast)(self._local, slot, self._leader)
        return bytes(slot.data)
