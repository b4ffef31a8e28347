"""How waiting for windows, files and partitions is told apart, and which ranks are named for it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import aiompi
import aiompi.trace
from aiompi import MPI
from aiompi.core.pure import recorder as layout
from aiompi.trace import analysis, report
from aiompi.trace.reading import NOWHERE, Operation, Place, Rank, Trace, read
from support.jobs import Site


class Turn:
    """Lets one rank go on once others wait, and late by as much time as has passed so far: all are in one process.

    A report names only ranks that cause a twentieth of all waiting or more, and a busy machine makes all ranks wait.
    """

    def __init__(self, others: int) -> None:
        self._others = others
        self._came = 0
        self._begin = time.monotonic()

    def come(self) -> None:
        """Note that a rank is about to wait."""
        self._came += 1

    async def others_wait(self) -> None:
        """Wait until all others have come, and wait."""
        while self._came < self._others:
            await asyncio.sleep(0)
        for _ in range(20):
            await asyncio.sleep(0)
        time.sleep(max(0.05, time.monotonic() - self._begin))


def recorded(ranks: int, body: Callable[[Any, Turn], Awaitable[None]], directory: Path) -> Trace:
    """Run a function as so many ranks of this process, and return the trace."""
    turn = Turn(ranks - 1)

    async def rank(comm: Any) -> None:
        with aiompi.trace.start(comm, directory):
            await body(comm, turn)

    async def main() -> None:
        await asyncio.gather(*map(rank, aiompi.local_world(ranks)))

    asyncio.run(main())
    return read(directory)


def told(trace: Trace) -> set[tuple[str, int, int | None, str]]:
    """Return reason, rank, late rank and call of all waiting."""
    return {
        (each.state, each.operation.rank, each.cause and each.cause.rank, each.operation.waiting_place.call)
        for each in analysis.waitings(trace)
    }


def late(trace: Trace) -> set[tuple[int, str, str, bool]]:
    """Return rank, call and call before of the late ranks, and whether they waited for a disk."""
    found = analysis.late_ranks(trace, analysis.waitings(trace))
    return {(each.rank, each.place.call, each.after.call, each.at_disk) for each in found}


async def fences(comm: Any, turn: Turn) -> None:
    win = await aiompi.Win.Allocate(8, comm=comm)
    await win.Fence()
    if comm.rank == 2:
        await turn.others_wait()
        win.Put(np.ones(1), 0)
    turn.come()
    await win.Fence(MPI.MODE_NOSUCCEED)
    await win.Free()


def test_a_fence_is_waited_at_for_the_last_rank(tmp_path: Path) -> None:
    trace = recorded(3, fences, tmp_path / "trace")
    assert {(analysis.AT_FENCE, 0, 2, "Fence"), (analysis.AT_FENCE, 1, 2, "Fence")} <= told(trace)
    assert (2, "Put", "Fence", False) in late(trace)
    assert analysis.messages(trace)[2, 0][1] >= 8


async def locks(comm: Any, turn: Turn) -> None:
    win = await aiompi.Win.Allocate(8, comm=comm)
    value = np.ones(1)
    if comm.rank == 1:
        async with win.lock(0):
            await comm.barrier()
            await turn.others_wait()
            await win.Put(value, 0)
    else:
        await comm.barrier()
        turn.come()
        async with win.lock(0):
            await win.Get(value, 0)


def test_a_lock_is_waited_for_while_another_rank_holds_it(tmp_path: Path) -> None:
    trace = recorded(3, locks, tmp_path / "trace")
    assert {(analysis.AT_LOCK, rank, 1, "lock") for rank in (0, 2)} <= told(trace)
    assert (1, "Put", "barrier", False) in late(trace)
    assert "rank 1 comes late to Put at test_waits.py:" in report.text(trace)
    assert ", and holds a lock meanwhile: others wait" in report.text(trace)


async def exposures(comm: Any, turn: Turn) -> None:
    win = await aiompi.Win.Allocate(8, comm=comm)
    if comm.rank == 0:
        await turn.others_wait()
        win.Post(comm.group.Excl([0]))
        await win.Wait()
        return
    turn.come()
    await win.Start(comm.group.Incl([0]))
    await win.Put(np.ones(1, np.uint8), 0, comm.rank)
    for _ in range(40):  # until rank 0 waits
        await asyncio.sleep(0)
    time.sleep(0.002)
    await win.Complete()


def test_start_waits_for_post_and_wait_for_complete(tmp_path: Path) -> None:
    trace = recorded(3, exposures, tmp_path / "trace")
    found = told(trace)
    assert {(analysis.LATE_POST, rank, 0, "Start") for rank in (1, 2)} <= found
    assert any(each[:2] == (analysis.LATE_COMPLETE, 0) and each[3] == "Wait" for each in found)
    assert any(each[:2] == (0, "Post") for each in late(trace))


async def partitions(comm: Any, turn: Turn) -> None:
    memory = np.zeros(16)
    if comm.rank == 0:
        request = comm.Psend_init(memory, 4, 1, 5)
        request.start()
        await turn.others_wait()
        for partition in range(3):
            request.ready(partition)
        await turn.others_wait()
        request.ready(3)
    else:
        request = comm.Precv_init(memory, 2, 0, 5)
        request.start()
        turn.come()
        await request.arrived(0)
    await request


def test_a_partition_that_is_ready_late_is_waited_for(tmp_path: Path) -> None:
    trace = recorded(2, partitions, tmp_path / "trace")
    assert {(analysis.LATE_PREADY, 1, 0, call) for call in ("arrived", "start of Precv_init")} <= told(trace)
    assert (0, "ready", "ready", False) in late(trace)
    assert analysis.messages(trace)[0, 1][1] > 16 * 8  # the partitions, and what announces them
    [sent] = [op for op in trace.operations if op.kind == layout.PSEND]
    assert sent.other is not None
    assert (sent.nbytes, sent.tag, sent.peer, sent.other.kind) == (128, 5, 1, layout.PRECV)


FILE = """\
import os, time
import numpy as np
from aiompi import MPI
world = MPI.COMM_WORLD
if world.rank == 1:
    write = os.pwritev
    os.pwritev = lambda *args: (time.sleep(0.25), write(*args))[1]
file = MPI.File.Open(world, "data", MPI.MODE_CREATE | MPI.MODE_RDWR)
file.Write_at(8 * world.rank, np.ones(1))
world.Barrier()
file.Write_at_all(8 * world.rank, np.ones(1))
file.Iwrite_at(8 * world.rank, np.ones(1)).Wait()
world.Barrier()
file.Close()
"""


def test_a_slow_disk_is_named_with_its_rank(site: Site) -> None:
    """Others wait at a barrier, or in the collective itself."""
    assert site.launch("-n", "3", "--trace", "trace", site.program(FILE, "file.py")).finish().code == 0
    trace = read(site.directory / "trace")
    found = told(trace)
    assert {(analysis.AT_DISK, 1, None, call) for call in ("Write_at", "Iwrite_at")} <= found
    assert {(analysis.AT_DISK, rank, 1, "Write_at_all") for rank in (0, 2)} <= found
    assert {(1, call, "", True) for call in ("Write_at", "Write_at_all", "Iwrite_at")} <= late(trace)
    shown = report.text(trace)
    assert "rank 1 waits for a disk in Write_at at file.py:9: others wait" in shown
    assert [line.split()[1:4] for line in shown.splitlines() if line.endswith("Write_at at file.py:9")][-1][1:] == [
        "1",
        "8",
    ]


def test_an_answer_of_a_target_that_computes_is_waited_for() -> None:
    """The target serves accesses when it calls the library: here after 3 s."""
    place = Place("Get", "a.py", 1, "f")
    call = Operation(1, layout.RECV, 0, 3.0, None, 3.1, 0, 0, 0, 0, Place("Recv", "a.py", 9, "f"), NOWHERE)
    before = Operation(1, layout.SEND, 0, 0.5, None, 0.6, 0, 0, 0, 0, Place("Send", "a.py", 2, "f"), NOWHERE)
    served = Operation(1, layout.SEND, 0, 3.0, None, 3.0, 7, 0, 4, 8, NOWHERE, NOWHERE)
    answer = Operation(0, layout.RECV, 0, 1.0, 1.0, 3.1, 7, 1, 4, 8, place, place, answers=True, other=served)
    trace = Trace({
        0: Rank(0, "here", [answer], 0, True, 4.0),
        1: Rank(1, "here", [before, call, served], 0, True, 4.0),
    })  # fmt: skip
    [first, _] = found = analysis.waitings(trace)
    assert (first.state, first.seconds) == (analysis.LATE_TARGET, 2.0)
    [named] = analysis.late_ranks(trace, found)
    assert (named.rank, str(named.place), str(named.after)) == (1, "Recv at a.py:9", "Send at a.py:2")


HELPERS = """\
import time
from aiompi import MPI
world = MPI.COMM_WORLD
def exchange():
    world.Barrier()
def step():
    if world.rank == 1:
        time.sleep(0.25)
    exchange()
def main():
    for _ in range(2):
        exchange()
        step()
main()
"""


def test_the_caller_of_a_function_with_a_call_is_named(site: Site) -> None:
    assert site.launch("-n", "2", "--trace", "trace", site.program(HELPERS, "helpers.py")).finish().code == 0
    trace = read(site.directory / "trace")
    places = {str(op.place) for op in trace.operations if op.kind == layout.COLLECTIVE and op.place.call == "Barrier"}
    assert places == {f"Barrier at helpers.py:5 (called at helpers.py:{line})" for line in (9, 12)}
    assert "  rank 1 comes late to Barrier at helpers.py:5 (called at helpers.py:9), after Barrier" in report.text(
        trace
    )


def test_what_is_no_waiting_is_told_too() -> None:
    """Failed and cancelled calls are no messages; a rank that was killed has a last wait."""
    place, kept = Place("recv", "a.py", 1, "f"), Place("send", "a.py", 2, "f")
    vain = Operation(0, layout.RECV, layout.FAILED, 1.0, 1.0, 3.0, 0, 1, 0, 0, place, place)
    sent = Operation(0, layout.SEND, layout.FAILED, 3.0, None, 3.0, 0, 1, 0, 8, kept, kept)
    killed = Operation(1, layout.RECV, 0, 2.0, 2.0, None, 0, 0, 0, 0, place, place)
    swept = Operation(1, layout.GC, 0, 1.0, None, 1.25, 0, -1, 2, 0, NOWHERE, NOWHERE)
    late = Operation(1, layout.LATE, 0, 0.0, None, 0.5, 0, -1, 0, 0, NOWHERE, NOWHERE)
    trace = Trace({
        0: Rank(0, "here", [vain, sent], 0, True, 3.0),
        1: Rank(1, "here", [late, swept, killed], 0, False, 3.0),
    })  # fmt: skip
    assert told(trace) == {(analysis.IN_VAIN, 0, None, "recv")}
    assert analysis.messages(trace) == {}
    assert analysis.sizes(trace) == {}
    assert report.text(trace).partition("Also:\n")[2].splitlines() == [
        "  rank 0: 1 of recv at a.py:1 failed, were cancelled or timed out",
        "  rank 0: 1 of send at a.py:2 failed, were cancelled or timed out",
        "  rank 1 has not ended: it waits for rank 0 in recv at a.py:1",
        "  rank 1: 1 garbage collections, 0.250 s in all, 0.250 s at most",
        "  rank 1: 1 delays of the event loop above 10 ms, 0.500 s in all, 0.500 s at most",
    ]


async def _time_out(directory: Path) -> Trace:
    (comm,) = aiompi.local_world(1)
    with aiompi.trace.start(comm, directory):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await comm.recv(0)
        with pytest.raises(aiompi.errors.InvalidRankError):
            await comm.send(None, 1)
        await comm.send(None, 0)
        await comm.recv(0)
    return read(directory)


async def _call(directory: Path) -> Trace:
    caller, callee = aiompi.local_world(2)

    @callee.handler
    async def slow() -> None:
        await asyncio.sleep(0.05)

    with aiompi.trace.start(caller, directory), aiompi.trace.start(callee, directory):
        await caller.call(1, "slow")
        with pytest.raises(TimeoutError):
            await caller.call(1, "slow", timeout=0.01)
    return read(directory)


def test_a_call_waits_for_the_handler_of_a_rank(tmp_path: Path) -> None:
    trace = asyncio.run(_call(tmp_path / "trace"))
    found = {each for each in told(trace) if each[0] != analysis.TRANSFER}
    assert found == {(analysis.LATE_REPLY, 0, 1, "call of slow"), (analysis.IN_VAIN, 0, None, "call of slow")}


async def talk(comm: Any, turn: Turn) -> None:
    values = comm.shared_dict("values")
    if comm.rank == 0:
        news = comm.subscribe("news", bound=1)
        await comm.barrier()
        await turn.others_wait()
        assert [await anext(news) for _ in range(300)] == [*range(300)]
        await comm.barrier()
        await values.set("a", 1)
    else:
        await comm.barrier()
        turn.come()
        for number in range(300 if comm.rank == 1 else 0):
            await comm.publish("news", number)
        await comm.barrier()
    await comm.barrier()


def test_publishers_wait_for_subscribers_and_subscribers_for_publishers(tmp_path: Path) -> None:
    trace = recorded(3, talk, tmp_path / "trace")
    found = told(trace)
    assert (analysis.LATE_SUBSCRIBER, 1, 0, "publish of news") in found
    assert any(each[:2] == (0, "subscription of news") for each in late(trace)), late(trace)
    calls = {op.place.call: op for op in trace.operations if op.kind == layout.TALK}
    assert {*calls} == {"publish of news", "subscription of news", "set of values"}
    assert {(op.rank, op.peer) for op in trace.operations if op.place.call == "subscription of news"} == {(0, 1)}


def message(sender: int, receiver: int, time: float) -> tuple[Operation, Operation]:
    """Return the send and the receive of a message of talk, which takes 1 ms."""
    send = Operation(sender, layout.SEND, 0, time, None, time, 7, receiver, 0, 8, NOWHERE, NOWHERE)
    receive = Operation(
        receiver, layout.RECV, 0, 0.0, None, time + 0.001, 7, sender, 0, 8, NOWHERE, NOWHERE, other=send
    )
    return send, receive


@pytest.mark.parametrize("slow", range(3))
def test_a_write_of_a_shared_dict_waits_for_the_member_that_comes_last(slow: int) -> None:
    """Rank 1 writes. Rank 0 orders the write after 2 s, or a rank makes the change after 2 s."""
    ordered = 2.0 if slow == 0 else 0.01
    made = {rank: ordered + (2.0 if slow == rank else 0.01) for rank in (1, 2)}
    ways = [
        (1, 0, 0.001), (0, 1, ordered), (0, 2, ordered), (1, 0, made[1]), (2, 0, made[2]),
        (0, 1, max(made.values()) + 0.001),
    ]  # fmt: skip
    messages = [op for way in ways for op in message(*way)]
    place = Place("set of values", "a.py", 1, "f")
    end = max(op.end or 0.0 for op in messages)
    write = Operation(1, layout.TALK, 0, 0.0, 0.001, end, 7, 0, layout.WRITE, 0, place, NOWHERE)
    of_ranks = [[op for op in (write, *messages) if op.rank == rank] for rank in range(3)]
    trace = Trace({rank: Rank(rank, "here", ops, 0, True, 5.0) for rank, ops in enumerate(of_ranks)})
    found = [each for each in analysis.waitings(trace) if each.state == analysis.LATE_COPY]
    late = [each.cause and each.cause.rank for each in found if each.seconds > 1]
    assert late == [rank for rank in (0, 2) if rank == slow]  # no other rank is late when the writer itself is


def test_calls_that_time_out_or_fail_are_recorded_as_such(tmp_path: Path) -> None:
    """The message that comes later is matched with its own receive."""
    trace = asyncio.run(_time_out(tmp_path / "trace"))
    ends = [
        (op.place.call, op.way == layout.FAILED) for op in trace.operations if op.kind in (layout.SEND, layout.RECV)
    ]
    assert ends == [("recv", True), ("send", True), ("send", False), ("recv", False)]
    assert [op.other is not None for op in trace.operations if op.way != layout.FAILED and op.place.call] == [True] * 2
    assert {each[0] for each in told(trace)} >= {analysis.IN_VAIN}
