"""Persistent collectives of the native face (MPI-4): `start()` starts the operation, `await` waits for it.

Arguments are those of the operation without `_init`, and are checked at once; each start sends what is in the buffers
then. All ranks bind them in the same order, among other collectives, and may start them in any order. `info` is for
hints, of which none is known.
"""

from __future__ import annotations

from collections.abc import Sequence

from aiompi.coll import buffers
from aiompi.engine import PersistentRequest
from aiompi.face.native.handle import Handle
from aiompi.info import INFO_NULL, Info
from aiompi.op import SUM, Op
from aiompi.typing import BufSpec, BufSpecB, BufSpecV, BufSpecW, InPlace


class PersistentCollectives(Handle):
    """The collectives of a communicator with their arguments bound.

    `algorithm` names the algorithm instead of the settings and the tuning data; all ranks must name the same.

    Raises:
        InvalidArgumentError: there is no algorithm of that name, or it cannot serve the call.
    """

    __slots__ = ()

    def Barrier_init(self, info: Info = INFO_NULL, *, algorithm: str | None = None) -> PersistentRequest[None]:
        """Prepare `Barrier`."""
        return buffers.barrier.using(algorithm).init(self._admitted)

    def Bcast_init(
        self, buf: BufSpec, root: int = 0, info: Info = INFO_NULL, *, algorithm: str | None = None
    ) -> PersistentRequest[None]:
        """Bind the arguments of `Bcast`."""
        return buffers.bcast.using(algorithm).init(self._admitted, buf, root)

    def Scatter_init(
        self,
        sendbuf: BufSpecB | None,
        recvbuf: BufSpec | InPlace,
        root: int = 0,
        info: Info = INFO_NULL,
        *,
        algorithm: str | None = None,
    ) -> PersistentRequest[None]:
        """Bind the arguments of `Scatter`."""
        return buffers.scatter.using(algorithm).init(self._admitted, sendbuf, recvbuf, root)

    def Scatterv_init(
        self,
        sendbuf: BufSpecV | None,
        recvbuf: BufSpec | InPlace,
        root: int = 0,
        info: Info = INFO_NULL,
        *,
        algorithm: str | None = None,
    ) -> PersistentRequest[None]:
        """Bind the arguments of `Scatterv`."""
        return buffers.scatterv.using(algorithm).init(self._admitted, sendbuf, recvbuf, root)

    def Gather_init(
        self,
        sendbuf: BufSpec | InPlace,
        recvbuf: BufSpecB | None,
        root: int = 0,
        info: Info = INFO_NULL,
        *,
        algorithm: str | None = None,
    ) -> PersistentRequest[None]:
        """Bind the arguments of `Gather`."""
        return buffers.gather.using(algorithm).init(self._admitted, sendbuf, recvbuf, root)

    def Gatherv_init(
        self,
        sendbuf: BufSpec | InPlace,
        recvbuf: BufSpecV | None,
        root: int = 0,
        info: Info = INFO_NULL,
        *,
        algorithm: str | None = None,
    ) -> PersistentRequest[None]:
        """Bind the arguments of `Gatherv`."""
        return buffers.gatherv.using(algorithm).init(self._admitted, sendbuf, recvbuf, root)

    def Allgather_init(
        self, sendbuf: BufSpec | InPlace, recvbuf: BufSpecB, info: Info = INFO_NULL, *, algorithm: str | None = None
    ) -> PersistentRequest[None]:
        """Bind the arguments of `Allgather`."""
        return buffers.allgather.using(algorithm).init(self._admitted, sendbuf, recvbuf)

    def Allgatherv_init(
        self, sendbuf: BufSpec | InPlace, recvbuf: BufSpecV, info: Info = INFO_NULL, *, algorithm: str | None = None
    ) -> PersistentRequest[None]:
        """Bind the arguments of `Allgatherv`."""
        return buffers.allgatherv.using(algorithm).init(self._admitted, sendbuf, recvbuf)

    def Alltoall_init(
        self, sendbuf: BufSpecB | InPlace, recvbuf: BufSpecB, info: Info = INFO_NULL, *, algorithm: str | None = None
    ) -> PersistentRequest[None]:
        """Bind the arguments of `Alltoall`."""
        return buffers.alltoall.using(algorithm).init(self._admitted, sendbuf, recvbuf)

    def Alltoallv_init(
        self, sendbuf: BufSpecV | InPlace, recvbuf: BufSpecV, info: Info = INFO_NULL, *, algorithm: str | None = None
    ) -> PersistentRequest[None]:
        """Bind the arguments of `Alltoallv`."""
        return buffers.alltoallv.using(algorithm).init(self._admitted, sendbuf, recvbuf)

    def Alltoallw_init(
        self, sendbuf: BufSpecW | InPlace, recvbuf: BufSpecW, info: Info = INFO_NULL, *, algorithm: str | None = None
    ) -> PersistentRequest[None]:
        """Bind the arguments of `Alltoallw`."""
        return buffers.alltoallw.using(algorithm).init(self._admitted, sendbuf, recvbuf)

    def Reduce_init(
        self,
        sendbuf: BufSpec | InPlace,
        recvbuf: BufSpec,
        op: Op = SUM,
        root: int = 0,
        info: Info = INFO_NULL,
        *,
        algorithm: str | None = None,
    ) -> PersistentRequest[None]:
        """Bind the arguments of `Reduce`."""
        return buffers.reduce.using(algorithm).init(self._admitted, sendbuf, recvbuf, op, root)

    def Allreduce_init(
        self,
        sendbuf: BufSpec | InPlace,
        recvbuf: BufSpec,
        op: Op = SUM,
        info: Info = INFO_NULL,
        *,
        algorithm: str | None = None,
    ) -> PersistentRequest[None]:
        """Bind the arguments of `Allreduce`."""
        return buffers.allreduce.using(algorithm).init(self._admitted, sendbuf, recvbuf, op)

    def Reduce_scatter_init(
        self,
        sendbuf: BufSpec | InPlace,
        recvbuf: BufSpec,
        recvcounts: Sequence[int] | None = None,
        op: Op = SUM,
        info: Info = INFO_NULL,
        *,
        algorithm: str | None = None,
    ) -> PersistentRequest[None]:
        """Bind the arguments of `Reduce_scatter`."""
        return buffers.reduce_scatter.using(algorithm).init(self._admitted, sendbuf, recvbuf, recvcounts, op)

    def Reduce_scatter_block_init(
        self,
        sendbuf: BufSpecB | InPlace,
        recvbuf: BufSpecB,
        op: Op = SUM,
        info: Info = INFO_NULL,
        *,
        algorithm: str | None = None,
    ) -> PersistentRequest[None]:
        """Bind the arguments of `Reduce_scatter_block`."""
        return buffers.reduce_scatter_block.using(algorithm).init(self._admitted, sendbuf, recvbuf, op)

    def Scan_init(
        self,
        sendbuf: BufSpec | InPlace,
        recvbuf: BufSpec,
        op: Op = SUM,
        info: Info = INFO_NULL,
        *,
        algorithm: str | None = None,
    ) -> PersistentRequest[None]:
        """Bind the arguments of `Scan`."""
        return buffers.scan.using(algorithm).init(self._admitted, sendbuf, recvbuf, op)

    def Exscan_init(
        self,
        sendbuf: BufSpec | InPlace,
        recvbuf: BufSpec,
        op: Op = SUM,
        info: Info = INFO_NULL,
        *,
        algorithm: str | None = None,
    ) -> PersistentRequest[None]:
        """Bind the arguments of `Exscan`."""
        return buffers.exscan.using(algorithm).init(self._admitted, sendbuf, recvbuf, op)
