"""Broadcast (section 4.4).

Algorithms take the channel, a block and the root. The block is filled at the root; the algorithm fills it at every
other rank.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from aiompi.coll.algorithms.allgather import ring
from aiompi.coll.algorithms.shapes import Levels, Tree
from aiompi.coll.block import Block
from aiompi.coll.shm_sync import Substitute, content, share_in_rounds, show, show_objects
from aiompi.comm import Channel

if TYPE_CHECKING:
    from aiompi.core._native import SlotExchange, SlotGroup


async def linear(channel: Channel, block: Block, root: int) -> None:
    """The root sends to every other rank.

    Steps: 1. Per rank, for m bytes: 1 message received, except by the root, which sends n - 1 messages and (n - 1) * m
    bytes. Any number of ranks.

    Five ranks, root 0:

             0
          / / \\ \\
         1 2   3 4
    """
    if channel.rank != root:
        await block.irecv(channel, root)
        return
    for send in block.multicast(channel, [rank for rank in range(channel.size) if rank != root]):
        await send


async def binomial(channel: Channel, block: Block, root: int) -> None:
    """Receive from the parent, then send to all children, beginning with the child that has the largest subtree.

    Ranks are counted from the root. The parent of a rank is the rank without its lowest set bit. A child of a rank has
    one bit more, below the lowest set bit. Steps: ceil(log2 n). Per rank, for m bytes: 1 message received, except by
    the root. The root sends the most: ceil(log2 n) messages and m * ceil(log2 n) bytes. Any number of ranks: children
    beyond the last rank are left out.

    Seven ranks, root 0:

                  0
               /  |  \\
              4   2   1
             / \\  |
            6   5 3
    """
    rank, size = channel.rank, channel.size
    relative = (rank - root) % size
    bit = 1
    while bit < size and not relative & bit:
        bit *= 2
    if relative:
        await block.irecv(channel, (rank - bit) % size)
    children = []
    while bit > 1:
        bit //= 2
        if relative + bit < size:
            children.append((rank + bit) % size)
    for send in block.multicast(channel, children):
        await send


#: bytes of a segment: long enough for the bandwidth of a link, short enough that the chain fills quickly
SEGMENT: Final = 128 * 2**10


async def pipelined_chain(channel: Channel, block: Block, root: int) -> None:
    """Receive segments from the previous rank, and send each segment to the next rank while later segments arrive.

    Ranks are counted from the root. A block of m bytes has s = max(1, ceil(m / SEGMENT)) segments. Steps: n - 2 + s.
    Per rank, for m bytes: s messages and m bytes are sent, except by the last rank, and the same number received,
    except by the root. Time: (n - 2 + s) * (alpha + m / s * beta); with many segments, this approaches the time of one
    message. Any number of ranks.

    Five ranks, root 0, three segments; the segments in transit in each step:

        step     1   2   3   4   5   6
        0 > 1    a   b   c
        1 > 2        a   b   c
        2 > 3            a   b   c
        3 > 4                a   b   c
    """
    rank, size = channel.rank, channel.size
    last = (root - 1) % size
    starts = range(0, block.nbytes or 1, SEGMENT)
    segments = [block.part(start, start + SEGMENT) for start in starts]
    arrivals = [] if rank == root else [segment.irecv(channel, (rank - 1) % size) for segment in segments]
    sends = []
    for number, segment in enumerate(segments):
        if arrivals:
            await arrivals[number]
        if rank != last:
            sends.append(segment.isend(channel, (rank + 1) % size))
    for send in sends:
        await send


class ScatterBlocks:
    """A block cut into pieces that differ by at most one byte.

    Args:
        block: the block.
        number: number of pieces.
    """

    __slots__ = ("_number", "_block")

    def __init__(self, block: Block, number: int) -> None:
        self._block = block
        self._number = number

    def range(self, start: int, stop: int) -> Block:
        """Return the pieces `start` to `stop - 1` as one block."""
        length = self._block.nbytes
        return self._block.part(start * length // self._number, stop * length // self._number)

    async def scatter(self, channel: Channel, root: int) -> None:
        """Send piece i along a binomial tree to the rank i places from the root.

        A rank within the tree gets the pieces of its whole subtree. Ranks beyond the number of pieces get nothing.
        """
        tree = Tree(channel.rank, channel.size, root, self._number)
        own = tree.relative
        if own >= self._number:
            return
        if own:
            await self.range(own, own + tree.span).irecv(channel, tree.parent)
        sends = [
            self.range(own + distance, own + distance + span).isend(channel, child)
            for child, distance, span in tree.children()
        ]
        for send in sends:
            await send


async def scatter_ring(channel: Channel, block: Block, root: int) -> None:
    """Scatter the block in n pieces along a binomial tree, then send the pieces around a ring.

    Steps: ceil(log2 n) + n - 1. Per rank, for m bytes: in the scatter the root sends ceil(log2 n) messages and
    (n - 1) / n * m bytes; any other rank sends fewer messages, with at most half as many bytes. In the ring each rank
    sends n - 1 messages and (n - 1) / n * m bytes. Time: (ceil(log2 n) + n - 1) * alpha + 2 * (n - 1) / n * m * beta.
    So large blocks take twice the time of one message, for any n. Any number of ranks; pieces differ by at most one
    byte.

    Five ranks, root 0, pieces a to e; the pieces that each rank holds after each step:

                  rank 0   rank 1   rank 2   rank 3   rank 4
        start     abcde
        step 1    abcde                               e         0 > 4
        step 2    abcde             cd                e         0 > 2
        step 3    abcde    b        cd       d        e         0 > 1, 2 > 3
        step 4    abcde    ab       bcd      cd       de        around the ring
        step 5    abcde    abe      abcd     bcd      cde
        step 6    abcde    abde     abcde    abcd     bcde
        step 7    abcde    abcde    abcde    abcde    abcde
    """
    size = channel.size
    pieces = ScatterBlocks(block, size)
    await pieces.scatter(channel, root)
    places = [(rank - root) % size for rank in range(size)]
    await ring(channel, [pieces.range(place, place + 1) for place in places])


async def scatter_recursive_doubling(channel: Channel, block: Block, root: int) -> None:
    """Scatter the block along a binomial tree, then exchange pieces with the rank 1, 2, 4, ... places away.

    Ranks are counted from the root. The block is cut into p pieces, where p is the largest power of two <= n. Steps:
    2 * log2 p. Per rank, for m bytes: in the scatter the root sends log2 p messages and (p - 1) / p * m bytes; in the
    exchange each rank sends the same amount. Time: 2 * log2 p * alpha + 2 * (p - 1) / p * m * beta. If n is not p: in
    one more step, each of the n - p ranks from p on gets the whole block (m bytes) from the rank p places before it.

    Five ranks, root 0, pieces a to d; the pieces that each rank holds after each step:

                  rank 0   rank 1   rank 2   rank 3   rank 4
        start     abcd
        step 1    abcd              cd                          0 > 2
        step 2    abcd     b        cd       d                  0 > 1, 2 > 3
        step 3    abcd     ab       cd       cd                 0 = 1, 2 = 3
        step 4    abcd     abcd     abcd     abcd               0 = 2, 1 = 3
        step 5    abcd     abcd     abcd     abcd     abcd      0 > 4
    """
    rank, size = channel.rank, channel.size
    power = 1 << (size.bit_length() - 1)
    place = (rank - root) % size
    if place >= power:
        await block.irecv(channel, (rank - power) % size)
        return
    pieces = ScatterBlocks(block, power)
    await pieces.scatter(channel, root)
    distance = 1
    while distance < power:
        own, other = place & -distance, (place & -distance) ^ distance
        partner = (root + (place ^ distance)) % size
        arrival = pieces.range(other, other + distance).irecv(channel, partner)
        send = pieces.range(own, own + distance).isend(channel, partner)
        await arrival
        await send
        distance *= 2
    if place + power < size:
        await block.isend(channel, (rank + power) % size)


#: bytes of a block above which it is cut into segments between three or more hosts
_CUT: Final = 2**16


async def two_level(channel: Channel, block: Block, root: int) -> None:
    """Broadcast among the leaders of the hosts, then on each host.

    The root leads its host. Steps: ceil(log2 h) between h hosts, or for long blocks of buffers the steps of
    `pipelined_chain`; then 1 within each host. Per rank, for m bytes: 1 message received. In `pipelined_chain`, a
    leader receives 1 message per segment instead. The leader of k ranks sends them k - 1 messages and (k - 1) * m
    bytes. Between hosts (h - 1) * m bytes, the least possible. Any number of ranks.

    Five ranks on two hosts, root 1:

             1 ------> 3       between hosts
            / \\        |
           0   2       4       within a host
    """
    levels = Levels(channel, root)
    if levels.between is not None:
        long = block.memory is not None and block.nbytes > _CUT and levels.between.size > 2
        await (pipelined_chain if long else binomial)(levels.between, block, levels.host_of(root))
    await linear(levels.local, block, levels.leader)


async def shm(channel: Channel, block: Block, root: int, otherwise: Substitute = linear) -> None:
    """The root puts its block into shared memory, and each other rank copies it. The root waits for no rank.

    Steps: 1. Per rank, for m bytes: no messages; m bytes copied. All ranks together: at most n - 1 wake-ups, by the
    root. Any number of ranks. A block that is longer than a slot is copied in rounds, for which the root must wait
    until the other ranks have read its slot. If the ranks do not (or not yet) share memory, `linear` is used.

    Five ranks, root 1:

        in the slots          b
        ranks 0, 2, 3 and 4   b
    """
    is_root = channel.rank == root

    def look(shown: Sequence[bytes]) -> None:
        if not is_root:
            block.store(shown[0])

    def make() -> bytes:
        return content(block, channel.room) if is_root else b""

    wanted = range(root, root + 1)

    def begin(slots: SlotGroup) -> SlotExchange | None:
        return slots.bcast(channel.comm, block.data, root, channel)

    if block.memory is None:
        done = await show_objects(channel, make, look, wanted)
    else:
        long = block.nbytes > channel.room
        done = await (share_in_rounds(channel, begin) if long else show(channel, block.nbytes, make, look, wanted))
    if not done:
        await otherwise(channel, block, root)
