"""Constructors of communicators (sections 4.3 to 4.9)."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from aiompi_launcher.conformance.model import tags
from aiompi_launcher.conformance.model.collective import allgather, allreduce, barrier, bcast, reduce
from aiompi_launcher.conformance.model.comm import Comm
from aiompi_launcher.conformance.script import MPIFailure

MAX_CID = 2**64 - 16  # section 4.25


def _largest(invec: bytes, inoutvec: bytes) -> bytes:
    return max(invec, inoutvec)  # of unsigned big-endian numbers of one length


def _contribution(comm: Comm) -> int:
    """Return IMPI_max_cid, made odd (I4.3-5)."""
    comm.proc.max_cid |= 1
    return comm.proc.max_cid


def _settle(comm: Comm, largest: int) -> int:
    """Return the context id of the new communicator, from the maximum of IMPI_max_cid."""
    if largest >= MAX_CID - 1:
        raise MPIFailure("MPI_ERR_OTHER", "out of contexts")
    step = 3 if comm.has("context-step") else 1
    comm.proc.max_cid = largest + step + 1
    return largest + step


async def _next(comm: Comm) -> int:
    """Agree on a context id over an intracommunicator."""
    word = await allreduce(comm, _contribution(comm).to_bytes(8), _largest, commutative=True)
    return _settle(comm, int.from_bytes(word))


async def create(comm: Comm, group: Sequence[int]) -> Comm | None:
    """Comm_create (section 4.4); `group` as ranks in COMM_WORLD."""
    cid = await _next(comm)
    return Comm(comm.proc, cid, list(group)) if comm.proc.rank in group else None


async def dup(comm: Comm) -> Comm:
    """Comm_dup (section 4.6)."""
    if comm.remote is None:
        return Comm(comm.proc, await _next(comm), comm.group)
    (largest,) = await _fan(comm, "Comm_dup", tags.DUP, "I4.6-2", 8)
    return Comm(comm.proc, _settle(comm, largest), comm.group, comm.remote)


async def split(comm: Comm, color: int | None, key: int) -> Comm | None:
    """Comm_split (section 4.7); color None: undefined."""
    cid = await _next(comm)
    entry = struct.pack(">iii", -32766 if color is None else color, key, comm.rank)
    if comm.has("split-swapped"):
        entry = struct.pack(">iii", key, -32766 if color is None else color, comm.rank)
    table = [struct.unpack(">iii", block.ljust(12, b"\0")) for block in await allgather(comm, entry)]
    if color is None:
        return None
    members = sorted((k, rank) for rank, (c, k, _) in enumerate(table) if c == color)
    return Comm(comm.proc, cid, [comm.group[rank] for _, rank in members])


async def free(comm: Comm) -> None:
    """Comm_free (section 4.5)."""
    if comm.remote is None:
        await barrier(comm)
        return
    await _fan(comm, "Comm_free", tags.FREE, "I4.5-2", 0)


async def intercomm(local: Comm, leader: int, peer: Comm, remote_leader: int, tag: int) -> Comm:
    """Intercomm_create (section 4.8)."""
    name = "Intercomm_create"
    word = await reduce(local, _contribution(local).to_bytes(8), _largest, commutative=True, root=leader)
    pair = b""
    if local.rank == leader:
        mine = struct.pack(">QQ", int.from_bytes(word), local.size)
        if local.has("leaders-send-ints"):
            mine = struct.pack(">ii", int.from_bytes(word), local.size)
        peer.tell(remote_leader, tag, mine)
        theirs = await peer.hear(remote_leader, name, tag, 16, "I4.8-2")
        largest, size = struct.unpack(">QQ", theirs[:16].ljust(16, b"\0"))
        pair = struct.pack(">QQ", max(largest, int.from_bytes(word)), size)
    largest, size = struct.unpack(">QQ", (await bcast(local, pair, leader, 16, name)).ljust(16, b"\0")[:16])
    ranks = b""
    if local.rank == leader:
        peer.tell(remote_leader, tag, struct.pack(f">{local.size}i", *local.group))
        ranks = await peer.hear(remote_leader, name, tag, 4 * size, "I4.8-4")
    ranks = await bcast(local, ranks, leader, 4 * size, name)
    remote = [rank for (rank,) in struct.iter_unpack(">i", ranks[: len(ranks) // 4 * 4])]
    if not set(remote) <= set(range(len(local.universe.procs))) - set(local.group) or len(set(remote)) < len(remote):
        raise MPIFailure("MPI_ERR_COMM", f"the other group is told to be {remote[:20]}")
    return Comm(local.proc, _settle(local, largest), local.group, remote)


async def merge(comm: Comm, high: bool) -> Comm:
    """Intercomm_merge (section 4.9)."""
    assert comm.remote is not None
    flag = high != comm.has("merge-wrong-flag")
    largest, theirs = await _fan(comm, "Intercomm_merge", tags.MERGE, "I4.9-1", 16, int(flag))
    first = (not high) if bool(theirs) != high else comm.group[0] < comm.remote[0]
    union = comm.group + comm.remote if first else comm.remote + comm.group
    return Comm(comm.proc, _settle(comm, largest), union)


async def _fan(comm: Comm, name: str, tag: int, rule: str, size: int, flag: int = 0) -> tuple[int, ...]:
    """Fan in to rank 0 of the other group, swap between the two ranks 0, and fan out.

    Args:
        size: bytes of the swapped messages: 0, 8 (a maximum), or 16 (a maximum and a flag).

    Returns:
        The maximum of IMPI_max_cid over both groups, and the other group's flag.
    """
    assert comm.remote is not None
    mine = _contribution(comm)
    if comm.rank:
        comm.tell(0, tag, mine.to_bytes(8) if size else b"")
        return _words(await comm.hear(0, name, tag, size, rule), size)
    for rank in range(1, len(comm.remote)):
        word = await comm.hear(rank, name, tag, min(size, 8), rule)
        mine = max(mine, int.from_bytes(word[:8]))
    comm.tell(0, tag, struct.pack(">QQ", mine, flag)[:size])
    theirs = _words(await comm.hear(0, name, tag, size, rule), size)
    largest = max(mine, theirs[0])
    for rank in range(1, len(comm.remote)):
        comm.tell(rank, tag, struct.pack(">QQ", largest, flag)[:size])
    return largest, *theirs[1:]


def _words(data: bytes, size: int) -> tuple[int, ...]:
    return struct.unpack(f">{max(size, 8) // 8}Q", data[: max(size, 8)].ljust(max(size, 8), b"\0"))
