"""Persistent collectives of the blocking face (MPI-4).

Arguments are those of the operation without `_init`, and are checked at once; each start sends what is in the buffers
then. All ranks bind them in the same order, among other collectives, and may start them in any order. `info` is for
hints, of which none is known.
"""

from __future__ import annotations

from collections.abc import Sequence

from aiompi.coll import buffers
from aiompi.face.blocking.handle import Handle
from aiompi.face.blocking.request_kinds import Prequest
from aiompi.info import INFO_NULL, Info
from aiompi.op import SUM, Op
from aiompi.typing import BufSpec, BufSpecB, BufSpecV, BufSpecW, InPlace


class PersistentCollectives(Handle):
    """The collectives of a communicator with their arguments bound."""

    __slots__ = ()

    def Barrier_init(self, info: Info = INFO_NULL) -> Prequest[None]:
        """Prepare `Barrier`."""
        return Prequest._denote(buffers.barrier.init(self._admitted))

    def Bcast_init(self, buf: BufSpec, root: int = 0, info: Info = INFO_NULL) -> Prequest[None]:
        """Bind the arguments of `Bcast`."""
        return Prequest._denote(buffers.bcast.init(self._admitted, buf, root))

    def Scatter_init(
        self, sendbuf: BufSpecB | None, recvbuf: BufSpec | InPlace, root: int = 0, info: Info = INFO_NULL
    ) -> Prequest[None]:
        """Bind the arguments of `Scatter`."""
        return Prequest._denote(buffers.scatter.init(self._admitted, sendbuf, recvbuf, root))

    def Scatterv_init(
        self, sendbuf: BufSpecV | None, recvbuf: BufSpec | InPlace, root: int = 0, info: Info = INFO_NULL
    ) -> Prequest[None]:
        """Bind the arguments of `Scatterv`."""
        return Prequest._denote(buffers.scatterv.init(self._admitted, sendbuf, recvbuf, root))

    def Gather_init(
        self, sendbuf: BufSpec | InPlace, recvbuf: BufSpecB | None, root: int = 0, info: Info = INFO_NULL
    ) -> Prequest[None]:
        """Bind the arguments of `Gather`."""
        return Prequest._denote(buffers.gather.init(self._admitted, sendbuf, recvbuf, root))

    def Gatherv_init(
        self, sendbuf: BufSpec | InPlace, recvbuf: BufSpecV | None, root: int = 0, info: Info = INFO_NULL
    ) -> Prequest[None]:
        """Bind the arguments of `Gatherv`."""
        return Prequest._denote(buffers.gatherv.init(self._admitted, sendbuf, recvbuf, root))

    def Allgather_init(self, sendbuf: BufSpec | InPlace, recvbuf: BufSpecB, info: Info = INFO_NULL) -> Prequest[None]:
        """Bind the arguments of `Allgather`."""
        return Prequest._denote(buffers.allgather.init(self._admitted, sendbuf, recvbuf))

    def Allgatherv_init(self, sendbuf: BufSpec | InPlace, recvbuf: BufSpecV, info: Info = INFO_NULL) -> Prequest[None]:
        """Bind the arguments of `Allgatherv`."""
        return Prequest._denote(buffers.allgatherv.init(self._admitted, sendbuf, recvbuf))

    def Alltoall_init(self, sendbuf: BufSpecB | InPlace, recvbuf: BufSpecB, info: Info = INFO_NULL) -> Prequest[None]:
        """Bind the arguments of `Alltoall`."""
        return Prequest._denote(buffers.alltoall.init(self._admitted, sendbuf, recvbuf))

    def Alltoallv_init(self, sendbuf: BufSpecV | InPlace, recvbuf: BufSpecV, info: Info = INFO_NULL) -> Prequest[None]:
        """Bind the arguments of `Alltoallv`."""
        return Prequest._denote(buffers.alltoallv.init(self._admitted, sendbuf, recvbuf))

    def Alltoallw_init(self, sendbuf: BufSpecW | InPlace, recvbuf: BufSpecW, info: Info = INFO_NULL) -> Prequest[None]:
        """Bind the arguments of `Alltoallw`."""
        return Prequest._denote(buffers.alltoallw.init(self._admitted, sendbuf, recvbuf))

    def Reduce_init(
        self, sendbuf: BufSpec | InPlace, recvbuf: BufSpec, op: Op = SUM, root: int = 0, info: Info = INFO_NULL
    ) -> Prequest[None]:
        """Bind the arguments of `Reduce`."""
        return Prequest._denote(buffers.reduce.init(self._admitted, sendbuf, recvbuf, op, root))

    def Allreduce_init(
        self, sendbuf: BufSpec | InPlace, recvbuf: BufSpec, op: Op = SUM, info: Info = INFO_NULL
    ) -> Prequest[None]:
        """Bind the arguments of `Allreduce`."""
        return Prequest._denote(buffers.allreduce.init(self._admitted, sendbuf, recvbuf, op))

    def Reduce_scatter_init(
        self,
        sendbuf: BufSpec | InPlace,
        recvbuf: BufSpec,
        recvcounts: Sequence[int] | None = None,
        op: Op = SUM,
        info: Info = INFO_NULL,
    ) -> Prequest[None]:
        """Bind the arguments of `Reduce_scatter`."""
        return Prequest._denote(buffers.reduce_scatter.init(self._admitted, sendbuf, recvbuf, recvcounts, op))

    def Reduce_scatter_block_init(
        self, sendbuf: BufSpecB | InPlace, recvbuf: BufSpecB, op: Op = SUM, info: Info = INFO_NULL
    ) -> Prequest[None]:
        """Bind the arguments of `Reduce_scatter_block`."""
        return Prequest._denote(buffers.reduce_scatter_block.init(self._admitted, sendbuf, recvbuf, op))

    def Scan_init(
        self, sendbuf: BufSpec | InPlace, recvbuf: BufSpec, op: Op = SUM, info: Info = INFO_NULL
    ) -> Prequest[None]:
        """Bind the arguments of `Scan`."""
        return Prequest._denote(buffers.scan.init(self._admitted, sendbuf, recvbuf, op))

    def Exscan_init(
        self, sendbuf: BufSpec | InPlace, recvbuf: BufSpec, op: Op = SUM, info: Info = INFO_NULL
    ) -> Prequest[None]:
        """Bind the arguments of `Exscan`."""
        return Prequest._denote(buffers.exscan.init(self._admitted, sendbuf, recvbuf, op))
