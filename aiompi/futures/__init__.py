"""Executors whose workers are MPI processes, with the names of mpi4py.futures and `concurrent.futures`.

    from aiompi.futures import MPIPoolExecutor

    if __name__ == "__main__":
        with MPIPoolExecutor() as executor:
            print(list(executor.map(pow, range(10), range(10))))

The executor starts its workers, as many as `max_workers` says, also in a program without a launcher. In a program that
is started with `aiompi-launch -n 5 -m aiompi.futures program.py`, rank 0 runs it and the others are its workers. In an
asyncio program `pool` does the same, and results are awaited.

Tasks of the blocking face proceed while the program does something else, which takes THREAD_MULTIPLE. An executor that
is the first to use MPI asks for it, and so does `-m aiompi.futures`; otherwise the program must.
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
    TimeoutError,
    as_completed,
    wait,
)

from aiompi.futures.aio import TaskPool, pool, work
from aiompi.futures.blocking import get_comm_workers
from aiompi.futures.combine import collect, compose
from aiompi.futures.executor import MPICommExecutor, MPIPoolExecutor, ProcessPoolExecutor, ThreadPoolExecutor

__all__ = [
    "ALL_COMPLETED", "FIRST_COMPLETED", "FIRST_EXCEPTION", "BrokenExecutor", "CancelledError", "Executor", "Future",
    "InvalidStateError", "MPICommExecutor", "MPIPoolExecutor", "TaskPool", "ProcessPoolExecutor", "ThreadPoolExecutor",
    "TimeoutError", "as_completed", "collect", "compose", "get_comm_workers", "pool", "wait", "work",
]  # fmt: skip
