"""Both faces beside bare sockets: latency and bandwidth of buffers, and the CPU time of a rank that waits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, TypeAlias

from aiompi.bench.contender import BLOCKING, NATIVE, SOCKET, UVLOOP, Answer, Conversation, conversations
from aiompi.bench.numerals import size
from aiompi.bench.samples import Side, one_way, per_iteration
from aiompi.bench.targets.figures import Family, Figure, Goal, Options, compare

#: message length in bytes: round trips per block
SIZES: Final = {8: 500, 2**10: 500, 2**16: 200}
NBYTES: Final = 4 * 2**20
#: messages of that length outstanding: windows per block
WINDOWS: Final = {8: 3, 1: 24}
SECONDS: Final = 5.0

_BLOCKS: Final = 3
_MOST_TURNS: Final = 3
_SHORTEST: Final = min(SIZES)
#: of the shortest message
_LATENCY: Final = {"blocking": Goal("ratio", "at most", 3.5), "native": Goal("ratio", "at most", 2)}
_BANDWIDTH: Final = Goal("ratio", "at least", 0.7)
_IDLE: Final = Goal("ours", "at most", 20)

#: name of a face, the face, and its floor
Faces: TypeAlias = tuple[tuple[str, Conversation, Conversation], ...]


def figures(options: Options) -> Iterator[Figure]:
    """Compare the blocking face with a bare socket, and the native one with a bare protocol on uvloop."""
    with conversations(BLOCKING, NATIVE, SOCKET, UVLOOP) as (blocking, native, socket, uvloop):
        faces = ("blocking", blocking, socket), ("native", native, uvloop)
        for nbytes, rounds in SIZES.items():
            work = {"work": "latency", "nbytes": nbytes, "iterations": options.scaled(rounds), "blocks": _BLOCKS}
            for name, ours, floor in faces:
                goal = _LATENCY[name] if nbytes == _SHORTEST else None
                sides = Side(ours, work, one_way), Side(floor, work, one_way)
                yield compare(f"{name}, {size(nbytes)} one way", "us", options.repeat, *sides, goal)
        for window, iterations in WINDOWS.items():

            def rate(answer: Answer, nbytes: int = NBYTES * window) -> float:
                return nbytes / per_iteration(answer) / 1e6

            work = {"work": "bandwidth", "nbytes": NBYTES, "window": window}
            work |= {"iterations": options.scaled(iterations), "blocks": _BLOCKS}
            for name, ours, floor in faces:
                sides = Side(ours, work, rate), Side(floor, work, rate)
                yield compare(f"{name}, {window} x {size(NBYTES)}", "MB/s", options.repeat, *sides, _BANDWIDTH)
        yield from _idle(faces, options)


def _idle(faces: Faces, options: Options) -> Iterator[Figure]:
    """Measure ranks and processes that wait, all at the same time."""
    seconds = 0.2 if options.quick else SECONDS
    everyone = [side for _, *sides in faces for side in sides]
    samples: list[list[float]] = [[] for _ in everyone]
    for _ in range(min(options.repeat, _MOST_TURNS)):
        for conversation in everyone:
            conversation.begin({"work": "idle", "seconds": seconds})
        for conversation, taken in zip(everyone, samples, strict=True):
            taken.append(conversation.finish()[1] * 1e3)
    for number, (name, *_) in enumerate(faces):
        yield Figure(f"{name}, CPU of {seconds:g} s in recv", "ms", samples[2 * number], samples[2 * number + 1], _IDLE)


FAMILY: Final = Family("beside bare sockets", figures)
