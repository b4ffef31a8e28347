"""Every operation of the blocking face, called by all ranks of a job of any size.

Runs the checks whose names are given, all without any, and prints how many have passed.
"""

from __future__ import annotations

import sys

import collective_forms  # noqa: F401
import collectives  # noqa: F401
import communicators  # noqa: F401
import completion  # noqa: F401
import environment  # noqa: F401
import messages  # noqa: F401
import modes  # noqa: F401
import persistent  # noqa: F401
import point_to_point  # noqa: F401
from checks import CHECKS, WITHIN_A_CLIENT, comm, raises, rank, successor

from aiompi import MPI


def main() -> None:
    """At the end: S7.5-4."""
    names = sys.argv[1:] or list(CHECKS)
    if comm.Get_attr(MPI.IMPI_CLIENT_SIZE) > 1:
        names = [name for name in names if name not in WITHIN_A_CLIENT]
    for name in names:
        try:
            CHECKS[name]()
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
