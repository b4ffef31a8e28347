"""Neighbourhood collectives of the asyncio face (section 7.6 of MPI-3.1). IN_PLACE is not allowed in them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from aiompi.coll import neighborhood, objects
from aiompi.engine import AwaitableCall
from aiompi.face.native.collective.neighborhood_forms import NeighborhoodForms
from aiompi.typing import BufSpec, BufSpecB, BufSpecV, BufSpecW


class NeighborhoodCollectives(NeighborhoodForms):
    """The collectives between neighbours in a topology.

    Received blocks and objects are in the order of `inedges`. Blocks and objects for different neighbours are sent in
    the order of `outedges`.

    Blocks for PROC_NULL, beyond the border of a grid, are not touched; objects from PROC_NULL are None. Along a
    periodic dimension, a block that is sent to the next process arrives there as the block from the previous process.
    This holds even if the next and the previous process are the same.
    """

    __slots__ = ()

    def Neighbor_allgather(self, sendbuf: BufSpec, recvbuf: BufSpecB) -> AwaitableCall[None]:
        """Send one block to all neighbours, and receive their blocks into `recvbuf` (section 7.6.1 of MPI-3.1).

        Args:
            sendbuf: (count,) items.
            recvbuf: (indegree, count) items, C order.

        Returns:
            A request; when it is complete, this rank may use its buffers again.

        Raises:
            InvalidBufferError, InvalidCountError, InvalidTypeError: a buffer specification is wrong.
            TruncationError, InvalidCountError: awaiting it: another rank sends more or less than this one receives.
            ProcessFailedError: awaiting it: a rank of the communicator has failed.

        Cancelling:
            The collective goes on when the await is cancelled, as by a time limit, because the other ranks need it. Its
            buffers stay in use until it is complete.

        Example:
            grid = await world.Create_cart([world.size], periods=True)
            sides = np.empty((2, 3))
            await grid.Neighbor_allgather(np.ones(3), sides)
        """
        return AwaitableCall(neighborhood.neighbor_allgather(self._admitted, sendbuf, recvbuf))

    def Neighbor_allgatherv(self, sendbuf: BufSpec, recvbuf: BufSpecV) -> AwaitableCall[None]:
        """Do what `Neighbor_allgather` does, with a different length for each neighbour (section 7.6.1 of MPI-3.1).

        Args:
            sendbuf: (count,) items.
            recvbuf: `[buf, counts]`, `[buf, (counts, displs)]`, also with a type, for the incoming edges.

        Returns:
            A request; when it is complete, this rank may use its buffers again.

        Raises:
            InvalidBufferError, InvalidCountError, InvalidTypeError: a buffer specification is wrong.
            TruncationError, InvalidCountError: awaiting it: another rank sends more or less than this one receives.
            ProcessFailedError: awaiting it: a rank of the communicator has failed.

        Cancelling:
            The collective goes on when the await is cancelled, as by a time limit, because the other ranks need it. Its
            buffers stay in use until it is complete.

        Example:
            grid = await world.Create_cart([world.size], periods=True)
            sides = np.empty(6)
            await grid.Neighbor_allgatherv(np.ones(3), [sides, [3, 3]])
        """
        return AwaitableCall(neighborhood.neighbor_allgatherv(self._admitted, sendbuf, recvbuf))

    def Neighbor_alltoall(self, sendbuf: BufSpecB, recvbuf: BufSpecB) -> AwaitableCall[None]:
        """Send each neighbour its block, and receive the neighbours' blocks into `recvbuf` (section 7.6.2 of MPI-3.1).

        Args:
            sendbuf: (outdegree, count) items, C order.
            recvbuf: (indegree, count) items, C order.

        Returns:
            A request; when it is complete, this rank may use its buffers again.

        Raises:
            InvalidBufferError, InvalidCountError, InvalidTypeError: a buffer specification is wrong.
            TruncationError, InvalidCountError: awaiting it: another rank sends more or less than this one receives.
            ProcessFailedError: awaiting it: a rank of the communicator has failed.

        Cancelling:
            The collective goes on when the await is cancelled, as by a time limit, because the other ranks need it. Its
            buffers stay in use until it is complete.

        Example:
            grid = await world.Create_cart([world.size], periods=True)
            sides = np.empty((2, 3))
            await grid.Neighbor_alltoall(np.ones((2, 3)), sides)
        """
        return AwaitableCall(neighborhood.neighbor_alltoall(self._admitted, sendbuf, recvbuf))

    def Neighbor_alltoallv(self, sendbuf: BufSpecV, recvbuf: BufSpecV) -> AwaitableCall[None]:
        """Do what `Neighbor_alltoall` does, with blocks of any lengths at any places (section 7.6.2 of MPI-3.1).

        Args:
            sendbuf: `[buf, counts]`, `[buf, (counts, displs)]`, also with a type, for the outgoing edges;
                blocks may overlap.
            recvbuf: a specification of the same form, for the incoming edges.

        Returns:
            A request; when it is complete, this rank may use its buffers again.

        Raises:
            InvalidBufferError, InvalidCountError, InvalidTypeError: a buffer specification is wrong.
            TruncationError, InvalidCountError: awaiting it: another rank sends more or less than this one receives.
            ProcessFailedError: awaiting it: a rank of the communicator has failed.

        Cancelling:
            The collective goes on when the await is cancelled, as by a time limit, because the other ranks need it. Its
            buffers stay in use until it is complete.

        Example:
            grid = await world.Create_cart([world.size], periods=True)
            sides = np.empty(5)
            await grid.Neighbor_alltoallv([np.ones(5), [3, 2]], [sides, [2, 3]])
        """
        return AwaitableCall(neighborhood.neighbor_alltoallv(self._admitted, sendbuf, recvbuf))

    def Neighbor_alltoallw(self, sendbuf: BufSpecW, recvbuf: BufSpecW) -> AwaitableCall[None]:
        """Do what `Neighbor_alltoallv` does, with a datatype for each neighbour (section 7.6.2 of MPI-3.1).

        Args:
            sendbuf: `[buf, (counts, displs), types]` with displacements in bytes, or `[buf, types]`.
            recvbuf: a specification of the same form.

        Returns:
            A request; when it is complete, this rank may use its buffers again.

        Raises:
            InvalidBufferError, InvalidCountError, InvalidTypeError: a buffer specification is wrong.
            TruncationError, InvalidCountError: awaiting it: another rank sends more or less than this one receives.
            ProcessFailedError: awaiting it: a rank of the communicator has failed.

        Cancelling:
            The collective goes on when the await is cancelled, as by a time limit, because the other ranks need it. Its
            buffers stay in use until it is complete.

        Example:
            grid = await world.Create_cart([world.size], periods=True)
            sides, layout = np.empty(2), [([1, 1], [0, 8]), [MPI.DOUBLE] * 2]
            await grid.Neighbor_alltoallw([np.ones(2), *layout], [sides, *layout])
        """
        return AwaitableCall(neighborhood.neighbor_alltoallw(self._admitted, sendbuf, recvbuf))

    def neighbor_allgather(self, sendobj: object) -> AwaitableCall[list[Any]]:
        """Collect the objects of all neighbours with an edge to this rank (section 7.6.1 of MPI-3.1).

        Args:
            sendobj: any object that can be pickled.

        Returns:
            A request whose result is the list of the objects, in the order of `inedges`.

        Raises:
            InvalidTypeError: an object cannot be turned into a message.
            ProcessFailedError: awaiting it: a rank of the communicator has failed.

        Cancelling:
            The collective goes on when the await is cancelled, as by a time limit, because the other ranks need it.

        Example:
            grid = await world.Create_cart([world.size], periods=True)
            left, right = await grid.neighbor_allgather(world.rank)
        """
        return AwaitableCall(objects.neighbor_allgather(self._admitted, self._codec, sendobj))

    def neighbor_alltoall(self, sendobj: Sequence[Any]) -> AwaitableCall[list[Any]]:
        """Send an object to each neighbour (section 7.6.2 of MPI-3.1).

        Args:
            sendobj: `outdegree` objects.

        Returns:
            A request whose result is the list of the objects that the neighbours sent, in the order of `inedges`.

        Raises:
            InvalidTypeError: an object cannot be turned into a message.
            ProcessFailedError: awaiting it: a rank of the communicator has failed.

        Cancelling:
            The collective goes on when the await is cancelled, as by a time limit, because the other ranks need it.

        Example:
            grid = await world.Create_cart([world.size], periods=True)
            from_left, from_right = await grid.neighbor_alltoall(["to the left", "to the right"])
        """
        return AwaitableCall(objects.neighbor_alltoall(self._admitted, self._codec, sendobj))
