"""The collective calls of scripts, in a simulated process."""

from __future__ import annotations

from collections.abc import Sequence

from aiompi_launcher.conformance.model import collective
from aiompi_launcher.conformance.model.comm import Comm
from aiompi_launcher.conformance.model.datatype import Datatype
from aiompi_launcher.conformance.model.op import Op
from aiompi_launcher.conformance.model.pt2pt import PointToPoint, there, usable
from aiompi_launcher.conformance.script import MPIFailure
from aiompi_launcher.conformance.script.machine import Memory


class Collectives(PointToPoint):
    """The collective calls of a script; see `aiompi_launcher.conformance.model.mpi`."""

    def _rooted(self, comm: Comm | None, root: int = 0) -> Comm:
        comm = there(comm)
        if comm.remote is not None:
            raise MPIFailure("MPI_ERR_COMM", "MPI-1 has no collectives on intercommunicators")
        if not 0 <= root < comm.size:
            raise MPIFailure("MPI_ERR_ROOT", f"there is no rank {root} among {comm.size}")
        return comm

    async def barrier(self, comm: Comm) -> None:
        await collective.barrier(self._rooted(comm))

    async def bcast(self, memory: Memory, count: int, datatype: Datatype, root: int, comm: Comm) -> None:
        comm = self._rooted(comm, root)
        data = usable(datatype).pack(memory.view, count) if comm.rank == root else b""
        data = await collective.bcast(comm, data, root, count * datatype.wire_size)
        if comm.rank != root:
            datatype.unpack(data, memory.view)

    async def gather(
        self, sent: Memory, count: int, datatype: Datatype, out: Memory, n: int, t: Datatype, root: int, comm: Comm
    ) -> None:
        comm = self._rooted(comm, root)
        blocks = await collective.gather(comm, usable(datatype).pack(sent.view, count), root)
        _store(blocks, out, [n * rank for rank in range(len(blocks))], t)

    async def gatherv(
        self,
        sent: Memory,
        count: int,
        datatype: Datatype,
        out: Memory,
        counts: list[int],
        displacements: list[int],
        t: Datatype,
        root: int,
        comm: Comm,
    ) -> None:
        comm = self._rooted(comm, root)
        at_root = comm.rank == root
        known, unit = (counts[: comm.size], usable(t).wire_size) if at_root else ([0] * comm.size, 0)
        blocks = await collective.gatherv(comm, usable(datatype).pack(sent.view, count), root, known, unit)
        _store(blocks, out, displacements, t)

    async def scatter(
        self, sent: Memory, n: int, t: Datatype, out: Memory, count: int, datatype: Datatype, root: int, comm: Comm
    ) -> None:
        comm = self._rooted(comm, root)
        blocks = _blocks(sent, [n] * comm.size, [n * r for r in range(comm.size)], t) if comm.rank == root else []
        data = await collective.scatter(comm, blocks, count * usable(datatype).wire_size, root)
        datatype.unpack(data, out.view)

    async def scatterv(
        self,
        sent: Memory,
        counts: list[int],
        displacements: list[int],
        t: Datatype,
        out: Memory,
        count: int,
        datatype: Datatype,
        root: int,
        comm: Comm,
    ) -> None:
        comm = self._rooted(comm, root)
        blocks = _blocks(sent, counts[: comm.size], displacements, t) if comm.rank == root else []
        data = await collective.scatterv(comm, blocks, count * usable(datatype).wire_size, root)
        datatype.unpack(data, out.view)

    async def allgather(
        self, sent: Memory, count: int, datatype: Datatype, out: Memory, n: int, t: Datatype, comm: Comm
    ) -> None:
        comm = self._rooted(comm)
        blocks = await collective.allgather(comm, usable(datatype).pack(sent.view, count))
        _store(blocks, out, [n * rank for rank in range(comm.size)], t)

    async def allgatherv(
        self,
        sent: Memory,
        count: int,
        datatype: Datatype,
        out: Memory,
        counts: list[int],
        displacements: list[int],
        t: Datatype,
        comm: Comm,
    ) -> None:
        comm = self._rooted(comm)
        data = usable(datatype).pack(sent.view, count)
        blocks = await collective.allgatherv(comm, data, counts[: comm.size], usable(t).wire_size)
        _store(blocks, out, displacements, t)

    async def alltoall(
        self, sent: Memory, count: int, datatype: Datatype, out: Memory, n: int, t: Datatype, comm: Comm
    ) -> None:
        comm = self._rooted(comm)
        blocks = _blocks(sent, [count] * comm.size, [count * rank for rank in range(comm.size)], datatype)
        _store(await collective.alltoall(comm, blocks), out, [n * rank for rank in range(comm.size)], t)

    async def alltoallv(
        self,
        sent: Memory,
        counts: list[int],
        displacements: list[int],
        datatype: Datatype,
        out: Memory,
        recvcounts: list[int],
        recvdisplacements: list[int],
        t: Datatype,
        comm: Comm,
    ) -> None:
        comm = self._rooted(comm)
        blocks = _blocks(sent, counts[: comm.size], displacements, datatype)
        sizes = [count * usable(t).wire_size for count in recvcounts[: comm.size]]
        _store(await collective.alltoallv(comm, blocks, sizes), out, recvdisplacements, t)

    async def reduce(
        self, sent: Memory, out: Memory, count: int, datatype: Datatype, op: Op, root: int, comm: Comm
    ) -> None:
        comm = self._rooted(comm, root)
        data = usable(datatype).pack(sent.view, count)
        result = await collective.reduce(comm, data, _combine(op, datatype), op.commutative, root)
        if comm.rank == root:
            datatype.unpack(result, out.view)

    async def allreduce(self, sent: Memory, out: Memory, count: int, datatype: Datatype, op: Op, comm: Comm) -> None:
        data = usable(datatype).pack(sent.view, count)
        comm = self._rooted(comm)
        datatype.unpack(await collective.allreduce(comm, data, _combine(op, datatype), op.commutative), out.view)

    async def reduce_scatter(
        self, sent: Memory, out: Memory, counts: list[int], datatype: Datatype, op: Op, comm: Comm
    ) -> None:
        comm = self._rooted(comm)
        counts = counts[: comm.size]
        data = usable(datatype).pack(sent.view, sum(counts))
        sizes = [count * datatype.wire_size for count in counts]
        combine = _combine(op, datatype)
        datatype.unpack(await collective.reduce_scatter(comm, data, combine, op.commutative, sizes), out.view)

    async def scan(self, sent: Memory, out: Memory, count: int, datatype: Datatype, op: Op, comm: Comm) -> None:
        data = usable(datatype).pack(sent.view, count)
        datatype.unpack(await collective.scan(self._rooted(comm), data, _combine(op, datatype)), out.view)

    async def op_create(self, function: str, commute: int) -> Op:
        return Op(function, bool(commute))

    async def op_free(self, op: Op) -> None:
        return None


def _combine(op: Op | None, datatype: Datatype) -> collective.Combine:
    if op is None:
        raise MPIFailure("MPI_ERR_OP", "the operation is MPI_OP_NULL")
    return lambda invec, inoutvec: op.combine(datatype, invec, inoutvec)


def _blocks(memory: Memory, counts: list[int], displacements: list[int], datatype: Datatype) -> list[bytes]:
    starts = [displacement * usable(datatype).extent for displacement in displacements]
    return [datatype.pack(memory.view[start:], n) for n, start in zip(counts, starts, strict=False)]


def _store(blocks: Sequence[bytes], memory: Memory, displacements: list[int], datatype: Datatype) -> None:
    for block, displacement in zip(blocks, displacements, strict=False):
        count = len(block) // (usable(datatype).wire_size or 1)
        start = memory.view[displacement * datatype.extent :]
        datatype.check(start, count)
        datatype.unpack(block, start)
