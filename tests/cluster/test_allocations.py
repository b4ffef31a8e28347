"""Jobs of `aiompi-launch` in an allocation of Slurm, whose hosts are reached by srun."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from support.machines import Machines, until

PROGRAM = """
import os, sys
from aiompi import MPI
world = MPI.COMM_WORLD
shared = world.Split_type(MPI.COMM_TYPE_SHARED)
print(world.rank, world.allreduce(world.rank), MPI.Get_processor_name(), shared.size, flush=True)
if world.rank == 2 and sys.argv[1:]:
    sys.exit(9)
if sys.argv[1:]:
    world.recv()
"""
EXPECTED = ["0 3 node1 1", "1 3 node2 1", "2 3 node3 1"]


@pytest.fixture
def app(tmp_path: Path) -> Path:
    (tmp_path / "app.py").write_text(PROGRAM)
    return tmp_path


LAUNCH = (sys.executable, "-m", "aiompi_launcher")


def test_salloc(slurm: Machines, app: Path) -> None:
    result = slurm[0].run("salloc", "-Q", "-N3", "-n3", *LAUNCH, "app.py", cwd=str(app))
    assert (result.returncode, sorted(result.stdout.splitlines())) == (0, EXPECTED), result


def test_sbatch(slurm: Machines, app: Path) -> None:
    script = app / "job.sh"
    code = app / "code.txt"
    code.touch()
    script.write_text(f"#!/bin/sh\n{' '.join(LAUNCH)} app.py\necho $? > code.txt\n")
    result = slurm[0].run("sbatch", "-Q", "-N3", "-n3", "-oout.txt", "job.sh", cwd=str(app))
    assert result.returncode == 0, result
    until(code.read_text)  # sbatch -W would look after 2, 10 and 42 s
    assert code.read_text() == "0\n"
    assert sorted((app / "out.txt").read_text().splitlines()) == EXPECTED


def test_a_rank_that_fails_ends_all_nodes(slurm: Machines, app: Path) -> None:
    result = slurm[0].run("salloc", "-Q", "-N3", "-n3", *LAUNCH, "app.py", "fail", cwd=str(app))
    assert result.returncode == 9, result
    assert "aiompi-launch: rank 2 on node3 exited with status 9" in result.stderr
