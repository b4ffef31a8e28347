"""Pi by the midpoint rule: the integral of 4 / (1 + x^2) from 0 to 1, its intervals dealt out to the ranks.

    aiompi-launch -n 4 examples/pi.py --intervals 10000000

The exit status is 1 when the result is farther from pi than the rule allows.
"""

import argparse
import math
import sys

import numpy as np

from aiompi import MPI

BLOCK = 2**16  # intervals evaluated at once
ROUNDING = 1e-12


def partial_sum(intervals: int, rank: int, size: int) -> float:
    """Return what the intervals rank, rank + size, rank + 2 size... contribute to the integral."""
    width = 1.0 / intervals
    total = 0.0
    for start in range(rank, intervals, size * BLOCK):
        index = np.arange(start, min(start + size * BLOCK, intervals), size)
        x = (index + 0.5) * width
        total += float(np.sum(4.0 / (1.0 + x * x)))
    return total * width


def error_bound(intervals: int) -> float:
    """Bound the error of the midpoint rule: width^2 / 24 times the largest second derivative, which is 8, at 0."""
    return 8.0 / (24.0 * intervals**2) + ROUNDING


def main() -> int:
    parser = argparse.ArgumentParser(description="Compute pi.")
    parser.add_argument("--intervals", type=int, default=1_000_000)
    intervals = parser.parse_args().intervals

    comm = MPI.COMM_WORLD
    started = MPI.Wtime()
    part = np.array([partial_sum(intervals, comm.rank, comm.size)])
    whole = np.empty(1)
    comm.Allreduce(part, whole, op=MPI.SUM)
    seconds = MPI.Wtime() - started

    error = abs(float(whole[0]) - math.pi)
    accurate = error <= error_bound(intervals)
    if comm.rank == 0:
        verdict = "within" if accurate else "NOT WITHIN"
        print(f"pi is about {whole[0]:.15f}, computed by {comm.size} ranks in {seconds:.3f} s")
        print(f"error {error:.1e}, {verdict} the bound of the rule, {error_bound(intervals):.1e}")
    return 0 if accurate else 1


if __name__ == "__main__":
    sys.exit(main())
