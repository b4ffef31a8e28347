"""The library of PMIx: how it is found, and what is said if it cannot be used."""

from __future__ import annotations

from pathlib import Path

import pytest

from aiompi.errors import JobAbortedError
from aiompi.job import bootstrap
from aiompi.job.bootstrap.pmix import _libraries
from aiompi.settings import Settings

ENVIRON = {"PMIX_NAMESPACE": "job@1", "PMIX_RANK": "0"}


def test_a_library_that_cannot_be_loaded_is_an_error_that_says_what_to_do() -> None:
    settings = Settings(pmix_library="/nowhere/libpmix.so.2")
    with pytest.raises(JobAbortedError, match=r"mpirun started.*AIOMPI_PMIX_LIBRARY.*mpiexec.*/nowhere"):
        bootstrap.join("pmix", ENVIRON, settings)
    with pytest.raises(JobAbortedError, match=r"srun started.*try srun --mpi=pmi2"):
        bootstrap.join("pmix", ENVIRON | {"SLURM_STEP_ID": "0"}, settings)


def test_the_library_beside_mpirun_comes_first(tmp_path: Path) -> None:
    wanted = tmp_path / "lib" / "openmpi" / "libpmix.so.2"
    wanted.parent.mkdir(parents=True)
    wanted.touch()
    mpirun = tmp_path / "bin" / "mpirun"
    mpirun.parent.mkdir()
    mpirun.touch(0o755)
    found = list(_libraries({"PATH": str(mpirun.parent)}))
    assert str(wanted) in found
    assert found[-1] == "libpmix.so.2"
    assert next(iter(_libraries({"PMIX_PREFIX": str(tmp_path)}))) == str(wanted)


def test_it_is_found_by_its_variables() -> None:
    assert bootstrap.find(ENVIRON) == "pmix"
    assert bootstrap.find(ENVIRON | {"PMI_FD": "5", "PMI_RANK": "1", "PMI_SIZE": "2"}) == "pmi"
