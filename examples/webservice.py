"""A web service that computes on other ranks, so that it answers while they compute.

    aiompi-launch -n 4 examples/webservice.py --port 8080
    curl 'localhost:8080/sum?n=100000'      the sum of the primes below n, computed by the other ranks
    curl 'localhost:8080/health'

The first rank serves HTTP in the event loop of its messages. It starts computations and awaits them like anything else.
A request that takes too long is answered with 504. Ctrl-C or SIGTERM ends the service: requests under way are answered,
and all ranks finalize. It needs aiohttp: pip install '.[examples]'
"""

import argparse
import asyncio
import math
import signal

from aiohttp import web

import aiompi

CHUNK = 20_000  # numbers that a rank tests at once
MAX_N = 10_000_000


class Workers:
    """The other ranks. Each rank computes one thing at a time. A computation waits until a rank is free."""

    def __init__(self, world: aiompi.World) -> None:
        self._world = world
        self._free: asyncio.Queue[int] = asyncio.Queue()
        for rank in range(1, world.size):
            self._free.put_nowait(rank)

    @property
    def free(self) -> int:
        return self._free.qsize()

    async def sum_of_primes(self, start: int, stop: int) -> int:
        rank = await self._free.get()
        answer = self._world.irecv(source=rank)
        # When the await is cancelled the receive remains, and the rank is free again once it has answered.
        answer.add_done_callback(lambda _: self._free.put_nowait(rank))
        await self._world.isend((start, stop), dest=rank)
        total: int = await answer
        return total

    async def dismiss(self) -> None:
        for _ in range(1, self._world.size):
            await self._world.send(None, dest=await self._free.get())


WORKERS = web.AppKey("workers", Workers)
TIMEOUT = web.AppKey("timeout", float)


async def get_sum(request: web.Request) -> web.Response:
    text = request.query.get("n", "")
    if not text.isascii() or not text.isdigit() or len(text) > len(str(MAX_N)) or int(text) > MAX_N:
        raise web.HTTPBadRequest(text=f"/sum?n=N with N from 0 to {MAX_N}")
    n, workers = int(text), request.app[WORKERS]
    try:
        async with asyncio.timeout(request.app[TIMEOUT]), asyncio.TaskGroup() as group:
            starts = range(0, n, CHUNK)
            parts = [group.create_task(workers.sum_of_primes(start, min(start + CHUNK, n))) for start in starts]
    except TimeoutError:
        raise web.HTTPGatewayTimeout(text="this takes too long") from None
    return web.json_response({"n": n, "sum": sum(part.result() for part in parts)})


async def get_health(request: web.Request) -> web.Response:
    return web.json_response({"status": "ok", "free": request.app[WORKERS].free})


async def serve(world: aiompi.World, port: int, timeout: float) -> None:
    """Answer requests until a signal comes."""
    app = web.Application()
    app[WORKERS], app[TIMEOUT] = Workers(world), timeout
    app.add_routes([web.get("/sum", get_sum), web.get("/health", get_health)])
    stop = asyncio.Event()
    for signum in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(signum, stop.set)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", port)
    await site.start()
    print(f"serving on http://127.0.0.1:{runner.addresses[0][1]}", flush=True)
    await stop.wait()
    await runner.cleanup()
    await app[WORKERS].dismiss()
    print("served", flush=True)


async def work(world: aiompi.World) -> None:
    """Compute for the first rank until it says that there is nothing more to do."""
    for signum in (signal.SIGINT, signal.SIGTERM):  # the signals reach all ranks; only the first rank handles them
        asyncio.get_running_loop().add_signal_handler(signum, lambda: None)
    while (numbers := await world.recv(source=0)) is not None:
        await world.send(sum(filter(is_prime, range(*numbers))), dest=0)


def is_prime(n: int) -> bool:
    return n > 1 and all(n % divisor for divisor in range(2, math.isqrt(n) + 1))


async def main(world: aiompi.World) -> None:
    parser = argparse.ArgumentParser(description="Serve sums of primes.")
    parser.add_argument("--port", type=int, default=8080, help="0 for any free one")
    parser.add_argument("--timeout", type=float, default=10.0, metavar="SECONDS", help="for one request")
    args = parser.parse_args()
    if world.size < 2:
        parser.error("this takes at least two ranks: aiompi-launch -n 2 ...")
    await (serve(world, args.port, args.timeout) if world.rank == 0 else work(world))


if __name__ == "__main__":
    aiompi.run(main)
