"""Processes that end without Finalize while processes of other jobs go on."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import numpy as np
import pytest
from jobs import Site
from meetings import three_jobs

import aiompi

#: collectives in which a rank that is not the root has done its part when it has sent
ROOTED: dict[str, Callable[[aiompi.Intracomm], Awaitable[Any]]] = {
    "reduce": lambda comm: comm.reduce(1),
    "gather": lambda comm: comm.gather(comm.rank),
    "Reduce": lambda comm: comm.Reduce(np.ones(9), np.empty(9)),
    "Gather": lambda comm: comm.Gather(np.ones(9), np.empty(9 * comm.size)),
}


@pytest.mark.asyncio
@pytest.mark.parametrize("call", ROOTED)
@pytest.mark.parametrize("first", [1, 2])
async def test_a_process_of_another_job_that_has_done_its_part_and_left(call: str, first: int) -> None:
    """The others complete the collective, whichever of them is late."""
    async with three_jobs() as (worlds, comms):
        begin = ROOTED[call]
        for _ in range(3):  # until they share slots, for which all wait for each other
            await asyncio.gather(*map(begin, comms))
        root = asyncio.ensure_future(begin(comms[0]))
        await begin(comms[first])
        await worlds[first].leave()
        await begin(comms[3 - first])
        assert await root == {"reduce": 3, "gather": [0, 1, 2]}.get(call)
        with pytest.raises(aiompi.ProcessFailedError, match="has finalized"):
            await comms[0].recv(first)


@pytest.mark.asyncio
async def test_the_end_of_one_link_waits_for_what_comes_on_another() -> None:
    """Two processes that connect at once have two links, which end in any order."""
    async with three_jobs() as (worlds, comms):
        await comms[1].send("first", 0)
        assert await comms[0].recv() == "first"
        core = comms[0]._core
        core.engine.peer(core.targets[1]).connection_lost("its connection closed")
        await comms[1].send("last", 0)
        await worlds[1].leave()
        assert await comms[0].recv(1) == "last"
        with pytest.raises(aiompi.ProcessFailedError, match="has finalized"):
            await comms[0].recv(1)


# Real processes.

#: begins a program; `gone(pid)` waits until a process has ended
HEAD = """
import contextlib, os, select, sys, time
from array import array
from aiompi import MPI
world = MPI.COMM_WORLD

def gone(pid):
    with contextlib.suppress(ProcessLookupError):
        select.select([os.pidfd_open(pid)], [], [])
"""
#: how two groups of two meet; `second` is True in one of them
MEETINGS = {
    "spawn": """
parent = MPI.Comm.Get_parent()
second = bool(parent)
ends = parent if second else world.Spawn(__file__, maxprocs=2)
""",
    "port": """
second = sys.argv[1:] == ["second"]
if second:
    while not os.path.exists("port"):
        time.sleep(0.01)
    with open("port") as file:
        ends = world.Connect(file.read())
else:
    port = MPI.Open_port() if world.rank == 0 else None
    if world.rank == 0:
        with open("unfinished", "w") as file:
            file.write(port)
        os.rename("unfinished", "port")
    ends = world.Accept(port)
""",
}
#: the root waits in collectives for the late process, which waits for the end of those that have done their part
COLLECTIVES = """
comm = ends.Merge(high=second)
pids = comm.allgather(os.getpid())
if comm.rank == {late}:
    for rank in {early}:
        gone(pids[rank])
sums = [array("d", [0]) for _ in range(2)]
got = comm.reduce(comm.rank, root={root}), comm.gather(comm.rank, root={root})
comm.Reduce(array("d", [comm.rank]), sums[0], root={root})
comm.Ireduce(array("d", [comm.rank]), sums[1], root={root}).Wait()
if comm.rank == {root}:
    print(*got, *(one[0] for one in sums))
"""


@pytest.mark.parametrize(
    ("meeting", "early", "late", "root"),
    [("spawn", [2, 3], 1, 0), ("spawn", [1], 2, 3), ("port", [2, 3], 1, 0), ("port", [0, 1], 2, 3)],
)
def test_programs_that_end_without_finalize_once_they_have_done_their_part(
    site: Site, meeting: str, early: list[int], late: int, root: int
) -> None:
    """A process that has spawned others ends after them, so that it is not among the early ones."""
    app = site.program(HEAD + MEETINGS[meeting] + COLLECTIVES.format(early=early, late=late, root=root))
    running = [site.launch("-n", "2", app, *words) for words in ([], ["second"])[: 1 + (meeting == "port")]]
    results = [one.finish() for one in running]
    assert [(one.code, one.err) for one in results] == [(0, "")] * len(running)
    assert "".join(one.out for one in results) == "6 [0, 1, 2, 3] 6.0 6.0\n"


@pytest.mark.parametrize("end", ["", "sys.exit(5)"])
def test_parents_that_end_while_a_child_waits_for_them(site: Site, end: str) -> None:
    """They wait for the end of the child, which therefore does not wait for them."""
    text = f"""
import sys
from aiompi import MPI
parent = MPI.Comm.Get_parent()
if parent:
    try:
        parent.recv(source=0)
    except MPI.ProcessFailedError as error:
        print("has finalized" in str(error))
else:
    MPI.COMM_WORLD.Spawn(__file__)
    {end}
"""
    result = site.run(1, text)
    assert (result.code, result.out) == (5 if end else 0, "True\n"), result
