"""Clusters of Dask and Ray on three machines run functions as jobs."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

import allocated
import pytest
from jobs import KEY, LIMIT, ROOTS
from machines import Machine, Machines, end, until

PROGRAM = """
import asyncio
import time
import aiompi
from allocated import compute, hello, hello_blocking, survive
from aiompi.integrations.{framework} import ranks

async def main({client}):
    async with ranks(4, {options}) as allocation:
        print(*allocation.hosts)
        print(*await allocation.run(hello), sep=", ")
        print(*await allocation.run(hello_blocking), sep=", ", flush=True)
        began = time.monotonic()
        try:
            await allocation.run(compute, 3)
        except aiompi.ProcessFailedError as error:
            print(type(error).__name__, str(error).partition("\\n")[0])
            print(time.monotonic() - began < 20, flush=True)

async def go_on({client}):
    settings = aiompi.Settings(on_failure="continue")
    async with ranks(2, {options}, settings=settings) as allocation:
        first, lost = await allocation.run(survive, 1)
        print(first, type(lost).__name__)
"""
ON_DASK = """
from distributed import Client

async def all_of_it():
    async with Client("tcp://10.99.0.1:8786", asynchronous=True, timeout=60) as client:
        await client.wait_for_workers(3, timeout=60)
        await main(client)
        await go_on(client)

asyncio.run(all_of_it())
"""
CUT_OFF = """
import sys
import time
from allocated import wait_blocking
from distributed import Client
from aiompi.integrations.dask import run
with Client("tcp://10.99.0.1:8786", timeout=60) as client:
    client.wait_for_workers(3, timeout=60)
    try:
        run(3, wait_blocking, sys.argv[1])
    except Exception as error:
        print(type(error).__name__, error)
"""
ON_RAY = """
import ray
ray.init(address="10.99.0.1:6379", logging_level="ERROR", log_to_driver=False)
while ray.cluster_resources().get("CPU") != 6:
    time.sleep(0.1)
asyncio.run(main())
asyncio.run(go_on())
ray.shutdown()
"""


#: succeeds when the head of Ray is there
ANSWERS = "import socket; socket.create_connection(('10.99.0.1', 6379), 5)"
#: in the command lines of agents and of ranks of the blocking face
OF_JOBS = re.compile(r"aiompi_launcher|aiompi\.integrations")


class Framework:
    """A cluster with two CPUs on each machine.

    Attributes:
        machines: of the cluster.
        program: runs jobs in it.
        environ: of all its processes.
    """

    def __init__(self, machines: Machines, place: Path, program: str) -> None:
        self.machines = machines
        self.program = place / "program.py"
        self.program.write_text(program)
        shutil.copy(allocated.__file__, place)
        self.environ = {"PYTHONPATH": os.pathsep.join([*ROOTS, str(place)])}
        self._processes: list[subprocess.Popen[str]] = []

    def start(self, machine: Machine, *words: str) -> None:
        options = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self._processes.append(machine.popen(*words, env=self.environ, **options))

    def wait_for_end_of_jobs(self) -> None:
        """Wait until no agent and no process of a rank is left."""
        for machine in self.machines:
            until(lambda machine=machine: not any(OF_JOBS.search(line) for line in machine.processes().values()))

    def close(self, *places: str) -> None:
        """End it; what it leaves in these places is not that of jobs."""
        for process in self._processes:
            end(process)
            process.wait(LIMIT)
        for machine in self.machines:
            machine.clean()
            machine.run("sh", "-c", f"rm -rf {' '.join(places)}")


def on_dask(machines: Machines, place: Path) -> Iterator[Framework]:
    program = PROGRAM.format(framework="dask", client="client", options="client=client")
    made = Framework(machines, place, program + ON_DASK)
    dask = (sys.executable, "-m", "dask")
    options = ("--nthreads", "2", "--no-dashboard", "--no-nanny", "--local-directory", "/tmp/dask")
    made.start(machines[0], *dask, "scheduler", "--host", machines[0].address, "--port", "8786", "--no-dashboard")
    for machine in machines:
        made.start(machine, *dask, "worker", "tcp://10.99.0.1:8786", "--host", machine.address, *options)
    try:
        yield made
    finally:
        made.close("/tmp/dask")


def on_ray(machines: Machines, place: Path) -> Iterator[Framework]:
    if find_spec("ray") is None:
        pytest.skip("pip install '.[ray]'")
    made = Framework(machines, place, PROGRAM.format(framework="ray", client="", options="strategy='SPREAD'") + ON_RAY)
    made.environ |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": KEY * 2}
    ray = (sys.executable, "-c", "from ray.scripts.scripts import main; main()", "start", "--block", "--num-cpus=2")
    options = ("--object-store-memory=80000000", "--disable-usage-stats")
    for machine in machines:
        head = ("--head", "--port=6379", "--include-dashboard=false")
        role = head if machine is machines[0] else ("--address=10.99.0.1:6379",)
        made.start(machine, *ray, *role, f"--node-ip-address={machine.address}", *options)
        until(lambda: machines[0].python("-c", ANSWERS).returncode == 0, 60.0)
    try:
        yield made
    finally:
        made.close("/tmp/ray", "/dev/shm/*")


@pytest.fixture(params=[on_dask, on_ray])
def framework(request: pytest.FixtureRequest, machines: Machines, tmp_path: Path) -> Iterator[Framework]:
    start: Callable[[Machines, Path], Iterator[Framework]] = request.param
    yield from start(machines, tmp_path)


@pytest.fixture
def dask(machines: Machines, tmp_path: Path) -> Iterator[Framework]:
    yield from on_dask(machines, tmp_path)


@pytest.mark.timeout(240)
def test_jobs(framework: Framework) -> None:
    """On each host; the process of a rank is killed while others compute; others go on; and nothing is left."""
    done = framework.machines[0].python(str(framework.program), env=framework.environ, limit=180.0)
    assert done.returncode == 0, done
    lines = [line for line in done.stdout.splitlines() if "(raylet)" not in line]  # of Ray
    assert len(lines) == 6, lines
    hosts, native, blocking, lost, soon, others = lines
    assert len(hosts.split()) == 4
    for line in (native, blocking):
        parts = [part.split() for part in line.split(", ")]
        assert [(int(rank), size, total) for rank, _, size, _, _, total in parts] == [(n, "4", "6") for n in range(4)]
        assert {node for *_, node, _ in parts} == {"node1:", "node2:", "node3:"}
    assert lost.startswith("RankLostError rank 3: its ")
    assert soon == "True"
    assert others == "1 go on RankLostError"
    framework.wait_for_end_of_jobs()


@pytest.mark.timeout(120)
def test_a_cable_is_pulled_out(dask: Framework, tmp_path: Path) -> None:
    """Dask does not notice for minutes. The job ends on both sides."""
    (tmp_path / "there").mkdir()
    dask.program.write_text(CUT_OFF)
    program = dask.machines[0].popen(sys.executable, str(dask.program), str(tmp_path / "there/rank"), env=dask.environ)
    until(lambda: len([*(tmp_path / "there").iterdir()]) == 3, 60.0)
    began = time.monotonic()
    dask.machines[2].cut()
    out, err = program.communicate(timeout=60)
    assert out.startswith("JobAbortedError rank 2 "), err
    dask.wait_for_end_of_jobs()
    assert time.monotonic() - began < 30
