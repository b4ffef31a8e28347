"""Calls of collectives are timed one by one, and compared with those of mpi4py."""

from __future__ import annotations

import os
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from aiompi.bench.__main__ import main
from aiompi.bench.contender import BenchError, mpich_job
from aiompi.bench.measure import calls
from aiompi.bench.samples import calls_within, slowest
from aiompi.coll.registry import COLLECTIVES


class Clock:
    """A communicator whose barrier takes 1 s, and whose collectives take 0.1 s more each time."""

    now = 0.0
    made = 0

    def Barrier(self) -> None:
        self.now += 1

    def call(self) -> None:
        self.made += 1
        self.now += self.made / 10

    def bcast(self, obj: Any) -> None:
        assert obj["gradient"].nbytes == 2**20
        self.call()


def test_each_call_is_timed_by_itself_without_the_barrier(monkeypatch: pytest.MonkeyPatch) -> None:
    comm = Clock()
    monkeypatch.setattr(calls.time, "perf_counter", lambda: comm.now)
    first = calls.WARM_UP + 1
    expected = pytest.approx([first / 10, (first + 1) / 10])
    assert calls.apart(comm, comm.call, 2) == expected
    comm.made = 0
    assert calls.collective_objects(comm, "bcast", "array", 2) == expected


def test_a_call_takes_as_long_as_its_slowest_rank() -> None:
    assert slowest([[1, 2, 9], [3, 1, 8]]) == 3


def test_as_many_calls_as_fit() -> None:
    assert calls_within(1.0, 0.3, 100) == 3
    assert calls_within(1.0, 0.001, 100) == 100
    assert calls_within(1.0, 5.0, 100) == 1


def test_every_collective_can_be_called() -> None:
    assert calls.CALLS.keys() == COLLECTIVES.keys()


def test_mpich_is_the_one_of_its_distribution() -> None:
    environment, mpiexec = mpich_job(3).command[1:3]
    library = Path(environment.removeprefix("MPI4PY_LIBMPI="))
    assert library.is_file()
    assert os.access(mpiexec, os.X_OK)
    assert Path(mpiexec).name == "mpiexec.hydra"  # Open MPI has an mpiexec, too
    assert mpich_job(3).command[3:5] == ("-n", "3")


@pytest.mark.parametrize("absent", ["mpi4py", "mpich"])
@pytest.mark.parametrize("known", [False, True], ids=["unknown", "without files"])
def test_what_is_not_installed_is_named(
    absent: str, known: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    files = metadata.files

    def without(distribution: str) -> Any:
        if distribution != absent:
            return files(distribution)
        if known:
            return None
        raise metadata.PackageNotFoundError(distribution)

    monkeypatch.setattr(metadata, "files", without)
    with pytest.raises(BenchError, match=f"{absent} from PyPI is not installed"):
        mpich_job(2)
    assert main(["targets", "mpich"]) == 1
    assert "pip install 'aiompi[bench]'" in capsys.readouterr().err
