# Written by aiompi/face/generate from native/collective/neighborhood.py: edit this file.
"""Nonblocking and persistent neighbourhood collectives of the asyncio face (chapter 7 of MPI-3.1, MPI-4)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from aiompi.coll import neighborhood, objects
from aiompi.engine import PersistentRequest, Request
from aiompi.face.native.handle import Handle
from aiompi.info import INFO_NULL, Info
from aiompi.objects import Codec
from aiompi.typing import BufSpec, BufSpecB, BufSpecV, BufSpecW


class NeighborhoodForms(Handle):
    """The nonblocking and persistent collectives with neighbours, in the order of `inedges` and `outedges`."""

    __slots__ = ()

    _codec: Codec

    def Ineighbor_allgather(self, sendbuf: BufSpec, recvbuf: BufSpecB) -> Request[None]:
        """Start a `Neighbor_allgather`: send one block to all neighbours, and receive their blocks into `recvbuf`
        (section 7.6.1 of MPI-3.1).

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
            request = grid.Ineighbor_allgather(np.ones(3), sides)
            await request
        """
        return neighborhood.neighbor_allgather(self._admitted, sendbuf, recvbuf)

    def Ineighbor_allgatherv(self, sendbuf: BufSpec, recvbuf: BufSpecV) -> Request[None]:
        """Start a `Neighbor_allgatherv`: do what `Neighbor_allgather` does, with a different length for each neighbour
        (section 7.6.1 of MPI-3.1).

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
            request = grid.Ineighbor_allgatherv(np.ones(3), [sides, [3, 3]])
            await request
        """
        return neighborhood.neighbor_allgatherv(self._admitted, sendbuf, recvbuf)

    def Ineighbor_alltoall(self, sendbuf: BufSpecB, recvbuf: BufSpecB) -> Request[None]:
        """Start a `Neighbor_alltoall`: send each neighbour its block, and receive the neighbours' blocks into `recvbuf`
        (section 7.6.2 of MPI-3.1).

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
            request = grid.Ineighbor_alltoall(np.ones((2, 3)), sides)
            await request
        """
        return neighborhood.neighbor_alltoall(self._admitted, sendbuf, recvbuf)

    def Ineighbor_alltoallv(self, sendbuf: BufSpecV, recvbuf: BufSpecV) -> Request[None]:
        """Start a `Neighbor_alltoallv`: do what `Neighbor_alltoall` does, with blocks of any lengths at any places
        (section 7.6.2 of MPI-3.1).

        Args:
            sendbuf: `[buf, counts]`, `[buf, (counts, displs)]`, also with a type, for the outgoing edges; blocks may
                overlap.
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
            request = grid.Ineighbor_alltoallv([np.ones(5), [3, 2]], [sides, [2, 3]])
            await request
        """
        return neighborhood.neighbor_alltoallv(self._admitted, sendbuf, recvbuf)

    def Ineighbor_alltoallw(self, sendbuf: BufSpecW, recvbuf: BufSpecW) -> Request[None]:
        """Start a `Neighbor_alltoallw`: do what `Neighbor_alltoallv` does, with a datatype for each neighbour (section
        7.6.2 of MPI-3.1).

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
            request = grid.Ineighbor_alltoallw([np.ones(2), *layout], [sides, *layout])
            await request
        """
        return neighborhood.neighbor_alltoallw(self._admitted, sendbuf, recvbuf)

    def ineighbor_allgather(self, sendobj: object) -> Request[list[Any]]:
        """Start a `neighbor_allgather`: collect the objects of all neighbours with an edge to this rank (section 7.6.1
        of MPI-3.1).

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
            request = grid.ineighbor_allgather(world.rank)
            left, right = await request
        """
        return objects.neighbor_allgather(self._admitted, self._codec, sendobj)

    def ineighbor_alltoall(self, sendobj: Sequence[Any]) -> Request[list[Any]]:
        """Start a `neighbor_alltoall`: send an object to each neighbour (section 7.6.2 of MPI-3.1).

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
            request = grid.ineighbor_alltoall(["to the left", "to the right"])
            from_left, from_right = await request
        """
        return objects.neighbor_alltoall(self._admitted, self._codec, sendobj)

    def Neighbor_allgather_init(
        self, sendbuf: BufSpec, recvbuf: BufSpecB, info: Info = INFO_NULL
    ) -> PersistentRequest[None]:
        """Bind the arguments of `Neighbor_allgather`; all ranks bind in the same order (MPI-4; section 7.6.1 of
        MPI-3.1).

        Args:
            sendbuf: (count,) items.
            recvbuf: (indegree, count) items, C order.
            info: hints, of which none is known.

        Returns:
            An inactive persistent request; `start` starts the operation, and `await` waits for it.

        Raises:
            InvalidBufferError, InvalidCountError, InvalidTypeError: a buffer specification is wrong.
            TruncationError, InvalidCountError: awaiting it: another rank sends more or less than this one receives.
            ProcessFailedError: awaiting it: a rank of the communicator has failed.

        Example:
            grid = await world.Create_cart([world.size], periods=True)
            sides = np.empty((2, 3))
            request = grid.Neighbor_allgather_init(np.ones(3), sides)
            request.start()
            await request
        """
        return neighborhood.neighbor_allgather.init(self._admitted, sendbuf, recvbuf)

    def Neighbor_allgatherv_init(
        self, sendbuf: BufSpec, recvbuf: BufSpecV, info: Info = INFO_NULL
    ) -> PersistentRequest[None]:
        """Bind the arguments of `Neighbor_allgatherv`; all ranks bind in the same order (MPI-4; section 7.6.1 of
        MPI-3.1).

        Args:
            sendbuf: (count,) items.
            recvbuf: `[buf, counts]`, `[buf, (counts, displs)]`, also with a type, for the incoming edges.
            info: hints, of which none is known.

        Returns:
            An inactive persistent request; `start` starts the operation, and `await` waits for it.

        Raises:
            InvalidBufferError, InvalidCountError, InvalidTypeError: a buffer specification is wrong.
            TruncationError, InvalidCountError: awaiting it: another rank sends more or less than this one receives.
            ProcessFailedError: awaiting it: a rank of the communicator has failed.

        Example:
            grid = await world.Create_cart([world.size], periods=True)
            sides = np.empty(6)
            request = grid.Neighbor_allgatherv_init(np.ones(3), [sides, [3, 3]])
            request.start()
            await request
        """
        return neighborhood.neighbor_allgatherv.init(self._admitted, sendbuf, recvbuf)

    def Neighbor_alltoall_init(
        self, sendbuf: BufSpecB, recvbuf: BufSpecB, info: Info = INFO_NULL
    ) -> PersistentRequest[None]:
        """Bind the arguments of `Neighbor_alltoall`; all ranks bind in the same order (MPI-4; section 7.6.2 of
        MPI-3.1).

        Args:
            sendbuf: (outdegree, count) items, C order.
            recvbuf: (indegree, count) items, C order.
            info: hints, of which none is known.

        Returns:
            An inactive persistent request; `start` starts the operation, and `await` waits for it.

        Raises:
            InvalidBufferError, InvalidCountError, InvalidTypeError: a buffer specification is wrong.
            TruncationError, InvalidCountError: awaiting it: another rank sends more or less than this one receives.
            ProcessFailedError: awaiting it: a rank of the communicator has failed.

        Example:
            grid = await world.Create_cart([world.size], periods=True)
            sides = np.empty((2, 3))
            request = grid.Neighbor_alltoall_init(np.ones((2, 3)), sides)
            request.start()
            await request
        """
        return neighborhood.neighbor_alltoall.init(self._admitted, sendbuf, recvbuf)

    def Neighbor_alltoallv_init(
        self, sendbuf: BufSpecV, recvbuf: BufSpecV, info: Info = INFO_NULL
    ) -> PersistentRequest[None]:
        """Bind the arguments of `Neighbor_alltoallv`; all ranks bind in the same order (MPI-4; section 7.6.2 of
        MPI-3.1).

        Args:
            sendbuf: `[buf, counts]`, `[buf, (counts, displs)]`, also with a type, for the outgoing edges; blocks may
                overlap.
            recvbuf: a specification of the same form, for the incoming edges.
            info: hints, of which none is known.

        Returns:
            An inactive persistent request; `start` starts the operation, and `await` waits for it.

        Raises:
            InvalidBufferError, InvalidCountError, InvalidTypeError: a buffer specification is wrong.
            TruncationError, InvalidCountError: awaiting it: another rank sends more or less than this one receives.
            ProcessFailedError: awaiting it: a rank of the communicator has failed.

        Example:
            grid = await world.Create_cart([world.size], periods=True)
            sides = np.empty(5)
            request = grid.Neighbor_alltoallv_init([np.ones(5), [3, 2]], [sides, [2, 3]])
            request.start()
            await request
        """
        return neighborhood.neighbor_alltoallv.init(self._admitted, sendbuf, recvbuf)

    def Neighbor_alltoallw_init(
        self, sendbuf: BufSpecW, recvbuf: BufSpecW, info: Info = INFO_NULL
    ) -> PersistentRequest[None]:
        """Bind the arguments of `Neighbor_alltoallw`; all ranks bind in the same order (MPI-4; section 7.6.2 of
        MPI-3.1).

        Args:
            sendbuf: `[buf, (counts, displs), types]` with displacements in bytes, or `[buf, types]`.
            recvbuf: a specification of the same form.
            info: hints, of which none is known.

        Returns:
            An inactive persistent request; `start` starts the operation, and `await` waits for it.

        Raises:
            InvalidBufferError, InvalidCountError, InvalidTypeError: a buffer specification is wrong.
            TruncationError, InvalidCountError: awaiting it: another rank sends more or less than this one receives.
            ProcessFailedError: awaiting it: a rank of the communicator has failed.

        Example:
            grid = await world.Create_cart([world.size], periods=True)
            sides, layout = np.empty(2), [([1, 1], [0, 8]), [MPI.DOUBLE] * 2]
            request = grid.Neighbor_alltoallw_init([np.ones(2), *layout], [sides, *layout])
            request.start()
            await request
        """
        return neighborhood.neighbor_alltoallw.init(self._admitted, sendbuf, recvbuf)
