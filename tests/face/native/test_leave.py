"""A rank that leaves alone."""

from __future__ import annotations

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


def test_what_was_sent_arrives_before_a_rank_leaves(site: Site) -> None:
    """Also a message that its receiver must ask for, or whose request is freed; but for none of its own it waits."""
    program = """
    import asyncio
    sizes = [10**3, 10**5, 10**5, 3 * 10**6]
    if comm.rank:
        nbytes = sizes[comm.rank - 1]
        for dest in (0, comm.rank):
            request = comm.isend(bytes(nbytes), dest=dest)
            if comm.rank in (1, 3):
                request.free()
        await comm.leave()
        return
    await asyncio.sleep(0.1)
    print([len(await comm.recv(source=source)) for source in range(1, 5)] == sizes)
    await comm.leave()
    """
    assert site.ok(5, in_face("native", program)).lines == ["True"]


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


def test_a_wait_for_the_others_that_ends_early_ends_no_other_rank(site: Site) -> None:
    """Each rank but the last one has another reason."""
    program = f"""
import asyncio, os, signal, sys
import aiompi

ends = {[*ENDS]}

async def block(failing):
    global rank
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(None) as limit, aiompi.init() as world:
        rank, last = world.rank, world.size - 1
        if rank < last:
            request = world.isend("sent", dest=last)
            exec(ends[rank])
        else:
            while not all(os.path.exists(str(number)) for number in range(last)):
                await asyncio.sleep(0.01)
            assert [await world.recv(source=source) for source in range(last)] == ["sent"] * last

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
    print("all have come")
except BaseException as error:
    print(ends[rank] if rank < len(ends) else "the last", type(error).__name__)
    os.mkdir(str(rank))
"""
    result = site.ok(len(ENDS) + 1, program)
    assert result.lines == sorted(["all have come", *(f"{end} {seen}" for end, seen in ENDS.items())])
