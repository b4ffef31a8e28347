"""Measurements of windows and files, for every library with the names of mpi4py."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np

from aiompi.bench.measure import payloads
from aiompi.bench.measure.turns import timed

#: blocks of calls on a window, of which each is timed
_BLOCKS: Final = 16
#: the calls of rank 0 on the memory of rank 1: `ones` is an array of integers; `zeros` and `result` have its length
_CALLS: Final[dict[str, Callable[..., object]]] = {
    "put": lambda mpi, win, ones, zeros, result: win.Put(ones, 1),
    "get": lambda mpi, win, ones, zeros, result: win.Get(result, 1),
    "accumulate": lambda mpi, win, ones, zeros, result: win.Accumulate(ones, 1, 0, mpi.MAX),
    "fetch_and_op": lambda mpi, win, ones, zeros, result: win.Fetch_and_op(ones, result, 1, 0, mpi.MAX),
    "compare_and_swap": lambda mpi, win, ones, zeros, result: win.Compare_and_swap(ones, zeros, result, 1),
}
#: bytes of one independent access
_PIECE: Final = 2**20


def window(mpi: Any, comm: Any, call: str, nbytes: int, calls: list[int], busy: float = 0.0) -> list[float]:
    """Seconds per iteration: some calls on the memory of rank 1, and a flush.

    Args:
        mpi, comm: the library, and its communicator of two ranks.
        call: one of `_CALLS`.
        nbytes: of the memory of a call, a multiple of 8.
        calls: iterations of a block, and calls of an iteration.
        busy: seconds for which rank 1 computes in each block, without any call.
    """
    win = mpi.Win.Allocate(nbytes, 8, comm=comm)
    own, ones = np.frombuffer(win.tomemory(), "i8"), np.ones(nbytes // 8, "i8")
    zeros, result = ones - 1, ones - 1
    own[:] = call == "get"
    access = partial(_CALLS[call], mpi, win, ones, zeros, result)
    iterations, outstanding = calls
    seconds: list[float] = []

    def loop(n: int) -> None:
        for _ in range(n):
            for _ in range(outstanding):
                access()
            win.Flush(1)

    comm.Barrier()
    if comm.rank == 0:
        win.Lock(1, mpi.LOCK_SHARED)
        seconds = timed(loop, iterations, _BLOCKS, comm.Barrier)
        win.Unlock(1)
    else:
        for _ in range(_BLOCKS):
            comm.Barrier()
            until = time.perf_counter() + busy
            while time.perf_counter() < until:
                pass
    comm.Barrier()
    payloads.look(result if call == "get" and comm.rank == 0 else own if comm.rank == 1 else ones)
    win.Free()
    return seconds


def file_blocks(mpi: Any, comm: Any, nbytes: int, blocks: int) -> list[float]:
    """Seconds of each collective write of a square array of doubles by four ranks, which write a quadrant each."""
    edge = int((nbytes // 8) ** 0.5) // 2 * 2
    half = edge // 2
    corner = [half * (comm.rank // 2), half * (comm.rank % 2)]
    mine = np.full((half, half), comm.rank + 1.0)
    view = mpi.DOUBLE.Create_subarray([edge, edge], [half, half], corner).Commit()
    with tempfile.TemporaryDirectory() as own:
        path = os.path.join(comm.bcast(own), "array")
        file = mpi.File.Open(comm, path, mpi.MODE_CREATE | mpi.MODE_RDWR)
        file.Set_view(0, mpi.DOUBLE, view)
        seconds = timed(lambda n: [file.Write_at_all(0, mine) for _ in range(n)], 1, blocks, comm.Barrier)
        file.Close()
        if comm.rank == 0:
            array = np.fromfile(path).reshape(2, half, 2, half)
            if any((array[i, :, j] != 2 * i + j + 1).any() for i in range(2) for j in range(2)):
                raise ValueError("the file has not what was written")
        comm.Barrier()
    view.Free()
    return seconds


def file_pieces(mpi: Any, comm: Any, call: str, nbytes: int, iterations: int, blocks: int) -> list[float]:
    """Seconds in which rank 0 writes or reads a file in pieces, by Write_at, Read_at, os.pwrite or os.preadv."""
    if comm.rank:
        return []
    sent: Any = 2 * payloads.touched(_PIECE)
    received: Any = payloads.blank(_PIECE)
    offsets = range(0, nbytes, _PIECE)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "file")
        path.write_bytes(payloads.data(nbytes))
        file = mpi.File.Open(mpi.COMM_SELF, str(path), mpi.MODE_RDWR)
        number = os.open(path, os.O_RDWR)
        access: Callable[[int], object] = {
            "pwrite": lambda offset: os.pwrite(number, sent, offset),
            "preadv": lambda offset: os.preadv(number, [received], offset),
            "Write_at": lambda offset: file.Write_at(offset, sent),
            "Read_at": lambda offset: file.Read_at(offset, received),
        }[call]

        def loop(n: int) -> None:
            for _ in range(n):
                for offset in offsets:
                    access(offset)

        seconds = timed(loop, iterations, blocks)
        os.close(number)
        file.Close()
        payloads.look(received if "ead" in call else np.fromfile(path, "u1") == sent[0])
    return seconds


def works(mpi: Any) -> dict[str, Callable[..., Any]]:
    """Return the works by name; see `point_to_point.works`."""
    return {work.__name__: partial(work, mpi) for work in (window, file_blocks, file_pieces)}
