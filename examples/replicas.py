"""A web service of replicas that compute each request together. Any replica may be killed and replaced.

    aiompi-launch --serve          starts nothing; prints the address, and AIOMPI_KEY_FILE=... on standard error
    export AIOMPI_KEY_FILE=...     in each other terminal, as printed
    python examples/replicas.py ADDRESS --port 8081
    python examples/replicas.py ADDRESS --port 8082
    curl 'localhost:8081/sum?n=100000'      the sum of the primes below n, computed by all replicas

Kill a replica with kill -9, and ask another one: it answers with the sum, computed by the replicas that are left. Start
a replica again: it computes with the others. It needs aiohttp: pip install '.[examples]'
"""

import argparse
import asyncio
import contextlib
import itertools
import math
from collections.abc import AsyncIterator

from aiohttp import web

import aiompi

GONE = aiompi.ProcessFailedError, aiompi.RevokedError  # another replica is gone, or the world is left for a new one


class Replica:
    """One of the replicas: it asks all of them for a part of each sum, and computes parts for all of them."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.world: asyncio.Future[aiompi.AssembledWorld] = asyncio.Future()
        self.tags = itertools.cycle(range(1, 10_000))

    async def take_part(self, app: web.Application) -> AsyncIterator[None]:
        """Be a member of the job from the start of the service to its end."""
        async with aiompi.join(self.address) as member:
            keeper = asyncio.create_task(self.keep_world(member))
            yield
            keeper.cancel()

    async def keep_world(self, member: aiompi.Membership) -> None:
        """Compute for the present replicas, while replicas come and go."""
        while True:
            world = await member.assemble()
            self.world.set_result(world)
            worker = asyncio.create_task(self.compute(world))
            await world.changed
            worker.cancel()
            self.world = asyncio.Future()

    async def compute(self, world: aiompi.AssembledWorld) -> None:
        status = aiompi.Status()
        with contextlib.suppress(*GONE):
            while True:
                start, stop, tag = await world.recv(source=aiompi.ANY_SOURCE, tag=0, status=status)
                part = await asyncio.to_thread(lambda numbers: sum(filter(is_prime, numbers)), range(start, stop))
                world.isend(part, dest=status.source, tag=tag)

    async def sum_of_primes(self, n: int) -> dict[str, int]:
        while True:
            world = await asyncio.shield(self.world)
            size, tag = world.size, next(self.tags)
            try:
                for i in range(size):
                    world.isend((n * i // size, n * (i + 1) // size, tag), dest=i, tag=0)
                parts = await asyncio.gather(*(world.recv(source=i, tag=tag) for i in range(size)))
                return {"n": n, "sum": sum(parts), "replicas": size}
            except GONE:
                await world.changed  # wait for a new world, and ask again there


REPLICA = web.AppKey("replica", Replica)


def is_prime(n: int) -> bool:
    return n > 1 and all(n % divisor for divisor in range(2, math.isqrt(n) + 1))


async def get_sum(request: web.Request) -> web.Response:
    return web.json_response(await request.app[REPLICA].sum_of_primes(int(request.query["n"])))


async def start(address: str) -> web.Application:
    app = web.Application()
    app[REPLICA] = replica = Replica(address)
    app.cleanup_ctx.append(replica.take_part)
    app.add_routes([web.get("/sum", get_sum)])
    return app


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Serve sums of primes, as one of several replicas.")
    parser.add_argument("address", metavar="HOST:PORT", help="as printed by aiompi-launch --serve")
    parser.add_argument("--port", type=int, default=8080, help="for HTTP; 0 for any free one")
    args = parser.parse_args()
    web.run_app(start(args.address), host="127.0.0.1", port=args.port)
