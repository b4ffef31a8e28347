"""What the collectives on objects have in common."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

from aiompi import errors
from aiompi.coll.accumulator import Codec
from aiompi.coll.block import Block
from aiompi.coll.signature import Signature
from aiompi.comm import Channel, Communicator
from aiompi.engine import Request
from aiompi.errors import InvalidArgumentError, InvalidOpError
from aiompi.op import Op

T = TypeVar("T")


def start(comm: Communicator, run: Callable[[Channel], Coroutine[Any, None, T]], signature: Signature) -> Request[T]:
    """Start a collective whose messages carry its signature."""
    comm.engine.refuse_nested()
    return comm.start_on(comm.channel(signature.name, signature.note), run)


def empty(comm: Communicator) -> list[Block]:
    """A block for what comes from each rank: of the communicator, or of the remote group."""
    return [Block() for _ in comm.targets]


def filled(comm: Communicator, codec: Codec, sequence: Sequence[Any] | None, operation: str) -> list[Block]:
    """A block for each rank, of the communicator or of the remote group, with the object that is for it.

    Raises:
        InvalidArgumentError: there are more objects, or fewer.
    """
    items, size = [] if sequence is None else list(sequence), len(comm.targets)
    if len(items) != size:
        given = "None" if sequence is None else f"{len(items)} objects"
        raise InvalidArgumentError(f"{comm.where(operation)}: expected {size} objects, one per rank, got {given}")
    return [Block.holding(*codec.dumps(item)) for item in items]


def commutes(comm: Communicator, op: object, operation: str) -> bool:
    """Return True if an operation on objects commutes.

    Raises:
        InvalidOpError: it is OP_NULL, or cannot be called.
    """
    if not isinstance(op, Op):
        if not callable(op):
            raise InvalidOpError(
                f"{comm.where(operation)}: {op!r} is no operation; pass one such as SUM, or a function"
            )
        return False
    try:
        op.check()
    except errors.Exception as error:
        raise type(error)(f"{comm.where(operation)}: {error}") from None
    return op.commute
