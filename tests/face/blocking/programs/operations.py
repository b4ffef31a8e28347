"""Every operation of the blocking face, called by all ranks of a job of any size: those of both faces, and its own.

Runs the checks whose names are given, all without any, and prints how many have passed.
"""

from __future__ import annotations

import sys
from functools import partial

import completion  # noqa: F401
import environment  # noqa: F401
import persistent  # noqa: F401
import point_to_point  # noqa: F401
from checks import CHECKS, both, comm, raises, rank, run_both, successor

from aiompi import MPI


def main() -> None:
    """At the end: S7.5-4."""
    checks = {name: partial(run_both, check) for name, check in both.CHECKS.items()} | CHECKS
    names = sys.argv[1:] or list(checks)
    if comm.Get_attr(MPI.IMPI_CLIENT_SIZE) > 1:
        names = [name for name in names if name not in both.WITHIN_A_CLIENT]
    for name in names:
        try:
            checks[name]()
        except BaseException as error:
            error.add_note(f"in check {name!r}, rank {rank}")
            raise
        comm.Barrier()
        assert not comm.Iprobe(), f"{name} has left a message"
        comm.Barrier()
    MPI.Finalize()
    assert MPI.Is_initialized()
    assert MPI.Is_finalized()
    with raises(MPI.LocalProtocolError, "has finalized"):
        comm.send("late", successor)
    with raises(MPI.LocalProtocolError, "Finalize was called before"):
        MPI.Finalize()
    print(f"{len(names)} checks passed")


if __name__ == "__main__":
    main()
