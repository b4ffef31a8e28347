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
from typing import Any

import pytest

from support import allocated
from support.jobs import KEY, ROOTS
from support.limits import LIMIT
from support.machines import Machine, Machines, end, until
from support.pages import ROOT, programs

PROGRAM = """
import asyncio
import sys
import time
import aiompi
from support import allocated
from support.allocated import compute, fail, hello, hello_blocking, survive, wait_or_hold
from aiompi.integrations.allocation import RankLostError
from aiompi.integrations.{framework} import ranks

def say(error):
    kinds = (ValueError, RankLostError, aiompi.JobAbortedError)
    names = [kind.__name__ for kind in kinds if isinstance(error, kind)]
    print(*names, *str(error).split(), flush=True)  # Ray adds lines

async def jobs({client}):
    native, blocking = sys.argv[2:]
    settings = aiompi.Settings(bind="127.0.0.1", connect_timeout=1)
    async with ranks(4, {options}, settings=settings) as allocation:
        try:
            await allocation.run(hello)
        except aiompi.ProcessFailedError as error:
            say(error)
    async with ranks(4, {options}) as allocation:
        print(*allocation.hosts)
        print(*await allocation.run(hello), sep=", ")
        print(*await allocation.run(hello_blocking), sep=", ")
        print(*await allocation.run(allocated.program, native))
        print(*await allocation.run(allocated.program_blocking, blocking))
        print(*set(await allocation.run(allocated.intrude)), flush=True)
        for function, args in (fail, ()), (compute, (3,)):
            began = time.monotonic()
            try:
                await allocation.run(function, *args)
            except Exception as error:
                say(error)
                print(time.monotonic() - began < 50, flush=True)
    settings = aiompi.Settings(on_failure="continue")
    async with ranks(2, {options}, settings=settings) as allocation:
        first, lost = await allocation.run(survive, 1)
        print(first, type(lost).__name__)

async def losses({client}):
    for size in 3, 4:  # of three hosts, of two
        sys.stdin.readline()
        # A host that is killed ends its connections, so that no heartbeat is needed.
        settings = aiompi.Settings(heartbeat=0.0 if size == 3 else None)
        async with ranks(size, {options}, settings=settings) as allocation:
            try:
                await allocation.run(wait_or_hold, f"{{sys.argv[2]}}/{{size}}")
            except aiompi.ProcessFailedError as error:
                say(error)
"""
ON_DASK = """
from distributed import Client

async def main():
    async with Client("tcp://10.99.0.1:8786", asynchronous=True, timeout=120) as client:
        await client.wait_for_workers(3, timeout=120)
        await globals()[sys.argv[1]](client)

asyncio.run(main())
"""
ON_RAY = """
import ray
ray.init(address="10.99.0.1:6379", logging_level="ERROR", log_to_driver=False)
while ray.cluster_resources().get("CPU") != 6:
    time.sleep(0.1)
asyncio.run(globals()[sys.argv[1]]())
ray.shutdown()
"""
README = programs(ROOT / "README.md")
#: seconds in which a lost host is noticed, on a busy machine too: without a heartbeat a silent connection ends in 60 s
SOON = 50.0


#: succeeds when the head of Ray is there
ANSWERS = "import socket; socket.create_connection(('10.99.0.1', 6379), 5)"
#: in the command lines of agents and of ranks of the blocking face
OF_JOBS = re.compile(r"aiompi_launcher|aiompi\.integrations|aiompi/job/companion")


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
        (place / "support").mkdir()
        shutil.copy(allocated.__file__, place / "support")
        self.environ = {"PYTHONPATH": os.pathsep.join([*ROOTS, str(place)])}
        self._processes: list[subprocess.Popen[str]] = []

    def start(self, machine: Machine, *words: str) -> None:
        options = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self._processes.append(machine.popen(*words, env=self.environ, **options))

    def wait_for_end_of_jobs(self) -> None:
        """Wait until no agent and no process of a rank is left."""
        for machine in filter(lambda machine: machine.alive, self.machines):
            until(lambda machine=machine: not any(OF_JOBS.search(line) for line in machine.processes().values()))

    def close(self, *places: str) -> None:
        """End it; what it leaves in these places is not that of jobs."""
        for process in self._processes:
            end(process)
            process.wait(LIMIT)
        for machine in self.machines:
            machine.clean()
            if machine.alive:
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
        until(lambda: machines[0].python("-c", ANSWERS).returncode == 0)
    try:
        yield made
    finally:
        made.close("/tmp/ray", "/dev/shm/*")


@pytest.fixture(params=[on_dask, on_ray])
def start(request: pytest.FixtureRequest) -> Callable[[Machines, Path], Iterator[Framework]]:
    found: Callable[[Machines, Path], Iterator[Framework]] = request.param
    return found


@pytest.fixture
def framework(start: Any, machines: Machines, tmp_path: Path) -> Iterator[Framework]:
    yield from start(machines, tmp_path)


@pytest.fixture
def doomed_framework(start: Any, doomed: Machines, tmp_path: Path) -> Iterator[Framework]:
    yield from start(doomed, tmp_path)


def test_jobs(framework: Framework) -> None:
    """On each host; a rank fails; one is killed while others compute; others go on; and nothing is left."""
    texts = [README[name] for name in ("ring_async.py", "ring_blocking.py")]
    program = str(framework.program)
    done = framework.machines[0].python(program, "jobs", *texts, env=framework.environ, limit=3 * LIMIT)
    assert done.returncode == 0, done
    lines = [line for line in done.stdout.splitlines() if "(raylet)" not in line]  # of Ray
    assert len(lines) == 12, done
    unreachable, hosts, *lines = lines
    assert re.match(r"JobAbortedError .*127\.0\.0\.1.*Connection refused", unreachable)
    assert len(hosts.split()) == 4
    for line in lines[0:2]:
        parts = [part.split() for part in line.split(", ")]
        assert [(int(rank), size, total) for rank, _, size, _, _, total in parts] == [(n, "4", "6") for n in range(4)]
        assert {node for *_, node, _ in parts} == {"node1:", "node2:", "node3:"}
    for line in lines[2:4]:
        assert line == " ".join(f"['rank {rank} got {(rank - 1) % 4}, the sum is 6']" for rank in range(4))
    assert "refuses this process" in lines[4]
    assert re.fullmatch("ValueError .*no luck", lines[5])
    assert lines[6] == "True"
    assert lines[7].startswith("RankLostError rank 3: its ")
    assert lines[8:10] == ["True", "1 go on RankLostError"]
    framework.wait_for_end_of_jobs()


def test_hosts_that_are_lost(doomed_framework: Framework, tmp_path: Path) -> None:
    """One is killed, then another one is cut off. The client reports it, and all ranks end, also those that compute."""
    framework, place = doomed_framework, tmp_path / "there"
    place.mkdir()
    one, two, three = framework.machines
    program = one.popen(
        sys.executable, str(framework.program), "losses", str(place), env=framework.environ, stdin=subprocess.PIPE
    )
    assert program.stdin is not None
    assert program.stdout is not None
    try:
        for size, lose in ((3, three.kill), (4, two.cut)):
            program.stdin.write("\n")
            program.stdin.flush()
            until(lambda: len([*place.glob(f"{size}-*")]) == size)
            lost = time.monotonic()
            lose()
            assert any(re.match("(JobAborted|RankLost)Error ", line) for line in program.stdout)  # Ray prints others
            assert time.monotonic() - lost < SOON
            framework.wait_for_end_of_jobs()
            assert time.monotonic() - lost < SOON
    finally:
        end(program)
        program.communicate(timeout=LIMIT)
