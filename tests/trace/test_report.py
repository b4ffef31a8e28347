"""The report on a trace, as text and with pictures, and the trace for Perfetto."""

from __future__ import annotations

import ast
import asyncio
import base64
import csv
import dataclasses
import io
import json
import re
import sys
import xml.etree.ElementTree as ET
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from matplotlib.colors import to_rgb

import aiompi
import aiompi.trace
from aiompi.coll.registry import ALLGATHER
from aiompi.core.pure import recorder as layout
from aiompi.trace import analysis, events, page, perfetto, pictures, report
from aiompi.trace.__main__ import main
from aiompi.trace.reading import NOWHERE, Operation, Place, Rank, Trace, read
from support.jobs import Site

SLOW = """\
import time
from aiompi import MPI
world = MPI.COMM_WORLD
for step in range(5):
    if world.rank == 2:
        time.sleep(0.2)
    world.Barrier()
    if world.rank == 0:
        time.sleep(0.1)
        world.send(step, dest=1)
    elif world.rank == 1:
        world.recv(source=0)
world.Allgather(bytes(2**16), bytearray(3 * 2**16))
"""


def test_the_late_rank_and_its_line_are_named(site: Site) -> None:
    trace = site.directory / "trace"
    assert site.launch("-n", "3", "--trace", str(trace), site.program(SLOW, "slow.py")).finish().code == 0
    command = [sys.executable, "-m", "aiompi.trace", str(trace), "--csv", "events.csv"]
    done = site.start(*command).finish()
    assert (done.code, done.err) == (0, "")
    report = done.out
    assert report.startswith("Late ranks:\n  rank 2 comes late to Barrier at slow.py:7")
    assert "rank 0 comes late to send at slow.py:10, after Barrier at slow.py:7" in report
    assert re.search(r"late sender +recv at slow.py:12 +1: 0\.\d+ +0: 0\.\d+\n", report)
    assert re.search(r"\d+% +\d+\.\d+ +2  Barrier at slow.py:7\n", report)
    assert f"The same with pictures: {trace}/report.html" in report
    drawn = re.findall('src="data:image/svg[+]xml;base64,([^"]*)"', (trace / "report.html").read_text())
    assert [ET.fromstring(base64.b64decode(each)).tag for each in drawn] == ["{http://www.w3.org/2000/svg}svg"] * 4
    names = [row["Name"] for row in csv.DictReader((site.directory / "events.csv").read_text().splitlines())]
    assert names.count("MpiSend") == names.count("MpiRecv") == 5
    slices = json.loads((trace / "trace.json").read_text())["traceEvents"]
    assert sum(event["ph"] == "s" for event in slices) == sum(event["ph"] == "f" for event in slices) == 5
    assert {event["pid"] for event in slices if event.get("name") == "Barrier"} == {0, 1, 2}
    [algorithm] = {event["args"]["algorithm"] for event in slices if event.get("name") == "Allgather"}
    assert algorithm in ALLGATHER.algorithms


BOUND = """\
import time
import numpy as np
from aiompi import MPI
world = MPI.COMM_WORLD
data = np.zeros(4)
bcast = world.Bcast_init(data, root=1)
ring = [world.Send_init(data, (world.rank + 1) % 2), world.Recv_init(np.empty(4), (world.rank + 1) % 2)]
for step in range(3):
    if world.rank == 1:
        time.sleep(0.2)
    bcast.Start()
    bcast.Wait()
    if world.rank == 0:
        time.sleep(0.1)
    MPI.Prequest.Startall(ring)
    MPI.Request.Waitall(ring)
"""


def test_persistent_operations_are_named_by_the_calls_that_bound_them(site: Site) -> None:
    """Each run of a collective is one of its own, although all have one number."""
    assert site.launch("-n", "2", "--trace", "trace", site.program(BOUND, "bound.py")).finish().code == 0
    trace = read(site.directory / "trace")
    found = analysis.waitings(trace)
    late: Counter[tuple[int, str]] = Counter()
    for each in analysis.late_ranks(trace, found):
        late[each.rank, str(each.place)] += each.times
    assert late[1, "Start of Bcast_init at bound.py:11"] == late[0, "Startall of Send_init at bound.py:15"] == 3
    reasons = Counter(str(wait.operation.waiting_place) for wait in found if wait.state == analysis.LATE_ROOT)
    assert reasons == {"Start of Bcast_init at bound.py:11": 3}
    assert all(op.other is not None for op in trace.operations if op.kind == layout.SEND)
    assert not any(waiting.state == analysis.OTHER for waiting in found)


def test_a_directory_without_a_trace_is_refused(site: Site) -> None:
    failed = site.start(sys.executable, "-m", "aiompi.trace", str(site.directory)).finish()
    assert failed.code == 2
    assert "has no trace" in failed.err


def waits(rank: int, kind: int, times: tuple[float, float, float], peer: int) -> Operation:
    """An operation that begins, waits from then on, and ends, at a file whose name is markup."""
    begin, wait, end = times
    return Operation(rank, kind, layout.TCP, begin, wait, end, 0, peer, 0, 8, Place("call", "<b>.py", 1, "f"), NOWHERE)


def two_ranks() -> Trace:
    """Rank 1 sends after 3 s what rank 0 awaits since 1 s, in two tasks; the message takes 1 s."""
    first, other = (waits(0, layout.RECV, (0.0, wait, 4.0), 1) for wait in (1.0, 2.0))
    sent = waits(1, layout.SEND, (3.0, 3.0, 3.0), 0)
    first.other, sent.other, other.other = sent, first, sent
    idle = waits(1, layout.PART, (0.0, 0.0, 0.0), 0)
    ranks = {0: Rank(0, "here", [first, other], 0, True, 4.0), 1: Rank(1, "there", [idle, sent], 0, True, 4.0)}
    return Trace(ranks)


def test_tasks_that_wait_side_by_side_wait_once() -> None:
    found = analysis.waitings(two_ranks())
    assert sum(waiting.seconds for waiting in found) == 5.0
    assert analysis.waited(found) == {0: 3.0}
    [step, last] = analysis.critical_path(two_ranks(), found)
    assert (step.rank, last.rank, last.begin, last.end) == (1, 0, 3.0, 4.0)


def test_a_rank_that_waits_itself_is_not_the_late_one() -> None:
    """Rank 0 waits for rank 2 from 1 s to 3.5 s, and rank 2 for rank 1 from 1 s to 3 s."""
    got, sent = waits(2, layout.RECV, (0.5, 1.0, 3.0), 1), waits(1, layout.SEND, (3.0, 3.0, 3.0), 2)
    last, passed = waits(0, layout.RECV, (1.0, 1.0, 3.5), 2), waits(2, layout.SEND, (3.5, 3.5, 3.5), 0)
    got.other, sent.other, last.other, passed.other = sent, got, passed, last
    got.place, passed.place = dataclasses.replace(got.place, line=2), dataclasses.replace(passed.place, line=3)
    trace = Trace({
        number: Rank(number, "here", operations, 0, True, 4.0)
        for number, operations in enumerate([[last], [sent], [got, passed]])
    })  # fmt: skip
    late = analysis.late_ranks(trace, analysis.waitings(trace))
    assert late == [
        analysis.Late(1, sent.place, NOWHERE, 4.0, 1),
        analysis.Late(2, passed.place, got.place, 0.5, 1),
    ]


def test_wake_ups_are_told_with_their_delays() -> None:
    """Of two messages of one wake-up the first counts, and none that was there before its receive."""
    place, bell = Place("recv", "a.py", 1, "f"), layout.BELL
    sends = [Operation(1, layout.SEND, 0, time, None, time, 0, 0, 0, 8, place, NOWHERE) for time in (1.0, 1.1, 2.0)]
    times = [(0.5, 1.3), (0.6, 1.4), (3.0, 3.2)]
    receives = [Operation(0, layout.RECV, 0, begin, begin, end, 0, 1, 0, 8, place, NOWHERE) for begin, end in times]
    for send, receive in zip(sends, receives, strict=True):
        send.other, receive.other = receive, send
    rings = [Operation(0, bell, 0, time, None, time, 0, 1, 0, 0, NOWHERE, NOWHERE) for time in (0.1, 1.25, 3.1)]
    by_time = sorted([*receives, *rings], key=lambda op: op.begin)
    trace = Trace({0: Rank(0, "here", by_time, 0, True, 4.0), 1: Rank(1, "here", sends, 0, True, 4.0)})
    assert [wake.delay for wake in analysis.wakes(trace)[0]] == [None, 0.25, None]
    assert f"{report.WAKES}:" in report.text(trace)
    assert re.search(r"^ +0 +3  250000.0 +250000.0 +1: 3$", report.text(trace), re.MULTILINE)
    shown = io.StringIO()
    perfetto.write(trace, shown)
    slices = json.loads(shown.getvalue())["traceEvents"]
    assert [event["args"] for event in slices if event["ph"] == "i"] == [{"by": 1}] * 3
    assert {event["tid"] for event in slices if event["pid"] == 0} == {0, 1}


def test_the_timeline_shows_states_where_they_are() -> None:
    trace = two_ranks()
    found = analysis.waitings(trace)
    [image] = pictures.timeline(trace, found).axes[0].get_images()
    grid = np.asarray(image.get_array())
    for rank, second, state in [
        (0, 0.5, pictures.COMPUTING),
        (0, 2.5, analysis.LATE_SENDER),
        (0, 3.5, analysis.TRANSFER),
        (1, 2.5, pictures.COMPUTING),
    ]:
        assert grid[rank, int(second / 4 * grid.shape[1])] == pytest.approx(to_rgb(pictures.COLOURS[state]))


def test_events_for_pipit() -> None:
    """Operations of a thread are left before the next one is entered; messages have both ranks."""
    trace = two_ranks()
    trace.ranks[0].operations.append(waits(0, layout.RECV, (4.0, 4.0, 5.0), 1))
    file = io.StringIO()
    events.write(trace, file)
    rows = list(csv.DictReader(file.getvalue().splitlines()))
    assert [int(row["Timestamp (ns)"]) for row in rows] == sorted(int(row["Timestamp (ns)"]) for row in rows)
    inside: dict[tuple[str, str], str] = {}
    for row in rows:
        thread = row["Process"], row["Thread"]
        if row["Event Type"] == "Enter":
            assert thread not in inside
            inside[thread] = row["Name"]
        elif row["Event Type"] == "Leave":
            assert inside.pop(thread) == row["Name"]
    assert inside == {}
    times = [(row["Process"], row["Thread"], row["Timestamp (ns)"]) for row in rows if row["Event Type"] != "Instant"]
    assert len({*times}) == len(times)  # pipit may swap what has the same time
    messages = [
        (row["Name"], row["Process"], ast.literal_eval(row["Attributes"]))
        for row in rows
        if row["Event Type"] == "Instant"
    ]
    assert [(name, rank) for name, rank, _ in messages] == [("MpiSend", "1"), *[("MpiRecv", "0")] * 3]
    assert messages[0][2] == {"receiver": 0, "communicator": 0, "msg_tag": 0, "msg_length": 8}
    assert messages[1][2]["sender"] == 1


def test_names_in_a_trace_are_no_markup() -> None:
    made = page.html(two_ranks(), "a <i>title</i>")
    assert "call at &lt;b&gt;.py:1" in made
    assert "<i>" not in made


async def one_rank(directory: Path) -> None:
    (world,) = aiompi.local_world(1)
    with aiompi.trace.start(world, directory):
        await world.barrier()


def test_without_the_extra_there_is_the_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asyncio.run(one_rank(tmp_path / "trace"))
    monkeypatch.setitem(sys.modules, "jinja2", None)
    monkeypatch.setattr(sys, "argv", ["trace", str(tmp_path / "trace")])
    main()
    told = capsys.readouterr()
    assert told.out.startswith("Late ranks:\n  none")
    assert told.err == f"no {tmp_path}/trace/report.html: it needs jinja2, which comes with the extra trace of aiompi\n"
    assert not (tmp_path / "trace" / "report.html").exists()
