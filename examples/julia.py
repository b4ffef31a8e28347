"""A picture of a Julia set: its rows are tasks for an executor.

    python examples/julia.py --workers 4 --size 800 --picture julia.png

Some rows take much longer than others, so each worker takes the next row when it is free. With
`aiompi-launch -n 5 -m aiompi.futures` before the program's name, the workers are the other ranks.

The picture needs pillow: pip install '.[examples]'
"""

import argparse
from typing import Any

import numpy as np

from aiompi.futures import MPIPoolExecutor

PARAMETER = complex(-0.8, 0.156)
LIMIT = 255  # steps
EXTENT = 1.5  # of the picture, from its middle

Array = np.ndarray[Any, np.dtype[np.uint8]]


def steps_in_row(row: int, size: int) -> Array:
    """Return for each point of a row the number of steps for which it stays in the circle of radius 2."""
    z = np.linspace(-EXTENT, EXTENT, size) + 1j * (EXTENT - 2 * EXTENT * row / max(1, size - 1))
    steps = np.zeros(size, np.uint8)
    inside = np.arange(size)
    for _ in range(LIMIT):
        z = z * z + PARAMETER
        staying = np.abs(z) <= 2
        z, inside = z[staying], inside[staying]
        steps[inside] += 1
    return steps


def main() -> None:
    parser = argparse.ArgumentParser(description="Draw a Julia set.")
    parser.add_argument("--size", type=int, default=400, help="rows and columns of the picture")
    parser.add_argument("--chunk", type=int, default=10, help="rows that a worker gets at a time")
    parser.add_argument("--workers", type=int, help="number of workers")
    parser.add_argument("--picture", metavar="FILE", help="where to save it")
    args = parser.parse_args()
    with MPIPoolExecutor(args.workers) as executor:
        rows = executor.map(steps_in_row, range(args.size), [args.size] * args.size, chunksize=args.chunk)
        steps = np.array(list(rows))
        workers = executor.num_workers
    print(f"{np.count_nonzero(steps == LIMIT)} of {steps.size} points stay, said {workers} workers")
    if args.picture:
        from PIL import Image

        Image.fromarray(steps).save(args.picture)


if __name__ == "__main__":
    main()
