"""Processes that end without Finalize while processes of other jobs go on."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from typing import Any

import numpy as np
import pytest

import aiompi
from support.jobs import Site, in_face
from support.meetings import three_jobs

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
    [("spawn", [2, 3], 1, 0), ("port", [0, 1], 2, 3)],
)
def test_programs_that_end_without_finalize_once_they_have_done_their_part(
    site: Site, meeting: str, early: list[int], late: int, root: int
) -> None:
    """All of those that were spawned, or all of those that have accepted others."""
    app = site.program(HEAD + MEETINGS[meeting] + COLLECTIVES.format(early=early, late=late, root=root))
    running = [site.launch("-n", "2", app, *words) for words in ([], ["second"])[: 1 + (meeting == "port")]]
    results = [one.finish() for one in running]
    assert [(one.code, one.err) for one in results] == [(0, "")] * len(running)
    assert "".join(one.out for one in results) == "6 [0, 1, 2, 3] 6.0 6.0\n"


@pytest.mark.parametrize(("face", "end"), [("native", ""), ("blocking", "sys.exit(5)")])
def test_parents_that_end_while_a_child_waits_for_them(site: Site, face: str, end: str) -> None:
    """They wait for the end of the child, which therefore does not wait for them.

    In the asyncio face an exit that leaves the block of the job ends the job.
    """
    app = site.program(
        in_face(
            face,
            f"""
            parent = {"comm" if face == "native" else "MPI.Comm"}.Get_parent()
            if parent:
                try:
                    await parent.recv(source=0)
                except aiompi.ProcessFailedError as error:
                    print("has finalized" in str(error))
            else:
                await comm.Spawn(__file__)
                {end}
            """,
        )
    )
    result = site.launch("-n", "1", app).finish()
    assert (result.code, result.out) == (5 if end else 0, "True\n"), result


#: how a group of processes meets another one, which gets a word that the first one prints
MEETS = {
    "port": """
        if not word:
            word = await (comm.Open_port if hasattr(comm, "Open_port") else MPI.Open_port)() if comm.rank == 0 else ""
            print(end="" if comm.rank else word + "\\n", flush=True)
            ends = await comm.Accept(word)
        else:
            ends = await comm.Connect(word)
        """,
    "socket": """
        if not word:
            with socket.create_server(("127.0.0.1", 0)) as listener:
                print(listener.getsockname()[1], flush=True)
                connection, _ = listener.accept()
        else:
            connection = socket.create_connection(("127.0.0.1", int(word)))
        with connection:
            ends = await comm.Join(connection.fileno())
        """,
}
#: the last process is killed while the others wait for it, in every way
KILLED = """
        whole = await ends.Merge(second)
        if whole.rank == whole.size - 1:
            for _ in range(whole.size - 1):
                await whole.recv()
            os.kill(os.getpid(), signal.SIGKILL)
        await whole.send("has met it", whole.size - 1)
        waits = [lambda: whole.recv(source=whole.size - 1), lambda: whole.allreduce(1), lambda: ends.barrier(),
                 lambda: ends.send(bytes(10**7), ends.remote_size - 1), lambda: ends.Disconnect()]
        for wait in waits:
            try:
                await wait()
            except aiompi.ProcessFailedError as error:
                print(error)
        """


@pytest.mark.parametrize(("face", "meeting", "size"), [("native", "port", 2), ("blocking", "socket", 1)])
def test_a_process_that_is_killed_ends_all_waits_of_those_that_have_met_it(
    site: Site, face: str, meeting: str, size: int
) -> None:
    head = """
        import socket
        word = "".join(sys.argv[1:])
        second = bool(word)
        """
    app = site.program(in_face(face, head + MEETS[meeting] + KILLED))
    first = site.launch("-n", str(size), app)
    first.expect("\n")
    second = site.launch("-n", str(size), app, first.out.strip()).finish()
    assert (second.code, second.err) == (137, f"aiompi-launch: rank {size - 1} was killed by signal 9 (SIGKILL)\n")
    result = first.finish()
    assert (result.code, result.err) == (0, "")
    gone, left = (
        [error for error in result.out.splitlines()[1:] if re.fullmatch(pattern, error)]
        for pattern in (r"process [01] of job [0-9a-f]{8} is gone: .+", r"rank [01] has finalized: .+")
    )
    assert len(gone) >= 2 * size, result
    assert len(gone + left) == 5 * size, f"the other one may end before a collective fails: {result}"
    site.settle()
