"""Measurements of making datatypes, packing, and exchanging subarrays, for every library with the names of mpi4py."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import numpy as np

from aiompi.bench.measure.turns import timed

#: length of each axis of the arrays
EDGE: Final = 16


def datatype(mpi: Any, comm: Any, name: str, iterations: int, blocks: int) -> list[float]:
    """Seconds to make and free a datatype, one of `makers`."""
    make = makers(mpi)[name]

    def loop(n: int) -> None:
        for _ in range(n):
            make().Free()

    return timed(loop, iterations, blocks, comm.Barrier)


def makers(mpi: Any) -> dict[str, Callable[[], Any]]:
    """Return functions that make datatypes, by name."""
    dtlib = importlib.import_module(f"{mpi.__name__.rpartition('.')[0]}.util.dtlib")
    fields = np.dtype([("a", "i4"), ("b", "f8"), ("c", "i2", (3,))], align=True)

    def subarray() -> Any:
        return mpi.DOUBLE.Create_subarray([EDGE] * 3, [EDGE, EDGE // 2, EDGE], [0] * 3).Commit()

    def struct() -> Any:
        return mpi.Datatype.Create_struct([1, 1], [0, 8], [mpi.INT, mpi.DOUBLE])

    return {
        "subarray": subarray,
        "struct": struct,
        "committed struct": lambda: struct().Commit(),
        "from_numpy_dtype": lambda: dtlib.from_numpy_dtype(fields),
    }


def packing(mpi: Any, comm: Any, name: str, iterations: int, blocks: int) -> list[float]:
    """Seconds to pack or unpack five integers, by one of `packers`."""
    call = packers(mpi, comm)[name]

    def loop(n: int) -> None:
        for _ in range(n):
            call()

    return timed(loop, iterations, blocks, comm.Barrier)


def packers(mpi: Any, comm: Any) -> dict[str, Callable[[], Any]]:
    """Return functions that pack and unpack, by the names of the calls."""
    numbers, unit, kind = np.arange(5, dtype="i4"), np.zeros(64, "u1"), mpi.INT
    return {
        "Pack": lambda: kind.Pack(numbers, unit, 0, comm),
        "Unpack": lambda: kind.Unpack(unit, 0, numbers, comm),
        "Pack_external": lambda: kind.Pack_external("external32", numbers, unit, 0),
        "Unpack_external": lambda: kind.Unpack_external("external32", unit, 0, numbers),
    }


def alltoallw(mpi: Any, comm: Any, iterations: int, blocks: int, planned: bool = False) -> list[float]:
    """Seconds to redistribute a cube of doubles, which is split among the ranks along axis 0 before, axis 1 after.

    Args:
        planned: True to do the same as test_pencil of mpi4py-fft: make communicators and types, redistribute four
            times, and free everything.
    """

    def parts(axis: int) -> list[Any]:
        types = []
        for rank in range(comm.size):
            sizes, starts = [EDGE] * 3, [0] * 3
            sizes[axis], starts[axis] = EDGE // comm.size, rank * EDGE // comm.size
            types.append(mpi.DOUBLE.Create_subarray([EDGE] * 3, sizes, starts).Commit())
        return types

    each = [1] * comm.size, [0] * comm.size
    sent, received = np.random.default_rng(comm.rank).random((EDGE,) * 3), np.zeros((EDGE,) * 3)

    def exchange(n: int) -> None:
        send, receive = [sent, each, parts(0)], [received, each, parts(1)]
        for _ in range(n):
            comm.Alltoallw(send, receive)

    def plan(n: int) -> None:
        for _ in range(n):
            grid = comm.Create_cart([comm.size])
            rows = grid.Sub([True])
            before, after = parts(0), parts(1)
            send, receive = [sent, each, before], [received, each, after]
            for _ in range(2):
                rows.Alltoallw(send, receive)
                rows.Alltoallw(receive, send)
            for made in (*before, *after, rows, grid):
                made.Free()

    return timed(plan if planned else exchange, iterations, blocks, comm.Barrier)


def works(mpi: Any) -> dict[str, Callable[..., Any]]:
    """Return the works by name; see `point_to_point.works`."""
    return {work.__name__: partial(work, mpi) for work in (datatype, packing, alltoallw)}
