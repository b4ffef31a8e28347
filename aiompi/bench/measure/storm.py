"""A rank of `aiompi.bench.faults`: communication with known results that goes on through failures.

In each step, all members run the same random operation. Then they agree whether the step counts. If it does not, they
continue without the ranks that have failed. The coroutines serve both faces: in the blocking face they are never
suspended.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import faulthandler
import inspect
import json
import os
import random
import signal
import socket
import sys
import threading
import time
from array import array
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any, Final, TypeAlias

from aiompi.constants import ANY_SOURCE
from aiompi.errors import JobAbortedError, ProcessFailedError, RevokedError, SpawnError
from aiompi.face.native.communicator import Comm
from aiompi.job.runtime import Runtime

SIZES: Final = (1, 400, 12_000, 40_000, 300_000)  # items of 8 bytes
LOST: Final = (ProcessFailedError, RevokedError)
_SETTLED: Final = 0.3  # seconds after which nothing is left of a rank whose failure is known
_LONG_SETTLED: Final = 4.0  # seconds after which nothing is left of a spawned job that has ended


class WrongResult(Exception):
    """An operation has completed with a wrong result."""


class Disagreement(Exception):
    """Some members could not make a communicator, so that no member uses it."""


def check(found: object, expected: object) -> None:
    """Raise WrongResult if a result is wrong."""
    if found != expected:
        raise WrongResult(f"{str(found)[:200]} in place of {str(expected)[:200]}")


async def result(value: Any) -> Any:
    """Return the result of a call or of a request, in either face."""
    if inspect.isawaitable(value):
        return await value
    return value.wait() if hasattr(value, "wait") else value


# The operations: they take a communicator and the random numbers of the step, the same at all members.


async def messages(comm: Any, numbers: random.Random) -> None:
    """Exchange a message with each other member in random order. Receives name their sources, or use ANY_SOURCE."""
    await _exchange(comm, numbers.choice(SIZES), anybody=numbers.random() < 0.5)


async def _exchange(comm: Any, count: int, *, anybody: bool) -> None:
    others = [rank for rank in range(comm.size) if rank != comm.rank]
    buffers = [array("q", bytes(8 * count)) for _ in others]
    sources = [ANY_SOURCE] * len(others) if anybody else others
    receives = [comm.Irecv(buffer, source, 3) for buffer, source in zip(buffers, sources, strict=True)]
    random.shuffle(others)
    sends = [comm.Isend(array("q", [comm.rank + 1]) * count, other, 3) for other in others]
    for request in receives + sends:
        await result(request)
    check(sorted((buffer[0], buffer[-1]) for buffer in buffers), sorted((rank + 1, rank + 1) for rank in others))


async def objects(comm: Any, numbers: random.Random) -> None:
    """Pass an object around the ring."""
    item = {"from": comm.rank, "data": bytes(numbers.choice(SIZES))}
    sending = comm.isend(item, (comm.rank + 1) % comm.size)
    found = await result(comm.recv(source=(comm.rank - 1) % comm.size))
    await result(sending)
    check(found["from"], (comm.rank - 1) % comm.size)


async def sums(comm: Any, numbers: random.Random) -> None:
    """Add a number of each member, and an array of each."""
    total = comm.size * (comm.size + 1) // 2
    check(await result(comm.allreduce(comm.rank + 1)), total)
    count = numbers.choice(SIZES)
    mine, everyones = array("q", [comm.rank + 1]) * count, array("q", bytes(8 * count))
    await result(comm.Allreduce(mine, everyones))
    check(everyones, array("q", [total]) * count)


async def broadcasts(comm: Any, numbers: random.Random) -> None:
    """Broadcast an object and an array."""
    root, count = numbers.randrange(comm.size), numbers.choice(SIZES)
    check(await result(comm.bcast([root, count] if comm.rank == root else None, root)), [root, count])
    buffer = array("q", [root + 1 if comm.rank == root else 0]) * count
    await result(comm.Bcast(buffer, root))
    check((buffer[0], buffer[-1]), (root + 1, root + 1))


async def gathering(comm: Any, numbers: random.Random) -> None:
    """Gather at one member and at all, and transpose."""
    root = numbers.randrange(comm.size)
    ranks = [*range(comm.size)]
    check(await result(comm.gather(comm.rank, root)), ranks if comm.rank == root else None)
    check(await result(comm.allgather(comm.rank)), ranks)
    check(await result(comm.alltoall([(comm.rank, other) for other in ranks])), [(other, comm.rank) for other in ranks])
    await result(comm.barrier())


async def agreement(comm: Any, _: random.Random) -> None:
    """Agree on a number, in the presence of failures as well."""
    try:
        check(await result(comm.Agree(-1 ^ 1 << comm.rank)), -1 << comm.size)
    except ProcessFailedError:
        comm.Ack_failed()
        raise


async def duplicate(comm: Any, numbers: random.Random) -> None:
    """Make a communicator of all members, use and free it."""
    await _used(comm, await result(comm.Dup()), numbers)


async def halves(comm: Any, numbers: random.Random) -> None:
    """Split the communicator. After all ranks have agreed that the split succeeded, each half computes on its own."""
    half, made = None, 1
    try:
        half = await result(comm.Split(comm.rank % 2))
    except LOST:
        made = 0
    if not await result(comm.Agree(made)):
        raise Disagreement
    await _used(comm, half, numbers)


async def shrinking(comm: Any, numbers: random.Random) -> None:
    """Shrink, although no member has failed, or while members fail."""
    await _used(comm, await result(comm.Shrink()), numbers)


async def spawning(comm: Any, numbers: random.Random) -> None:
    """Start processes, compute with them, and disconnect."""
    seed, count = numbers.randrange(10**6), numbers.randrange(1, 3)
    words = ["-m", "aiompi.bench.measure.elastic", json.dumps({"kind": "child", "seed": seed})]
    children: Any = None
    try:
        children = await result(comm.Spawn(sys.executable, words, maxprocs=count))
    except (*LOST, SpawnError):  # a child, too, may fail before it is there
        comm.Revoke()
    if not await counts(comm, children is not None):
        await _given_up(children)
        raise Disagreement
    await with_children(children, seed, high=False)


async def with_children(inter: Any, seed: int, *, high: bool) -> None:
    """Compute with the other side of an intercommunicator, and disconnect."""
    together: Any = None
    try:
        check(await result(inter.allgather(high)), [not high] * inter.remote_size)
        together = await result(inter.Merge(high))
    except LOST:
        inter.Revoke()
    agreed = await counts(inter, together is not None)
    for number in range(2):
        if agreed:
            numbers, done = random.Random(f"{seed} {number}"), True
            try:
                await numbers.choice(OPERATIONS)(together, numbers)
            except (*LOST, Disagreement):
                done = False
                together.Revoke()
            agreed = await counts(together, done)
    if agreed:
        with contextlib.suppress(*LOST):  # the others may fail as well as succeed
            await result(together.Free())
            await result(inter.Disconnect())
            return
    await _given_up(together, inter)
    raise Disagreement


async def counts(comm: Any, done: bool) -> bool:
    """Agree whether all members have succeeded. Every member that lives calls this, whatever has happened to it."""
    try:
        return bool(await result(comm.Agree(int(done))))
    except ProcessFailedError:
        return False


async def _given_up(*comms: Any) -> None:
    for comm in comms:
        if comm:
            comm.Revoke()
            await result(comm.Free())


async def _used(_: Any, made: Any, numbers: random.Random) -> None:
    await sums(made, numbers)
    await result(made.Free())


Operations: TypeAlias = tuple[Callable[[Any, random.Random], Awaitable[None]], ...]
OPERATIONS: Final[Operations] = (
    messages, messages, objects, sums, sums, broadcasts, gathering, agreement, duplicate, halves, shrinking,
)  # fmt: skip


class Storm:
    """The steps of one rank.

    Args:
        comm: of all ranks.
        seed: of the steps.
        seconds: time after which the ranks agree to end.
        operations: the operations, of which each step performs one.
    """

    def __init__(self, comm: Any, seed: int, seconds: float, operations: Operations) -> None:
        self.operations = operations
        self.world = self.comm = comm
        self.seed = seed
        self.seconds = seconds
        self.steps = self.recovered = 0
        self.first_after = 0.0  # time at which all worked together again after the latest recovery

    async def run(self, ready: Callable[[], object]) -> dict[str, Any]:
        """Run to the end; return what the campaign checks."""
        # Make all links, and the memory that each link needs for messages of every size.
        for number, operation in enumerate(self.operations):
            await operation(self.comm, random.Random(number))
        for count in SIZES:
            await _exchange(self.comm, count, anybody=False)
        before = descriptors()
        ready()
        deadline = time.monotonic() + self.seconds
        while not await self._step(deadline):
            pass
        members, everybody = self.comm.group, self.world.group
        ranks = [*members.Translate_ranks([*range(members.size)], everybody)]
        await self._settle(len(before) + 2 * (len(ranks) - 1) - (everybody.size - len(ranks)))
        after = descriptors()
        return {
            "members": ranks,
            "stale": sorted({link.peer.rank for link in links(self.world._runtime)} - {*ranks}),
            "steps": self.steps,
            "first_after": self.first_after,
            "descriptors": [len(before), len(after)],
            "kept": [what for number, what in after.items() if number not in before],
        }

    async def _settle(self, most: int) -> None:
        """Poll until failed ranks are dropped and at most `most` descriptors are open, or until a timeout."""
        begin, known = time.monotonic(), _SETTLED if self.recovered else 0.0
        while time.monotonic() < begin + (known if len(descriptors()) <= most else _LONG_SETTLED):
            with contextlib.suppress(*LOST):
                self.comm.iprobe()
            await asyncio.sleep(0.01) if isinstance(self.comm, Comm) else time.sleep(0.01)

    async def _step(self, deadline: float) -> bool:
        """Try a step. If the step does not count, shrink to the living ranks. Return True after the last step."""
        numbers = random.Random(f"{self.seed} {self.steps}")
        done = 1
        try:
            await numbers.choice(self.operations)(self.comm, numbers)
        except (*LOST, Disagreement):
            done = 0
            self.comm.Revoke()
        late = int(time.monotonic() > deadline)
        try:
            agreed = await result(self.comm.Agree(done | late << 1))
        except ProcessFailedError:
            agreed = 0
        if not agreed & 1:
            self.comm = await result(self.comm.Shrink())
            self.recovered += 1
            with contextlib.suppress(*LOST):
                check(await result(self.comm.allreduce(1)), self.comm.size)
                self.first_after = time.monotonic()
            return False
        self.steps += 1
        return bool(agreed & 2)


def descriptors() -> dict[str, str]:
    """Return the descriptors of this process, and the objects to which they refer."""
    found = {}
    for number in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):  # the descriptor of the directory itself is closed by now
            found[number] = os.readlink(f"/proc/self/fd/{number}")
    return found


def links(runtime: Runtime) -> list[Any]:
    """Return the links to other ranks."""
    return [link for transport in runtime.wiring.transports for link in list(getattr(transport, "links", ()))]


def cut(runtime: Runtime, other: int, reset: bool) -> None:
    """Cut the link to another rank: reset it if `reset` is True and the link uses TCP, otherwise shut it down."""
    for link in links(runtime):
        sock = link._socket
        if link.peer.rank == other and sock is not None:
            with contextlib.suppress(OSError):
                if reset and sock.family == socket.AF_INET:
                    nowhere = ctypes.create_string_buffer(16)  # AF_UNSPEC: disconnect
                    ctypes.CDLL(None).connect(sock.fileno(), nowhere, 16)
                else:
                    sock.shutdown(socket.SHUT_RDWR)


def on_cut(action: Callable[[], object]) -> None:
    """Call a function in another thread at each SIGUSR2. The process must have no other thread yet."""
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR2])

    def run() -> None:
        while True:
            signal.sigwait([signal.SIGUSR2])
            action()

    threading.Thread(target=run, daemon=True).start()


def immediate(coroutine: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine that is never suspended."""
    try:
        coroutine.send(None)
    except StopIteration:
        return
    raise AssertionError("a call of the blocking face was awaited")


def say(**fields: Any) -> None:
    sys.stdout.write(json.dumps(fields) + "\n")
    sys.stdout.flush()


def main(
    seed: int, seconds: float, face: str, address: str, cuts: list[tuple[int, int, bool]], spawns: bool = False
) -> None:
    """Run a rank.

    Args:
        seed: of the steps.
        seconds: time for which the rank goes on.
        face: "blocking" or "native".
        address: of the job to join; empty if a launcher has started this process.
        cuts: (first rank, second rank, reset): at SIGUSR2 the first rank cuts its link to the second one, by a reset if
            `reset` is True.
        spawns: True for steps that start processes as well.
    """
    world: Any = None

    def cut_link() -> None:
        for first, second, reset in cuts:
            if world is not None and first == world.rank:
                cut(world._runtime, second, reset)

    on_cut(cut_link)

    async def run(comm: Any) -> None:
        nonlocal world
        world = comm
        operations = (spawning, *OPERATIONS[::3]) if spawns else OPERATIONS
        storm = Storm(comm, seed, seconds, operations)
        say(rank=comm.rank, **await storm.run(lambda: say(rank=comm.rank, pid=os.getpid())))

    try:
        if face == "blocking":
            from aiompi import MPI  # for this face only

            immediate(run(MPI.COMM_WORLD))
            return
        import aiompi  # for this face only

        async def join() -> None:
            async with aiompi.init(address) as comm:
                await run(comm)

        if address:
            asyncio.run(join())
        else:
            aiompi.run(run)
    except JobAbortedError as error:
        say(expelled=str(error))


if __name__ == "__main__":
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    main(**json.loads(Path(sys.argv[1]).read_text() if sys.argv[1].startswith("/") else sys.argv[1]))
