"""`aiompi.integrations.ray` with a node of Ray."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("ray", reason="pip install '.[ray]'")

import ray

import aiompi
from aiompi.integrations.allocation import RankLostError
from aiompi.integrations.ray import ranks, run
from support import allocated
from support.allocated import add, add_blocking, fail, fail_blocking, survive, wait, wait_blocking
from support.jobs import ROOTS
from support.limits import LIMIT

pytestmark = pytest.mark.filterwarnings("default")
CPUS = 3
PATH = os.pathsep.join([*ROOTS, str(Path(allocated.__file__).parents[1])])


@pytest.fixture(scope="module", autouse=True)
def node() -> Iterator[None]:
    options = {"include_dashboard": False, "log_to_driver": False, "object_store_memory": 80_000_000}
    ray.init(num_cpus=CPUS, runtime_env={"env_vars": {"PYTHONPATH": PATH}}, **options)
    yield
    ray.shutdown()


def pids(place: Path) -> list[int]:
    """Return the processes of the ranks that are waiting."""
    return [int(text) for path in place.iterdir() if (text := path.read_text())]


async def until(condition: Any) -> None:
    async with asyncio.timeout(LIMIT):
        while not condition():
            await asyncio.sleep(0.1)


@pytest.mark.parametrize("function", [add, add_blocking])
def test_a_function_runs_on_all_ranks(function: Any) -> None:
    async def main() -> None:
        async with ranks(3) as allocation:
            results = await allocation.run(function, ray.put(100))
            assert [(rank, total) for rank, _, total in results] == [(0, 103), (1, 103), (2, 103)]
            assert allocation.hosts == (os.uname().nodename,) * 3
            assert len({pid for _, pid, _ in results}) == 3
            both = await asyncio.gather(allocation.run(function, 10), allocation.run(function, start=20))
            assert [[total for _, _, total in results] for results in both] == [[13] * 3, [23] * 3]
        await until(lambda: ray.available_resources().get("CPU") == CPUS)

    asyncio.run(main())


def test_what_ends_a_job(tmp_path: Path) -> None:
    """The first exception, or a call that is cancelled. The next job runs."""

    async def main() -> None:
        async with ranks(3) as allocation:
            for function in (fail, fail_blocking):
                with pytest.raises(ValueError, match="no luck"):
                    await allocation.run(function)
            for function in (wait, wait_blocking):
                place = tmp_path / function.__name__
                place.mkdir()
                job = asyncio.create_task(allocation.run(function, str(place / "here")))
                await until(lambda place=place: len(pids(place)) == 3)
                job.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await job
                ended = pids(place) if function is wait_blocking else []
                await until(lambda ended=ended: not any(Path(f"/proc/{pid}").exists() for pid in ended))
            assert len(await allocation.run(add, 0)) == 3

    asyncio.run(main())


@pytest.mark.parametrize("survives", [False, True])
def test_an_actor_is_killed(survives: bool) -> None:
    """Its rank has failed. The job ends, or the others go on."""

    async def main() -> None:
        settings = aiompi.Settings(on_failure="continue" if survives else "")
        async with ranks(3, settings=settings) as allocation:
            job = allocation.run(survive, 1)
            if survives:
                first, lost, last = await job
                assert isinstance(lost, RankLostError)
                assert (first, last) == ("2 go on", "2 go on")
            else:
                with pytest.raises(RankLostError, match=r"rank 1: its actor on .*: The actor died unexpectedly"):
                    await job
            with pytest.raises(RankLostError, match="make a new allocation"):
                await allocation.run(add, 0)
        await until(lambda: ray.available_resources().get("CPU") == CPUS)

    asyncio.run(main())


def test_one_call_in_a_task_and_without_a_loop() -> None:
    task = ray.remote(run).options(num_cpus=0).remote(2, add, 0)
    assert [rank for rank, _, _ in ray.get(task, timeout=LIMIT)] == [0, 1]
    assert [rank for rank, _, _ in run(2, add, 0, resources={"CPU": 0.5}, strategy="STRICT_PACK")] == [0, 1]


def test_a_group_that_is_there_already() -> None:
    group = ray.util.placement_group([{"CPU": 1}] * 2)
    assert len(run(2, add, 0, group=group)) == 2
    assert len(run(2, add, 0, group=group)) == 2
    ray.util.remove_placement_group(group)


def test_no_room() -> None:
    with pytest.raises(TimeoutError, match=r"no room for 9 ranks with {'CPU': 1} each within 1 s .*'CPU': 3.0"):
        run(9, add, 0, settings=aiompi.Settings(start_timeout=1))


def test_a_job_ends_with_its_caller(tmp_path: Path) -> None:
    program = f"""
import ray
from support.allocated import wait_blocking
from aiompi.integrations.ray import run
ray.init(address={ray.get_runtime_context().gcs_address!r}, runtime_env={{"env_vars": {{"PYTHONPATH": {PATH!r}}}}})
run(2, wait_blocking, {str(tmp_path / "here")!r})
"""
    caller = subprocess.Popen([sys.executable, "-c", program], env={**os.environ, "PYTHONPATH": PATH})

    async def main() -> None:
        await until(lambda: len(pids(tmp_path)) == 2)
        caller.kill()
        caller.wait(LIMIT)
        await until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids(tmp_path)))
        await until(lambda: ray.available_resources().get("CPU") == CPUS)

    asyncio.run(main())
