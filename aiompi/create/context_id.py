"""Agreement on the context identifiers of a new communicator (IMPI 0.0, section 4.3)."""

from __future__ import annotations

import zlib
from typing import Final

from aiompi.comm import Communicator
from aiompi.comm.contexts import MAX_CID
from aiompi.create.union import Union
from aiompi.errors import OtherError

_LARGEST: Final = 2**64 - 1
_LEAP: Final = 2**16


async def agree(comm: Communicator, union: Union) -> int:
    """Find a pair of identifiers that none of the processes has used.

    Each process proposes the lowest pair above all that it uses, and sets it aside. The largest proposal wins: that
    is the maximum over the processes, plus one and plus two, and whoever had proposed less raises its own maximum.
    If all had proposed the same, which is usual, one step is enough.

    Constructors may be under way on several communicators at once, even in different orders in different processes.
    So a process may be unable to take what wins, because another agreement has taken it there meanwhile: it then
    proposes a higher one, and all do another step. How much higher differs from process to process, so that two
    agreements do not go on getting into each other's way.

    Args:
        comm: from which the new one is made.
        union: all processes that must agree.

    Returns:
        The even one, for point-to-point communication; the next one is for collectives.

    Raises:
        OtherError: there are no more identifiers.
    """
    ids = comm.ids
    ids.begin()
    try:
        return await _agree(comm, union, f"{comm.engine.rank} {ids.agreements}")
    finally:
        ids.end()


async def _agree(comm: Communicator, union: Union, who: str) -> int:
    pair, step = comm.ids.propose(), 0
    while True:
        highest, lowest = await union.maximum(pair, _LARGEST - pair)
        if highest >= MAX_CID:
            raise OtherError(
                f"{comm.label}, rank {comm.rank}: out of context identifiers, of which there are {MAX_CID}, two for "
                "each communicator that is ever made"
            )
        if highest == _LARGEST - lowest:
            return highest
        step += 1
        if pair != highest:
            leap = zlib.crc32(f"{who} {step}".encode()) % _LEAP
            pair = highest if comm.ids.take(highest) else comm.ids.propose(leap)


async def alike(union: Union, number: int) -> bool:
    """Whether all processes give the same number, 0..2**64-1."""
    highest, lowest = await union.maximum(number, _LARGEST - number)
    return highest == _LARGEST - lowest
