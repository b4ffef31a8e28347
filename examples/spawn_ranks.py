"""A plain program that starts ranks for a part of its work, and goes on alone.

    python examples/spawn_ranks.py [SAMPLES]

It estimates pi by throwing darts. No launcher is needed: `aiompi.spawn` starts one for the ranks.
"""

import asyncio
import random
import sys

import spawn_ranks  # so that the ranks find the function: they cannot import the main program

import aiompi

RANKS = 3


async def throw(world: aiompi.Intracomm, samples: int) -> int:
    """Return how many darts of all ranks have hit. The program is rank 0, and throws as well."""
    dart = random.Random(world.rank).random
    hits = sum(dart() ** 2 + dart() ** 2 < 1 for _ in range(samples))
    total: int = await world.allreduce(hits)
    return total


async def main() -> None:
    samples = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000
    world = await aiompi.spawn(RANKS, spawn_ranks.throw, samples, merge=True)
    hits = await throw(world, samples)
    print(f"{world.size} processes: pi is about {4 * hits / (samples * world.size):.2f}")
    await world.Disconnect()


if __name__ == "__main__":
    asyncio.run(main())
