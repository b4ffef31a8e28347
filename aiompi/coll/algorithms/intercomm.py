"""Collectives between the two groups of an intercommunicator (MPI-2, section 5.2.2 of MPI-3.1).

The channel leads to the remote group, `channel.local` to the local group. The root of a collective passes ROOT, the
other ranks of its group pass PROC_NULL, and the ranks of the remote group pass the rank of the root. Data between one
process and a whole group passes through rank 0 of that group, its leader.
"""

from __future__ import annotations

from collections.abc import Sequence

from aiompi.coll.accumulator import Accumulator, scatter_segments
from aiompi.coll.algorithms.barrier import dissemination
from aiompi.coll.algorithms.bcast import binomial as bcast_binomial
from aiompi.coll.algorithms.reduce import binomial as reduce_binomial
from aiompi.coll.algorithms.scatter import linear as scatter_linear
from aiompi.coll.block import Block
from aiompi.comm import Channel
from aiompi.constants import PROC_NULL, ROOT


async def barrier(channel: Channel) -> None:
    """No rank leaves before all of the remote group have entered.

    Steps: the steps of two barriers in the local group, and one message between the leaders.
    """
    local, nothing = channel.local, Block(memoryview(bytearray()))
    await dissemination(local)
    if local.rank == 0:
        arrival, send = nothing.irecv(channel, 0), nothing.isend(channel, 0)
        await arrival
        await send
    await bcast_binomial(local, nothing, 0)


async def bcast(channel: Channel, block: Block, root: int) -> None:
    """Send from the root to the leader of the remote group, which broadcasts in its group along a tree.

    Args:
        block: filled at the root; unused at the other ranks of the root's group.
        root: ROOT, PROC_NULL or the rank of the root.
    """
    if root == ROOT:
        await block.isend(channel, 0)
    elif root != PROC_NULL:
        local = channel.local
        if local.rank == 0:
            await block.irecv(channel, root)
        await bcast_binomial(local, block, 0)


async def gather(channel: Channel, own: Block, blocks: Sequence[Block] | None, root: int) -> None:
    """From all ranks of the remote group straight to the root.

    Args:
        own: contribution of this rank; unused in the group of the root.
        blocks: at the root, one block for each rank of the remote group; None elsewhere.
        root: ROOT, PROC_NULL or the rank of the root.
    """
    if root >= 0:
        await own.isend(channel, root)
    for arrival in [block.irecv(channel, source) for source, block in enumerate(blocks or ())]:
        await arrival


async def scatter(channel: Channel, blocks: Sequence[Block] | None, own: Block, root: int) -> None:
    """From the root straight to all ranks of the remote group; see `gather`."""
    if root >= 0:
        await own.irecv(channel, root)
    for send in [block.isend(channel, target) for target, block in enumerate(blocks or ())]:
        await send


async def exchange(channel: Channel, outgoing: Sequence[Block], incoming: Sequence[Block]) -> None:
    """Exchange blocks between all ranks of both groups.

    This function serves Alltoall and Allgather. In Allgather, a rank sends the same block to all ranks.
    """
    arrivals = [block.irecv(channel, source) for source, block in enumerate(incoming)]
    sends = [block.isend(channel, target) for target, block in enumerate(outgoing)]
    for arrival in arrivals:
        await arrival
    for send in sends:
        await send


async def reduce(channel: Channel, accumulator: Accumulator, root: int) -> None:
    """Reduce within the contributing group to its leader, which sends the result to the root.

    Args:
        accumulator: the contribution of this rank; at the root it becomes the result. Unused at the other ranks of the
            root's group.
        root: ROOT, PROC_NULL or the rank of the root.
    """
    if root >= 0:
        local = channel.local
        await reduce_binomial(local, accumulator, 0)
        if local.rank == 0:
            await accumulator.block().isend(channel, root)
    elif root == ROOT:
        await accumulator.incoming().irecv(channel, 0)
        accumulator.adopt()


async def allreduce(channel: Channel, accumulator: Accumulator) -> None:
    """Reduce to the leader of each group; the leaders swap the results and broadcast them. All get the same bits."""
    local = channel.local
    await _swap_results(channel, accumulator)
    if local.rank == 0:
        await bcast_binomial(local, accumulator.block(), 0)
    else:
        await bcast_binomial(local, accumulator.incoming(), 0)
        accumulator.adopt()


async def reduce_scatter(channel: Channel, accumulator: Accumulator, counts: Sequence[int]) -> None:
    """Reduce within each group to its leader; the leaders swap the results and scatter them in their groups.

    Args:
        counts: items of the segment of each rank of the local group.
    """
    await _swap_results(channel, accumulator)
    await scatter_segments(channel.local, accumulator, counts, scatter_linear)


async def _swap_results(channel: Channel, accumulator: Accumulator) -> None:
    """Combine the contributions of each group at its leader, and exchange the results of the leaders."""
    await reduce_binomial(channel.local, accumulator, 0)
    if channel.rank == 0:
        arrival, send = accumulator.incoming().irecv(channel, 0), accumulator.block().isend(channel, 0)
        await arrival
        await send
        accumulator.adopt()
