"""What the checks of the native face are made with, and the table of them.

A check is a coroutine that gets the communicators of three ranks, all in the running loop. Each one runs alone in a
local world, and after each other in a job whose ranks have joined it. It leaves no message behind, nor a buffer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeAlias

from aiompi import Intracomm, Status

World: TypeAlias = list[Intracomm]
Check: TypeAlias = Callable[[World], Coroutine[Any, Any, None]]

SIZE = 3
SMALL, LARGE = 10, 300_000  # items; the large ones are more than is sent without asking the receiver
CHECKS: dict[str, Check] = {}

#: Checks of what only ranks of the same client do: IMPI has no packet that says that no receive is posted, and no
#: message by which to find out that Comm_create is given groups that contradict each other.
WITHIN_A_CLIENT = {"ready_without_receive", "cancelled_await_of_a_ready_send", "bad_groups"}


def check(function: Check) -> Check:
    assert function.__name__ not in CHECKS
    CHECKS[function.__name__] = function
    return function


async def everywhere(world: World, call: Callable[[Intracomm], Awaitable[Any]]) -> list[Any]:
    """Make a call on each rank at once; the results by rank."""
    return list(await asyncio.gather(*(call(comm) for comm in world)))


async def expect(received: Awaitable[Any], obj: Any) -> None:
    assert await received == obj


async def settle(one: Intracomm, other: Intracomm) -> None:
    """Wait until all that two ranks have sent each other is there, with the answers to it: no message overtakes it."""
    for sender, receiver in ((one, other), (other, one), (one, other)):
        await asyncio.gather(sender.ssend(None, receiver.rank, 32767), receiver.recv(sender.rank, 32767))


def fields(status: Status) -> tuple[int, int, int]:
    return status.source, status.tag, status.nbytes
