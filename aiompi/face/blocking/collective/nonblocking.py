"""Nonblocking collectives of the blocking face (chapter 5 of MPI-3.1): those of `buffers`, to be waited for later."""

from __future__ import annotations

from collections.abc import Sequence

from aiompi.coll import buffers
from aiompi.face.blocking.handle import Handle
from aiompi.face.blocking.requests import Request
from aiompi.op import SUM, Op
from aiompi.typing import BufSpec, BufSpecB, BufSpecV, BufSpecW, InPlace


class NonblockingCollectives(Handle):
    """The collectives of a communicator on buffers; each starts at once and returns its request."""

    __slots__ = ()

    def Ibarrier(self) -> Request[None]:
        """Start a `Barrier`."""
        return Request._denote(buffers.barrier(self._admitted))

    def Ibcast(self, buf: BufSpec, root: int = 0) -> Request[None]:
        """Start a `Bcast`."""
        return Request._denote(buffers.bcast(self._admitted, buf, root))

    def Iscatter(self, sendbuf: BufSpecB | None, recvbuf: BufSpec | InPlace, root: int = 0) -> Request[None]:
        """Start a `Scatter`."""
        return Request._denote(buffers.scatter(self._admitted, sendbuf, recvbuf, root))

    def Iscatterv(self, sendbuf: BufSpecV | None, recvbuf: BufSpec | InPlace, root: int = 0) -> Request[None]:
        """Start a `Scatterv`."""
        return Request._denote(buffers.scatterv(self._admitted, sendbuf, recvbuf, root))

    def Igather(self, sendbuf: BufSpec | InPlace, recvbuf: BufSpecB | None, root: int = 0) -> Request[None]:
        """Start a `Gather`."""
        return Request._denote(buffers.gather(self._admitted, sendbuf, recvbuf, root))

    def Igatherv(self, sendbuf: BufSpec | InPlace, recvbuf: BufSpecV | None, root: int = 0) -> Request[None]:
        """Start a `Gatherv`."""
        return Request._denote(buffers.gatherv(self._admitted, sendbuf, recvbuf, root))

    def Iallgather(self, sendbuf: BufSpec | InPlace, recvbuf: BufSpecB) -> Request[None]:
        """Start an `Allgather`."""
        return Request._denote(buffers.allgather(self._admitted, sendbuf, recvbuf))

    def Iallgatherv(self, sendbuf: BufSpec | InPlace, recvbuf: BufSpecV) -> Request[None]:
        """Start an `Allgatherv`."""
        return Request._denote(buffers.allgatherv(self._admitted, sendbuf, recvbuf))

    def Ialltoall(self, sendbuf: BufSpecB | InPlace, recvbuf: BufSpecB) -> Request[None]:
        """Start an `Alltoall`."""
        return Request._denote(buffers.alltoall(self._admitted, sendbuf, recvbuf))

    def Ialltoallv(self, sendbuf: BufSpecV | InPlace, recvbuf: BufSpecV) -> Request[None]:
        """Start an `Alltoallv`."""
        return Request._denote(buffers.alltoallv(self._admitted, sendbuf, recvbuf))

    def Ialltoallw(self, sendbuf: BufSpecW | InPlace, recvbuf: BufSpecW) -> Request[None]:
        """Start an `Alltoallw`."""
        return Request._denote(buffers.alltoallw(self._admitted, sendbuf, recvbuf))

    def Ireduce(self, sendbuf: BufSpec | InPlace, recvbuf: BufSpec, op: Op = SUM, root: int = 0) -> Request[None]:
        """Start a `Reduce`."""
        return Request._denote(buffers.reduce(self._admitted, sendbuf, recvbuf, op, root))

    def Iallreduce(self, sendbuf: BufSpec | InPlace, recvbuf: BufSpec, op: Op = SUM) -> Request[None]:
        """Start an `Allreduce`."""
        return Request._denote(buffers.allreduce(self._admitted, sendbuf, recvbuf, op))

    def Ireduce_scatter(
        self, sendbuf: BufSpec | InPlace, recvbuf: BufSpec, recvcounts: Sequence[int] | None = None, op: Op = SUM
    ) -> Request[None]:
        """Start a `Reduce_scatter`."""
        return Request._denote(buffers.reduce_scatter(self._admitted, sendbuf, recvbuf, recvcounts, op))

    def Ireduce_scatter_block(self, sendbuf: BufSpecB | InPlace, recvbuf: BufSpecB, op: Op = SUM) -> Request[None]:
        """Start a `Reduce_scatter_block`."""
        return Request._denote(buffers.reduce_scatter_block(self._admitted, sendbuf, recvbuf, op))

    def Iscan(self, sendbuf: BufSpec | InPlace, recvbuf: BufSpec, op: Op = SUM) -> Request[None]:
        """Start a `Scan`."""
        return Request._denote(buffers.scan(self._admitted, sendbuf, recvbuf, op))

    def Iexscan(self, sendbuf: BufSpec | InPlace, recvbuf: BufSpec, op: Op = SUM) -> Request[None]:
        """Start an `Exscan`."""
        return Request._denote(buffers.exscan(self._admitted, sendbuf, recvbuf, op))
