"""Test executors and pools that start their workers, in programs that run alone and under the launcher."""

from __future__ import annotations

import re
import signal
import sys
import textwrap
from pathlib import Path

import pytest

from aiompi.driver.spin import cores
from support import pools
from support.jobs import KEY, Result, Site
from support.pools import lines

HEAD = (
    pools.HEAD
    + """
def square(number):
    return number * number

def process(_=None):
    return os.getpid()

async def plus_one(number):
    await asyncio.sleep(0)
    return number + 1
"""
)


#: is a member of a job that works for its pools
MEMBER = """
async def worker(address, key):
    async with aiompi.join(address, key) as member:
        while True:
            await work(member)
"""


def alone(site: Site, body: str, functions: str = "") -> Result:
    """Run a program without a launcher."""
    main = f'if __name__ == "__main__":\n{textwrap.indent(body, "    ")}'
    return site.start(sys.executable, site.program(HEAD + functions + main)).finish()


def test_an_executor_starts_its_workers(site: Site) -> None:
    body = """
with MPIPoolExecutor(2) as executor:
    print([*executor.map(square, range(5))], executor.num_workers, executor._max_workers, executor._pool.size)
    processes = {*executor.map(process, range(20))}
    print(len(processes) in (1, 2), os.getpid() in processes)
    print(executor.submit(plus_one, 1).result())
    print([task.result() for task in [executor.submit(count_workers) for _ in range(2)]])
    asyncio.run(run_in_loop(executor))
    with MPIPoolExecutor() as second:
        print(second.bootup().num_workers, "by default")
print(executor.num_workers)
"""
    functions = """
def count_workers():
    return get_comm_workers().allreduce(1)

async def run_in_loop(executor):
    print(await asyncio.get_running_loop().run_in_executor(executor, square, 5))

"""
    result = alone(site, body, functions)
    assert (result.code, result.err) == (0, ""), result
    assert lines(result) == [
        "[0, 1, 4, 9, 16] 2 2 2", "True False", "2", "[2, 2]", "25", f"{max(1, cores() - 1)} by default", "0",
    ]  # fmt: skip


def test_executors_of_a_launched_program(site: Site) -> None:
    """Each rank has workers of its own, and the ranks communicate meanwhile."""
    body = """
if __name__ == "__main__":
    MPI.Init_thread(MPI.THREAD_MULTIPLE)
    with (MPIPoolExecutor, ProcessPoolExecutor)[MPI.COMM_WORLD.rank](1) as executor:
        future = executor.submit(square, 2 + MPI.COMM_WORLD.rank)
        print(MPI.COMM_WORLD.allreduce(1), future.result())
"""
    result = site.run(2, HEAD + body)
    assert (result.code, result.err) == (0, ""), result
    assert result.lines == ["2 4", "2 9"]


def test_a_dead_worker_is_replaced(site: Site) -> None:
    """The error of its task says why it has failed."""
    body = """
with MPIPoolExecutor(2) as executor:
    error = executor.submit(die).exception()
    print(type(error).__name__, type(error.__cause__).__name__, error)
    until(lambda: executor.num_workers == 2)
    print([*executor.map(square, range(3))])
    os.kill(executor.submit(process).result(), signal.SIGKILL)  # an idle one
    until(lambda: executor.num_workers == 2 and executor.submit(process).exception() is None)
with MPIPoolExecutor(1, retries=1) as executor:
    print(executor.submit(die_once, sys.argv[0] + ".once").result(), executor.num_workers)
    error = executor.submit(eval, "__import__('os')._exit(7)").exception()
    print(type(error).__name__, executor.submit(square, 4).result(), error)
"""
    result = alone(site, body)
    assert result.code == 0, result
    killed, squares, survived, exited = lines(result)
    gone = "the worker of rank ([0-9]+) has failed: .* is gone: rank \\1 "
    assert re.match(f"BrokenExecutor ProcessFailedError {gone}was killed by signal 9 .SIGKILL.", killed), killed
    assert (squares, survived) == ("[0, 1, 4]", "survived 1")
    assert re.match(f"BrokenExecutor 16 {gone}exited with status 7", exited), exited


def test_workers_that_cannot_work(site: Site) -> None:
    """They are not started again and again."""
    body = """
with MPIPoolExecutor(1, initializer=die) as executor:
    print(type(executor.submit(square, 1).exception()).__name__, executor.num_workers)
with MPIPoolExecutor(1, python_exe=sys.argv[0] + ".missing") as executor:
    print(executor.submit(square, 1).exception())
with MPIPoolExecutor(1, python_args=["-c", "raise SystemExit(3)"]) as executor:
    print(executor.submit(square, 1).exception())
"""
    result = alone(site, body)
    assert result.code == 0, result
    assert lines(result)[0] == "BrokenExecutor 0"
    assert lines(result)[1].startswith("there are no workers: ")
    assert lines(result)[2].startswith("there are no workers: ")


def test_a_program_without_a_guard(site: Site) -> None:
    """The worker, which loads the program, says what is wrong instead of starting workers of its own."""
    program = HEAD + "print(type(error := MPIPoolExecutor(1).submit(square, 1).exception()).__name__, error)"
    result = site.start(sys.executable, site.program(program)).finish()
    assert result.code == 0, result
    assert "BrokenExecutor the worker of rank 0 could not be initialized: RuntimeError" in result.out
    assert "under `if __name__" in result.out


#: what the main program of an asyncio program may do first, and what a worker says that loads it
UNGUARDED = {
    "async with pool(max_workers=1) as executor:": "begins a rank",
    "async with aiompi.serve() as job, member(job), pool(job=job) as executor:": "serves a job",
    "async with aiompi.join(*address()) as one, member(one.job), pool(job=one.job.address) as executor:": "joins a job",
}


def test_an_asyncio_program_without_a_guard(site: Site) -> None:
    """A worker refuses the first call by which it would run what only the master does."""
    head = "import asyncio, sys, aiompi\nfrom aiompi.futures import work"
    worker = site.program(f"{head}{MEMBER}asyncio.run(worker(*sys.argv[1:]))", "worker.py")
    program = f"""
import contextlib, subprocess
from aiompi import futures

def address():
    return os.environ["ADDRESS"], os.environ["AIOMPI_KEY"]

@contextlib.asynccontextmanager
async def member(job):
    key = getattr(job, "key", None) or address()[1]
    with subprocess.Popen([sys.executable, {worker!r}, job.address, key]) as started:
        try:
            yield
        finally:
            started.kill()

async def main():
    FIRST
        print((await asyncio.gather(executor.submit(square, 1), return_exceptions=True))[0])

asyncio.run(main())
"""
    server = site.launch("--serve", env={"AIOMPI_KEY": KEY})
    server.expect("\n")
    environ = {"ADDRESS": server.out.strip(), "AIOMPI_KEY": KEY}
    for first, does in UNGUARDED.items():
        app = site.program(HEAD + program.replace("FIRST", first))
        result = site.start(sys.executable, app, env=environ).finish()
        assert (result.code, result.err) == (0, ""), (first, result)
        refused = f"RuntimeError('the program of a worker {does} while the worker loads it: put"
        assert refused in result.out, (first, result)
    server.signal(signal.SIGTERM)
    server.finish()


def test_a_worker_in_the_process_of_the_master_does_not_load_its_program(site: Site) -> None:
    """So the program needs no guard, and objects of its classes are those that it knows."""
    program = """
from aiompi.futures import work

class Point:
    x = 1

def moved(point):
    point.x += 1
    return point

async def main():
    async with aiompi.serve() as job, aiompi.join(job.address, job.key) as member:
        working = asyncio.create_task(work(member))
        async with pool(job=job) as executor:
            point = await executor.submit(moved, Point())
            print(type(point) is Point, point.x)
        await working

print(__name__)
asyncio.run(main())
"""
    result = site.start(sys.executable, site.program(HEAD + program)).finish()
    assert (result.code, lines(result), result.err) == (0, ["__main__", "True 2"], ""), result


@pytest.mark.parametrize("end", ["", "del executor; time.sleep(0.2)", "executor.shutdown(wait=False)", "os._exit(0)"])
def test_nothing_is_left(site: Site, end: str) -> None:
    """Workers end with their executor or with the program, after all tasks, however it ends."""
    result = alone(site, f"executor = MPIPoolExecutor(1).bootup()\nexecutor.submit(square, 3)\n{end}")
    assert (result.code, result.out, result.err) == (0, "", ""), result
    site.settle()


def test_an_asyncio_pool_starts_its_workers(site: Site) -> None:
    body = """
async def main():
    async with pool(max_workers=2, retries=1) as executor:
        print(await executor.submit(square, 5), [x async for x in executor.map(plus_one, range(5))])
        await executor.bootup()
        print(executor.num_workers, await executor.submit(die_once, sys.argv[0] + ".once"))
        while executor.num_workers < 2:
            await asyncio.sleep(0.005)

asyncio.run(main())
"""
    result = alone(site, body)
    assert (result.code, lines(result)) == (0, ["25 [1, 2, 3, 4, 5]", "2 survived"]), result


def test_workers_come_and_go_as_they_like(site: Site) -> None:
    """A pool may begin without any, and takes those that connect to its port."""
    body = """
import subprocess
from aiompi.futures import work

async def main():
    async with pool(start=0) as executor:
        port = await executor.open_port()
        waiting = [executor.submit(process) for _ in range(3)]
        print(executor.num_workers)
        programs = [subprocess.Popen([sys.executable, sys.argv[0], port]) for _ in range(2)]
        print({*await asyncio.gather(*waiting)} <= {program.pid for program in programs})
        while executor.num_workers < 2:
            await asyncio.sleep(0.005)
        programs[0].kill()
        while executor.num_workers > 1:
            await asyncio.sleep(0.005)
        print(await executor.submit(square, 3))
        programs.append(subprocess.Popen([sys.executable, sys.argv[0], port]))
        while executor.num_workers < 2:
            await asyncio.sleep(0.005)
    print([program.wait() for program in programs])

asyncio.run(work(sys.argv[1]) if sys.argv[1:] else main())
"""
    result = alone(site, body)
    assert (result.code, lines(result), result.err) == (0, ["0", "True", "9", "[-9, 0, 0]"], ""), result


def with_members(site: Site, body: str, functions: str) -> Result:
    """Run a program with `main`, which starts the same program as members of a job that work for its pools."""
    begin = """
import subprocess
import aiompi
from aiompi.futures import work

def start(job):
    return subprocess.Popen([sys.executable, sys.argv[0], job.address, job.key])
"""
    end = """
if sys.argv[1:]:
    asyncio.run(worker(*sys.argv[1:]))
else:
    asyncio.run(main())
"""
    return alone(site, begin + body + MEMBER + end, functions)


def test_workers_that_are_members_of_a_job(site: Site) -> None:
    """They come before the pool and after it, are killed, leave, and work for the next pool."""
    body = """
async def until(executor, count):
    while executor.num_workers != count:
        await asyncio.sleep(0.005)

async def main():
    async with aiompi.serve() as job:
        programs = [start(job) for _ in range(2)]
        async with pool(job=job, retries=1) as executor:
            await until(executor, 2)
            long = [executor.submit(wait) for _ in range(2)]
            programs.append(start(job))
            await until(executor, 3)
            programs[0].kill()
            await until(executor, 2)
            open("go", "w").close()
            print({*await asyncio.gather(*long)} <= {program.pid for program in programs[1:]})
        async with pool(job=job.address, key=job.key) as executor:
            await until(executor, 2)
            programs[1].terminate()
            await until(executor, 1)
            print(await executor.submit(square, 3))
            while len(job.members()) != 2:  # it leaves the pool before the job
                await asyncio.sleep(0.005)
            programs[2].terminate()
            await until(executor, 0)
            programs.append(start(job))
            print([number async for number in executor.map(square, range(3))])
        programs[3].terminate()
        print([await asyncio.to_thread(program.wait) for program in programs])
"""
    functions = """
async def wait():
    while not os.path.exists("go"):
        await asyncio.sleep(0.01)
    return os.getpid()
"""
    result = with_members(site, body, functions)
    assert (result.code, result.err) == (0, ""), result
    assert lines(result) == ["True", "9", "[0, 1, 4]", "[-9, -15, -15, -15]"]


def test_a_member_that_leaves_ends_its_tasks(site: Site) -> None:
    """Without retries. Another worker gets the task that it has not begun, because it is still being initialized."""
    body = """
async def until(condition):
    while not condition():
        await asyncio.sleep(0.005)

async def note(changes):
    async for change in changes:
        kinds.add(change.kind)

async def main():
    async with aiompi.serve() as job:
        noting = asyncio.ensure_future(note(job.changes()))
        programs = [start(job)]
        async with pool(job=job, initializer=initialize) as executor:
            early = executor.submit(square, 2)
            await until(lambda: os.path.exists("initializing"))
            programs[0].terminate()
            await until(lambda: executor.num_workers == 0)
            open("initialized", "w").close()
            programs.append(start(job))
            print(await early)
            tasks = [executor.submit(wait, "a"), executor.submit(await_file, "b")]
            await until(lambda: os.path.exists("a begun") and os.path.exists("b begun"))
            programs[1].terminate()
            await until(lambda: executor.num_workers == 0)
            programs.append(start(job))
            print([number async for number in executor.map(square, range(3))])
            open("go", "w").close()
            print([*map([program.pid for program in programs].index, await asyncio.gather(*tasks))])
        programs[2].terminate()
        print([await asyncio.to_thread(program.wait) for program in programs])
        print(sorted(kinds))

kinds = set()
"""
    functions = """
import time

def initialize():
    open("initializing", "w").close()
    while not os.path.exists("initialized"):
        time.sleep(0.01)

def wait(name):
    open(name + " begun", "w").close()
    while not os.path.exists("go"):
        time.sleep(0.01)
    return os.getpid()

async def await_file(name):
    open(name + " begun", "w").close()
    while not os.path.exists("go"):
        await asyncio.sleep(0.01)
    return os.getpid()
"""
    result = with_members(site, body, functions)
    assert (result.code, result.err) == (0, ""), result
    assert lines(result) == ["4", "[0, 1, 4]", "[1, 1]", "[-15, -15, -15]", "['joined', 'left']"]


def test_ranks_that_serve_under_a_name(site: Site, tmp_path: Path) -> None:
    env = {"AIOMPI_NAMES": str(tmp_path)}
    server = site.launch("-n", "2", "-m", "aiompi.futures.server", "--service", "mine", env=env)
    body = """
MPI.Init_thread(MPI.THREAD_MULTIPLE)
until(lambda: published("mine"))
with MPIPoolExecutor(service="mine") as executor:
    print([*executor.map(square, range(5))], executor.num_workers)
try:
    MPIPoolExecutor(service="other").submit(square, 1)
except MPI.Exception as error:
    print(error)
"""
    functions = """
def published(name):
    try:
        return MPI.Lookup_name(name)
    except MPI.Exception:
        return False

"""
    main = f"if __name__ == '__main__':{textwrap.indent(body, '    ')}"
    client = site.start(sys.executable, site.program(HEAD + functions + main), env=env)
    result = client.finish()
    assert (result.code, result.err) == (0, ""), result
    assert lines(result)[0] == "[0, 1, 4, 9, 16] 2"
    assert "'other' is not published" in lines(result)[1]
    assert server.finish().code == 0
