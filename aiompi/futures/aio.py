"""`pool`: an executor of the native face, whose workers are other processes and whose results are awaited."""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Final, TypeVar

from aiompi.base.lazy import is_array
from aiompi.comm import Communicator
from aiompi.create import ports
from aiompi.driver.spin import cores
from aiompi.driver.threads import call_in_thread
from aiompi.errors import InvalidPortError, InvalidRootError, LocalProtocolError
from aiompi.face.native import Intracomm
from aiompi.futures.progress import Progress, size_of
from aiompi.futures.setup import Setup
from aiompi.futures.task import Task, apply_to_all, is_async
from aiompi.futures.worker import Worker, serve_async
from aiompi.futures.workers import CONCURRENCY, Workers, spawner
from aiompi.job.joining import init, join
from aiompi.job.members import Job, Membership, ServedJob
from aiompi.net.interfaces import own_address_towards
from aiompi.settings import Settings
from aiompi.settings import load as load_settings

T = TypeVar("T")
#: attribute of a member that has a pool: the port at which it takes workers
_POOL: Final = "aiompi.pool"
#: seconds after which an unreachable pool must have left the job
_PATIENCE: Final = 15.0


@asynccontextmanager
async def pool(
    comm: Intracomm | None = None,
    root: int = 0,
    max_workers: int | None = None,
    initializer: Callable[..., object] | None = None,
    initargs: Iterable[Any] = (),
    *,
    retries: int = 0,
    concurrency: int = CONCURRENCY,
    start: int | None = None,
    job: Job | str | None = None,
    key: str | bytes | None = None,
) -> AsyncIterator[TaskPool | None]:
    """A block in which one process has a pool of workers.

        async with aiompi.futures.pool(world) as executor:
            if executor is not None:
                print(await executor.submit(pow, 2, 10))

    Args:
        comm: communicator of the workers and of this process; if it has one rank, this rank is the worker, too. Other
            messages on the communicator are not disturbed. None: the pool starts its workers and replaces failed ones;
            this process must not be a rank yet.
        root: rank that has the pool.
        max_workers: most workers that are used at once, by default all.
        initializer: called with `initargs` by each worker before its first task.
        retries: how many times a task is given to another worker after a failure of its worker. When no retry is left,
            the task fails with BrokenExecutor, whose cause is the ProcessFailedError.
        concurrency: coroutine functions that a worker runs at once.
        start: number of workers to start if `comm` is None. The default is none if there is a `job`, otherwise
            `max_workers`, or else one for each core. Other workers may join; see `TaskPool.open_port`.
        job: the job that the pool joins: a job of `aiompi.serve`, or the address of a job. Its members become workers
            by calling `work`.
        key: key of the job at the address; by default from AIOMPI_KEY, or the file that AIOMPI_KEY_FILE names.

    Returns:
        The pool at the root, where leaving the block waits for all tasks. None at the workers, where entering the block
        returns only when the root has left its block.

    Raises:
        InvalidRootError: the communicator has no such rank.
        ValueError: max_workers is not positive.
    """
    if comm is not None and not 0 <= root < comm.size:
        raise InvalidRootError(f"pool: root {root} is no rank of {comm!r}")
    if max_workers is not None and max_workers <= 0:
        raise ValueError(f"max_workers must be positive, not {max_workers}")
    setup = Setup(initializer=initializer, initargs=tuple(initargs), main=comm is None)
    options = {"limit": max_workers, "setup": setup.calls(), "retries": retries, "concurrency": concurrency}
    if comm is None:
        count = (0 if job is not None else max_workers or cores()) if start is None else start
        async with _pool_of_others(count, job, key, options) as tasks:
            yield tasks
        return
    if job is not None:
        raise ValueError("the workers of this pool are the ranks of its communicator: make a pool of a job without one")
    own: Intracomm = await comm.Dup()
    worker = Worker(own._core, own._codec, root)
    try:
        if comm.rank != root:
            if (left := await serve_async(worker)) is not None:
                raise left
            yield None
        else:
            workers = Workers(own._core.engine, own._codec)
            workers.add(own._core)
            async with _closing(TaskPool(workers, None, **options), worker if worker.is_alone else None) as tasks:
                yield tasks
    finally:
        await own.Free()


@asynccontextmanager
async def _pool_of_others(
    count: int, job: Job | str | None, key: str | bytes | None, options: dict[str, Any]
) -> AsyncIterator[TaskPool]:
    """A pool in a process that is no rank; see `pool`.

    Args:
        count: number of workers to start.
    """
    async with init(settings=await _reachable_by(job)) as world, AsyncExitStack() as stack:
        alone = world._runtime.self_comm
        workers = Workers(alone.engine, world._codec, spawner(alone) if count else None)
        if count:
            workers.start(count)
        tasks = await stack.enter_async_context(_closing(TaskPool(workers, alone, **options)))
        if job is not None:
            address = job if isinstance(job, str) else job.address
            secret = job.key if isinstance(job, ServedJob) else key
            await stack.enter_async_context(join(address, secret, attributes={_POOL: await tasks.open_port()}))
        yield tasks


async def _reachable_by(job: Job | str | None) -> Settings | None:
    """Return settings by which other members of a job can reach this process; None to keep the environment's."""
    settings = load_settings()
    if job is None or settings.bind or settings.interface:
        return None
    host, _, port = (job if isinstance(job, str) else job.address).rpartition(":")
    address = await asyncio.to_thread(own_address_towards, host.strip("[]"), int(port) if port.isdecimal() else 0)
    return dataclasses.replace(settings, interface=address)


async def work(place: str | Membership) -> None:
    """Be a worker of a pool until its block is left. The process must not be a rank yet.

    If this call is cancelled, as by SIGTERM in a member of a job, the worker leaves: it completes the tasks that it has
    begun, and its other tasks go to other workers. If this call is cancelled again, the worker gives up its tasks as if
    it had failed.

    Args:
        place: name of a port, from `TaskPool.open_port`; or the membership of this process in a job, to work for the
            first pool of the job.

    Raises:
        InvalidPortError: there is no such port, or it cannot be reached.
        ProcessFailedError: the process of the pool has failed.
    """
    async with init() as world:
        alone = world._runtime.self_comm
        core = await (ports.connect(alone, place, 0) if isinstance(place, str) else _find(alone, place))
        left = await serve_async(Worker(core, world._codec, 0))
    if left is not None:
        raise left


async def _find(alone: Communicator, member: Membership) -> Communicator:
    """Connect to the pool of a job; wait until there is one."""
    changes = member.job.changes()
    refused: dict[int, InvalidPortError] = {}
    while True:
        members = {other.id: other for other in member.job.members()}
        refused = {number: error for number, error in refused.items() if number in members}
        for number in [number for number, other in members.items() if _POOL in other.attributes]:
            if number not in refused:
                try:
                    return await ports.connect(alone, str(members[number].attributes[_POOL]), 0)
                except InvalidPortError as error:  # the pool is about to leave, or cannot be reached
                    refused[number] = error
        try:
            await asyncio.wait_for(anext(changes), _PATIENCE if refused else None)
        except TimeoutError:
            raise next(iter(refused.values())) from None
        except StopAsyncIteration:
            raise LocalProtocolError("this process has left the job in which it waits for a pool") from None


@asynccontextmanager
async def _closing(tasks: TaskPool, worker: Worker | None = None) -> AsyncIterator[TaskPool]:
    """Close the pool after the block. A single rank serves its own pool meanwhile."""
    own_worker = None if worker is None else asyncio.create_task(serve_async(worker))
    try:
        yield tasks
    finally:
        await tasks.aclose()
        if own_worker is not None:
            await own_worker


class TaskPool:
    """Calls functions on other ranks; `pool` makes it."""

    def __init__(self, workers: Workers, alone: Communicator | None, **options: Any) -> None:
        self._workers = workers
        self._alone = alone
        self._queue = workers.open(**options)
        self._loop = asyncio.get_running_loop()
        self._driver = workers.engine.driver

    @property
    def num_workers(self) -> int:
        """Number of living workers that the pool uses; 0 once it is broken."""
        return self._queue.size

    async def bootup(self) -> None:
        """Wait until the started workers have connected."""
        await asyncio.gather(*self._workers.arriving)

    async def open_port(self) -> str:
        """Let other processes become workers at any time, by calling `work`.

        Returns:
            The name of a port. The name contains a key: any process on this machine that knows the name can connect. A
            process on another machine can connect only if the setting `bind` allows it.

        Raises:
            RuntimeError: the workers of this pool are the ranks of a communicator.
        """
        if self._alone is None:
            raise RuntimeError("the workers of this pool are the ranks of its communicator: make a pool without one")
        return await self._workers.engine.spawn(self._workers.admit(self._alone))

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> asyncio.Future[Any]:
        """Call `fn(*args, **kwargs)` on a worker: a coroutine function is awaited, another function runs in a thread.

        Returns:
            A future to be awaited. The future fails with the exception of the call, even CancelledError, SystemExit or
            KeyboardInterrupt; the `__cause__` of the exception has the traceback in the worker. Cancelling the future
            withdraws the task if no worker has begun it. Otherwise it cancels a coroutine function, or drops the result
            of another function.

        Raises:
            RuntimeError: the block of the pool has been left.
            LocalProtocolError: the calling thread or event loop is not the one of the pool.
            BrokenExecutor: a worker could not be initialized, or all workers are gone.
        """
        self._driver.check_thread()
        if self._queue.closed:
            raise RuntimeError("this pool has been closed: its block has been left")
        if self._queue.broken is not None:
            raise self._queue.broken
        future: asyncio.Future[Any] = self._loop.create_future()
        task = Task((fn, args, kwargs), _Promise(future))
        if task.is_async:
            future.add_done_callback(lambda future: self._workers.withdraw(task) if future.cancelled() else None)
        self._workers.submit(self._queue, task)
        return future

    async def map(
        self,
        fn: Callable[..., Any],
        *iterables: Iterable[Any],
        chunksize: int = 1,
        buffersize: int | None = None,
        unordered: bool = False,
        progress: str | None = None,
    ) -> AsyncIterator[Any]:
        """Make calls like the built-in `map`, by the workers; see `starmap`."""
        source = _Source(self, zip(*iterables, strict=False), all(map(_is_quick, iterables)))
        with Progress(progress, size_of(*iterables)) as bar:
            async for result in self._results(fn, source, chunksize, buffersize, unordered, bar):
                yield result

    async def starmap(
        self,
        fn: Callable[..., Any],
        iterable: Iterable[Iterable[Any]],
        chunksize: int = 1,
        buffersize: int | None = None,
        unordered: bool = False,
        progress: str | None = None,
    ) -> AsyncIterator[Any]:
        """Make calls like `itertools.starmap`, by the workers.

        Items are taken from the iterable only as far as `buffersize` allows, so it may be infinite. From an iterable
        that is not a built-in container, items are taken in other threads, so that a slow iterable does not block the
        event loop.

        Args:
            iterable: the arguments of each call.
            chunksize: number of calls that are sent to a worker at a time.
            buffersize: maximum number of submitted chunks whose results have not been taken; by default twice the
                number that the workers run at once.
            unordered: yield results as they become ready.
            progress: name of a progress bar that is shown during the iteration, if standard error is a terminal and
                `rich` is installed; None for no bar.

        Yields:
            The results. When the iterator is closed, the calls that no worker has begun are cancelled.

        Raises:
            ValueError: chunksize or buffersize is not positive.
        """
        source = _Source(self, iterable, _is_quick(iterable))
        with Progress(progress, size_of(iterable)) as bar:
            async for result in self._results(fn, source, chunksize, buffersize, unordered, bar):
                yield result

    async def _results(
        self,
        fn: Callable[..., Any],
        source: _Source,
        chunksize: int,
        buffersize: int | None,
        unordered: bool,
        bar: Progress,
    ) -> AsyncIterator[Any]:
        self._driver.check_thread()
        for name, value in (("chunksize", chunksize), ("buffersize", buffersize)):
            if value is not None and value < 1:
                raise ValueError(f"{name} must be positive, not {value}")
        tasks = self._queue.concurrency if is_async(fn) else 1
        futures: list[asyncio.Future[Any]] = []
        try:
            while True:
                most = buffersize or 2 * max(1, self._queue.size) * tasks  # workers may come and go
                while len(futures) < most and (chunk := source.take(chunksize)):
                    futures.append(bar.count(self.submit(apply_to_all, fn, chunk), len(chunk)))
                wanted = futures if unordered else futures[:1]
                ready = next((future for future in wanted if future.done()), None)
                if ready is not None:
                    futures.remove(ready)
                    for result in ready.result():
                        yield result
                elif wanted or source.drawing is not None:
                    drawing = [] if source.drawing is None else [source.drawing]
                    await asyncio.wait([*wanted, *drawing], return_when=asyncio.FIRST_COMPLETED)
                else:
                    break
            if source.error is not None:  # after the results of all calls before it
                raise source.error
        finally:
            for future in futures:
                future.cancel()

    async def aclose(self) -> None:
        """Accept no more tasks, and dismiss the workers when all tasks are done."""
        self._queue.closed = True
        await self._workers.dismiss()


#: types of iterables from which the event loop itself takes items, because this takes no time; array types are not here
_QUICK: Final = frozenset(
    {list, tuple, range, str, bytes, dict, set, frozenset, deque, itertools.count, itertools.repeat}
)


def _is_quick(iterable: object) -> bool:
    return type(iterable) in _QUICK or is_array(iterable)


class _Source:
    """The chunks of an iterable, taken one at a time.

    Args:
        quick: True if taking an item takes no time. Otherwise another thread takes the items.

    Attributes:
        drawing: future of the next chunk, complete when all items of the chunk have been taken from the iterable; None
            while no chunk is being taken.
        error: the exception of the iterable.
    """

    def __init__(self, pool: TaskPool, iterable: Iterable[Iterable[Any]], quick: bool) -> None:
        self.drawing: asyncio.Future[list[Any]] | None = None
        self.error: BaseException | None = None
        self._items = map(tuple, iterable)
        self._pool = pool
        self._quick = quick
        self._ended = False

    def take(self, size: int) -> list[Any]:
        """Return the next chunk, of at most `size` calls; an empty list at the end, or while the chunk is not ready."""
        if self._ended:
            return []
        if self.drawing is None:
            self._draw(size)
        if self.drawing is None or not self.drawing.done():
            return []
        chunk, self.drawing = self.drawing.result(), None
        self._ended = len(chunk) < size
        return chunk

    def _draw(self, size: int) -> None:
        self.drawing = self._pool._loop.create_future()
        promise = _Promise(self.drawing)
        if self._quick:
            promise.succeed(self._chunk(size))
        else:
            call_in_thread(self._pool._driver, lambda: self._chunk(size), lambda chunk, _: promise.succeed(chunk))

    def _chunk(self, size: int) -> list[Any]:
        chunk: list[Any] = []
        try:
            chunk.extend(itertools.islice(self._items, size))  # also the items before an error
        except BaseException as error:
            self.error = error
        return chunk


class _Promise:
    """A future of asyncio that gets the outcome of a task, unless it is cancelled."""

    __slots__ = ("_future",)

    def __init__(self, future: asyncio.Future[Any]) -> None:
        self._future = future

    def start(self) -> bool:
        return not self._future.cancelled()

    def succeed(self, result: Any) -> None:
        if not self._future.done():
            self._future.set_result(result)

    def fail(self, error: BaseException) -> None:
        if isinstance(error, StopIteration):  # a future of asyncio cannot have this exception
            error, error.__cause__ = RuntimeError(f"the task raised {error!r}"), error
        if not self._future.done():
            self._future.set_exception(error)
