"""Persistent collectives of the native face (MPI-4): `start()` starts the operation, `await` waits for it.

Arguments are those of the operation without `_init`, and are checked at once; each start sends what is in the buffers
then. All ranks bind them in the same order, among other collectives, and may start them in any order. `info` is for
hints, of which none is known.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from aiompi.coll import buffers
from aiompi.engine import PersistentRequest
from aiompi.face.common import Membership
from aiompi.info import INFO_NULL, Info
from aiompi.op import SUM, Op


class PersistentCollectives(Membership):
    """The collectives of a communicator with their arguments bound."""

    __slots__ = ()

    def Barrier_init(self, info: Info = INFO_NULL) -> PersistentRequest[None]:
        """Prepare `Barrier`."""
        return buffers.barrier.init(self._core)

    def Bcast_init(self, buf: Any, root: int = 0, info: Info = INFO_NULL) -> PersistentRequest[None]:
        """Bind the arguments of `Bcast`."""
        return buffers.bcast.init(self._core, buf, root)

    def Scatter_init(
        self, sendbuf: Any, recvbuf: Any, root: int = 0, info: Info = INFO_NULL
    ) -> PersistentRequest[None]:
        """Bind the arguments of `Scatter`."""
        return buffers.scatter.init(self._core, sendbuf, recvbuf, root)

    def Scatterv_init(
        self, sendbuf: Any, recvbuf: Any, root: int = 0, info: Info = INFO_NULL
    ) -> PersistentRequest[None]:
        """Bind the arguments of `Scatterv`."""
        return buffers.scatterv.init(self._core, sendbuf, recvbuf, root)

    def Gather_init(self, sendbuf: Any, recvbuf: Any, root: int = 0, info: Info = INFO_NULL) -> PersistentRequest[None]:
        """Bind the arguments of `Gather`."""
        return buffers.gather.init(self._core, sendbuf, recvbuf, root)

    def Gatherv_init(
        self, sendbuf: Any, recvbuf: Any, root: int = 0, info: Info = INFO_NULL
    ) -> PersistentRequest[None]:
        """Bind the arguments of `Gatherv`."""
        return buffers.gatherv.init(self._core, sendbuf, recvbuf, root)

    def Allgather_init(self, sendbuf: Any, recvbuf: Any, info: Info = INFO_NULL) -> PersistentRequest[None]:
        """Bind the arguments of `Allgather`."""
        return buffers.allgather.init(self._core, sendbuf, recvbuf)

    def Allgatherv_init(self, sendbuf: Any, recvbuf: Any, info: Info = INFO_NULL) -> PersistentRequest[None]:
        """Bind the arguments of `Allgatherv`."""
        return buffers.allgatherv.init(self._core, sendbuf, recvbuf)

    def Alltoall_init(self, sendbuf: Any, recvbuf: Any, info: Info = INFO_NULL) -> PersistentRequest[None]:
        """Bind the arguments of `Alltoall`."""
        return buffers.alltoall.init(self._core, sendbuf, recvbuf)

    def Alltoallv_init(self, sendbuf: Any, recvbuf: Any, info: Info = INFO_NULL) -> PersistentRequest[None]:
        """Bind the arguments of `Alltoallv`."""
        return buffers.alltoallv.init(self._core, sendbuf, recvbuf)

    def Alltoallw_init(self, sendbuf: Any, recvbuf: Any, info: Info = INFO_NULL) -> PersistentRequest[None]:
        """Bind the arguments of `Alltoallw`."""
        return buffers.alltoallw.init(self._core, sendbuf, recvbuf)

    def Reduce_init(
        self, sendbuf: Any, recvbuf: Any, op: Op = SUM, root: int = 0, info: Info = INFO_NULL
    ) -> PersistentRequest[None]:
        """Bind the arguments of `Reduce`."""
        return buffers.reduce.init(self._core, sendbuf, recvbuf, op, root)

    def Allreduce_init(
        self, sendbuf: Any, recvbuf: Any, op: Op = SUM, info: Info = INFO_NULL
    ) -> PersistentRequest[None]:
        """Bind the arguments of `Allreduce`."""
        return buffers.allreduce.init(self._core, sendbuf, recvbuf, op)

    def Reduce_scatter_init(
        self, sendbuf: Any, recvbuf: Any, recvcounts: Sequence[int] | None = None, op: Op = SUM, info: Info = INFO_NULL
    ) -> PersistentRequest[None]:
        """Bind the arguments of `Reduce_scatter`."""
        return buffers.reduce_scatter.init(self._core, sendbuf, recvbuf, recvcounts, op)

    def Reduce_scatter_block_init(
        self, sendbuf: Any, recvbuf: Any, op: Op = SUM, info: Info = INFO_NULL
    ) -> PersistentRequest[None]:
        """Bind the arguments of `Reduce_scatter_block`."""
        return buffers.reduce_scatter_block.init(self._core, sendbuf, recvbuf, op)

    def Scan_init(self, sendbuf: Any, recvbuf: Any, op: Op = SUM, info: Info = INFO_NULL) -> PersistentRequest[None]:
        """Bind the arguments of `Scan`."""
        return buffers.scan.init(self._core, sendbuf, recvbuf, op)

    def Exscan_init(self, sendbuf: Any, recvbuf: Any, op: Op = SUM, info: Info = INFO_NULL) -> PersistentRequest[None]:
        """Bind the arguments of `Exscan`."""
        return buffers.exscan.init(self._core, sendbuf, recvbuf, op)
