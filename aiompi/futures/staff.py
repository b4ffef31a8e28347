"""The workers of a program of the blocking face, and how its processes become workers."""

from __future__ import annotations

import threading
from contextvars import ContextVar
from typing import Final

from aiompi.constants import THREAD_MULTIPLE, UNDEFINED
from aiompi.face.blocking import COMM_SELF, Intracomm
from aiompi.face.blocking.process import process
from aiompi.futures.task import Task
from aiompi.futures.worker import Worker, serve
from aiompi.futures.workers import Queue, Workers


class Staff:
    """The workers: all other processes of a communicator, or a thread of this one if there are none.

    Args:
        comm: to be used for nothing else; it is freed in the end. Its other processes call `work_for`.

    Attributes:
        size: how many workers there are.

    Raises:
        RuntimeError: the thread level is lower than THREAD_MULTIPLE, so that no task would get ahead while the program
            does something else.
    """

    def __init__(self, comm: Intracomm) -> None:
        if process.driver.level < THREAD_MULTIPLE:
            raise RuntimeError(
                "an executor needs the thread level THREAD_MULTIPLE: set AIOMPI_THREAD_LEVEL=multiple, or begin with "
                "MPI.Init_thread(MPI.THREAD_MULTIPLE)"
            )
        self._comm = comm
        self.size = max(1, comm.size - 1)
        comm.Split(UNDEFINED)
        self._thread: threading.Thread | None = None
        if comm.size == 1:
            worker = Worker(comm._core, process.codec, 0)
            self._thread = threading.Thread(target=_work_alone, args=(worker,), name="aiompi-worker", daemon=True)
            self._thread.start()
        with process.driver.exclusive("MPIPoolExecutor"):
            self._workers = Workers(comm._core, process.codec)

    def serve(self, queue: Queue) -> None:
        """Serve one more executor."""
        with process.driver.exclusive("MPIPoolExecutor"):
            self._workers.add(queue)

    def submit(self, queue: Queue, task: Task) -> None:
        """Have a task done when it is its turn."""
        with process.driver.exclusive("submit"):
            self._workers.submit(queue, task)

    def dismiss(self) -> None:
        """Let the workers go when they have done all tasks."""
        with process.driver.exclusive("shutdown"):
            process.driver.wait(self._workers.dismiss())
        if self._thread is not None:  # it may not have received yet that it may go
            self._thread.join()
        self._comm.Free()


#: of the workers of this process's master, in the thread that is one of them
_fellows: Final[ContextVar[Intracomm]] = ContextVar("fellows")


def work_for(master: int, comm: Intracomm) -> None:
    """Be a worker, until the master has nothing more to do.

    Args:
        comm: to be used for nothing else; it is freed in the end.
    """
    fellows = comm.Split(0, comm.rank)
    before = _fellows.set(fellows)
    try:
        serve(Worker(comm._core, process.codec, master))
    finally:
        _fellows.reset(before)
    fellows.Free()
    comm.Free()


def _work_alone(worker: Worker) -> None:
    """Be the worker of the master's own process."""
    _fellows.set(COMM_SELF)
    serve(worker)


def get_comm_workers() -> Intracomm:
    """The communicator of the workers, for tasks that all of them do at the same time.

    Raises:
        RuntimeError: this is not the thread of a worker.
    """
    try:
        return _fellows.get()
    except LookupError:
        raise RuntimeError("this is not the thread of a worker: call get_comm_workers in a task") from None
