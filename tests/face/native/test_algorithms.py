"""Calls of the native face that name their algorithm."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

import aiompi
from aiompi import InvalidArgumentError
from aiompi.coll.registry import COLLECTIVES
from support.limits import LIMIT

SIZE = 4
ALGORITHMS = COLLECTIVES["allreduce"].algorithms


def everywhere(run: Any) -> list[Any]:
    async def main() -> list[Any]:
        async with asyncio.timeout(LIMIT):
            return await asyncio.gather(*map(run, aiompi.local_world(SIZE)))

    return asyncio.run(main())


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_each_way_to_call(algorithm: str) -> None:
    """At once, later and bound to the arguments."""

    async def run(comm: aiompi.Intracomm) -> list[int]:
        mine, total = np.full(8, comm.rank, "i"), np.zeros(8, "i")
        await comm.Allreduce(mine, total, algorithm=algorithm)
        await comm.Iallreduce(total.copy(), total, algorithm=algorithm)
        request = comm.Allreduce_init(total.copy(), total, algorithm=algorithm)
        request.start()
        await request
        return [*set(total.tolist())]

    assert everywhere(run) == [[6 * SIZE * SIZE]] * SIZE


def test_the_named_one_is_used_or_the_call_says_why_not() -> None:
    """A vector of objects cannot be cut into the pieces that a ring passes on; the choice by default can do it."""
    (comm,) = aiompi.local_world(1)
    with pytest.raises(InvalidArgumentError, match="ring"):
        comm.allreduce("object", algorithm="ring")
    assert comm.allreduce("object").result() == "object"


def test_names_that_are_none() -> None:
    (comm,) = aiompi.local_world(1)
    for call in (
        lambda: comm.allreduce(1, algorithm="fast"),
        lambda: comm.Bcast(bytearray(4), algorithm="fast"),
        lambda: comm.Bcast_init(bytearray(4), algorithm="fast"),
    ):
        with pytest.raises(InvalidArgumentError, match="no algorithm 'fast'"):
            call()
