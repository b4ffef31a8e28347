"""Collectives on buffers of the blocking face (chapter 4).

`aiompi.face.native.collective.buffers` describes their arguments.
"""

from __future__ import annotations

from collections.abc import Sequence

from aiompi.coll import buffers
from aiompi.face.blocking.handle import Handle
from aiompi.op import SUM, Op
from aiompi.typing import BufSpec, BufSpecB, BufSpecV, BufSpecW, InPlace


class BufferCollectives(Handle):
    """The collectives of a communicator on buffers; each returns when it is complete for this rank."""

    __slots__ = ()

    def Barrier(self) -> None:
        """Wait until every rank has called it (section 4.3)."""
        self._finish(buffers.barrier.begin(self._entered("Barrier()")))

    def Bcast(self, buf: BufSpec, root: int = 0) -> None:
        """Fill the buffer of every rank with the root's (section 4.4)."""
        self._finish(buffers.bcast.begin(self._entered("Bcast(buf, root)"), buf, root))

    def Scatter(self, sendbuf: BufSpecB | None, recvbuf: BufSpec | InPlace, root: int = 0) -> None:
        """Block i of the root's buffer goes to rank i (section 4.6)."""
        self._finish(buffers.scatter.begin(self._entered("Scatter(sendbuf, recvbuf, root)"), sendbuf, recvbuf, root))

    def Scatterv(self, sendbuf: BufSpecV | None, recvbuf: BufSpec | InPlace, root: int = 0) -> None:
        """Blocks of any lengths, from places in the root's buffer, go to the ranks (section 4.6)."""
        self._finish(buffers.scatterv(self._entered("Scatterv(sendbuf, recvbuf, root)"), sendbuf, recvbuf, root))

    def Gather(self, sendbuf: BufSpec | InPlace, recvbuf: BufSpecB | None, root: int = 0) -> None:
        """The buffers of all ranks become the blocks of the root's (section 4.5)."""
        self._finish(buffers.gather.begin(self._entered("Gather(sendbuf, recvbuf, root)"), sendbuf, recvbuf, root))

    def Gatherv(self, sendbuf: BufSpec | InPlace, recvbuf: BufSpecV | None, root: int = 0) -> None:
        """The buffers of all ranks, of any lengths, come to places in the root's (section 4.5)."""
        self._finish(buffers.gatherv(self._entered("Gatherv(sendbuf, recvbuf, root)"), sendbuf, recvbuf, root))

    def Allgather(self, sendbuf: BufSpec | InPlace, recvbuf: BufSpecB) -> None:
        """The buffers of all ranks become the blocks of everyone's (section 4.7)."""
        self._finish(buffers.allgather.begin(self._entered("Allgather(sendbuf, recvbuf)"), sendbuf, recvbuf))

    def Allgatherv(self, sendbuf: BufSpec | InPlace, recvbuf: BufSpecV) -> None:
        """The buffers of all ranks, of any lengths, come to places in everyone's (section 4.7)."""
        self._finish(buffers.allgatherv(self._entered("Allgatherv(sendbuf, recvbuf)"), sendbuf, recvbuf))

    def Alltoall(self, sendbuf: BufSpecB | InPlace, recvbuf: BufSpecB) -> None:
        """Block r of every rank goes to rank r (section 4.8)."""
        self._finish(buffers.alltoall.begin(self._entered("Alltoall(sendbuf, recvbuf)"), sendbuf, recvbuf))

    def Alltoallv(self, sendbuf: BufSpecV | InPlace, recvbuf: BufSpecV) -> None:
        """Block r of every rank, of any length, goes to a place at rank r (section 4.8)."""
        self._finish(buffers.alltoallv(self._entered("Alltoallv(sendbuf, recvbuf)"), sendbuf, recvbuf))

    def Alltoallw(self, sendbuf: BufSpecW | InPlace, recvbuf: BufSpecW) -> None:
        """Do what `Alltoallv` does, with a datatype for each rank (MPI-2)."""
        self._finish(buffers.alltoallw(self._entered("Alltoallw(sendbuf, recvbuf)"), sendbuf, recvbuf))

    def Reduce(self, sendbuf: BufSpec | InPlace, recvbuf: BufSpec, op: Op = SUM, root: int = 0) -> None:
        """Combine the buffers of all ranks element by element, into the root's (section 4.9)."""
        self._finish(
            buffers.reduce.begin(self._entered("Reduce(sendbuf, recvbuf, op, root)"), sendbuf, recvbuf, op, root)
        )

    def Allreduce(self, sendbuf: BufSpec | InPlace, recvbuf: BufSpec, op: Op = SUM) -> None:
        """Combine the buffers of all ranks element by element, into everyone's (section 4.9.6)."""
        self._finish(buffers.allreduce.begin(self._entered("Allreduce(sendbuf, recvbuf, op)"), sendbuf, recvbuf, op))

    def Reduce_scatter(
        self, sendbuf: BufSpec | InPlace, recvbuf: BufSpec, recvcounts: Sequence[int] | None = None, op: Op = SUM
    ) -> None:
        """Combine the buffers of all ranks; rank i gets segment i of the result (section 4.10)."""
        core = self._entered("Reduce_scatter(sendbuf, recvbuf, recvcounts, op)")
        self._finish(buffers.reduce_scatter(core, sendbuf, recvbuf, recvcounts, op))

    def Reduce_scatter_block(self, sendbuf: BufSpecB | InPlace, recvbuf: BufSpecB, op: Op = SUM) -> None:
        """Combine the buffers of all ranks; rank i gets block i of the result (MPI-2.2)."""
        core = self._entered("Reduce_scatter_block(sendbuf, recvbuf, op)")
        self._finish(buffers.reduce_scatter_block.begin(core, sendbuf, recvbuf, op))

    def Scan(self, sendbuf: BufSpec | InPlace, recvbuf: BufSpec, op: Op = SUM) -> None:
        """Combine the buffers of the ranks up to this one, it included, element by element (section 4.11)."""
        self._finish(buffers.scan.begin(self._entered("Scan(sendbuf, recvbuf, op)"), sendbuf, recvbuf, op))

    def Exscan(self, sendbuf: BufSpec | InPlace, recvbuf: BufSpec, op: Op = SUM) -> None:
        """Combine the buffers of the ranks below this one element by element (MPI-2)."""
        self._finish(buffers.exscan(self._entered("Exscan(sendbuf, recvbuf, op)"), sendbuf, recvbuf, op))
