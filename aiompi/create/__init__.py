"""Constructors of communicators (sections 5.4.2, 5.6.2 and 6.5): coroutines on channels.

Each function checks its arguments, starts the collective construction, and returns a request. The result of the
request is the new communicator, or None in a process that is not a member of it.
"""

from aiompi.create.create import create, create_group, dup
from aiompi.create.free import disconnect, free
from aiompi.create.from_group import create_from_group, create_from_groups
from aiompi.create.intercomm import create_intercomm, merge
from aiompi.create.ports import accept, close_port, connect, join, open_port, spawn
from aiompi.create.shrink import shrink
from aiompi.create.split import split, split_type
from aiompi.create.topology import cart, cart_sub, dist_graph, dist_graph_adjacent, graph

__all__ = [
    "accept", "cart", "cart_sub", "close_port", "connect", "create", "create_from_group", "create_from_groups",
    "create_group", "create_intercomm", "disconnect", "dist_graph", "dist_graph_adjacent", "dup", "free", "graph",
    "join", "merge", "open_port", "shrink", "spawn", "split", "split_type",
]  # fmt: skip
