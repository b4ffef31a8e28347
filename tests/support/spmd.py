"""Programs that all ranks of a local world run, like the examples of the standard."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeAlias

import pytest

import aiompi
from aiompi import Intracomm

from .impi_worlds import impi_world
from .limits import LIMIT

Run: TypeAlias = Callable[[Coroutine[Any, Any, Any]], Any]
Program: TypeAlias = Callable[[Intracomm], Coroutine[Any, Any, None]]

HANGING = 0.1  # seconds after which a program without external influences counts as hanging


async def everywhere(world: Sequence[Intracomm], program: Program) -> None:
    """Run a program on all ranks at once. If it fails on one rank, cancel the others."""
    async with asyncio.TaskGroup() as group:
        for comm in world:
            group.create_task(program(comm))


def ranks(size: int) -> pytest.MarkDecorator:
    """Return a mark: each rank of a local world runs the test, as a task."""
    return pytest.mark.mpi(ranks=size, timeout=LIMIT)


def on(run: Run, size: int, program: Program) -> None:
    """Run a program on all ranks of a new local world."""

    async def main() -> None:
        await everywhere(aiompi.local_world(size), program)

    run(main())


async def completes(size: int, program: Program, across: bool = True) -> None:
    """Run a program to its end. It must leave no message behind.

    The ranks start in their order, and then in reverse, so that each message is sent before its receive is posted,
    and after; once as ranks of one IMPI client and, if `across`, once of two, with packets so short that messages take
    several.
    """
    for step, make in itertools.product((1, -1), (aiompi.local_world, _clients)[: 1 + (across and size > 1)]):
        world = make(size)
        async with asyncio.timeout(LIMIT):
            await everywhere(world[::step], program)
        assert [comm.iprobe() for comm in world] == [None] * size


def _clients(size: int) -> list[Intracomm]:
    return impi_world([1, size - 1], limits={"datalen": 1000})


async def deadlocks(size: int, program: Program) -> None:
    """Run a program that must hang, and end it. Its messages must not match later receives."""
    world = aiompi.local_world(size)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(HANGING):
            await everywhere(world, program)

    async def shift(comm: Intracomm) -> None:
        source = (comm.rank - 1) % size
        assert await comm.sendrecv(comm.rank, (comm.rank + 1) % size, source=source) == source

    async with asyncio.timeout(LIMIT):
        await everywhere(world, shift)
    assert [comm.iprobe() for comm in world] == [None] * size


def on_ranks(size: int, across: bool = True) -> Callable[[Program], Callable[[Run], None]]:
    """Return a decorator that makes a test of a program that completes on this many ranks; see `completes`."""

    def decorate(program: Program) -> Callable[[Run], None]:
        def test(run: Run) -> None:
            run(completes(size, program, across))

        test.__name__, test.__doc__ = program.__name__, program.__doc__
        return test

    return decorate
