"""Ranks of the blocking face that lack one way of a message: `python -m aiompi.bench.measure.without WAY`.

The product has no such switches. These ranks replace the method that chooses the way, before they have any link.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from aiompi.transport.shared_memory import board, cma, habit, halves, link, outbound, pool, posted, sharing, transport

_EAGER: Final = 128 * 2**10
_LENT: Final = 2 * 2**20
_MOST: Final = 2**40


class Way(NamedTuple):
    """A way of a message, or a refinement of one.

    Attributes:
        about: what it is.
        off: switches it off in this process.
        sizes: the shortest message that it serves, and the longest, in bytes.
        payloads: what it serves: "buffer", "object", "allocated", or the name of a collective.
        variables: of the environment, NAME=VALUE, that are part of switching it off.
    """

    about: str
    off: Callable[[], None]
    sizes: tuple[int, int]
    payloads: tuple[str, ...] = ("buffer", "object")
    variables: tuple[str, ...] = ()


def _replace(place: Any, name: str, value: Any) -> Callable[[], None]:
    return lambda: setattr(place, name, value)


def _constant(value: Any) -> Callable[..., Any]:
    return lambda *_, **__: value


def _several(*switches: Callable[[], None]) -> Callable[[], None]:
    def off() -> None:
        for switch in switches:
            switch()

    return off


_NO_POSTED: Final = _several(*(_replace(place, "shortest", _constant(sys.maxsize)) for place in (link, sharing)))

WAYS: Final[dict[str, Way]] = {
    "posted": Way("into a posted receive", _NO_POSTED, (48 * 2**10, _LENT), ("buffer",)),
    "halves": Way("both copy into a posted receive", _several(*(_replace(place, "LONG", sys.maxsize) for place in (halves, posted))), (512 * 2**10, _LENT), ("buffer",)),
    "pool": Way("pool", _several(_NO_POSTED, _replace(sharing.Sharing, "stream", _constant(False))), (_EAGER + 1, _LENT)),
    "pool_cma": Way("pool, against cma", _several(_NO_POSTED, _replace(sharing.Sharing, "stream", _constant(False)), _replace(sharing, "LONG", 1), _replace(sharing, "LONG_PIECE", 1)), (_EAGER + 1, _LENT), variables=("AIOMPI_LEND_LIMIT=131072",)),
    "stay": Way("stay", _replace(pool, "_CROWD", -1), (32 * 2**10, _LENT), ("object",)),
    "lent": Way("one copy for several ranks", _replace(transport.SharedMemory, "place", _constant(None)), (16 * 2**10, _LENT), ("bcast", "bcast_object")),
    "cma": Way("exposed", _replace(sharing.Sharing, "expose", _constant(False)), (_LENT + 1, _MOST)),
    "invite": Way("both copy what is exposed", _replace(cma.Exposed, "invite", _constant(None)), (_LENT + 1, _MOST)),
    "arena": Way("Alloc_mem", _replace(transport.SharedMemory, "allocate", _constant(None)), (_EAGER + 1, _MOST), ("allocated",)),
    "board": Way("boards", _replace(transport.SharedMemory, "affords", _constant(False)), (0, 32 * 2**10 - 64), ("barrier", "allreduce", "bcast", "allgather", "allreduce_object")),
    "exhibit": Way("exhibitions", _replace(board.Assembly, "exhibit", _constant(None)), (32 * 2**10 - 63, _MOST), ("allreduce", "allgather", "alltoall")),
    "herald": Way("early bells", _replace(outbound.Outbound, "herald", _constant(False)), (0, _MOST)),
    "late": Way("late bells", _replace(habit.Habit, "rung", _constant(None)), (0, _MOST)),
    "rewind": Way("the ring's beginning used again", _replace(outbound, "REWIND", _MOST), (0, _EAGER)),
    "eager_limit": Way("eager up to 128 KiB, not 32", _NO_POSTED, (32 * 2**10 + 1, _EAGER), variables=("AIOMPI_EAGER_LIMIT=32768",)),
    "ring_256": Way("eager up to 128 KiB, not 512", _NO_POSTED, (_EAGER + 1, 512 * 2**10), variables=("AIOMPI_EAGER_LIMIT=524288",)),
}


def main(way: str = "") -> None:
    """Do one work after the other.

    Args:
        way: which to switch off; empty for none.
    """
    if way:
        WAYS[way].off()
    from aiompi.bench.measure import blocking  # which starts the rank

    blocking.main()


if __name__ == "__main__":
    main(*sys.argv[1:])
