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
PLACE = {"place": 1, "call": "Barrier", "at": ["a.py", 1, "f"], "caller": None}


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
    names = {"host": f"host-{rank // 2}"}, {"word": 1, "text": "dissemination"}, PLACE
    (directory / f"rank-{rank}.names").write_text("".join(json.dumps(name) + "\n" for name in names))


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


def test_clocks_are_aligned_by_barriers(tmp_path: Path) -> None:
    """There are no messages. No rank leaves before all have entered, which some do late."""
    chance = random.Random(7)
    clocks = [Clock(chance) for _ in range(HOSTS)]
    records: list[list[tuple[Any, ...]]] = [[] for _ in range(2 * HOSTS)]
    enters: dict[tuple[int, int], float] = {}  # by rank and number of the barrier: the true time
    for number in range(300):
        for rank in range(2 * HOSTS):
            enters[rank, number] = SECONDS * number / 300 + chance.uniform(0, 0.01)
        last = max(enters[rank, number] for rank in range(2 * HOSTS))
        for rank, each in enumerate(records):
            begin, end = enters[rank, number], last + 20e-6 + chance.expovariate(5e3)
            begin, end = clocks[rank // 2].ticks(begin), clocks[rank // 2].ticks(end)
            each.append((begin, begin, end, 0, 0, -1, number, 1, 0, layout.COLLECTIVE, layout.TCP, 1))
    for rank, each in enumerate(records):
        write(tmp_path, rank, clocks[rank // 2], chance.expovariate(100), each)

    trace = read(tmp_path)
    by_number = [[op for op in trace.operations if op.tag == number] for number in range(300)]
    for meeting in by_number:
        assert max(op.begin for op in meeting) <= min(op.end for op in meeting if op.end is not None)
    [origin] = (op.begin - clocks[0].ticks(enters[0, 0]) / 1e9 for op in by_number[0] if op.rank == 0)
    for number, meeting in enumerate(by_number):
        for op in meeting:
            assert abs(op.begin - origin - clocks[0].ticks(enters[op.rank, number]) / 1e9) < 1e-3


def test_containers_of_one_machine_share_its_clock(tmp_path: Path) -> None:
    """Slow messages one way move no clock."""
    clock = Clock(random.Random(7))
    times = [(0, 2, 1.0, 1.5), (2, 0, 2.0, 2.001)]
    for rank in 0, 2:
        records: list[tuple[Any, ...]] = []
        for sender, receiver, sent, got in times:
            kind, peer, end = (layout.SEND, receiver, sent) if rank == sender else (layout.RECV, sender, got)
            records.append((clock.ticks(sent), 0, clock.ticks(end), 0, 8, peer, 0, 0, 0, kind, layout.TCP, 0))
        write(tmp_path, rank, clock, 0.0, records)
        path = tmp_path / f"rank-{rank}.names"
        path.write_text(path.read_text().replace('{"host"', '{"clock": "boot", "host"'))
    trace = read(tmp_path)
    assert {rank.host for rank in trace.ranks.values()} == {"host-0", "host-1"}
    sent = [clock.ticks(time) - clock.ticks(0) for _, _, time, _ in times]
    assert [round(op.begin * 1e9) for op in trace.ranks[2].operations] == sent
