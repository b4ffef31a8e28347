"""Ranks of the blocking face that lack one way of a message: `python -m aiompi.bench.measure.without WAY`.

The product has no such switches. These ranks replace the method that chooses the way, before they have any link.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from aiompi.transport.shared_memory import cma, pool, ring, sharing, slots, transport

#: bytes up to which messages go through the ring, and those above it through the pool, by default
_RING: Final = 256 * 2**10
_POOL: Final = 2 * 2**20
_MOST: Final = 2**40
#: bytes that fit into a slot of the first communicators
_SLOT: Final = 32 * 2**10 - 64


class Way(NamedTuple):
    """A way of a message, or a refinement of one.

    Attributes:
        about: what it is, for the table.
        replaced: object, name of its attribute, and what replaces it, for each change that switches the way off.
        sizes: bytes of the shortest message that it serves, and of the longest.
        payloads: what it serves: "buffer", "object", or the name of a collective, with "_object" for one on objects.
        variables: of the environment, NAME=VALUE, that are part of switching it off.
    """

    about: str
    replaced: tuple[tuple[Any, str, Any], ...]
    sizes: tuple[int, int]
    payloads: tuple[str, ...] = ("buffer", "object")
    variables: tuple[str, ...] = ()


def _always(value: Any) -> Callable[..., Any]:
    return lambda *_, **__: value


_NO_POOL: Final = (sharing.Sharing, "stream", _always(False))
_COLLECTIVES: Final = ("barrier", "allgather", "allreduce", "allreduce_object")

WAYS: Final[dict[str, Way]] = {
    "pool": Way("through the pool of the sender, not in chunks", (_NO_POOL,), (_RING + 1, _POOL)),
    "pool_copy": Way(
        "through the pool of the sender, not copied by the kernel",
        (_NO_POOL, (sharing, "LONG", 1), (sharing, "LONG_PIECE", 1)),
        (_RING + 1, _POOL),
        variables=(f"AIOMPI_SHM_EAGER_LIMIT={_RING}",),
    ),
    "zero_copy": Way("objects stay in the pool of the sender", ((pool, "_CROWD", -1),), (_RING, _POOL), ("object",)),
    "cma": Way("copied by the kernel", ((sharing.Sharing, "expose", _always(False)),), (_POOL + 1, _MOST)),
    "invite": Way("both ranks copy", ((cma.Exposed, "invite", _always(None)),), (_POOL + 1, _MOST)),
    "slots": Way("slots", ((transport.SharedMemory, "affords", _always(False)),), (0, _SLOT), _COLLECTIVES),
    "window": Way(
        "long blocks of collectives in the pool of each rank",
        ((slots.SlotGroup, "allocate", _always(None)),),
        (_SLOT + 1, _MOST),
        ("allreduce", "allgather", "alltoall"),
    ),
    "early": Way("doorbell rung early", ((ring.Outbound, "ring_early", _always(None)),), (0, _MOST)),
    "lap": Way("the ring from end to end", ((ring, "_LAP", 1), (ring, "REWIND", 2**16)), (2**13, _RING)),
    "ring": Way("the ring up to 256 KiB, not 32", (), (2**15 + 1, _RING), variables=("AIOMPI_EAGER_LIMIT=32768",)),
    "limit": Way("the ring up to 256 KiB, not 512", (), (_RING + 1, 2**19), variables=("AIOMPI_EAGER_LIMIT=524288",)),
}


def main(way: str = "") -> None:
    """Do one work after the other.

    Args:
        way: which to switch off; empty for none.
    """
    for place, name, value in WAYS[way].replaced if way else ():
        setattr(place, name, value)
    from aiompi.bench.measure import blocking  # this starts the rank

    blocking.main()


if __name__ == "__main__":
    main(*sys.argv[1:])
