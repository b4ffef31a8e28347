"""Collectives of the asyncio face that combine the contents of buffers (chapter 4)."""

from __future__ import annotations

from collections.abc import Sequence

from aiompi.coll import buffers
from aiompi.engine import AwaitableCall
from aiompi.face.native.handle import Handle
from aiompi.op import SUM, Op
from aiompi.typing import BufSpec, BufSpecB, InPlace


class CombiningCollectives(Handle):
    """The collectives that combine the contents of buffers; each starts at once and returns its request."""

    __slots__ = ()

    def Reduce(
        self, sendbuf: BufSpec | InPlace, recvbuf: BufSpec, op: Op = SUM, root: int = 0, *, algorithm: str | None = None
    ) -> AwaitableCall[None]:
        """Combine the buffers of all ranks element by element, into the buffer of the root (section 4.9).

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
            await world.Reduce(np.ones(3), total, MPI.SUM, root=0)
        """
        return AwaitableCall(buffers.reduce.using(algorithm)(self._admitted, sendbuf, recvbuf, op, root))

    def Allreduce(
        self, sendbuf: BufSpec | InPlace, recvbuf: BufSpec, op: Op = SUM, *, algorithm: str | None = None
    ) -> AwaitableCall[None]:
        """Combine the buffers of all ranks element by element, on every rank (section 4.9.6).

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
            await world.Allreduce(np.ones(3), total, MPI.SUM)
        """
        return AwaitableCall(buffers.allreduce.using(algorithm)(self._admitted, sendbuf, recvbuf, op))

    def Reduce_scatter(
        self,
        sendbuf: BufSpec | InPlace,
        recvbuf: BufSpec,
        recvcounts: Sequence[int] | None = None,
        op: Op = SUM,
        *,
        algorithm: str | None = None,
    ) -> AwaitableCall[None]:
        """Combine the buffers of all ranks; rank i gets segment i of the result (section 4.10).

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
            await world.Reduce_scatter(np.ones(items), part)
        """
        return AwaitableCall(buffers.reduce_scatter.using(algorithm)(self._admitted, sendbuf, recvbuf, recvcounts, op))

    def Reduce_scatter_block(
        self, sendbuf: BufSpecB | InPlace, recvbuf: BufSpecB, op: Op = SUM, *, algorithm: str | None = None
    ) -> AwaitableCall[None]:
        """Combine the buffers of all ranks; rank i gets block i of the result (MPI-2.2).

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
            await world.Reduce_scatter_block(np.ones((world.size, 4)), part)
        """
        return AwaitableCall(buffers.reduce_scatter_block.using(algorithm)(self._admitted, sendbuf, recvbuf, op))

    def Scan(
        self, sendbuf: BufSpec | InPlace, recvbuf: BufSpec, op: Op = SUM, *, algorithm: str | None = None
    ) -> AwaitableCall[None]:
        """Combine the buffers of the ranks up to and including this rank, element by element (section 4.11).

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
            await world.Scan(np.ones(1), before)  # world.rank + 1
        """
        return AwaitableCall(buffers.scan.using(algorithm)(self._admitted, sendbuf, recvbuf, op))

    def Exscan(
        self, sendbuf: BufSpec | InPlace, recvbuf: BufSpec, op: Op = SUM, *, algorithm: str | None = None
    ) -> AwaitableCall[None]:
        """Combine the buffers of the ranks below this rank, element by element (MPI-2).

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
            await world.Exscan(np.ones(1), before)  # world.rank
        """
        return AwaitableCall(buffers.exscan.using(algorithm)(self._admitted, sendbuf, recvbuf, op))
