"""Collectives of the asyncio face that move the contents of buffers (chapter 4)."""

from __future__ import annotations

from aiompi.coll import buffers
from aiompi.engine import AwaitableCall
from aiompi.face.native.handle import Handle
from aiompi.typing import BufSpec, BufSpecB, BufSpecV, BufSpecW, InPlace


class MovingCollectives(Handle):
    """The collectives that move the contents of buffers; each starts at once and returns its request."""

    __slots__ = ()

    def Barrier(self, *, algorithm: str | None = None) -> AwaitableCall[None]:
        """Wait until every rank has called it (section 4.3).

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
            async with asyncio.timeout(10):
                await world.Barrier()
        """
        return AwaitableCall(buffers.barrier.using(algorithm)(self._admitted))

    def Bcast(self, buf: BufSpec, root: int = 0, *, algorithm: str | None = None) -> AwaitableCall[None]:
        """Fill the buffer of every rank with the content of the root's buffer (section 4.4).

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
            await world.Bcast(model, root=0)
        """
        return AwaitableCall(buffers.bcast.using(algorithm)(self._admitted, buf, root))

    def Scatter(
        self, sendbuf: BufSpecB | None, recvbuf: BufSpec | InPlace, root: int = 0, *, algorithm: str | None = None
    ) -> AwaitableCall[None]:
        """Send block i of the root's buffer to rank i (section 4.6).

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
            await world.Scatter(rows, row, root=0)
        """
        return AwaitableCall(buffers.scatter.using(algorithm)(self._admitted, sendbuf, recvbuf, root))

    def Scatterv(
        self, sendbuf: BufSpecV | None, recvbuf: BufSpec | InPlace, root: int = 0, *, algorithm: str | None = None
    ) -> AwaitableCall[None]:
        """Send each rank a block of any length and place in the root's buffer (section 4.6).

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
            await world.Scatterv(table, part, root=0)
        """
        return AwaitableCall(buffers.scatterv.using(algorithm)(self._admitted, sendbuf, recvbuf, root))

    def Gather(
        self, sendbuf: BufSpec | InPlace, recvbuf: BufSpecB | None, root: int = 0, *, algorithm: str | None = None
    ) -> AwaitableCall[None]:
        """Collect the buffers of all ranks as the blocks of the root's buffer (section 4.5).

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
            await world.Gather(np.full(4, world.rank, "d"), rows, root=0)
        """
        return AwaitableCall(buffers.gather.using(algorithm)(self._admitted, sendbuf, recvbuf, root))

    def Gatherv(
        self, sendbuf: BufSpec | InPlace, recvbuf: BufSpecV | None, root: int = 0, *, algorithm: str | None = None
    ) -> AwaitableCall[None]:
        """The buffers of all ranks, of any lengths, come to given places in the buffer of the root (section 4.5).

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
            await world.Gatherv(np.ones((2, 3)[world.rank]), table, root=0)
        """
        return AwaitableCall(buffers.gatherv.using(algorithm)(self._admitted, sendbuf, recvbuf, root))

    def Allgather(
        self, sendbuf: BufSpec | InPlace, recvbuf: BufSpecB, *, algorithm: str | None = None
    ) -> AwaitableCall[None]:
        """Every rank gets the buffers of all ranks, as blocks (section 4.7).

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
            await world.Allgather(np.full(4, world.rank, "d"), rows)
        """
        return AwaitableCall(buffers.allgather.using(algorithm)(self._admitted, sendbuf, recvbuf))

    def Allgatherv(
        self, sendbuf: BufSpec | InPlace, recvbuf: BufSpecV, *, algorithm: str | None = None
    ) -> AwaitableCall[None]:
        """Every rank gets the buffers of all ranks, of any lengths, at given places (section 4.7).

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
            await world.Allgatherv(np.ones((2, 3)[world.rank]), [table, [2, 3]])
        """
        return AwaitableCall(buffers.allgatherv.using(algorithm)(self._admitted, sendbuf, recvbuf))

    def Alltoall(
        self, sendbuf: BufSpecB | InPlace, recvbuf: BufSpecB, *, algorithm: str | None = None
    ) -> AwaitableCall[None]:
        """Send block r of every rank to rank r (section 4.8).

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
            await world.Alltoall(rows, columns)
        """
        return AwaitableCall(buffers.alltoall.using(algorithm)(self._admitted, sendbuf, recvbuf))

    def Alltoallv(
        self, sendbuf: BufSpecV | InPlace, recvbuf: BufSpecV, *, algorithm: str | None = None
    ) -> AwaitableCall[None]:
        """Send block r, of any length, of every rank to a place at rank r (section 4.8).

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
            await world.Alltoallv([np.ones(2 * world.size), counts], [table, counts])
        """
        return AwaitableCall(buffers.alltoallv.using(algorithm)(self._admitted, sendbuf, recvbuf))

    def Alltoallw(
        self, sendbuf: BufSpecW | InPlace, recvbuf: BufSpecW, *, algorithm: str | None = None
    ) -> AwaitableCall[None]:
        """Do what `Alltoallv` does, with a datatype for each rank (MPI-2).

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
            await world.Alltoallw([np.ones(world.size), *layout], [table, *layout])
        """
        return AwaitableCall(buffers.alltoallw.using(algorithm)(self._admitted, sendbuf, recvbuf))
