# Written by aiompi/face/generate from native/collective/movement.py, native/collective/reduction.py: edit these files.
"""Persistent collectives of the asyncio face (MPI-4)."""

from __future__ import annotations

from collections.abc import Sequence

from aiompi.coll import buffers
from aiompi.engine import PersistentRequest
from aiompi.face.native.handle import Handle
from aiompi.info import INFO_NULL, Info
from aiompi.op import SUM, Op
from aiompi.typing import BufSpec, BufSpecB, BufSpecV, BufSpecW, InPlace


class PersistentCollectives(Handle):
    """The collectives on buffers with their arguments bound (MPI-4).

    Each run sends what is in the buffers when it starts. All ranks bind collectives in the same order, together with
    other collectives, and may start them in any order.
    """

    __slots__ = ()

    def Barrier_init(self, info: Info = INFO_NULL, *, algorithm: str | None = None) -> PersistentRequest[None]:
        """Bind the arguments of `Barrier`; all ranks bind in the same order (MPI-4; section 4.3).

        Args:
            info: hints, of which none is known.
            algorithm: name, the same on all ranks; by default, the settings and the tuning data choose one.

        Returns:
            An inactive persistent request; `start` starts the operation, and `await` waits for it.

        Raises:
            InvalidArgumentError: no algorithm has this name, or it cannot serve the call.
            ProcessFailedError: awaiting it: a rank of the communicator has failed.

        Example:
            request = world.Barrier_init()
            request.start()
            await request
        """
        return buffers.barrier.using(algorithm).init(self._admitted)

    def Bcast_init(
        self, buf: BufSpec, root: int = 0, info: Info = INFO_NULL, *, algorithm: str | None = None
    ) -> PersistentRequest[None]:
        """Bind the arguments of `Bcast`; all ranks bind in the same order (MPI-4; section 4.4).

        Args:
            buf: (count,) items, read at the root and written at all other ranks; the root's buffer may be read-only.
            root: rank of the root; on an intercommunicator ROOT, PROC_NULL, or the root's rank in the remote group.
            info: hints, of which none is known.
            algorithm: name, the same on all ranks; by default, the settings and the tuning data choose one.

        Returns:
            An inactive persistent request; `start` starts the operation, and `await` waits for it.

        Raises:
            InvalidBufferError, InvalidCountError, InvalidTypeError: a buffer specification is wrong.
            InvalidRootError: there is no such rank.
            InvalidArgumentError: no algorithm has this name, or it cannot serve the call.
            TruncationError, InvalidCountError: awaiting it: another rank sends more or less than this one receives.
            ProcessFailedError: awaiting it: a rank of the communicator has failed.

        Example:
            model = np.zeros(1000)  # at the root: what the others get
            request = world.Bcast_init(model, root=0)
            request.start()
            await request
        """
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
        """Bind the arguments of `Scatter`; all ranks bind in the same order (MPI-4; section 4.6).

        Args:
            sendbuf: at the root (size, count) items, C order; ignored elsewhere.
            recvbuf: (count,) items; IN_PLACE at the root leaves its block where it is.
            root: rank of the root; on an intercommunicator ROOT, PROC_NULL, or the root's rank in the remote group.
            info: hints, of which none is known.
            algorithm: name, the same on all ranks; by default, the settings and the tuning data choose one.

        Returns:
            An inactive persistent request; `start` starts the operation, and `await` waits for it.

        Raises:
            InvalidBufferError, InvalidCountError, InvalidTypeError: a buffer specification is wrong.
            InvalidRootError: there is no such rank.
            InvalidArgumentError: no algorithm has this name, or it cannot serve the call.
            TruncationError, InvalidCountError: awaiting it: another rank sends more or less than this one receives.
            ProcessFailedError: awaiting it: a rank of the communicator has failed.

        Example:
            rows = np.zeros((world.size, 4)) if world.rank == 0 else None
            row = np.empty(4)
            request = world.Scatter_init(rows, row, root=0)
            request.start()
            await request
        """
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
        """Bind the arguments of `Scatterv`; all ranks bind in the same order (MPI-4; section 4.6).

        Args:
            sendbuf: at the root `[buf, counts]` or `[buf, (counts, displs)]`, also with a type; ignored elsewhere. A
                count is the number of items for a rank, and a displacement is the position of the first of these items,
                in items. Blocks may overlap.
            recvbuf: (count,) items, whose number may differ from rank to rank; IN_PLACE at the root leaves its block
                where it is.
            root: rank of the root; on an intercommunicator ROOT, PROC_NULL, or the root's rank in the remote group.
            info: hints, of which none is known.
            algorithm: name, the same on all ranks; by default, the settings and the tuning data choose one.

        Returns:
            An inactive persistent request; `start` starts the operation, and `await` waits for it.

        Raises:
            InvalidBufferError, InvalidCountError, InvalidTypeError: a buffer specification is wrong.
            InvalidRootError: there is no such rank.
            InvalidArgumentError: no algorithm has this name, or it cannot serve the call.
            TruncationError, InvalidCountError: awaiting it: another rank sends more or less than this one receives.
            ProcessFailedError: awaiting it: a rank of the communicator has failed.

        Example:
            table = [np.arange(5.0), [2, 3]] if world.rank == 0 else None
            part = np.empty((2, 3)[world.rank])
            request = world.Scatterv_init(table, part, root=0)
            request.start()
            await request
        """
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
        """Bind the arguments of `Gather`; all ranks bind in the same order (MPI-4; section 4.5).

        Args:
            sendbuf: (count,) items; IN_PLACE at the root if its block is in `recvbuf` already.
            recvbuf: at the root (size, count) items, C order; ignored elsewhere.
            root: rank of the root; on an intercommunicator ROOT, PROC_NULL, or the root's rank in the remote group.
            info: hints, of which none is known.
            algorithm: name, the same on all ranks; by default, the settings and the tuning data choose one.

        Returns:
            An inactive persistent request; `start` starts the operation, and `await` waits for it.

        Raises:
            InvalidBufferError, InvalidCountError, InvalidTypeError: a buffer specification is wrong.
            InvalidRootError: there is no such rank.
            InvalidArgumentError: no algorithm has this name, or it cannot serve the call.
            TruncationError, InvalidCountError: awaiting it: another rank sends more or less than this one receives.
            ProcessFailedError: awaiting it: a rank of the communicator has failed.

        Example:
            rows = np.empty((world.size, 4)) if world.rank == 0 else None
            request = world.Gather_init(np.full(4, world.rank, "d"), rows, root=0)
            request.start()
            await request
        """
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
        """Bind the arguments of `Gatherv`; all ranks bind in the same order (MPI-4; section 4.5).

        Args:
            sendbuf: (count,) items, whose number may differ from rank to rank; IN_PLACE at the root.
            recvbuf: at the root `[buf, counts]` or `[buf, (counts, displs)]`, also with a type; ignored elsewhere. A
                count is the number of items from a rank, and a displacement is the position of the first of these
                items, in items.
            root: rank of the root; on an intercommunicator ROOT, PROC_NULL, or the root's rank in the remote group.
            info: hints, of which none is known.
            algorithm: name, the same on all ranks; by default, the settings and the tuning data choose one.

        Returns:
            An inactive persistent request; `start` starts the operation, and `await` waits for it.

        Raises:
            InvalidBufferError, InvalidCountError, InvalidTypeError: a buffer specification is wrong.
            InvalidRootError: there is no such rank.
            InvalidArgumentError: no algorithm has this name, or it cannot serve the call.
            TruncationError, InvalidCountError: awaiting it: another rank sends more or less than this one receives.
            ProcessFailedError: awaiting it: a rank of the communicator has failed.

        Example:
            table = [np.empty(5), [2, 3]] if world.rank == 0 else None
            request = world.Gatherv_init(np.ones((2, 3)[world.rank]), table, root=0)
            request.start()
            await request
        """
        return buffers.gatherv.using(algorithm).init(self._admitted, sendbuf, recvbuf, root)

    def Allgather_init(
        self, sendbuf: BufSpec | InPlace, recvbuf: BufSpecB, info: Info = INFO_NULL, *, algorithm: str | None = None
    ) -> PersistentRequest[None]:
        """Bind the arguments of `Allgather`; all ranks bind in the same order (MPI-4; section 4.7).

        Args:
            sendbuf: (count,) items, or IN_PLACE.
            recvbuf: (size, count) items, C order.
            info: hints, of which none is known.
            algorithm: name, the same on all ranks; by default, the settings and the tuning data choose one.

        Returns:
            An inactive persistent request; `start` starts the operation, and `await` waits for it.

        Raises:
            InvalidBufferError, InvalidCountError, InvalidTypeError: a buffer specification is wrong.
            InvalidArgumentError: no algorithm has this name, or it cannot serve the call.
            TruncationError, InvalidCountError: awaiting it: another rank sends more or less than this one receives.
            ProcessFailedError: awaiting it: a rank of the communicator has failed.

        Example:
            rows = np.empty((world.size, 4))
            request = world.Allgather_init(np.full(4, world.rank, "d"), rows)
            request.start()
            await request
        """
        return buffers.allgather.using(algorithm).init(self._admitted, sendbuf, recvbuf)

    def Allgatherv_init(
        self, sendbuf: BufSpec | InPlace, recvbuf: BufSpecV, info: Info = INFO_NULL, *, algorithm: str | None = None
    ) -> PersistentRequest[None]:
        """Bind the arguments of `Allgatherv`; all ranks bind in the same order (MPI-4; section 4.7).

        Args:
            sendbuf: (count,) items, whose number may differ from rank to rank; or IN_PLACE.
            recvbuf: a specification as in `Gatherv`, with the same counts on all ranks.
            info: hints, of which none is known.
            algorithm: name, the same on all ranks; by default, the settings and the tuning data choose one.

        Returns:
            An inactive persistent request; `start` starts the operation, and `await` waits for it.

        Raises:
            InvalidBufferError, InvalidCountError, InvalidTypeError: a buffer specification is wrong.
            InvalidArgumentError: no algorithm has this name, or it cannot serve the call.
            TruncationError, InvalidCountError: awaiting it: another rank sends more or less than this one receives.
            ProcessFailedError: awaiting it: a rank of the communicator has failed.

        Example:
            table = np.empty(5)
            request = world.Allgatherv_init(np.ones((2, 3)[world.rank]), [table, [2, 3]])
            request.start()
            await request
        """
        return buffers.allgatherv.using(algorithm).init(self._admitted, sendbuf, recvbuf)

    def Alltoall_init(
        self, sendbuf: BufSpecB | InPlace, recvbuf: BufSpecB, info: Info = INFO_NULL, *, algorithm: str | None = None
    ) -> PersistentRequest[None]:
        """Bind the arguments of `Alltoall`; all ranks bind in the same order (MPI-4; section 4.8).

        Args:
            sendbuf: (size, count) items, C order; or IN_PLACE if the items are in `recvbuf`, from which they are copied
                first.
            recvbuf: (size, count) items, C order.
            info: hints, of which none is known.
            algorithm: name, the same on all ranks; by default, the settings and the tuning data choose one.

        Returns:
            An inactive persistent request; `start` starts the operation, and `await` waits for it.

        Raises:
            InvalidBufferError, InvalidCountError, InvalidTypeError: a buffer specification is wrong.
            InvalidArgumentError: no algorithm has this name, or it cannot serve the call.
            TruncationError, InvalidCountError: awaiting it: another rank sends more or less than this one receives.
            ProcessFailedError: awaiting it: a rank of the communicator has failed.

        Example:
            rows, columns = np.ones((world.size, 4)), np.empty((world.size, 4))
            request = world.Alltoall_init(rows, columns)
            request.start()
            await request
        """
        return buffers.alltoall.using(algorithm).init(self._admitted, sendbuf, recvbuf)

    def Alltoallv_init(
        self, sendbuf: BufSpecV | InPlace, recvbuf: BufSpecV, info: Info = INFO_NULL, *, algorithm: str | None = None
    ) -> PersistentRequest[None]:
        """Bind the arguments of `Alltoallv`; all ranks bind in the same order (MPI-4; section 4.8).

        Args:
            sendbuf: `[buf, counts]`, `[buf, (counts, displs)]`, also with a type, whose blocks may overlap; or IN_PLACE
                as in `Alltoall`.
            recvbuf: a specification of the same form; its count for a rank is the number of items from that rank.
            info: hints, of which none is known.
            algorithm: name, the same on all ranks; by default, the settings and the tuning data choose one.

        Returns:
            An inactive persistent request; `start` starts the operation, and `await` waits for it.

        Raises:
            InvalidBufferError, InvalidCountError, InvalidTypeError: a buffer specification is wrong.
            InvalidArgumentError: no algorithm has this name, or it cannot serve the call.
            TruncationError, InvalidCountError: awaiting it: another rank sends more or less than this one receives.
            ProcessFailedError: awaiting it: a rank of the communicator has failed.

        Example:
            counts = [2] * world.size
            table = np.empty(2 * world.size)
            request = world.Alltoallv_init([np.ones(2 * world.size), counts], [table, counts])
            request.start()
            await request
        """
        return buffers.alltoallv.using(algorithm).init(self._admitted, sendbuf, recvbuf)

    def Alltoallw_init(
        self, sendbuf: BufSpecW | InPlace, recvbuf: BufSpecW, info: Info = INFO_NULL, *, algorithm: str | None = None
    ) -> PersistentRequest[None]:
        """Bind the arguments of `Alltoallw`; all ranks bind in the same order (MPI-4; MPI-2).

        Args:
            sendbuf: `[buf, (counts, displs), types]` with displacements in bytes, `[buf, types]`, or IN_PLACE.
            recvbuf: a specification of the same form.
            info: hints, of which none is known.
            algorithm: name, the same on all ranks; by default, the settings and the tuning data choose one.

        Returns:
            An inactive persistent request; `start` starts the operation, and `await` waits for it.

        Raises:
            InvalidBufferError, InvalidCountError, InvalidTypeError: a buffer specification is wrong.
            InvalidArgumentError: no algorithm has this name, or it cannot serve the call.
            TruncationError, InvalidCountError: awaiting it: another rank sends more or less than this one receives.
            ProcessFailedError: awaiting it: a rank of the communicator has failed.

        Example:
            table, places = np.empty(world.size), [8 * rank for rank in range(world.size)]
            layout = [([1] * world.size, places), [MPI.DOUBLE] * world.size]
            request = world.Alltoallw_init([np.ones(world.size), *layout], [table, *layout])
            request.start()
            await request
        """
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
        """Bind the arguments of `Reduce`; all ranks bind in the same order (MPI-4; section 4.9).

        Args:
            sendbuf: (count,) items, or IN_PLACE at the root.
            recvbuf: (count,) items at the root; ignored elsewhere.
            op: operation, defined for the datatype.
            root: rank of the root; on an intercommunicator ROOT, PROC_NULL, or the root's rank in the remote group.
            info: hints, of which none is known.
            algorithm: name, the same on all ranks; by default, the settings and the tuning data choose one.

        Returns:
            An inactive persistent request; `start` starts the operation, and `await` waits for it.

        Raises:
            InvalidBufferError, InvalidCountError, InvalidTypeError: a buffer specification is wrong.
            InvalidRootError: there is no such rank.
            InvalidOpError: the operation is null, or not defined for the datatype.
            InvalidArgumentError: no algorithm has this name, or it cannot serve the call.
            TruncationError, InvalidCountError: awaiting it: another rank sends more or less than this one receives.
            ProcessFailedError: awaiting it: a rank of the communicator has failed.

        Example:
            total = np.empty(3) if world.rank == 0 else None
            request = world.Reduce_init(np.ones(3), total, MPI.SUM, root=0)
            request.start()
            await request
        """
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
        """Bind the arguments of `Allreduce`; all ranks bind in the same order (MPI-4; section 4.9.6).

        Args:
            sendbuf: (count,) items, or IN_PLACE.
            recvbuf: (count,) items; the same bits on all ranks.
            op: operation, defined for the datatype.
            info: hints, of which none is known.
            algorithm: name, the same on all ranks; by default, the settings and the tuning data choose one.

        Returns:
            An inactive persistent request; `start` starts the operation, and `await` waits for it.

        Raises:
            InvalidBufferError, InvalidCountError, InvalidTypeError: a buffer specification is wrong.
            InvalidOpError: the operation is null, or not defined for the datatype.
            InvalidArgumentError: no algorithm has this name, or it cannot serve the call.
            TruncationError, InvalidCountError: awaiting it: another rank sends more or less than this one receives.
            ProcessFailedError: awaiting it: a rank of the communicator has failed.

        Example:
            total = np.empty(3)
            request = world.Allreduce_init(np.ones(3), total, MPI.SUM)
            request.start()
            await request
        """
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
        """Bind the arguments of `Reduce_scatter`; all ranks bind in the same order (MPI-4; section 4.10).

        Args:
            sendbuf: (sum(recvcounts),) items, or IN_PLACE if they are in `recvbuf`.
            recvbuf: (recvcounts[rank],) items. With IN_PLACE, `recvbuf` holds the items for all ranks, and the result
                replaces the first items.
            recvcounts: number of items for each rank; None on all ranks if each rank gets as many items as its
                `recvbuf` has.
            op: operation, defined for the datatype.
            info: hints, of which none is known.
            algorithm: name, the same on all ranks; by default, the settings and the tuning data choose one.

        Returns:
            An inactive persistent request; `start` starts the operation, and `await` waits for it.

        Raises:
            InvalidBufferError, InvalidCountError, InvalidTypeError: a buffer specification is wrong.
            InvalidOpError: the operation is null, or not defined for the datatype.
            InvalidArgumentError: no algorithm has this name, or it cannot serve the call.
            TruncationError, InvalidCountError: awaiting it: another rank sends more or less than this one receives.
            ProcessFailedError: awaiting it: a rank of the communicator has failed.

        Example:
            part = np.empty(world.rank + 1)
            items = sum(range(1, world.size + 1))
            request = world.Reduce_scatter_init(np.ones(items), part)
            request.start()
            await request
        """
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
        """Bind the arguments of `Reduce_scatter_block`; all ranks bind in the same order (MPI-4; MPI-2.2).

        Args:
            sendbuf: (size, count) items, C order, or IN_PLACE if they are in `recvbuf`. A count in this specification,
                or in `recvbuf`, is the count of one block.
            recvbuf: (count,) items. With IN_PLACE, `recvbuf` holds the items of all blocks, and the result replaces the
                first items.
            op: operation, defined for the datatype.
            info: hints, of which none is known.
            algorithm: name, the same on all ranks; by default, the settings and the tuning data choose one.

        Returns:
            An inactive persistent request; `start` starts the operation, and `await` waits for it.

        Raises:
            InvalidBufferError, InvalidCountError, InvalidTypeError: a buffer specification is wrong.
            InvalidOpError: the operation is null, or not defined for the datatype.
            InvalidArgumentError: no algorithm has this name, or it cannot serve the call.
            TruncationError, InvalidCountError: awaiting it: another rank sends more or less than this one receives.
            ProcessFailedError: awaiting it: a rank of the communicator has failed.

        Example:
            part = np.empty(4)
            request = world.Reduce_scatter_block_init(np.ones((world.size, 4)), part)
            request.start()
            await request
        """
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
        """Bind the arguments of `Scan`; all ranks bind in the same order (MPI-4; section 4.11).

        Args:
            sendbuf: (count,) items, or IN_PLACE.
            recvbuf: (count,) items.
            op: operation, defined for the datatype.
            info: hints, of which none is known.
            algorithm: name, the same on all ranks; by default, the settings and the tuning data choose one.

        Returns:
            An inactive persistent request; `start` starts the operation, and `await` waits for it.

        Raises:
            InvalidBufferError, InvalidCountError, InvalidTypeError: a buffer specification is wrong.
            InvalidOpError: the operation is null, or not defined for the datatype.
            InvalidArgumentError: no algorithm has this name, or it cannot serve the call.
            TruncationError, InvalidCountError: awaiting it: another rank sends more or less than this one receives.
            ProcessFailedError: awaiting it: a rank of the communicator has failed.

        Example:
            before = np.empty(1)
            request = world.Scan_init(np.ones(1), before)  # world.rank + 1
            request.start()
            await request
        """
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
        """Bind the arguments of `Exscan`; all ranks bind in the same order (MPI-4; MPI-2).

        Args:
            sendbuf: (count,) items, or IN_PLACE.
            recvbuf: (count,) items; on rank 0 it is not changed, and is ignored unless `sendbuf` is IN_PLACE.
            op: operation, defined for the datatype.
            info: hints, of which none is known.
            algorithm: name, the same on all ranks; by default, the settings and the tuning data choose one.

        Returns:
            An inactive persistent request; `start` starts the operation, and `await` waits for it.

        Raises:
            InvalidBufferError, InvalidCountError, InvalidTypeError: a buffer specification is wrong.
            InvalidOpError: the operation is null, or not defined for the datatype.
            InvalidArgumentError: no algorithm has this name, or it cannot serve the call.
            TruncationError, InvalidCountError: awaiting it: another rank sends more or less than this one receives.
            ProcessFailedError: awaiting it: a rank of the communicator has failed.

        Example:
            before = np.zeros(1)
            request = world.Exscan_init(np.ones(1), before)  # world.rank
            request.start()
            await request
        """
        return buffers.exscan.using(algorithm).init(self._admitted, sendbuf, recvbuf, op)
