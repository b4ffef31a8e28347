"""Compares random operations on windows with a model: every element, every fetched value, under every synchronisation.

    aiompi-launch -n 4 python tests/window/stress.py --operations 100000

All ranks draw the same numbers, so that each knows what all do. In a round each rank makes some operations on elements
that are its own in that round, at any target, and all ranks add to common counters, of which the sum and the set of the
fetched values are known. With `--kill` the last rank is killed in the midst: the others must be told, and the elements
that only they change must be right all the same.
"""

from __future__ import annotations

import argparse
import importlib
import os
import random
import signal
from collections.abc import Callable
from typing import Any

import numpy as np

#: elements of each rank's window that each rank may change in a round, and counters behind them
ROOM, COUNTERS = 6, 2
KINDS = {"i4": "INT", "i8": "INT64_T", "f8": "DOUBLE"}
OPERATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "SUM": lambda new, old: new + old,
    "MAX": np.maximum,
    "MIN": np.minimum,
    "PROD": lambda new, old: new * old,
    "REPLACE": lambda new, old: new,
    "NO_OP": lambda new, old: old,
}


class Case:
    """One window, and what all ranks do with it."""

    def __init__(self, mpi: Any, draw: random.Random) -> None:
        self.mpi, self.draw, self.comm = mpi, draw, mpi.COMM_WORLD
        self.size, self.rank = self.comm.size, self.comm.rank
        self.dtype = np.dtype(draw.choice([*KINDS]))
        self.kind = getattr(mpi, KINDS[self.dtype.str[1:]])
        self.width = ROOM * self.size + COUNTERS
        self.model = np.zeros((self.size, self.width), self.dtype)
        self.win, self.own = self.make()
        self.done = 0

    def make(self) -> tuple[Any, Any]:
        """Return a window of any flavor, and an array of this rank's memory."""
        mpi, item, flavor = self.mpi, self.dtype.itemsize, self.draw.choice(["allocate", "shared", "create", "dynamic"])
        self.bases = [0] * self.size
        own = np.zeros(self.width, self.dtype)
        if flavor == "create":
            return mpi.Win.Create(own, item, comm=self.comm), own
        if flavor == "dynamic":
            win = mpi.Win.Create_dynamic(comm=self.comm)
            win.Attach(own)
            self.bases = self.comm.allgather(mpi.Get_address(own))
            return win, own
        make = mpi.Win.Allocate if flavor == "allocate" else mpi.Win.Allocate_shared
        win = make(own.nbytes, item, comm=self.comm)
        return win, np.frombuffer(win.tomemory(), self.dtype)

    def place(self, rank: int, index: int) -> int:
        """Return the displacement of an element."""
        return self.bases[rank] + index * self.dtype.itemsize if self.bases[rank] else index

    def round(self) -> None:
        """Make operations in one epoch of all ranks, and check everything after it."""
        draw = self.draw
        synchronisation = draw.choice(["fence", "lock", "exclusive", "lock_all", "active"])
        plans = [[self.plan(rank) for _ in range(draw.randint(0, 8))] for rank in range(self.size)]
        additions = [draw.randint(0, 4) for _ in range(self.size)]
        target, counter = draw.randrange(self.size), ROOM * self.size + draw.randrange(COUNTERS)
        checks = getattr(self, synchronisation)(plans, additions, target, counter)
        for check in checks:
            check()
        self.comm.Barrier()
        self.model[target, counter] += sum(additions)
        assert self.own.tolist() == self.model[self.rank].tolist(), synchronisation
        self.done += sum(map(len, plans)) + sum(additions)
        self.comm.Barrier()

    def plan(self, rank: int) -> tuple[str, int, int, int, list[int], str]:
        """Draw an operation: what, target, first element, stride, values, name of the operation of an accumulate."""
        draw = self.draw
        count, stride = draw.randint(1, 3), draw.randint(1, 2)
        start = ROOM * rank + draw.randint(0, ROOM - 1 - (count - 1) * stride)
        values = [draw.randint(-3, 3) for _ in range(count)]
        what = draw.choice(["put", "get", "accumulate", "get_accumulate", "fetch_and_op", "swap"])
        return what, draw.randrange(self.size), start, stride, values, draw.choice([*OPERATIONS])

    # The synchronisations. Each makes the plan of this rank, and notes in the model what all ranks do.

    def fence(self, *plan: Any) -> list[Callable[[], None]]:
        self.win.Fence()
        checks = self.perform(*plan, complete=lambda rank: self.win.Fence())
        self.win.Fence(self.mpi.MODE_NOSUCCEED)
        return checks

    def lock(self, *plan: Any) -> list[Callable[[], None]]:
        return self.perform(*plan, before=lambda rank: self.win.Lock(rank, self.mpi.LOCK_SHARED), after=self.win.Unlock)

    def exclusive(self, *plan: Any) -> list[Callable[[], None]]:
        return self.perform(*plan, before=self.win.Lock, after=self.win.Unlock)

    def lock_all(self, *plan: Any) -> list[Callable[[], None]]:
        self.win.Lock_all()
        checks = self.perform(*plan, after=self.win.Flush)
        self.win.Unlock_all()
        return checks

    def active(self, *plan: Any) -> list[Callable[[], None]]:
        """Post, Start, Complete and Wait, once for each operation that any rank makes."""
        group = self.comm.Get_group()

        def before(rank: int) -> None:
            self.win.Post(group)
            self.win.Start(group)

        def after(rank: int) -> None:
            self.win.Complete()
            self.win.Wait()

        return self.perform(*plan, before=before, after=after, together=True)

    def perform(
        self,
        plans: list[Any],
        additions: list[int],
        target: int,
        counter: int,
        before: Callable[[int], object] = lambda rank: None,
        after: Callable[[int], object] = lambda rank: None,
        complete: Callable[[int], object] | None = None,
        together: bool = False,
    ) -> list[Callable[[], None]]:
        """Make the operations of this rank; with `complete` or `together` all ranks make as many steps."""
        checks: list[Callable[[], None]] = []
        collective = complete is not None or together
        steps = max(map(len, plans)) if collective else len(plans[self.rank])
        for step in range(steps):
            mine = plans[self.rank][step] if step < len(plans[self.rank]) else None
            rank = mine[1] if mine else 0
            before(rank)
            if mine:
                checks.append(self.start(*mine))
            (complete or after)(rank)
        for plan in plans:
            for one in plan:
                self.note(*one)
        before(target)
        fetched = [np.zeros(1, self.dtype) for _ in range(additions[self.rank])]
        one = np.ones(1, self.dtype)
        for place in fetched:
            self.win.Fetch_and_op(one, place, target, self.place(target, counter))
        (complete or after)(target)
        start = self.model[target, counter].item()

        def counted() -> None:
            values = [place[0].item() for place in fetched]
            everything = sorted(value for part in self.comm.allgather(values) for value in part)
            assert everything == [start + number for number in range(sum(additions))], everything

        return [*checks, counted]

    def start(self, what: str, rank: int, first: int, stride: int, values: list[int], op: str) -> Callable[[], None]:
        """Make an operation of this rank; return the check of what it fetches."""
        win, mpi, count = self.win, self.mpi, len(values)
        new, fetched = np.array(values, self.dtype), np.full(count, 77, self.dtype)
        part = slice(first, first + (count - 1) * stride + 1, stride)
        expected = self.seen(rank, part)
        where: Any = self.place(rank, first)
        if stride > 1:
            kind = self.kind.Create_vector(count, 1, stride).Commit()
            where = [where, 1, kind]
        if what == "put":
            win.Put(new, rank, where)
        elif what == "get":
            win.Get(fetched, rank, where)
        elif what == "accumulate":
            win.Accumulate(new, rank, where, getattr(mpi, op))
        elif what == "get_accumulate":
            win.Get_accumulate(new, fetched, rank, where, getattr(mpi, op))
        elif what == "fetch_and_op" or self.dtype.kind == "f":
            win.Fetch_and_op(new[:1], fetched[:1], rank, self.place(rank, first), getattr(mpi, op))
            expected[1:] = 77
        else:
            compare = new[-1:]
            win.Compare_and_swap(new[:1], compare, fetched[:1], rank, self.place(rank, first))
            expected[1:] = 77
        if what in ("put", "accumulate"):
            expected[:] = 77
        self.change(self.mine, what, rank, part, new, op)

        def check() -> None:
            assert fetched.tolist() == expected.tolist(), f"{what} {op}: {fetched} instead of {expected}"

        return check

    def seen(self, rank: int, part: slice) -> Any:
        """Return the elements as the operations of this rank before have left them; only it changes them now."""
        if self.fresh != self.done:
            self.mine, self.fresh = self.model.copy(), self.done
        return self.mine[rank, part].copy()

    mine: Any = None
    fresh = -1

    def note(self, what: str, rank: int, first: int, stride: int, values: list[int], op: str) -> None:
        """Do an operation in the model."""
        part = slice(first, first + (len(values) - 1) * stride + 1, stride)
        self.change(self.model, what, rank, part, np.array(values, self.dtype), op)

    def change(self, model: Any, what: str, rank: int, part: slice, new: Any, op: str) -> None:
        with np.errstate(over="ignore"):
            place = model[rank, part]
            if what == "put":
                place[:] = new
            elif what in ("accumulate", "get_accumulate"):
                place[:] = OPERATIONS[op](new, place)
            elif what == "fetch_and_op" or (what == "swap" and self.dtype.kind == "f"):
                place[:1] = OPERATIONS[op](new[:1], place[:1])
            elif what == "swap" and place[0] == new[-1]:
                place[0] = new[0]


def survive(mpi: Any, draw: random.Random) -> None:
    """Have the last rank killed while all ranks add to counters; the others must be told, and count right."""
    comm = mpi.COMM_WORLD
    own = np.zeros(comm.size, "i8")
    win = mpi.Win.Create(own, 8, comm=comm) if draw.random() < 0.5 else mpi.Win.Allocate(own.nbytes, 8, comm=comm)
    one, before, added, last = np.ones(1, "i8"), np.zeros(1, "i8"), [0] * comm.size, comm.size - 1
    comm.Barrier()
    after = draw.randint(1, 200)
    try:
        while True:
            for rank in range(comm.size):
                win.Lock(rank, draw.choice([mpi.LOCK_SHARED, mpi.LOCK_EXCLUSIVE]))
                win.Fetch_and_op(one, before, rank, comm.rank)
                if comm.rank == last and (after := after - 1) == 0:
                    os.kill(os.getpid(), signal.SIGKILL)
                win.Flush(rank)
                assert before[0] == added[rank], f"{before[0]} instead of {added[rank]}"
                added[rank] += 1
                win.Unlock(rank)
    except mpi.ProcessFailedError:
        pass
    alive = comm.Shrink()
    counts = alive.alltoall(added[:last])
    mine = np.frombuffer(win.tomemory(), "i8")
    for rank, count in enumerate(counts):
        assert count <= mine[rank] <= count + 1, f"{mine[rank]} of rank {rank}: {count} or one more"
    alive.Barrier()


def main() -> None:
    """Run as many operations as the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--module", default="aiompi.MPI", help="module with mpi4py's names (%(default)s)")
    parser.add_argument("--operations", type=int, default=1000, help="least number of all ranks (%(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of the first window (%(default)s)")
    parser.add_argument("--kill", action="store_true", help="have the last rank killed")
    parser.add_argument("--apart", action="store_true", help="as if each rank were on a host of its own (aiompi)")
    arguments = parser.parse_args()
    if arguments.apart:
        from aiompi.window import making

        making._find = lambda comm, card: None
        Case.make = _without_shared(Case.make)  # type: ignore[method-assign]
    mpi = importlib.import_module(arguments.module)
    comm, done, seed = mpi.COMM_WORLD, 0, arguments.seed
    if arguments.kill:
        survive(mpi, random.Random(seed))
        print("told")
        return
    while done < arguments.operations:
        try:
            case = Case(mpi, random.Random(seed))
            for _ in range(25):
                case.round()
            case.win.Free()
        except BaseException:
            print(f"the window of seed {seed} with {comm.size} ranks fails", flush=True)
            raise
        done, seed = done + case.done, seed + 1
    if comm.rank == 0:
        print(f"{done} operations with {comm.size} ranks are as in the model")


def _without_shared(make: Callable[[Case], Any]) -> Callable[[Case], Any]:
    def made(case: Case) -> Any:
        state = case.draw.getstate()
        while case.draw.choice(["allocate", "shared", "create", "dynamic"]) == "shared":
            state = case.draw.getstate()
        case.draw.setstate(state)
        return make(case)

    return made


if __name__ == "__main__":
    main()
