"""A job in which processes write at random into memory that hostile ranks share with others, while messages run.

    AIOMPI_PICKLE=0 aiompi-launch --on-failure continue -n 6 python tests/transport/shared_memory/scribble.py FACE SEED

FACE is "native" or "blocking". Ranks 0 and 1 exchange messages with each other, which must be right, and with all other
ranks, which are hostile: a third process, a fork of such a rank, writes into its rings and slots meanwhile, and ends it
at last. What a hostile rank sends may be wrong or never come, and its connections may break. Nothing else may happen.
Ranks 0 and 1 print how many messages they have exchanged with each other, and then why which links have broken.
"""

from __future__ import annotations

import asyncio
import collections
import ctypes
import gc
import itertools
import os
import random
import re
import resource
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Generator
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

import numpy as np

import aiompi
from aiompi import MPI
from aiompi.core._native import PREFIX
from aiompi.engine import Engine
from aiompi.transport.shared_memory.slots import part_of

NATIVE: Final = sys.argv[1] == "native"
SEED: Final = int(sys.argv[2])
#: ranks that are not hostile
HEALTHY: Final = 2
#: seconds for which memory is written to
SECONDS: Final = 0.5
#: messages and collectives of each kind before that
WARM: Final = 12
LENGTHS: Final = (0, 8, 8, 100, 3000, 20_000, 70_000, 300_000, 1_500_000)
#: kilobytes that a healthy rank may need, whatever lengths a hostile one invents
MOST: Final = 2**20
CALLS: Final = ("Barrier", "Allreduce", "Bcast", "Allgather", "Alltoall", "Alltoallw")
LOST: Final = (aiompi.ProcessFailedError, aiompi.RevokedError)

LINE, DIRECTION = 64, 1024
#: the words of a direction, and those of a cell of slots
WORDS: Final = (0, 64, 128, 136, 192, 256, 264, 320, 328)
CELLS, CELL, CELL_WORDS = 16, 256, (0, 8, 16, 24, 32)
SPECIAL: Final = (
    *range(13), 48, 63, 64, 65, 255, 0x101, 0x103, 0x107, 0x204, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**40, 2**62,
    2**63, 2**64 - 64, 2**64 - 1,
)  # fmt: skip


class Looked:
    """A request of the blocking face that a coroutine awaits, by looking again and again."""

    def __init__(self, request: Any) -> None:
        self._request = request

    def __await__(self) -> Generator[None, None, Any]:
        while True:
            done, value = self._request.test()
            if done:
                return value
            yield


async def all_of(*requests: Any) -> list[Any]:
    """Wait for requests; raise the first error when all are complete."""
    found, errors = [], []
    for request in requests:
        try:
            found.append(await (request if NATIVE else Looked(request)))
        except aiompi.MPIError as error:
            errors.append(error)
    if errors:
        raise next((each for each in errors if isinstance(each, LOST)), errors[0])
    return found


class Rank:
    """What this rank does, and what becomes of it."""

    def __init__(self, world: Any) -> None:
        self.world = world
        self.rank, self.size = world.rank, world.size
        self.healthy = self.rank < HEALTHY
        self.steps: list[int] = []
        self.talks = 0
        self.ends: collections.Counter[str] = collections.Counter()
        self.noise = np.frombuffer(random.Random(1).randbytes(2**21), "u1")
        for engine in (each for each in gc.get_objects() if type(each) is Engine):
            engine.environment.lost = self.broken

    def broken(self, peer: Any, cause: str) -> None:
        """Note why a link has broken. The launcher is not asked which rank goes: the hostile one ends soon."""
        self.ends[re.sub(r"0x[0-9a-f]+|-?[0-9]+", "N", cause)] += 1

    @asynccontextmanager
    async def talk(self) -> AsyncIterator[Callable[[], None]]:
        """A block that ends when a hostile rank has. It calls what it gets after each step."""
        number = len(self.steps)
        self.steps.append(0)
        self.talks += 1

        def step() -> None:
            self.steps[number] += 1
            if not self.healthy and min(self.steps) == WARM == self.steps[number] and len(self.steps) == HEALTHY + 1:
                begin_to_scribble(self.rank)

        try:
            yield step
        except LOST:
            pass
        finally:
            self.talks -= 1

    async def friends(self, comm: Any) -> int:
        """Exchange messages with the other healthy rank as long as any hostile one is there; return their number.

        Args:
            comm: has no hostile rank, each of which may revoke its communicators.
        """
        number, here, there = 0, np.ones(1, "i8"), np.ones(1, "i8")
        exchange = Exchange(self, 1 - self.rank, comm)
        while here[0] or there[0]:
            assert await exchange.made(number), "a message between healthy ranks is wrong"
            here[0] = self.talks
            await all_of(comm.Irecv(there, 1 - self.rank, 200), comm.Isend(here, 1 - self.rank, 200))
            number += 1
        return number

    async def messages(self, other: int) -> None:
        """Exchange messages with a hostile rank, or with a healthy one."""
        exchange = Exchange(self, other, self.world)
        async with self.talk() as step:
            for number in itertools.count():
                try:
                    await exchange.made(number)
                except LOST:
                    raise
                except aiompi.MPIError:
                    await turn()
                step()

    async def collectives(self, comm: Any) -> None:
        """Make calls with a hostile rank, which go through slots, or are messages that the core packs and unpacks."""
        place, whole, given = np.zeros(30, "i8"), np.zeros(30 * comm.size, "i8"), np.zeros(30 * comm.size, "i8")
        every_second = MPI.INT64_T.Create_vector(15, 1, 2).Commit()
        each = [1] * comm.size, [240 * rank for rank in range(comm.size)], [every_second] * comm.size
        async with self.talk() as step:
            for number in itertools.count():
                values = np.full(30, number)
                name, arguments = CALLS[number % len(CALLS)], (
                    (), (values, place), (place, number % comm.size), (values, whole), (given, whole),
                    ([given, *each], [whole, *each]),
                )[number % len(CALLS)]  # fmt: skip
                try:
                    await all_of(getattr(comm, name if NATIVE else "I" + name.lower())(*arguments))
                except LOST:
                    raise
                except aiompi.MPIError:
                    await turn()
                step()


class Exchange:
    """Messages between two ranks, which choose alike what they send."""

    def __init__(self, rank: Rank, other: int, comm: Any) -> None:
        self.comm, self.noise, self.other = comm, rank.noise, other
        self.random = random.Random(f"{SEED} {sorted((rank.rank, other))}")
        self.place = np.zeros(max(LENGTHS), "u1")
        self.places = [np.zeros(1, "i8") for _ in range(16)]

    async def made(self, number: int) -> bool:
        """Exchange messages of one kind; return True if they were right."""
        comm, other, tag, kind = self.comm, self.other, number % 100, self.random.randrange(8)
        nbytes, at = self.random.choice(LENGTHS), self.random.randrange(2**19)
        if kind == 0:
            receives = [comm.Irecv(place, other, tag) for place in self.places]
            sends = [comm.Isend(np.array([number + i]), other, tag) for i in range(len(receives))]
            await all_of(*receives, *sends)
            return [int(place[0]) for place in self.places] == [*range(number, number + len(receives))]
        if kind == 1:
            content = {"number": number, "bytes": bytes(self.noise[at : at + min(nbytes, 10**5)]), "list": [1, "two"]}
            return (await all_of(comm.irecv(source=other, tag=tag), comm.isend(content, other, tag)))[0] == content
        message = self.noise[at : at + nbytes]
        if kind == 2:  # it comes before its receive
            send = comm.Isend(message, other, tag)
            comm.iprobe(other, tag)
            await all_of(comm.Irecv(self.place, other, tag), send)
        else:
            await all_of(comm.Irecv(self.place, other, tag), comm.Isend(message, other, tag))
        return bool((self.place[:nbytes] == message).all())


async def turn() -> None:
    """Let others go on."""
    if NATIVE:
        await asyncio.sleep(1e-3)
    else:
        await Again()


class Again:
    def __await__(self) -> Generator[None, None, None]:
        yield


# The process that writes.


def begin_to_scribble(rank: int) -> None:
    """Start the process that writes into the memory of this rank."""
    found = collections.defaultdict(list)
    for each in gc.get_objects():
        if type(each).__name__ in ("RingLink", "SlotArea"):
            found[type(each).__name__].append(each)
    segments = [memoryview(link._segment.memory) for link in found["RingLink"] if link._segment is not None]
    slots = [area.memory for area in found["SlotArea"]]
    assert segments, "there is no shared memory"
    assert slots, "there are no slots"
    victim = os.getpid()
    if os.fork():
        return
    try:
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
        scribble(random.Random(f"{SEED} {rank}"), segments, slots)
    finally:
        os.kill(victim, signal.SIGKILL)
        os._exit(0)


def scribble(chance: random.Random, segments: list[memoryview], slots: list[memoryview]) -> None:
    """Write for a while."""
    ways = chance.sample((a_word, a_frame, a_frame, anywhere, a_cell), chance.choice((1, 1, 2, 5)))
    pause, until = chance.choice((0.0, 1e-4, 1e-3, 1e-2)), time.monotonic() + SECONDS
    while time.monotonic() < until:
        way = chance.choice(ways)
        memory = chance.choice(slots if way is a_cell else segments)
        place = way(chance, memory)
        old = int.from_bytes(memory[place : place + 8], "little")
        new = chance.choice(
            (chance.choice(SPECIAL), old + chance.choice((-LINE, -1, 1, LINE)), old ^ 1 << chance.randrange(64))
        )
        nbytes = chance.choice((1, 4, 8, 8))
        memory[place : place + nbytes] = (new % 2**64).to_bytes(8, "little")[:nbytes]
        if chance.random() < 0.5:
            time.sleep(pause)


def a_word(chance: random.Random, segment: memoryview) -> int:
    return chance.randrange(2) * DIRECTION + chance.choice(WORDS)


def a_frame(chance: random.Random, segment: memoryview) -> int:
    """A header that is read next, or about that."""
    direction, size = chance.randrange(2), (len(segment) - PREFIX) // 2
    tail = int.from_bytes(segment[direction * DIRECTION + 256 :][:8], "little")
    line = (tail // LINE + chance.choice((0, 0, 1, 2, chance.randrange(size // LINE)))) * LINE % size
    return PREFIX + direction * size + line + chance.choice((0, 0, 4, 8, 12, 16, 24, 32, 40, 48))


def anywhere(chance: random.Random, segment: memoryview) -> int:
    return chance.randrange(0, len(segment), 8)


def a_cell(chance: random.Random, area: memoryview) -> int:
    """A word of slots, of one of the first communicators."""
    part = part_of(2 * chance.randrange(1, 9))
    assert part is not None
    cell = 2 * LINE + chance.randrange(CELLS) * CELL + chance.choice(CELL_WORDS)
    return part.start + chance.choice((0, 8, 16, LINE, cell, cell, cell, cell))


# Running.


async def together(*coroutines: Coroutine[Any, Any, Any]) -> list[Any]:
    """Run coroutines at once, in the blocking face by turns."""
    if NATIVE:
        return await asyncio.gather(*coroutines)
    results: dict[Any, Any] = dict.fromkeys(coroutines)
    left = [*coroutines]
    while left:
        for each in [*left]:
            try:
                each.send(None)
            except StopIteration as end:
                results[each] = end.value
                left.remove(each)
    return [*results.values()]


async def run(world: Any) -> None:
    """Be a rank."""
    rank = Rank(world)
    comms, split = [], world.Split(rank.healthy, rank.rank)
    friends = await split if NATIVE else split
    for hostile in range(HEALTHY, rank.size):
        members = rank.rank < HEALTHY or rank.rank == hostile
        made = world.Split(0 if members else MPI.UNDEFINED, rank.rank)
        made = await made if NATIVE else made
        comms += [made] if members else []
    others = range(HEALTHY, rank.size) if rank.healthy else range(HEALTHY)
    talks = [rank.collectives(comm) for comm in comms] + [rank.messages(other) for other in others]
    if not rank.healthy:
        await together(*talks)
        signal.pause()
    count, *_ = await together(rank.friends(friends), *talks)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < MOST
    print(f"rank {rank.rank}: {count} right, {dict(rank.ends)}", flush=True)


if __name__ == "__main__":
    if NATIVE:
        aiompi.run(run)
    else:
        with suppress(StopIteration):
            run(MPI.COMM_WORLD).send(None)
