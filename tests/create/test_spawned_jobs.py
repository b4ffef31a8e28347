"""Jobs that ranks of launched jobs start (MPI-2, chapter 5): real processes, as a user sees them."""

from __future__ import annotations

import os
import sys

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


#: ends in the middle of a collective of parents and children; each of those that are left prints its new rank
CHILD = """
import os
import sys
from aiompi import MPI
parent = MPI.Comm.Get_parent()
world = parent.Merge(high=True)
if MPI.COMM_WORLD.rank == 1:
    os._exit(3)
"""
GO_ON = """
try:
    world.barrier()
    done = 1
except MPI.ProcessFailedError:
    done = 0
try:
    done = world.Agree(done)
except MPI.ProcessFailedError as error:
    done = 0
assert done == 0
small = world.Shrink()
print(small.rank, small.size, small.allreduce(1), flush=True)
small.Disconnect()
"""


@pytest.mark.parametrize("policy", ["abort", "continue"])
def test_parents_go_on_without_a_child_that_dies(site: Site, policy: str) -> None:
    """Its job ends with it, unless the job of the parents survives failures: so does that of the children then."""
    child = site.program(CHILD + GO_ON, "child.py")
    parent = f"""
from aiompi import MPI
children = MPI.COMM_WORLD.Spawn({child!r}, maxprocs=3)
world = children.Merge()
{GO_ON}"""
    result = site.launch(f"--on-failure={policy}", "-n", "2", site.program(parent)).finish()
    assert result.code == 0, result
    left = 2 if policy == "abort" else 4
    assert result.lines == [f"{rank} {left} {left}" for rank in range(left)]


def test_plain_program_goes_on_without_a_child_that_dies(site: Site) -> None:
    child = site.program(CHILD + GO_ON, "child.py")
    parent = f"""
from aiompi import MPI
children = MPI.COMM_WORLD.Spawn({child!r}, maxprocs=3)
world = children.Merge()
{GO_ON}"""
    for policy, left in (("", 1), ("continue", 3)):
        result = site.start(sys.executable, site.program(parent), env={"AIOMPI_ON_FAILURE": policy}).finish()
        assert result.code == 0, result
        assert result.lines == [f"{rank} {left} {left}" for rank in range(left)]
