"""Repeats each kind of operation that the native core serves, between two ranks, and prints what grows.

    aiompi-launch -n 2 python tests/core/leaks.py FACE COUNT [KIND ...]

FACE is "native" or "blocking", COUNT the number of operations of each kind. For each kind that leaves more behind than
caches may, a line says how much: blocks of Python's allocator, objects that its garbage collector knows, references to
objects that all operations share, and bytes of the C library's allocator. With --all each kind has a line.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import gc
import mmap
import sys
from collections.abc import Awaitable, Callable
from typing import Any, Final

import numpy as np

import aiompi
from aiompi import MPI
from aiompi.core._native import Atomics, MatchQueues, Outgoing, PeerBase, Ring

#: blocks, objects, references and bytes that may stay of a run of any length: caches, pools and free lists
SLACK: Final = (200, 150, 300, 128 * 2**10)
#: operations of many kinds before ranks wait for each other
WINDOW: Final = 16
#: calls of each kind before anything is counted, which fill the caches
WARM: Final = 20

Kind = Callable[["Kinds"], Awaitable[None]]


def of(number: int) -> Callable[[Kind], Kind]:
    """Say how many operations a call of a kind makes; others make one."""

    def noted(kind: Kind) -> Kind:
        kind.__dict__["operations"] = number
        return kind

    return noted


class Malloc(ctypes.Structure):
    """What mallinfo2 of the GNU C library tells."""

    _fields_ = (
        ("others", ctypes.c_size_t * 4),
        ("mapped", ctypes.c_size_t),
        ("more", ctypes.c_size_t * 2),
        ("used", ctypes.c_size_t),
        ("rest", ctypes.c_size_t * 2),
    )


def bytes_in_use() -> int:
    """Return the bytes that the C library has allocated, 0 if it does not tell."""
    try:
        tell = ctypes.CDLL(None).mallinfo2
    except AttributeError:
        return 0
    tell.restype = Malloc
    found = tell()
    return int(found.used + found.mapped)


class Kinds:
    """The kinds, which are the methods without an underscore."""

    def __init__(self, comm: Any, face: str) -> None:
        self.comm, self.face = comm, face
        self.rank, self.other = comm.rank, 1 - comm.rank
        self.short, self.short_in = np.arange(1.0), np.zeros(1)
        self.two_in, self.two = np.zeros(2), np.zeros(2)
        self.middle, self.middle_in = bytearray(3000), bytearray(3000)
        self.streamed_out, self.streamed_in = np.ones(12_500), np.zeros(12_500)
        self.long_out, self.long_in = np.ones(2**17), np.zeros(2**17)
        self.strided = np.zeros((8, 4))
        self.column = MPI.DOUBLE.Create_vector(8, 1, 4).Commit()
        self.packed = bytearray(200)
        self.cube, self.cube_in = np.arange(512.0).reshape(8, 8, 8) + self.rank, np.zeros((8, 8, 8))
        rows, columns = [
            [MPI.DOUBLE.Create_subarray([8] * 3, sizes, [part * start for start in starts]).Commit() for part in (0, 1)]
            for sizes, starts in (([4, 8, 8], [4, 0, 0]), ([8, 4, 8], [0, 4, 0]))
        ]
        each = [1, 1], [0, 0]
        self.typed, self.typed_in = [self.cube, each, rows], [self.cube_in, each, columns]
        self.words = Atomics(mmap.mmap(-1, 4096))
        self.content = {"a": 1, "b": [1, 2.5, "text"], "c": b"bytes", "d": (None, True)}
        self.array = {"array": np.ones(40), "long": np.ones(9000)}
        self.watched = [
            None, True, False, (), 0, 1, -1, b"", comm, *vars(self).values(), Outgoing, PeerBase, Ring, MatchQueues,
            MPI.DOUBLE, MPI.SUM, aiompi.Status, np.ndarray, memoryview, bytearray,
        ]  # fmt: skip

    async def _end(self, call: Any) -> Any:
        """Return the result of a call that blocks in one face, and is awaited in the other."""
        return await call if self.face == "native" else call

    async def _done(self, request: Any) -> Any:
        """Return the result of a request."""
        return await request if self.face == "native" else request.wait()

    async def _fails(self, call: Callable[[], Any]) -> None:
        """Make a call that fails."""
        try:
            await self._end(call())
        except (aiompi.MPIError, TypeError, ValueError):
            return
        raise AssertionError("the call does not fail")

    @of(WINDOW)
    async def buffer(self) -> None:
        for _ in range(WINDOW):
            await self._end(self.comm.Send(self.short, self.other))
        for _ in range(WINDOW):
            await self._end(self.comm.Recv(self.short_in, self.other))

    @of(WINDOW)
    async def buffer_with_a_type(self) -> None:
        for _ in range(WINDOW):
            await self._end(self.comm.Send([self.middle, 3000, MPI.BYTE], self.other, 1))
        for _ in range(WINDOW):
            await self._end(self.comm.Recv([self.middle_in, MPI.BYTE], self.other, 1))

    @of(WINDOW)
    async def small_object(self) -> None:
        for _ in range(WINDOW):
            await self._end(self.comm.send(self.content, self.other))
        for _ in range(WINDOW):
            assert await self._end(self.comm.recv(source=self.other)) == self.content

    @of(4)
    async def object_with_arrays(self) -> None:
        requests = [self.comm.isend(self.array, self.other) for _ in range(4)]
        for request in requests:
            await self._end(self.comm.recv(source=self.other))
            await self._done(request)

    @of(WINDOW)
    async def isend_and_irecv(self) -> None:
        receives = [self.comm.irecv(source=self.other) for _ in range(WINDOW)]
        sends = [self.comm.isend(7, self.other) for _ in range(WINDOW)]
        for receive, send in zip(receives, sends, strict=True):
            assert await self._done(receive) == 7
            await self._done(send)

    @of(WINDOW)
    async def isend_and_irecv_of_buffers(self) -> None:
        receives = [self.comm.Irecv(self.short_in, self.other, i) for i in range(WINDOW)]
        sends = [self.comm.Isend(self.short, self.other, i) for i in range(WINDOW)]
        for request in receives + sends:
            await self._done(request)

    @of(WINDOW)
    async def unexpected_in_another_order(self) -> None:
        for i in range(WINDOW):
            await self._end(self.comm.Send(self.short, self.other, i))
        for i in reversed(range(WINDOW)):
            await self._end(self.comm.Recv(self.short_in, self.other, i))

    @of(3 * WINDOW)
    async def many_unexpected(self) -> None:
        """More than one chain has."""
        sends = [self.comm.isend(i, self.other, i) for i in range(3 * WINDOW)]
        for i in range(3 * WINDOW):
            assert await self._end(self.comm.recv(source=self.other, tag=i)) == i
        for send in sends:
            await self._done(send)

    @of(WINDOW)
    async def wildcards(self) -> None:
        receives = [self.comm.Irecv(self.short_in) for _ in range(WINDOW)]
        for tag in range(WINDOW):
            await self._end(self.comm.Send(self.short, self.other, tag))
        for receive in receives:
            await self._done(receive)
        await self._end(self.comm.Send(self.short, self.other, 6))
        await self._end(self.comm.Recv(self.short_in))

    @of(WINDOW)
    async def probes(self) -> None:
        assert not self.comm.iprobe(self.other, 99)
        for tag in range(WINDOW):
            await self._end(self.comm.send("probed", self.other, tag))
        for tag in range(0, WINDOW, 2):
            await self._end(self.comm.probe(self.other, tag))
            assert self.comm.iprobe(self.other, tag)
            assert await self._end(self.comm.recv(source=self.other, tag=tag)) == "probed"
            message = await self._end(self.comm.mprobe(self.other, tag + 1))
            assert await self._end(message.recv()) == "probed"

    @of(2)
    async def cancelled_receives(self) -> None:
        for receive in (self.comm.Irecv(self.short_in, self.other, 98), self.comm.irecv(source=self.other, tag=98)):
            if self.face == "blocking":
                receive.Cancel()
                receive.Wait()
                continue
            receive.cancel()
            with contextlib.suppress(aiompi.MPIError):
                await receive

    async def given_up(self) -> None:
        if self.face == "blocking":
            request = self.comm.irecv(source=self.other, tag=97)
            assert not request.test()[0]
            request.cancel()
            request.Wait()
            return
        task = asyncio.ensure_future(self.comm.Recv(self.short_in, self.other, 97))
        await asyncio.sleep(0)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task

    @of(4)
    async def streamed(self) -> None:
        receives = [self.comm.Irecv(self.streamed_in, self.other) for _ in range(4)]
        sends = [self.comm.Isend(self.streamed_out, self.other) for _ in range(4)]
        for request in receives + sends:
            await self._done(request)

    @of(4)
    async def copied_by_the_kernel(self) -> None:
        for sender in range(2):
            if self.rank == sender:
                for _ in range(2):
                    await self._end(self.comm.Send(self.long_out, self.other))
            else:
                for _ in range(2):
                    await self._end(self.comm.Recv(self.long_in, self.other))

    @of(WINDOW)
    async def synchronous(self) -> None:
        requests = [self.comm.issend(self.content, self.other) for _ in range(WINDOW)]
        for request in requests:
            await self._end(self.comm.recv(source=self.other))
            await self._done(request)

    async def to_itself(self) -> None:
        receive = self.comm.irecv(source=self.rank)
        await self._end(self.comm.send(self.content, self.rank))
        await self._done(receive)

    async def barrier(self) -> None:
        await self._end(self.comm.Barrier())

    @of(9)
    async def slots(self) -> None:
        comm, short, two, into = self.comm, self.short, self.two, self.short_in
        await self._end(comm.Bcast(short, 0))
        await self._end(comm.Gather(short, self.two_in if not self.rank else None, 0))
        await self._end(comm.Allgather(short, self.two_in))
        await self._end(comm.Scatter(two if not self.rank else None, into, 0))
        await self._end(comm.Alltoall(two, self.two_in))
        await self._end(comm.Reduce(short, into if not self.rank else None, root=0))
        await self._end(comm.Allreduce(short, into))
        await self._end(comm.Reduce_scatter_block(two, into))
        await self._end(comm.Scan(short, into))

    @of(3)
    async def rounds(self) -> None:
        await self._end(self.comm.Bcast(self.long_in, 1))
        await self._end(self.comm.Allreduce(self.long_out, self.long_in))
        await self._end(self.comm.Allgather(self.long_out[: 2**15 + 1], self.long_in[: 2**16 + 2]))

    async def exchange(self) -> None:
        """Each rank has the half of axis 0 of a cube, and gets a half of axis 1."""
        await self._end(self.comm.Alltoallw(self.typed, self.typed_in))
        assert self.cube_in[2, 3 + 4 * self.other, 5] == 256 * self.rank + 8 * (4 * 2 + 3) + 5 + self.other
        self.cube_in[:] = 0

    @of(3)
    async def collectives_of_objects(self) -> None:
        assert await self._end(self.comm.bcast(self.content if self.rank else None, 1)) == self.content
        assert len(await self._end(self.comm.allgather(self.rank))) == 2
        assert await self._end(self.comm.allreduce(1)) == 2

    @of(2)
    async def strides(self) -> None:
        await self._end(self.comm.Send([self.strided, 1, self.column], self.other))
        await self._end(self.comm.Recv([self.strided, 1, self.column], self.other))
        await self._end(self.comm.Send(self.strided[:, 1], self.other))
        await self._end(self.comm.Recv(self.strided[:, 2], self.other))

    @of(8)
    async def packing(self) -> None:
        for kind, array in ((MPI.DOUBLE, self.two), (self.column, self.strided)):
            kind.Pack([array, len(array) if array is self.two else 1], self.packed, 0, self.comm)
            kind.Unpack(self.packed, 0, [array, len(array) if array is self.two else 1], self.comm)
            kind.Pack_external("external32", [array, 2 if array is self.two else 1], self.packed, 0)
            kind.Unpack_external("external32", self.packed, 0, [array, 2 if array is self.two else 1])

    @of(23)
    async def atomics(self) -> None:
        words = self.words
        for size in (1, 2, 4, 8):
            words.store(64, size, 2**size)
            words.add(64, size, 2**40)
            words.compare_and_swap(64, size, words.load(64, size), 9)
            words.exchange(64, size, -1)
        for wrong in (lambda: words.load(63, 8), lambda: words.load(0, 3), lambda: words.store(0, 8, "x")):
            await self._fails(wrong)

    @of(6)
    async def failed_calls(self) -> None:
        comm = self.comm
        await self._fails(lambda: comm.Send(self.short, 7))
        await self._fails(lambda: comm.Send(self.short, self.other, -5))
        await self._fails(lambda: comm.Send(object(), self.other))
        await self._fails(lambda: comm.Recv(b"read only", self.other))
        await self._fails(lambda: comm.recv(source=7))
        await self._fails(lambda: comm.Isend([self.short, 9, MPI.DOUBLE], self.other))

    @of(2 * WINDOW)
    async def truncated(self) -> None:
        for message in (self.two, self.streamed_out[:500]):
            for _ in range(WINDOW):
                await self._end(self.comm.Send(message, self.other))
            for _ in range(WINDOW):
                await self._fails(lambda: self.comm.Recv(self.short_in, self.other))
        send = self.comm.Isend(self.streamed_out, self.other)
        await self._fails(lambda: self.comm.Recv(self.short_in, self.other))
        await self._done(send)

    @of(WINDOW)
    async def callbacks(self) -> None:
        receives = [self.comm.irecv(source=self.other) for _ in range(WINDOW)]
        for receive in receives if self.face == "native" else ():
            receive.add_done_callback(id)
            receive.add_done_callback(hash)
            receive.remove_done_callback(hash)
        for _ in range(WINDOW):
            await self._end(self.comm.send(1.5, self.other))
        for receive in receives:
            await self._done(receive)


async def now(kinds: Kinds) -> tuple[int, ...]:
    """Return what there is, while no rank sends anything."""
    await kinds._end(kinds.comm.Barrier())
    if kinds.face == "native":
        await asyncio.sleep(0)  # callbacks are called
    gc.collect()
    references = sum(map(sys.getrefcount, kinds.watched))
    found = sys.getallocatedblocks(), len(gc.get_objects()), references, bytes_in_use()
    await kinds._end(kinds.comm.Barrier())
    return found


async def repeat(kinds: Kinds, name: str, count: int, show: bool) -> None:
    """Make operations of a kind, and print what they leave behind."""
    kind: Any = getattr(kinds, name)
    calls = -(-count // kind.__func__.__dict__.get("operations", 1))
    for _ in range(WARM):
        await kind()
    before = await now(kinds)
    for _ in range(calls):
        await kind()
    grown = [after - each for after, each in zip(await now(kinds), before, strict=True)]
    if show or any(more > most for more, most in zip(grown, SLACK, strict=True)):
        blocks, objects, references, nbytes = grown
        left = f"{blocks} blocks, {objects} objects, {references} references, {nbytes} bytes"
        print(f"{name}, {calls} calls: {left}", flush=True)


async def run(comm: Any) -> None:
    """Make all that the command line asks for."""
    face, count, *names = (word for word in sys.argv[1:] if word != "--all")
    kinds = Kinds(comm, face)
    gc.freeze()  # modules and classes, which stay
    for name in names or [each for each in vars(Kinds) if not each.startswith("_")]:
        await repeat(kinds, name, int(count), "--all" in sys.argv)


if __name__ == "__main__":
    if sys.argv[1] == "native":
        aiompi.run(run)
    else:
        with contextlib.suppress(StopIteration):
            run(MPI.COMM_WORLD).send(None)
