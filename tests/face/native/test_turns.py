"""Tasks whose operations complete at once leave the event loop turns for everything else."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

import aiompi

Run = Callable[[Coroutine[Any, Any, Any]], Any]


@pytest.mark.parametrize("immediate", [False, True], ids=["awaited calls", "requests"])
def test_prompt_operations_do_not_starve_the_loop(immediate: bool, run: Run) -> None:
    async def main() -> None:
        one, other = aiompi.local_world(2)
        ended = False

        def end() -> None:
            nonlocal ended
            ended = True

        asyncio.get_running_loop().call_soon(end)
        for number in itertools.count():
            await (one.isend(number, 1) if immediate else one.send(number, 1))
            assert await (other.irecv(0) if immediate else other.recv(0)) == number
            if ended:
                break
            assert number < 100

    run(main())


def test_cancellation_in_such_a_turn_loses_no_message(run: Run) -> None:
    async def main() -> None:
        one, other = aiompi.local_world(2)
        sent = list(range(100))
        for number in sent:
            await one.send(number, 1)
        received = []

        async def receive() -> None:
            while True:
                received.append(await other.recv(0))

        task = asyncio.create_task(receive())
        await asyncio.sleep(0)
        assert 0 < len(received) < len(sent)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        while len(received) < len(sent):
            received.append(await other.recv(0))
        assert received == sent

    run(main())
