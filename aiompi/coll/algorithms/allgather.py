"""Allgather (section 4.7).

Algorithms take the channel and one block per rank. At the start only the block of this rank is filled; at the end all
blocks are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from aiompi.coll.algorithms.shapes import Levels, Pof2
from aiompi.coll.block import Block, Bundle
from aiompi.coll.shm_sync import Substitute, share, share_in_rounds
from aiompi.comm import Channel
from aiompi.core.allocation import allocate

if TYPE_CHECKING:
    from aiompi.core._native import SlotExchange, SlotGroup


async def linear(channel: Channel, blocks: Sequence[Block]) -> None:
    """Start receives from all ranks, then sends of this rank's contribution to all, and wait for all of them.

    A rank starts with its right neighbour, so that not all ranks send to the same rank first. Steps: 1. Per rank, for m
    bytes each: n - 1 messages and (n - 1) * m bytes are sent, and the same number received. Any number of ranks. Blocks
    may differ in length.

    Five ranks; the order in which the sends are started:

        rank 0: 1 2 3 4   rank 1: 2 3 4 0   rank 2: 3 4 0 1   rank 3: 4 0 1 2   rank 4: 0 1 2 3
    """
    rank, size = channel.rank, channel.size
    arrivals = [
        blocks[(rank - distance) % size].irecv(channel, (rank - distance) % size) for distance in range(1, size)
    ]
    sends = blocks[rank].multicast(channel, [(rank + distance) % size for distance in range(1, size)])
    for arrival in arrivals:
        await arrival
    for send in sends:
        await send


async def ring(channel: Channel, blocks: Sequence[Block]) -> None:
    """Each rank sends its contribution to the right neighbour, then each block that arrives from the left neighbour.

    Steps: n - 1. Per rank, for m bytes each: n - 1 messages and (n - 1) * m bytes are sent, and the same number
    received, which is the least possible. Objects are forwarded in serialised form. Any number of ranks. Blocks may
    differ in length.

    Five ranks, with the contributions that each holds, and in brackets the contribution that it sends next:

                 rank 0   rank 1   rank 2   rank 3   rank 4
        start    [0]      [1]      [2]      [3]      [4]
        step 1   0[4]     1[0]     2[1]     3[2]     4[3]
        step 2   04[3]    10[4]    21[0]    32[1]    43[2]
        step 3   043[2]   104[3]   210[4]   321[0]   432[1]
        step 4   all      all      all      all      all
    """
    rank, size = channel.rank, channel.size
    left, right = (rank - 1) % size, (rank + 1) % size
    arrivals = [blocks[(left - step) % size].irecv(channel, left) for step in range(size - 1)]
    sends = []
    for step, arrival in enumerate(arrivals):
        sends.append(blocks[(rank - step) % size].isend(channel, right))
        await arrival
    for send in sends:
        await send


async def bruck(channel: Channel, blocks: Sequence[Block]) -> None:
    """Send all held blocks to the rank 1, 2, 4, ... places below, and receive from the rank at the same distance above.

    Steps: ceil(log2 n). Per rank, for m bytes each: ceil(log2 n) messages and (n - 1) * m bytes are sent, and the same
    number received; both are the least possible. Blocks are sent from their places, and copied once into them. Any
    number of ranks: in the last step only the missing blocks are sent. Blocks may differ in length.

    Five ranks, with the contributions that each holds:

                 rank 0   rank 1   rank 2   rank 3   rank 4
        start    0        1        2        3        4
        step 1   01       12       23       34       40
        step 2   0123     1234     2340     3401     4012
        step 3   01234    12340    23401    34012    40123
    """
    rank, size = channel.rank, channel.size

    def run(first: int, length: int) -> Bundle:
        return Bundle([blocks[i % size] for i in range(first, first + length)])

    held = 1
    while held < size:
        more = min(held, size - held)
        arrival = run(rank + held, more).irecv(channel, (rank + held) % size)
        send = run(rank, more).isend(channel, (rank - held) % size)
        await arrival
        await send
        held += more


async def recursive_doubling(channel: Channel, blocks: Sequence[Block]) -> None:
    """Exchange all held blocks with the partner 1, 2, 4, ... places away, so that the held part doubles in each step.

    Steps: log2 p, where p is the largest power of two <= n. Per rank, for m bytes each: log2 p messages and (p - 1) * m
    bytes are sent, and the same number received. Blocks are sent from their places, and copied once into them. If n is
    not p: of the first 2 * (n - p) ranks, each odd rank gives its block to the even rank below, and gets all other
    blocks from that rank. This makes two steps more. Blocks may differ in length.

    Five ranks, p = 4:

        0     1   2   3   4
        0<----1   2   3   4        01  2  3  4
        0<------->2   3<->4        012 (in 0, 2)  34 (in 3, 4)
        0<----------->3            01234 (in 0, 3)
                  2<----->4        01234 (in 2, 4)
        0---->1                    01234 (in 1)
    """
    rank, size = channel.rank, channel.size
    pof2 = Pof2(rank, size)
    if pof2.position is None:
        await blocks[rank].isend(channel, rank - 1)
        await _others(blocks, rank).irecv(channel, rank - 1)
        return
    if pof2.partner is not None:
        await blocks[pof2.partner].irecv(channel, pof2.partner)
    distance = 1
    while distance < pof2.power:
        own = pof2.position & -distance
        partner = pof2.rank(pof2.position ^ distance)
        arrival = _block(blocks, pof2, own ^ distance, distance).irecv(channel, partner)
        send = _block(blocks, pof2, own, distance).isend(channel, partner)
        await arrival
        await send
        distance *= 2
    if pof2.partner is not None:
        await _others(blocks, pof2.partner).isend(channel, pof2.partner)


def _block(blocks: Sequence[Block], pof2: Pof2, position: int, length: int) -> Bundle:
    """Return the blocks of the ranks that `length` positions from `position` on represent."""
    return Bundle(blocks[pof2.first(position) : pof2.first(position + length)])


def _others(blocks: Sequence[Block], rank: int) -> Bundle:
    return Bundle([*blocks[:rank], *blocks[rank + 1 :]])


#: average bytes of a block from which on all ranks form one ring
_CUT: Final = 2**16


async def two_level(channel: Channel, blocks: Sequence[Block]) -> None:
    """Gather to the leader of each host, send the blocks of hosts around a ring of leaders, and broadcast on each host.

    Long blocks are not gathered, but go around a ring of all ranks (see `ring`), in which the ranks of a host are
    neighbours.

    Steps: 1 within a host, h - 1 between h hosts, 1 within a host. Per rank, for m bytes each: 1 message and m bytes
    sent. On a host with k of n ranks, the leader sends the next leader h - 1 messages. Together they hold the blocks of
    all hosts but one. Within its host, it sends (k - 1) * (n - 1) * m bytes. Any number of ranks. Blocks may differ in
    length.

    Five ranks on two hosts, with the blocks that each holds:

                 rank 0   rank 1   rank 2   rank 3   rank 4
        start    0        1        2        3        4
        step 1   012      1        2        34       4
        step 2   01234    1        2        34012    4       between hosts
        step 3   all      all      all      all      all
    """
    levels, rank = Levels(channel), channel.rank
    if sum(block.nbytes for block in blocks) > _CUT * channel.size:
        order = [member for ranks in levels.hosts for member in ranks]
        await ring(channel.part(order), [blocks[member] for member in order])
        return
    local = levels.hosts[levels.own]
    missing = [[block for other, block in enumerate(blocks) if other != member] for member in local]
    if levels.between is None:
        await blocks[rank].isend(levels.local, levels.leader)
        await Bundle(missing[local.index(rank)]).irecv(levels.local, levels.leader)
        return
    for arrival in [blocks[local[other]].irecv(levels.local, other) for other in levels.others]:
        await arrival
    between, count = levels.between, len(levels.hosts)
    left, right = (levels.own - 1) % count, (levels.own + 1) % count
    for step in range(count - 1):
        bundle = levels.bundle(blocks, (left - step) % count).irecv(between, left)
        send = levels.bundle(blocks, (levels.own - step) % count).isend(between, right)
        await bundle
        await send
    for send in [Bundle(missing[other]).isend(levels.local, other) for other in levels.others]:
        await send


async def shm(channel: Channel, blocks: Sequence[Block], otherwise: Substitute | None = None) -> None:
    """Each rank puts its block into shared memory, and copies the blocks of the other ranks from there.

    Steps: 1. Per rank, for m bytes each: no messages; n * m bytes copied. All ranks together: n - 1 wake-ups. Any
    number of ranks. Blocks that are longer than a slot are copied in rounds. If the ranks do not (or not yet) share
    memory, buffers are sent by `bruck` and objects by `ring`. Objects are also sent by `ring` if one of them is long.

    Five ranks:

        in the slots      a   b   c   d   e
        rank 0 copies         b   c   d   e
        ...
        rank 4 copies     a   b   c   d
    """
    rank, size = channel.rank, channel.size

    def look(shown: Sequence[bytes]) -> None:
        # Each rank begins with another block, so that not all read the same memory.
        for other in (*range(rank + 1, size), *range(rank)):
            blocks[other].store(shown[other])

    if await _in_rounds(channel, blocks):
        return
    if not await share(channel, blocks[rank], look):
        await (otherwise or (ring if blocks[rank].memory is None else bruck))(channel, blocks)


async def _in_rounds(channel: Channel, blocks: Sequence[Block]) -> bool:
    own = blocks[channel.rank]
    if own.memory is None or own.nbytes <= channel.room:
        return False
    gathered = allocate(len(blocks) * own.nbytes)

    def begin(slots: SlotGroup) -> SlotExchange | None:
        return slots.allgather(channel.comm, own.data, gathered, channel)

    done = await share_in_rounds(channel, begin)
    if done:
        for rank, block in enumerate(blocks):
            block.store(gathered[rank * own.nbytes : (rank + 1) * own.nbytes])
    return done
