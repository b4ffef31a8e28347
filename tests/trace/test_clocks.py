"""The clocks of several hosts in one trace."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

from aiompi.core.pure import recorder as layout
from aiompi.trace.reading import read

#: hosts with two ranks each, and how long they run
HOSTS, SECONDS = 3, 600.0


class Clock:
    """The clocks of a host: that of its records, which drifts by up to 50 ppm, and that of the wall, off by seconds."""

    def __init__(self, chance: random.Random) -> None:
        self._rate = 1 + chance.uniform(-50e-6, 50e-6)
        self._uptime, self.wall = chance.uniform(1e3, 1e6), chance.uniform(-5, 5)

    def ticks(self, time: float) -> int:
        """Return the nanoseconds of the records at a true time."""
        return round((self._uptime + self._rate * time) * 1e9)


def write(directory: Path, rank: int, clock: Clock, late: float, records: list[tuple[Any, ...]]) -> None:
    """Write a recording; the wall clock is read so many seconds after the other one."""
    capacity = 1024
    begin, wall = clock.ticks(0), round((1e9 + clock.wall + late) * 1e9)
    form = layout.MAGIC, layout.RECORD.size, capacity, len(records)
    header = layout.HEADER.pack(*form, begin, wall, clock.ticks(SECONDS), rank, 1)
    data = header.ljust(layout.RECORDS, b"\0") + b"".join(layout.RECORD.pack(*record) for record in records)
    (directory / f"rank-{rank}.trace").write_bytes(data)
    (directory / f"rank-{rank}.names").write_text(json.dumps({"host": f"host-{rank // 2}"}) + "\n")


def test_clocks_that_are_off_and_drift_are_aligned_by_messages(tmp_path: Path) -> None:
    """No message arrives before it was sent, and in an exchange a clock is off by less than both of its delays."""
    chance = random.Random(7)
    clocks = [Clock(chance) for _ in range(HOSTS)]
    records: list[list[tuple[Any, ...]]] = [[] for _ in range(2 * HOSTS)]
    sent_at: dict[int, float] = {}  # by tag
    bounds: dict[int, float] = {}  # by the tag of the message forth

    def message(sender: int, receiver: int, sent: float, got: float, tag: int) -> None:
        sent_at[tag] = sent
        for rank, kind, peer, end in (sender, layout.SEND, receiver, sent), (receiver, layout.RECV, sender, got):
            begin, ended = (clocks[rank // 2].ticks(time) for time in (sent, end))
            records[rank].append((begin, 0, ended, 0, 8, peer, tag, 0, 0, kind, layout.TCP, 0))

    for number in range(300):
        first, second = chance.sample(range(2 * HOSTS), 2)
        time, forth, back = SECONDS * number / 300, *(20e-6 + chance.expovariate(5e3) for _ in range(2))
        message(first, second, time, time + forth, 2 * number)
        message(second, first, time + forth, time + forth + back, 2 * number + 1)
        bounds[2 * number] = forth + back
    for rank, each in enumerate(records):
        write(tmp_path, rank, clocks[rank // 2], chance.expovariate(100), each)

    trace = read(tmp_path)
    sends = [op for op in trace.operations if op.kind == layout.SEND]
    assert len(sends) == 600
    [begin, *_] = (op for op in sends if op.rank == 0)
    origin = begin.begin - clocks[0].ticks(sent_at[begin.tag]) / 1e9
    for op in sends:
        assert op.other is not None
        assert op.other.end is not None
        assert op.begin <= op.other.end
        if op.rank in (0, 1) and op.tag in bounds:
            arrived = sent_at[op.tag + 1]  # when the message back was sent
            assert abs(op.other.end - origin - clocks[0].ticks(arrived) / 1e9) < bounds[op.tag]
