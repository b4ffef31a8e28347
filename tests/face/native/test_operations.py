"""The native face: every operation, in a world of one process and over sockets, in both event loops.

The package `checks` has what is checked; each check names the rules that it is for.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import Callable, Coroutine
from typing import Any, TypeAlias

import pytest

import aiompi
import face.native.checks.collective
import face.native.checks.communicator
import face.native.checks.message
import face.native.checks.requests
import face.native.checks.threads  # noqa: F401
from aiompi import Settings
from face import checks as both
from face.native.checks import CHECKS, SIZE, WITHIN_A_CLIENT, Check
from support.impi_worlds import impi_world
from support.jobs import KEY, NEAREST, Site
from support.limits import LIMIT

Run: TypeAlias = Callable[[Coroutine[Any, Any, Any]], Any]


def marked(name: str, *others: Any) -> Any:
    words = "-".join([name, *(str(other) for other in others if isinstance(other, list))])
    return pytest.param(*others, CHECKS[name], marks=getattr(CHECKS[name], "pytestmark", ()), id=words)


def is_collective(name: str) -> bool:
    """Return True for a check of what more than two ranks do together, so that it counts how many clients they have."""
    module = both.CHECKS.get(name, CHECKS[name]).__module__.rpartition(".")[2]
    return module in ("collective", "collectives", "communicator", "communicators", "persistent")


@pytest.mark.parametrize(
    ("run", "check"), [*map(marked, CHECKS, itertools.cycle(["asyncio", "uvloop"]))], indirect=["run"]
)
def test_local_world(run: Run, check: Check) -> None:
    """In one loop each: `test_joined_world` makes them all in both."""

    async def main() -> None:
        async with asyncio.timeout(LIMIT):
            await check(aiompi.local_world(SIZE))

    run(main())


@pytest.mark.spec("I1.1-1", "I1.1-2")
@pytest.mark.parametrize(
    ("run", "clients", "check"),
    [
        *(marked(name, "asyncio", [1, 1, 1]) for name in CHECKS if name not in WITHIN_A_CLIENT),
        *(marked(name, "uvloop", [2, 1]) for name in CHECKS if is_collective(name) and name not in WITHIN_A_CLIENT),
    ],
    indirect=["run"],
)
def test_several_clients(run: Run, check: Check, clients: list[int]) -> None:
    """Long messages take tens of packets. Two ranks of one client are as in a local world."""

    async def main() -> None:
        async with asyncio.timeout(LIMIT):
            await check(impi_world(clients, limits={"datalen": 20_000}))

    run(main())


@pytest.mark.parametrize(
    ("run", "transport"),
    [("asyncio", NEAREST), ("uvloop", "tcp")],
    indirect=["run"],
)
def test_joined_world(run: Run, site: Site, transport: str) -> None:
    """All operations one after the other on the same communicators, over sockets; long messages ask their receiver."""
    job, address = site.serve(SIZE)
    settings = Settings(transports=(transport,), shm_eager_limit=100_000, tcp_eager_limit=0)

    async def main() -> None:
        async with contextlib.AsyncExitStack() as stack:
            sessions = [aiompi.init(address, KEY, rank=rank, settings=settings) for rank in range(SIZE)]
            world = await asyncio.gather(*map(stack.enter_async_context, sessions))
            for name, check in CHECKS.items():
                async with asyncio.timeout(LIMIT):
                    await check(list(world))
                assert all(comm.iprobe() is None for comm in world), f"{name} has left a message"
            await asyncio.gather(*(comm.finalize() for comm in world))

    run(main())
    assert job.finish().code == 0
