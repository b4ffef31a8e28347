"""schwimmbad, a library of pools from PyPI whose workers are ranks of mpi4py: programs of its tests."""

from __future__ import annotations

from peers.distribution import unpacked
from support.jobs import Running, Site


def run(site: Site, program: str) -> Running:
    path = unpacked("schwimmbad", "0.4.2") / "tests" / program
    return site.launch("--mpi4py", "-n", "3", str(path)).finish()


def test_pool(site: Site) -> None:
    """It has its objects pickled by dill, in the place of pickle."""
    job = run(site, "test_mpi_with_dill.py")
    assert (job.code, job.err) == (0, "")


def test_a_worker_that_fails_aborts_the_job(site: Site) -> None:
    """It calls Abort without a code."""
    job = run(site, "test_mpi_fail.py")
    assert job.code == 1
    assert "AttributeError: Derp" in job.err
