# Written by aiompi/face/generate from native/collective/movement.py, native/collective/reduction.py: edit these files.
"""Collectives of the blocking face on buffers (chapter 4)."""

from __future__ import annotations

from collections.abc import Sequence

from aiompi.coll import buffers
from aiompi.face.blocking.handle import Handle
from aiompi.op import SUM, Op
from aiompi.typing import BufSpec, BufSpecB, BufSpecV, BufSpecW, InPlace


class BufferCollectives(Handle):
    """The collectives on buffers; each returns when it is complete for this rank."""

    __slots__ = ()

    def Barrier(self) -> None:
        """Wait until every rank has called it (section 4.3).

        Raises:
            ProcessFailedError: a rank of the communicator has failed.
            BlockingCallError: an event loop is running in this thread.

        Example:
            comm.Barrier()
        """
        self._finish(buffers.barrier.begin(self._entered("Barrier()")))

    def Bcast(self, buf: BufSpec, root: int = 0) -> None:
        """Fill the buffer of every rank with the content of the root's buffer (section 4.4).

        Args:
            buf: (count,) items, read at the root and written at all other ranks; the root's buffer may be read-only.
            root: rank of the root; on an intercommunicator ROOT, PROC_NULL, or the root's rank in the remote group.

        Raises:
            InvalidBufferError, InvalidCountError, InvalidTypeError: a buffer specification is wrong.
            InvalidRootError: there is no such rank.
            TruncationError, InvalidCountError: another rank sends more or less than this one receives.
            ProcessFailedError: a rank of the communicator has failed.
            BlockingCallError: an event loop is running in this thread.

        Example:
            model = np.zeros(1000)  # at the root: what the others get
            comm.Bcast(model, root=0)
        """
        self._finish(buffers.bcast.begin(self._entered("Bcast(buf, root)"), buf, root))

    def Scatter(self, sendbuf: BufSpecB | None, recvbuf: BufSpec | InPlace, root: int = 0) -> None:
        """Send block i of the root's buffer to rank i (section 4.6).

        Args:
            sendbuf: at the root (size, count) items, C order; ignored elsewhere.
            recvbuf: (count,) items; IN_PLACE at the root leaves its block where it is.
            root: rank of the root; on an intercommunicator ROOT, PROC_NULL, or the root's rank in the remote group.

        Raises:
            InvalidBufferError, InvalidCountError, InvalidTypeError: a buffer specification is wrong.
            InvalidRootError: there is no such rank.
            TruncationError, InvalidCountError: another rank sends more or less than this one receives.
            ProcessFailedError: a rank of the communicator has failed.
            BlockingCallError: an event loop is running in this thread.

        Example:
            rows = np.zeros((comm.size, 4)) if comm.rank == 0 else None
            row = np.empty(4)
            comm.Scatter(rows, row, root=0)
        """
        self._finish(buffers.scatter.begin(self._entered("Scatter(sendbuf, recvbuf, root)"), sendbuf, recvbuf, root))

    def Scatterv(self, sendbuf: BufSpecV | None, recvbuf: BufSpec | InPlace, root: int = 0) -> None:
        """Send each rank a block of any length and place in the root's buffer (section 4.6).

        Args:
            sendbuf: at the root `[buf, counts]` or `[buf, (counts, displs)]`, also with a type; ignored elsewhere. A
                count is the number of items for a rank, and a displacement is the position of the first of these items,
                in items. Blocks may overlap.
            recvbuf: (count,) items, whose number may differ from rank to rank; IN_PLACE at the root leaves its block
                where it is.
            root: rank of the root; on an intercommunicator ROOT, PROC_NULL, or the root's rank in the remote group.

        Raises:
            InvalidBufferError, InvalidCountError, InvalidTypeError: a buffer specification is wrong.
            InvalidRootError: there is no such rank.
            TruncationError, InvalidCountError: another rank sends more or less than this one receives.
            ProcessFailedError: a rank of the communicator has failed.
            BlockingCallError: an event loop is running in this thread.

        Example:
            table = [np.arange(5.0), [2, 3]] if comm.rank == 0 else None
            part = np.empty((2, 3)[comm.rank])
            comm.Scatterv(table, part, root=0)
        """
        self._finish(buffers.scatterv.begin(self._entered("Scatterv(sendbuf, recvbuf, root)"), sendbuf, recvbuf, root))

    def Gather(self, sendbuf: BufSpec | InPlace, recvbuf: BufSpecB | None, root: int = 0) -> None:
        """Collect the buffers of all ranks as the blocks of the root's buffer (section 4.5).

        Args:
            sendbuf: (count,) items; IN_PLACE at the root if its block is in `recvbuf` already.
            recvbuf: at the root (size, count) items, C order; ignored elsewhere.
            root: rank of the root; on an intercommunicator ROOT, PROC_NULL, or the root's rank in the remote group.

        Raises:
            InvalidBufferError, InvalidCountError, InvalidTypeError: a buffer specification is wrong.
            InvalidRootError: there is no such rank.
            TruncationError, InvalidCountError: another rank sends more or less than this one receives.
            ProcessFailedError: a rank of the communicator has failed.
            BlockingCallError: an event loop is running in this thread.

        Example:
            rows = np.empty((comm.size, 4)) if comm.rank == 0 else None
            comm.Gather(np.full(4, comm.rank, "d"), rows, root=0)
        """
        self._finish(buffers.gather.begin(self._entered("Gather(sendbuf, recvbuf, root)"), sendbuf, recvbuf, root))

    def Gatherv(self, sendbuf: BufSpec | InPlace, recvbuf: BufSpecV | None, root: int = 0) -> None:
        """The buffers of all ranks, of any lengths, come to given places in the buffer of the root (section 4.5).

        Args:
            sendbuf: (count,) items, whose number may differ from rank to rank; IN_PLACE at the root.
            recvbuf: at the root `[buf, counts]` or `[buf, (counts, displs)]`, also with a type; ignored elsewhere. A
                count is the number of items from a rank, and a displacement is the position of the first of these
                items, in items.
            root: rank of the root; on an intercommunicator ROOT, PROC_NULL, or the root's rank in the remote group.

        Raises:
            InvalidBufferError, InvalidCountError, InvalidTypeError: a buffer specification is wrong.
            InvalidRootError: there is no such rank.
            TruncationError, InvalidCountError: another rank sends more or less than this one receives.
            ProcessFailedError: a rank of the communicator has failed.
            BlockingCallError: an event loop is running in this thread.

        Example:
            table = [np.empty(5), [2, 3]] if comm.rank == 0 else None
            comm.Gatherv(np.ones((2, 3)[comm.rank]), table, root=0)
        """
        self._finish(buffers.gatherv.begin(self._entered("Gatherv(sendbuf, recvbuf, root)"), sendbuf, recvbuf, root))

    def Allgather(self, sendbuf: BufSpec | InPlace, recvbuf: BufSpecB) -> None:
        """Every rank gets the buffers of all ranks, as blocks (section 4.7).

        Args:
            sendbuf: (count,) items, or IN_PLACE.
            recvbuf: (size, count) items, C order.

        Raises:
            InvalidBufferError, InvalidCountError, InvalidTypeError: a buffer specification is wrong.
            TruncationError, InvalidCountError: another rank sends more or less than this one receives.
            ProcessFailedError: a rank of the communicator has failed.
            BlockingCallError: an event loop is running in this thread.

        Example:
            rows = np.empty((comm.size, 4))
            comm.Allgather(np.full(4, comm.rank, "d"), rows)
        """
        self._finish(buffers.allgather.begin(self._entered("Allgather(sendbuf, recvbuf)"), sendbuf, recvbuf))

    def Allgatherv(self, sendbuf: BufSpec | InPlace, recvbuf: BufSpecV) -> None:
        """Every rank gets the buffers of all ranks, of any lengths, at given places (section 4.7).

        Args:
            sendbuf: (count,) items, whose number may differ from rank to rank; or IN_PLACE.
            recvbuf: a specification as in `Gatherv`, with the same counts on all ranks.

        Raises:
            InvalidBufferError, InvalidCountError, InvalidTypeError: a buffer specification is wrong.
            TruncationError, InvalidCountError: another rank sends more or less than this one receives.
            ProcessFailedError: a rank of the communicator has failed.
            BlockingCallError: an event loop is running in this thread.

        Example:
            table = np.empty(5)
            comm.Allgatherv(np.ones((2, 3)[comm.rank]), [table, [2, 3]])
        """
        self._finish(buffers.allgatherv.begin(self._entered("Allgatherv(sendbuf, recvbuf)"), sendbuf, recvbuf))

    def Alltoall(self, sendbuf: BufSpecB | InPlace, recvbuf: BufSpecB) -> None:
        """Send block r of every rank to rank r (section 4.8).

        Args:
            sendbuf: (size, count) items, C order; or IN_PLACE if the items are in `recvbuf`, from which they are copied
                first.
            recvbuf: (size, count) items, C order.

        Raises:
            InvalidBufferError, InvalidCountError, InvalidTypeError: a buffer specification is wrong.
            TruncationError, InvalidCountError: another rank sends more or less than this one receives.
            ProcessFailedError: a rank of the communicator has failed.
            BlockingCallError: an event loop is running in this thread.

        Example:
            rows, columns = np.ones((comm.size, 4)), np.empty((comm.size, 4))
            comm.Alltoall(rows, columns)
        """
        self._finish(buffers.alltoall.begin(self._entered("Alltoall(sendbuf, recvbuf)"), sendbuf, recvbuf))

    def Alltoallv(self, sendbuf: BufSpecV | InPlace, recvbuf: BufSpecV) -> None:
        """Send block r, of any length, of every rank to a place at rank r (section 4.8).

        Args:
            sendbuf: `[buf, counts]`, `[buf, (counts, displs)]`, also with a type, whose blocks may overlap; or IN_PLACE
                as in `Alltoall`.
            recvbuf: a specification of the same form; its count for a rank is the number of items from that rank.

        Raises:
            InvalidBufferError, InvalidCountError, InvalidTypeError: a buffer specification is wrong.
            TruncationError, InvalidCountError: another rank sends more or less than this one receives.
            ProcessFailedError: a rank of the communicator has failed.
            BlockingCallError: an event loop is running in this thread.

        Example:
            counts = [2] * comm.size
            table = np.empty(2 * comm.size)
            comm.Alltoallv([np.ones(2 * comm.size), counts], [table, counts])
        """
        self._finish(buffers.alltoallv.begin(self._entered("Alltoallv(sendbuf, recvbuf)"), sendbuf, recvbuf))

    def Alltoallw(self, sendbuf: BufSpecW | InPlace, recvbuf: BufSpecW) -> None:
        """Do what `Alltoallv` does, with a datatype for each rank (MPI-2).

        Args:
            sendbuf: `[buf, (counts, displs), types]` with displacements in bytes, `[buf, types]`, or IN_PLACE.
            recvbuf: a specification of the same form.

        Raises:
            InvalidBufferError, InvalidCountError, InvalidTypeError: a buffer specification is wrong.
            TruncationError, InvalidCountError: another rank sends more or less than this one receives.
            ProcessFailedError: a rank of the communicator has failed.
            BlockingCallError: an event loop is running in this thread.

        Example:
            table, places = np.empty(comm.size), [8 * rank for rank in range(comm.size)]
            layout = [([1] * comm.size, places), [MPI.DOUBLE] * comm.size]
            comm.Alltoallw([np.ones(comm.size), *layout], [table, *layout])
        """
        self._finish(buffers.alltoallw.begin(self._entered("Alltoallw(sendbuf, recvbuf)"), sendbuf, recvbuf))

    def Reduce(self, sendbuf: BufSpec | InPlace, recvbuf: BufSpec, op: Op = SUM, root: int = 0) -> None:
        """Combine the buffers of all ranks element by element, into the buffer of the root (section 4.9).

        Args:
            sendbuf: (count,) items, or IN_PLACE at the root.
            recvbuf: (count,) items at the root; ignored elsewhere.
            op: operation, defined for the datatype.
            root: rank of the root; on an intercommunicator ROOT, PROC_NULL, or the root's rank in the remote group.

        Raises:
            InvalidBufferError, InvalidCountError, InvalidTypeError: a buffer specification is wrong.
            InvalidRootError: there is no such rank.
            InvalidOpError: the operation is null, or not defined for the datatype.
            TruncationError, InvalidCountError: another rank sends more or less than this one receives.
            ProcessFailedError: a rank of the communicator has failed.
            BlockingCallError: an event loop is running in this thread.

        Example:
            total = np.empty(3) if comm.rank == 0 else None
            comm.Reduce(np.ones(3), total, MPI.SUM, root=0)
        """
        self._finish(
            buffers.reduce.begin(self._entered("Reduce(sendbuf, recvbuf, op, root)"), sendbuf, recvbuf, op, root)
        )

    def Allreduce(self, sendbuf: BufSpec | InPlace, recvbuf: BufSpec, op: Op = SUM) -> None:
        """Combine the buffers of all ranks element by element, on every rank (section 4.9.6).

        Args:
            sendbuf: (count,) items, or IN_PLACE.
            recvbuf: (count,) items; the same bits on all ranks.
            op: operation, defined for the datatype.

        Raises:
            InvalidBufferError, InvalidCountError, InvalidTypeError: a buffer specification is wrong.
            InvalidOpError: the operation is null, or not defined for the datatype.
            TruncationError, InvalidCountError: another rank sends more or less than this one receives.
            ProcessFailedError: a rank of the communicator has failed.
            BlockingCallError: an event loop is running in this thread.

        Example:
            total = np.empty(3)
            comm.Allreduce(np.ones(3), total, MPI.SUM)
        """
        self._finish(buffers.allreduce.begin(self._entered("Allreduce(sendbuf, recvbuf, op)"), sendbuf, recvbuf, op))

    def Reduce_scatter(
        self, sendbuf: BufSpec | InPlace, recvbuf: BufSpec, recvcounts: Sequence[int] | None = None, op: Op = SUM
    ) -> None:
        """Combine the buffers of all ranks; rank i gets segment i of the result (section 4.10).

        Args:
            sendbuf: (sum(recvcounts),) items, or IN_PLACE if they are in `recvbuf`.
            recvbuf: (recvcounts[rank],) items. With IN_PLACE, `recvbuf` holds the items for all ranks, and the result
                replaces the first items.
            recvcounts: number of items for each rank; None on all ranks if each rank gets as many items as its
                `recvbuf` has.
            op: operation, defined for the datatype.

        Raises:
            InvalidBufferError, InvalidCountError, InvalidTypeError: a buffer specification is wrong.
            InvalidOpError: the operation is null, or not defined for the datatype.
            TruncationError, InvalidCountError: another rank sends more or less than this one receives.
            ProcessFailedError: a rank of the communicator has failed.
            BlockingCallError: an event loop is running in this thread.

        Example:
            part = np.empty(comm.rank + 1)
            items = sum(range(1, comm.size + 1))
            comm.Reduce_scatter(np.ones(items), part)
        """
        self._finish(
            buffers.reduce_scatter.begin(
                self._entered("Reduce_scatter(sendbuf, recvbuf, recvcounts, op)"), sendbuf, recvbuf, recvcounts, op
            )
        )

    def Reduce_scatter_block(self, sendbuf: BufSpecB | InPlace, recvbuf: BufSpecB, op: Op = SUM) -> None:
        """Combine the buffers of all ranks; rank i gets block i of the result (MPI-2.2).

        Args:
            sendbuf: (size, count) items, C order, or IN_PLACE if they are in `recvbuf`. A count in this specification,
                or in `recvbuf`, is the count of one block.
            recvbuf: (count,) items. With IN_PLACE, `recvbuf` holds the items of all blocks, and the result replaces the
                first items.
            op: operation, defined for the datatype.

        Raises:
            InvalidBufferError, InvalidCountError, InvalidTypeError: a buffer specification is wrong.
            InvalidOpError: the operation is null, or not defined for the datatype.
            TruncationError, InvalidCountError: another rank sends more or less than this one receives.
            ProcessFailedError: a rank of the communicator has failed.
            BlockingCallError: an event loop is running in this thread.

        Example:
            part = np.empty(4)
            comm.Reduce_scatter_block(np.ones((comm.size, 4)), part)
        """
        self._finish(
            buffers.reduce_scatter_block.begin(
                self._entered("Reduce_scatter_block(sendbuf, recvbuf, op)"), sendbuf, recvbuf, op
            )
        )

    def Scan(self, sendbuf: BufSpec | InPlace, recvbuf: BufSpec, op: Op = SUM) -> None:
        """Combine the buffers of the ranks up to and including this rank, element by element (section 4.11).

        Args:
            sendbuf: (count,) items, or IN_PLACE.
            recvbuf: (count,) items.
            op: operation, defined for the datatype.

        Raises:
            InvalidBufferError, InvalidCountError, InvalidTypeError: a buffer specification is wrong.
            InvalidOpError: the operation is null, or not defined for the datatype.
            TruncationError, InvalidCountError: another rank sends more or less than this one receives.
            ProcessFailedError: a rank of the communicator has failed.
            BlockingCallError: an event loop is running in this thread.

        Example:
            before = np.empty(1)
            comm.Scan(np.ones(1), before)  # comm.rank + 1
        """
        self._finish(buffers.scan.begin(self._entered("Scan(sendbuf, recvbuf, op)"), sendbuf, recvbuf, op))

    def Exscan(self, sendbuf: BufSpec | InPlace, recvbuf: BufSpec, op: Op = SUM) -> None:
        """Combine the buffers of the ranks below this rank, element by element (MPI-2).

        Args:
            sendbuf: (count,) items, or IN_PLACE.
            recvbuf: (count,) items; on rank 0 it is not changed, and is ignored unless `sendbuf` is IN_PLACE.
            op: operation, defined for the datatype.

        Raises:
            InvalidBufferError, InvalidCountError, InvalidTypeError: a buffer specification is wrong.
            InvalidOpError: the operation is null, or not defined for the datatype.
            TruncationError, InvalidCountError: another rank sends more or less than this one receives.
            ProcessFailedError: a rank of the communicator has failed.
            BlockingCallError: an event loop is running in this thread.

        Example:
            before = np.zeros(1)
            comm.Exscan(np.ones(1), before)  # comm.rank
        """
        self._finish(buffers.exscan.begin(self._entered("Exscan(sendbuf, recvbuf, op)"), sendbuf, recvbuf, op))
