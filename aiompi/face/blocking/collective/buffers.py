"""Collectives on buffers of the blocking face (chapter 4).

`aiompi.face.native.collective.buffers` describes their arguments.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from aiompi.coll import buffers
from aiompi.driver.blocking import refuse_running_loop
from aiompi.face.blocking.handle import Handle
from aiompi.op import SUM, Op


class BufferCollectives(Handle):
    """The collectives of a communicator on buffers; each returns when it is complete for this rank."""

    __slots__ = ()

    def Barrier(self) -> None:
        """Wait until every rank has called it (section 4.3)."""
        refuse_running_loop("Comm.Barrier", "await comm.Barrier()")
        self._finish(buffers.barrier(self._admitted))

    def Bcast(self, buf: Any, root: int = 0) -> None:
        """Fill the buffer of every rank with the root's (section 4.4)."""
        refuse_running_loop("Comm.Bcast", "await comm.Bcast(buf, root)")
        self._finish(buffers.bcast(self._admitted, buf, root))

    def Scatter(self, sendbuf: Any, recvbuf: Any, root: int = 0) -> None:
        """Block i of the root's buffer goes to rank i (section 4.6)."""
        refuse_running_loop("Comm.Scatter", "await comm.Scatter(sendbuf, recvbuf, root)")
        self._finish(buffers.scatter(self._admitted, sendbuf, recvbuf, root))

    def Scatterv(self, sendbuf: Any, recvbuf: Any, root: int = 0) -> None:
        """Blocks of any lengths, from places in the root's buffer, go to the ranks (section 4.6)."""
        refuse_running_loop("Comm.Scatterv", "await comm.Scatterv(sendbuf, recvbuf, root)")
        self._finish(buffers.scatterv(self._admitted, sendbuf, recvbuf, root))

    def Gather(self, sendbuf: Any, recvbuf: Any, root: int = 0) -> None:
        """The buffers of all ranks become the blocks of the root's (section 4.5)."""
        refuse_running_loop("Comm.Gather", "await comm.Gather(sendbuf, recvbuf, root)")
        self._finish(buffers.gather(self._admitted, sendbuf, recvbuf, root))

    def Gatherv(self, sendbuf: Any, recvbuf: Any, root: int = 0) -> None:
        """The buffers of all ranks, of any lengths, come to places in the root's (section 4.5)."""
        refuse_running_loop("Comm.Gatherv", "await comm.Gatherv(sendbuf, recvbuf, root)")
        self._finish(buffers.gatherv(self._admitted, sendbuf, recvbuf, root))

    def Allgather(self, sendbuf: Any, recvbuf: Any) -> None:
        """The buffers of all ranks become the blocks of everyone's (section 4.7)."""
        refuse_running_loop("Comm.Allgather", "await comm.Allgather(sendbuf, recvbuf)")
        self._finish(buffers.allgather(self._admitted, sendbuf, recvbuf))

    def Allgatherv(self, sendbuf: Any, recvbuf: Any) -> None:
        """The buffers of all ranks, of any lengths, come to places in everyone's (section 4.7)."""
        refuse_running_loop("Comm.Allgatherv", "await comm.Allgatherv(sendbuf, recvbuf)")
        self._finish(buffers.allgatherv(self._admitted, sendbuf, recvbuf))

    def Alltoall(self, sendbuf: Any, recvbuf: Any) -> None:
        """Block r of every rank goes to rank r (section 4.8)."""
        refuse_running_loop("Comm.Alltoall", "await comm.Alltoall(sendbuf, recvbuf)")
        self._finish(buffers.alltoall(self._admitted, sendbuf, recvbuf))

    def Alltoallv(self, sendbuf: Any, recvbuf: Any) -> None:
        """Block r of every rank, of any length, goes to a place at rank r (section 4.8)."""
        refuse_running_loop("Comm.Alltoallv", "await comm.Alltoallv(sendbuf, recvbuf)")
        self._finish(buffers.alltoallv(self._admitted, sendbuf, recvbuf))

    def Alltoallw(self, sendbuf: Any, recvbuf: Any) -> None:
        """As `Alltoallv`, with a datatype for each rank (MPI-2)."""
        refuse_running_loop("Comm.Alltoallw", "await comm.Alltoallw(sendbuf, recvbuf)")
        self._finish(buffers.alltoallw(self._admitted, sendbuf, recvbuf))

    def Reduce(self, sendbuf: Any, recvbuf: Any, op: Op = SUM, root: int = 0) -> None:
        """Combine the buffers of all ranks element by element, into the root's (section 4.9)."""
        refuse_running_loop("Comm.Reduce", "await comm.Reduce(sendbuf, recvbuf, op, root)")
        self._finish(buffers.reduce(self._admitted, sendbuf, recvbuf, op, root))

    def Allreduce(self, sendbuf: Any, recvbuf: Any, op: Op = SUM) -> None:
        """Combine the buffers of all ranks element by element, into everyone's (section 4.9.6)."""
        refuse_running_loop("Comm.Allreduce", "await comm.Allreduce(sendbuf, recvbuf, op)")
        self._finish(buffers.allreduce(self._admitted, sendbuf, recvbuf, op))

    def Reduce_scatter(self, sendbuf: Any, recvbuf: Any, recvcounts: Sequence[int] | None = None, op: Op = SUM) -> None:
        """Combine the buffers of all ranks; rank i gets segment i of the result (section 4.10)."""
        refuse_running_loop("Comm.Reduce_scatter", "await comm.Reduce_scatter(sendbuf, recvbuf, recvcounts, op)")
        self._finish(buffers.reduce_scatter(self._admitted, sendbuf, recvbuf, recvcounts, op))

    def Reduce_scatter_block(self, sendbuf: Any, recvbuf: Any, op: Op = SUM) -> None:
        """Combine the buffers of all ranks; rank i gets block i of the result (MPI-2.2)."""
        refuse_running_loop("Comm.Reduce_scatter_block", "await comm.Reduce_scatter_block(sendbuf, recvbuf, op)")
        self._finish(buffers.reduce_scatter_block(self._admitted, sendbuf, recvbuf, op))

    def Scan(self, sendbuf: Any, recvbuf: Any, op: Op = SUM) -> None:
        """Combine the buffers of the ranks up to this one, it included, element by element (section 4.11)."""
        refuse_running_loop("Comm.Scan", "await comm.Scan(sendbuf, recvbuf, op)")
        self._finish(buffers.scan(self._admitted, sendbuf, recvbuf, op))

    def Exscan(self, sendbuf: Any, recvbuf: Any, op: Op = SUM) -> None:
        """Combine the buffers of the ranks below this one element by element (MPI-2)."""
        refuse_running_loop("Comm.Exscan", "await comm.Exscan(sendbuf, recvbuf, op)")
        self._finish(buffers.exscan(self._admitted, sendbuf, recvbuf, op))
