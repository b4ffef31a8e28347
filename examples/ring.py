"""A token goes around all ranks, and the first rank complains when it is late.

    aiompi-launch -n 4 examples/ring.py --laps 100
    aiompi-launch -n 4 examples/ring.py --laps 2 --work 0.5 --patience 0.2

Waiting with a timeout is `asyncio.timeout` around any receive. A receive that timed out has lost nothing: the next
receive gets the token.
"""

import argparse
import asyncio
import time

import aiompi


async def main(world: aiompi.World) -> None:
    args = parse()
    successor = (world.rank + 1) % world.size
    predecessor = (world.rank - 1) % world.size
    started = time.perf_counter()
    for lap in range(args.laps):
        if world.rank == 0:
            # The receive is started before the token leaves, so that a ring of one rank works, too.
            token = world.irecv(source=predecessor)
            await world.send([0], dest=successor)
            visited = await patiently(token, lap, args.patience)
            assert visited == list(range(world.size))
        else:
            visited = await world.recv(source=predecessor)
            await asyncio.sleep(args.work)
            await world.send([*visited, world.rank], dest=successor)
    if world.rank == 0:
        hops = args.laps * world.size
        microseconds = (time.perf_counter() - started) / hops * 1e6
        print(f"{args.laps} laps around {world.size} ranks, {microseconds:.0f} us per hop")


async def patiently(token: aiompi.Request[list[int]], lap: int, patience: float) -> list[int]:
    """Wait for the token, and complain each time the patience (in seconds) is over."""
    while True:
        try:
            async with asyncio.timeout(patience):
                return await token
        except TimeoutError:
            print(f"lap {lap}: no token for {patience:g} s, still waiting")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Send a token around all ranks.")
    parser.add_argument("--laps", type=int, default=1000)
    parser.add_argument("--work", type=float, default=0.0, metavar="SECONDS", help="each rank keeps the token so long")
    parser.add_argument("--patience", type=float, default=1.0, metavar="SECONDS", help="time to wait for the token")
    return parser.parse_args()


if __name__ == "__main__":
    aiompi.run(main)
