"""Nonblocking collectives of the blocking face (chapter 5 of MPI-3.1): those of `buffers`, to be waited for later."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from aiompi.coll import buffers
from aiompi.face.blocking.handle import Handle
from aiompi.face.blocking.requests import Request
from aiompi.op import SUM, Op


class NonblockingCollectives(Handle):
    """The collectives of a communicator on buffers; each starts at once and returns its request."""

    __slots__ = ()

    def Ibarrier(self) -> Request[None]:
        """Start a `Barrier`."""
        return Request(buffers.barrier(self._admitted))

    def Ibcast(self, buf: Any, root: int = 0) -> Request[None]:
        """Start a `Bcast`."""
        return Request(buffers.bcast(self._admitted, buf, root))

    def Iscatter(self, sendbuf: Any, recvbuf: Any, root: int = 0) -> Request[None]:
        """Start a `Scatter`."""
        return Request(buffers.scatter(self._admitted, sendbuf, recvbuf, root))

    def Iscatterv(self, sendbuf: Any, recvbuf: Any, root: int = 0) -> Request[None]:
        """Start a `Scatterv`."""
        return Request(buffers.scatterv(self._admitted, sendbuf, recvbuf, root))

    def Igather(self, sendbuf: Any, recvbuf: Any, root: int = 0) -> Request[None]:
        """Start a `Gather`."""
        return Request(buffers.gather(self._admitted, sendbuf, recvbuf, root))

    def Igatherv(self, sendbuf: Any, recvbuf: Any, root: int = 0) -> Request[None]:
        """Start a `Gatherv`."""
        return Request(buffers.gatherv(self._admitted, sendbuf, recvbuf, root))

    def Iallgather(self, sendbuf: Any, recvbuf: Any) -> Request[None]:
        """Start an `Allgather`."""
        return Request(buffers.allgather(self._admitted, sendbuf, recvbuf))

    def Iallgatherv(self, sendbuf: Any, recvbuf: Any) -> Request[None]:
        """Start an `Allgatherv`."""
        return Request(buffers.allgatherv(self._admitted, sendbuf, recvbuf))

    def Ialltoall(self, sendbuf: Any, recvbuf: Any) -> Request[None]:
        """Start an `Alltoall`."""
        return Request(buffers.alltoall(self._admitted, sendbuf, recvbuf))

    def Ialltoallv(self, sendbuf: Any, recvbuf: Any) -> Request[None]:
        """Start an `Alltoallv`."""
        return Request(buffers.alltoallv(self._admitted, sendbuf, recvbuf))

    def Ialltoallw(self, sendbuf: Any, recvbuf: Any) -> Request[None]:
        """Start an `Alltoallw`."""
        return Request(buffers.alltoallw(self._admitted, sendbuf, recvbuf))

    def Ireduce(self, sendbuf: Any, recvbuf: Any, op: Op = SUM, root: int = 0) -> Request[None]:
        """Start a `Reduce`."""
        return Request(buffers.reduce(self._admitted, sendbuf, recvbuf, op, root))

    def Iallreduce(self, sendbuf: Any, recvbuf: Any, op: Op = SUM) -> Request[None]:
        """Start an `Allreduce`."""
        return Request(buffers.allreduce(self._admitted, sendbuf, recvbuf, op))

    def Ireduce_scatter(
        self, sendbuf: Any, recvbuf: Any, recvcounts: Sequence[int] | None = None, op: Op = SUM
    ) -> Request[None]:
        """Start a `Reduce_scatter`."""
        return Request(buffers.reduce_scatter(self._admitted, sendbuf, recvbuf, recvcounts, op))

    def Ireduce_scatter_block(self, sendbuf: Any, recvbuf: Any, op: Op = SUM) -> Request[None]:
        """Start a `Reduce_scatter_block`."""
        return Request(buffers.reduce_scatter_block(self._admitted, sendbuf, recvbuf, op))

    def Iscan(self, sendbuf: Any, recvbuf: Any, op: Op = SUM) -> Request[None]:
        """Start a `Scan`."""
        return Request(buffers.scan(self._admitted, sendbuf, recvbuf, op))

    def Iexscan(self, sendbuf: Any, recvbuf: Any, op: Op = SUM) -> Request[None]:
        """Start an `Exscan`."""
        return Request(buffers.exscan(self._admitted, sendbuf, recvbuf, op))
