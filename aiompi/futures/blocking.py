"""The workers of the blocking face: `BlockingWorkers` at the master, `run_worker` in the other processes."""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Sequence
from contextvars import ContextVar
from typing import Any, Final

from aiompi.comm import Communicator
from aiompi.constants import THREAD_MULTIPLE, UNDEFINED, UNIVERSE_SIZE
from aiompi.create import ports
from aiompi.driver.threads import loop_is_running
from aiompi.face.blocking import COMM_SELF, COMM_WORLD, Intracomm
from aiompi.face.blocking.process import process
from aiompi.futures.task import Task
from aiompi.futures.worker import BlockingServer, Worker
from aiompi.futures.workers import Queue, Workers, spawner
from aiompi.job.program import refuse_while_loading


class BlockingWorkers:
    """The workers of a master: the other processes of a communicator, or one thread if there is no other process.

    Args:
        comm: communicator that is used for nothing else, and freed at the end. Its other processes call `run_worker`.

    Raises:
        RuntimeError: the thread level is lower than THREAD_MULTIPLE. Then no task would proceed while the program does
            other work.
    """

    def __init__(self, comm: Intracomm) -> None:
        check_level()
        self._comm: Intracomm | None = comm
        comm.Split(UNDEFINED)
        self._thread: threading.Thread | None = None
        if comm.size == 1:
            worker = Worker(comm._core, process.codec, 0)
            self._thread = threading.Thread(
                target=_run_worker_thread, args=(worker,), name="aiompi-worker", daemon=True
            )
            self._thread.start()
        with process.driver.exclusive("MPIPoolExecutor"):
            self._workers = Workers(comm._core.engine, process.codec)
            self._workers.add(comm._core)

    def open(self, limit: int | None, **options: Any) -> Queue:
        """Serve one more executor; see `Workers.open`."""
        with process.driver.exclusive("MPIPoolExecutor"):
            return self._workers.open(limit, **options)

    def submit(self, queue: Queue, task: Task) -> None:
        """Have a worker do a task of an executor when one is free."""
        with process.driver.exclusive("submit"):
            self._workers.submit(queue, task)

    def await_arrival(self) -> None:
        """Wait until the started workers have connected."""
        with process.driver.exclusive("bootup"):
            for arrival in self._workers.arriving:
                process.driver.finish(arrival)

    def begin_dismissal(self) -> None:
        """Have the workers dismissed when all tasks are done."""
        with process.driver.exclusive("shutdown"):
            self._workers.dismiss()

    def dismiss(self) -> None:
        """Dismiss the workers when all tasks are done, and free the communicator."""
        with process.driver.exclusive("shutdown"):
            process.driver.wait(self._workers.dismiss())
        if self._thread is not None:  # it may not have received its dismissal yet
            self._thread.join()
        if self._comm is not None:
            self._comm.Free()
            self._comm = None


class RemoteWorkers(BlockingWorkers):
    """Workers of another job: a job that this process starts, or a job with a service name.

    Raises:
        RuntimeError: the thread level is lower than THREAD_MULTIPLE, or a worker makes an executor while
            it loads the main program.
    """

    def __init__(self) -> None:
        refuse_while_loading("makes an executor")
        _start()
        check_level()
        self._comm = self._thread = None

    @classmethod
    def spawn(cls, count: int | None, executable: str | None, arguments: Sequence[str]) -> RemoteWorkers:
        """Start workers, which are replaced when they fail.

        Args:
            count: number of workers. None: MPI4PY_FUTURES_MAX_WORKERS, or else the free part of UNIVERSE_SIZE, or else
                one.
            executable: interpreter of the workers; None for the interpreter of this process.
            arguments: more options of the interpreter.
        """
        self = cls()
        core = COMM_SELF._core
        with process.driver.exclusive("MPIPoolExecutor"):
            self._workers = Workers(core.engine, process.codec, spawner(core, executable, arguments))
            self._workers.start(count or _room())
        _at_exit.add(self)
        return self

    @classmethod
    def connect(cls, service: str) -> RemoteWorkers:
        """Use the processes of a job with a service name (`python -m aiompi.futures.server --service NAME`).

        Raises:
            aiompi.MPIError: there is no such service.
        """
        self = cls()
        port = process.runtime.names.lookup(service)
        with process.driver.exclusive("MPIPoolExecutor"):
            self._workers = Workers(COMM_SELF._core.engine, process.codec)
            self._workers.add_when_ready(ports.connect(COMM_SELF._core, port, 0))
        _at_exit.add(self)
        return self

    def dismiss(self) -> None:
        super().dismiss()
        _at_exit.discard(self)

    def abandon(self) -> None:
        """Dismiss the workers, because nothing refers to their executor any more. Any thread may call this."""
        if not process.finalized:
            process.driver.call_soon_threadsafe(self._workers.dismiss)


#: workers that are dismissed at the end of the program
_at_exit: Final[set[RemoteWorkers]] = set()


def _start() -> None:
    """Join or make a job with THREAD_MULTIPLE, even while an event loop runs in this thread."""
    if not process.initialized and loop_is_running():
        thread = threading.Thread(target=process.start, args=(THREAD_MULTIPLE,))
        thread.start()
        thread.join()
    elif not process.initialized:
        process.start(THREAD_MULTIPLE)
    atexit.unregister(_dismiss_all)
    atexit.register(_dismiss_all)  # after `process` has registered its exit function, so that this one runs first


def _dismiss_all() -> None:
    if not process.finalized and process.runtime.engine.error is None:
        for workers in [*_at_exit]:
            workers.dismiss()


def _room() -> int:
    """Return the default number of workers of an executor, as in mpi4py."""
    wanted = os.environ.get("MPI4PY_FUTURES_MAX_WORKERS")
    if wanted is not None:
        return int(wanted)
    universe = COMM_WORLD.Get_attr(UNIVERSE_SIZE)
    return 1 if universe is None else max(1, int(universe) - COMM_WORLD.size)


def check_level() -> None:
    """Check that executors make progress while the program does other work.

    Raises:
        RuntimeError: the thread level is lower than THREAD_MULTIPLE.
    """
    if process.driver.level < THREAD_MULTIPLE:
        raise RuntimeError(
            "an executor needs the thread level THREAD_MULTIPLE: set AIOMPI_THREAD_LEVEL=multiple, or begin with "
            "MPI.Init_thread(MPI.THREAD_MULTIPLE)"
        )


#: communicator of all workers, set in the thread that is a worker
_comm_workers: Final[ContextVar[Intracomm]] = ContextVar("comm_workers")


def run_worker(master: int, comm: Intracomm) -> None:
    """Be a worker until the master dismisses it.

    Args:
        master: rank of the master.
        comm: communicator that is used for nothing else, and freed at the end.
    """
    comm_workers = comm.Split(0, comm.rank)
    serve_master(comm._core, master, comm_workers)
    comm_workers.Free()
    comm.Free()


def serve_master(core: Communicator, master: int, comm_workers: Intracomm) -> None:
    """Do the tasks of a master until it dismisses the worker.

    Args:
        core: communicator with the master, used only for this.
        master: rank of the master.
        comm_workers: communicator of the workers.
    """
    before = _comm_workers.set(comm_workers)
    try:
        BlockingServer(Worker(core, process.codec, master)).serve()
    finally:
        _comm_workers.reset(before)


def _run_worker_thread(worker: Worker) -> None:
    """Be the only worker, in the process of the master."""
    _comm_workers.set(COMM_SELF)
    BlockingServer(worker).serve()


def get_comm_workers() -> Intracomm:
    """Return the communicator of the workers, for tasks that all workers run at the same time.

    Raises:
        RuntimeError: the calling thread is not a worker.
    """
    try:
        return _comm_workers.get()
    except LookupError:
        raise RuntimeError("this is not the thread of a worker: call get_comm_workers in a task") from None
