"""What the checks of the native face are made with, and the table of them, with those of both faces.

A check is a coroutine that gets the communicators of three ranks, all in the running loop. Each one runs alone in a
local world, and after each other in a job whose ranks have joined it. It leaves no message behind, nor a buffer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeAlias

from aiompi import Intracomm
from face import checks as both
from face.checks import collectives, communicators, messages, modes, persistent, point_to_point  # noqa: F401

World: TypeAlias = list[Intracomm]
Check: TypeAlias = Callable[[World], Coroutine[Any, Any, None]]

SIZE = 3
SMALL, LARGE = both.SMALL, both.LARGE
CHECKS: dict[str, Check] = {}

#: Checks of what only ranks of the same client do: IMPI has no packet that says that no receive is posted, and no
#: message by which to find out that Comm_create is given groups that contradict each other.
WITHIN_A_CLIENT = {*both.WITHIN_A_CLIENT, "cancelled_await_of_a_ready_send", "bad_groups"}


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


def on_all_ranks(function: both.Check) -> Check:
    async def run(world: World) -> None:
        await everywhere(world, lambda comm: both.prepared(function, comm, comm.COMM_SELF))

    return run


CHECKS |= {name: on_all_ranks(function) for name, function in both.CHECKS.items()}
