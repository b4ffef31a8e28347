"""What a rank tells of itself while the user watches the job."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import aiompi
import aiompi.trace
from aiompi.job.looking import Looking


def test_a_look_gives_way_to_a_recording_of_the_program(tmp_path: Path) -> None:
    """The rank counts its messages in either; its own files go in the end, and those of the program stay."""

    async def main() -> None:
        (world,) = aiompi.local_world(1)
        looking = Looking(world._core.engine, str(tmp_path))
        looking.look()

        async def rate() -> float:
            for number in range(5):
                request = world.isend(number, dest=0)
                await world.recv(source=0)
                await request
            return looking.look().messages

        assert await rate() > 0
        assert [path.name.startswith("look-") for path in tmp_path.iterdir()] == [True]
        with aiompi.trace.start(world, tmp_path / "trace"):
            looking.look()
            assert await rate() > 0
        looking.look()
        assert await rate() > 0
        looking.stop()
        assert world._core.engine.recorder is None
        assert [path.name for path in tmp_path.iterdir()] == ["trace"]
        waiting = asyncio.create_task(world.recv(source=0, tag=3))
        await asyncio.sleep(0)
        look = looking.look()  # begins again, and finds the wait that was there before
        assert (look.state, look.place, look.host) == ("waits", "recv from 0, tag 3", os.uname().nodename)
        looking.stop()
        waiting.cancel()
        await asyncio.wait({waiting})

    asyncio.run(main())
