"""Datatypes, and the buffers that hold items of them (sections 3.2.2 and 4.9.3)."""

from aiompi.datatype import predefined
from aiompi.datatype.bufspec import (
    IN_PLACE,
    Buffer,
    InPlace,
    blocks,
    bytes_of,
    memory_to_receive,
    memory_to_send,
    resolve_recv,
    resolve_send,
)
from aiompi.datatype.codes import from_code, from_dtype
from aiompi.datatype.predefined import *  # noqa: F403

__all__ = [
    "IN_PLACE", "Buffer", "InPlace", "blocks", "bytes_of", "from_code", "from_dtype", "memory_to_receive",
    "memory_to_send", "resolve_recv", "resolve_send",
]  # fmt: skip
__all__ += predefined.__all__
