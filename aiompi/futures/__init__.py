"""Executors whose workers are MPI processes, with the names of mpi4py.futures and `concurrent.futures`.

    from aiompi.futures import MPIPoolExecutor

    if __name__ == "__main__":
        with MPIPoolExecutor() as executor:
            print(list(executor.map(pow, range(10), range(10))))

is started with `aiompi-launch -n 5 -m aiompi.futures program.py`: rank 0 runs it, the others are the workers. In an
asyncio program `pool` is the same for its own communicator, with results to be awaited.

Tasks get ahead while the program of the blocking face does something else: that takes THREAD_MULTIPLE. Both that way to
start a program and an `MPICommExecutor` that is the first to use MPI ask for it; otherwise the program does.
"""

from concurrent.futures import (
    ALL_COMPLETED,
    FIRST_COMPLETED,
    FIRST_EXCEPTION,
    BrokenExecutor,
    CancelledError,
    Executor,
    Future,
    InvalidStateError,
    ProcessPoolExecutor,
    ThreadPoolExecutor,
    TimeoutError,
    as_completed,
    wait,
)

from aiompi.futures.aio import TaskPool, pool
from aiompi.futures.combine import collect, compose
from aiompi.futures.executor import MPICommExecutor, MPIPoolExecutor
from aiompi.futures.staff import get_comm_workers

__all__ = [
    "ALL_COMPLETED", "FIRST_COMPLETED", "FIRST_EXCEPTION", "BrokenExecutor", "CancelledError", "Executor", "Future",
    "InvalidStateError", "MPICommExecutor", "MPIPoolExecutor", "TaskPool", "ProcessPoolExecutor", "ThreadPoolExecutor",
    "TimeoutError", "as_completed", "collect", "compose", "get_comm_workers", "pool", "wait",
]  # fmt: skip
