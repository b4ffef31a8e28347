"""Persistent sends (section 3.9) and collectives (MPI-4), the same in both faces.

Arguments are those of the operation without `_init`, and are checked at once. Each start of the request sends what is
in the buffers at that time. All ranks bind collectives in the same order, together with other collectives, and may
start them in any order. `info` is for hints, of which none is known.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, ParamSpec, TypeVar

from aiompi.coll import buffers, neighborhood
from aiompi.coll.call import Prepared
from aiompi.engine import Mode, PersistentRequest
from aiompi.face.common import Membership
from aiompi.info import INFO_NULL, Info
from aiompi.op import SUM, Op
from aiompi.typing import BufSpec, BufSpecB, BufSpecV, BufSpecW, InPlace

P = ParamSpec("P")
#: class of the persistent requests of a face
Inactive = TypeVar("Inactive")


class _Binding(Membership, Generic[Inactive]):
    __slots__ = ()

    def _bind(self, collective: Prepared[P], *args: P.args, **kwargs: P.kwargs) -> Inactive:
        return self._bound(collective.init(self._admitted, *args, **kwargs))

    def _bound(self, request: PersistentRequest[None]) -> Inactive:
        """Return the request as one of the face."""
        raise NotImplementedError


class PersistentSends(_Binding[Inactive]):
    """The sends of a communicator with their arguments bound (section 3.9)."""

    __slots__ = ()

    def Send_init(self, buf: BufSpec, dest: int, tag: int = 0) -> Inactive:
        """Bind the arguments of `Isend`; each start sends what is in the buffer then (section 3.9)."""
        return self._send_init(buf, dest, tag, Mode.STANDARD)

    def Bsend_init(self, buf: BufSpec, dest: int, tag: int = 0) -> Inactive:
        """Bind the arguments of `Ibsend` (section 3.9)."""
        return self._send_init(buf, dest, tag, Mode.BUFFERED)

    def Ssend_init(self, buf: BufSpec, dest: int, tag: int = 0) -> Inactive:
        """Bind the arguments of `Issend` (section 3.9)."""
        return self._send_init(buf, dest, tag, Mode.SYNCHRONOUS)

    def Rsend_init(self, buf: BufSpec, dest: int, tag: int = 0) -> Inactive:
        """Bind the arguments of `Irsend` (section 3.9); each start needs the matching receive to be posted."""
        return self._send_init(buf, dest, tag, Mode.READY)

    def _send_init(self, buf: BufSpec, dest: int, tag: int, mode: Mode) -> Inactive:
        core = self._admitted
        return self._bound(core.send_init(core.conversion.prepare(buf, dest), dest, tag, mode))


class PersistentCollectives(_Binding[Inactive]):
    """The collectives of a communicator with their arguments bound.

    `algorithm` names the algorithm instead of the settings and the tuning data; all ranks must name the same.

    Raises:
        InvalidArgumentError: there is no algorithm of that name, or it cannot serve the call.
    """

    __slots__ = ()

    def Barrier_init(self, info: Info = INFO_NULL, *, algorithm: str | None = None) -> Inactive:
        """Prepare `Barrier`."""
        return self._bind(buffers.barrier.using(algorithm))

    def Bcast_init(
        self, buf: BufSpec, root: int = 0, info: Info = INFO_NULL, *, algorithm: str | None = None
    ) -> Inactive:
        """Bind the arguments of `Bcast`."""
        return self._bind(buffers.bcast.using(algorithm), buf, root)

    def Scatter_init(
        self,
        sendbuf: BufSpecB | None,
        recvbuf: BufSpec | InPlace,
        root: int = 0,
        info: Info = INFO_NULL,
        *,
        algorithm: str | None = None,
    ) -> Inactive:
        """Bind the arguments of `Scatter`."""
        return self._bind(buffers.scatter.using(algorithm), sendbuf, recvbuf, root)

    def Scatterv_init(
        self,
        sendbuf: BufSpecV | None,
        recvbuf: BufSpec | InPlace,
        root: int = 0,
        info: Info = INFO_NULL,
        *,
        algorithm: str | None = None,
    ) -> Inactive:
        """Bind the arguments of `Scatterv`."""
        return self._bind(buffers.scatterv.using(algorithm), sendbuf, recvbuf, root)

    def Gather_init(
        self,
        sendbuf: BufSpec | InPlace,
        recvbuf: BufSpecB | None,
        root: int = 0,
        info: Info = INFO_NULL,
        *,
        algorithm: str | None = None,
    ) -> Inactive:
        """Bind the arguments of `Gather`."""
        return self._bind(buffers.gather.using(algorithm), sendbuf, recvbuf, root)

    def Gatherv_init(
        self,
        sendbuf: BufSpec | InPlace,
        recvbuf: BufSpecV | None,
        root: int = 0,
        info: Info = INFO_NULL,
        *,
        algorithm: str | None = None,
    ) -> Inactive:
        """Bind the arguments of `Gatherv`."""
        return self._bind(buffers.gatherv.using(algorithm), sendbuf, recvbuf, root)

    def Allgather_init(
        self, sendbuf: BufSpec | InPlace, recvbuf: BufSpecB, info: Info = INFO_NULL, *, algorithm: str | None = None
    ) -> Inactive:
        """Bind the arguments of `Allgather`."""
        return self._bind(buffers.allgather.using(algorithm), sendbuf, recvbuf)

    def Allgatherv_init(
        self, sendbuf: BufSpec | InPlace, recvbuf: BufSpecV, info: Info = INFO_NULL, *, algorithm: str | None = None
    ) -> Inactive:
        """Bind the arguments of `Allgatherv`."""
        return self._bind(buffers.allgatherv.using(algorithm), sendbuf, recvbuf)

    def Alltoall_init(
        self, sendbuf: BufSpecB | InPlace, recvbuf: BufSpecB, info: Info = INFO_NULL, *, algorithm: str | None = None
    ) -> Inactive:
        """Bind the arguments of `Alltoall`."""
        return self._bind(buffers.alltoall.using(algorithm), sendbuf, recvbuf)

    def Alltoallv_init(
        self, sendbuf: BufSpecV | InPlace, recvbuf: BufSpecV, info: Info = INFO_NULL, *, algorithm: str | None = None
    ) -> Inactive:
        """Bind the arguments of `Alltoallv`."""
        return self._bind(buffers.alltoallv.using(algorithm), sendbuf, recvbuf)

    def Alltoallw_init(
        self, sendbuf: BufSpecW | InPlace, recvbuf: BufSpecW, info: Info = INFO_NULL, *, algorithm: str | None = None
    ) -> Inactive:
        """Bind the arguments of `Alltoallw`."""
        return self._bind(buffers.alltoallw.using(algorithm), sendbuf, recvbuf)

    def Reduce_init(
        self,
        sendbuf: BufSpec | InPlace,
        recvbuf: BufSpec,
        op: Op = SUM,
        root: int = 0,
        info: Info = INFO_NULL,
        *,
        algorithm: str | None = None,
    ) -> Inactive:
        """Bind the arguments of `Reduce`."""
        return self._bind(buffers.reduce.using(algorithm), sendbuf, recvbuf, op, root)

    def Allreduce_init(
        self,
        sendbuf: BufSpec | InPlace,
        recvbuf: BufSpec,
        op: Op = SUM,
        info: Info = INFO_NULL,
        *,
        algorithm: str | None = None,
    ) -> Inactive:
        """Bind the arguments of `Allreduce`."""
        return self._bind(buffers.allreduce.using(algorithm), sendbuf, recvbuf, op)

    def Reduce_scatter_init(
        self,
        sendbuf: BufSpec | InPlace,
        recvbuf: BufSpec,
        recvcounts: Sequence[int] | None = None,
        op: Op = SUM,
        info: Info = INFO_NULL,
        *,
        algorithm: str | None = None,
    ) -> Inactive:
        """Bind the arguments of `Reduce_scatter`."""
        return self._bind(buffers.reduce_scatter.using(algorithm), sendbuf, recvbuf, recvcounts, op)

    def Reduce_scatter_block_init(
        self,
        sendbuf: BufSpecB | InPlace,
        recvbuf: BufSpecB,
        op: Op = SUM,
        info: Info = INFO_NULL,
        *,
        algorithm: str | None = None,
    ) -> Inactive:
        """Bind the arguments of `Reduce_scatter_block`."""
        return self._bind(buffers.reduce_scatter_block.using(algorithm), sendbuf, recvbuf, op)

    def Scan_init(
        self,
        sendbuf: BufSpec | InPlace,
        recvbuf: BufSpec,
        op: Op = SUM,
        info: Info = INFO_NULL,
        *,
        algorithm: str | None = None,
    ) -> Inactive:
        """Bind the arguments of `Scan`."""
        return self._bind(buffers.scan.using(algorithm), sendbuf, recvbuf, op)

    def Exscan_init(
        self,
        sendbuf: BufSpec | InPlace,
        recvbuf: BufSpec,
        op: Op = SUM,
        info: Info = INFO_NULL,
        *,
        algorithm: str | None = None,
    ) -> Inactive:
        """Bind the arguments of `Exscan`."""
        return self._bind(buffers.exscan.using(algorithm), sendbuf, recvbuf, op)


class PersistentNeighborhoodCollectives(_Binding[Inactive]):
    """The collectives of a communicator with a topology, with their arguments bound."""

    __slots__ = ()

    def Neighbor_allgather_init(self, sendbuf: BufSpec, recvbuf: BufSpecB, info: Info = INFO_NULL) -> Inactive:
        """Bind the arguments of `Neighbor_allgather` (MPI-4)."""
        return self._bind(neighborhood.neighbor_allgather, sendbuf, recvbuf)

    def Neighbor_allgatherv_init(self, sendbuf: BufSpec, recvbuf: BufSpecV, info: Info = INFO_NULL) -> Inactive:
        """Bind the arguments of `Neighbor_allgatherv` (MPI-4)."""
        return self._bind(neighborhood.neighbor_allgatherv, sendbuf, recvbuf)

    def Neighbor_alltoall_init(self, sendbuf: BufSpecB, recvbuf: BufSpecB, info: Info = INFO_NULL) -> Inactive:
        """Bind the arguments of `Neighbor_alltoall` (MPI-4)."""
        return self._bind(neighborhood.neighbor_alltoall, sendbuf, recvbuf)

    def Neighbor_alltoallv_init(self, sendbuf: BufSpecV, recvbuf: BufSpecV, info: Info = INFO_NULL) -> Inactive:
        """Bind the arguments of `Neighbor_alltoallv` (MPI-4)."""
        return self._bind(neighborhood.neighbor_alltoallv, sendbuf, recvbuf)

    def Neighbor_alltoallw_init(self, sendbuf: BufSpecW, recvbuf: BufSpecW, info: Info = INFO_NULL) -> Inactive:
        """Bind the arguments of `Neighbor_alltoallw` (MPI-4)."""
        return self._bind(neighborhood.neighbor_alltoallw, sendbuf, recvbuf)
