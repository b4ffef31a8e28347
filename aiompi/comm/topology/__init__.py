"""Process topologies (chapter 6), which define the neighbours of each process.

A communicator has at most one topology: a `Cartesian`, a `Graph` or a `DistributedGraph`. Each topology returns the
neighbours of a rank in the order in which neighbourhood collectives use them.
"""

from typing import TypeAlias

from aiompi.comm.topology.cartesian import Cartesian, Compute_dims
from aiompi.comm.topology.distgraph import DistributedGraph, Edges, split_edges
from aiompi.comm.topology.graph import Graph

Topology: TypeAlias = Cartesian | Graph | DistributedGraph

__all__ = ["Cartesian", "Compute_dims", "DistributedGraph", "Edges", "Graph", "Topology", "split_edges"]
