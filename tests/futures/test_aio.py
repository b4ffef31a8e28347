"""Pools of the native face: ranks of one process, whose workers call functions in threads."""

from __future__ import annotations

import asyncio
import pickle
import threading
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import numpy as np
import pytest

import aiompi
from aiompi.futures import BrokenExecutor, TaskPool, pool
from aiompi.futures.task import RemoteTraceback


def with_pool(use: Callable[[TaskPool], Awaitable[None]], size: int = 3, **options: Any) -> None:
    """Run a world in which rank 0 uses a pool of the others."""

    async def rank(world: aiompi.Intracomm) -> None:
        async with pool(world, **options) as executor:
            assert (executor is not None) == (world.rank == options.get("root", 0))
            if executor is not None:
                await use(executor)

    async def main() -> None:
        async with asyncio.timeout(30), asyncio.TaskGroup() as group:
            for world in aiompi.local_world(size):
                group.create_task(rank(world))

    asyncio.run(main())


async def plus_one(number: int) -> int:
    await asyncio.sleep(0)
    return number + 1


def name_of_thread() -> str:
    return threading.current_thread().name


class TwoArgumentError(Exception):
    """Cannot be unpickled: its arguments are not what `args` says."""

    def __init__(self, number: int, text: str) -> None:
        super().__init__(number)


def fail_strangely() -> None:
    raise TwoArgumentError(1, "text")


@pytest.mark.parametrize(("size", "root"), [(1, 0), (2, 1), (3, 0), (3, 2)])
def test_results_are_awaited(size: int, root: int) -> None:
    async def use(executor: TaskPool) -> None:
        results = await asyncio.gather(*(executor.submit(pow, base, 2) for base in range(50)))
        assert results == [base**2 for base in range(50)]
        assert await executor.submit(dict, a=1) == {"a": 1}

    with_pool(use, size, root=root)


def test_functions_run_in_threads_and_coroutine_functions_in_the_loop() -> None:
    async def use(executor: TaskPool) -> None:
        assert await executor.submit(plus_one, 1) == 2
        assert await executor.submit(name_of_thread) != threading.main_thread().name

    with_pool(use)


def test_arrays() -> None:
    array = np.arange(100_000.0)

    async def use(executor: TaskPool) -> None:
        result = await executor.submit(np.multiply, array, 2.0)
        np.testing.assert_array_equal(result, array * 2)

    with_pool(use)


@pytest.mark.parametrize("chunksize", [1, 3, 100])
@pytest.mark.parametrize("unordered", [False, True])
def test_map(chunksize: int, unordered: bool) -> None:
    async def use(executor: TaskPool) -> None:
        results = [x async for x in executor.map(pow, range(10), [3] * 12, chunksize=chunksize, unordered=unordered)]
        assert (sorted(results) if unordered else results) == [base**3 for base in range(10)]
        assert [x async for x in executor.starmap(max, [(1, 2), (4, 3)])] == [2, 4]
        assert [x async for x in executor.map(abs, [])] == []

    with_pool(use)


def test_exceptions_have_the_traceback_of_the_worker() -> None:
    async def use(executor: TaskPool) -> None:
        with pytest.raises(ValueError, match="invalid literal") as caught:
            await executor.submit(int, "x")
        assert isinstance(caught.value.__cause__, RemoteTraceback)
        assert "Traceback (most recent call last)" in str(caught.value.__cause__)
        with pytest.raises(
            RuntimeError, match=r"TwoArgumentError: 1 \(this exception itself cannot be pickled: .*missing 1"
        ):
            await executor.submit(fail_strangely)
        with pytest.raises((AttributeError, pickle.PicklingError), match="lambda"):
            await executor.submit(lambda: None)
        with pytest.raises(TypeError, match=r"cannot pickle '_thread\.lock' object"):
            await executor.submit(threading.Lock)
        assert await executor.submit(abs, -1) == 1, "the pool goes on"

    with_pool(use)


def test_cancelled_tasks_are_not_begun() -> None:
    begun: list[int] = []
    gate = threading.Event()
    _registry.update(begun=begun.append, gate=gate.wait)

    async def use(executor: TaskPool) -> None:
        tasks = [executor.submit(_call, "gate", 20), *(executor.submit(_call, "begun", i) for i in range(5))]
        for task in tasks[2:5]:
            task.cancel()
        gate.set()
        assert await tasks[0]
        await asyncio.wait(tasks)
        assert begun == [0, 4]

    with_pool(use, size=2)


_registry: dict[str, Callable[[Any], Any]] = {}


def _call(name: str, argument: Any) -> Any:
    return _registry[name](argument)


def test_no_more_tasks_at_once_than_asked_for() -> None:
    lock = threading.Lock()
    running: list[int] = []
    most: list[int] = []

    def run(number: int) -> None:
        with lock:
            running.append(number)
            most.append(len(running))
        threading.Event().wait(0.001)
        with lock:
            running.remove(number)

    _registry["run"] = run

    async def use(executor: TaskPool) -> None:
        assert len([x async for x in executor.map(_call, ["run"] * 20, range(20))]) == 20
        assert max(most) <= 2

    with_pool(use, size=5, max_workers=2)


def test_initializer() -> None:
    calls: list[str] = []
    _registry["initializer"] = calls.append

    async def use(executor: TaskPool) -> None:
        assert [x async for x in executor.map(abs, range(20))] == list(range(20))
        assert 1 <= len(calls) <= 2, "once in each worker that had a task"

    with_pool(use, initializer=_call, initargs=("initializer", "called"))


def test_initializer_that_fails() -> None:
    async def use(executor: TaskPool) -> None:
        futures = [executor.submit(abs, number) for number in range(5)]
        for future in futures:
            with pytest.raises(BrokenExecutor, match="could not make itself ready: ValueError"):
                await future
        with pytest.raises(BrokenExecutor):
            executor.submit(abs, 1)

    with_pool(use, initializer=int, initargs=("x",))


def test_leaving_the_block_waits_for_all_tasks() -> None:
    done: list[int] = []
    _registry["done"] = done.append
    kept: list[TaskPool] = []

    async def use(executor: TaskPool) -> None:
        kept.append(executor)
        for number in range(10):
            executor.submit(_call, "done", number)

    with_pool(use)
    assert sorted(done) == list(range(10))
    with pytest.raises(RuntimeError, match="its block has been left"):
        kept[0].submit(abs, 1)


@pytest.mark.parametrize("size", [1, 2])
def test_an_exception_in_the_block(size: int) -> None:
    """It comes out as it is, after all tasks have been done."""
    done: list[int] = []
    _registry["done"] = done.append

    async def rank(world: aiompi.Intracomm) -> None:
        if world.rank:
            async with pool(world):
                return
        with pytest.raises(KeyError, match="mine"):
            async with pool(world) as executor:
                assert executor is not None
                executor.submit(_call, "done", 1)
                raise KeyError("mine")

    async def main() -> None:
        async with asyncio.timeout(30), asyncio.TaskGroup() as group:
            for world in aiompi.local_world(size):
                group.create_task(rank(world))

    asyncio.run(main())
    assert done == [1]


def test_the_communicator_is_free_for_other_traffic() -> None:
    async def rank(world: aiompi.Intracomm) -> None:
        receive = world.irecv(source=(world.rank - 1) % world.size)
        async with pool(world) as executor:
            if executor is not None:
                assert await executor.submit(abs, -1) == 1
        await world.send(world.rank, (world.rank + 1) % world.size)
        assert await receive == (world.rank - 1) % world.size

    async def main() -> None:
        async with asyncio.timeout(30), asyncio.TaskGroup() as group:
            for world in aiompi.local_world(3):
                group.create_task(rank(world))

    asyncio.run(main())


@pytest.mark.parametrize(
    ("size", "options", "error"),
    [(2, {"root": 2}, "root 2 is no rank"), (2, {"max_workers": 0}, "must be positive")],
)
def test_wrong_arguments(size: int, options: dict[str, int], error: str) -> None:
    async def main() -> None:
        (world, *_) = aiompi.local_world(size)
        with pytest.raises((ValueError, aiompi.InvalidRootError), match=error):
            await pool(world, **options).__aenter__()

    asyncio.run(main())


@pytest.fixture(autouse=True)
def forget() -> Iterator[None]:
    yield
    _registry.clear()
