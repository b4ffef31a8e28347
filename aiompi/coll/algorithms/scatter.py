"""Scatter (section 4.6).

Algorithms take the channel, the filled blocks (one per rank at the root, None elsewhere), a block to be filled with the
part of this rank, and the root. The root's own part may already be in its place.
"""

from __future__ import annotations

from collections.abc import Sequence

from aiompi.coll.algorithms.shapes import Levels, Tree
from aiompi.coll.block import Block, Bundle
from aiompi.coll.shm_sync import Substitute, joined, show
from aiompi.comm import Channel
from aiompi.core.allocation import allocate


async def linear(channel: Channel, blocks: Sequence[Block] | None, own: Block, root: int) -> None:
    """The root starts a send to every rank at once.

    Steps: 1. For m bytes per rank, the root sends n - 1 messages and (n - 1) * m bytes in this step; each other rank
    receives m bytes. Nothing is stored on the way. Any number of ranks.

    Five ranks, root 1:

        0 <-.   .-> 2
             - 1 -----> 3
                `-----> 4
    """
    if blocks is None:
        await own.irecv(channel, root)
        return
    sends = [blocks[rank].isend(channel, rank) for rank in range(channel.size) if rank != root]
    own.copy(blocks[root])
    for send in sends:
        await send


async def binomial(channel: Channel, blocks: Sequence[Block] | None, own: Block, root: int) -> None:
    """Each rank receives the blocks of its subtree from its parent, and sends each child its part of these blocks.

    Ranks are counted from the root; the blocks of a subtree are consecutive. Steps: ceil(log2 n). Per rank, for m bytes
    each: 1 message received, except by the root. The root sends ceil(log2 n) messages and (n - 1) * m bytes, any other
    rank sends fewer messages, with at most half as many bytes. Up to n / 2 blocks of subtrees are stored on the way.
    Any number of ranks: subtrees beyond the last rank are left out. Blocks must be equally long.

    Seven ranks, root 0, with the blocks that are sent:

                     0
             456 / 23 |  \\ 1
                4     2   1
             6 / \\ 5   \\ 3
              6   5     3
    """
    rank, size = channel.rank, channel.size
    tree = Tree(rank, size, root)
    length = own.nbytes
    if blocks is not None:
        sends = [
            Bundle([blocks[(child + i) % size] for i in range(span)]).isend(channel, child)
            for child, _, span in tree.children()
        ]
        own.copy(blocks[root])
    elif tree.span == 1:
        await own.irecv(channel, tree.parent)
        return
    else:
        subtree = Block(allocate(tree.span * length))
        await subtree.irecv(channel, tree.parent)
        sends = [
            subtree.part(distance * length, (distance + span) * length).isend(channel, child)
            for child, distance, span in tree.children()
        ]
        own.copy(subtree.part(0, length))
    for send in sends:
        await send


async def two_level(channel: Channel, blocks: Sequence[Block] | None, own: Block, root: int) -> None:
    """Send the blocks of each host to its leader in one message; the leader distributes them.

    The root leads its host. Steps: 2. The root sends 1 message to each of the other h - 1 hosts, and k - 1 messages
    within its own host of k ranks. Per rank, for m bytes each: 1 message and m bytes received. The leader of k ranks
    receives and stores k * m bytes. Any number of ranks.

    Five ranks on two hosts, root 1:

        0 <-.          .-> 4     step 2
             - 1 ---> 3          step 1
        2 <-'
    """
    levels = Levels(channel, root)
    local = levels.hosts[levels.own]
    sends = []
    mine: Sequence[Block] | None = None
    if blocks is not None:
        assert levels.between is not None
        others = [host for host in range(len(levels.hosts)) if host != levels.own]
        sends = [levels.bundle(blocks, host).isend(levels.between, host) for host in others]
        mine = [blocks[rank] for rank in local]
    elif levels.between is not None:
        mine = [Block.of(own.nbytes) for _ in local]
        await Bundle(mine).irecv(levels.between, levels.host_of(root))
    await linear(levels.local, mine, own, levels.leader)
    for send in sends:
        await send


async def shm(
    channel: Channel, blocks: Sequence[Block] | None, own: Block, root: int, otherwise: Substitute = linear
) -> None:
    """The root puts all blocks into shared memory, and each rank copies its own block. The root waits for no rank.

    Steps: 1. Per rank, for m bytes per rank: no messages; m bytes copied, and n * m bytes more by the root. All ranks
    together: at most n - 1 wake-ups, by the root. Any number of ranks. If the ranks do not (or not yet) share memory,
    or if the blocks together are too long, `linear` is used.

    Five ranks, root 1:

        in the slots   abcde
        rank 0 copies  a
        ...
        rank 4 copies      e
    """
    rank, nbytes = channel.rank, own.nbytes

    def make() -> bytes:
        return b"" if blocks is None else joined(blocks)

    def look(shown: Sequence[bytes]) -> None:
        if blocks is None:
            own.store(shown[0][rank * nbytes : (rank + 1) * nbytes])
        else:
            own.copy(blocks[root])

    if not await show(channel, channel.size * nbytes, make, look, range(root, root + 1)):
        await otherwise(channel, blocks, own, root)
