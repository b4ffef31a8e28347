"""Collectives on buffers of the native face (chapter 4)."""

from __future__ import annotations

from collections.abc import Sequence

from aiompi.coll import buffers
from aiompi.engine import Request
from aiompi.face.native.handle import Handle
from aiompi.op import SUM, Op
from aiompi.typing import BufSpec, BufSpecB, BufSpecV, BufSpecW, InPlace


class BufferCollectives(Handle):
    """The collectives of a communicator on buffers; each starts at once and returns its request.

    `algorithm` names the algorithm instead of the settings and the tuning data; all ranks must name the same.

    Raises:
        InvalidArgumentError: there is no algorithm of that name, or it cannot serve the call.
    """

    __slots__ = ()

    def Barrier(self, *, algorithm: str | None = None) -> Request[None]:
        """Complete when every rank has called it (section 4.3)."""
        return buffers.barrier.using(algorithm)(self._admitted)

    def Bcast(self, buf: BufSpec, root: int = 0, *, algorithm: str | None = None) -> Request[None]:
        """Fill the buffer of every rank with the root's (section 4.4).

        Args:
            buf: (count,) items; read at the root, where it may be read-only, and written elsewhere.
        """
        return buffers.bcast.using(algorithm)(self._admitted, buf, root)

    def Scatter(
        self, sendbuf: BufSpecB | None, recvbuf: BufSpec | InPlace, root: int = 0, *, algorithm: str | None = None
    ) -> Request[None]:
        """Block i of the root's buffer goes to rank i (section 4.6).

        Args:
            sendbuf: at the root (size, count) items, C order; ignored elsewhere.
            recvbuf: (count,) items; IN_PLACE at the root leaves its block where it is.
            root: rank.
        """
        return buffers.scatter.using(algorithm)(self._admitted, sendbuf, recvbuf, root)

    def Scatterv(
        self, sendbuf: BufSpecV | None, recvbuf: BufSpec | InPlace, root: int = 0, *, algorithm: str | None = None
    ) -> Request[None]:
        """Blocks of any lengths, from places in the root's buffer, go to the ranks (section 4.6).

        Args:
            sendbuf: at the root `[buf, counts]`, `[buf, (counts, displs)]`, also with a type: numbers of items, and
                where they are, in items; blocks may overlap; ignored elsewhere.
            recvbuf: (count,) items, of which each rank has its own number; IN_PLACE at the root leaves its block where
                it is.
            root: rank.
        """
        return buffers.scatterv.using(algorithm)(self._admitted, sendbuf, recvbuf, root)

    def Gather(
        self, sendbuf: BufSpec | InPlace, recvbuf: BufSpecB | None, root: int = 0, *, algorithm: str | None = None
    ) -> Request[None]:
        """The buffers of all ranks become the blocks of the root's (section 4.5).

        Args:
            sendbuf: (count,) items; IN_PLACE at the root when its block is in place.
            recvbuf: at the root (size, count) items, C order; ignored elsewhere.
            root: rank.
        """
        return buffers.gather.using(algorithm)(self._admitted, sendbuf, recvbuf, root)

    def Gatherv(
        self, sendbuf: BufSpec | InPlace, recvbuf: BufSpecV | None, root: int = 0, *, algorithm: str | None = None
    ) -> Request[None]:
        """The buffers of all ranks, of any lengths, come to places in the root's (section 4.5).

        Args:
            sendbuf: (count,) items, of which each rank has its own number; IN_PLACE at the root.
            recvbuf: at the root `[buf, counts]`, `[buf, (counts, displs)]`, also with a type: numbers of items, and
                where they go, in items; ignored elsewhere.
            root: rank.
        """
        return buffers.gatherv.using(algorithm)(self._admitted, sendbuf, recvbuf, root)

    def Allgather(
        self, sendbuf: BufSpec | InPlace, recvbuf: BufSpecB, *, algorithm: str | None = None
    ) -> Request[None]:
        """The buffers of all ranks become the blocks of everyone's (section 4.7).

        Args:
            sendbuf: (count,) items, or IN_PLACE.
            recvbuf: (size, count) items, C order.
        """
        return buffers.allgather.using(algorithm)(self._admitted, sendbuf, recvbuf)

    def Allgatherv(
        self, sendbuf: BufSpec | InPlace, recvbuf: BufSpecV, *, algorithm: str | None = None
    ) -> Request[None]:
        """The buffers of all ranks, of any lengths, come to places in everyone's (section 4.7).

        Args:
            sendbuf: (count,) items, of which each rank has its own number, or IN_PLACE.
            recvbuf: as of `Gatherv`, with the same counts on all ranks.
        """
        return buffers.allgatherv.using(algorithm)(self._admitted, sendbuf, recvbuf)

    def Alltoall(
        self, sendbuf: BufSpecB | InPlace, recvbuf: BufSpecB, *, algorithm: str | None = None
    ) -> Request[None]:
        """Block r of every rank goes to rank r (section 4.8).

        Args:
            sendbuf: (size, count) items, C order, or IN_PLACE: they are in `recvbuf`, of which a copy is made.
            recvbuf: (size, count) items, C order.
        """
        return buffers.alltoall.using(algorithm)(self._admitted, sendbuf, recvbuf)

    def Alltoallv(
        self, sendbuf: BufSpecV | InPlace, recvbuf: BufSpecV, *, algorithm: str | None = None
    ) -> Request[None]:
        """Block r of every rank, of any length, goes to a place at rank r (section 4.8).

        Args:
            sendbuf: `[buf, counts]`, `[buf, (counts, displs)]`, also with a type, whose blocks may overlap; or IN_PLACE
                as in `Alltoall`.
            recvbuf: the same; its count for a rank is what that one sends here.
        """
        return buffers.alltoallv.using(algorithm)(self._admitted, sendbuf, recvbuf)

    def Alltoallw(
        self, sendbuf: BufSpecW | InPlace, recvbuf: BufSpecW, *, algorithm: str | None = None
    ) -> Request[None]:
        """Do what `Alltoallv` does, with a datatype for each rank (MPI-2).

        Args:
            sendbuf: `[buf, (counts, displs), types]`, displacements in bytes, `[buf, types]`, or IN_PLACE.
            recvbuf: the same.
        """
        return buffers.alltoallw.using(algorithm)(self._admitted, sendbuf, recvbuf)

    def Reduce(
        self, sendbuf: BufSpec | InPlace, recvbuf: BufSpec, op: Op = SUM, root: int = 0, *, algorithm: str | None = None
    ) -> Request[None]:
        """Combine the buffers of all ranks element by element, into the root's (section 4.9).

        Args:
            sendbuf: (count,) items, or IN_PLACE at the root.
            recvbuf: (count,) items at the root; ignored elsewhere.
            op: operation, defined for the datatype.
            root: rank.
        """
        return buffers.reduce.using(algorithm)(self._admitted, sendbuf, recvbuf, op, root)

    def Allreduce(
        self, sendbuf: BufSpec | InPlace, recvbuf: BufSpec, op: Op = SUM, *, algorithm: str | None = None
    ) -> Request[None]:
        """Combine the buffers of all ranks element by element, into everyone's (section 4.9.6).

        Args:
            sendbuf: (count,) items, or IN_PLACE.
            recvbuf: (count,) items; the same bits on all ranks.
            op: operation, defined for the datatype.
        """
        return buffers.allreduce.using(algorithm)(self._admitted, sendbuf, recvbuf, op)

    def Reduce_scatter(
        self,
        sendbuf: BufSpec | InPlace,
        recvbuf: BufSpec,
        recvcounts: Sequence[int] | None = None,
        op: Op = SUM,
        *,
        algorithm: str | None = None,
    ) -> Request[None]:
        """Combine the buffers of all ranks; rank i gets segment i of the result (section 4.10).

        Args:
            sendbuf: (sum(recvcounts),) items, or IN_PLACE: they are in `recvbuf`.
            recvbuf: (recvcounts[rank],) items; under IN_PLACE all, of which the result takes the first.
            recvcounts: items for each rank; None on all ranks: as many as each has in its `recvbuf`.
            op: operation, defined for the datatype.
        """
        return buffers.reduce_scatter.using(algorithm)(self._admitted, sendbuf, recvbuf, recvcounts, op)

    def Reduce_scatter_block(
        self, sendbuf: BufSpecB | InPlace, recvbuf: BufSpecB, op: Op = SUM, *, algorithm: str | None = None
    ) -> Request[None]:
        """Combine the buffers of all ranks; rank i gets block i of the result (MPI-2.2).

        Args:
            sendbuf: (size, count) items, C order, or IN_PLACE: they are in `recvbuf`. Where a count is given it is that
                of one block, here as in `recvbuf`.
            recvbuf: (count,) items; under IN_PLACE all, of which the result takes the first.
            op: operation, defined for the datatype.
        """
        return buffers.reduce_scatter_block.using(algorithm)(self._admitted, sendbuf, recvbuf, op)

    def Scan(
        self, sendbuf: BufSpec | InPlace, recvbuf: BufSpec, op: Op = SUM, *, algorithm: str | None = None
    ) -> Request[None]:
        """Combine the buffers of the ranks up to this one, it included, element by element (section 4.11).

        Args:
            sendbuf: (count,) items, or IN_PLACE.
            recvbuf: (count,) items.
            op: operation, defined for the datatype.
        """
        return buffers.scan.using(algorithm)(self._admitted, sendbuf, recvbuf, op)

    def Exscan(
        self, sendbuf: BufSpec | InPlace, recvbuf: BufSpec, op: Op = SUM, *, algorithm: str | None = None
    ) -> Request[None]:
        """Combine the buffers of the ranks below this one element by element (MPI-2).

        Args:
            sendbuf: (count,) items, or IN_PLACE.
            recvbuf: (count,) items; on rank 0 it is not touched, and ignored unless `sendbuf` is IN_PLACE.
            op: operation, defined for the datatype.
        """
        return buffers.exscan.using(algorithm)(self._admitted, sendbuf, recvbuf, op)

    Ibarrier = Barrier
    Ibcast = Bcast
    Iscatter = Scatter
    Iscatterv = Scatterv
    Igather = Gather
    Igatherv = Gatherv
    Iallgather = Allgather
    Iallgatherv = Allgatherv
    Ialltoall = Alltoall
    Ialltoallv = Alltoallv
    Ialltoallw = Alltoallw
    Ireduce = Reduce
    Iallreduce = Allreduce
    Ireduce_scatter = Reduce_scatter
    Ireduce_scatter_block = Reduce_scatter_block
    Iscan = Scan
    Iexscan = Exscan
