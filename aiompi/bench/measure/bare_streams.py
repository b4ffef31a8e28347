"""A pipeline of processes with asyncio's streams and msgpack on uvloop: the floor for streams of small objects."""

from __future__ import annotations

import asyncio
import multiprocessing
import multiprocessing.connection
import os
import socket
import time
from typing import Any, Final

import msgpack
import uvloop

from aiompi.bench.measure import payloads, turns

_STAGES: Final = 4
_READ: Final = 64 * 2**10


async def _stage(messages: int, source: socket.socket | None, target: socket.socket | None) -> tuple[float, float]:
    """Pass dicts on; return seconds and CPU seconds per message."""
    obj, pack = payloads.make("dict"), msgpack.Packer().pack
    reader, unused = (None, None) if source is None else await asyncio.open_connection(sock=source)
    _, writer = (None, None) if target is None else await asyncio.open_connection(sock=target)
    start, cpu = time.perf_counter(), time.process_time()
    if writer is not None and reader is None:
        for _ in range(messages):
            writer.write(pack(obj))
            await writer.drain()
    elif reader is not None:
        unpacker = msgpack.Unpacker()
        left = messages
        while left:
            data = await reader.read(_READ)
            if not data:
                raise EOFError(f"{left} dicts are missing")
            unpacker.feed(data)
            for obj in unpacker:
                left -= 1
                if writer is not None:
                    writer.write(pack(obj))
                    await writer.drain()
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    payloads.check_object(obj, payloads.make("dict"))
    for each in (unused, writer):
        if each is not None:
            each.close()
            await each.wait_closed()
    return seconds / messages, cpu / messages


def _run(messages: int, core: int, ends: tuple[Any, Any], answer: multiprocessing.connection.Connection) -> None:
    turns.bind(0, [core])
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        answer.send(runner.run(_stage(messages, *ends)))


def pipeline(messages: int, cores: list[int]) -> list[Any]:
    """Return seconds and CPU seconds per message of each process."""
    pairs = [socket.socketpair() for _ in range(_STAGES - 1)]
    ends = zip([None, *(pair[1] for pair in pairs)], [*(pair[0] for pair in pairs), None], strict=True)
    context = multiprocessing.get_context("fork")
    answers = []
    for rank, both in enumerate(ends):
        answer, far = context.Pipe(duplex=False)
        process = context.Process(target=_run, args=(messages, cores[rank % len(cores)], both, far))
        process.start()
        answers.append((process, answer))
    results = [answer.recv() for _, answer in answers]
    for process, _ in answers:
        process.join()
    for pair in pairs:
        for end in pair:
            end.close()
    return results


def main() -> None:
    """Do one work after the other; "bind" names the cores, and "pipeline" is measured."""
    cores = sorted(os.sched_getaffinity(0))
    while work := turns.next_work():
        if work["work"] == "bind":
            cores = work["cores"]
            turns.answer([])
        else:
            turns.answer(pipeline(work["messages"], cores))


if __name__ == "__main__":
    main()
