"""`aiompi.integrations.dask` with a scheduler and workers of Dask."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("distributed", reason="pip install '.[dask]'")

from distributed import Client, Future

import aiompi
from aiompi.integrations.allocation import RankLostError
from aiompi.integrations.dask import ranks, run
from aiompi.wire.version import OtherVersionError
from support import allocated
from support.allocated import (
    add,
    add_blocking,
    fail,
    fail_blocking,
    leave,
    leave_blocking,
    survive,
    wait,
    wait_blocking,
)
from support.jobs import ROOTS
from support.limits import LIMIT
from support.versions import SAID_THERE, other_version

THREADS = 2
ENVIRON = {**os.environ, "PYTHONPATH": os.pathsep.join([*ROOTS, str(Path(allocated.__file__).parents[1])])}


class Cluster:
    """A scheduler and workers, each a process. `start` starts a worker.

    Attributes:
        workers: their processes, by name.
    """

    def __init__(self, place: Path) -> None:
        self.workers: dict[str, subprocess.Popen[bytes]] = {}
        self.file = place / "scheduler.json"
        self._place = place
        self._scheduler = self._dask("scheduler", "--host", "127.0.0.1", "--port", "0")

    def start(self, name: str, path: str = "") -> None:
        """Start a worker, with a PYTHONPATH of its own if there is one."""
        options = ("--name", name, "--nthreads", str(THREADS), "--no-nanny", "--local-directory", str(self._place))
        self.workers[name] = self._dask("worker", "--host", "127.0.0.1", *options, path=path)

    def _dask(self, *words: str, path: str = "") -> subprocess.Popen[bytes]:
        log = (self._place / f"{words[0]}-{len(self.workers)}.log").open("wb")
        command = [sys.executable, "-m", "dask", *words, "--scheduler-file", str(self.file), "--no-dashboard"]
        with log:
            environ = ENVIRON | ({"PYTHONPATH": path} if path else {})
            options = {"stdout": log, "stderr": log, "env": environ, "start_new_session": True}
            return subprocess.Popen(command, cwd=self._place if path else None, **options)

    def close(self) -> None:
        for process in (*self.workers.values(), self._scheduler):
            process.kill()
        for process in (*self.workers.values(), self._scheduler):
            process.wait(LIMIT)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    made = Cluster(tmp_path_factory.mktemp("dask"))
    made.start("first")
    made.start("second")
    try:
        yield made
    finally:
        made.close()


def test_a_worker_with_another_version_is_refused(tmp_path: Path) -> None:
    made = Cluster(tmp_path)
    made.start("old", other_version(tmp_path))

    async def main() -> None:
        async with connected(made, workers=1) as client:
            with pytest.raises(
                OtherVersionError, match=f"^worker tcp://.* refuses this program: {re.escape(SAID_THERE)}$"
            ):
                async with ranks(1, client=client):
                    pass

    try:
        asyncio.run(main())
    finally:
        made.close()


@contextlib.asynccontextmanager
async def connected(cluster: Cluster, workers: int = 2) -> AsyncIterator[Client]:
    async with Client(scheduler_file=str(cluster.file), asynchronous=True, timeout=LIMIT) as client:
        await client.wait_for_workers(workers, timeout=LIMIT)
        yield client


async def until(condition: Callable[[], Awaitable[object]]) -> None:
    """Wait until a condition holds in the cluster."""
    async with asyncio.timeout(LIMIT):
        while not await condition():
            await asyncio.sleep(0.1)


async def places(client: Client) -> list[str]:
    """Return the names of the workers in the order of ranks."""
    known = (await client.scheduler.identity(n_workers=-1))["workers"]
    return [known[address]["name"] for address in sorted(known)]


async def idle(client: Client) -> bool:
    """Return True if no worker runs anything for a rank."""
    return not any((await client.run(busy)).values())


def busy(dask_worker: Any) -> bool:
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    return bool(dask_worker.state.executing_count or children)


@pytest.mark.parametrize("function", [add, add_blocking])
def test_a_function_runs_on_all_ranks(cluster: Cluster, function: Any) -> None:
    async def main() -> None:
        async with connected(cluster) as client, ranks(3, client=client) as allocation:
            start = client.submit(lambda: 100)
            results = await allocation.run(function, start)
            assert [(rank, total) for rank, _, total in results] == [(0, 103), (1, 103), (2, 103)]
            assert allocation.hosts == ("127.0.0.1",) * 3
            workers = {process.pid for process in cluster.workers.values()}
            assert ({pid for _, pid, _ in results} == workers) is (function is add)

    asyncio.run(main())


def test_several_jobs_at_a_time(cluster: Cluster) -> None:
    async def main() -> None:
        async with connected(cluster) as client, ranks(2, client=client) as allocation:
            both = await asyncio.gather(allocation.run(add, 10), allocation.run(add, start=20))
            assert [[total for _, _, total in results] for results in both] == [[11, 11], [21, 21]]
            async with ranks(THREADS * 2, client=client) as full:  # these jobs cannot run at the same time
                assert len(await asyncio.gather(*(full.run(add, 0) for _ in range(5)))) == 5

    asyncio.run(main())


@pytest.mark.parametrize("function", [fail, fail_blocking, leave, leave_blocking])
def test_the_first_failure_ends_the_job(cluster: Cluster, function: Any) -> None:
    raises = function in (fail, fail_blocking)
    kind, text = (ValueError, "no luck") if raises else (RankLostError, "rank 1 exited with status 4")

    async def main() -> None:
        async with connected(cluster) as client, ranks(3, client=client) as allocation:
            with pytest.raises(kind, match=text):
                await allocation.run(function)
            await until(lambda: idle(client))
            assert len(await allocation.run(add, 0)) == 3

    asyncio.run(main())


@pytest.mark.parametrize("function", [wait, wait_blocking])
def test_a_call_that_is_cancelled_ends_the_job(cluster: Cluster, tmp_path: Path, function: Any) -> None:
    async def main() -> None:
        async with connected(cluster) as client, ranks(2, client=client) as allocation:
            job = asyncio.create_task(allocation.run(function, str(tmp_path / "here")))
            await until(lambda: asyncio.to_thread(lambda: len([*tmp_path.iterdir()]) == 2))
            job.cancel()
            with pytest.raises(asyncio.CancelledError):
                await job
            await until(lambda: idle(client))

    asyncio.run(main())


def test_a_task_is_cancelled(cluster: Cluster, tmp_path: Path) -> None:
    """By another part of the program. The others are not cancelled with it."""

    async def main() -> None:
        async with connected(cluster) as client, ranks(2, client=client) as allocation:
            job = asyncio.create_task(allocation.run(wait, str(tmp_path / "here")))
            await until(lambda: asyncio.to_thread(lambda: len([*tmp_path.iterdir()]) == 2))
            await client.cancel([Future(key, client) for key in client.futures if key.startswith("rank-1-of-wait")])
            with pytest.raises(RankLostError, match=r"rank 1: its task rank-1-of-wait-.* was cancelled"):
                await job
            await until(lambda: idle(client))

    asyncio.run(main())


def test_a_job_ends_with_its_client(cluster: Cluster, tmp_path: Path) -> None:
    program = f"""
from support.allocated import wait
from distributed import Client
from aiompi.integrations.dask import run
with Client(scheduler_file={str(cluster.file)!r}):
    run(2, wait, {str(tmp_path / "here")!r})
"""
    caller = subprocess.Popen([sys.executable, "-c", program], env=ENVIRON)

    async def main() -> None:
        await until(lambda: asyncio.to_thread(lambda: len([*tmp_path.iterdir()]) == 2))
        caller.kill()
        caller.wait(LIMIT)
        async with connected(cluster) as client:
            await until(lambda: idle(client))

    asyncio.run(main())


@pytest.mark.parametrize("survives", [False, True])
def test_a_worker_is_killed(cluster: Cluster, survives: bool) -> None:
    """Its rank has failed. The job ends, or the others go on."""

    async def main() -> None:
        cluster.start("victim")
        settings = aiompi.Settings(on_failure="continue" if survives else "")
        names = ["first", "second", "victim"]
        async with connected(cluster, 3) as client:
            order = await places(client)
            victim = order.index("victim")
            async with ranks(3, client=client, workers=names, settings=settings) as allocation:
                job = allocation.run(survive, victim)
                if survives:
                    results = await job
                    assert isinstance(results.pop(victim), RankLostError)
                    assert results == ["2 go on"] * 2
                else:
                    with pytest.raises(RankLostError, match=f"rank {victim}: its worker tcp://.* is gone"):
                        await job
                with pytest.raises(RankLostError, match="is gone; make a new allocation"):
                    await allocation.run(add, 0)
            await until(lambda: idle(client))
        cluster.workers.pop("victim").wait(LIMIT)

    asyncio.run(main())


def test_one_call_in_a_task_and_without_a_loop(cluster: Cluster) -> None:
    with Client(scheduler_file=str(cluster.file)) as client:
        client.wait_for_workers(2, timeout=LIMIT)
        full = THREADS * 2
        future = client.submit(run, full, add, 0)  # the task itself takes no thread meanwhile
        assert [rank for rank, _, _ in future.result(LIMIT)] == [*range(full)]
        assert len({pid for _, pid, _ in run(2, add, 0, workers="first")}) == 1


def test_too_few_threads(cluster: Cluster) -> None:
    async def main() -> None:
        async with connected(cluster) as client:
            with pytest.raises(aiompi.InvalidArgumentError, match=r"5 ranks need as many .* 4 of 2 workers: tcp://"):
                async with ranks(5, client=client):
                    pass
            with pytest.raises(aiompi.InvalidArgumentError, match="0 of 0 workers: none"):
                async with ranks(1, client=client, workers=["third"]):
                    pass

    asyncio.run(main())


def test_ranks_wait_for_each_other_for_a_limited_time(cluster: Cluster, tmp_path: Path) -> None:
    """A worker that is busy with something else delays the start."""

    async def main() -> None:
        async with connected(cluster) as client:
            last = (await places(client))[-1]  # not that of rank 0, where the agent starts
            free = tmp_path / "free"

            def work(path: str) -> None:
                while not os.path.exists(path):
                    time.sleep(0.05)

            tasks = [client.submit(work, str(free), pure=False, workers=[last]) for _ in range(THREADS)]
            settings = aiompi.Settings(start_timeout=1)
            async with ranks(4, client=client, settings=settings) as allocation:
                with pytest.raises(aiompi.JobAbortedError, match="rank"):
                    await allocation.run(add, 0)
            free.touch()
            for task in tasks:
                task.release()
            await until(lambda: idle(client))

    asyncio.run(main())
