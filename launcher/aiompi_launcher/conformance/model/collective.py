"""The collectives of chapter 4. They exchange bytes that are already in wire format.

M masters, W the linear limit, X the crossover; R the root. E(v) is the endpoint with relative number v: R itself for 0,
else the master with number (v + number of R's master) mod M.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from aiompi_launcher.conformance.model import tags
from aiompi_launcher.conformance.model.comm import Comm

#: tag of a scatter -> rule for the message of the root to a master, rule for its message to any other rank
_SCATTER_RULES: Final = {tags.SCATTER: ("I4.14-3", "I4.14-2"), tags.SCATTERV: ("I4.15-2", "I4.15-3")}

Combine = Callable[[bytes, bytes], bytes]  # invec, inoutvec


def _bits(limit: int) -> list[int]:
    return [1 << i for i in range(limit.bit_length()) if 1 << i < limit]


def htree_parent(v: int) -> int:
    """v without its highest bit."""
    return v - (1 << v.bit_length() - 1)


def htree_children(v: int, size: int) -> list[int]:
    return [v + bit for bit in _bits(size) if bit > v and v + bit < size]


def btree_parent(v: int) -> int:
    """v without its lowest bit."""
    return v & (v - 1)


def btree_children(v: int, size: int) -> list[int]:
    lowest = v & -v or size
    return [v + bit for bit in _bits(size) if bit < lowest and v + bit < size]


def btree_size(v: int, size: int) -> int:
    """Endpoints in the subtree of v: v, v + 1, ..."""
    return min(v & -v or size, size - v)


class Endpoints:
    """The processes that communicate with other clients in a collective with a root."""

    def __init__(self, comm: Comm, root: int) -> None:
        self.comm = comm
        self.root = root
        self.count = len(comm.masters)
        self.shift = comm.number(root)
        self.linear = self.count <= comm.universe.max_linear
        if comm.has("linear-only"):
            self.linear = True
        if comm.has("tree-only"):
            self.linear = False

    def rank(self, v: int) -> int:
        return self.root if v == 0 else self.comm.masters[(v + self.shift) % self.count]

    def locals(self, v: int) -> list[int]:
        return self.comm.locals[(v + self.shift) % self.count]

    @property
    def mine(self) -> int | None:
        """The relative number of this process, None if it is no endpoint."""
        v = (self.comm.number(self.comm.rank) - self.shift) % self.count
        return v if self.rank(v) == self.comm.rank else None

    @property
    def head(self) -> int:
        """The rank of my client that communicates with the other clients."""
        return self.rank((self.comm.number(self.comm.rank) - self.shift) % self.count)

    def others(self) -> list[int]:
        """Relative numbers of the other clients, in the order of their masters."""
        return sorted(range(1, self.count), key=lambda v: (v + self.shift) % self.count)

    def children(self, v: int, tree: Callable[[int, int], list[int]]) -> list[int]:
        """Return the relative numbers of an endpoint's children; if linear, the root is the parent of all."""
        if self.linear:
            return [] if v else self.others()
        return tree(v, self.count)

    def parent(self, v: int, tree: Callable[[int], int]) -> int:
        """Return the rank above an endpoint."""
        return self.root if self.linear else self.rank(tree(v))


async def barrier(comm: Comm) -> None:
    """Section 4.10."""
    ends = Endpoints(comm, 0)
    tag = tags.BARRIER
    if comm.rank != ends.head:
        comm.tell(ends.head, tag)
        await comm.hear(ends.head, "Barrier", tag, 0, "I4.10-1")
        return
    local = [rank for rank in ends.locals(ends.mine or 0) if rank != comm.rank]
    for rank in local:
        await comm.hear(rank, "Barrier", tag, 0, "I4.10-1")
    await (_barrier_linear(ends) if ends.linear else _barrier_tree(ends))
    for rank in local:
        comm.tell(rank, tag)


async def _barrier_linear(ends: Endpoints) -> None:
    comm = ends.comm
    if comm.rank:
        comm.not_yet(0, "I4.10-5", "an answer to a barrier that this process has not entered")
        comm.tell(0, tags.BARRIER)
        await comm.hear(0, "Barrier", tags.BARRIER, 0, "I4.10-2")
        return
    if comm.has("barrier-answers-early"):
        for master in comm.masters[1:]:
            comm.tell(master, tags.BARRIER)
    for master in comm.masters[1:]:
        await comm.hear(master, "Barrier", tags.BARRIER, 0, "I4.10-2")
    if not comm.has("barrier-answers-early"):
        for master in comm.masters[1:]:
            comm.tell(master, tags.BARRIER)


async def _barrier_tree(ends: Endpoints) -> None:
    comm, v = ends.comm, ends.mine or 0
    children = htree_children(v, ends.count)
    for child in reversed(children):
        await comm.hear(ends.rank(child), "Barrier", tags.BARRIER, 0, "I4.10-3")
    if v:
        comm.tell(ends.rank(htree_parent(v)), tags.BARRIER)
        await comm.hear(ends.rank(htree_parent(v)), "Barrier", tags.BARRIER, 0, "I4.10-3")
    for child in htree_children(comm.rank, ends.count) if comm.has("root-by-rank") else children:
        comm.tell(ends.rank(child), tags.BARRIER)


async def bcast(comm: Comm, data: bytes, root: int, size: int | None = None, operation: str = "Bcast") -> bytes:
    """Section 4.11.

    Args:
        data: the data to send; used only at the root.
        size: number of bytes that the other processes expect; None for any number.
    """
    ends = Endpoints(comm, root)
    v = ends.mine
    if v is None:
        return await comm.hear(ends.head, operation, tags.BCAST, size, "I4.11-1")
    if v:
        source = ends.parent(v, htree_parent)
        rule = "I4.11-2" if ends.linear else "I4.11-3"
        data = await comm.hear(source, operation, tags.BCAST, size, rule)
    children = ends.children(v, htree_children)
    for child in children:
        if not (comm.has("bcast-skips-empty") and not data):
            comm.tell(ends.rank(child), tags.BCAST, data)
    for rank in ends.locals(v):
        if rank != comm.rank:
            comm.tell(rank, tags.BCAST, data)
    return data


async def gather(comm: Comm, data: bytes, root: int) -> list[bytes]:
    """Section 4.12: the blocks of all ranks at the root, nothing elsewhere."""
    short = len(data) < comm.universe.crossover
    if comm.has("gather-crossover"):
        short = len(data) <= comm.universe.crossover
    if comm.has("gather-always-long"):
        short = False
    if not short:
        return await _direct(comm, data, root, tags.GATHER, [len(data)] * comm.size, "I4.12-2")
    return await _collected(comm, data, root, tags.GATHER, [len(data)] * comm.size)


async def gatherv(comm: Comm, data: bytes, root: int, counts: Sequence[int], unit: int) -> list[bytes]:
    """Section 4.13.

    Args:
        counts: elements of each rank, at the root.
        unit: bytes of an element, at the root.
    """
    sizes = [count * unit for count in counts]
    bound = max(sizes, default=0) if comm.rank == root else 0
    short = await _agree(comm, bound, root, "Gatherv", "I4.13-1")
    known = sizes if comm.rank == root else [None] * comm.size
    if short:
        return await _collected(comm, data, root, tags.GATHERV, known)
    return await _direct(comm, data, root, tags.GATHERV, known, "I4.13-5")


async def _agree(comm: Comm, bound: int, root: int, operation: str, rule: str) -> bool:
    """Return True if the operation is short. The root decides this, and broadcasts its decision as one IMPI_INT4."""
    if bound > comm.universe.crossover and not comm.has("bound-not-zero"):
        bound = 0
    word = await bcast(comm, bound.to_bytes(4), root, 4, operation)
    told = int.from_bytes(word[:4], signed=True)
    if told > comm.universe.crossover:
        comm.object(rule, f"{operation}: the root tells {told}, which is more than the crossover and therefore 0")
    return told > 0


def _name(tag: int) -> str:
    """Return the name of the operation that has a tag."""
    return tags.NAMES[tag].capitalize()


async def _direct(comm: Comm, data: bytes, root: int, tag: int, sizes: Sequence[int | None], rule: str) -> list[bytes]:
    """Every process sends to the root."""
    operation = _name(tag)
    if comm.rank != root:
        comm.tell(root, tag, data)
        return []
    return [
        data if rank == root else await comm.hear(rank, operation, tag, sizes[rank], rule) for rank in range(comm.size)
    ]


async def _collected(comm: Comm, data: bytes, root: int, tag: int, sizes: Sequence[int | None]) -> list[bytes]:
    """Masters collect for their clients; linearly, or along a B-tree."""
    operation = _name(tag)
    ends = Endpoints(comm, root)
    v = ends.mine
    if v is None:
        comm.tell(ends.head, tag, data)
        return []
    blocks = {comm.rank: data}
    for rank in ends.locals(v):
        if rank != comm.rank:
            blocks[rank] = await comm.hear(rank, operation, tag, None, "")
    mine = b"".join(blocks[rank] for rank in sorted(blocks, reverse=comm.has("gather-reversed")))
    children = ends.children(v, btree_children)
    rule = ("I4.12-4" if ends.linear else "I4.12-5") if tag == tags.GATHER else "I4.13-4"
    for child in children:
        members = _members(ends, child)
        length = _total(sizes, members)
        piece = await comm.hear(ends.rank(child), operation, tag, length, rule)
        mine += piece
        if v == 0:
            blocks |= _cut(piece, members, sizes)
    if v:
        comm.tell(ends.parent(v, btree_parent), tag, mine)
        return []
    return [blocks.get(rank, b"") for rank in range(comm.size)]


def _members(ends: Endpoints, v: int) -> list[int]:
    """Return the ranks whose blocks come with endpoint v, in their order."""
    reach = 1 if ends.linear else btree_size(v, ends.count)
    return [rank for u in range(v, v + reach) for rank in ends.locals(u)]


def _total(sizes: Sequence[int | None], members: list[int]) -> int | None:
    total = 0
    for rank in members:
        size = sizes[rank]
        if size is None:
            return None
        total += size
    return total


def _cut(data: bytes, members: list[int], sizes: Sequence[int | None]) -> dict[int, bytes]:
    blocks, position = {}, 0
    for rank in members:
        size = sizes[rank] or 0
        blocks[rank] = data[position : position + size]
        position += size
    return blocks


async def scatter(comm: Comm, blocks: Sequence[bytes], size: int, root: int) -> bytes:
    """Section 4.14: blocks at the root, each of `size` bytes; own block everywhere."""
    short = size < comm.universe.crossover
    if comm.has("scatter-crossover"):
        short = size <= comm.universe.crossover
    return await _dealt(comm, blocks, [size] * comm.size, root, tags.SCATTER, short=short)


async def scatterv(comm: Comm, blocks: Sequence[bytes], size: int, root: int) -> bytes:
    """Section 4.15: blocks at the root; own block, of `size` bytes, everywhere."""
    bound = max(map(len, blocks), default=0)
    short = await _agree(comm, bound, root, "Scatterv", "I4.15-1")
    sizes: list[int | None] = [None] * comm.size
    sizes[comm.rank] = size
    if short:
        for rank in comm.locals[comm.number(comm.rank)]:
            sizes[rank] = await _size_of(comm, rank, size)
    return await _dealt(comm, blocks, sizes, root, tags.SCATTERV, short=short)


async def _size_of(comm: Comm, rank: int, size: int) -> int:
    """Return the length of the block for `rank` of this client; the master needs it to cut its message (I4.15-4)."""
    for other in comm.locals[comm.number(comm.rank)]:
        if rank == comm.rank and other != rank:
            comm.tell(other, tags.SCATTERV, size.to_bytes(8))
    if rank == comm.rank:
        return size
    return int.from_bytes(await comm.hear(rank, "Scatterv", tags.SCATTERV, 8, ""))


async def _dealt(
    comm: Comm,
    blocks: Sequence[bytes],
    sizes: Sequence[int | None],
    root: int,
    tag: int,
    *,
    short: bool,
) -> bytes:
    operation, (short_rule, long_rule) = _name(tag), _SCATTER_RULES[tag]
    ends = Endpoints(comm, root)
    if comm.rank == root:
        return _deal(ends, blocks, tag, short)
    head = ends.head if short else root
    if comm.rank != head or not short:
        return await comm.hear(head, operation, tag, sizes[comm.rank], long_rule)
    members = ends.locals(ends.mine or 0)
    joint = await comm.hear(root, operation, tag, _total(sizes, members), short_rule)
    pieces = _cut(joint, members, sizes)
    for rank in members:
        if rank != comm.rank:
            comm.tell(rank, tag, pieces[rank])
    return pieces[comm.rank]


def _deal(ends: Endpoints, blocks: Sequence[bytes], tag: int, short: bool) -> bytes:
    """Send the root's blocks. If `short`, blocks for other clients go through their masters; all others go directly."""
    comm = ends.comm
    for rank in range(comm.size):
        if rank != comm.rank and (comm.is_local(rank) or not short):
            comm.tell(rank, tag, blocks[rank])
    for v in ends.others() if short else []:
        members = ends.locals(v)
        if comm.has("scatter-reversed"):
            members = members[::-1]
        comm.tell(ends.rank(v), tag, b"".join(blocks[rank] for rank in members))
    return blocks[comm.rank]


async def reduce(comm: Comm, data: bytes, combine: Combine, commutative: bool, root: int) -> bytes:
    """Section 4.16: the result at the root, nothing elsewhere."""
    if not commutative:
        return await _reduce_ordered(comm, data, combine, root)
    ends = Endpoints(comm, root)
    v = ends.mine
    if v is None:
        comm.tell(ends.head, tags.REDUCE, data)
        return b""
    size = len(data)
    for rank in ends.locals(v):
        if rank != comm.rank:
            data = combine(await comm.hear(rank, "Reduce", tags.REDUCE, size, ""), data)
    children = ends.children(v, btree_children)
    rule = "I4.16-3" if ends.linear else "I4.16-4"
    received = [await comm.hear(ends.rank(child), "Reduce", tags.REDUCE, size, rule) for child in children]
    if comm.has("reduce-combines-once"):
        received = received[-1:]
    for piece in received:
        data = combine(_padded(piece, size), data)
    if v:
        comm.tell(ends.parent(v, btree_parent), tags.REDUCE, data)
        return b""
    return data


async def _reduce_ordered(comm: Comm, data: bytes, combine: Combine, root: int) -> bytes:
    """a0 op (a1 op (... op a(n-1)))."""
    size = len(data)
    parts = await _direct(comm, data, root, tags.REDUCE, [size] * comm.size, "I4.16-6")
    if comm.rank != root:
        return b""
    if comm.has("reduce-ignores-order"):
        parts.reverse()
    result = _padded(parts[-1], size)
    for part in reversed(parts[:-1]):
        result = combine(_padded(part, size), result)
    return result


def _padded(data: bytes, size: int) -> bytes:
    """Cut or pad received data to the expected length, so that a faulty peer cannot crash the tester."""
    return data[:size].ljust(size, b"\0")


async def reduce_scatter(comm: Comm, data: bytes, combine: Combine, commutative: bool, sizes: Sequence[int]) -> bytes:
    """Section 4.17; `sizes` in bytes."""
    result = await reduce(comm, data, combine, commutative, 0)
    blocks, position = [], 0
    for size in sizes:
        blocks.append(result[position : position + size])
        position += size
    return await scatterv(comm, blocks if comm.rank == 0 else [], sizes[comm.rank], 0)


async def scan(comm: Comm, data: bytes, combine: Combine) -> bytes:
    """Section 4.18: a chain of all ranks."""
    size = len(data)
    if comm.rank:
        received = _padded(await comm.hear(comm.rank - 1, "Scan", tags.SCAN, size, "I4.18-1"), size)
        data = combine(data, received) if comm.has("scan-wrong-order") else combine(received, data)
    if comm.rank + 1 < comm.size:
        comm.tell(comm.rank + 1, tags.SCAN, data)
    return data


async def allgather(comm: Comm, data: bytes) -> list[bytes]:
    """Section 4.19."""
    size = len(data)
    joint = b"".join(await gather(comm, data, 0))
    joint = await bcast(comm, joint, 0, size * comm.size, "Allgather")
    return [joint[start : start + size] for start in range(0, size * comm.size, size)] if size else [b""] * comm.size


async def allgatherv(comm: Comm, data: bytes, counts: Sequence[int], unit: int) -> list[bytes]:
    """Section 4.20: the blocks travel in rank order, without gaps."""
    joint = b"".join(await gatherv(comm, data, 0, counts, unit))
    joint = await bcast(comm, joint, 0, sum(counts) * unit, "Allgatherv")
    blocks = _cut(joint, list(range(comm.size)), [count * unit for count in counts])
    return [blocks[rank] for rank in range(comm.size)]


async def allreduce(comm: Comm, data: bytes, combine: Combine, commutative: bool) -> bytes:
    """Section 4.21."""
    result = await reduce(comm, data, combine, commutative, 0)
    return _padded(await bcast(comm, result, 0, len(data), "Allreduce"), len(data))


async def alltoall(comm: Comm, blocks: Sequence[bytes]) -> list[bytes]:
    """Section 4.22."""
    size = len(blocks[0])
    short = size < comm.universe.crossover
    if comm.has("alltoall-crossover"):
        short = size <= comm.universe.crossover
    if not short:
        return await _exchange(comm, blocks, [size] * comm.size, "Alltoall", tags.ALLTOALL, "I4.22-2")
    return await _alltoall_short(comm, blocks, size)


async def alltoallv(comm: Comm, blocks: Sequence[bytes], sizes: Sequence[int]) -> list[bytes]:
    """Do an alltoallv (section 4.23). `sizes` are the bytes of the blocks that come from each rank."""
    return await _exchange(comm, blocks, sizes, "Alltoallv", tags.ALLTOALLV, "I4.23-1")


async def _exchange(
    comm: Comm, blocks: Sequence[bytes], sizes: Sequence[int], operation: str, tag: int, rule: str
) -> list[bytes]:
    for rank in range(comm.size):
        empty = comm.has("alltoallv-skips-empty") and not blocks[rank] and not comm.is_local(rank)
        if rank != comm.rank and not empty:
            comm.tell(rank, tag, blocks[rank])
    return [
        blocks[rank] if rank == comm.rank else await comm.hear(rank, operation, tag, sizes[rank], rule)
        for rank in range(comm.size)
    ]


async def _alltoall_short(comm: Comm, blocks: Sequence[bytes], size: int) -> list[bytes]:
    """Let the masters exchange the blocks of their clients, ordered by sender, then by receiver."""
    tag = tags.ALLTOALL
    number = comm.number(comm.rank)
    master, mine = comm.masters[number], comm.locals[number]
    if comm.rank != master:
        comm.tell(master, tag, b"".join(blocks))
        joint = await comm.hear(master, "Alltoall", tag, size * comm.size, "I4.22-3")
        return [joint[start : start + size] for start in range(0, size * comm.size, size)] if size else list(blocks)
    rows = {comm.rank: b"".join(blocks)}
    for rank in _others(mine, comm.rank):
        rows[rank] = await comm.hear(rank, "Alltoall", tag, None, "")
    columns = await _alltoall_masters(comm, rows, size)
    for rank in _others(mine, comm.rank):
        comm.tell(rank, tag, b"".join(columns[sender, rank] for sender in range(comm.size)))
    return [columns[sender, comm.rank] for sender in range(comm.size)]


async def _alltoall_masters(comm: Comm, rows: Mapping[int, bytes], size: int) -> dict[tuple[int, int], bytes]:
    """Exchange the rows of this client with the other masters. Return the block of each sender and local receiver."""
    tag = tags.ALLTOALL
    number = comm.number(comm.rank)
    mine = comm.locals[number]

    def block(sender: int, receiver: int) -> bytes:
        return rows[sender][receiver * size : (receiver + 1) * size]

    columns = {(sender, receiver): block(sender, receiver) for sender in mine for receiver in mine}
    for other in _others(range(len(comm.masters)), number):
        pairs = [(sender, receiver) for sender in mine for receiver in comm.locals[other]]
        if comm.has("alltoall-transposed"):
            pairs = [(sender, receiver) for receiver in comm.locals[other] for sender in mine]
        comm.tell(comm.masters[other], tag, b"".join(block(*pair) for pair in pairs))
    for other in _others(range(len(comm.masters)), number):
        senders = comm.locals[other]
        data = await comm.hear(comm.masters[other], "Alltoall", tag, len(senders) * len(mine) * size, "I4.22-3")
        for place, pair in enumerate((sender, receiver) for sender in senders for receiver in mine):
            columns[pair] = data[place * size : (place + 1) * size]
    return columns


def _others(numbers: Iterable[int], own: int) -> list[int]:
    return [number for number in numbers if number != own]
