"""Neighbourhood collectives of the native face (section 7.6 of MPI-3.1). IN_PLACE is not allowed in them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from aiompi.coll import neighborhood, objects
from aiompi.engine import PersistentRequest, Request
from aiompi.face.native.handle import Handle
from aiompi.face.persistent import PersistentNeighborhoodCollectives
from aiompi.objects import Codec
from aiompi.typing import BufSpec, BufSpecB, BufSpecV, BufSpecW


class NeighborhoodCollectives(Handle, PersistentNeighborhoodCollectives[PersistentRequest[None]]):
    """The collectives of a communicator with a topology, in the order of `inedges` and `outedges`.

    Blocks for PROC_NULL, beyond the border of a grid, are not touched; objects from there are None. Along a periodic
    dimension what is sent to the next process arrives there from the one before, also where both are the same.
    """

    __slots__ = ()

    _codec: Codec

    def Neighbor_allgather(self, sendbuf: BufSpec, recvbuf: BufSpecB) -> Request[None]:
        """Send the same to all neighbours; theirs become the blocks of `recvbuf` (section 7.6.1 of MPI-3.1).

        Args:
            sendbuf: (count,) items.
            recvbuf: (indegree, count) items, C order.
        """
        return neighborhood.neighbor_allgather(self._admitted, sendbuf, recvbuf)

    def Neighbor_allgatherv(self, sendbuf: BufSpec, recvbuf: BufSpecV) -> Request[None]:
        """Do what `Neighbor_allgather` does, with a length of each neighbour's own (section 7.6.1 of MPI-3.1).

        Args:
            sendbuf: (count,) items.
            recvbuf: `[buf, counts]`, `[buf, (counts, displs)]`, also with a type, for the edges that lead here.
        """
        return neighborhood.neighbor_allgatherv(self._admitted, sendbuf, recvbuf)

    def Neighbor_alltoall(self, sendbuf: BufSpecB, recvbuf: BufSpecB) -> Request[None]:
        """Send each neighbour its block; theirs become the blocks of `recvbuf` (section 7.6.2 of MPI-3.1).

        Args:
            sendbuf: (outdegree, count) items, C order.
            recvbuf: (indegree, count) items, C order.
        """
        return neighborhood.neighbor_alltoall(self._admitted, sendbuf, recvbuf)

    def Neighbor_alltoallv(self, sendbuf: BufSpecV, recvbuf: BufSpecV) -> Request[None]:
        """Do what `Neighbor_alltoall` does, with blocks of any lengths, anywhere (section 7.6.2 of MPI-3.1).

        Args:
            sendbuf: `[buf, counts]`, `[buf, (counts, displs)]`, also with a type, for the edges that lead from here;
                blocks may overlap.
            recvbuf: the same for the edges that lead here.
        """
        return neighborhood.neighbor_alltoallv(self._admitted, sendbuf, recvbuf)

    def Neighbor_alltoallw(self, sendbuf: BufSpecW, recvbuf: BufSpecW) -> Request[None]:
        """Do what `Neighbor_alltoallv` does, with a datatype for each neighbour (section 7.6.2 of MPI-3.1).

        Args:
            sendbuf: `[buf, (counts, displs), types]`, displacements in bytes, or `[buf, types]`.
            recvbuf: the same.
        """
        return neighborhood.neighbor_alltoallw(self._admitted, sendbuf, recvbuf)

    def neighbor_allgather(self, sendobj: object) -> Request[list[Any]]:
        """Collect the objects of all neighbours from which edges lead here (section 7.6.1 of MPI-3.1).

        Returns:
            A request whose result is the list of the objects, in the order of `inedges`.
        """
        return objects.neighbor_allgather(self._admitted, self._codec, sendobj)

    def neighbor_alltoall(self, sendobj: Sequence[Any]) -> Request[list[Any]]:
        """Send an object to each neighbour (section 7.6.2 of MPI-3.1).

        Args:
            sendobj: `outdegree` objects.

        Returns:
            A request whose result is the list of what the neighbours sent, in the order of `inedges`.
        """
        return objects.neighbor_alltoall(self._admitted, self._codec, sendobj)

    Ineighbor_allgather = Neighbor_allgather
    Ineighbor_allgatherv = Neighbor_allgatherv
    Ineighbor_alltoall = Neighbor_alltoall
    Ineighbor_alltoallv = Neighbor_alltoallv
    Ineighbor_alltoallw = Neighbor_alltoallw
    ineighbor_allgather = neighbor_allgather
    ineighbor_alltoall = neighbor_alltoall
