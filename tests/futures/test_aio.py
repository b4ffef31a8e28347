"""Test pools of the native face. The ranks share one process, in which workers call functions in threads."""

from __future__ import annotations

import asyncio
import contextvars
import copyreg
import functools
import itertools
import pickle
import threading
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import numpy as np
import pytest

import aiompi
from aiompi.futures import BrokenExecutor, TaskPool, pool
from aiompi.futures.worker import Worker, serve_async
from aiompi.futures.workers import Workers
from aiompi.objects.remote_error import RemoteTraceback
from support.limits import LIMIT


def with_pool(use: Callable[[TaskPool], Awaitable[None]], size: int = 3, **options: Any) -> None:
    """Run a world in which rank 0 uses a pool of the others."""

    async def rank(world: aiompi.Intracomm) -> None:
        async with pool(world, **options) as executor:
            assert (executor is not None) == (world.rank == options.get("root", 0))
            if executor is not None:
                await use(executor)

    async def main() -> None:
        async with asyncio.timeout(LIMIT), asyncio.TaskGroup() as group:
            for world in aiompi.local_world(size):
                group.create_task(rank(world))

    asyncio.run(main())


async def plus_one(number: int) -> int:
    await asyncio.sleep(0)
    return number + 1


def name_of_thread() -> str:
    return threading.current_thread().name


class TwoArgumentError(Exception):
    """An exception that cannot be unpickled, because `args` lacks an argument of its constructor."""

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


def test_exceptions_have_the_traceback_of_the_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    # Dask, which other tests of this process may have imported, has tblib pickle all exceptions in a way of its own.
    monkeypatch.delitem(copyreg.dispatch_table, TwoArgumentError, raising=False)

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
        assert await executor.submit(abs, -1) == 1, "the pool still works"

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
        assert 1 <= len(calls) <= 2, "the initializer is called once in each worker that had a task"

    with_pool(use, initializer=_call, initargs=("initializer", "called"))


def test_initializer_that_fails() -> None:
    async def use(executor: TaskPool) -> None:
        futures = [executor.submit(abs, number) for number in range(5)]
        for future in futures:
            with pytest.raises(BrokenExecutor, match="could not be initialized: ValueError"):
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
    """The block raises the exception unchanged, after all tasks are done."""
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
        async with asyncio.timeout(LIMIT), asyncio.TaskGroup() as group:
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
        async with asyncio.timeout(LIMIT), asyncio.TaskGroup() as group:
            for world in aiompi.local_world(3):
                group.create_task(rank(world))

    asyncio.run(main())


async def raise_in_coroutine(error: BaseException) -> None:
    await asyncio.sleep(0)
    raise error


def raise_in_thread(error: BaseException) -> None:
    raise error


async def cancel_itself() -> None:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    await asyncio.sleep(10)


@pytest.mark.parametrize("size", [1, 2])
@pytest.mark.parametrize("function", [raise_in_coroutine, raise_in_thread])
@pytest.mark.parametrize("kind", [asyncio.CancelledError, SystemExit, KeyboardInterrupt, GeneratorExit, StopIteration])
def test_a_task_that_raises_fails_its_future_only(
    size: int, function: Callable[..., Any], kind: type[BaseException]
) -> None:
    async def use(executor: TaskPool) -> None:
        future = executor.submit(function, kind("of the task"))
        await asyncio.wait([future])
        error = future.exception()
        if kind is StopIteration:  # asyncio's futures and coroutines cannot have it
            assert isinstance(error, RuntimeError)
            assert "StopIteration" in str(error)
        else:
            assert type(error) is kind
            assert str(error) == "of the task"
        chunk = executor.starmap(function, [(kind("of a chunk"),)], chunksize=3)
        with pytest.raises(RuntimeError if kind is StopIteration else kind):
            await chunk.__anext__()
        assert await executor.submit(abs, -1) == 1, "the worker still works"

    with_pool(use, size)


def test_a_task_that_cancels_itself() -> None:
    async def use(executor: TaskPool) -> None:
        future = executor.submit(cancel_itself)
        await asyncio.wait([future])
        assert isinstance(future.exception(), asyncio.CancelledError)
        assert await executor.submit(plus_one, 1) == 2

    with_pool(use)


@pytest.mark.parametrize("again", [False, True])
def test_a_worker_that_is_cancelled_ends_its_task_unless_it_is_cancelled_again(again: bool) -> None:
    events: list[str] = []
    begun = asyncio.Event()

    async def task() -> int:
        begun.set()
        try:
            await asyncio.sleep(10 if again else 0.05)
            return 5
        finally:
            await asyncio.sleep(0)
            events.append("task ended")

    _registry["task"] = lambda _: task()

    async def main() -> None:
        first, second = aiompi.local_world(2)
        workers = Workers(first._core.engine, first._codec)
        workers.add(first._core)
        executor = TaskPool(workers, None, limit=None)
        serving = asyncio.create_task(serve_async(Worker(second._core, second._codec, 0)))
        future = executor.submit(_call, "task", None)
        await begun.wait()
        serving.cancel()
        late = executor.submit(plus_one, 1)
        if again:
            await asyncio.sleep(0.02)
            serving.cancel()
            with pytest.raises(asyncio.CancelledError):
                await serving
            assert not future.done(), "the master notices that the worker is gone, as when it dies"
        else:
            assert isinstance(await serving, asyncio.CancelledError)
            assert (await future, executor.num_workers) == (5, 0)
            with pytest.raises(BrokenExecutor, match="the last one has left"):
                await late
        assert events == ["task ended"]

    asyncio.run(main())


class AsyncCallable:
    async def __call__(self, number: int) -> int:
        return await plus_one(number)


def plain_wrapper(number: int) -> Awaitable[int]:
    return plus_one(number)


@pytest.mark.parametrize(
    "function",
    [plus_one, functools.partial(plus_one), AsyncCallable(), plain_wrapper, functools.partial(plain_wrapper)],
)
@pytest.mark.parametrize("chunksize", [1, 4])
def test_map_of_coroutine_functions(function: Callable[[int], Any], chunksize: int) -> None:
    async def use(executor: TaskPool) -> None:
        assert await executor.submit(function, 1) == 2
        assert [x async for x in executor.map(function, range(9), chunksize=chunksize)] == list(range(1, 10))
        items = [(i,) for i in range(9)]
        assert {x async for x in executor.starmap(function, items, chunksize, unordered=True)} == set(range(1, 10))

    with_pool(use)


def fail_wrapped(number: int) -> Awaitable[None]:
    return raise_in_coroutine(KeyError(number))


def test_a_coroutine_function_that_fails_in_a_chunk() -> None:
    async def use(executor: TaskPool) -> None:
        with pytest.raises(KeyError, match="0"):
            await executor.map(fail_wrapped, range(5), chunksize=5).__anext__()

    with_pool(use)


NUMBER: contextvars.ContextVar[int] = contextvars.ContextVar("number")


async def set_number(number: int) -> None:
    NUMBER.set(number)


def number_in_thread() -> int:
    return NUMBER.get()


async def number_in_coroutine() -> int:
    return NUMBER.get()


def test_variables_of_an_initializer_that_is_a_coroutine_function() -> None:
    async def use(executor: TaskPool) -> None:
        assert await executor.submit(number_in_thread) == 7
        assert await executor.submit(number_in_coroutine) == 7

    with_pool(use, initializer=set_number, initargs=(7,))


@pytest.mark.parametrize("unordered", [False, True])
@pytest.mark.parametrize(("chunksize", "buffersize", "most"), [(1, None, 4), (3, None, 12), (1, 1, 1), (2, 5, 10)])
def test_iterables_are_drawn_lazily(unordered: bool, chunksize: int, buffersize: int | None, most: int) -> None:
    """At most two chunks for each worker, or `buffersize`, are drawn before results are taken."""
    drawn = 0

    def endless() -> Iterator[int]:
        nonlocal drawn
        while True:
            drawn += 1
            yield drawn

    async def use(executor: TaskPool) -> None:
        taken = 0
        results = executor.map(abs, endless(), chunksize=chunksize, buffersize=buffersize, unordered=unordered)
        async for _ in results:
            taken += 1
            await asyncio.sleep(0.002)
            assert drawn <= most + taken + chunksize - 1
            if taken == 20:
                break
        await results.aclose()  # type: ignore[attr-defined]

    with_pool(use)


@pytest.mark.parametrize("iterable", [itertools.count(), itertools.repeat(1), iter(itertools.count())])
def test_infinite_iterables(iterable: Iterator[int]) -> None:
    async def use(executor: TaskPool) -> None:
        results = executor.map(abs, iterable)
        assert len([await results.__anext__() for _ in range(30)]) == 30
        await results.aclose()  # type: ignore[attr-defined]

    with_pool(use)


def test_a_slow_iterable_blocks_neither_the_loop_nor_the_results_before_it() -> None:
    released = threading.Event()

    def slow() -> Iterator[int]:
        yield 1
        assert released.wait(LIMIT), "the loop is blocked"
        yield 2

    async def use(executor: TaskPool) -> None:
        results = executor.map(abs, slow())
        assert await results.__anext__() == 1
        rest = asyncio.ensure_future(results.__anext__())
        await asyncio.sleep(0.01)
        assert not rest.done()
        released.set()
        assert await rest == 2
        assert [x async for x in results] == []

    with_pool(use)


@pytest.mark.parametrize("chunksize", [1, 2, 5])
def test_what_an_iterable_raises_comes_after_the_results_before_it(chunksize: int) -> None:
    def broken() -> Iterator[int]:
        yield from range(3)
        raise OSError("no more")

    async def use(executor: TaskPool) -> None:
        results: list[int] = []
        with pytest.raises(OSError, match="no more"):
            async for result in executor.map(abs, broken(), chunksize=chunksize):
                results += [result]
        assert results == [0, 1, 2]
        with pytest.raises(TypeError, match="not iterable"):
            await executor.starmap(abs, [1]).__anext__()  # type: ignore[list-item]

    with_pool(use)


@pytest.mark.parametrize("name", ["chunksize", "buffersize"])
def test_sizes_must_be_positive(name: str) -> None:
    async def use(executor: TaskPool) -> None:
        with pytest.raises(ValueError, match=f"{name} must be positive, not 0"):
            await executor.map(abs, [1], **{name: 0}).__anext__()

    with_pool(use)


@pytest.mark.parametrize(
    ("size", "options", "error"),
    [(2, {"root": 2}, "root 2 is no rank"), (2, {"max_workers": 0}, "must be positive")],
)
def test_wrong_arguments(size: int, options: dict[str, int], error: str) -> None:
    async def main() -> None:
        (world, *_) = aiompi.local_world(size)
        with pytest.raises((ValueError, aiompi.MPI.InvalidRootError), match=error):
            await pool(world, **options).__aenter__()

    asyncio.run(main())


@pytest.fixture(autouse=True)
def forget() -> Iterator[None]:
    yield
    _registry.clear()
