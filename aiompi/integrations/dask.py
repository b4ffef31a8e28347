"""Jobs whose ranks are tasks of Dask.

    async with ranks(4) as allocation:
        results = await allocation.run(main)  # async def main(world): ...

Each rank is a task that is bound to one worker, and occupies one thread of the worker while the job runs. The agent of
a job is on the machine of rank 0. The task that starts the agent returns the key of the job. The workers of the other
ranks fetch the key directly from the worker of that task, so neither the scheduler nor the client sees the key.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from typing import Any, Final
from uuid import uuid4

from distributed import Client, Future, WorkerPlugin, get_client, get_worker, rejoin, secede
from distributed.comm import get_address_host

from aiompi.driver import aio
from aiompi.errors import InvalidArgumentError
from aiompi.integrations.allocation import (
    Allocation,
    Invitation,
    Main,
    RankLostError,
    T,
    be_rank,
    check_size,
    refuse_other_version,
    run_in,
    start_agent,
)
from aiompi.settings import Settings
from aiompi.wire import version

__all__ = ["ranks", "run"]

#: seconds between checks for lost workers, because Dask does not report the loss of a worker
_PERIOD: Final = 1.0


class _Releases(WorkerPlugin):  # type: ignore[misc]
    """Ends those ranks on this worker whose tasks are released, because their caller was cancelled or has ended."""

    name = "aiompi-releases"

    def __init__(self) -> None:
        self.cancels: dict[str, Callable[[], object]] = {}

    def transition(self, key: Any, start: str, finish: str, **kwargs: Any) -> None:
        """A task has changed its state."""
        if finish == "released" and key in self.cancels:
            self.cancels[key]()

    def teardown(self, worker: Any) -> None:
        """The worker is closed."""
        for cancel in [*self.cancels.values()]:
            cancel()


def _serve(size: int, settings: Settings) -> Invitation:
    """Task: start the agent of a job on the machine of this worker."""
    return start_agent(size, settings, get_address_host(get_worker().address))


def _rank(
    invitation: Invitation,
    rank: int,
    settings: Settings | None,
    main: Main[Any],
    kwargs: dict[str, Any],
    *args: Any,
) -> Any:
    """Task: be a rank of a job, in a new event loop."""

    async def body() -> Any:
        with _cancelled_with_task():
            return await be_rank(invitation, rank, settings, main, args, kwargs)

    return aio.run(body())


@contextlib.contextmanager
def _cancelled_with_task() -> Iterator[None]:
    """Cancel the current task of asyncio when the current task of Dask is released."""
    worker, loop, task = get_worker(), asyncio.get_running_loop(), asyncio.current_task()
    key = worker.get_current_task()
    assert task is not None

    def cancel() -> None:
        loop.call_soon_threadsafe(task.cancel)

    async def register() -> _Releases:
        plugin: _Releases | None = worker.plugins.get(_Releases.name)
        if plugin is None:
            plugin = _Releases()
            await worker.plugin_add(plugin, _Releases.name)
        plugin.cancels[key] = cancel
        if key not in worker.state.tasks or worker.state.tasks[key].state == "cancelled":
            cancel()  # the task was released earlier
        return plugin

    plugin = asyncio.run_coroutine_threadsafe(register(), worker.loop.asyncio_loop).result()
    try:
        yield
    finally:
        del plugin.cancels[key]


class _Workers(Allocation):
    """The threads of workers for the tasks of jobs."""

    def __init__(
        self,
        client: Client,
        threads: Mapping[str, int],
        workers: Sequence[str],
        settings: Settings | None,
        options: Mapping[str, Any],
    ) -> None:
        # Two jobs that need the same threads could deadlock if each had some of these threads.
        jobs = min(threads[worker] // workers.count(worker) for worker in workers)
        super().__init__([get_address_host(worker) for worker in workers], settings, jobs)
        self._client = client
        self._workers = workers
        self._options = options

    def _start(
        self, settings: Settings, main: Main[T], args: Sequence[Any], kwargs: dict[str, Any]
    ) -> list[Awaitable[T]]:
        name = f"{getattr(main, '__name__', 'main')}-{uuid4().hex}"
        options = {"pure": False, "retries": 0} | dict(self._options)
        invitation = self._client.submit(
            _serve, self.size, settings, workers=[self._workers[0]], key=f"agent-of-{name}", **options
        )
        futures = [
            self._client.submit(
                _rank, invitation, rank, self._settings, main, kwargs, *args,
                workers=[worker], key=f"rank-{rank}-of-{name}", **options,
            )
            for rank, worker in enumerate(self._workers)
        ]  # fmt: skip
        return [self._result(rank, future, invitation) for rank, future in enumerate(futures)]

    async def _result(self, rank: int, future: Future, invitation: Future) -> Any:
        """Return the result of a rank."""
        waiting = asyncio.ensure_future(_in_loop(self._client, future._result()))
        try:
            while not (await asyncio.wait([waiting], timeout=_PERIOD))[0]:
                await self._check_worker(rank)
            return await waiting
        except (asyncio.CancelledError, CancelledError):
            if future.status == "cancelled":  # another part of the program has cancelled it, or the scheduler is gone
                raise RankLostError(f"rank {rank}: its task {future.key} was cancelled") from None
            raise
        finally:
            waiting.cancel()
            future.release()
            invitation.release()

    async def _check_worker(self, rank: int) -> None:
        there = await _in_loop(self._client, self._client.scheduler.ncores())
        if self._workers[rank] not in there:
            raise self._lost(rank, f"its worker {self._workers[rank]} is gone")


async def _check_versions(client: Client, workers: Sequence[str]) -> None:
    """Let each worker compare its version of aiompi with this process's. This needs no thread of the worker."""
    call = client._run(refuse_other_version, *version.own, workers=[*dict.fromkeys(workers)], on_error="return")
    for worker, answer in (await _in_loop(client, call)).items():
        if isinstance(answer, version.OtherVersionError):
            raise version.OtherVersionError(f"worker {worker} refuses this program: {answer}")
        if isinstance(answer, Exception):
            raise answer


async def _in_loop(client: Client, coroutine: Coroutine[Any, Any, T]) -> T:
    """Await a coroutine in the event loop of a client."""
    loop = client.loop.asyncio_loop
    if loop is asyncio.get_running_loop():
        return await coroutine
    return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(coroutine, loop))


@contextlib.asynccontextmanager
async def ranks(
    size: int,
    *,
    client: Client | None = None,
    workers: Sequence[str] | str | None = None,
    settings: Settings | None = None,
    **options: Any,
) -> AsyncIterator[Allocation]:
    """Choose workers for ranks: on each worker at most one rank per thread. Ranks of one machine are neighbours.

    Args:
        size: number of ranks.
        client: client of the cluster; by default the current client. In a task, the current client is that of the
            task's worker.
        workers: addresses, names or machines of the workers to choose from; all by default.
        settings: used by all ranks and the agent; by default they come from the environment.
        options: further options of `Client.submit`, such as resources and priority.

    Raises:
        InvalidArgumentError: the workers have too few threads.
        OtherVersionError: a worker has a version of aiompi with another protocol.
    """
    check_size(size)
    client = client or get_client()
    identity = await _in_loop(client, client.scheduler.identity(n_workers=-1))
    threads = _threads(identity["workers"], workers)
    chosen = _choose(size, threads)
    await _check_versions(client, chosen)
    yield _Workers(client, threads, chosen, settings, options)


def _threads(known: Mapping[str, Mapping[str, Any]], wanted: Sequence[str] | str | None) -> dict[str, int]:
    """Return the number of threads by address of worker. Workers of one machine are neighbours."""
    names = {wanted} if isinstance(wanted, str) else None if wanted is None else set(wanted)
    return {
        address: worker["nthreads"]
        for address, worker in sorted(known.items(), key=lambda item: (get_address_host(item[0]), item[0]))
        if names is None or not names.isdisjoint((address, worker["name"], get_address_host(address)))
    }


def _choose(size: int, threads: Mapping[str, int]) -> list[str]:
    """Return the address of the worker for each rank."""
    if sum(threads.values()) < size:
        raise InvalidArgumentError(
            f"{size} ranks need as many threads of workers, and there are {sum(threads.values())} of "
            f"{len(threads)} workers: {', '.join(threads) or 'none'}"
        )
    counts = dict.fromkeys(threads, 0)
    while size:
        for address in counts:
            if size and counts[address] < threads[address]:
                counts[address] += 1
                size -= 1
    return [address for address, count in counts.items() for _ in range(count)]


def run(size: int, main: Main[T], *args: Any, **placement: Any) -> list[T]:
    """Run one job, and block until it has ended. Call this in a program without an event loop, or in a task of Dask.

        future = client.submit(run, 4, main)

    Args:
        size: number of ranks.
        main: function that each rank calls with its World and `args`.
        args: of `main`.
        placement: keyword arguments of `ranks`.

    Returns:
        The results, in rank order.
    """
    try:
        secede()  # the thread is not needed while the ranks run
    except (ValueError, AttributeError):
        return run_in(ranks(size, **placement), main, args)
    try:
        return run_in(ranks(size, **placement), main, args)
    finally:
        rejoin()
