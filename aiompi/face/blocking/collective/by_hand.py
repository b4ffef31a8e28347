"""Blocking collectives that accept None instead of a list, as in mpi4py; the class of all blocking collectives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar, overload

from aiompi.coll import objects
from aiompi.coll.algorithms.neighborhood import Edges
from aiompi.face.blocking.collective.buffers import BufferCollectives
from aiompi.face.blocking.collective.neighborhood import NeighborhoodForms
from aiompi.face.blocking.collective.nonblocking import NonblockingCollectives
from aiompi.face.blocking.collective.objects import ObjectCollectives
from aiompi.face.blocking.collective.persistent import PersistentCollectives
from aiompi.face.blocking.process import process

T = TypeVar("T")


class Collectives(BufferCollectives, NonblockingCollectives, ObjectCollectives, PersistentCollectives):
    """The collective operations of a communicator."""

    __slots__ = ()

    @overload
    def scatter(self, sendobj: None, root: int = 0) -> Any: ...
    @overload
    def scatter(self, sendobj: Sequence[T] | None, root: int = 0) -> T: ...
    def scatter(self, sendobj: Sequence[Any] | None, root: int = 0) -> Any:
        """Send item i of the root's sequence to rank i (section 4.6).

        Args:
            sendobj: `size` objects at the root, or None for `size` times None; ignored elsewhere.
            root: rank of the root; on an intercommunicator ROOT, PROC_NULL, or the root's rank in the remote group.

        Returns:
            The item for this rank.

        Raises:
            InvalidRootError: there is no such rank.
            InvalidTypeError: an object cannot be turned into a message.
            ProcessFailedError: a rank of the communicator has failed.
            BlockingCallError: an event loop is running in this thread.

        Example:
            tasks = [f"task {rank}" for rank in range(comm.size)] if comm.rank == 0 else None
            task = comm.scatter(tasks, root=0)
        """
        core = self._entered("scatter(sendobj, root)")
        sequence = [None] * len(core.targets) if sendobj is None else sendobj
        return self._finish(objects.scatter(core, process.codec, sequence, root))

    @overload
    def alltoall(self, sendobj: None) -> list[Any]: ...
    @overload
    def alltoall(self, sendobj: Sequence[T]) -> list[T]: ...
    def alltoall(self, sendobj: Sequence[Any] | None) -> list[Any]:
        """Send item r of every rank's sequence to rank r (section 4.8).

        Args:
            sendobj: `size` objects, one for each rank, or None for `size` times None.

        Returns:
            The list of the objects that the ranks sent here, in rank order.

        Raises:
            InvalidTypeError: an object cannot be turned into a message.
            ProcessFailedError: a rank of the communicator has failed.
            BlockingCallError: an event loop is running in this thread.

        Example:
            letters = comm.alltoall([(comm.rank, rank) for rank in range(comm.size)])
        """
        core = self._entered("alltoall(sendobj)")
        sequence = [None] * len(core.targets) if sendobj is None else sendobj
        return self._finish(objects.alltoall(core, process.codec, sequence))


class NeighborhoodCollectives(NeighborhoodForms):
    """The neighborhood collectives of a communicator with a topology.

    Received blocks are in the order of `inedges`. Blocks to send are in the order of `outedges`. Blocks for PROC_NULL,
    beyond the border of a grid, are not touched; objects from PROC_NULL are None. Along a periodic dimension, an object
    for the next process arrives there as the object from the previous process, even if both are the same process.
    """

    __slots__ = ()

    def neighbor_alltoall(self, sendobj: Sequence[Any] | None) -> list[Any]:
        """Send an object to each neighbour (section 7.6.2 of MPI-3.1).

        Args:
            sendobj: `outdegree` objects, or None for `outdegree` times None.

        Returns:
            The list of the objects that the neighbours sent, in the order of `inedges`.

        Raises:
            InvalidTypeError: an object cannot be turned into a message.
            ProcessFailedError: a rank of the communicator has failed.
            BlockingCallError: an event loop is running in this thread.

        Example:
            grid = comm.Create_cart([comm.size], periods=True)
            from_left, from_right = grid.neighbor_alltoall(["to the left", "to the right"])
        """
        core = self._entered("neighbor_alltoall(sendobj)")
        sequence = [None] * Edges.of(core, "neighbor_alltoall").outdegree if sendobj is None else sendobj
        return self._finish(objects.neighbor_alltoall(core, process.codec, sequence))
