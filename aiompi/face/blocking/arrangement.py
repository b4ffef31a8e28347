# Written by aiompi/face/generate from native/arrangement.py: edit this file.
"""Constructors of the blocking face that an intracommunicator alone has (chapters 5 and 6)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from aiompi import create
from aiompi.comm import Group
from aiompi.face.blocking.handle import Handle
from aiompi.face.common import peer_of
from aiompi.info import INFO_NULL, Info

if TYPE_CHECKING:
    from aiompi.face.blocking.communicator import Cartcomm, Comm, Distgraphcomm, Graphcomm, Intercomm, Intracomm


class Arrangement(Handle):
    """The constructors that are collective over one group."""

    __slots__ = ()

    def Create_group(self, group: Group, tag: int = 0) -> Intracomm:
        """Make a communicator of some members of this one; only these members call it (MPI_Comm_create_group, MPI-3).

        Args:
            group: the members of the new communicator; the same in all of them.
            tag: distinguishes calls that are in progress at the same time.

        Returns:
            The new communicator.

        Raises:
            InvalidGroupError: this process is not in the group, or another process of the group is not in this
                communicator.
            BlockingCallError: an event loop is running in this thread.
        """
        made: Intracomm = self._finish(
            self._made(create.create_group(self._entered("Create_group(group, tag)"), group, tag), "Create_group")
        )
        return made

    def Create_intercomm(self, local_leader: int, peer_comm: Comm, remote_leader: int, tag: int = 0) -> Intercomm:
        """Connect this group with another group; both make this call (MPI_Intercomm_create, section 5.6.2).

        Args:
            local_leader: rank in this communicator of the process that communicates with the other leader.
            peer_comm: a communicator that has both leaders; counts only at the leader.
            remote_leader: rank in `peer_comm` of the other leader; counts only at the leader.
            tag: distinguishes calls between the same leaders that are in progress at the same time.

        Returns:
            The intercommunicator.

        Raises:
            InvalidRankError, InvalidTagError: an argument is out of range.
            InvalidCommError: the groups have processes in common.
            BlockingCallError: an event loop is running in this thread.
        """
        made: Intercomm = self._finish(
            self._made(
                create.create_intercomm(
                    self._entered("Create_intercomm(local_leader, peer_comm, remote_leader, tag)"),
                    local_leader,
                    peer_of(peer_comm),
                    remote_leader,
                    tag,
                ),
                "Create_intercomm",
            )
        )
        return made

    def Create_cart(
        self, dims: Sequence[int], periods: Sequence[bool] | bool | None = None, reorder: bool = False
    ) -> Cartcomm:
        """Arrange the processes in a grid (MPI_Cart_create, section 6.5.1); null for processes outside the grid.

        Args:
            dims: number of processes along each dimension.
            periods: for each dimension, or for all, whether the last process is a neighbour of the first.
            reorder: ignored: ranks stay as they are.

        Returns:
            The new communicator, or a null one in a process outside the grid.

        Raises:
            InvalidDimsError: the grid has more places than there are processes, or a dimension is wrong.
            BlockingCallError: an event loop is running in this thread.

        Example:
            grid = comm.Create_cart([comm.size], periods=True)
        """
        made: Cartcomm = self._finish(
            self._made(create.cart(self._entered("Create_cart(dims, periods, reorder)"), dims, periods), "Create_cart")
        )
        return made

    def Create_graph(self, index: Sequence[int], edges: Sequence[int], reorder: bool = False) -> Graphcomm:
        """Arrange the processes as the nodes of a graph (MPI_Graph_create, section 6.5.3).

        Args:
            index: index[i] is the number of neighbours of the nodes 0..i together.
            edges: the neighbours of node 0, of node 1, ...
            reorder: ignored: ranks stay as they are.

        Returns:
            The new communicator, or a null one in a process outside the graph.

        Raises:
            InvalidArgumentError: `index` and `edges` describe no graph of processes of this communicator.
            BlockingCallError: an event loop is running in this thread.
        """
        made: Graphcomm = self._finish(
            self._made(create.graph(self._entered("Create_graph(index, edges, reorder)"), index, edges), "Create_graph")
        )
        return made

    def Create_dist_graph_adjacent(
        self,
        sources: Sequence[int] | None,
        destinations: Sequence[int] | None,
        sourceweights: Sequence[int] | int | None = None,
        destweights: Sequence[int] | int | None = None,
        info: Info = INFO_NULL,
        reorder: bool = False,
    ) -> Distgraphcomm:
        """Give each process its neighbours (MPI_Dist_graph_create_adjacent, MPI-2.2).

        Args:
            sources, destinations: ranks from which and to which edges lead.
            sourceweights, destweights: one weight for each of these ranks; None or UNWEIGHTED for no weights.
            info, reorder: ignored.

        Returns:
            The new communicator.

        Raises:
            BlockingCallError: an event loop is running in this thread.
        """
        made: Distgraphcomm = self._finish(
            self._made(
                create.dist_graph_adjacent(
                    self._entered(
                        "Create_dist_graph_adjacent(sources, destinations, sourceweights, destweights, info, reorder)"
                    ),
                    sources,
                    destinations,
                    sourceweights,
                    destweights,
                ),
                "Create_dist_graph_adjacent",
            )
        )
        return made

    def Create_dist_graph(
        self,
        sources: Sequence[int],
        degrees: Sequence[int],
        destinations: Sequence[int],
        weights: Sequence[int] | int | None = None,
        info: Info = INFO_NULL,
        reorder: bool = False,
    ) -> Distgraphcomm:
        """Arrange the processes as a graph; each process may name any of its edges (MPI_Dist_graph_create, MPI-2.2).

        Args:
            sources: ranks from which edges lead.
            degrees: number of edges from each source.
            destinations: ranks to which these edges lead; first the edges of the first source.
            weights: one weight for each edge; None or UNWEIGHTED for no weights.
            info, reorder: ignored.

        Returns:
            The new communicator.

        Raises:
            BlockingCallError: an event loop is running in this thread.
        """
        made: Distgraphcomm = self._finish(
            self._made(
                create.dist_graph(
                    self._entered("Create_dist_graph(sources, degrees, destinations, weights, info, reorder)"),
                    sources,
                    degrees,
                    destinations,
                    weights,
                ),
                "Create_dist_graph",
            )
        )
        return made
