"""Neighbourhood collectives of the blocking face; `aiompi.face.native.collective.neighborhood` describes arguments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from aiompi.coll import neighborhood, objects
from aiompi.coll.algorithms.neighborhood import Neighborhood
from aiompi.face.blocking.handle import Handle
from aiompi.face.blocking.process import process
from aiompi.face.blocking.request_kinds import Prequest
from aiompi.face.blocking.requests import Request
from aiompi.face.persistent import PersistentNeighborhoodCollectives
from aiompi.typing import BufSpec, BufSpecB, BufSpecV, BufSpecW


class NeighborhoodCollectives(Handle, PersistentNeighborhoodCollectives[Prequest[None]]):
    """The collectives of a communicator with a topology, in the order of `inedges` and `outedges`.

    Blocks for PROC_NULL, beyond the border of a grid, are not touched; objects from there are None. Along a periodic
    dimension what is sent to the next process arrives there from the one before, also where both are the same.
    """

    __slots__ = ()

    def Neighbor_allgather(self, sendbuf: BufSpec, recvbuf: BufSpecB) -> None:
        """Send the same to all neighbours; theirs become the blocks of `recvbuf` (section 7.6.1 of MPI-3.1)."""
        core = self._entered("Neighbor_allgather(sendbuf, recvbuf)")
        self._finish(neighborhood.neighbor_allgather(core, sendbuf, recvbuf))

    def Neighbor_allgatherv(self, sendbuf: BufSpec, recvbuf: BufSpecV) -> None:
        """Do what `Neighbor_allgather` does, with a length of each neighbour's own (section 7.6.1 of MPI-3.1)."""
        core = self._entered("Neighbor_allgatherv(sendbuf, recvbuf)")
        self._finish(neighborhood.neighbor_allgatherv(core, sendbuf, recvbuf))

    def Neighbor_alltoall(self, sendbuf: BufSpecB, recvbuf: BufSpecB) -> None:
        """Send each neighbour its block; theirs become the blocks of `recvbuf` (section 7.6.2 of MPI-3.1)."""
        core = self._entered("Neighbor_alltoall(sendbuf, recvbuf)")
        self._finish(neighborhood.neighbor_alltoall(core, sendbuf, recvbuf))

    def Neighbor_alltoallv(self, sendbuf: BufSpecV, recvbuf: BufSpecV) -> None:
        """Do what `Neighbor_alltoall` does, with blocks of any lengths, anywhere (section 7.6.2 of MPI-3.1)."""
        core = self._entered("Neighbor_alltoallv(sendbuf, recvbuf)")
        self._finish(neighborhood.neighbor_alltoallv(core, sendbuf, recvbuf))

    def Neighbor_alltoallw(self, sendbuf: BufSpecW, recvbuf: BufSpecW) -> None:
        """Do what `Neighbor_alltoallv` does, with a datatype for each neighbour (section 7.6.2 of MPI-3.1)."""
        core = self._entered("Neighbor_alltoallw(sendbuf, recvbuf)")
        self._finish(neighborhood.neighbor_alltoallw(core, sendbuf, recvbuf))

    def neighbor_allgather(self, sendobj: object) -> list[Any]:
        """Collect the objects of all neighbours from which edges lead here (section 7.6.1 of MPI-3.1)."""
        core = self._entered("neighbor_allgather(sendobj)")
        return self._finish(objects.neighbor_allgather(core, process.codec, sendobj))

    def neighbor_alltoall(self, sendobj: Sequence[Any] | None) -> list[Any]:
        """Send an object to each neighbour (section 7.6.2 of MPI-3.1).

        Args:
            sendobj: `outdegree` items, or None instead of as many None.
        """
        core = self._entered("neighbor_alltoall(sendobj)")
        sequence = [None] * Neighborhood.of(core, "neighbor_alltoall").outdegree if sendobj is None else sendobj
        return self._finish(objects.neighbor_alltoall(core, process.codec, sequence))

    def Ineighbor_allgather(self, sendbuf: BufSpec, recvbuf: BufSpecB) -> Request[None]:
        """Start a `Neighbor_allgather`."""
        return Request._denote(neighborhood.neighbor_allgather(self._admitted, sendbuf, recvbuf))

    def Ineighbor_allgatherv(self, sendbuf: BufSpec, recvbuf: BufSpecV) -> Request[None]:
        """Start a `Neighbor_allgatherv`."""
        return Request._denote(neighborhood.neighbor_allgatherv(self._admitted, sendbuf, recvbuf))

    def Ineighbor_alltoall(self, sendbuf: BufSpecB, recvbuf: BufSpecB) -> Request[None]:
        """Start a `Neighbor_alltoall`."""
        return Request._denote(neighborhood.neighbor_alltoall(self._admitted, sendbuf, recvbuf))

    def Ineighbor_alltoallv(self, sendbuf: BufSpecV, recvbuf: BufSpecV) -> Request[None]:
        """Start a `Neighbor_alltoallv`."""
        return Request._denote(neighborhood.neighbor_alltoallv(self._admitted, sendbuf, recvbuf))

    def Ineighbor_alltoallw(self, sendbuf: BufSpecW, recvbuf: BufSpecW) -> Request[None]:
        """Start a `Neighbor_alltoallw`."""
        return Request._denote(neighborhood.neighbor_alltoallw(self._admitted, sendbuf, recvbuf))
