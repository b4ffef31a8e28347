"""What describes a rank: packages recognise the job by it, and MPI programs that ranks start are not led astray."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from aiompi.bench.contender import Contender, mpich_job, openmpi_job
from peers.distribution import unpacked
from support.jobs import ROOTS, Site
from support.limits import LIMIT

MAYBEMPI = """
import sys
sys.path.insert(0, {path!r})
from maybempi.launch import get_mpi, local_rank
comm = get_mpi().COMM_WORLD
print(comm.rank, comm.size, local_rank())
"""
DASK_MPI = """
import sys
sys.path.insert(0, {path!r})
from dask_mpi import initialize
from distributed import Client

def square(number):
    return number * number

if __name__ == "__main__":
    initialize(dashboard=False, nthreads=1)
    with Client() as client:
        print("sum", sum(client.gather(client.map(square, range(10)))))
"""
CLIENT = f"""
import sys
from distributed import Client
with Client(scheduler_file=sys.argv[1]) as client:
    client.wait_for_workers(1, timeout={LIMIT})
    print(client.submit(sum, [1, 2]).result())
    client.shutdown()
"""
IPYPARALLEL = """
import ipyparallel

def place():
    from mpi4py import MPI
    return MPI.COMM_WORLD.rank, MPI.COMM_WORLD.allreduce(1), MPI.__name__

if __name__ == "__main__":
    with ipyparallel.Cluster(n=2, engines="mpi", profile_dir="profile", log_level=40) as client:
        print(sorted(client[:].apply_sync(place)))
"""
PROGRAM = """
import os
from mpi4py import MPI
world = MPI.COMM_WORLD
print(world.rank, world.size, world.allreduce(1), "MPICH" in MPI.Get_library_version(), flush=True)
"""


@pytest.mark.parametrize(("job", "mpich"), [(mpich_job, True), (openmpi_job, False)])
def test_a_real_mpi_program_in_a_rank(site: Site, job: Callable[[int], Contender], mpich: bool) -> None:
    """Each rank starts a singleton and a job of two; none takes itself for a rank of aiompi."""
    program = site.program(PROGRAM)
    command = job(2).command
    launcher = command[: command.index(sys.executable)]
    for words, expected in ((command[:2], ["0 1 1"]), (launcher, ["0 2 2", "1 2 2"])):
        launch = (sys.executable, "-m", "aiompi_launcher", "-n", "2", *words, sys.executable, str(program))
        result = site.start(*launch).finish()
        assert result.code == 0, result
        assert sorted(result.lines) == sorted(2 * [f"{line} {mpich}" for line in expected])


def test_maybempi_sees_the_job(site: Site) -> None:
    """It imports mpi4py only if a launcher's variables tell it to."""
    program = site.program(MAYBEMPI.format(path=str(unpacked("maybempi", "0.1.2") / "src")))
    job = site.launch("--mpi4py", "-n", "2", program).finish()
    assert (job.err, job.lines) == ("", ["0 2 0", "1 2 1"])


def test_dask_mpi_broadcasts_inside_its_event_loop(site: Site) -> None:
    """Ranks 0 and 2 are the scheduler and a worker of dask, and rank 1 is its client."""
    program = site.program(DASK_MPI.format(path=str(unpacked("dask_mpi", "2026.3.0"))))
    job = site.launch("--mpi4py", "-n", "3", program).finish()
    assert job.code == 0, job.err
    assert "sum 285" in job.lines
    assert "RuntimeWarning: Comm.bcast blocks the event loop" in job.err


def test_command_of_dask_mpi(site: Site) -> None:
    """Rank 0 is the scheduler of dask, and the other one is a worker."""
    path = {"PYTHONPATH": os.pathsep.join([*ROOTS, str(unpacked("dask_mpi", "2026.3.0"))])}
    file = str(site.directory / "scheduler.json")
    options = ("--scheduler-file", file, "--no-dashboard", "--worker-class", "distributed.Worker")
    job = site.launch("--mpi4py", "-n", "2", "-m", "dask_mpi.cli", *options, env=path)
    client = site.start(sys.executable, "-c", CLIENT, file).finish()
    assert (client.code, client.out) == (0, "3\n"), client.err
    assert job.finish().code == 0


def test_mpi_engines_of_ipyparallel(site: Site) -> None:
    """It starts its engines by `mpiexec`, and each imports mpi4py."""
    pytest.importorskip("ipyparallel")
    tools = {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    program = site.program(IPYPARALLEL)
    job = site.launch("--mpi4py", "--as-mpiexec", sys.executable, program, env=tools).finish()
    assert (job.code, job.out) == (0, "[(0, 2, 'aiompi.MPI'), (1, 2, 'aiompi.MPI')]\n"), job.err
