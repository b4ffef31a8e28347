"""In what form the user's buffers travel on a communicator.

Between ranks of one client a message lies as in the memory of this machine, and contiguous memory is not copied. To
ranks of other clients it goes in external32 (IMPI 0.0, section 1.2.2).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

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

#: what a message goes into: memory, or a buffer that unpacks it
Place: TypeAlias = memoryview | Buffer


class Conversion:
    """What the faces ask a communicator for; the arguments are buffer specifications and ranks.

    Attributes:
        to_send: (spec, dest) -> the message for that rank.
        to_receive: (spec) -> where a message goes.
        to_exchange: (sendspec, recvspec, dest) -> the message for that rank, and where another one goes.
        to_replace: (spec, dest) -> the message, copied, and where another one goes instead of it.
        prepare: (spec, dest) -> what gives the message that is in the buffer whenever it is asked.
        representation: how packing units are written (MPI_Pack).
    """

    __slots__ = ("prepare", "representation", "to_exchange", "to_receive", "to_replace", "to_send")

    def __init__(
        self,
        to_send: Callable[[object, int], memoryview],
        to_receive: Callable[[object], Place],
        to_exchange: Callable[[object, object, int], tuple[memoryview, Place]],
        to_replace: Callable[[object, int], tuple[memoryview, Place]],
        prepare: Callable[[object, int], Callable[[], tuple[Payload, int]]],
        representation: Representation,
    ) -> None:
        self.to_send = to_send
        self.to_receive = to_receive
        self.to_exchange = to_exchange
        self.to_replace = to_replace
        self.prepare = prepare
        self.representation = representation


def prepared(message: Callable[[], memoryview]) -> Callable[[], tuple[Payload, int]]:
    """What a persistent send asks for at each start, out of what makes the message."""

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
