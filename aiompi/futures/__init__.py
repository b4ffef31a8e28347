"""Executors whose workers are MPI processes, with the names of mpi4py.futures and `concurrent.futures`.

    from aiompi.futures import MPIPoolExecutor

    if __name__ == "__main__":
        with MPIPoolExecutor() as executor:
            print(list(executor.map(pow, range(10), range(10))))

The executor starts `max_workers` workers, even in a program without a launcher. With `aiompi-launch -n 5 -m
aiompi.futures program.py`, rank 0 runs the program and the other ranks are its workers. In an asyncio program use
`pool`, whose results are awaited.

In the blocking face, tasks proceed while the program does other work. This needs THREAD_MULTIPLE. `-m aiompi.futures`
asks for this thread level. So does an executor if the program has not used MPI before. Otherwise the program must ask.
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
