"""The plugin for pytest with ranks on several hosts."""

from __future__ import annotations

import shutil
from pathlib import Path

from support.machines import Machines

TESTS = """
import os
import pytest
from aiompi import MPI

@pytest.mark.mpi(ranks=2)
def test_names(comm, tmp_path):
    assert comm.allgather(MPI.Get_processor_name()) == ["node2", "node3"]
    (tmp_path / "file").touch()
    assert "AIOMPI_TESTING_KEY" not in os.environ

@pytest.mark.mpi(ranks=2)
def test_fails(comm):
    print("hello from", MPI.Get_processor_name())
    assert comm.rank == 0
    comm.Barrier()

@pytest.mark.mpi(ranks=3)
def test_dies(comm):
    if comm.rank == 1:
        os.kill(os.getpid(), 9)
    comm.Barrier()
"""


def test_ranks_of_two_hosts(machines: Machines, tmp_path: Path) -> None:
    """Neither host has the temporary files of this session of pytest, and each has files of its own."""
    (tmp_path / "test_it.py").write_text(TESTS)
    result = machines[0].python(
        "-m", "pytest", "-q", "-p", "aiompi.testing", "-p", "no:cacheprovider", "--basetemp=/tmp/here",
        "--mpi-hosts=node2,node3",
        cwd=str(tmp_path), env={"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "COLUMNS": "160"},
    )  # fmt: skip
    shutil.rmtree(machines[0].path("/tmp/here"))
    assert "FAILED test_it.py::test_fails[2] - rank 1 of 2: assert 1 == 0\n" in result.stdout, result
    assert "Captured stdout of rank 1 call" in result.stdout
    assert "\nhello from node3\n" in result.stdout
    assert "FAILED test_it.py::test_dies[3] - rank 1 on node3 was killed by signal 9 (SIGKILL)\n" in result.stdout
    assert "\n2 failed, 1 passed in" in result.stdout
