"""A sender that is stopped while its long message is copied does not stop the receiver: time limits and turns go on."""

from __future__ import annotations

import re

from support.jobs import Site

PROGRAM = """
import asyncio, os, signal, time
import numpy as np
import aiompi

NBYTES = 64 * 2**20

async def main():
    async with aiompi.init() as world:
        pid = await world.bcast(os.getpid(), 0)
        if world.rank == 0:
            await world.Send(np.ones(NBYTES, "u1"), 1)
            return
        await world.probe(0)

        async def expire(limit):
            for turn in range(50):
                await asyncio.sleep(0.01)
            limit.reschedule(asyncio.get_running_loop().time())

        os.kill(pid, signal.SIGSTOP)
        room = np.zeros(NBYTES, "u1")
        try:
            async with asyncio.timeout(None) as limit:
                expiring = asyncio.create_task(expire(limit))
                await world.Recv(room, 0)
                await world.Recv(room, 0)  # there is no second message
        except TimeoutError:
            print("in time")
        finally:
            os.kill(pid, signal.SIGCONT)
        if not room.all():
            await world.Recv(room, 0)
        print("whole", room.all())

asyncio.run(main())
"""


def test_a_time_limit_ends_a_receive_whose_sender_is_stopped(site: Site) -> None:
    result = site.ok(2, PROGRAM)
    assert re.findall(r"in time|whole True", result.out) == ["in time", "whole True"]
