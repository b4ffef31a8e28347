"""The native face compared with other libraries for two asyncio programs, all of which sleep while they wait."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from aiompi.bench.contender import UVLOOP, aiompi_job, conversations, distributed_pair, zmq_pair
from aiompi.bench.samples import Side, in_turns, one_way
from aiompi.bench.targets.family import Family, Options
from aiompi.bench.targets.figure import Figure, Goal

#: message length in bytes -> how it is written, and round trips per block
_SIZES: Final = {
    8: ("8 B", 200), 2**10: ("1 KiB", 200), 2**16: ("64 KiB", 100), 2**20: ("1 MiB", 20), 2**24: ("16 MiB", 3),
}  # fmt: skip
_BLOCKS: Final = 3
#: bytes from which aiompi must be faster than a bare protocol, and how much slower it may be below
_LONG: Final = 2**16
_SHORT_BOUND: Final = 1.15


def figures(options: Options) -> Iterator[Figure]:
    """Yield figures of round trips, for each size."""
    names = ("uvloop", "pyzmq", "distributed")
    contenders = aiompi_job(2, "AIOMPI_SPIN=0", face="native"), UVLOOP, zmq_pair(), distributed_pair()
    with conversations(*contenders) as everyone:
        for nbytes, (size, rounds) in _SIZES.items():
            work: dict[str, Any] = {"work": "latency", "nbytes": nbytes, "iterations": options.scaled(rounds)}
            sides = (Side(side, {**work, "blocks": _BLOCKS}, one_way) for side in everyone)
            ours, *floors = in_turns(options.repeat, *sides)
            for name, floor in zip(names, floors, strict=True):
                bound = _SHORT_BOUND if name == "uvloop" and nbytes < _LONG else 1
                yield Figure(f"{size} / {name}", "us", ours, floor, Goal("ratio", "at most", bound))


FAMILY: Final = Family(
    "beside asyncio libraries",
    figures,
    beside="theirs",
    note="""\
Messages one way, native face on uvloop with AIOMPI_SPIN=0. uvloop is a bare protocol on a Unix socket, pyzmq its
asyncio sockets over ipc, distributed its comms over TCP.""",
)
