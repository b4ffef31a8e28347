"""Each rank has a block of a table; all write one file together, and read it back in blocks of another shape.

    aiompi-launch -n 4 examples/snapshot.py --rows 1000 --columns 1000 --file table.f8

The file has the table as NumPy would write it: np.fromfile("table.f8").reshape(rows, columns) reads it.
"""

import argparse
from typing import Any

import numpy as np

from aiompi import MPI

Array = np.ndarray[Any, np.dtype[np.float64]]


def part(rank: int, size: int, length: int) -> tuple[int, int]:
    """Return the first index of a rank, and how many it has; parts differ by at most one."""
    first, last = rank * length // size, (rank + 1) * length // size
    return first, last - first


def main() -> None:
    """Write the table in blocks of columns, and read it in blocks of rows."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--columns", type=int, default=1000)
    parser.add_argument("--file", default="table.f8")
    arguments = parser.parse_args()
    comm, shape = MPI.COMM_WORLD, [arguments.rows, arguments.columns]
    first, width = part(comm.rank, comm.size, shape[1])
    numbers = np.arange(shape[0])[:, None] * shape[1] + np.arange(first, first + width)
    mine = numbers.astype(np.float64)

    view = MPI.DOUBLE.Create_subarray(shape, [shape[0], width], [0, first]).Commit()
    file = MPI.File.Open(comm, arguments.file, MPI.MODE_CREATE | MPI.MODE_RDWR)
    file.Set_view(0, MPI.DOUBLE, view)
    start = MPI.Wtime()
    file.Write_all(mine)
    seconds = MPI.Wtime() - start

    first, height = part(comm.rank, comm.size, shape[0])
    rows: Array = np.empty((height, shape[1]))
    file.Set_view()
    file.Read_at_all(first * shape[1] * rows.itemsize, rows)
    file.Close()
    right = bool((rows == np.arange(first * shape[1], (first + height) * shape[1]).reshape(height, -1)).all())
    if comm.allreduce(right, MPI.LAND) and comm.rank == 0:
        print(f"{shape[0]} x {shape[1]} numbers in {arguments.file}, written in {1e3 * seconds:.0f} ms")


if __name__ == "__main__":
    main()
