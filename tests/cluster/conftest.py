"""Machines for tests of jobs on several hosts (`machines`). A test that cannot run here is skipped with the reason."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support import machines as namespaces
from support.machines import Machines


@pytest.fixture(scope="session")
def _machines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machines]:
    _require(namespaces.PROGRAMS)
    with namespaces.machines([tmp_path_factory.getbasetemp()]) as made:
        made.start_sshd(tmp_path_factory.mktemp("keys"))
        yield made


@pytest.fixture(scope="session")
def _slurm(_machines: Machines) -> Machines:
    _require(namespaces.SLURM)
    _machines.start_slurm()
    return _machines


@pytest.fixture
def machines(_machines: Machines) -> Iterator[Machines]:
    """Three machines with sshd, on which nothing must be left at the end of the test."""
    yield from _in_order(_machines)


@pytest.fixture
def slurm(_slurm: Machines) -> Iterator[Machines]:
    """Three machines with Slurm as well; `srun` and `sbatch` run on the first."""
    yield from _in_order(_slurm)


@pytest.fixture
def doomed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machines]:
    """Three new machines with sshd, which the test may kill."""
    _require(namespaces.PROGRAMS)
    with namespaces.machines([tmp_path_factory.getbasetemp()]) as made:
        made.start_sshd(tmp_path_factory.mktemp("keys"))
        yield made


@pytest.fixture(scope="module")
def expendable(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machines]:
    """Three new machines with sshd and Slurm, which the tests of a module may kill."""
    _require(namespaces.PROGRAMS | namespaces.SLURM)
    with namespaces.machines([tmp_path_factory.getbasetemp()]) as made:
        made.start_sshd(tmp_path_factory.mktemp("keys"))
        made.start_slurm()
        yield made


def _in_order(made: Machines) -> Iterator[Machines]:
    try:
        yield made
        for machine in made:
            machine.settle()
    finally:
        for machine in made:
            machine.mend()
            machine.clean()


def _require(programs: dict[str, str]) -> None:
    if reason := namespaces.lacking(programs):
        pytest.skip(reason)
