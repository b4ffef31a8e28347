# Written by aiompi/face/generate from native/collective/neighborhood.py: edit this file.
"""Neighbourhood collectives of the blocking face (chapter 7 of MPI-3.1, MPI-4)."""

from __future__ import annotations

from typing import Any

from aiompi.coll import neighborhood, objects
from aiompi.face.blocking.handle import Handle
from aiompi.face.blocking.process import process
from aiompi.face.blocking.request_kinds import Prequest
from aiompi.face.blocking.requests import Request
from aiompi.info import INFO_NULL, Info
from aiompi.typing import BufSpec, BufSpecB, BufSpecV, BufSpecW


class NeighborhoodForms(Handle):
    """The collectives with neighbours, in the order of `inedges` and `outedges`."""

    __slots__ = ()

    def Neighbor_allgather(self, sendbuf: BufSpec, recvbuf: BufSpecB) -> None:
        """Send one block to all neighbours, and receive their blocks into `recvbuf` (section 7.6.1 of MPI-3.1).

        Args:
            sendbuf: (count,) items.
            recvbuf: (indegree, count) items, C order.

        Raises:
            InvalidBufferError, InvalidCountError, InvalidTypeError: a buffer specification is wrong.
            TruncationError, InvalidCountError: another rank sends more or less than this one receives.
            ProcessFailedError: a rank of the communicator has failed.
            BlockingCallError: an event loop is running in this thread.

        Example:
            grid = comm.Create_cart([comm.size], periods=True)
            sides = np.empty((2, 3))
            grid.Neighbor_allgather(np.ones(3), sides)
        """
        self._finish(
            neighborhood.neighbor_allgather.begin(
                self._entered("Neighbor_allgather(sendbuf, recvbuf)"), sendbuf, recvbuf
            )
        )

    def Neighbor_allgatherv(self, sendbuf: BufSpec, recvbuf: BufSpecV) -> None:
        """Do what `Neighbor_allgather` does, with a different length for each neighbour (section 7.6.1 of MPI-3.1).

        Args:
            sendbuf: (count,) items.
            recvbuf: `[buf, counts]`, `[buf, (counts, displs)]`, also with a type, for the incoming edges.

        Raises:
            InvalidBufferError, InvalidCountError, InvalidTypeError: a buffer specification is wrong.
            TruncationError, InvalidCountError: another rank sends more or less than this one receives.
            ProcessFailedError: a rank of the communicator has failed.
            BlockingCallError: an event loop is running in this thread.

        Example:
            grid = comm.Create_cart([comm.size], periods=True)
            sides = np.empty(6)
            grid.Neighbor_allgatherv(np.ones(3), [sides, [3, 3]])
        """
        self._finish(
            neighborhood.neighbor_allgatherv.begin(
                self._entered("Neighbor_allgatherv(sendbuf, recvbuf)"), sendbuf, recvbuf
            )
        )

    def Neighbor_alltoall(self, sendbuf: BufSpecB, recvbuf: BufSpecB) -> None:
        """Send each neighbour its block, and receive the neighbours' blocks into `recvbuf` (section 7.6.2 of MPI-3.1).

        Args:
            sendbuf: (outdegree, count) items, C order.
            recvbuf: (indegree, count) items, C order.

        Raises:
            InvalidBufferError, InvalidCountError, InvalidTypeError: a buffer specification is wrong.
            TruncationError, InvalidCountError: another rank sends more or less than this one receives.
            ProcessFailedError: a rank of the communicator has failed.
            BlockingCallError: an event loop is running in this thread.

        Example:
            grid = comm.Create_cart([comm.size], periods=True)
            sides = np.empty((2, 3))
            grid.Neighbor_alltoall(np.ones((2, 3)), sides)
        """
        self._finish(
            neighborhood.neighbor_alltoall.begin(self._entered("Neighbor_alltoall(sendbuf, recvbuf)"), sendbuf, recvbuf)
        )

    def Neighbor_alltoallv(self, sendbuf: BufSpecV, recvbuf: BufSpecV) -> None:
        """Do what `Neighbor_alltoall` does, with blocks of any lengths at any places (section 7.6.2 of MPI-3.1).

        Args:
            sendbuf: `[buf, counts]`, `[buf, (counts, displs)]`, also with a type, for the outgoing edges; blocks may
                overlap.
            recvbuf: a specification of the same form, for the incoming edges.

        Raises:
            InvalidBufferError, InvalidCountError, InvalidTypeError: a buffer specification is wrong.
            TruncationError, InvalidCountError: another rank sends more or less than this one receives.
            ProcessFailedError: a rank of the communicator has failed.
            BlockingCallError: an event loop is running in this thread.

        Example:
            grid = comm.Create_cart([comm.size], periods=True)
            sides = np.empty(5)
            grid.Neighbor_alltoallv([np.ones(5), [3, 2]], [sides, [2, 3]])
        """
        self._finish(
            neighborhood.neighbor_alltoallv.begin(
                self._entered("Neighbor_alltoallv(sendbuf, recvbuf)"), sendbuf, recvbuf
            )
        )

    def Neighbor_alltoallw(self, sendbuf: BufSpecW, recvbuf: BufSpecW) -> None:
        """Do what `Neighbor_alltoallv` does, with a datatype for each neighbour (section 7.6.2 of MPI-3.1).

        Args:
            sendbuf: `[buf, (counts, displs), types]` with displacements in bytes, or `[buf, types]`.
            recvbuf: a specification of the same form.

        Raises:
            InvalidBufferError, InvalidCountError, InvalidTypeError: a buffer specification is wrong.
            TruncationError, InvalidCountError: another rank sends more or less than this one receives.
            ProcessFailedError: a rank of the communicator has failed.
            BlockingCallError: an event loop is running in this thread.

        Example:
            grid = comm.Create_cart([comm.size], periods=True)
            sides, layout = np.empty(2), [([1, 1], [0, 8]), [MPI.DOUBLE] * 2]
            grid.Neighbor_alltoallw([np.ones(2), *layout], [sides, *layout])
        """
        self._finish(
            neighborhood.neighbor_alltoallw.begin(
                self._entered("Neighbor_alltoallw(sendbuf, recvbuf)"), sendbuf, recvbuf
            )
        )

    def neighbor_allgather(self, sendobj: object) -> list[Any]:
        """Collect the objects of all neighbours with an edge to this rank (section 7.6.1 of MPI-3.1).

        Args:
            sendobj: any object that can be pickled.

        Returns:
            The list of the objects, in the order of `inedges`.

        Raises:
            InvalidTypeError: an object cannot be turned into a message.
            ProcessFailedError: a rank of the communicator has failed.
            BlockingCallError: an event loop is running in this thread.

        Example:
            grid = comm.Create_cart([comm.size], periods=True)
            left, right = grid.neighbor_allgather(comm.rank)
        """
        return self._finish(
            objects.neighbor_allgather(self._entered("neighbor_allgather(sendobj)"), process.codec, sendobj)
        )

    def Ineighbor_allgather(self, sendbuf: BufSpec, recvbuf: BufSpecB) -> Request[None]:
        """Start a `Neighbor_allgather`: send one block to all neighbours, and receive their blocks into `recvbuf`
        (section 7.6.1 of MPI-3.1).

        Args:
            sendbuf: (count,) items.
            recvbuf: (indegree, count) items, C order.

        Returns:
            A request; `Wait` or `Test` completes it, and then this rank may use its buffers again.

        Raises:
            InvalidBufferError, InvalidCountError, InvalidTypeError: a buffer specification is wrong.
            TruncationError, InvalidCountError: completing it: another rank sends more or less than this one receives.
            ProcessFailedError: completing it: a rank of the communicator has failed.

        Example:
            grid = comm.Create_cart([comm.size], periods=True)
            sides = np.empty((2, 3))
            request = grid.Ineighbor_allgather(np.ones(3), sides)
            request.Wait()
        """
        return Request._denote(neighborhood.neighbor_allgather(self._admitted, sendbuf, recvbuf))

    def Ineighbor_allgatherv(self, sendbuf: BufSpec, recvbuf: BufSpecV) -> Request[None]:
        """Start a `Neighbor_allgatherv`: do what `Neighbor_allgather` does, with a different length for each neighbour
        (section 7.6.1 of MPI-3.1).

        Args:
            sendbuf: (count,) items.
            recvbuf: `[buf, counts]`, `[buf, (counts, displs)]`, also with a type, for the incoming edges.

        Returns:
            A request; `Wait` or `Test` completes it, and then this rank may use its buffers again.

        Raises:
            InvalidBufferError, InvalidCountError, InvalidTypeError: a buffer specification is wrong.
            TruncationError, InvalidCountError: completing it: another rank sends more or less than this one receives.
            ProcessFailedError: completing it: a rank of the communicator has failed.

        Example:
            grid = comm.Create_cart([comm.size], periods=True)
            sides = np.empty(6)
            request = grid.Ineighbor_allgatherv(np.ones(3), [sides, [3, 3]])
            request.Wait()
        """
        return Request._denote(neighborhood.neighbor_allgatherv(self._admitted, sendbuf, recvbuf))

    def Ineighbor_alltoall(self, sendbuf: BufSpecB, recvbuf: BufSpecB) -> Request[None]:
        """Start a `Neighbor_alltoall`: send each neighbour its block, and receive the neighbours' blocks into `recvbuf`
        (section 7.6.2 of MPI-3.1).

        Args:
            sendbuf: (outdegree, count) items, C order.
            recvbuf: (indegree, count) items, C order.

        Returns:
            A request; `Wait` or `Test` completes it, and then this rank may use its buffers again.

        Raises:
            InvalidBufferError, InvalidCountError, InvalidTypeError: a buffer specification is wrong.
            TruncationError, InvalidCountError: completing it: another rank sends more or less than this one receives.
            ProcessFailedError: completing it: a rank of the communicator has failed.

        Example:
            grid = comm.Create_cart([comm.size], periods=True)
            sides = np.empty((2, 3))
            request = grid.Ineighbor_alltoall(np.ones((2, 3)), sides)
            request.Wait()
        """
        return Request._denote(neighborhood.neighbor_alltoall(self._admitted, sendbuf, recvbuf))

    def Ineighbor_alltoallv(self, sendbuf: BufSpecV, recvbuf: BufSpecV) -> Request[None]:
        """Start a `Neighbor_alltoallv`: do what `Neighbor_alltoall` does, with blocks of any lengths at any places
        (section 7.6.2 of MPI-3.1).

        Args:
            sendbuf: `[buf, counts]`, `[buf, (counts, displs)]`, also with a type, for the outgoing edges; blocks may
                overlap.
            recvbuf: a specification of the same form, for the incoming edges.

        Returns:
            A request; `Wait` or `Test` completes it, and then this rank may use its buffers again.

        Raises:
            InvalidBufferError, InvalidCountError, InvalidTypeError: a buffer specification is wrong.
            TruncationError, InvalidCountError: completing it: another rank sends more or less than this one receives.
            ProcessFailedError: completing it: a rank of the communicator has failed.

        Example:
            grid = comm.Create_cart([comm.size], periods=True)
            sides = np.empty(5)
            request = grid.Ineighbor_alltoallv([np.ones(5), [3, 2]], [sides, [2, 3]])
            request.Wait()
        """
        return Request._denote(neighborhood.neighbor_alltoallv(self._admitted, sendbuf, recvbuf))

    def Ineighbor_alltoallw(self, sendbuf: BufSpecW, recvbuf: BufSpecW) -> Request[None]:
        """Start a `Neighbor_alltoallw`: do what `Neighbor_alltoallv` does, with a datatype for each neighbour (section
        7.6.2 of MPI-3.1).

        Args:
            sendbuf: `[buf, (counts, displs), types]` with displacements in bytes, or `[buf, types]`.
            recvbuf: a specification of the same form.

        Returns:
            A request; `Wait` or `Test` completes it, and then this rank may use its buffers again.

        Raises:
            InvalidBufferError, InvalidCountError, InvalidTypeError: a buffer specification is wrong.
            TruncationError, InvalidCountError: completing it: another rank sends more or less than this one receives.
            ProcessFailedError: completing it: a rank of the communicator has failed.

        Example:
            grid = comm.Create_cart([comm.size], periods=True)
            sides, layout = np.empty(2), [([1, 1], [0, 8]), [MPI.DOUBLE] * 2]
            request = grid.Ineighbor_alltoallw([np.ones(2), *layout], [sides, *layout])
            request.Wait()
        """
        return Request._denote(neighborhood.neighbor_alltoallw(self._admitted, sendbuf, recvbuf))

    def Neighbor_allgather_init(self, sendbuf: BufSpec, recvbuf: BufSpecB, info: Info = INFO_NULL) -> Prequest[None]:
        """Bind the arguments of `Neighbor_allgather`; all ranks bind in the same order (MPI-4; section 7.6.1 of
        MPI-3.1).

        Args:
            sendbuf: (count,) items.
            recvbuf: (indegree, count) items, C order.
            info: hints, of which none is known.

        Returns:
            An inactive persistent request; `Start` starts the operation.

        Raises:
            InvalidBufferError, InvalidCountError, InvalidTypeError: a buffer specification is wrong.
            TruncationError, InvalidCountError: completing it: another rank sends more or less than this one receives.
            ProcessFailedError: completing it: a rank of the communicator has failed.

        Example:
            grid = comm.Create_cart([comm.size], periods=True)
            sides = np.empty((2, 3))
            request = grid.Neighbor_allgather_init(np.ones(3), sides)
            request.Start()
            request.Wait()
        """
        return Prequest._denote(neighborhood.neighbor_allgather.init(self._admitted, sendbuf, recvbuf))

    def Neighbor_allgatherv_init(self, sendbuf: BufSpec, recvbuf: BufSpecV, info: Info = INFO_NULL) -> Prequest[None]:
        """Bind the arguments of `Neighbor_allgatherv`; all ranks bind in the same order (MPI-4; section 7.6.1 of
        MPI-3.1).

        Args:
            sendbuf: (count,) items.
            recvbuf: `[buf, counts]`, `[buf, (counts, displs)]`, also with a type, for the incoming edges.
            info: hints, of which none is known.

        Returns:
            An inactive persistent request; `Start` starts the operation.

        Raises:
            InvalidBufferError, InvalidCountError, InvalidTypeError: a buffer specification is wrong.
            TruncationError, InvalidCountError: completing it: another rank sends more or less than this one receives.
            ProcessFailedError: completing it: a rank of the communicator has failed.

        Example:
            grid = comm.Create_cart([comm.size], periods=True)
            sides = np.empty(6)
            request = grid.Neighbor_allgatherv_init(np.ones(3), [sides, [3, 3]])
            request.Start()
            request.Wait()
        """
        return Prequest._denote(neighborhood.neighbor_allgatherv.init(self._admitted, sendbuf, recvbuf))

    def Neighbor_alltoall_init(self, sendbuf: BufSpecB, recvbuf: BufSpecB, info: Info = INFO_NULL) -> Prequest[None]:
        """Bind the arguments of `Neighbor_alltoall`; all ranks bind in the same order (MPI-4; section 7.6.2 of
        MPI-3.1).

        Args:
            sendbuf: (outdegree, count) items, C order.
            recvbuf: (indegree, count) items, C order.
            info: hints, of which none is known.

        Returns:
            An inactive persistent request; `Start` starts the operation.

        Raises:
            InvalidBufferError, InvalidCountError, InvalidTypeError: a buffer specification is wrong.
            TruncationError, InvalidCountError: completing it: another rank sends more or less than this one receives.
            ProcessFailedError: completing it: a rank of the communicator has failed.

        Example:
            grid = comm.Create_cart([comm.size], periods=True)
            sides = np.empty((2, 3))
            request = grid.Neighbor_alltoall_init(np.ones((2, 3)), sides)
            request.Start()
            request.Wait()
        """
        return Prequest._denote(neighborhood.neighbor_alltoall.init(self._admitted, sendbuf, recvbuf))

    def Neighbor_alltoallv_init(self, sendbuf: BufSpecV, recvbuf: BufSpecV, info: Info = INFO_NULL) -> Prequest[None]:
        """Bind the arguments of `Neighbor_alltoallv`; all ranks bind in the same order (MPI-4; section 7.6.2 of
        MPI-3.1).

        Args:
            sendbuf: `[buf, counts]`, `[buf, (counts, displs)]`, also with a type, for the outgoing edges; blocks may
                overlap.
            recvbuf: a specification of the same form, for the incoming edges.
            info: hints, of which none is known.

        Returns:
            An inactive persistent request; `Start` starts the operation.

        Raises:
            InvalidBufferError, InvalidCountError, InvalidTypeError: a buffer specification is wrong.
            TruncationError, InvalidCountError: completing it: another rank sends more or less than this one receives.
            ProcessFailedError: completing it: a rank of the communicator has failed.

        Example:
            grid = comm.Create_cart([comm.size], periods=True)
            sides = np.empty(5)
            request = grid.Neighbor_alltoallv_init([np.ones(5), [3, 2]], [sides, [2, 3]])
            request.Start()
            request.Wait()
        """
        return Prequest._denote(neighborhood.neighbor_alltoallv.init(self._admitted, sendbuf, recvbuf))

    def Neighbor_alltoallw_init(self, sendbuf: BufSpecW, recvbuf: BufSpecW, info: Info = INFO_NULL) -> Prequest[None]:
        """Bind the arguments of `Neighbor_alltoallw`; all ranks bind in the same order (MPI-4; section 7.6.2 of
        MPI-3.1).

        Args:
            sendbuf: `[buf, (counts, displs), types]` with displacements in bytes, or `[buf, types]`.
            recvbuf: a specification of the same form.
            info: hints, of which none is known.

        Returns:
            An inactive persistent request; `Start` starts the operation.

        Raises:
            InvalidBufferError, InvalidCountError, InvalidTypeError: a buffer specification is wrong.
            TruncationError, InvalidCountError: completing it: another rank sends more or less than this one receives.
            ProcessFailedError: completing it: a rank of the communicator has failed.

        Example:
            grid = comm.Create_cart([comm.size], periods=True)
            sides, layout = np.empty(2), [([1, 1], [0, 8]), [MPI.DOUBLE] * 2]
            request = grid.Neighbor_alltoallw_init([np.ones(2), *layout], [sides, *layout])
            request.Start()
            request.Wait()
        """
        return Prequest._denote(neighborhood.neighbor_alltoallw.init(self._admitted, sendbuf, recvbuf))
