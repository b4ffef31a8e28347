"""Datatypes, and buffers of their items (sections 3.2.2, 3.12, 3.13 and 4.9.3; chapter 4 of MPI-3.1)."""

from aiompi.core.allocation import allocate
from aiompi.datatype import deprecated, predefined
from aiompi.datatype.buffer.address import BOTTOM, BUFFER_AUTOMATIC, Aint_add, Aint_diff, Free_address, Get_address
from aiompi.datatype.buffer.arrays import bytes_of
from aiompi.datatype.buffer.buffer import Buffer, blocks
from aiompi.datatype.buffer.bufspec import (
    IN_PLACE,
    InPlace,
    check_disjoint,
    memory_to_exchange,
    memory_to_receive,
    memory_to_replace,
    memory_to_send,
    resolve_recv,
    resolve_send,
)
from aiompi.datatype.buffer.disjoint import shares_memory
from aiompi.datatype.buffer.vector import resolve_vector_recv, resolve_vector_send
from aiompi.datatype.codes import from_dtype
from aiompi.datatype.deprecated import *  # noqa: F403
from aiompi.datatype.predefined import *  # noqa: F403

__all__ = [
    "BOTTOM", "BUFFER_AUTOMATIC", "IN_PLACE", "Aint_add", "Aint_diff", "Buffer", "Free_address", "Get_address",
    "InPlace", "allocate", "blocks", "bytes_of", "check_disjoint", "from_dtype", "memory_to_exchange",
    "memory_to_receive", "memory_to_replace", "memory_to_send", "resolve_recv", "resolve_send", "resolve_vector_recv",
    "resolve_vector_send", "shares_memory",
]  # fmt: skip
__all__ += predefined.__all__
__all__ += deprecated.__all__
