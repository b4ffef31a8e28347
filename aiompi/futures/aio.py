"""Tasks for other ranks in the native face: results are awaited."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from aiompi.errors import InvalidRootError
from aiompi.face.native import Intracomm
from aiompi.futures.setup import Setup
from aiompi.futures.task import Task, apply_to_all
from aiompi.futures.worker import Worker, serve_async
from aiompi.futures.workers import Queue, Workers

T = TypeVar("T")


@asynccontextmanager
async def pool(
    comm: Intracomm,
    root: int = 0,
    max_workers: int | None = None,
    initializer: Callable[..., object] | None = None,
    initargs: Iterable[Any] = (),
) -> AsyncIterator[TaskPool | None]:
    """A block in which one rank has a pool, and the others are its workers; a rank that is alone is both.

        async with aiompi.futures.pool(world) as executor:
            if executor is not None:
                print(await executor.submit(pow, 2, 10))

    Args:
        comm: its own traffic is not disturbed.
        root: the rank that has the pool.
        max_workers: most tasks under way at once; as many as there are workers by default.
        initializer: called with `initargs` by each worker before its first task.

    Returns:
        The pool at the root; leaving the block there waits for all tasks. None at the workers, and not before the root
        has left its block.

    Raises:
        InvalidRootError: there is no such rank.
        ValueError: max_workers is not positive.
    """
    if not 0 <= root < comm.size:
        raise InvalidRootError(f"pool: root {root} is no rank of {comm!r}")
    if max_workers is not None and max_workers <= 0:
        raise ValueError(f"max_workers must be positive, not {max_workers}")
    setup = Setup(initializer=initializer, initargs=tuple(initargs), main=False)
    own: Intracomm = await comm.Dup()
    worker = Worker(own._core, own._codec, root)
    try:
        if comm.rank != root:
            await serve_async(worker)
            yield None
        else:
            async with _at_root(TaskPool(own, max_workers or comm.size, setup), worker) as tasks:
                yield tasks
    finally:
        await own.Free()


@asynccontextmanager
async def _at_root(tasks: TaskPool, worker: Worker) -> AsyncIterator[TaskPool]:
    """Close the pool after the block. A rank that is alone serves its own pool meanwhile."""
    own_worker = asyncio.create_task(serve_async(worker)) if worker.is_alone else None
    try:
        yield tasks
    finally:
        await tasks.aclose()
        if own_worker is not None:
            await own_worker


class TaskPool:
    """Has functions called by other ranks; made by `pool`."""

    def __init__(self, comm: Intracomm, max_workers: int, setup: Setup) -> None:
        self._queue = Queue(max_workers, setup.calls())
        self._workers = Workers(comm._core, comm._codec)
        self._workers.add(self._queue)
        self._loop = asyncio.get_running_loop()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> asyncio.Future[Any]:
        """Have `fn(*args, **kwargs)` called by a worker: awaited there if it is a coroutine function, else in a thread.

        Returns:
            A future to be awaited. What the call raises has the traceback in the worker as its cause. Cancelling it
            takes the task back if no worker has begun it, and drops its result otherwise.

        Raises:
            RuntimeError: the block of the pool has been left.
            BrokenExecutor: no worker could make itself ready, or all are gone.
        """
        if self._queue.closed:
            raise RuntimeError("this pool has been closed: its block has been left")
        if self._queue.broken is not None:
            raise self._queue.broken
        future: asyncio.Future[Any] = self._loop.create_future()
        self._workers.submit(self._queue, Task((fn, args, kwargs), _Promise(future)))
        return future

    async def map(
        self, fn: Callable[..., Any], *iterables: Iterable[Any], chunksize: int = 1, unordered: bool = False
    ) -> AsyncIterator[Any]:
        """As the built-in `map`, with calls made by the workers; see `starmap`."""
        async for result in self.starmap(fn, zip(*iterables, strict=False), chunksize, unordered):
            yield result

    async def starmap(
        self, fn: Callable[..., Any], iterable: Iterable[Iterable[Any]], chunksize: int = 1, unordered: bool = False
    ) -> AsyncIterator[Any]:
        """As `itertools.starmap`, with calls made by the workers.

        Args:
            iterable: the arguments of each call.
            chunksize: calls that are sent to a worker at a time.
            unordered: results come as they are ready.

        Yields:
            The results. When the iterator is closed, what no worker has begun is cancelled.

        Raises:
            ValueError: chunksize is not positive.
        """
        if chunksize < 1:
            raise ValueError(f"chunksize must be positive, not {chunksize}")
        items = map(tuple, iterable)
        chunks = iter(lambda: list(itertools.islice(items, chunksize)), [])
        futures = [self.submit(apply_to_all, fn, chunk) for chunk in chunks]
        try:
            for next_ready in asyncio.as_completed(futures) if unordered else futures:
                for result in await next_ready:
                    yield result
        finally:
            for future in futures:
                future.cancel()

    async def aclose(self) -> None:
        """Take no tasks any more, and let the workers go when all have been done."""
        self._queue.closed = True
        await self._workers.dismiss()


class _Promise:
    """A future of asyncio that is told the outcome; nobody wants that of a cancelled one."""

    __slots__ = ("_future",)

    def __init__(self, future: asyncio.Future[Any]) -> None:
        self._future = future

    def start(self) -> bool:
        return not self._future.cancelled()

    def succeed(self, result: Any) -> None:
        if not self._future.done():
            self._future.set_result(result)

    def fail(self, error: BaseException) -> None:
        if not self._future.done():
            self._future.set_exception(error)
