"""Executors of the blocking face, like those of `concurrent.futures`, whose workers are MPI processes."""

from __future__ import annotations

import concurrent.futures
import contextlib
import itertools
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import BrokenExecutor, Executor
from types import TracebackType
from typing import Any, ClassVar, Final, TypeVar

from aiompi.constants import THREAD_MULTIPLE
from aiompi.face.blocking import COMM_WORLD, Intracomm
from aiompi.face.blocking.process import process
from aiompi.futures.blocking import BlockingWorkers, RemoteWorkers, run_worker
from aiompi.futures.progress import Progress, size_of
from aiompi.futures.results import Deadline, as_completed, ordered
from aiompi.futures.setup import Setup
from aiompi.futures.task import Task, apply_to_all, chunks
from aiompi.futures.workers import CONCURRENCY, SERVICE, Queue

T = TypeVar("T")

#: options of mpi4py for spawned processes, polling and pickling, which have no meaning here
_WITHOUT_EFFECT: Final = frozenset({"mpi_info", "backoff", "use_pkl5"})


class MPIPoolExecutor(Executor):
    """Calls functions in other MPI processes, the workers.

    An executor starts its own workers and replaces failed ones, in a program that runs under `aiompi-launch` or alone.
    In a program started with `aiompi-launch -n N -m aiompi.futures PROGRAM`, the other ranks are the workers of all
    executors. `MPICommExecutor` uses the ranks of a communicator. A function is sent by its name. Arguments and results
    are sent like any object, so that large arrays in them are not pickled.

    Args:
        max_workers: number of workers to start, or most ranks to use at once. By default all ranks are used. The
            default number of workers to start is that of mpi4py: MPI4PY_FUTURES_MAX_WORKERS, or else the free part of
            UNIVERSE_SIZE, or else one.
        initializer: called with `initargs` by each worker before its first task of this executor.
        retries: how often a task is given to another worker after its worker has failed. When no retry is left, the
            future gets BrokenExecutor, whose cause is the ProcessFailedError.
        concurrency: coroutine functions that a worker runs at once.
        options: the fields main, path, wdir, env and globals of `aiompi.futures.setup.Setup`. For workers to start:
            python_exe, their interpreter, and python_args, its options. Or service: the name of a job of
            `aiompi.futures.server` whose processes are the workers. The other options of mpi4py (mpi_info, backoff and
            use_pkl5) have no effect.

    Raises:
        ValueError: max_workers is not positive.
        TypeError: the initializer cannot be called, or an option is unknown.
    """

    #: class of the futures that `submit` returns
    Future: ClassVar[type[concurrent.futures.Future[Any]]] = concurrent.futures.Future
    #: workers of all executors that have no communicator
    _common: ClassVar[BlockingWorkers | None] = None

    def __init__(
        self,
        max_workers: int | None = None,
        initializer: Callable[..., object] | None = None,
        initargs: Iterable[Any] = (),
        *,
        retries: int = 0,
        concurrency: int = CONCURRENCY,
        **options: Any,
    ) -> None:
        if max_workers is not None and max_workers <= 0:
            raise ValueError(f"max_workers must be positive, not {max_workers}")
        if initializer is not None and not callable(initializer):
            raise TypeError(f"the initializer {initializer!r} cannot be called")
        self._limit = max_workers
        self._tasks = {"retries": retries, "concurrency": concurrency}
        self._interpreter = options.pop("python_exe", None), options.pop("python_args", None) or ()
        self._service = options.pop("service") or SERVICE if "service" in options else None
        setup = {name: value for name, value in options.items() if name not in _WITHOUT_EFFECT and value is not None}
        self._setup = Setup(initializer=initializer, initargs=tuple(initargs), **setup)
        self._futures: set[concurrent.futures.Future[Any]] = set()
        self._queue: Queue | None = None
        self._remote: RemoteWorkers | None = None
        self._workers: BlockingWorkers | None = self._common
        self._shutdown = False
        self._lock = threading.Lock()

    @property
    def num_workers(self) -> int:
        """Number of workers that this executor uses; 0 once it has been shut down or is broken."""
        if self._shutdown:
            return 0
        queue = self._boot()
        assert self._workers is not None
        self._workers.await_arrival()
        return queue.size

    # Attributes of executors of mpi4py and `concurrent.futures` that other packages read.
    @property
    def _max_workers(self) -> int:
        return self.num_workers

    @property
    def _pool(self) -> Queue | None:
        """The pool, whose `size` counts its workers; None before the first task or `bootup`, and after `shutdown`."""
        return None if self._shutdown else self._queue

    def bootup(self, wait: bool = True) -> MPIPoolExecutor:
        """Initialize the workers now instead of at their first task. If that fails, the tasks report it.

        Args:
            wait: True to wait until the workers are initialized.

        Raises:
            RuntimeError: the executor has been shut down.
        """
        queue = self._boot()
        assert self._workers is not None
        if wait:
            self._workers.await_arrival()
        with contextlib.suppress(BrokenExecutor):
            futures = [self.submit(_nothing) for _ in range(queue.size)]
            if wait:
                concurrent.futures.wait(futures)
        return self

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> concurrent.futures.Future[T]:
        """Call `fn(*args, **kwargs)` in a worker.

        Returns:
            A future. If the call raises, the `__cause__` of the exception has the traceback in the worker.

        Raises:
            RuntimeError: the executor has been shut down.
            BrokenExecutor: a worker could not be initialized, or all workers are gone.
        """
        queue = self._boot()
        if queue.broken is not None:
            raise queue.broken
        future = self.Future()
        self._futures.add(future)
        future.add_done_callback(self._futures.discard)
        assert self._workers is not None
        self._workers.submit(queue, Task((fn, args, kwargs), _Promise(future)))
        return future

    def _boot(self) -> Queue:
        with self._lock:
            if self._shutdown:
                raise RuntimeError("this executor has been shut down")
            if self._queue is None:
                if self._workers is None:
                    self._workers = self._remote = self._find()
                    self._finalizer = weakref.finalize(self, self._remote.abandon)
                    self._finalizer.atexit = False
                self._queue = self._workers.open(self._limit, setup=self._setup.calls(), **self._tasks)
            return self._queue

    def _find(self) -> RemoteWorkers:
        if self._service is not None:
            return RemoteWorkers.connect(self._service)
        return RemoteWorkers.spawn(self._limit, *self._interpreter)

    def map(
        self,
        fn: Callable[..., T],
        *iterables: Iterable[Any],
        timeout: float | None = None,
        chunksize: int = 1,
        buffersize: int | None = None,
        unordered: bool = False,
        progress: str | None = None,
    ) -> Iterator[T]:
        """Make calls like the built-in `map`, in the workers; see `starmap`."""
        bar = Progress(progress, size_of(*iterables))
        return self._starmap(fn, zip(*iterables, strict=False), timeout, chunksize, buffersize, unordered, bar)

    def starmap(
        self,
        fn: Callable[..., T],
        iterable: Iterable[Iterable[Any]],
        timeout: float | None = None,
        chunksize: int = 1,
        buffersize: int | None = None,
        unordered: bool = False,
        progress: str | None = None,
    ) -> Iterator[T]:
        """Make calls like `itertools.starmap`, in the workers.

        Args:
            iterable: the arguments of each call.
            timeout: seconds from now within which all results must be ready; None for no limit.
            chunksize: number of calls that are sent to a worker at a time.
            buffersize: maximum number of submitted chunks whose results have not been taken; by default all.
            unordered: True to yield results as they become ready.
            progress: name of a progress bar that is shown while results are taken, if standard error is a terminal and
                `rich` is installed; None for no bar.

        Returns:
            An iterator of the results. When it is closed, the calls that no worker has begun are cancelled.

        Raises:
            ValueError: chunksize or buffersize is not positive.
            TimeoutError: raised by the iterator after `timeout`.
        """
        bar = Progress(progress, size_of(iterable))
        return self._starmap(fn, iterable, timeout, chunksize, buffersize, unordered, bar)

    def _starmap(
        self,
        fn: Callable[..., T],
        iterable: Iterable[Iterable[Any]],
        timeout: float | None,
        chunksize: int,
        buffersize: int | None,
        unordered: bool,
        bar: Progress,
    ) -> Iterator[T]:
        for name, value in (("chunksize", chunksize), ("buffersize", buffersize)):
            if value is not None and value < 1:
                raise ValueError(f"{name} must be positive, not {value}")
        deadline = Deadline(timeout)
        submissions = (
            bar.count(self.submit(apply_to_all, fn, chunk), len(chunk)) for chunk in chunks(iterable, chunksize)
        )
        submitted = list(itertools.islice(submissions, buffersize))
        return bar.around((as_completed if unordered else ordered)(submitted, submissions, deadline))

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Accept no more tasks. Further calls do nothing more.

        Args:
            wait: True to wait until all tasks are done.
            cancel_futures: True to cancel the tasks that no worker has begun.
        """
        with self._lock:
            self._shutdown = True
            if self._queue is not None:
                self._queue.closed = True
        futures = list(self._futures)
        if cancel_futures:
            for future in futures:
                future.cancel()
        if wait:
            concurrent.futures.wait(futures)
        if self._remote is not None:
            if wait:
                self._remote.dismiss()
            else:
                self._remote.begin_dismissal()


class _Promise:
    """Gives the outcome of a task to a future of `concurrent.futures`."""

    __slots__ = ("_future",)

    def __init__(self, future: concurrent.futures.Future[Any]) -> None:
        self._future = future

    def start(self) -> bool:
        return self._future.running() or self._future.set_running_or_notify_cancel()

    def succeed(self, result: Any) -> None:
        self._future.set_result(result)

    def fail(self, error: BaseException) -> None:
        self._future.set_exception(error)


def _nothing() -> None:
    """Do nothing: the task for a worker that is only to be initialized."""


class ProcessPoolExecutor(MPIPoolExecutor):
    """An `MPIPoolExecutor` that always starts its own workers."""

    _common = None


class ThreadPoolExecutor(MPIPoolExecutor):
    """An `MPIPoolExecutor` whose workers are `max_workers` threads of this process, by default one.

    Options for processes have no effect.
    """

    _threads: concurrent.futures.ThreadPoolExecutor | None = None

    @property
    def num_workers(self) -> int:
        return 0 if self._shutdown else self._limit or 1

    def bootup(self, wait: bool = True) -> ThreadPoolExecutor:
        """Do nothing: threads start with their tasks.

        Raises:
            RuntimeError: the executor has been shut down.
        """
        if self._shutdown:
            raise RuntimeError("this executor has been shut down")
        return self

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> concurrent.futures.Future[T]:
        self.bootup()
        with self._lock:
            if self._threads is None:
                setup = self._setup
                self._threads = concurrent.futures.ThreadPoolExecutor(
                    self._limit or 1, "aiompi-worker", setup.initializer, setup.initargs
                )
        return self._threads.submit(fn, *args, **kwargs)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        self._shutdown = True
        if self._threads is not None:
            self._threads.shutdown(wait, cancel_futures=cancel_futures)


class MPICommExecutor:
    """A block in which one process of a communicator has an executor, and the others are its workers.

        with MPICommExecutor(MPI.COMM_WORLD, root=0) as executor:
            if executor is not None:
                print(list(executor.map(abs, [-1, 2])))

    Args:
        comm: intracommunicator, by default COMM_WORLD. Its processes are workers until the end of the block. The
            executor does not disturb other messages on the communicator.
        root: rank of the process that has the executor.
        options: the options of `MPIPoolExecutor`. `main` is False by default, because all processes run the same
            program.

    Raises:
        ValueError: comm is an intercommunicator, or has no such rank.
    """

    def __init__(self, comm: Intracomm | None = None, root: int = 0, **options: Any) -> None:
        process.start(THREAD_MULTIPLE)
        comm = COMM_WORLD if comm is None else comm
        if comm.Is_inter():
            raise ValueError("MPICommExecutor needs an intracommunicator: merge the two groups, or use one of them")
        if not 0 <= root < comm.size:
            raise ValueError(f"root {root} is no rank of {comm!r}")
        self._comm = comm
        self._root = root
        self._options = options
        self._workers: BlockingWorkers | None = None
        self._executor: MPIPoolExecutor | None = None
        self._entered = False

    def __enter__(self) -> MPIPoolExecutor | None:
        """Enter the block. In a worker, this call serves the root until the root leaves its block.

        Returns:
            The executor at the root, None at the workers.

        Raises:
            RuntimeError: this block is entered already, or the thread level of the root is not THREAD_MULTIPLE.
        """
        if self._entered:
            raise RuntimeError("this MPICommExecutor has been entered already: make another one")
        self._entered = True
        if MPIPoolExecutor._common is not None:
            self._executor = MPIPoolExecutor(**self._options)
        elif self._comm.rank == self._root:
            self._workers = BlockingWorkers(self._comm.Dup())
            self._executor = MPIPoolExecutor(**{"main": False, **self._options})
            self._executor._workers = self._workers
        else:
            run_worker(self._root, self._comm.Dup())
        return self._executor

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._executor is not None:
            self._executor.shutdown()
        if self._workers is not None:
            self._workers.dismiss()
        self._workers = self._executor = None
        self._entered = False
