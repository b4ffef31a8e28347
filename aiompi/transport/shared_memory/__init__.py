"""Shared memory, between ranks of one host: a ring for each direction between two ranks, made when they first talk.

`segment` is the memory, `ring` what is in it, `link` carries frames through it, `transport` makes links. What goes to
several ranks lies in the `pool` of its sender, memory of Alloc_mem is in its `arena`; both are an `area` that others
read. `descriptors` is how all that is handed over.
"""

from aiompi.transport.shared_memory.transport import SharedMemory

__all__ = ["SharedMemory"]
