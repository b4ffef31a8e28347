"""Shared memory, between ranks of one host: a ring for each direction between two ranks, made when they first talk.

`segment` is the memory, `ring` what is in it, `inbound` and `outbound` are its ends, `link` carries frames through it,
`outgoing` ones wait for room, `habit` says when to ring, `transport` makes links. What goes to several ranks, and what
is long, lies in the `pool` of its sender, where objects `stay`; memory of Alloc_mem is in its `arena`; what collectives
post is on its `board`. Each of these is an `area` that others read: `sharing` is what two ranks have of each other so,
and `descriptors` how it is handed over. From and to the process of a `neighbour` the kernel copies what is long: into a
receive that is `posted` already, by both `halves` if it is very long, and otherwise, by `cma`, once it is matched.
"""

from aiompi.transport.shared_memory.transport import SharedMemory

__all__ = ["SharedMemory"]
