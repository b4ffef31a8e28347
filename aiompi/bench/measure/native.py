"""The works in the native face. The launcher runs this."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Any, Final

from aiompi.bench.measure import payloads, turns
from aiompi.bench.measure.calls import CALLS, WARM_UP, object_call
from aiompi.bench.measure.payloads import TAG
from aiompi.bench.measure.point_to_point import leads, peer_of
from aiompi.bench.measure.publications import answered_publications, publications
from aiompi.bench.measure.responsive import responsiveness
from aiompi.bench.measure.streams import large_object, producers
from aiompi.bench.measure.turns import timed_async
from aiompi.engine import Request
from aiompi.face.native import Intracomm
from aiompi.face.native.job import World, run


async def bind(comm: Intracomm, cores: list[int]) -> None:
    """Bind this process to one core."""
    turns.bind(comm.rank, cores)


async def latency(comm: Intracomm, nbytes: int, iterations: int, blocks: int) -> list[float]:
    """Seconds per round trip of a message."""
    sent, received = payloads.touched(nbytes), payloads.blank(nbytes)
    peer = peer_of(comm)

    async def lead(n: int) -> None:
        for _ in range(n):
            await comm.Send(sent, peer, TAG)
            await comm.Recv(received, peer, TAG)

    async def follow(n: int) -> None:
        for _ in range(n):
            await comm.Recv(received, peer, TAG)
            await comm.Send(sent, peer, TAG)

    loop = lead if leads(comm) else follow
    seconds = await timed_async(loop, iterations, blocks, comm.Barrier)
    await payloads.check_async(received, loop)
    return seconds


async def bandwidth(comm: Intracomm, nbytes: int, window: int, iterations: int, blocks: int) -> list[float]:
    """Seconds for a window of messages and the answer to it; all these messages are outstanding at once."""
    sent, received = payloads.touched(nbytes), payloads.blank(nbytes)
    token = payloads.touched(1)
    peer = peer_of(comm)

    async def lead(n: int) -> None:
        for _ in range(n):
            await _all([comm.Isend(sent, peer, TAG) for _ in range(window)])
            await comm.Recv(token, peer, TAG)

    async def follow(n: int) -> None:
        for _ in range(n):
            await _all([comm.Irecv(received, peer, TAG) for _ in range(window)])
            await comm.Send(token, peer, TAG)

    if leads(comm):
        seconds = await timed_async(lead, iterations, blocks, comm.Barrier)
        await lead(1)  # for the check of the other rank
        return seconds
    seconds = await timed_async(follow, iterations, blocks, comm.Barrier)
    await payloads.check_async(received, follow)
    return seconds


async def early(comm: Intracomm, nbytes: int, window: int, iterations: int, blocks: int) -> list[float]:
    """Seconds for a window of messages and the answer to it; all messages arrive before their receives are posted."""
    sent, received = payloads.touched(nbytes), payloads.blank(nbytes)
    token = payloads.touched(1)
    peer = peer_of(comm)

    async def lead(n: int) -> None:
        for _ in range(n):
            for _ in range(window):
                await comm.Send(sent, peer, TAG)
            await comm.Send(token, peer, TAG + 1)
            await comm.Recv(token, peer, TAG)

    async def follow(n: int) -> None:
        for _ in range(n):
            await comm.Recv(token, peer, TAG + 1)
            for _ in range(window):
                await comm.Recv(received, peer, TAG)
            await comm.Send(token, peer, TAG)

    seconds = await timed_async(lead if leads(comm) else follow, iterations, blocks, comm.Barrier)
    if leads(comm):
        await lead(1)  # for the check of the other rank
    else:
        await payloads.check_async(received, follow)
    return seconds


async def bandwidth_both_ways(comm: Intracomm, nbytes: int, window: int, iterations: int, blocks: int) -> list[float]:
    """Seconds per round: a window of messages in both directions at once, and an answer."""
    sent, received = payloads.touched(nbytes), payloads.blank(nbytes)
    token = payloads.touched(1)
    peer, answer = peer_of(comm), comm.Recv if leads(comm) else comm.Send

    async def loop(n: int) -> None:
        for _ in range(n):
            requests = [comm.Irecv(received, peer, TAG) for _ in range(window)]
            await _all([*requests, *(comm.Isend(sent, peer, TAG) for _ in range(window))])
            await answer(token, peer, TAG)

    seconds = await timed_async(loop, iterations, blocks, comm.Barrier)
    await payloads.check_async(received, loop)
    return seconds


async def objects(
    comm: Intracomm, payload: str, iterations: int, blocks: int, nbytes: int = payloads.ARRAY
) -> list[float]:
    """Seconds per round trip of an object."""
    obj = payloads.make(payload, nbytes)
    peer = peer_of(comm)

    async def lead(n: int) -> None:
        for _ in range(n):
            await comm.send(obj, peer, TAG)
            await comm.recv(peer, TAG)

    async def follow(n: int) -> None:
        for _ in range(n):
            await comm.send(await comm.recv(peer, TAG), peer, TAG)

    seconds = await timed_async(lead if leads(comm) else follow, iterations, blocks, comm.Barrier)
    payloads.check_object(await comm.sendrecv(obj, peer, TAG, source=peer, recvtag=TAG), obj)
    return seconds


async def idle(comm: Intracomm, seconds: float) -> float:
    """CPU seconds that a rank has used while it waited to receive a message that rank 0 sends after a sleep."""
    start = time.process_time()
    if comm.rank == 0:
        time.sleep(seconds)
        for rank in range(1, comm.size):
            await comm.send(None, rank, TAG)
    else:
        await comm.recv(0, TAG)
    return time.process_time() - start


async def collective(comm: Intracomm, name: str, nbytes: int, calls: int) -> list[float]:
    """Seconds that each call of a collective takes; see `calls.collective`."""
    return await _apart(comm, CALLS[name](comm, nbytes), calls)


async def collective_objects(
    comm: Intracomm, name: str, payload: str, calls: int, nbytes: int = payloads.ARRAY
) -> list[float]:
    """Seconds that each call of a collective on objects takes; see `calls.collective_objects`."""
    return await _apart(comm, object_call(comm, name, payload, nbytes), calls)


async def _apart(comm: Intracomm, call: Callable[[], Any], calls: int) -> list[float]:
    """Time calls like `calls.apart`, for calls that are awaited."""
    clock = time.perf_counter
    seconds = []
    for _ in range(WARM_UP + calls):
        await comm.Barrier()
        start = clock()
        await call()
        seconds.append(clock() - start)
    return seconds[WARM_UP:]


async def _all(requests: list[Request[Any]]) -> None:
    for request in requests:
        await request


WORKS: Final[dict[str, Callable[..., Awaitable[Any]]]] = {
    work.__name__: work
    for work in (
        bind,
        latency,
        bandwidth,
        bandwidth_both_ways,
        early,
        objects,
        idle,
        collective,
        collective_objects,
        responsiveness,
        large_object,
        producers,
        publications,
        answered_publications,
    )
}


async def main(world: World) -> None:
    """Do one work after the other."""
    while work := await world.bcast(None if world.rank else turns.next_work()):
        name = work.pop("work")
        results = await world.gather(await WORKS[name](world, **work))
        if world.rank == 0:
            turns.answer(results)


if __name__ == "__main__":
    run(main)
