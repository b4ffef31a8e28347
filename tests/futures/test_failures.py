"""Test pools whose workers fail, are interrupted, or run coroutine functions side by side, in real processes."""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path

import pytest

from support import pools
from support.jobs import Result, Site
from support.pools import lines

HEAD = (
    pools.HEAD
    + """
def where(_=None):
    return MPI.COMM_WORLD.rank

async def die_in_coroutine():
    await asyncio.sleep(0)
    os._exit(3)

def describe(error):
    return f"{type(error).__name__}: {error}, {type(error.__cause__).__name__}"
"""
)
KILLED = "rank N is gone: was killed by signal 9 (SIGKILL)"


def run(site: Site, size: int, body: str, functions: str = "") -> Result:
    """Run a program at rank 0, with the others as its workers, in a job that survives failures."""
    main = f'if __name__ == "__main__":\n{textwrap.indent(body, "    ")}'
    program = site.program(HEAD + functions + main)
    return site.launch("-n", str(size), "--on-failure=continue", "-m", "aiompi.futures", program).finish()


def run_async(site: Site, size: int, body: str) -> Result:
    """Run the same with the asyncio face; the body is that of rank 0 inside `async with`."""
    program = f"""
async def main(world):
    try:
        async with pool(world) as executor:
            if executor is not None:
{textwrap.indent(body, " " * 16)}
    except aiompi.ProcessFailedError as error:
        print(error)

aiompi.run(main)
"""
    return site.launch("-n", str(size), "--on-failure=continue", site.program(HEAD + program)).finish()


def test_a_worker_that_dies_costs_its_task_only(site: Site) -> None:
    body = """
with MPIPoolExecutor() as executor:
    tasks = [executor.submit(where), executor.submit(die), *(executor.submit(where) for _ in range(40))]
    print(re.sub("rank [123]", "rank N", describe(tasks[1].exception())))
    print({task.result() for task in tasks[2:]} <= {1, 2, 3})
    print(executor.num_workers, executor._max_workers, executor._pool.size)
    print(len([*executor.map(where, range(20))]))
with MPIPoolExecutor(max_workers=5) as executor:
    print(executor.num_workers, "in a later executor")
"""
    result = run(site, 4, body)
    assert result.code == 0
    assert lines(result) == [
        f"BrokenExecutor: the worker of rank N has failed: {KILLED}, ProcessFailedError",
        "True", "2 2 2", "20", "2 in a later executor",
    ]  # fmt: skip


def test_tasks_are_run_again(site: Site, tmp_path: Path) -> None:
    """A task is run again as often as allowed, and the executor is broken when no worker is left."""
    body = f"""
with MPIPoolExecutor(retries=1) as executor:
    print(executor.submit(die_once, {str(tmp_path / "once")!r}).result(), executor.num_workers)
    last = [executor.submit(die), *(executor.submit(where) for _ in range(9))]
    print(describe(last[0].exception()))
    print({{type(task.exception()).__name__ for task in last[1:]}} <= {{"NoneType", "BrokenExecutor"}})
    until(lambda: not executor.num_workers)
    try:
        executor.submit(where)
    except BrokenExecutor as error:
        print(error)
"""
    result = run(site, 4, body)
    gone = "BrokenExecutor: the worker of rank {0} has failed: rank {0} is gone: was killed by signal 9 (SIGKILL)"
    assert result.code == 0
    assert lines(result)[0] == "survived 2"
    assert lines(result)[1] in [gone.format(rank) + ", ProcessFailedError" for rank in (1, 2, 3)]
    assert lines(result)[2] == "True"
    assert lines(result)[3] in [gone.format(rank).removeprefix("BrokenExecutor: ") for rank in (1, 2, 3)]


def test_the_death_of_an_idle_worker_is_noticed(site: Site) -> None:
    body = """
with MPIPoolExecutor() as executor:
    victim = executor.submit(os.getpid).result()
    os.kill(victim, signal.SIGKILL)
    until(lambda: executor.num_workers == 1)
    print([*executor.map(abs, range(3))])
"""
    result = run(site, 3, body)
    assert (result.code, lines(result)) == (0, ["[0, 1, 2]"])


def test_a_worker_that_dies_in_its_setup(site: Site) -> None:
    body = """
executor = MPIPoolExecutor(initializer=die)
print(describe(executor.submit(where).exception()))
until(lambda: not executor._workers._workers)
print(executor.num_workers)
"""
    result = run(site, 2, body)
    assert result.code == 0
    gone = "the worker of rank 1 has failed: rank 1 is gone: was killed by signal 9 (SIGKILL)"
    assert lines(result) == [f"BrokenExecutor: {gone}, ProcessFailedError", "0"]


@pytest.mark.parametrize("function", ["die", "die_in_coroutine"])
def test_a_worker_of_an_asyncio_pool_that_dies(site: Site, function: str) -> None:
    body = f"""
lost = executor.submit({function})
others = [executor.submit(abs, 1) for _ in range(20)]
try:
    await lost
except BrokenExecutor as error:
    print(type(error.__cause__).__name__, executor.num_workers)
print(len(await asyncio.gather(*others, return_exceptions=True)))
print([await executor.submit(abs, -1)], [x async for x in executor.map(abs, [-1, -2])])
"""
    result = run_async(site, 4, body)
    assert (result.code, lines(result)) == (0, ["ProcessFailedError 2", "20", "[1] [1, 2]"])


def test_workers_end_when_their_master_dies(site: Site) -> None:
    result = run_async(site, 3, "await executor.submit(abs, 1)\nos._exit(5)")
    assert result.code == 0
    assert lines(result) == ["rank 0 is gone: exited with status 5"] * 2


def test_a_worker_whose_master_has_died_meanwhile_says_nothing(site: Site) -> None:
    port = site.start(sys.executable, "-c", "from aiompi import MPI; print(MPI.Open_port())").finish().out.strip()
    worker = site.launch("-n", "1", sys.executable, "-m", "aiompi.futures.server", env={"AIOMPI_PARENT": port}).finish()
    assert [line for line in worker.err.splitlines() if not line.startswith("aiompi-launch: rank 0 ")] == []


def test_exits_of_tasks_and_of_signals(site: Site) -> None:
    """Any exception of a task is one of its future, and signals to a worker end the worker, also while it computes."""
    body = """
executor = MPIPoolExecutor(initializer=initialize)
for kind in (KeyboardInterrupt, SystemExit, GeneratorExit, StopIteration, asyncio.CancelledError):
    error = executor.submit(leave, kind).exception()
    print(type(error).__name__, error, executor.num_workers)
for signum in (signal.SIGINT, signal.SIGTERM):
    error = executor.submit(interrupt, signum).exception()
    print(type(error).__name__, executor.num_workers)
executor.shutdown()
"""
    functions = """
def leave(kind):
    raise kind("mine")

def interrupt(signum):
    os.kill(os.getpid(), signum)
    time.sleep(20)

def handle(signum, frame):
    raise SystemExit(5)

def initialize():
    signal.signal(signal.SIGTERM, handle)

"""
    result = run(site, 4, body, functions)
    kinds = ("KeyboardInterrupt", "SystemExit", "GeneratorExit", "StopIteration", "CancelledError")
    assert lines(result) == [f"{kind} mine 3" for kind in kinds] + ["BrokenExecutor 2", "BrokenExecutor 1"]
    assert "KeyboardInterrupt (SIGINT); the job goes on" in result.err
    assert "exited with status 5; the job goes on" in result.err


COROUTINES = """
at_once = most = 0

async def count(number, wanted=0):
    # until so many have been at once, and a little longer, in which there must not be more
    global at_once, most
    at_once += 1
    most = max(most, at_once)
    while most < wanted:
        await asyncio.sleep(0.001)
    await asyncio.sleep(0.02)
    at_once -= 1
    return number, most

async def wait_for_ever(path):
    open(path + ".begun", "w").close()
    try:
        await asyncio.sleep(100)
    finally:
        open(path + ".ended", "w").close()

def wrapped(number):
    return count(number)
"""


@pytest.mark.parametrize(("level", "most"), [("MULTIPLE", 5), ("SINGLE", 1)])
def test_coroutine_functions_in_a_blocking_program(site: Site, level: str, most: int) -> None:
    """They run side by side, as far as the thread level of the worker allows."""
    program = HEAD + COROUTINES + f"""
try:
    os.mkdir(sys.argv[1])
    MPI.Init_thread(MPI.THREAD_MULTIPLE)
    root = MPI.COMM_WORLD.allreduce(where())
except FileExistsError:
    MPI.Init_thread(MPI.THREAD_{level})
    root = MPI.COMM_WORLD.allreduce(0)
with MPICommExecutor(root=root, concurrency=5) as executor:
    if executor is not None:
        results = [*executor.map(count, range(30), [{most}] * 30)]
        print([number for number, _ in results] == [*range(30)], max(most for _, most in results))
        print(executor.submit(wrapped, 1).result()[0], [n for n, _ in executor.map(wrapped, range(4), chunksize=3)])
"""  # fmt: skip
    result = site.launch("-n", "2", site.program(program), str(site.directory / "first")).finish()
    assert (result.code, result.err) == (0, ""), result
    assert lines(result) == [f"True {most}", "1 [0, 1, 2, 3]"]


def test_coroutine_functions_side_by_side_in_an_asyncio_program(site: Site) -> None:
    """A worker has as many coroutine functions as allowed, and one function beside them. Cancelling reaches them."""
    program = HEAD + COROUTINES + """
async def main(world):
    async with pool(world, concurrency=3) as executor:
        if executor is not None:
            function = executor.submit(time.sleep, 0.01)
            results = [x async for x in executor.map(count, range(20), [3] * 20)]
            print([number for number, _ in results] == [*range(20)], max(most for _, most in results))
            await function
            endless = [executor.submit(wait_for_ever, f"{sys.argv[1]}/{number}") for number in range(3)]
            while len(os.listdir(sys.argv[1])) < 3:
                await asyncio.sleep(0.005)
            for future in endless:
                future.cancel()
            print(await executor.submit(count, 5), len(os.listdir(sys.argv[1])))

aiompi.run(main)
"""  # fmt: skip
    place = site.directory / "ended"
    place.mkdir()
    result = site.launch("-n", "2", site.program(program), str(place)).finish()
    assert (result.code, result.err) == (0, ""), result
    assert lines(result) == ["True 3", "(5, 3) 6"]
