"""MPI programs that ranks of aiompi start: what describes a rank to packages must not lead MPI libraries astray."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest
from jobs import Site

from aiompi.bench.contender import Contender, mpich_job, openmpi_job

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
