"""The data representation of the user's buffers in the messages of a communicator.

Between ranks of one client a message has the representation of this machine, and contiguous memory is not copied.
Messages to ranks of other clients are in external32 (IMPI 0.0, section 1.2.2).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Final, SupportsIndex, TypeAlias

from aiompi.datatype import (
    Buffer,
    memory_to_exchange,
    memory_to_receive,
    memory_to_replace,
    memory_to_send,
    resolve_send,
)
from aiompi.datatype.pack import NATIVE, Representation
from aiompi.wire.frame import Payload

#: destination of a message: memory, or a buffer that unpacks it
Place: TypeAlias = memoryview | Buffer


@dataclasses.dataclass(slots=True)
class Conversion:
    """Functions that turn a program's buffer specifications into messages to send and places to receive into.

    Attributes:
        to_send: (spec, dest) -> the message to rank `dest`.
        to_receive: (spec) -> the `Place` of the received message.
        to_exchange: (sendspec, recvspec, dest) -> the message to rank `dest`, and the `Place` of the received message.
        to_replace: (spec, dest) -> a copy of the message to rank `dest`, and the `Place` of the received message, which
            overwrites the original.
        prepare: (spec, dest) -> function that makes a message to rank `dest` of the contents that the buffer has when
            the function is called.
        representation: representation of packing units (MPI_Pack).
    """

    to_send: Callable[[object, SupportsIndex], bytes | memoryview]
    to_receive: Callable[[object], Place]
    to_exchange: Callable[[object, object, SupportsIndex], tuple[bytes | memoryview, Place]]
    to_replace: Callable[[object, SupportsIndex], tuple[memoryview, Place]]
    prepare: Callable[[object, SupportsIndex], Callable[[], tuple[Payload, int]]]
    representation: Representation


def prepared(message: Callable[[], memoryview]) -> Callable[[], tuple[Payload, int]]:
    """Turn a function that makes a message into the function that a persistent send calls at each start."""

    def contents() -> tuple[Payload, int]:
        memory = message()
        return (memory,), len(memory)

    return contents


NATIVE_FORM: Final = Conversion(
    memory_to_send,
    memory_to_receive,
    memory_to_exchange,
    memory_to_replace,
    lambda spec, dest: prepared(resolve_send(spec, "buf").packed),
    NATIVE,
)
