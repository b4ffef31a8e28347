"""The collective calls of scripts on an implementation with mpi4py's interface, and the buffers of all calls."""

from __future__ import annotations

import struct
from types import ModuleType
from typing import Any

from aiompi_launcher.conformance.script import MPIFailure
from aiompi_launcher.conformance.script.calls import COMPOSE_MODULUS
from aiompi_launcher.conformance.script.machine import Memory


class PythonCollectives:
    """The collective calls of a script; see `aiompi_launcher.conformance.python_mpi`."""

    def __init__(self, module: ModuleType) -> None:
        self._mpi: Any = module

    # Buffers.

    def _spec(self, memory: Memory, count: int, datatype: Any) -> list[Any]:
        """Return a buffer in mpi4py's form, inside the variable."""
        if datatype == self._mpi.DATATYPE_NULL or count < 0:
            return [memory.view, count, datatype]
        _, extent = datatype.Get_extent()
        bound, length = datatype.Get_true_extent()
        needed = (count - 1) * extent + bound + length if count else 0
        if needed > len(memory.view):
            raise MPIFailure("MPI_ERR_BUFFER", f"{count} elements take {needed} bytes of {len(memory.view)}")
        return [memory.view, count, datatype]

    def _vector(self, memory: Memory, counts: list[int], places: list[int], datatype: Any, comm: Any) -> list[Any]:
        size = comm.Get_size()
        for count, place in zip(counts[:size], places[:size], strict=False):
            start = max(0, place) * datatype.Get_extent()[1]
            self._spec(Memory(memory.view[start:]), count, datatype)
        return [memory.view, (counts[:size], places[:size]), datatype]

    def _left(self, request: Any) -> Any:
        """Return the value of a handle after its request is complete."""
        return request if isinstance(request, self._mpi.Prequest) else self._mpi.REQUEST_NULL

    # Collectives.

    async def barrier(self, comm: Any) -> None:
        comm.Barrier()

    async def bcast(self, memory: Memory, count: int, datatype: Any, root: int, comm: Any) -> None:
        comm.Bcast(self._spec(memory, count, datatype), root)

    async def gather(
        self, sent: Memory, count: int, datatype: Any, out: Memory, n: int, t: Any, root: int, comm: Any
    ) -> None:
        target = self._spec(out, n, t) if comm.Get_rank() == root else None
        comm.Gather(self._spec(sent, count, datatype), target, root)

    async def gatherv(
        self,
        sent: Memory,
        count: int,
        datatype: Any,
        out: Memory,
        counts: list[int],
        places: list[int],
        t: Any,
        root: int,
        comm: Any,
    ) -> None:
        target = self._vector(out, counts, places, t, comm) if comm.Get_rank() == root else None
        comm.Gatherv(self._spec(sent, count, datatype), target, root)

    async def scatter(
        self, sent: Memory, n: int, t: Any, out: Memory, count: int, datatype: Any, root: int, comm: Any
    ) -> None:
        source = self._spec(sent, n, t) if comm.Get_rank() == root else None
        comm.Scatter(source, self._spec(out, count, datatype), root)

    async def scatterv(
        self,
        sent: Memory,
        counts: list[int],
        places: list[int],
        t: Any,
        out: Memory,
        count: int,
        datatype: Any,
        root: int,
        comm: Any,
    ) -> None:
        source = self._vector(sent, counts, places, t, comm) if comm.Get_rank() == root else None
        comm.Scatterv(source, self._spec(out, count, datatype), root)

    async def allgather(self, sent: Memory, count: int, datatype: Any, out: Memory, n: int, t: Any, comm: Any) -> None:
        comm.Allgather(self._spec(sent, count, datatype), self._spec(out, n, t))

    async def allgatherv(
        self,
        sent: Memory,
        count: int,
        datatype: Any,
        out: Memory,
        counts: list[int],
        places: list[int],
        t: Any,
        comm: Any,
    ) -> None:
        comm.Allgatherv(self._spec(sent, count, datatype), self._vector(out, counts, places, t, comm))

    async def alltoall(self, sent: Memory, count: int, datatype: Any, out: Memory, n: int, t: Any, comm: Any) -> None:
        comm.Alltoall(self._spec(sent, count, datatype), self._spec(out, n, t))

    async def alltoallv(
        self,
        sent: Memory,
        counts: list[int],
        places: list[int],
        datatype: Any,
        out: Memory,
        recvcounts: list[int],
        recvplaces: list[int],
        t: Any,
        comm: Any,
    ) -> None:
        source = self._vector(sent, counts, places, datatype, comm)
        comm.Alltoallv(source, self._vector(out, recvcounts, recvplaces, t, comm))

    async def reduce(self, sent: Memory, out: Memory, count: int, datatype: Any, op: Any, root: int, comm: Any) -> None:
        target = self._spec(out, count, datatype) if comm.Get_rank() == root else None
        comm.Reduce(self._spec(sent, count, datatype), target, op, root)

    async def allreduce(self, sent: Memory, out: Memory, count: int, datatype: Any, op: Any, comm: Any) -> None:
        comm.Allreduce(self._spec(sent, count, datatype), self._spec(out, count, datatype), op)

    async def reduce_scatter(
        self, sent: Memory, out: Memory, counts: list[int], datatype: Any, op: Any, comm: Any
    ) -> None:
        counts = counts[: comm.Get_size()]
        source = self._spec(sent, sum(counts), datatype)
        comm.Reduce_scatter(source, self._spec(out, counts[comm.Get_rank()], datatype), counts, op)

    async def scan(self, sent: Memory, out: Memory, count: int, datatype: Any, op: Any, comm: Any) -> None:
        comm.Scan(self._spec(sent, count, datatype), self._spec(out, count, datatype), op)

    async def op_create(self, function: str, commute: int) -> Any:
        return self._mpi.Op.Create(_compose, bool(commute))

    async def op_free(self, op: Any) -> Any:
        op.Free()
        return self._mpi.OP_NULL


def _compose(invec: Any, inoutvec: Any, datatype: Any) -> None:
    """Apply TEST_COMPOSE to pairs of ints: compose maps x -> a x + b."""
    left, right = memoryview(invec).cast("B"), memoryview(inoutvec).cast("B")
    for start in range(0, len(right), 8):
        (a, b), (c, d) = struct.unpack_from("2i", left, start), struct.unpack_from("2i", right, start)
        struct.pack_into("2i", right, start, a * c % COMPOSE_MODULUS, (a * d + b) % COMPOSE_MODULUS)
