"""The works: each measures what its name says, in every contender."""

from __future__ import annotations

import asyncio
import json
import os
import pickle
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Coroutine
from typing import Any

import numpy as np
import pytest
import zmq
from distributed.protocol import Serialize

import aiompi
from aiompi.bench.measure import (
    bare_socket,
    bare_uvloop,
    blocking,
    channels,
    distributed,
    native,
    payloads,
    point_to_point,
    pyzmq,
    responsive,
    turns,
)

TIMED = {"iterations": 3, "blocks": 2}
WORKS: list[turns.Work] = [
    {"work": "latency", "nbytes": 8, **TIMED},
    {"work": "latency", "nbytes": 300_000, **TIMED},
    {"work": "bandwidth", "nbytes": 300_000, "window": 3, **TIMED},
    {"work": "bandwidth_both_ways", "nbytes": 300_000, "window": 3, **TIMED},
    {"work": "early", "nbytes": 300, "window": 3, **TIMED},
    {"work": "objects", "payload": "dict", **TIMED},
    {"work": "objects", "payload": "array", **TIMED},
    {"work": "objects", "payload": "array", "nbytes": 100, **TIMED},
    {"work": "collective", "name": "alltoall", "nbytes": 8, "calls": 2},
    {"work": "collective_objects", "name": "scatter", "payload": "array", "calls": 2, "nbytes": 8},
    {"work": "collective_objects", "name": "reduce", "payload": "array", "calls": 2, "nbytes": 8},
    {"work": "responsiveness", "outstanding": 3, "nbytes": 8, "seconds": 0.01},
    {"work": "responsiveness", "outstanding": 0, "nbytes": 0, "seconds": 0.01},
    {"work": "idle", "seconds": 0.01},
    {"work": "publications", **TIMED},
    {"work": "answered_publications", **TIMED},
]
NATIVE_ONLY = {"responsiveness", "large_object", "producers", "publications", "answered_publications"}

Run = Callable[[Coroutine[Any, Any, Any]], Any]


def works_of(names: dict[str, Any]) -> Any:
    """Return the works above that a contender can do."""
    chosen = [work for work in WORKS if work["work"] in names]
    return pytest.mark.parametrize("work", chosen, ids=lambda work: "-".join(map(str, work.values())))


def arguments(work: turns.Work) -> dict[str, Any]:
    return {name: value for name, value in work.items() if name != "work"}


def check(work: turns.Work, results: list[Any]) -> None:
    """Check that two processes have returned numbers: one per block, or a single one."""
    assert len(results) == 2
    for result in results:
        if timed := work.get("blocks", work.get("calls")):
            assert len(result) == timed
            assert min(result) > 0
        elif work["work"] == "responsiveness":
            assert result
            assert min(result) >= 0
        else:
            assert result >= 0


@works_of(native.WORKS)
def test_native(work: turns.Work, run: Run) -> None:
    async def main() -> list[Any]:
        measure = native.WORKS[work["work"]]
        return await asyncio.gather(*(measure(comm, **arguments(work)) for comm in aiompi.local_world(2)))

    check(work, run(main()))


async def everywhere(ranks: int, work: str, **arguments: Any) -> list[Any]:
    return await asyncio.gather(*(native.WORKS[work](comm, **arguments) for comm in aiompi.local_world(ranks)))


@pytest.mark.asyncio
@pytest.mark.parametrize("kind", ["dicts", "instances", "allreduce"])
async def test_large_object(kind: str) -> None:
    for rank in await everywhere(2, "large_object", items=5000, kind=kind):
        assert rank["late"]
        assert min(rank["seconds"], rank["at_once"]) > 0


@pytest.mark.asyncio
async def test_producers() -> None:
    counts, *_ = await everywhere(3, "producers", messages=100)
    assert counts[0] == 0
    assert sum(counts) == 50


@works_of(bare_socket.WORKS)
def test_bare_socket(work: turns.Work) -> None:
    in_threads(bare_socket.WORKS[work["work"]], work)


@works_of(bare_uvloop.WORKS)
def test_bare_uvloop(work: turns.Work) -> None:
    in_threads(bare_uvloop.WORKS[work["work"]], work)


@works_of(pyzmq.WORKS)
def test_pyzmq(work: turns.Work) -> None:
    in_threads(pyzmq.WORKS[work["work"]], work)


@pytest.mark.asyncio
async def test_pyzmq_copies_no_array() -> None:
    """The frame that comes is the memory of what is sent and of what is received."""
    frames: list[Any] = []

    class Socket:
        async def send_multipart(self, parts: list[Any], copy: bool) -> None:
            assert not copy
            frames.extend(zmq.Frame(part, copy=False) for part in parts)

        async def recv_multipart(self, copy: bool) -> list[Any]:
            assert not copy
            return frames

    sock: Any = Socket()
    channel = pyzmq.Channel(sock)
    sent = payloads.make("array", 300_000)
    await channel.put_object(sent)
    received = await channel.get_object()
    assert received["step"] == sent["step"]
    assert np.shares_memory(received["gradient"], sent["gradient"])


@pytest.mark.asyncio
async def test_distributed_serializes_what_takes_longer_otherwise() -> None:
    messages: list[Any] = []

    class Comm:
        async def write(self, message: Any) -> None:
            messages.append(message)

    channel, obj = distributed.Channel(Comm()), payloads.make("dict")
    await channel.put(b"12345678")
    await channel.put(bytes(2**20))
    await channel.put_object(obj)
    assert messages[0] == {"data": b"12345678"}
    for message, sent in zip(messages[1:], (bytes(2**20), obj), strict=True):
        assert isinstance(message["data"], Serialize)
        assert message["data"].data == sent


@works_of(distributed.WORKS)
def test_distributed(work: turns.Work) -> None:
    in_threads(distributed.WORKS[work["work"]], work)


@pytest.mark.asyncio
@pytest.mark.parametrize("work", [channels.bandwidth, channels.bandwidth_both_ways])
async def test_the_messages_of_a_window_are_the_same(work: Callable[..., channels.Loop]) -> None:
    sent: list[bytes] = []

    class Channel:
        async def put(self, data: bytes) -> None:
            sent.append(data)

        async def get(self) -> bytes:
            return b""

    channel: Any = Channel()
    await work(channel, 0, nbytes=8, window=3)(2)
    assert len(sent) == 6
    assert len(set(map(id, sent))) == 1
    assert set(sent) == {bytes(payloads.touched(8))}


class Idle:
    """A library that communicates nothing, and records the buffers of sends and receives."""

    rank, size = 0, 2

    def __init__(self) -> None:
        self.sent: set[int] = set()
        self.received: set[int] = set()
        self.Request = self

    def Send(self, buffer: Any, *_: Any) -> None:
        self._note(self.sent, buffer)

    def Recv(self, buffer: Any, *_: Any) -> None:
        self._note(self.received, buffer)

    Isend, Irecv = Send, Recv

    def Waitall(self, requests: Any) -> None: ...

    def Barrier(self) -> None: ...

    @staticmethod
    def _note(seen: set[int], buffer: Any) -> None:
        if buffer.size > 1:  # it is no answer to a window
            seen.add(buffer.__array_interface__["data"][0])


ONE_WAY = [work for work in WORKS if work["work"].startswith(("latency", "bandwidth", "early"))]


@works_of({work["work"]: work for work in ONE_WAY if work["work"] in blocking.WORKS})
def test_what_is_received_has_memory_of_its_own_and_is_looked_at(work: turns.Work) -> None:
    idle, follower = Idle(), Idle()
    follower.rank = 1
    works = {rank.rank: point_to_point.works(rank)[work["work"]] for rank in (idle, follower)}
    with pytest.raises(ValueError, match="not what was sent"):
        works[1](follower, **arguments(work))
    if work["work"] not in ("bandwidth", "early"):  # where the leader receives only the answers
        with pytest.raises(ValueError, match="not what was sent"):
            works[0](idle, **arguments(work))
    sent, received = idle.sent | follower.sent, idle.received | follower.received
    assert all(sent)
    assert all(received)
    assert not sent & received
    assert max(len(follower.sent), len(follower.received)) == 1, "the messages of a window are the same"


def test_another_object_than_was_sent_is_noticed() -> None:
    obj = payloads.make("array", 8)
    payloads.check_object(payloads.make("array", 8), obj)
    for other in ({**obj, "gradient": np.zeros(8)}, {"step": obj["step"]}, {**obj, "step": 1}):
        with pytest.raises(ValueError, match="not what was sent"):
            payloads.check_object(other, obj)


@pytest.mark.parametrize("sizes", [(3, 5, 100), (8, 100), (108,), (50, 58), (4, 104)], ids=str)
def test_pickles_come_in_chunks_of_any_size(sizes: tuple[int, ...]) -> None:
    """Send two objects, one after the other."""

    class Heard(bare_uvloop.Pickles):
        def received(self) -> None:
            heard.append(self._obj)

    heard: list[Any] = []
    protocol = Heard(0, None)
    obj = "x" * 50
    data = pickle.dumps(obj).ljust(100, b".")
    message = len(data).to_bytes(8, "little") + data
    for _ in range(2):
        ends = [sum(sizes[: number + 1]) for number in range(len(sizes))]
        for size, end in zip(sizes, ends, strict=True):
            protocol.data_received(message[end - size : end])
    assert heard == [obj, obj]


def in_threads(measure: Callable[..., Any], work: turns.Work) -> None:
    """Run two threads in place of the two processes."""
    results: list[Any] = [None, None]

    def process(rank: int, sock: socket.socket) -> None:
        with sock:
            results[rank] = measure(sock, rank, **arguments(work))

    threads = [threading.Thread(target=process, args=end) for end in enumerate(socket.socketpair())]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    check(work, results)


def test_the_faces_can_do_the_same() -> None:
    blocking_only = {"datatype", "packing", "alltoallw", "window", "file_blocks", "file_pieces"}
    assert native.WORKS.keys() - NATIVE_ONLY == blocking.WORKS.keys() - blocking_only


def test_raw_movers() -> None:
    sent = memoryview(bytearray(os.urandom(2**20)))
    received = bytearray(2**20)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        sender = threading.Thread(target=bare_socket.send, args=(ours, sent))
        sender.start()
        bare_socket.receive(theirs, memoryview(received))
        sender.join()
        assert received == sent
        ours.close()
        with pytest.raises(EOFError, match="has ended"):
            bare_socket.receive(theirs, memoryview(received))


def test_timed_leaves_out_the_first_block(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = 0.0
    costs = iter([1000.0, 10.0, 30.0])

    def loop(iterations: int) -> None:
        nonlocal clock
        clock += next(costs) * iterations

    monkeypatch.setattr(turns.time, "perf_counter", lambda: clock)
    assert turns.timed(loop, 4, 2) == [10.0, 30.0]


def test_timed_async_leaves_out_the_first_block(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = 0.0
    costs = iter([1000.0, 10.0, 30.0])

    async def loop(iterations: int) -> None:
        nonlocal clock
        clock += next(costs) * iterations

    monkeypatch.setattr(turns.time, "perf_counter", lambda: clock)
    with pytest.raises(StopIteration) as end:
        turns.timed_async(loop, 4, 2).send(None)
    assert end.value.value == [10.0, 30.0]


def test_bind() -> None:
    before = os.sched_getaffinity(0)
    core = min(before)
    try:
        turns.bind(3, [-1, core])
        assert os.sched_getaffinity(0) == {core}
    finally:
        os.sched_setaffinity(0, before)


def test_works_come_by_the_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    read_end, write_end = os.pipe()
    with open(read_end) as stream, open(write_end, "wb") as source:
        monkeypatch.setattr(turns.sys, "stdin", stream)
        source.write(b'{"work": "idle", "seconds": 1}\n' + turns.NO_MORE)
        source.close()
        assert turns.next_work() == {"work": "idle", "seconds": 1}
        assert turns.next_work() is None, "it was said"
        assert turns.next_work() is None, "it is the end"
    turns.answer([[0.5], None])
    assert json.loads(capsys.readouterr().out) == [[0.5], None]


def test_memory_is_made_before_callbacks_are_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[str] = []

    def told(step: str, function: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *arguments: (steps.append(step), function(*arguments))[1]

    monkeypatch.setattr(responsive, "Clock", told("clock", responsive.Clock))
    monkeypatch.setattr(payloads, "touched", told("memory", payloads.touched))

    async def main() -> None:
        await asyncio.gather(*(responsive.responsiveness(comm, 3, 8, 0.001) for comm in aiompi.local_world(2)))

    asyncio.run(main())
    assert set(steps[: steps.index("clock")]) == {"memory"}
    assert set(steps[steps.index("clock") :]) == {"clock"}


def test_a_callback_is_late_while_its_loop_sleeps_and_not_while_others_have_its_core() -> None:
    cores = os.sched_getaffinity(0)

    async def late(block: Callable[[], None]) -> float:
        clock = responsive.Clock()
        block()
        await clock.stop()
        assert len(clock.late) >= 2, "a percentile needs two"
        return clock.late[0]

    queued = responsive.Queued()
    before = queued.seconds()
    seconds = asyncio.run(late(lambda: time.sleep(0.05)))
    assert seconds + queued.seconds() - before >= 0.045
    os.sched_setaffinity(0, {min(cores)})
    other = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        start, before = time.monotonic(), queued.seconds()
        while (waited := queued.seconds() - before) <= 0:
            pass
        seconds = time.monotonic() - start
    finally:
        other.kill()
        other.wait()
        os.sched_setaffinity(0, cores)
        queued.close()
    assert waited < seconds
    assert queued.seconds() == 0, "closed"
