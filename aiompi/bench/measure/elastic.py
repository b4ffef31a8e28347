"""Processes of `aiompi.bench.faults` that join and leave jobs: members, spawned children, and pools with workers.

Each process prints its pid when it starts, and the descriptors that it has leaked when it ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import faulthandler
import gc
import json
import math
import os
import random
import signal
import sys
import time
from array import array
from collections.abc import Callable
from typing import Any

import aiompi
from aiompi.bench.measure import storm
from aiompi.bench.measure.storm import LOST, SIZES, Disagreement, WrongResult, check, say
from aiompi.errors import InvalidPortError, JobAbortedError
from aiompi.futures import BrokenExecutor, MPIPoolExecutor, pool, work

_current: list[Any] = []  # the communicators whose links SIGUSR2 may cut


def _cut_link() -> None:
    """Cut a link at random."""
    for comm in _current:
        if peers := [link.peer.rank for link in storm.links(comm._runtime)]:
            storm.cut(comm._runtime, random.choice(peers), random.random() < 0.5)


def _say_kept(before: dict[str, str]) -> None:
    """Say which descriptors are open now and were not open before."""
    _current.clear()
    gc.collect()  # objects that the traceback of a cancelled call has held
    say(of=os.getpid(), kept=[what for number, what in storm.descriptors().items() if number not in before])


async def member(seed: int, address: str, calm: bool) -> None:
    """Be a member of a job until SIGINT or SIGTERM. If `calm` is True, only compute sums."""
    before = storm.descriptors()
    try:
        async with aiompi.join(address, attributes={"pid": os.getpid()}) as membership:
            while True:
                await _in_world(await membership.assemble(), seed, calm)
    except asyncio.CancelledError:
        pass
    except JobAbortedError as error:
        say(of=os.getpid(), expelled=str(error))
    _say_kept(before)


async def visitor(address: str, count: int) -> None:
    """Join a job, compute with its members and leave, `count` times."""
    for _ in range(count):
        async with aiompi.join(address) as membership:
            world = await membership.assemble(at_least=2)
            with contextlib.suppress(*LOST):
                check(await world.allreduce(1), world.size)


async def _in_world(world: aiompi.AssembledWorld, seed: int, calm: bool) -> None:
    """Compute until the world has changed."""
    _current[:] = [world]
    pids = sorted(other.attributes.get("pid", 0) for other in world.members)
    step = 0
    with contextlib.suppress(*LOST, Disagreement):
        while not world.changed.is_set():
            check(await world.allreduce(1), world.size)
            if not step:
                say(of=os.getpid(), world=world.generation, members=pids, at=time.monotonic())
                gc.collect()  # objects of earlier worlds, which hold descriptors of memory before Python 3.13
            step += 1
            if calm:
                await asyncio.sleep(0.001)
            else:
                numbers = random.Random(f"{seed} {world.generation} {step}")
                await numbers.choice(storm.OPERATIONS)(world, numbers)


def child(seed: int) -> None:
    """Compute with the processes that have started this process."""
    say(child=os.getpid())
    from aiompi import MPI  # makes this process a rank

    with contextlib.suppress(*LOST, Disagreement, InvalidPortError, JobAbortedError):
        storm.immediate(storm.with_children(MPI.Comm.Get_parent(), seed, high=True))


def begin_work() -> None:
    """Initialize a worker of a pool."""
    say(pid=os.getpid())


def total(items: array[int]) -> int:
    """Return a sum: a task of a pool."""
    time.sleep(random.random() / 100)
    return sum(items)


async def total_async(items: array[int]) -> int:
    """Return a sum: a coroutine function as a task."""
    await asyncio.sleep(random.random() / 100)
    return sum(items)


def _task(numbers: random.Random) -> tuple[array[int], int]:
    count, value = numbers.choice(SIZES), numbers.randrange(100)
    return array("q", [value]) * count, count * value


def executor(seed: int, size: int, seconds: float) -> None:
    """Let the workers of an executor compute until `seconds` after all workers have started."""
    tasks = Tasks(seed, size, seconds)
    with MPIPoolExecutor(max_workers=size, initializer=begin_work, retries=tasks.retries) as workers:
        while tasks.go_on(workers.num_workers):
            futures = [(workers.submit(total, items), right) for items, right in tasks.some()]
            for future, right in futures:
                tasks.check(future.exception(), future.result, right)


async def master(seed: int, size: int, seconds: float, comes: bool) -> None:
    """Let the workers of an asyncio pool compute until `seconds` after all workers have started."""
    tasks = Tasks(seed, size, seconds)
    start: dict[str, Any] = {"start": 0} if comes else {"max_workers": size}
    before = storm.descriptors()
    async with pool(initializer=begin_work, retries=tasks.retries, **start) as workers:
        assert workers is not None
        if comes:
            say(port=await workers.open_port())
        while tasks.go_on(workers.num_workers):
            function = (total, total_async)[tasks.numbers.randrange(2)]
            futures = [(workers.submit(function, items), right) for items, right in tasks.some()]
            await asyncio.wait([future for future, _ in futures])
            for future, right in futures:
                tasks.check(future.exception(), future.result, right)
    _say_kept(before)


class Tasks:
    """The tasks of a pool, with known results.

    Args:
        seed: of the tasks.
        size: number of workers.
        seconds: time for which the tasks go on once all workers are there.
    """

    def __init__(self, seed: int, size: int, seconds: float) -> None:
        self.numbers = random.Random(seed)
        self.retries = self.numbers.randrange(3) * 10
        self._size, self._seconds, self._end = size, seconds, math.inf

    def go_on(self, workers: int) -> bool:
        """Return True if more tasks are to be run. `workers` is the current number of workers."""
        if workers >= self._size and self._end == math.inf:
            self._end = time.monotonic() + self._seconds
        return workers < self._size or time.monotonic() < self._end

    def some(self) -> list[tuple[array[int], int]]:
        """Return some arrays and their sums."""
        pairs = [(self.numbers.choice(SIZES), self.numbers.randrange(100)) for _ in range(2 * self._size)]
        return [(array("q", [value]) * count, count * value) for count, value in pairs]

    def check(self, error: BaseException | None, result: Callable[[], int], right: int) -> None:
        """Raise WrongResult if a result is wrong or a task has failed. Without retries, BrokenExecutor is allowed."""
        if error is None:
            check(result(), right)
        elif self.retries or not isinstance(error, BrokenExecutor):
            raise WrongResult(f"a task has failed: {error}") from error


def main(kind: str, **what: Any) -> None:
    """Run a process."""
    storm.on_cut(_cut_link)
    if kind == "child":
        child(**what)
    elif kind == "executor":
        executor(**what)
    elif kind in ("pool", "open"):
        asyncio.run(master(**what, comes=kind == "open"))
    elif kind == "worker":
        with contextlib.suppress(*LOST, InvalidPortError):  # the pool has been closed
            asyncio.run(work(what["port"]))
    elif kind == "visitor":
        asyncio.run(visitor(**what))
    else:
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a program in the background ignores it
        begin_work()
        asyncio.run(member(**what))


if __name__ == "__main__":
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    main(**json.loads(sys.argv[1]))
