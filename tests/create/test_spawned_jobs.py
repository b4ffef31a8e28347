"""Jobs that ranks of launched jobs start (MPI-2, chapter 5): real processes, as a user sees them."""

from __future__ import annotations

import os

import pytest
from jobs import Site

LOCAL = ("--starter", "local", "--hosts")
UNIVERSE = """
from aiompi import MPI
print(MPI.COMM_WORLD.Get_attr(MPI.UNIVERSE_SIZE))
"""


@pytest.mark.spec("S7.1.1-1")
def test_room_for_processes(site: Site) -> None:
    program = site.program(UNIVERSE)

    def printed(*options: str, **environ: str) -> list[str]:
        result = site.launch(*options, program, env=environ).finish()
        assert (result.code, result.err) == (0, ""), result
        return result.lines

    cores = len(os.sched_getaffinity(0))
    assert printed("-n", "1") == [str(cores)]
    assert printed("-n", str(cores + 1)) == [str(cores + 1)] * (cores + 1)
    assert printed("--universe-size", "9", "-n", "2") == ["9", "9"]
    assert printed("-n", "1", AIOMPI_UNIVERSE_SIZE="5") == ["5"]
    assert printed("-usize", "9", "-n", "1", AIOMPI_UNIVERSE_SIZE="5") == ["9"]
    assert printed(*LOCAL, "a:4,b:3", "-n", "2") == ["7", "7"]
    assert printed(*LOCAL, "a,b", "-n", "3") == ["3"] * 3
