"""An iterative solver that goes on with fewer ranks after a loss: each rank keeps a copy of its right neighbour's part.

    aiompi-launch -n 4 --on-failure=continue examples/survivor.py --cells 1000 --steps 400 --kill 2

It solves the heat equation on a rod whose ends have the temperatures 1 and 0. Each rank owns a part of the cells. Every
CHECKPOINT steps each rank sends its part to its left neighbour. When a rank fails, the other ranks go back to the last
checkpoint that all of them have reached, and divide the rod anew.
"""

import argparse
import os
import signal

import numpy as np

from aiompi import MPI

CHECKPOINT = 50  # steps between two checkpoints
RATE = 0.5


class Solver:
    """The part of the rod that this rank owns, and the checkpoints that it keeps: its own and that of its neighbour."""

    def __init__(self, comm: MPI.Intracomm, cells: int) -> None:
        self.comm, self.step = comm, 0
        self.part = np.array_split(np.zeros(cells), comm.size)[comm.rank]
        self.saved: list[dict[int, tuple[int, np.ndarray]]] = []  # the last two: rank in the world -> step, part

    def save(self) -> None:
        """Save the part of this rank, here and in the memory of its left neighbour."""
        comm, own = self.comm, (self.step, self.part.copy())
        left, right = (comm.rank - 1) % comm.size, (comm.rank + 1) % comm.size
        other = comm.sendrecv((comm.rank, own), left, source=right)
        self.saved = [*self.saved[-1:], {comm.rank: own, other[0]: other[1]}]
        comm.barrier()

    def relax(self) -> None:
        """Compute one step."""
        comm, part = self.comm, self.part
        left = comm.rank - 1 if comm.rank else MPI.PROC_NULL
        right = comm.rank + 1 if comm.rank < comm.size - 1 else MPI.PROC_NULL
        before, after = np.ones(1), np.zeros(1)
        comm.Sendrecv(part[-1:], right, 1, before, left, 1)
        comm.Sendrecv(part[:1], left, 2, after, right, 2)
        rod = np.concatenate([before, part, after])
        self.part = part + RATE / 2 * (rod[:-2] - 2 * part + rod[2:])
        self.step += 1

    def recover(self) -> None:
        """Divide the last complete checkpoint among the ranks that are left."""
        self.comm.Revoke()
        comm = self.comm = self.comm.Shrink()
        found: dict[int, dict[int, np.ndarray]] = {}  # step -> rank at that time -> part
        for saved in comm.allgather(self.saved):
            for rank, (step, part) in (item for checkpoint in saved for item in checkpoint.items()):
                found.setdefault(step, {})[rank] = part
        cells = {step: sum(map(len, parts.values())) for step, parts in found.items()}
        self.step = max(step for step, total in cells.items() if total == max(cells.values()))
        parts = found[self.step]
        rod = np.concatenate([parts[rank] for rank in sorted(parts)])
        self.part = np.array_split(rod, comm.size)[comm.rank]
        self.saved = []

    def run(self, steps: int, kill: int) -> None:
        """Run to the last step, whatever fails on the way; rank `kill` of the world fails in the middle."""
        while self.step < steps:
            try:
                if self.step % CHECKPOINT == 0:
                    self.save()
                if MPI.COMM_WORLD.rank == kill and self.step == steps // 2:
                    os.kill(os.getpid(), signal.SIGKILL)
                self.relax()
            except (MPI.ProcessFailedError, MPI.RevokedError):
                self.recover()


def main() -> None:
    """Solve, and print the mean temperature."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--cells", type=int, default=1000)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--kill", type=int, default=-1, help="rank that fails half-way")
    options = parser.parse_args()
    solver = Solver(MPI.COMM_WORLD, options.cells)
    solver.run(options.steps, options.kill)
    total = solver.comm.allreduce(float(solver.part.sum()))
    if solver.comm.rank == 0:
        print(f"mean temperature {total / options.cells:.9f} after {solver.step} steps, {solver.comm.size} ranks left")


if __name__ == "__main__":
    main()
