"""Groups and communicators (chapter 5)."""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import Awaitable
from typing import Any

import pytest

import aiompi
from aiompi import COMM_NULL, Group, Intracomm
from face.native.checks import SIZE, World, check, everywhere


@check
@pytest.mark.spec("S2.4.1-7")
async def description(world: World) -> None:
    for rank, comm in enumerate(world):
        assert (comm.rank, comm.size, comm.Get_rank(), comm.Get_size()) == (rank, SIZE, rank, SIZE)
        assert comm.name == "MPI_COMM_WORLD"
        assert (comm.group.size, comm.group.rank) == (SIZE, rank)
        assert repr(comm) == f"<MPI_COMM_WORLD: rank {rank} of 3>"
    with pytest.raises(TypeError, match="only in its own process"):
        pickle.dumps(world[0])
    assert world[0] != world[1]
    assert {world[0]: "found"}[world[0]] == "found"
    assert hash(Intracomm()) == hash(COMM_NULL)


@check
async def no_parent(world: World) -> None:
    assert world[0].Get_parent() == COMM_NULL


@check
@pytest.mark.spec("S5.4.2-1", "S5.7.1-2", "S5.7.1-5", "S5.7.1-6", "S5.4.3-1", "S5.7.1-7")
async def attributes_and_duplicates(world: World) -> None:
    """Callbacks see the communicators as the program does; when one fails, so does the call, which can be repeated."""
    seen: list[Any] = []
    keyval = Intracomm.Create_keyval(
        lambda comm, key, value: (seen.append((comm, value)), value + 1)[1],
        lambda comm, key, value: seen.append((comm, value)),
    )
    copies = await everywhere(world, Intracomm.Dup)
    copies[0].Set_attr(keyval, 7)
    more = await everywhere(copies, Intracomm.Dup)
    assert (seen, more[0].Get_attr(keyval), more[1].Get_attr(keyval)) == ([(copies[0], 7)], 8, None)
    await everywhere(more, Intracomm.Free)
    assert seen[1][1] == 8

    def fail(*_: object) -> None:
        raise ValueError("no")

    def fail_once(*_: object) -> None:
        if failures:
            raise failures.pop()

    failures = [ValueError("not yet")]
    failing = Intracomm.Create_keyval(fail, fail_once)
    copies[0].Set_attr(failing, 0)
    results = await asyncio.gather(*(comm.Dup() for comm in copies), return_exceptions=True)
    assert [isinstance(result, aiompi.MPI.OtherError) for result in results] == [True, False, False]
    with pytest.raises(aiompi.MPI.OtherError, match="delete callback"):
        copies[0].Free()
    await everywhere(copies, Intracomm.Free)


@check
async def pending_constructors(world: World) -> None:
    """They do not wait: several are under way at once, and collectives beside them."""

    async def several(comm: Intracomm) -> list[Any]:
        requests: list[Awaitable[Any]] = [comm.Dup(), comm.allgather(comm.rank), comm.Split(0, -comm.rank), comm.Idup()]
        return list(await asyncio.gather(*requests))

    results = await everywhere(world, several)
    assert [result[1] for result in results] == [[0, 1, 2]] * SIZE
    assert [result[2].rank for result in results] == [2, 1, 0]
    for made in (0, 2, 3):
        await everywhere([result[made] for result in results], Intracomm.Free)


@check
@pytest.mark.spec("S5.4.2-4")
async def bad_groups(world: World) -> None:
    pair = (await everywhere(world, lambda comm: comm.Split(comm.rank // 2)))[0]
    with pytest.raises(aiompi.MPI.InvalidGroupError, match="no members"):
        pair.Create(world[0].group)
    groups = [Group.of(ranks) for ranks in ([0, 1], [1], [2])]
    calls = (comm.Create(group) for comm, group in zip(world, groups, strict=True))
    results = await asyncio.gather(*calls, return_exceptions=True)
    assert [type(result) for result in results] == [aiompi.MPI.InvalidGroupError] * SIZE
