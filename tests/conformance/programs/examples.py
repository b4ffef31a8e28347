"""The examples of MPI-1.1 that must complete, in the blocking face.

The coroutines of the tests for the asyncio face are run, each on as many ranks as it needs, if the job has so many.
Arguments: names of modules with such tests. Prints how many have been run.
"""

from __future__ import annotations

import itertools
import re
import sys
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any, TypeAlias

import numpy as np

from aiompi import MPI
from aiompi.MPI import REAL
from support.waiting import load, run

Program: TypeAlias = Callable[[MPI.Intracomm], Awaitable[object]]

comm = MPI.COMM_WORLD
rank, size = comm.rank, comm.size
TAG, TAG1 = 5, 1
LONG, ROUNDS = 75_000, 20
#: they have what only the asyncio face has: worlds in one process, waiting for several requests by asyncio; or the
#: standard allows them to deadlock
LEFT_OUT = {
    "test_example_3_15", "test_example_3_16", "test_example_4_5_with_too_short_a_stride", "test_example_4_22",
    "test_example_4_24", "test_example_4_25",
}  # fmt: skip
count = 0


# What stands for the helpers of the tests.


class Mark:
    """In place of `pytest.mark`: keeps the cases of a test."""

    @staticmethod
    def spec(*rules: str) -> Callable[[Any], Any]:
        return lambda test: test

    @staticmethod
    def parametrize(
        names: str | tuple[str, ...], values: list[Any], ids: object = None, indirect: Sequence[str] = ()
    ) -> Callable[[Any], Any]:
        keys = [names] if isinstance(names, str) else names

        def keep(test: Any) -> Any:
            rows = [dict(zip(keys, [value] if isinstance(names, str) else value, strict=True)) for value in values]
            rows = [{key: row[key] for key in row if key not in indirect} for row in rows]
            test.cases = [row | case for row, case in itertools.product(rows, getattr(test, "cases", [{}]))]
            return test

        return keep


@contextmanager
def raises(kind: type[BaseException], match: str = "") -> Iterator[None]:
    try:
        yield
    except kind as error:
        assert re.search(match, str(error)), error
    else:
        raise AssertionError(f"no {kind.__name__}")


async def completes(ranks: int, program: Program, across: bool = True) -> None:
    """Run a program to its end, on the first ranks of the job. It must leave no message behind."""
    global count
    if ranks > size:
        return
    some = comm.Create(comm.group.Incl(range(ranks)))
    if some:
        await program(some)
        some.Barrier()
        assert not some.Iprobe(), "a message is left"
        some.Free()
    comm.Barrier()
    count += 1


async def deadlocks(ranks: int, program: Program) -> None:
    """Do nothing: a rank of the blocking face that hangs cannot be ended."""


def on_ranks(ranks: int, across: bool = True) -> Callable[[Program], Any]:
    def decorate(program: Program) -> Any:
        def test(run: Callable[[Coroutine[Any, Any, None]], None]) -> None:
            run(completes(ranks, program))

        return test

    return decorate


def stand_in(name: str, **names: object) -> None:
    module = sys.modules[name] = ModuleType(name)
    vars(module).update(names)


# The servers, which wait for several requests.


class Server:
    """Rank 0 of examples 3.15 and 3.16. An empty message is the last one of a client.

    Attributes:
        requests: a receive for each client.
        served: what each client got through.
    """

    def __init__(self) -> None:
        self._a = np.empty((size - 1, LONG), np.float32)
        self.served: list[list[float]] = [[] for _ in range(size - 1)]
        self.requests = [self._post(index) for index in range(size - 1)]

    def _post(self, index: int) -> MPI.Request[MPI.Status]:
        return comm.Irecv([self._a[index], REAL], source=index + 1, tag=TAG)

    def do_service(self, index: int, status: MPI.Status) -> None:
        if status.Get_count(REAL):
            self.served[index].append(self._a[index, 0].item())
            self.requests[index] = self._post(index)

    def check_order(self) -> None:
        assert self.served == [list(range(len(client))) for client in self.served]


def one_at_a_time() -> None:
    """One at a time: a client may starve, but not for ever if the others end."""
    if rank > 0:
        for number in range(ROUNDS):
            comm.Isend([np.full(LONG, number, np.float32), REAL], dest=0, tag=TAG).Wait()
        comm.Send([None, 0, REAL], dest=0, tag=TAG)
    else:
        server, status = Server(), MPI.Status()
        while (index := MPI.Request.Waitany(server.requests, status)) != MPI.UNDEFINED:
            server.do_service(index, status)
        server.check_order()
        assert [len(client) for client in server.served] == [ROUNDS] * (size - 1)


def all_that_there_are() -> None:
    """All that there are: no client starves, though the others send without end."""
    if rank > 0:
        stop, numbers = comm.irecv(source=0, tag=TAG1), itertools.count()
        while not stop.Test():
            comm.Isend([np.full(LONG, next(numbers), np.float32), REAL], dest=0, tag=TAG).Wait()
        comm.Send([None, 0, REAL], dest=0, tag=TAG)
    else:
        server, statuses = Server(), list[MPI.Status]()
        stops: list[MPI.Request[None]] = []
        while (indices := MPI.Request.Waitsome(server.requests, statuses)) is not None:
            for index, status in zip(indices, statuses, strict=False):  # there may be more from earlier calls
                server.do_service(index, status)
            if not stops and min(map(len, server.served)) >= ROUNDS:
                stops = [comm.isend("stop", client, TAG1) for client in range(1, size)]
        MPI.Request.Waitall(stops)
        server.check_order()


def main() -> None:
    global count
    stand_in("pytest", mark=Mark, raises=raises)
    stand_in("support.jobs", Site=None)
    stand_in(
        "support.spmd",
        Program=None,
        Run=None,
        completes=completes,
        deadlocks=deadlocks,
        everywhere=None,
        on_ranks=on_ranks,
    )
    for name in sys.argv[1:]:
        module = load(Path(__file__).parents[1] / f"{name}.py", name)
        for test in [name for name in vars(module) if name.startswith("test_example") and name not in LEFT_OUT]:
            for case in getattr(getattr(module, test), "cases", [{}]):
                try:
                    getattr(module, test)(run=run, **case)
                except BaseException as error:
                    error.add_note(f"in {test}, {case}, rank {rank}")
                    raise
    if size == 3:
        for server in (one_at_a_time, all_that_there_are):
            server()
            comm.Barrier()
            count += 1
    if rank == 0:
        print(f"{count} examples")


if __name__ == "__main__":
    main()
