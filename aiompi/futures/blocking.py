"""The workers of the blocking face: `BlockingWorkers` at the master, `run_worker` in the other processes."""

from __future__ import annotations

import threading
from contextvars import ContextVar
from typing import Any, Final

from aiompi.constants import THREAD_MULTIPLE, UNDEFINED
from aiompi.face.blocking import COMM_SELF, Intracomm
from aiompi.face.blocking.process import process
from aiompi.futures.task import Task
from aiompi.futures.worker import BlockingServer, Worker
from aiompi.futures.workers import Queue, Workers


class BlockingWorkers:
    """The workers of a master: all other processes of a communicator, or a thread of this one if it is the only one.

    Args:
        comm: communicator that is used for nothing else, and freed at the end. Its other processes call `run_worker`.

    Raises:
        RuntimeError: the thread level is lower than THREAD_MULTIPLE. Then no task would proceed while the program does
            something else.
    """

    def __init__(self, comm: Intracomm) -> None:
        if process.driver.level < THREAD_MULTIPLE:
            raise RuntimeError(
                "an executor needs the thread level THREAD_MULTIPLE: set AIOMPI_THREAD_LEVEL=multiple, or begin with "
                "MPI.Init_thread(MPI.THREAD_MULTIPLE)"
            )
        self._comm = comm
        comm.Split(UNDEFINED)
        self._thread: threading.Thread | None = None
        if comm.size == 1:
            worker = Worker(comm._core, process.codec, 0)
            self._thread = threading.Thread(
                target=_run_worker_thread, args=(worker,), name="aiompi-worker", daemon=True
            )
            self._thread.start()
        with process.driver.exclusive("MPIPoolExecutor"):
            self._workers = Workers(comm._core, process.codec)

    def open(self, limit: int | None, **options: Any) -> Queue:
        """Serve one more executor; see `Workers.open`."""
        with process.driver.exclusive("MPIPoolExecutor"):
            return self._workers.open(limit, **options)

    def submit(self, queue: Queue, task: Task) -> None:
        """Have a worker do a task of an executor when one is free."""
        with process.driver.exclusive("submit"):
            self._workers.submit(queue, task)

    def dismiss(self) -> None:
        """Dismiss the workers when all tasks are done, and free the communicator."""
        with process.driver.exclusive("shutdown"):
            process.driver.wait(self._workers.dismiss())
        if self._thread is not None:  # it may not have received its dismissal yet
            self._thread.join()
        self._comm.Free()


#: communicator of all workers, set in the thread that is a worker
_comm_workers: Final[ContextVar[Intracomm]] = ContextVar("comm_workers")


def run_worker(master: int, comm: Intracomm) -> None:
    """Be a worker until the master dismisses it.

    Args:
        master: rank of the master.
        comm: communicator that is used for nothing else, and freed at the end.
    """
    comm_workers = comm.Split(0, comm.rank)
    before = _comm_workers.set(comm_workers)
    try:
        BlockingServer(Worker(comm._core, process.codec, master)).serve()
    finally:
        _comm_workers.reset(before)
    comm_workers.Free()
    comm.Free()


def _run_worker_thread(worker: Worker) -> None:
    """Be the only worker, in the process of the master."""
    _comm_workers.set(COMM_SELF)
    BlockingServer(worker).serve()


def get_comm_workers() -> Intracomm:
    """Return the communicator of the workers, for tasks that all of them do at the same time.

    Raises:
        RuntimeError: the calling thread is not a worker.
    """
    try:
        return _comm_workers.get()
    except LookupError:
        raise RuntimeError("this is not the thread of a worker: call get_comm_workers in a task") from None
