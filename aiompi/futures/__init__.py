"""Executors whose workers are MPI processes, with the names of mpi4py.futures and `concurrent.futures`.

    from aiompi.futures import MPIPoolExecutor

    if __name__ == "__main__":
        with MPIPoolExecutor() as executor:
            print(list(executor.map(pow, range(10), range(10))))

Start this program with `aiompi-launch -n 5 -m aiompi.futures program.py`: rank 0 runs it, and the other ranks are the
workers. In an asyncio program `pool` does the same for a communicator, and results are awaited.

Tasks of the blocking face proceed while the program does something else, which takes THREAD_MULTIPLE. This way to start
a program asks for it, and so does an `MPICommExecutor` that is the first to use MPI; otherwise the program must.
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
    TimeoutError,
    as_completed,
    wait,
)

from aiompi.futures.aio import TaskPool, pool
from aiompi.futures.blocking import get_comm_workers
from aiompi.futures.combine import collect, compose
from aiompi.futures.executor import MPICommExecutor, MPIPoolExecutor, ThreadPoolExecutor

__all__ = [
    "ALL_COMPLETED", "FIRST_COMPLETED", "FIRST_EXCEPTION", "BrokenExecutor", "CancelledError", "Executor", "Future",
    "InvalidStateError", "MPICommExecutor", "MPIPoolExecutor", "TaskPool", "ProcessPoolExecutor", "ThreadPoolExecutor",
    "TimeoutError", "as_completed", "collect", "compose", "get_comm_workers", "pool", "wait",
]  # fmt: skip
