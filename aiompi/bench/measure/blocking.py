"""The works in the blocking face. The launcher runs this on any number of ranks.

`python -m aiompi.bench.measure.blocking [RANKS]`: only RANKS ranks work, the others are idle.
"""

from __future__ import annotations

import sys
from typing import Final

from aiompi import MPI
from aiompi.bench.measure import calls, datatypes, levels, point_to_point, raw_tcp, turns

WORKS: Final = {
    **point_to_point.works(MPI), **datatypes.works(MPI), **calls.WORKS,
    **raw_tcp.WORKS, **levels.WORKS,
}  # fmt: skip


def main(ranks: str | None = None) -> None:
    """Do one work after the other.

    Args:
        ranks: number of ranks that work; None for all.
    """
    comm = MPI.COMM_WORLD
    if ranks is not None and comm.size > int(ranks):
        comm = comm.Split(0 if comm.rank < int(ranks) else MPI.UNDEFINED)
        if comm == MPI.COMM_NULL:
            return
    while work := comm.bcast(None if comm.rank else turns.next_work()):
        name = work.pop("work")
        results = comm.gather(WORKS[name](comm, **work))
        if comm.rank == 0:
            turns.answer(results)


if __name__ == "__main__":
    main(*sys.argv[1:])
