"""Heat spreads over a square plate whose edges are kept at fixed temperatures; the result is a picture.

    aiompi-launch -n 4 examples/heat.py --cells 256 --steps 4000 --picture heat.png

Each rank owns a band of rows, with a halo row above and below that mirrors its neighbours. In each step a rank
starts the exchange of the halos, computes what does not need them, waits, and computes the rest. The picture needs
pillow: pip install '.[examples]'
"""

import argparse
from typing import Any

import numpy as np

from aiompi import MPI

TOP = 1.0  # temperature of the upper edge; the other edges are at 0
RATE = 0.25  # the largest that is stable in two dimensions
CHECK = 100  # steps between two checks of how much still changes

Array = np.ndarray[Any, np.dtype[np.float64]]


def rows_of(rank: int, size: int, cells: int) -> range:
    """Return the rows that a rank owns; bands differ by at most one row."""
    return range(rank * cells // size, (rank + 1) * cells // size)


def start_plate(rank: int, size: int, cells: int) -> Array:
    """Return an array of shape (rows + 2, cells + 2): the band of the rank, the halos, and the edges of the plate."""
    plate = np.zeros((len(rows_of(rank, size, cells)) + 2, cells + 2))
    if rank == 0:
        plate[0] = TOP
    return plate


def start_exchange(comm: MPI.Intracomm, plate: Array) -> list[MPI.Request[Any]]:
    """Fill both halo rows from the neighbours. Beyond the edges of the plate the neighbour is PROC_NULL."""
    above = comm.rank - 1 if comm.rank > 0 else MPI.PROC_NULL
    below = comm.rank + 1 if comm.rank < comm.size - 1 else MPI.PROC_NULL
    return [
        comm.Irecv(plate[0], source=above),
        comm.Irecv(plate[-1], source=below),
        comm.Isend(plate[1], dest=above),
        comm.Isend(plate[-2], dest=below),
    ]


def relax(old: Array, new: Array, rows: slice) -> None:
    """Compute one explicit step of the heat equation for some rows of the plate."""
    above = slice(rows.start - 1, rows.stop - 1)
    below = slice(rows.start + 1, rows.stop + 1)
    neighbours = old[above, 1:-1] + old[below, 1:-1] + old[rows, :-2] + old[rows, 2:]
    new[rows, 1:-1] = old[rows, 1:-1] + RATE * (neighbours - 4.0 * old[rows, 1:-1])


def simulate(comm: MPI.Intracomm, cells: int, steps: int, tolerance: float) -> tuple[Array, int]:
    """Return the band of this rank after the steps, fewer if no cell changes by more than the tolerance any more."""
    old = start_plate(comm.rank, comm.size, cells)
    new = old.copy()
    last = len(old) - 2
    change, largest = np.empty(1), np.empty(1)
    for step in range(1, steps + 1):
        halos = start_exchange(comm, old)
        relax(old, new, slice(2, last))
        MPI.Request.Waitall(halos)
        relax(old, new, slice(1, 2))
        relax(old, new, slice(last, last + 1))
        if step % CHECK == 0:
            change[0] = np.max(np.abs(new - old)[1:-1])
            comm.Allreduce(change, largest, op=MPI.MAX)
            if largest[0] <= tolerance:
                return new[1:-1], step
        old, new = new, old
    return old[1:-1], steps


def save_picture(plate: Array, path: str) -> None:
    """Save a picture whose colours go from black over red and yellow to white."""
    from PIL import Image

    channels = [np.clip(3.0 * plate / TOP - shift, 0.0, 1.0) for shift in range(3)]
    Image.fromarray((255.0 * np.stack(channels, axis=-1)).astype(np.uint8)).save(path)


def main() -> None:
    parser = argparse.ArgumentParser(description="Simulate the heat of a plate.")
    parser.add_argument("--cells", type=int, default=128, help="along each side of the plate")
    parser.add_argument("--steps", type=int, default=2000, help="at most so many")
    parser.add_argument("--tolerance", type=float, default=0.0, help="change at which to stop early")
    parser.add_argument("--picture", metavar="FILE.png")
    parser.add_argument("--array", metavar="FILE.npy")
    args = parser.parse_args()
    comm = MPI.COMM_WORLD
    if args.cells < comm.size:
        parser.error(f"{args.cells} cells cannot be shared by {comm.size} ranks")

    band, steps = simulate(comm, args.cells, args.steps, args.tolerance)
    bands = comm.gather(band[:, 1:-1], root=0)
    if bands is not None:
        plate = np.concatenate(bands)
        print(f"{args.cells} x {args.cells} cells, {steps} steps, {comm.size} ranks, mean {plate.mean():.6f}")
        if args.array:
            np.save(args.array, plate)
        if args.picture:
            save_picture(plate, args.picture)


if __name__ == "__main__":
    main()
