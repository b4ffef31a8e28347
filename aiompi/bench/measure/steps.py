"""What the functions through which a message passes take, each by itself: by cProfile, less what that takes itself."""

from __future__ import annotations

import cProfile
import sys
import time
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

#: depth, name, file and line of a function, calls per message, and seconds per message
Step: TypeAlias = tuple[int, str, str, float, float]


class _Overhead(NamedTuple):
    """Seconds by which the profiler makes a call of a function longer.

    Attributes:
        inside: in that function.
        outside: in the one that calls it.
    """

    inside: float
    outside: float


def steps(comm: Any, payload: str, nbytes: int, iterations: int, blocks: int) -> dict[str, Any]:
    """Take the way of a message to pieces.

    Args:
        payload: name of an object to send, empty for memory.
        nbytes: of a message from memory, or of the array in the object.
        iterations: round trips per block, and of the profile.

    Returns:
        "seconds" of a round trip, per block, without the profiler; and the steps of "send" and of "recv", in the order
        of their first calls.
    """
    send, receive = _calls(comm, payload, nbytes)
    halves = (send, receive) if comm.rank == 0 else (receive, send)

    def loop(n: int) -> None:
        for _ in range(n):
            halves[0]()
            halves[1]()

    seconds = timed(loop, iterations, blocks, comm.Barrier)
    order = [_passed(half) for half in halves]
    overhead = _overhead()
    profile = cProfile.Profile(builtins=False)
    profile.enable()
    loop(iterations)
    profile.disable()
    entries = {entry.code: entry for entry in profile.getstats() if isinstance(entry.code, CodeType)}

    def step(code: CodeType, depth: int) -> Step:
        entry = entries[code]
        callees = sum(callee.callcount for callee in entry.calls or ())
        own = entry.inlinetime - entry.callcount * overhead.inside - callees * overhead.outside
        where = f"{Path(code.co_filename).relative_to(_HOME)}:{code.co_firstlineno}"
        return depth, code.co_qualname, where, entry.callcount / iterations, max(own, 0.0) / iterations

    found = [[step(code, depth) for code, depth in half.items() if code in entries] for half in order]
    names = ("send", "recv") if comm.rank == 0 else ("recv", "send")
    return {"seconds": seconds, **dict(zip(names, found, strict=True))}


def _calls(comm: Any, payload: str, nbytes: int) -> tuple[Callable[[], object], Callable[[], object]]:
    """What sends a message to the other rank, and what receives one."""
    peer = 1 - comm.rank
    if payload:
        obj = payloads.make(payload, nbytes)
        return lambda: comm.send(obj, peer, TAG), lambda: comm.recv(source=peer, tag=TAG)
    sent, received = payloads.touched(nbytes), payloads.blank(nbytes)
    return lambda: comm.Send(sent, peer, TAG), lambda: comm.Recv(received, peer, TAG)


def _passed(call: Callable[[], object]) -> dict[CodeType, int]:
    """The functions of aiompi that a call passes through, in the order of their first calls, and how deep each is."""
    found: dict[CodeType, int] = {}
    depth = 0

    def look(frame: FrameType, event: str, _: object) -> None:
        nonlocal depth
        code = frame.f_code
        if not code.co_filename.startswith(_HOME) or code.co_filename.startswith(_BENCH):
            return
        if event == "call":
            found.setdefault(code, depth)
            depth += 1
        elif event == "return":
            depth -= 1

    sys.setprofile(look)
    try:
        call()
    finally:
        sys.setprofile(None)
    return found


def _overhead(calls: int = 20_000) -> _Overhead:
    """Measured with a function that does nothing."""

    def nothing() -> None:
        pass

    def alone() -> None:
        for _ in range(calls):
            pass

    def calling() -> None:
        for _ in range(calls):
            nothing()

    bare, called = (min(_seconds(function) for _ in range(5)) for function in (alone, calling))
    profile = cProfile.Profile(builtins=False)
    profile.enable()
    calling()
    profile.disable()
    own = {entry.code: entry.inlinetime for entry in profile.getstats()}
    inside = own[nothing.__code__] - (called - bare)
    outside = own[calling.__code__] - bare
    return _Overhead(max(inside, 0.0) / calls, max(outside, 0.0) / calls)


def _seconds(function: Callable[[], object]) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


WORKS: Final[dict[str, Callable[..., Any]]] = {"steps": steps}
