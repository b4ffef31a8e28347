"""The works in the blocking face. The launcher runs this on any number of ranks."""

from __future__ import annotations

from typing import Final

from aiompi import MPI
from aiompi.bench.measure import calls, datatypes, point_to_point, storage, turns

WORKS: Final = {**point_to_point.works(MPI), **datatypes.works(MPI), **storage.works(MPI), **calls.WORKS}


def main() -> None:
    """Do one work after the other."""
    comm = MPI.COMM_WORLD
    while work := comm.bcast(None if comm.rank else turns.next_work()):
        name = work.pop("work")
        results = comm.gather(WORKS[name](comm, **work))
        if comm.rank == 0:
            turns.answer(results)


if __name__ == "__main__":
    main()
