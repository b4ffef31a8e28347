"""A rank that leaves alone."""

from __future__ import annotations

import pytest

from support.jobs import Site, in_face


def test_leaving_alone(site: Site) -> None:
    """Its messages arrive, no rank waits for it, and ranks that still need it get an error."""
    program = """
    if comm.rank == 1:
        await comm.send("farewell", dest=0)
        await comm.leave()
        return
    print(await comm.recv(source=1))
    try:
        await comm.recv(source=1)
    except aiompi.ProcessFailedError as error:
        print(error)
    """
    assert site.ok(2, in_face("native", program)).lines == [
        "farewell",
        "rank 1 has finalized: it sends and receives nothing more",
    ]


@pytest.mark.parametrize("nbytes", [10**3, 10**5, 3 * 10**6])
@pytest.mark.parametrize("freed", ["", "request.free()"])
def test_what_was_sent_arrives_before_a_rank_leaves(site: Site, nbytes: int, freed: str) -> None:
    """Also a message that its receiver must ask for; but for none of its own it waits."""
    program = f"""
    import asyncio
    if comm.rank == 1:
        for dest in (0, 1):
            request = comm.isend(bytes({nbytes}), dest=dest)
            {freed}
        await comm.leave()
        return
    await asyncio.sleep(0.1)
    print(len(await comm.recv(source=1)))
    await comm.leave()
    """
    assert site.ok(2, in_face("native", program)).lines == [str(nbytes)]


def test_a_receive_that_is_dropped_when_the_interpreter_ends(site: Site) -> None:
    """Nobody runs any more by then, and there is nothing to be undone."""
    program = """
    global kept
    kept = comm.recv(source=1 - comm.rank)
    """
    result = site.ok(2, in_face("native", program))
    assert (result.out, result.err) == ("", "")


#: what ends the wait at the end of the block, once the block has ended well; and what the program sees of it
ENDS = {
    "limit.reschedule(loop.time() + 0.1)": "ExceptionGroup",
    "loop.call_later(0.1, asyncio.current_task().cancel)": "CancelledError",
    "loop.call_later(0.1, os.kill, os.getpid(), signal.SIGINT)": "KeyboardInterrupt",
    "loop.call_later(0.1, failing.set)": "ExceptionGroup",
    "loop.call_later(0.1, sys.exit)": "SystemExit",
}


@pytest.mark.parametrize("end", ENDS)
def test_a_wait_for_the_others_that_ends_early_ends_no_other_rank(site: Site, end: str) -> None:
    program = f"""
import asyncio, os, signal, sys
import aiompi

async def block(failing):
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(None) as limit, aiompi.init() as world:
        if world.rank == 0:
            request = world.isend("sent", dest=1)
            {end}
        else:
            while not os.path.exists("left"):
                await asyncio.sleep(0.01)
            print(await world.recv(source=0))

async def sibling(failing):
    await failing.wait()
    raise ValueError

async def main():
    failing = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(sibling(failing))
        await block(failing)
        waiting.cancel()

try:
    asyncio.run(main())
except BaseException as error:
    print(type(error).__name__)
    os.mkdir("left")
"""
    result = site.ok(2, program)
    assert (result.lines, result.err) == (sorted([ENDS[end], "sent"]), "")
