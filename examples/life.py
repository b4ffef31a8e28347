"""Conway's game of life on a torus that is cut into rectangles, one per rank.

    aiompi-launch -n 6 examples/life.py --rows 40 --columns 100 --generations 200

Rows and columns of arrays are sent as they lie in memory: a column is a slice, `cells[:, 1]`, and is neither copied
nor packed by the program. The exchange with the neighbours is bound once, in persistent requests, and started in
every generation. At the end rank 0 receives each rectangle straight into its place in the whole board.
"""

import argparse
from typing import Any

import numpy as np

from aiompi import MPI

Cells = np.ndarray[Any, np.dtype[np.uint8]]
WEST, EAST, NORTH, SOUTH = range(4)


def grid_of(size: int) -> tuple[int, int]:
    """Return the numbers of rows and columns of ranks, as square as possible."""
    rows = max(n for n in range(1, int(size**0.5) + 1) if size % n == 0)
    return rows, size // rows


def part(index: int, count: int, length: int) -> slice:
    """Return the share of one of `count` ranks in a length; shares differ by at most one."""
    return slice(index * length // count, (index + 1) * length // count)


def rectangle(rank: int, size: int, shape: tuple[int, int]) -> tuple[slice, slice]:
    """Return the part of the board that a rank owns."""
    rows, columns = grid_of(size)
    return part(rank // columns, rows, shape[0]), part(rank % columns, columns, shape[1])


class Plot:
    """The rectangle of this rank, with a rim that mirrors what its neighbours own.

    Attributes:
        cells: shape (rows + 2, columns + 2); 1 is alive.
    """

    def __init__(self, comm: MPI.Intracomm, board: Cells) -> None:
        own = board[rectangle(comm.rank, comm.size, board.shape)]
        self.cells = np.pad(own, 1)
        rows, columns = grid_of(comm.size)
        row, column = divmod(comm.rank, columns)
        self._phases = [
            # The rows of the second phase include the corners, which the first phase has filled.
            self._bind(
                comm, row * columns + (column - 1) % columns, row * columns + (column + 1) % columns, WEST, EAST
            ),
            self._bind(comm, (row - 1) % rows * columns + column, (row + 1) % rows * columns + column, NORTH, SOUTH),
        ]

    def _bind(self, comm: MPI.Intracomm, low: int, high: int, to_low: int, to_high: int) -> list[MPI.Prequest[Any]]:
        """Return the requests of the exchange along one axis; tags are directions."""
        cells = self.cells.T if to_low == WEST else self.cells
        return [
            comm.Recv_init(cells[-1], source=high, tag=to_low),
            comm.Recv_init(cells[0], source=low, tag=to_high),
            comm.Send_init(cells[1], dest=low, tag=to_low),
            comm.Send_init(cells[-2], dest=high, tag=to_high),
        ]

    def step(self) -> None:
        """Compute the next generation."""
        for requests in self._phases:
            MPI.Prequest.Startall(requests)
            MPI.Request.Waitall(requests)
        cells = self.cells
        rows = cells[:-2] + cells[1:-1] + cells[2:]
        around = rows[:, :-2] + rows[:, 1:-1] + rows[:, 2:]  # the cell itself included
        cells[1:-1, 1:-1] = (around == 3) | ((around == 4) & (cells[1:-1, 1:-1] == 1))


def collect(comm: MPI.Intracomm, plot: Plot, shape: tuple[int, int]) -> Cells | None:
    """Return the whole board at rank 0, None elsewhere."""
    own = plot.cells[1:-1, 1:-1]
    if comm.rank != 0:
        comm.Send(own, dest=0)
        return None
    board = np.empty(shape, np.uint8)
    board[rectangle(0, comm.size, shape)] = own
    for rank in range(1, comm.size):
        comm.Recv(board[rectangle(rank, comm.size, shape)], source=rank)
    return board


def main() -> None:
    parser = argparse.ArgumentParser(description="Conway's game of life on a torus.")
    parser.add_argument("--rows", type=int, default=24)
    parser.add_argument("--columns", type=int, default=72)
    parser.add_argument("--generations", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    comm = MPI.COMM_WORLD
    shape = (options.rows, options.columns)
    rows, columns = grid_of(comm.size)
    if options.rows < rows or options.columns < columns:
        parser.error(f"{comm.size} ranks need at least {rows} rows and {columns} columns")
    board = np.random.default_rng(options.seed).integers(0, 2, shape, np.uint8)
    plot = Plot(comm, board)
    for _ in range(options.generations):
        plot.step()
    end = collect(comm, plot, shape)
    if end is not None:
        print("\n".join("".join(".#"[cell] for cell in row) for row in end))


if __name__ == "__main__":
    main()
