"""Gather (section 4.5).

Algorithms take the channel, a filled block with the contribution of this rank, the blocks to be filled (one per rank at
the root, None elsewhere), and the root. The root's own contribution may already be in its place.
"""

from __future__ import annotations

from collections.abc import Sequence

from aiompi.coll.algorithms.shapes import Levels, Tree
from aiompi.coll.block import Block, Bundle
from aiompi.coll.shm_sync import Substitute, share
from aiompi.comm import Channel
from aiompi.core.allocation import allocate


async def linear(channel: Channel, own: Block, blocks: Sequence[Block] | None, root: int) -> None:
    """Every rank sends to the root, which starts all receives at once.

    Steps: 1. For m bytes per rank, the root receives n - 1 messages and (n - 1) * m bytes in this step; each other rank
    sends m bytes. Nothing is stored on the way. Any number of ranks.

    Five ranks, root 1:

        0 --.   .-- 2
             > 1 <---- 3
                `----- 4
    """
    if blocks is None:
        await own.isend(channel, root)
        return
    arrivals = [blocks[rank].irecv(channel, rank) for rank in range(channel.size) if rank != root]
    blocks[root].copy(own)
    for arrival in arrivals:
        await arrival


async def binomial(channel: Channel, own: Block, blocks: Sequence[Block] | None, root: int) -> None:
    """Each rank receives the blocks of its children's subtrees, and sends them with its own block to its parent.

    Ranks are counted from the root. The subtree of a rank consists of this rank and the ranks directly after it. Steps:
    ceil(log2 n). Per rank, for m bytes each: 1 message with the blocks of the rank's subtree is sent, except by the
    root. The root receives ceil(log2 n) messages and (n - 1) * m bytes. Up to n / 2 blocks of subtrees are stored on
    the way. Any number of ranks: subtrees beyond the last rank are left out. Blocks must be equally long.

    Seven ranks, root 0, with the blocks that are sent:

                  0
            456 / | 23 \\ 1
               4  2     1
          56? /|  | 3
             6 5  3
    """
    rank, size = channel.rank, channel.size
    tree = Tree(rank, size, root)
    length = own.nbytes
    if blocks is not None:
        blocks[root].copy(own)
        bundles = [
            Bundle([blocks[(child + i) % size] for i in range(span)]).irecv(channel, child)
            for child, _, span in tree.children()
        ]
        for bundle in bundles:
            await bundle
        return
    below = Block(allocate((tree.span - 1) * length))
    arrivals = [
        below.part((distance - 1) * length, (distance - 1 + span) * length).irecv(channel, child)
        for child, distance, span in tree.children()
    ]
    for arrival in arrivals:
        await arrival
    await Bundle([own, below]).isend(channel, tree.parent)


async def two_level(channel: Channel, own: Block, blocks: Sequence[Block] | None, root: int) -> None:
    """Gather to one rank of each host, which sends the blocks of its host to the root in one message.

    The root leads its host. Steps: 2. The root receives 1 message from each of the other h - 1 hosts, and k - 1
    messages from its own host of k ranks. Per rank, for m bytes each: 1 message and m bytes sent. The leader of k ranks
    stores k * m bytes and sends them. Any number of ranks.

    Five ranks on two hosts, root 1:

        0 --.          .-- 4     step 1
             > 1 <--- 3          step 2
        2 --'
    """
    levels = Levels(channel, root)
    local = levels.hosts[levels.own]
    if blocks is None:
        stored = None if levels.between is None else [Block.of(own.nbytes) for _ in local]
        await linear(levels.local, own, stored, levels.leader)
        if levels.between is not None and stored is not None:
            whole = Block.holding([piece for block in stored for piece in block.payload], own.nbytes * len(local))
            await whole.isend(levels.between, levels.host_of(root))
        return
    assert levels.between is not None
    others = [host for host in range(len(levels.hosts)) if host != levels.own]
    arrivals = [levels.bundle(blocks, host).irecv(levels.between, host) for host in others]
    await linear(levels.local, own, [blocks[rank] for rank in local], levels.leader)
    for arrival in arrivals:
        await arrival


async def shm(
    channel: Channel, own: Block, blocks: Sequence[Block] | None, root: int, otherwise: Substitute = linear
) -> None:
    """Every rank puts its block into shared memory, and the root copies the blocks from there. Only the root waits.

    Steps: 1. Per rank, for m bytes: no messages; m bytes copied, and n * m bytes more by the root. All ranks together:
    at most 1 wake-up, by the last rank. Any number of ranks. If the ranks do not (or not yet) share memory, or if
    blocks are too long, `linear` is used.

    Five ranks, root 1:

        in the slots    a   b   c   d   e
        rank 1 copies   a       c   d   e
    """

    def look(shown: Sequence[bytes]) -> None:
        if blocks is not None:
            blocks[root].copy(own)
            for rank, content in enumerate(shown):
                if rank != root:
                    blocks[rank].store(content)

    wanted = range(0) if blocks is None else None
    if not await share(channel, own, look, wanted):
        await otherwise(channel, own, blocks, root)
