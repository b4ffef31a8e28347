"""The time of each function on the path of a message, measured by frequent samples of the running function."""

from __future__ import annotations

import signal
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final, NamedTuple, TypeAlias

import aiompi
from aiompi.bench.measure import payloads
from aiompi.bench.measure.payloads import TAG
from aiompi.bench.measure.turns import timed

_HOME: Final = str(Path(aiompi.__file__).parent)
_BENCH: Final = str(Path(__file__).parent)
#: seconds between two samples, each of which costs some 50 us
_PERIOD: Final = 500e-6
#: round trips in which calls are counted
_COUNTED: Final = 50

#: depth, name, file and line of a function, calls per message, and seconds per message
Step: TypeAlias = tuple[int, str, str, float, float]


class _Half(NamedTuple):
    """A half of a round trip: the send or the receive.

    Attributes:
        name: "send" or "recv".
        call: function that does it.
        order: its functions in the order of their first calls, with their depths.
        calls: number of calls of each in `_COUNTED` round trips.
        looks: number of samples that found each running.
    """

    name: str
    call: Callable[[], object]
    order: dict[CodeType, int]
    calls: Counter[CodeType]
    looks: Counter[CodeType]


def steps(comm: Any, payload: str, nbytes: int, iterations: int, blocks: int) -> dict[str, Any]:
    """Measure the functions on the path of a message.

    Args:
        payload: name of an object to send, empty for memory.
        nbytes: of a message from memory, or of the array in the object.
        iterations: round trips per block.
        blocks: to be timed, and as many more while each rank looks.

    Returns:
        "seconds" of a round trip, per block, while nobody looks; and the steps of "send" and of "recv".
    """
    calls = _calls(comm, payload, nbytes)
    halves = [_Half(name, call, {}, Counter(), Counter()) for name, call in zip(("send", "recv"), calls, strict=True)]
    if comm.rank:
        halves.reverse()
    first, second = halves

    def loop(n: int) -> None:
        for _ in range(n):
            first.call()
            second.call()

    seconds = timed(loop, iterations, blocks, comm.Barrier)
    for half in halves:
        _trace(half)
    for _ in range(_COUNTED):
        for half in halves:
            _count(half)
    for rank in range(comm.size):
        comm.Barrier()
        if rank == comm.rank:
            _look(halves, iterations * blocks)
        else:  # ranks sample in turns, so that none is seen waiting for a sampling peer
            loop(iterations * blocks)
    found = {half.name: [_step(half, code, iterations * blocks) for code in half.order] for half in halves}
    return {"seconds": seconds, **found}


def _step(half: _Half, code: CodeType, messages: int) -> Step:
    where = f"{Path(code.co_filename).relative_to(_HOME)}:{code.co_firstlineno}"
    calls = half.calls[code] / _COUNTED
    return half.order[code], code.co_qualname, where, calls, half.looks[code] * _PERIOD / messages


def _calls(comm: Any, payload: str, nbytes: int) -> tuple[Callable[[], object], Callable[[], object]]:
    """Return the halves that send a message to the other rank and receive one."""
    peer = 1 - comm.rank
    if payload:
        obj = payloads.make(payload, nbytes)
        return lambda: comm.send(obj, peer, TAG), lambda: comm.recv(source=peer, tag=TAG)
    sent, received = payloads.touched(nbytes), payloads.blank(nbytes)
    return lambda: comm.Send(sent, peer, TAG), lambda: comm.Recv(received, peer, TAG)


def _ours(code: CodeType) -> bool:
    return code.co_filename.startswith(_HOME) and not code.co_filename.startswith(_BENCH)


def _trace(half: _Half) -> None:
    """Find the functions of aiompi that a call uses."""
    depth = 0

    def look(frame: FrameType, event: str, _: object) -> None:
        nonlocal depth
        if _ours(frame.f_code):
            if event == "call":
                half.order.setdefault(frame.f_code, depth)
                depth += 1
            elif event == "return":
                depth -= 1

    sys.setprofile(look)
    try:
        half.call()
    finally:
        sys.setprofile(None)


def _count(half: _Half) -> None:
    """Count their calls."""

    def look(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            half.calls[frame.f_code] += 1

    sys.setprofile(look)
    try:
        half.call()
    finally:
        sys.setprofile(None)


def _look(halves: list[_Half], iterations: int) -> None:
    """Sample the running function every `_PERIOD` seconds during round trips."""
    looks: Counter[CodeType] = Counter()

    def look(_: int, frame: FrameType | None) -> None:
        # Handlers run at the beginning of functions, among other places: that time belongs to the caller.
        if frame is not None and frame.f_lineno == frame.f_code.co_firstlineno:
            frame = frame.f_back
        while frame is not None and not _ours(frame.f_code):
            frame = frame.f_back  # time in other libraries belongs to their caller
        if frame is not None:
            looks[frame.f_code] += 1

    before = signal.signal(signal.SIGALRM, look)
    signal.setitimer(signal.ITIMER_REAL, _PERIOD, _PERIOD)
    try:
        for _ in range(iterations):
            for half in halves:
                looks = half.looks
                half.call()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


WORKS: Final[dict[str, Callable[..., Any]]] = {"steps": steps}
