"""A trace as a table of events in CSV, which pipit reads: `pipit.Trace.from_csv`."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from typing import Any, Final, TextIO

from aiompi.core.pure import recorder as layout
from aiompi.trace.perfetto import arguments, lanes, name_of
from aiompi.trace.reading import Operation, Trace

COLUMNS: Final = ("Timestamp (ns)", "Event Type", "Name", "Thread", "Process", "Attributes")
#: order of events at the same time, so that operations of a thread follow each other
_ORDER: Final = ("Leave", "Enter", "Instant")


def write(trace: Trace, file: TextIO) -> None:
    """Write the events, sorted by time: Enter and Leave of each operation, and an Instant for each send and receive.

    Operations of a rank that do not overlap share a thread number. Operations that had not ended are left out.

    Args:
        trace: the trace.
        file: text file, opened with `newline=""`.
    """
    rows = [row for number, rank in trace.ranks.items() for row in _rows(number, rank.operations)]
    rows.sort(key=lambda row: (row[0], _ORDER.index(row[1])))
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows(rows)


def _rows(rank: int, operations: list[Operation]) -> Iterator[tuple[Any, ...]]:
    ended = [(round(op.begin * 1e9), op) for op in operations if op.end is not None and op.kind != layout.BELL]
    spans = [(begin, max(begin + 1, round((op.end or 0.0) * 1e9))) for begin, op in ended]
    apart = [(begin, end + 1) for begin, end in spans]  # pipit's sort by times may swap events of the same time
    for (begin, op), (_, end), lane in zip(ended, spans, lanes(apart), strict=True):
        yield begin, "Enter", name_of(op), lane, rank, str(arguments(op))
        if op.way != layout.FAILED and op.peer >= 0:
            message = {"communicator": op.context, "msg_tag": op.tag, "msg_length": op.nbytes}
            if op.kind == layout.SEND:
                yield begin, "Instant", "MpiSend", lane, rank, str({"receiver": op.peer, **message})
            elif op.kind == layout.RECV:
                yield end, "Instant", "MpiRecv", lane, rank, str({"sender": op.peer, **message})
        yield end, "Leave", name_of(op), lane, rank, ""
