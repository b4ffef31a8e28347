"""schwimmbad, a library of pools from PyPI whose workers are ranks of mpi4py: the programs of its tests."""

from __future__ import annotations

import pytest

from peers.distribution import unpacked
from support.jobs import Running, Site


def run(site: Site, program: str) -> Running:
    path = unpacked("schwimmbad", "0.4.2") / "tests" / program
    return site.launch("--mpi4py", "-n", "3", str(path)).finish()


@pytest.mark.parametrize("program", ["test_mpi.py", "test_mpi_with_dill.py"])
def test_pool(site: Site, program: str) -> None:
    job = run(site, program)
    assert (job.code, job.err) == (0, "")


def test_a_worker_that_fails_aborts_the_job(site: Site) -> None:
    """It calls Abort without a code."""
    job = run(site, "test_mpi_fail.py")
    assert job.code == 1
    assert "AttributeError: Derp" in job.err
