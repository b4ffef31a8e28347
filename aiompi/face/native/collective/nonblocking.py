# Written by aiompi/face/generate from native/collective/movement.py, native/collective/reduction.py: edit these files.
"""Nonblocking collectives of the asyncio face on buffers (chapter 5 of MPI-3.1)."""

from __future__ import annotations

from collections.abc import Sequence

from aiompi.coll import buffers
from aiompi.engine import Request
from aiompi.face.native.handle import Handle
from aiompi.op import SUM, Op
from aiompi.typing import BufSpec, BufSpecB, BufSpecV, BufSpecW, InPlace


class NonblockingCollectives(Handle):
    """The collectives on buffers whose requests are kept, to be awaited later."""

    __slots__ = ()

    def Ibarrier(self, *, algorithm: str | None = None) -> Request[None]:
        """Start a `Barrier`: wait until every rank has called it (section 4.3).

        Args:
            algorithm: name, the same on all ranks; by default, the settings and the tuning data choose one.

        Returns:
            A request; it is complete when every rank has called this.

        Raises:
            InvalidArgumentError: no algorithm has this name, or it cannot serve the call.
            ProcessFailedError: awaiting it: a rank of the communicator has failed.

        Cancelling:
            The collective goes on when the await is cancelled, as by a time limit, because the other ranks need it.

        Example:
            request = world.Ibarrier()
            await request
        """
        return buffers.barrier.using(algorithm)(self._admitted)

    def Ibcast(self, buf: BufSpec, root: int = 0, *, algorithm: str | None = None) -> Request[None]:
        """Start a `Bcast`: fill the buffer of every rank with the content of the root's buffer (section 4.4).

        Args:
            buf: (count,) items, read at the root and written at all other ranks; the root's buffer may be read-only.
            root: rank of the root; on an intercommunicator ROOT, PROC_NULL, or the root's rank in the remote group.
            algorithm: name, the same on all ranks; by default, the settings and the tuning data choose one.

        Returns:
            A request; when it is complete, this rank may use its buffers again.

        Raises:
            InvalidBufferError, InvalidCountError, InvalidTypeError: a buffer specification is wrong.
            InvalidRootError: there is no such rank.
            InvalidArgumentError: no algorithm has this name, or it cannot serve the call.
            TruncationError, InvalidCountError: awaiting it: another rank sends more or less than this one receives.
            ProcessFailedError: awaiting it: a rank of the communicator has failed.

        Cancelling:
            The collective goes on when the await is cancelled, as by a time limit, because the other ranks need it. Its
            buffers stay in use until it is complete.

        Example:
            model = np.zeros(1000)  # at the root: what the others get
            request = world.Ibcast(model, root=0)
            await request
        """
        return buffers.bcast.using(algorithm)(self._admitted, buf, root)

    def Iscatter(
        self, sendbuf: BufSpecB | None, recvbuf: BufSpec | InPlace, root: int = 0, *, algorithm: str | None = None
    ) -> Request[None]:
        """Start a `Scatter`: send block i of the root's buffer to rank i (section 4.6).

        Args:
            sendbuf: at the root (size, count) items, C order; ignored elsewhere.
            recvbuf: (count,) items; IN_PLACE at the root leaves its block where it is.
            root: rank of the root; on an intercommunicator ROOT, PROC_NULL, or the root's rank in the remote group.
            algorithm: name, the same on all ranks; by default, the settings and the tuning data choose one.

        Returns:
            A request; when it is complete, this rank may use its buffers again.

        Raises:
            InvalidBufferError, InvalidCountError, InvalidTypeError: a buffer specification is wrong.
            InvalidRootError: there is no such rank.
            InvalidArgumentError: no algorithm has this name, or it cannot serve the call.
            TruncationError, InvalidCountError: awaiting it: another rank sends more or less than this one receives.
            ProcessFailedError: awaiting it: a rank of the communicator has failed.

        Cancelling:
            The collective goes on when the await is cancelled, as by a time limit, because the other ranks need it. Its
            buffers stay in use until it is complete.

        Example:
            rows = np.zeros((world.size, 4)) if world.rank == 0 else None
            row = np.empty(4)
            request = world.Iscatter(rows, row, root=0)
            await request
        """
        return buffers.scatter.using(algorithm)(self._admitted, sendbuf, recvbuf, root)

    def Iscatterv(
        self, sendbuf: BufSpecV | None, recvbuf: BufSpec | InPlace, root: int = 0, *, algorithm: str | None = None
    ) -> Request[None]:
        """Start a `Scatterv`: send each rank a block of any length and place in the root's buffer (section 4.6).

        Args:
            sendbuf: at the root `[buf, counts]` or `[buf, (counts, displs)]`, also with a type; ignored elsewhere. A
                count is the number of items for a rank, and a displacement is the position of the first of these items,
                in items. Blocks may overlap.
            recvbuf: (count,) items, whose number may differ from rank to rank; IN_PLACE at the root leaves its block
                where it is.
            root: rank of the root; on an intercommunicator ROOT, PROC_NULL, or the root's rank in the remote group.
            algorithm: name, the same on all ranks; by default, the settings and the tuning data choose one.

        Returns:
            A request; when it is complete, this rank may use its buffers again.

        Raises:
            InvalidBufferError, InvalidCountError, InvalidTypeError: a buffer specification is wrong.
            InvalidRootError: there is no such rank.
            InvalidArgumentError: no algorithm has this name, or it cannot serve the call.
            TruncationError, InvalidCountError: awaiting it: another rank sends more or less than this one receives.
            ProcessFailedError: awaiting it: a rank of the communicator has failed.

        Cancelling:
            The collective goes on when the await is cancelled, as by a time limit, because the other ranks need it. Its
            buffers stay in use until it is complete.

        Example:
            table = [np.arange(5.0), [2, 3]] if world.rank == 0 else None
            part = np.empty((2, 3)[world.rank])
            request = world.Iscatterv(table, part, root=0)
            await request
        """
        return buffers.scatterv.using(algorithm)(self._admitted, sendbuf, recvbuf, root)

    def Igather(
        self, sendbuf: BufSpec | InPlace, recvbuf: BufSpecB | None, root: int = 0, *, algorithm: str | None = None
    ) -> Request[None]:
        """Start a `Gather`: collect the buffers of all ranks as the blocks of the root's buffer (section 4.5).

        Args:
            sendbuf: (count,) items; IN_PLACE at the root if its block is in `recvbuf` already.
            recvbuf: at the root (size, count) items, C order; ignored elsewhere.
            root: rank of the root; on an intercommunicator ROOT, PROC_NULL, or the root's rank in the remote group.
            algorithm: name, the same on all ranks; by default, the settings and the tuning data choose one.

        Returns:
            A request; when it is complete, this rank may use its buffers again.

        Raises:
            InvalidBufferError, InvalidCountError, InvalidTypeError: a buffer specification is wrong.
            InvalidRootError: there is no such rank.
            InvalidArgumentError: no algorithm has this name, or it cannot serve the call.
            TruncationError, InvalidCountError: awaiting it: another rank sends more or less than this one receives.
            ProcessFailedError: awaiting it: a rank of the communicator has failed.

        Cancelling:
            The collective goes on when the await is cancelled, as by a time limit, because the other ranks need it. Its
            buffers stay in use until it is complete.

        Example:
            rows = np.empty((world.size, 4)) if world.rank == 0 else None
            request = world.Igather(np.full(4, world.rank, "d"), rows, root=0)
            await request
        """
        return buffers.gather.using(algorithm)(self._admitted, sendbuf, recvbuf, root)

    def Igatherv(
        self, sendbuf: BufSpec | InPlace, recvbuf: BufSpecV | None, root: int = 0, *, algorithm: str | None = None
    ) -> Request[None]:
        """Start a `Gatherv`: the buffers of all ranks, of any lengths, come to given places in the buffer of the root
        (section 4.5).

        Args:
            sendbuf: (count,) items, whose number may differ from rank to rank; IN_PLACE at the root.
            recvbuf: at the root `[buf, counts]` or `[buf, (counts, displs)]`, also with a type; ignored elsewhere. A
                count is the number of items from a rank, and a displacement is the position of the first of these
                items, in items.
            root: rank of the root; on an intercommunicator ROOT, PROC_NULL, or the root's rank in the remote group.
            algorithm: name, the same on all ranks; by default, the settings and the tuning data choose one.

        Returns:
            A request; when it is complete, this rank may use its buffers again.

        Raises:
            InvalidBufferError, InvalidCountError, InvalidTypeError: a buffer specification is wrong.
            InvalidRootError: there is no such rank.
            InvalidArgumentError: no algorithm has this name, or it cannot serve the call.
            TruncationError, InvalidCountError: awaiting it: another rank sends more or less than this one receives.
            ProcessFailedError: awaiting it: a rank of the communicator has failed.

        Cancelling:
            The collective goes on when the await is cancelled, as by a time limit, because the other ranks need it. Its
            buffers stay in use until it is complete.

        Example:
            table = [np.empty(5), [2, 3]] if world.rank == 0 else None
            request = world.Igatherv(np.ones((2, 3)[world.rank]), table, root=0)
            await request
        """
        return buffers.gatherv.using(algorithm)(self._admitted, sendbuf, recvbuf, root)

    def Iallgather(
        self, sendbuf: BufSpec | InPlace, recvbuf: BufSpecB, *, algorithm: str | None = None
    ) -> Request[None]:
        """Start an `Allgather`: every rank gets the buffers of all ranks, as blocks (section 4.7).

        Args:
            sendbuf: (count,) items, or IN_PLACE.
            recvbuf: (size, count) items, C order.
            algorithm: name, the same on all ranks; by default, the settings and the tuning data choose one.

        Returns:
            A request; when it is complete, this rank may use its buffers again.

        Raises:
            InvalidBufferError, InvalidCountError, InvalidTypeError: a buffer specification is wrong.
            InvalidArgumentError: no algorithm has this name, or it cannot serve the call.
            TruncationError, InvalidCountError: awaiting it: another rank sends more or less than this one receives.
            ProcessFailedError: awaiting it: a rank of the communicator has failed.

        Cancelling:
            The collective goes on when the await is cancelled, as by a time limit, because the other ranks need it. Its
            buffers stay in use until it is complete.

        Example:
            rows = np.empty((world.size, 4))
            request = world.Iallgather(np.full(4, world.rank, "d"), rows)
            await request
        """
        return buffers.allgather.using(algorithm)(self._admitted, sendbuf, recvbuf)

    def Iallgatherv(
        self, sendbuf: BufSpec | InPlace, recvbuf: BufSpecV, *, algorithm: str | None = None
    ) -> Request[None]:
        """Start an `Allgatherv`: every rank gets the buffers of all ranks, of any lengths, at given places (section
        4.7).

        Args:
            sendbuf: (count,) items, whose number may differ from rank to rank; or IN_PLACE.
            recvbuf: a specification as in `Gatherv`, with the same counts on all ranks.
            algorithm: name, the same on all ranks; by default, the settings and the tuning data choose one.

        Returns:
            A request; when it is complete, this rank may use its buffers again.

        Raises:
            InvalidBufferError, InvalidCountError, InvalidTypeError: a buffer specification is wrong.
            InvalidArgumentError: no algorithm has this name, or it cannot serve the call.
            TruncationError, InvalidCountError: awaiting it: another rank sends more or less than this one receives.
            ProcessFailedError: awaiting it: a rank of the communicator has failed.

        Cancelling:
            The collective goes on when the await is cancelled, as by a time limit, because the other ranks need it. Its
            buffers stay in use until it is complete.

        Example:
            table = np.empty(5)
            request = world.Iallgatherv(np.ones((2, 3)[world.rank]), [table, [2, 3]])
            await request
        """
        return buffers.allgatherv.using(algorithm)(self._admitted, sendbuf, recvbuf)

    def Ialltoall(
        self, sendbuf: BufSpecB | InPlace, recvbuf: BufSpecB, *, algorithm: str | None = None
    ) -> Request[None]:
        """Start an `Alltoall`: send block r of every rank to rank r (section 4.8).

        Args:
            sendbuf: (size, count) items, C order; or IN_PLACE if the items are in `recvbuf`, from which they are copied
                first.
            recvbuf: (size, count) items, C order.
            algorithm: name, the same on all ranks; by default, the settings and the tuning data choose one.

        Returns:
            A request; when it is complete, this rank may use its buffers again.

        Raises:
            InvalidBufferError, InvalidCountError, InvalidTypeError: a buffer specification is wrong.
            InvalidArgumentError: no algorithm has this name, or it cannot serve the call.
            TruncationError, InvalidCountError: awaiting it: another rank sends more or less than this one receives.
            ProcessFailedError: awaiting it: a rank of the communicator has failed.

        Cancelling:
            The collective goes on when the await is cancelled, as by a time limit, because the other ranks need it. Its
            buffers stay in use until it is complete.

        Example:
            rows, columns = np.ones((world.size, 4)), np.empty((world.size, 4))
            request = world.Ialltoall(rows, columns)
            await request
        """
        return buffers.alltoall.using(algorithm)(self._admitted, sendbuf, recvbuf)

    def Ialltoallv(
        self, sendbuf: BufSpecV | InPlace, recvbuf: BufSpecV, *, algorithm: str | None = None
    ) -> Request[None]:
        """Start an `Alltoallv`: send block r, of any length, of every rank to a place at rank r (section 4.8).

        Args:
            sendbuf: `[buf, counts]`, `[buf, (counts, displs)]`, also with a type, whose blocks may overlap; or IN_PLACE
                as in `Alltoall`.
            recvbuf: a specification of the same form; its count for a rank is the number of items from that rank.
            algorithm: name, the same on all ranks; by default, the settings and the tuning data choose one.

        Returns:
            A request; when it is complete, this rank may use its buffers again.

        Raises:
            InvalidBufferError, InvalidCountError, InvalidTypeError: a buffer specification is wrong.
            InvalidArgumentError: no algorithm has this name, or it cannot serve the call.
            TruncationError, InvalidCountError: awaiting it: another rank sends more or less than this one receives.
            ProcessFailedError: awaiting it: a rank of the communicator has failed.

        Cancelling:
            The collective goes on when the await is cancelled, as by a time limit, because the other ranks need it. Its
            buffers stay in use until it is complete.

        Example:
            counts = [2] * world.size
            table = np.empty(2 * world.size)
            request = world.Ialltoallv([np.ones(2 * world.size), counts], [table, counts])
            await request
        """
        return buffers.alltoallv.using(algorithm)(self._admitted, sendbuf, recvbuf)

    def Ialltoallw(
        self, sendbuf: BufSpecW | InPlace, recvbuf: BufSpecW, *, algorithm: str | None = None
    ) -> Request[None]:
        """Start an `Alltoallw`: do what `Alltoallv` does, with a datatype for each rank (MPI-2).

        Args:
            sendbuf: `[buf, (counts, displs), types]` with displacements in bytes, `[buf, types]`, or IN_PLACE.
            recvbuf: a specification of the same form.
            algorithm: name, the same on all ranks; by default, the settings and the tuning data choose one.

        Returns:
            A request; when it is complete, this rank may use its buffers again.

        Raises:
            InvalidBufferError, InvalidCountError, InvalidTypeError: a buffer specification is wrong.
            InvalidArgumentError: no algorithm has this name, or it cannot serve the call.
            TruncationError, InvalidCountError: awaiting it: another rank sends more or less than this one receives.
            ProcessFailedError: awaiting it: a rank of the communicator has failed.

        Cancelling:
            The collective goes on when the await is cancelled, as by a time limit, because the other ranks need it. Its
            buffers stay in use until it is complete.

        Example:
            table, places = np.empty(world.size), [8 * rank for rank in range(world.size)]
            layout = [([1] * world.size, places), [MPI.DOUBLE] * world.size]
            request = world.Ialltoallw([np.ones(world.size), *layout], [table, *layout])
            await request
        """
        return buffers.alltoallw.using(algorithm)(self._admitted, sendbuf, recvbuf)

    def Ireduce(
        self, sendbuf: BufSpec | InPlace, recvbuf: BufSpec, op: Op = SUM, root: int = 0, *, algorithm: str | None = None
    ) -> Request[None]:
        """Start a `Reduce`: combine the buffers of all ranks element by element, into the buffer of the root (section
        4.9).

        Args:
            sendbuf: (count,) items, or IN_PLACE at the root.
            recvbuf: (count,) items at the root; ignored elsewhere.
            op: operation, defined for the datatype.
            root: rank of the root; on an intercommunicator ROOT, PROC_NULL, or the root's rank in the remote group.
            algorithm: name, the same on all ranks; by default, the settings and the tuning data choose one.

        Returns:
            A request; when it is complete, this rank may use its buffers again.

        Raises:
            InvalidBufferError, InvalidCountError, InvalidTypeError: a buffer specification is wrong.
            InvalidRootError: there is no such rank.
            InvalidOpError: the operation is null, or not defined for the datatype.
            InvalidArgumentError: no algorithm has this name, or it cannot serve the call.
            TruncationError, InvalidCountError: awaiting it: another rank sends more or less than this one receives.
            ProcessFailedError: awaiting it: a rank of the communicator has failed.

        Cancelling:
            The collective goes on when the await is cancelled, as by a time limit, because the other ranks need it. Its
            buffers stay in use until it is complete.

        Example:
            total = np.empty(3) if world.rank == 0 else None
            request = world.Ireduce(np.ones(3), total, MPI.SUM, root=0)
            await request
        """
        return buffers.reduce.using(algorithm)(self._admitted, sendbuf, recvbuf, op, root)

    def Iallreduce(
        self, sendbuf: BufSpec | InPlace, recvbuf: BufSpec, op: Op = SUM, *, algorithm: str | None = None
    ) -> Request[None]:
        """Start an `Allreduce`: combine the buffers of all ranks element by element, on every rank (section 4.9.6).

        Args:
            sendbuf: (count,) items, or IN_PLACE.
            recvbuf: (count,) items; the same bits on all ranks.
            op: operation, defined for the datatype.
            algorithm: name, the same on all ranks; by default, the settings and the tuning data choose one.

        Returns:
            A request; when it is complete, this rank may use its buffers again.

        Raises:
            InvalidBufferError, InvalidCountError, InvalidTypeError: a buffer specification is wrong.
            InvalidOpError: the operation is null, or not defined for the datatype.
            InvalidArgumentError: no algorithm has this name, or it cannot serve the call.
            TruncationError, InvalidCountError: awaiting it: another rank sends more or less than this one receives.
            ProcessFailedError: awaiting it: a rank of the communicator has failed.

        Cancelling:
            The collective goes on when the await is cancelled, as by a time limit, because the other ranks need it. Its
            buffers stay in use until it is complete.

        Example:
            total = np.empty(3)
            request = world.Iallreduce(np.ones(3), total, MPI.SUM)
            await request
        """
        return buffers.allreduce.using(algorithm)(self._admitted, sendbuf, recvbuf, op)

    def Ireduce_scatter(
        self,
        sendbuf: BufSpec | InPlace,
        recvbuf: BufSpec,
        recvcounts: Sequence[int] | None = None,
        op: Op = SUM,
        *,
        algorithm: str | None = None,
    ) -> Request[None]:
        """Start a `Reduce_scatter`: combine the buffers of all ranks; rank i gets segment i of the result (section
        4.10).

        Args:
            sendbuf: (sum(recvcounts),) items, or IN_PLACE if they are in `recvbuf`.
            recvbuf: (recvcounts[rank],) items. With IN_PLACE, `recvbuf` holds the items for all ranks, and the result
                replaces the first items.
            recvcounts: number of items for each rank; None on all ranks if each rank gets as many items as its
                `recvbuf` has.
            op: operation, defined for the datatype.
            algorithm: name, the same on all ranks; by default, the settings and the tuning data choose one.

        Returns:
            A request; when it is complete, this rank may use its buffers again.

        Raises:
            InvalidBufferError, InvalidCountError, InvalidTypeError: a buffer specification is wrong.
            InvalidOpError: the operation is null, or not defined for the datatype.
            InvalidArgumentError: no algorithm has this name, or it cannot serve the call.
            TruncationError, InvalidCountError: awaiting it: another rank sends more or less than this one receives.
            ProcessFailedError: awaiting it: a rank of the communicator has failed.

        Cancelling:
            The collective goes on when the await is cancelled, as by a time limit, because the other ranks need it. Its
            buffers stay in use until it is complete.

        Example:
            part = np.empty(world.rank + 1)
            items = sum(range(1, world.size + 1))
            request = world.Ireduce_scatter(np.ones(items), part)
            await request
        """
        return buffers.reduce_scatter.using(algorithm)(self._admitted, sendbuf, recvbuf, recvcounts, op)

    def Ireduce_scatter_block(
        self, sendbuf: BufSpecB | InPlace, recvbuf: BufSpecB, op: Op = SUM, *, algorithm: str | None = None
    ) -> Request[None]:
        """Start a `Reduce_scatter_block`: combine the buffers of all ranks; rank i gets block i of the result
        (MPI-2.2).

        Args:
            sendbuf: (size, count) items, C order, or IN_PLACE if they are in `recvbuf`. A count in this specification,
                or in `recvbuf`, is the count of one block.
            recvbuf: (count,) items. With IN_PLACE, `recvbuf` holds the items of all blocks, and the result replaces the
                first items.
            op: operation, defined for the datatype.
            algorithm: name, the same on all ranks; by default, the settings and the tuning data choose one.

        Returns:
            A request; when it is complete, this rank may use its buffers again.

        Raises:
            InvalidBufferError, InvalidCountError, InvalidTypeError: a buffer specification is wrong.
            InvalidOpError: the operation is null, or not defined for the datatype.
            InvalidArgumentError: no algorithm has this name, or it cannot serve the call.
            TruncationError, InvalidCountError: awaiting it: another rank sends more or less than this one receives.
            ProcessFailedError: awaiting it: a rank of the communicator has failed.

        Cancelling:
            The collective goes on when the await is cancelled, as by a time limit, because the other ranks need it. Its
            buffers stay in use until it is complete.

        Example:
            part = np.empty(4)
            request = world.Ireduce_scatter_block(np.ones((world.size, 4)), part)
            await request
        """
        return buffers.reduce_scatter_block.using(algorithm)(self._admitted, sendbuf, recvbuf, op)

    def Iscan(
        self, sendbuf: BufSpec | InPlace, recvbuf: BufSpec, op: Op = SUM, *, algorithm: str | None = None
    ) -> Request[None]:
        """Start a `Scan`: combine the buffers of the ranks up to and including this rank, element by element (section
        4.11).

        Args:
            sendbuf: (count,) items, or IN_PLACE.
            recvbuf: (count,) items.
            op: operation, defined for the datatype.
            algorithm: name, the same on all ranks; by default, the settings and the tuning data choose one.

        Returns:
            A request; when it is complete, this rank may use its buffers again.

        Raises:
            InvalidBufferError, InvalidCountError, InvalidTypeError: a buffer specification is wrong.
            InvalidOpError: the operation is null, or not defined for the datatype.
            InvalidArgumentError: no algorithm has this name, or it cannot serve the call.
            TruncationError, InvalidCountError: awaiting it: another rank sends more or less than this one receives.
            ProcessFailedError: awaiting it: a rank of the communicator has failed.

        Cancelling:
            The collective goes on when the await is cancelled, as by a time limit, because the other ranks need it. Its
            buffers stay in use until it is complete.

        Example:
            before = np.empty(1)
            request = world.Iscan(np.ones(1), before)  # world.rank + 1
            await request
        """
        return buffers.scan.using(algorithm)(self._admitted, sendbuf, recvbuf, op)

    def Iexscan(
        self, sendbuf: BufSpec | InPlace, recvbuf: BufSpec, op: Op = SUM, *, algorithm: str | None = None
    ) -> Request[None]:
        """Start an `Exscan`: combine the buffers of the ranks below this rank, element by element (MPI-2).

        Args:
            sendbuf: (count,) items, or IN_PLACE.
            recvbuf: (count,) items; on rank 0 it is not changed, and is ignored unless `sendbuf` is IN_PLACE.
            op: operation, defined for the datatype.
            algorithm: name, the same on all ranks; by default, the settings and the tuning data choose one.

        Returns:
            A request; when it is complete, this rank may use its buffers again.

        Raises:
            InvalidBufferError, InvalidCountError, InvalidTypeError: a buffer specification is wrong.
            InvalidOpError: the operation is null, or not defined for the datatype.
            InvalidArgumentError: no algorithm has this name, or it cannot serve the call.
            TruncationError, InvalidCountError: awaiting it: another rank sends more or less than this one receives.
            ProcessFailedError: awaiting it: a rank of the communicator has failed.

        Cancelling:
            The collective goes on when the await is cancelled, as by a time limit, because the other ranks need it. Its
            buffers stay in use until it is complete.

        Example:
            before = np.zeros(1)
            request = world.Iexscan(np.ones(1), before)  # world.rank
            await request
        """
        return buffers.exscan.using(algorithm)(self._admitted, sendbuf, recvbuf, op)
