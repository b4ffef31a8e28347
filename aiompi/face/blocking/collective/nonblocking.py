# Written by aiompi/face/generate from native/collective/movement.py, native/collective/reduction.py: edit these files.
"""Nonblocking collectives of the blocking face (chapter 5 of MPI-3.1)."""

from __future__ import annotations

from collections.abc import Sequence

from aiompi.coll import buffers
from aiompi.face.blocking.handle import Handle
from aiompi.face.blocking.requests import Request
from aiompi.op import SUM, Op
from aiompi.typing import BufSpec, BufSpecB, BufSpecV, BufSpecW, InPlace


class NonblockingCollectives(Handle):
    """The collectives on buffers; each starts at once and returns its request."""

    __slots__ = ()

    def Ibarrier(self) -> Request[None]:
        """Start a `Barrier`: wait until every rank has called it (section 4.3).

        Returns:
            A request; `Wait` or `Test` completes it, and then this rank may use its buffers again.

        Raises:
            ProcessFailedError: completing it: a rank of the communicator has failed.

        Example:
            request = comm.Ibarrier()
            request.Wait()
        """
        return Request._denote(buffers.barrier(self._admitted))

    def Ibcast(self, buf: BufSpec, root: int = 0) -> Request[None]:
        """Start a `Bcast`: fill the buffer of every rank with the content of the root's buffer (section 4.4).

        Args:
            buf: (count,) items, read at the root and written at all other ranks; the root's buffer may be read-only.
            root: rank of the root; on an intercommunicator ROOT, PROC_NULL, or the root's rank in the remote group.

        Returns:
            A request; `Wait` or `Test` completes it, and then this rank may use its buffers again.

        Raises:
            InvalidBufferError, InvalidCountError, InvalidTypeError: a buffer specification is wrong.
            InvalidRootError: there is no such rank.
            TruncationError, InvalidCountError: completing it: another rank sends more or less than this one receives.
            ProcessFailedError: completing it: a rank of the communicator has failed.

        Example:
            model = np.zeros(1000)  # at the root: what the others get
            request = comm.Ibcast(model, root=0)
            request.Wait()
        """
        return Request._denote(buffers.bcast(self._admitted, buf, root))

    def Iscatter(self, sendbuf: BufSpecB | None, recvbuf: BufSpec | InPlace, root: int = 0) -> Request[None]:
        """Start a `Scatter`: send block i of the root's buffer to rank i (section 4.6).

        Args:
            sendbuf: at the root (size, count) items, C order; ignored elsewhere.
            recvbuf: (count,) items; IN_PLACE at the root leaves its block where it is.
            root: rank of the root; on an intercommunicator ROOT, PROC_NULL, or the root's rank in the remote group.

        Returns:
            A request; `Wait` or `Test` completes it, and then this rank may use its buffers again.

        Raises:
            InvalidBufferError, InvalidCountError, InvalidTypeError: a buffer specification is wrong.
            InvalidRootError: there is no such rank.
            TruncationError, InvalidCountError: completing it: another rank sends more or less than this one receives.
            ProcessFailedError: completing it: a rank of the communicator has failed.

        Example:
            rows = np.zeros((comm.size, 4)) if comm.rank == 0 else None
            row = np.empty(4)
            request = comm.Iscatter(rows, row, root=0)
            request.Wait()
        """
        return Request._denote(buffers.scatter(self._admitted, sendbuf, recvbuf, root))

    def Iscatterv(self, sendbuf: BufSpecV | None, recvbuf: BufSpec | InPlace, root: int = 0) -> Request[None]:
        """Start a `Scatterv`: send each rank a block of any length and place in the root's buffer (section 4.6).

        Args:
            sendbuf: at the root `[buf, counts]` or `[buf, (counts, displs)]`, also with a type; ignored elsewhere. A
                count is the number of items for a rank, and a displacement is the position of the first of these items,
                in items. Blocks may overlap.
            recvbuf: (count,) items, whose number may differ from rank to rank; IN_PLACE at the root leaves its block
                where it is.
            root: rank of the root; on an intercommunicator ROOT, PROC_NULL, or the root's rank in the remote group.

        Returns:
            A request; `Wait` or `Test` completes it, and then this rank may use its buffers again.

        Raises:
            InvalidBufferError, InvalidCountError, InvalidTypeError: a buffer specification is wrong.
            InvalidRootError: there is no such rank.
            TruncationError, InvalidCountError: completing it: another rank sends more or less than this one receives.
            ProcessFailedError: completing it: a rank of the communicator has failed.

        Example:
            table = [np.arange(5.0), [2, 3]] if comm.rank == 0 else None
            part = np.empty((2, 3)[comm.rank])
            request = comm.Iscatterv(table, part, root=0)
            request.Wait()
        """
        return Request._denote(buffers.scatterv(self._admitted, sendbuf, recvbuf, root))

    def Igather(self, sendbuf: BufSpec | InPlace, recvbuf: BufSpecB | None, root: int = 0) -> Request[None]:
        """Start a `Gather`: collect the buffers of all ranks as the blocks of the root's buffer (section 4.5).

        Args:
            sendbuf: (count,) items; IN_PLACE at the root if its block is in `recvbuf` already.
            recvbuf: at the root (size, count) items, C order; ignored elsewhere.
            root: rank of the root; on an intercommunicator ROOT, PROC_NULL, or the root's rank in the remote group.

        Returns:
            A request; `Wait` or `Test` completes it, and then this rank may use its buffers again.

        Raises:
            InvalidBufferError, InvalidCountError, InvalidTypeError: a buffer specification is wrong.
            InvalidRootError: there is no such rank.
            TruncationError, InvalidCountError: completing it: another rank sends more or less than this one receives.
            ProcessFailedError: completing it: a rank of the communicator has failed.

        Example:
            rows = np.empty((comm.size, 4)) if comm.rank == 0 else None
            request = comm.Igather(np.full(4, comm.rank, "d"), rows, root=0)
            request.Wait()
        """
        return Request._denote(buffers.gather(self._admitted, sendbuf, recvbuf, root))

    def Igatherv(self, sendbuf: BufSpec | InPlace, recvbuf: BufSpecV | None, root: int = 0) -> Request[None]:
        """Start a `Gatherv`: the buffers of all ranks, of any lengths, come to given places in the buffer of the root
        (section 4.5).

        Args:
            sendbuf: (count,) items, whose number may differ from rank to rank; IN_PLACE at the root.
            recvbuf: at the root `[buf, counts]` or `[buf, (counts, displs)]`, also with a type; ignored elsewhere. A
                count is the number of items from a rank, and a displacement is the position of the first of these
                items, in items.
            root: rank of the root; on an intercommunicator ROOT, PROC_NULL, or the root's rank in the remote group.

        Returns:
            A request; `Wait` or `Test` completes it, and then this rank may use its buffers again.

        Raises:
            InvalidBufferError, InvalidCountError, InvalidTypeError: a buffer specification is wrong.
            InvalidRootError: there is no such rank.
            TruncationError, InvalidCountError: completing it: another rank sends more or less than this one receives.
            ProcessFailedError: completing it: a rank of the communicator has failed.

        Example:
            table = [np.empty(5), [2, 3]] if comm.rank == 0 else None
            request = comm.Igatherv(np.ones((2, 3)[comm.rank]), table, root=0)
            request.Wait()
        """
        return Request._denote(buffers.gatherv(self._admitted, sendbuf, recvbuf, root))

    def Iallgather(self, sendbuf: BufSpec | InPlace, recvbuf: BufSpecB) -> Request[None]:
        """Start an `Allgather`: every rank gets the buffers of all ranks, as blocks (section 4.7).

        Args:
            sendbuf: (count,) items, or IN_PLACE.
            recvbuf: (size, count) items, C order.

        Returns:
            A request; `Wait` or `Test` completes it, and then this rank may use its buffers again.

        Raises:
            InvalidBufferError, InvalidCountError, InvalidTypeError: a buffer specification is wrong.
            TruncationError, InvalidCountError: completing it: another rank sends more or less than this one receives.
            ProcessFailedError: completing it: a rank of the communicator has failed.

        Example:
            rows = np.empty((comm.size, 4))
            request = comm.Iallgather(np.full(4, comm.rank, "d"), rows)
            request.Wait()
        """
        return Request._denote(buffers.allgather(self._admitted, sendbuf, recvbuf))

    def Iallgatherv(self, sendbuf: BufSpec | InPlace, recvbuf: BufSpecV) -> Request[None]:
        """Start an `Allgatherv`: every rank gets the buffers of all ranks, of any lengths, at given places (section
        4.7).

        Args:
            sendbuf: (count,) items, whose number may differ from rank to rank; or IN_PLACE.
            recvbuf: a specification as in `Gatherv`, with the same counts on all ranks.

        Returns:
            A request; `Wait` or `Test` completes it, and then this rank may use its buffers again.

        Raises:
            InvalidBufferError, InvalidCountError, InvalidTypeError: a buffer specification is wrong.
            TruncationError, InvalidCountError: completing it: another rank sends more or less than this one receives.
            ProcessFailedError: completing it: a rank of the communicator has failed.

        Example:
            table = np.empty(5)
            request = comm.Iallgatherv(np.ones((2, 3)[comm.rank]), [table, [2, 3]])
            request.Wait()
        """
        return Request._denote(buffers.allgatherv(self._admitted, sendbuf, recvbuf))

    def Ialltoall(self, sendbuf: BufSpecB | InPlace, recvbuf: BufSpecB) -> Request[None]:
        """Start an `Alltoall`: send block r of every rank to rank r (section 4.8).

        Args:
            sendbuf: (size, count) items, C order; or IN_PLACE if the items are in `recvbuf`, from which they are copied
                first.
            recvbuf: (size, count) items, C order.

        Returns:
            A request; `Wait` or `Test` completes it, and then this rank may use its buffers again.

        Raises:
            InvalidBufferError, InvalidCountError, InvalidTypeError: a buffer specification is wrong.
            TruncationError, InvalidCountError: completing it: another rank sends more or less than this one receives.
            ProcessFailedError: completing it: a rank of the communicator has failed.

        Example:
            rows, columns = np.ones((comm.size, 4)), np.empty((comm.size, 4))
            request = comm.Ialltoall(rows, columns)
            request.Wait()
        """
        return Request._denote(buffers.alltoall(self._admitted, sendbuf, recvbuf))

    def Ialltoallv(self, sendbuf: BufSpecV | InPlace, recvbuf: BufSpecV) -> Request[None]:
        """Start an `Alltoallv`: send block r, of any length, of every rank to a place at rank r (section 4.8).

        Args:
            sendbuf: `[buf, counts]`, `[buf, (counts, displs)]`, also with a type, whose blocks may overlap; or IN_PLACE
                as in `Alltoall`.
            recvbuf: a specification of the same form; its count for a rank is the number of items from that rank.

        Returns:
            A request; `Wait` or `Test` completes it, and then this rank may use its buffers again.

        Raises:
            InvalidBufferError, InvalidCountError, InvalidTypeError: a buffer specification is wrong.
            TruncationError, InvalidCountError: completing it: another rank sends more or less than this one receives.
            ProcessFailedError: completing it: a rank of the communicator has failed.

        Example:
            counts = [2] * comm.size
            table = np.empty(2 * comm.size)
            request = comm.Ialltoallv([np.ones(2 * comm.size), counts], [table, counts])
            request.Wait()
        """
        return Request._denote(buffers.alltoallv(self._admitted, sendbuf, recvbuf))

    def Ialltoallw(self, sendbuf: BufSpecW | InPlace, recvbuf: BufSpecW) -> Request[None]:
        """Start an `Alltoallw`: do what `Alltoallv` does, with a datatype for each rank (MPI-2).

        Args:
            sendbuf: `[buf, (counts, displs), types]` with displacements in bytes, `[buf, types]`, or IN_PLACE.
            recvbuf: a specification of the same form.

        Returns:
            A request; `Wait` or `Test` completes it, and then this rank may use its buffers again.

        Raises:
            InvalidBufferError, InvalidCountError, InvalidTypeError: a buffer specification is wrong.
            TruncationError, InvalidCountError: completing it: another rank sends more or less than this one receives.
            ProcessFailedError: completing it: a rank of the communicator has failed.

        Example:
            table, places = np.empty(comm.size), [8 * rank for rank in range(comm.size)]
            layout = [([1] * comm.size, places), [MPI.DOUBLE] * comm.size]
            request = comm.Ialltoallw([np.ones(comm.size), *layout], [table, *layout])
            request.Wait()
        """
        return Request._denote(buffers.alltoallw(self._admitted, sendbuf, recvbuf))

    def Ireduce(self, sendbuf: BufSpec | InPlace, recvbuf: BufSpec, op: Op = SUM, root: int = 0) -> Request[None]:
        """Start a `Reduce`: combine the buffers of all ranks element by element, into the buffer of the root (section
        4.9).

        Args:
            sendbuf: (count,) items, or IN_PLACE at the root.
            recvbuf: (count,) items at the root; ignored elsewhere.
            op: operation, defined for the datatype.
            root: rank of the root; on an intercommunicator ROOT, PROC_NULL, or the root's rank in the remote group.

        Returns:
            A request; `Wait` or `Test` completes it, and then this rank may use its buffers again.

        Raises:
            InvalidBufferError, InvalidCountError, InvalidTypeError: a buffer specification is wrong.
            InvalidRootError: there is no such rank.
            InvalidOpError: the operation is null, or not defined for the datatype.
            TruncationError, InvalidCountError: completing it: another rank sends more or less than this one receives.
            ProcessFailedError: completing it: a rank of the communicator has failed.

        Example:
            total = np.empty(3) if comm.rank == 0 else None
            request = comm.Ireduce(np.ones(3), total, MPI.SUM, root=0)
            request.Wait()
        """
        return Request._denote(buffers.reduce(self._admitted, sendbuf, recvbuf, op, root))

    def Iallreduce(self, sendbuf: BufSpec | InPlace, recvbuf: BufSpec, op: Op = SUM) -> Request[None]:
        """Start an `Allreduce`: combine the buffers of all ranks element by element, on every rank (section 4.9.6).

        Args:
            sendbuf: (count,) items, or IN_PLACE.
            recvbuf: (count,) items; the same bits on all ranks.
            op: operation, defined for the datatype.

        Returns:
            A request; `Wait` or `Test` completes it, and then this rank may use its buffers again.

        Raises:
            InvalidBufferError, InvalidCountError, InvalidTypeError: a buffer specification is wrong.
            InvalidOpError: the operation is null, or not defined for the datatype.
            TruncationError, InvalidCountError: completing it: another rank sends more or less than this one receives.
            ProcessFailedError: completing it: a rank of the communicator has failed.

        Example:
            total = np.empty(3)
            request = comm.Iallreduce(np.ones(3), total, MPI.SUM)
            request.Wait()
        """
        return Request._denote(buffers.allreduce(self._admitted, sendbuf, recvbuf, op))

    def Ireduce_scatter(
        self, sendbuf: BufSpec | InPlace, recvbuf: BufSpec, recvcounts: Sequence[int] | None = None, op: Op = SUM
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

        Returns:
            A request; `Wait` or `Test` completes it, and then this rank may use its buffers again.

        Raises:
            InvalidBufferError, InvalidCountError, InvalidTypeError: a buffer specification is wrong.
            InvalidOpError: the operation is null, or not defined for the datatype.
            TruncationError, InvalidCountError: completing it: another rank sends more or less than this one receives.
            ProcessFailedError: completing it: a rank of the communicator has failed.

        Example:
            part = np.empty(comm.rank + 1)
            items = sum(range(1, comm.size + 1))
            request = comm.Ireduce_scatter(np.ones(items), part)
            request.Wait()
        """
        return Request._denote(buffers.reduce_scatter(self._admitted, sendbuf, recvbuf, recvcounts, op))

    def Ireduce_scatter_block(self, sendbuf: BufSpecB | InPlace, recvbuf: BufSpecB, op: Op = SUM) -> Request[None]:
        """Start a `Reduce_scatter_block`: combine the buffers of all ranks; rank i gets block i of the result
        (MPI-2.2).

        Args:
            sendbuf: (size, count) items, C order, or IN_PLACE if they are in `recvbuf`. A count in this specification,
                or in `recvbuf`, is the count of one block.
            recvbuf: (count,) items. With IN_PLACE, `recvbuf` holds the items of all blocks, and the result replaces the
                first items.
            op: operation, defined for the datatype.

        Returns:
            A request; `Wait` or `Test` completes it, and then this rank may use its buffers again.

        Raises:
            InvalidBufferError, InvalidCountError, InvalidTypeError: a buffer specification is wrong.
            InvalidOpError: the operation is null, or not defined for the datatype.
            TruncationError, InvalidCountError: completing it: another rank sends more or less than this one receives.
            ProcessFailedError: completing it: a rank of the communicator has failed.

        Example:
            part = np.empty(4)
            request = comm.Ireduce_scatter_block(np.ones((comm.size, 4)), part)
            request.Wait()
        """
        return Request._denote(buffers.reduce_scatter_block(self._admitted, sendbuf, recvbuf, op))

    def Iscan(self, sendbuf: BufSpec | InPlace, recvbuf: BufSpec, op: Op = SUM) -> Request[None]:
        """Start a `Scan`: combine the buffers of the ranks up to and including this rank, element by element (section
        4.11).

        Args:
            sendbuf: (count,) items, or IN_PLACE.
            recvbuf: (count,) items.
            op: operation, defined for the datatype.

        Returns:
            A request; `Wait` or `Test` completes it, and then this rank may use its buffers again.

        Raises:
            InvalidBufferError, InvalidCountError, InvalidTypeError: a buffer specification is wrong.
            InvalidOpError: the operation is null, or not defined for the datatype.
            TruncationError, InvalidCountError: completing it: another rank sends more or less than this one receives.
            ProcessFailedError: completing it: a rank of the communicator has failed.

        Example:
            before = np.empty(1)
            request = comm.Iscan(np.ones(1), before)  # comm.rank + 1
            request.Wait()
        """
        return Request._denote(buffers.scan(self._admitted, sendbuf, recvbuf, op))

    def Iexscan(self, sendbuf: BufSpec | InPlace, recvbuf: BufSpec, op: Op = SUM) -> Request[None]:
        """Start an `Exscan`: combine the buffers of the ranks below this rank, element by element (MPI-2).

        Args:
            sendbuf: (count,) items, or IN_PLACE.
            recvbuf: (count,) items; on rank 0 it is not changed, and is ignored unless `sendbuf` is IN_PLACE.
            op: operation, defined for the datatype.

        Returns:
            A request; `Wait` or `Test` completes it, and then this rank may use its buffers again.

        Raises:
            InvalidBufferError, InvalidCountError, InvalidTypeError: a buffer specification is wrong.
            InvalidOpError: the operation is null, or not defined for the datatype.
            TruncationError, InvalidCountError: completing it: another rank sends more or less than this one receives.
            ProcessFailedError: completing it: a rank of the communicator has failed.

        Example:
            before = np.zeros(1)
            request = comm.Iexscan(np.ones(1), before)  # comm.rank
            request.Wait()
        """
        return Request._denote(buffers.exscan(self._admitted, sendbuf, recvbuf, op))
