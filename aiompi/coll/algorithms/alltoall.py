"""Alltoall (section 4.8).

Algorithms take the channel and two blocks for each rank: a filled block with the data to send to that rank, and a block
for the data received from it. Outgoing and incoming blocks never share memory.
"""

from __future__ import annotations

import functools
from collections.abc import Coroutine, Sequence
from struct import Struct
from typing import TYPE_CHECKING, Any

from aiompi.coll.algorithms.shapes import Levels
from aiompi.coll.block import Block, Bundle
from aiompi.coll.shm_sync import Substitute, joined, share_in_rounds, show, show_objects
from aiompi.comm import Channel
from aiompi.core.allocation import allocate
from aiompi.errors import RemoteProtocolError

if TYPE_CHECKING:
    from aiompi.core._native import SlotExchange, SlotGroup


async def linear(channel: Channel, outgoing: Sequence[Block], incoming: Sequence[Block]) -> None:
    """Start receives from all ranks, then sends to all, and wait for all of them.

    A rank starts with its right neighbour, so that not all ranks send to the same rank first. Steps: 1. Per rank, for m
    bytes per pair: n - 1 messages and (n - 1) * m bytes are sent, and the same number received; nothing is stored on
    the way.

    Any number of ranks. Five ranks; the order in which the sends are started:

        rank 0: 1 2 3 4   rank 1: 2 3 4 0   rank 2: 3 4 0 1   rank 3: 4 0 1 2   rank 4: 0 1 2 3
    """
    rank, size = channel.rank, channel.size
    sources = [(rank - distance) % size for distance in range(1, size)]
    targets = [(rank + distance) % size for distance in range(1, size)]
    arrivals = [incoming[source].irecv(channel, source) for source in sources]
    sends = [outgoing[target].isend(channel, target) for target in targets]
    incoming[rank].copy(outgoing[rank])
    for arrival in arrivals:
        await arrival
    for send in sends:
        await send


async def pairwise(channel: Channel, outgoing: Sequence[Block], incoming: Sequence[Block]) -> None:
    """Send to the rank 1, 2, 3, ... places above, and receive from the rank at the same distance below.

    Each rank sends to one rank and receives from one rank at a time, so that large blocks do not crowd a link. Steps: n
    - 1. Per rank, for m bytes per pair: n - 1 messages and (n - 1) * m bytes are sent, and the same number received;
    nothing is stored on the way. Any number of ranks. Blocks may differ in length.

    Five ranks, with sender and receiver of each message:

        step 1   0>1  1>2  2>3  3>4  4>0
        step 2   0>2  1>3  2>4  3>0  4>1
        step 3   0>3  1>4  2>0  3>1  4>2
        step 4   0>4  1>0  2>1  3>2  4>3
    """
    rank, size = channel.rank, channel.size
    incoming[rank].copy(outgoing[rank])
    for distance in range(1, size):
        source, target = (rank - distance) % size, (rank + distance) % size
        arrival = incoming[source].irecv(channel, source)
        send = outgoing[target].isend(channel, target)
        await arrival
        await send


async def bruck(channel: Channel, outgoing: Sequence[Block], incoming: Sequence[Block]) -> None:
    """In step k, send all blocks whose distance to go has the bit 2^k to the rank 2^k places above, in one message.

    Steps: ceil(log2 n). Per rank, for m bytes per pair: ceil(log2 n) messages of at most n / 2 blocks. In all a rank
    sends about n / 2 * m * log2 n bytes: more bytes than in a direct exchange, but fewer messages. This serves small
    blocks. Blocks are stored on the way, and copied once into their places. Any number of ranks: distances are below n.
    Blocks must be equally long.

    Five ranks; for each block that rank 0 sends, the rank that holds the block after each step:

        for rank     1   2   3   4
        start        0   0   0   0
        step 1       1   0   1   0      distances 1 and 3 have the bit 1
        step 2       1   2   3   0      2 and 3 the bit 2
        step 3       1   2   3   4      4 the bit 4
    """
    rank, size = channel.rank, channel.size
    length = outgoing[rank].nbytes
    # By distance from the sending rank. Its bits from the next one on are the distance still to go.
    blocks = [outgoing[(rank + distance) % size] for distance in range(size)]
    bit = 1
    while bit < size:
        moving = [distance for distance in range(size) if distance & bit]
        stage = Block(allocate(len(moving) * length))
        arrival = stage.irecv(channel, (rank - bit) % size)
        send = Bundle([blocks[distance] for distance in moving]).isend(channel, (rank + bit) % size)
        await arrival
        await send
        for number, distance in enumerate(moving):
            blocks[distance] = stage.part(number * length, (number + 1) * length)
        bit *= 2
    for distance, block in enumerate(blocks):
        incoming[(rank - distance) % size].copy(block)


async def two_level(channel: Channel, outgoing: Sequence[Block], incoming: Sequence[Block]) -> None:
    """Exchange within each host; blocks for other hosts go through the leaders, in one message per pair of hosts.

    Steps: 3, and the exchange within the hosts. Per rank, for m bytes per pair, on a host with k of n ranks: 1 message
    of (n - k) * m bytes to the leader. The leader stores the k * (n - k) * m bytes of its host, and forwards them in 1
    message to each other leader. Any number of ranks.

    Five ranks on two hosts; the blocks, as source and destination, that cross:

        step 1   1>0: 13 14   2>0: 23 24     4>3: 40 41 42
        step 2   0>3: 03 04 13 14 23 24      3>0: 30 31 32 40 41 42     between hosts
        step 3   0>1: 31 41   0>2: 32 42     3>4: 04 14 24
    """
    levels, m = Levels(channel), outgoing[0].nbytes
    local = levels.hosts[levels.own]
    hosts = [host for host in range(len(levels.hosts)) if host != levels.own]
    away = [rank for host in hosts for rank in levels.hosts[host]]
    await linear(levels.local, [outgoing[rank] for rank in local], [incoming[rank] for rank in local])
    if not hosts:
        return
    if levels.between is None:
        await Bundle([outgoing[rank] for rank in away]).isend(levels.local, levels.leader)
        await Bundle([incoming[rank] for rank in away]).irecv(levels.local, levels.leader)
        return
    # By source and destination: the blocks that leave this host, and the blocks that come.
    leaving = {(rank, target): Block.of(m) for rank in local if rank != channel.rank for target in away}
    leaving |= {(channel.rank, target): outgoing[target] for target in away}
    coming = {(source, rank): Block.of(m) for source in away for rank in local if rank != channel.rank}
    coming |= {(source, channel.rank): incoming[source] for source in away}
    for arrival in [
        Bundle([leaving[local[other], target] for target in away]).irecv(levels.local, other) for other in levels.others
    ]:
        await arrival
    there = levels.hosts
    arrivals = [
        Bundle([coming[source, rank] for source in there[host] for rank in local]).irecv(levels.between, host)
        for host in hosts
    ]
    sends = [
        Bundle([leaving[rank, target] for rank in local for target in there[host]]).isend(levels.between, host)
        for host in hosts
    ]
    for arrival in arrivals:
        await arrival
    sends += [
        Bundle([coming[source, local[other]] for source in away]).isend(levels.local, other) for other in levels.others
    ]
    for send in sends:
        await send


async def shm(
    channel: Channel, outgoing: Sequence[Block], incoming: Sequence[Block], otherwise: Substitute = linear
) -> None:
    """Put the blocks for all other ranks into shared memory, and copy the blocks for this rank from the others' memory.

    Steps: 1. Per rank, for m bytes per pair: no messages; 2 * (n - 1) * m bytes copied. All ranks together: n - 1
    wake-ups. Any number of ranks. If the blocks of a rank together are longer than a slot, they are copied in rounds.
    If the ranks do not (or not yet) share memory, `linear` is used.

    Five ranks; the blocks that each shows, by destination:

        rank 0: 1 2 3 4   rank 1: 0 2 3 4   rank 2: 0 1 3 4   rank 3: 0 1 2 4   rank 4: 0 1 2 3
    """
    if await _in_rounds(channel, outgoing, incoming):
        return
    show = _show_objects if outgoing[channel.rank].memory is None else _show_blocks
    if not await show(channel, outgoing, incoming):
        await otherwise(channel, outgoing, incoming)


async def _in_rounds(channel: Channel, outgoing: Sequence[Block], incoming: Sequence[Block]) -> bool:
    own = outgoing[channel.rank]
    nbytes = len(outgoing) * own.nbytes
    if own.memory is None or nbytes <= channel.room:
        return False
    arrived = allocate(nbytes)

    def begin(slots: SlotGroup) -> SlotExchange | None:
        return slots.alltoall(channel.comm, memoryview(joined(outgoing)), arrived, channel)

    done = await share_in_rounds(channel, begin)
    if done:
        for rank, block in enumerate(incoming):
            block.store(arrived[rank * own.nbytes : (rank + 1) * own.nbytes])
    return done


def _show_blocks(channel: Channel, outgoing: Sequence[Block], incoming: Sequence[Block]) -> Coroutine[Any, None, bool]:
    rank, size, nbytes = channel.rank, channel.size, outgoing[channel.rank].nbytes
    own = slice(rank * nbytes, (rank + 1) * nbytes)

    def look(shown: Sequence[bytes]) -> None:
        incoming[rank].copy(outgoing[rank])
        # Each rank begins with another block, so that not all read the same memory.
        for other in (*range(rank + 1, size), *range(rank)):
            incoming[other].store(shown[other][own])

    return show(channel, size * nbytes, lambda: joined(outgoing), look)


def _show_objects(channel: Channel, outgoing: Sequence[Block], incoming: Sequence[Block]) -> Coroutine[Any, None, bool]:
    """Show the lengths of objects, and the objects behind them."""
    rank, lengths = channel.rank, _lengths(channel.size)

    def make() -> bytes:
        own = [block.nbytes for block in outgoing]
        return b"" if lengths.size + sum(own) > channel.room else lengths.pack(*own) + joined(outgoing)

    def look(shown: Sequence[bytes]) -> None:
        for other, (block, view) in enumerate(zip(incoming, shown, strict=True)):
            if len(view) < lengths.size:
                raise RemoteProtocolError(f"{channel.where}: rank {other} shows objects without their lengths")
            theirs = lengths.unpack_from(view)
            start = lengths.size + sum(theirs[:rank])
            block.store(view[start : start + theirs[rank]])

    return show_objects(channel, make, look)


@functools.cache
def _lengths(size: int) -> Struct:
    return Struct(f"<{size}I")
