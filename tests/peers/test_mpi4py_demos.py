"""The demonstration programs of mpi4py that need no spawned processes, files or windows, as they are."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest
from jobs import Site
from peers.distribution import unpacked

#: folder, programs, ranks
PROGRAMS: Final = {
    "helloworld": (".", ["helloworld.py"], 3),
    "start and end": ("init-fini", [f"test_{i}.py" for i in range(7)], 2),
    "MPI: The Complete Reference": (
        "mpi-ref-v1",
        [f"ex-{n}.py" for n in ("2.01", "2.08", "2.16", "2.29", "2.32", "2.34", "2.35")]
        + [f"ex-3.{n:02}.py" for n in (*range(1, 10), 11, 12, 13)],
        2,
    ),
    "reductions": ("reductions", ["test_reductions.py"], 3),
    "sequential": ("sequential", ["test_seq.py"], 2),
    "threads": ("threads", ["sendrecv.py"], 2),
    "next value": ("nxtval", ["nxtval-threads.py"], 3),
}
CASES: Final = [(folder, program, ranks) for folder, programs, ranks in PROGRAMS.values() for program in programs]


@pytest.fixture(scope="session")
def demos() -> Path:
    return unpacked("mpi4py", "4.1.2") / "demo"


@pytest.mark.parametrize(("folder", "program", "ranks"), CASES)
def test_program(site: Site, demos: Path, folder: str, program: str, ranks: int) -> None:
    place = demos / folder
    job = site.launch("--mpi4py", "-n", str(ranks), "--wdir", str(place), str(place / program)).finish()
    assert job.code == 0, job.err


@pytest.mark.parametrize("program", ["run_hello.py", "run_cpi.py"])
def test_pool(site: Site, demos: Path, program: str) -> None:
    place = demos / "futures" / program
    job = site.launch("--mpi4py", "-n", "3", "-m", "mpi4py.futures", str(place)).finish()
    assert job.code == 0, job.err
