"""A trace as JSON for Perfetto (ui.perfetto.dev) and chrome://tracing."""

from __future__ import annotations

import heapq
import json
from collections.abc import Iterator, Sequence
from typing import Any, Final, TextIO

from aiompi.core.pure import recorder as layout
from aiompi.trace.reading import Operation, Trace

#: kinds from which an arrow goes to the other end
_BEGINS: Final = (layout.SEND, layout.PSEND, layout.NOTIFY)
#: names of operations that no call of the program makes
_NAMES: Final = {
    layout.SEND: "send",
    layout.RECV: "recv",
    layout.DISK: "file",
    layout.GC: "garbage collection",
    layout.LATE: "late callbacks",
    layout.PART: "message",
    layout.WAIT: "wait",
    layout.BELL: "woken",
}


def write(trace: Trace, file: TextIO) -> None:
    """Write a trace. Each rank is a process; its operations that do not overlap are in one thread.

    A wake-up by another rank is an instant of the process.
    """
    events = [*_metadata(trace), *_events(trace)]
    json.dump({"traceEvents": events, "displayTimeUnit": "ns"}, file)


def _metadata(trace: Trace) -> Iterator[dict[str, Any]]:
    for rank in trace.ranks.values():
        name = {"name": f"rank {rank.number} on {rank.host}"}
        yield {"ph": "M", "pid": rank.number, "tid": 0, "name": "process_name", "args": name}


def _events(trace: Trace) -> Iterator[dict[str, Any]]:
    flow = 0
    lane_of: dict[int, int] = {}
    for rank in trace.ranks.values():
        lasting = [op for op in rank.operations if op.kind != layout.BELL]
        spans = [(op.begin, op.begin if op.end is None else op.end) for op in lasting]
        lane_of |= {id(op): lane for op, lane in zip(lasting, lanes(spans), strict=True)}
    for op in trace.operations:
        if op.kind == layout.BELL:
            instant = {"name": name_of(op), "cat": "MPI", "args": {"by": op.peer}}
            yield {"ph": "i", "s": "p", "pid": op.rank, "tid": 0, "ts": op.begin * 1e6, **instant}
            continue
        lane = lane_of[id(op)]
        end = op.begin if op.end is None else op.end
        yield {
            "ph": "X", "pid": op.rank, "tid": lane, "ts": op.begin * 1e6, "dur": (end - op.begin) * 1e6,
            "name": name_of(op),
            "cat": "Python" if op.kind in (layout.GC, layout.LATE) else "MPI",
            "args": arguments(op),
        }  # fmt: skip
        if op.kind in _BEGINS and op.other is not None and op.other.end is not None:
            flow += 1
            common = {"name": "message", "cat": "MPI", "id": flow}
            yield {"ph": "s", "pid": op.rank, "tid": lane, "ts": op.begin * 1e6, **common}
            to = {"pid": op.other.rank, "tid": lane_of[id(op.other)], "ts": op.other.end * 1e6}
            yield {"ph": "f", "bp": "e", **to, **common}


def name_of(op: Operation) -> str:
    """Return the name of an operation: the name of its call, if there is one."""
    return op.place.call if op.kind < layout.WAIT and op.place.call else _NAMES.get(op.kind, "call")


def arguments(op: Operation) -> dict[str, Any]:
    """Return the known properties of an operation, by name."""
    named = {
        "at": f"{op.place.file}:{op.place.line}" if op.place.file else "",
        "called at": "{}:{}".format(*op.place.caller) if op.place.caller else "", "way": layout.WAYS.get(op.way, ""),
        "algorithm": op.algorithm, "peer": "" if op.peer < 0 else op.peer, "waited us": round(op.seconds * 1e6, 1),
    }  # fmt: skip
    return {"tag": op.tag, "bytes": op.nbytes, **{name: value for name, value in named.items() if value != ""}}


def lanes(spans: Sequence[tuple[float, float]]) -> list[int]:
    """Return the number of a lane for each span of time. The spans of one lane follow each other.

    Args:
        spans: begin and end of each, sorted by the begins.
    """
    free: list[int] = []
    busy: list[tuple[float, int]] = []
    found = []
    for begin, end in spans:
        while busy and busy[0][0] <= begin:
            heapq.heappush(free, heapq.heappop(busy)[1])
        lane = heapq.heappop(free) if free else len(busy)
        heapq.heappush(busy, (end, lane))
        found.append(lane)
    return found
