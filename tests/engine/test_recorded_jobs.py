"""Ranks of aiompi in recorded jobs of another implementation.

The programs do what the recorded ones did. In each job, aiompi takes the place of one client after the other. Its ranks
must send exactly the packets that were recorded.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeAlias

import numpy as np
import pytest

from aiompi import Intracomm
from aiompi.driver.aio import AsyncioDriver
from aiompi.face.native.job import world_of
from aiompi.impi.packet import PacketType
from support.impi_worlds import ImpiWorld
from support.limits import LIMIT
from support.replay import Script, counted, described
from support.spmd import Run, everywhere

Program: TypeAlias = Callable[[Intracomm], Coroutine[Any, Any, None]]

LONG = ((7 * (_PLACES := np.arange(132072)) + _PLACES // 256) % 256).astype(np.uint8)
FIRST = np.array([1, 2, 0x01020304], "i4")
STRUCT = [np.array([10 * root, 0, 0, 13], "i4") for root in (1, 2)]
PIECES = range(45)


def ints(*values: int) -> np.ndarray[Any, np.dtype[np.int32]]:
    return np.array(values, "i4")


async def received(comm: Intracomm, source: int, tag: int, expected: np.ndarray[Any, Any]) -> None:
    """Receive the expected message into longer memory."""
    memory = np.full(expected.size + 2, 99, expected.dtype)
    status = await comm.Recv(memory, source, tag)
    assert (status.source, status.tag, status.Get_count()) == (source, tag, expected.nbytes)
    assert (memory[: expected.size] == expected).all()
    assert (memory[expected.size :] == 99).all()


async def broadcast(comm: Intracomm, root: int, values: np.ndarray[Any, Any]) -> None:
    memory = values.copy() if comm.rank == root else np.zeros_like(values)
    await comm.Bcast(memory, root)
    assert (memory == values).all()


async def collectives(comm: Intracomm, last: int) -> None:
    await comm.Barrier()
    await broadcast(comm, 0, STRUCT[0])
    await broadcast(comm, last, STRUCT[1])
    total = np.zeros(1, "i4")
    await comm.Reduce(ints(comm.rank + 1), total, root=0)
    assert comm.rank or total == sum(range(1, comm.size + 1))
    await comm.Allreduce(ints(comm.rank + 1), total)
    assert total == sum(range(1, comm.size + 1))


async def greetings(comm: Intracomm, last: int) -> None:
    """Send a message and receive one."""
    if comm.rank == 0:
        await comm.Send(FIRST, last, 5)
        await received(comm, last, 15, FIRST)
    elif comm.rank == last:
        await received(comm, 0, 5, FIRST)
        await comm.Send(FIRST, 0, 15)


async def many(comm: Intracomm, last: int) -> None:
    """Send more messages in a row than may be unacknowledged, then some short ones."""
    if comm.rank == 0:
        for number in PIECES:
            await comm.Send(ints(number), last, 40)
        await received(comm, last, 41, ints(0))
        for tag, number in ((50, 1), (60, 1), (61, 0)):
            await comm.Send(ints(number), last, tag)
    elif comm.rank == last:
        for number in PIECES:
            await received(comm, 0, 40, ints(number))
        await comm.Send(ints(0), 0, 41)
        for tag, number in ((50, 1), (60, 1), (61, 0)):
            await received(comm, 0, tag, ints(number))


async def showcase(comm: Intracomm) -> None:
    await greetings(comm, 1)
    if comm.rank == 0:
        await comm.Send(np.array([1.0, -2.5]), 1, 25)
        await comm.Send(b"", 1, 16)
        await comm.Send(LONG, 1, 26)
    else:
        await received(comm, 0, 25, np.array([1.0, -2.5]))
        await received(comm, 0, 16, np.zeros(0, "i4"))
        await received(comm, 0, 26, LONG)
    await collectives(comm, 1)
    await many(comm, 1)


async def showcase_fixed(comm: Intracomm) -> None:
    last = 3
    await greetings(comm, last)
    if comm.rank == 0:
        await comm.Send(np.array([1.0, -2.5]), last, 25)
        await comm.Send(b"", last, 16)
        await comm.Ssend(ints(9), last, 27)
        await comm.Send(LONG, last, 26)
        await comm.Ssend(LONG, last, 28)
    elif comm.rank == last:
        await received(comm, 0, 25, np.array([1.0, -2.5]))
        await received(comm, 0, 16, np.zeros(0, "i4"))
        await received(comm, 0, 27, ints(9))
        await received(comm, 0, 26, LONG)
        await received(comm, 0, 28, LONG)
    await collectives(comm, last)
    await many(comm, last)
    await broadcast(comm, 0, np.full(131080, 5, np.uint8))
    await pipelined(comm)
    if comm.rank == 0:
        late = comm.Issend(ints(5), last, 70)
        await comm.Send(ints(5), last, 71)
        await late
    elif comm.rank == last:
        await received(comm, 0, 71, ints(5))
        await received(comm, 0, 70, ints(5))


async def pipelined(comm: Intracomm) -> None:
    """Perform broadcasts and reductions one after the other."""
    for number in range(5):
        await broadcast(comm, 0, ints(100 + number))
    for number in range(5):
        total = np.zeros(1, "i4")
        await comm.Reduce(ints(number), total, root=0)
        assert comm.rank or total == comm.size * number


async def three_fixed(comm: Intracomm) -> None:
    last = 2
    await greetings(comm, last)
    await collectives(comm, last)
    if comm.rank == 0:
        long = comm.Isend(LONG, last, 26)
        await comm.Ssend(ints(9), last, 27)
        await long
    elif comm.rank == last:
        await received(comm, 0, 26, LONG)
        await received(comm, 0, 27, ints(9))
    await pipelined(comm)


#: historic peers send integers in their machine's form, and reduce in the context of point-to-point messages
HISTORIC = {
    client: {"impi_native_order": (other,), "impi_reduce_point_to_point": (other,)}
    for client, other in ((0, "1"), (1, "0"))
}
JOBS: dict[str, Program] = {"showcase": showcase, "showcase_fixed": showcase_fixed, "three_fixed": three_fixed}
ROLES = [("showcase", 0), ("showcase", 1), ("showcase_fixed", 0), ("showcase_fixed", 1)] + [
    ("three_fixed", client) for client in range(3)
]


@pytest.mark.spec(
    "I1.2.3-3", "I1.2.3-4", "I2.4-2", "I3.2-2", "I3.5-8", "I3.5-9", "I3.5-15", "I3.6-2", "I3.6-3", "I3.6-5", "I3.7.1-3",
    "I3.7.1-4", "I3.7.2-2", "I3.7.2-3", "I3.7.2-4", "I3.7.2-5", "I3.7.2-8",
)  # fmt: skip
@pytest.mark.parametrize(("job", "client"), ROLES)
@pytest.mark.parametrize("cut", [2**30, 1000])
def test_a_recorded_job_with_our_ranks(run: Run, job: str, client: int, cut: int) -> None:
    async def main() -> None:
        driver, settings = AsyncioDriver(), HISTORIC[client] if job == "showcase" else {}
        universe = described(job)
        world = ImpiWorld(universe, lambda: driver, present=[client], patient=False, cut=cut, **settings)
        script = Script(world.relay, job, set(universe.clients[client].procs))
        script.start()

        async def to_the_end(comm: Intracomm) -> None:
            await JOBS[job](comm)
            await comm._runtime.finalize()

        async with asyncio.timeout(LIMIT):
            await everywhere([world_of(Intracomm, runtime) for runtime in world.runtimes], to_the_end)
        assert script.over
        assert script.found.keys() == script.expected.keys()
        for pair, expected in script.expected.items():
            assert counted(script.found[pair]) == counted(expected)
            acknowledgements = [
                [packet.pk_type for packet, _ in sent].count(PacketType.PROTOACK)
                for sent in (script.found[pair], expected)
            ]
            assert acknowledgements[0] == acknowledgements[1]

    run(main())
