"""Executors of the blocking face: `concurrent.futures` whose workers are MPI processes, with mpi4py's names."""

from __future__ import annotations

import concurrent.futures
import contextlib
import itertools
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import BrokenExecutor, Executor, Future
from types import TracebackType
from typing import Any, ClassVar, Final, TypeVar

from aiompi.constants import THREAD_MULTIPLE
from aiompi.face.blocking import COMM_WORLD, Intracomm
from aiompi.face.blocking.process import process
from aiompi.futures.results import Deadline, as_they_come, ordered
from aiompi.futures.setup import Setup
from aiompi.futures.staff import Staff, work_for
from aiompi.futures.task import Task, apply_to_all
from aiompi.futures.workers import Queue

T = TypeVar("T")

#: options of mpi4py about processes that are spawned, polling and pickling: nothing here depends on them
_WITHOUT_EFFECT: Final = frozenset({"python_exe", "python_args", "mpi_info", "backoff", "use_pkl5"})


class MPIPoolExecutor(Executor):
    """Has functions called by other MPI processes, the workers.

    They are all other ranks of a program that was started with `aiompi-launch -n N -m aiompi.futures PROGRAM`, and
    serve all executors of the program; or those of a communicator, see `MPICommExecutor`. A function is sent by its
    name; arguments and results are messages as any, so that large arrays in them are not pickled.

    Args:
        max_workers: most tasks under way at once; as many as there are workers by default.
        initializer: called with `initargs` by each worker before its first task of this executor.
        options: fields of `aiompi.futures.setup.Setup`: main, path, wdir, env, globals. Those that mpi4py has besides,
            python_exe, python_args, mpi_info, backoff and use_pkl5, have no effect.

    Raises:
        ValueError: max_workers is not positive.
        TypeError: the initializer cannot be called, or there is no such option.
    """

    #: serves the executors of the program that have no communicator of their own
    _common: ClassVar[Staff | None] = None

    def __init__(
        self,
        max_workers: int | None = None,
        initializer: Callable[..., object] | None = None,
        initargs: Iterable[Any] = (),
        **options: Any,
    ) -> None:
        if max_workers is not None and max_workers <= 0:
            raise ValueError(f"max_workers must be positive, not {max_workers}")
        if initializer is not None and not callable(initializer):
            raise TypeError(f"the initializer {initializer!r} cannot be called")
        self._max_workers = max_workers
        setup = {name: value for name, value in options.items() if name not in _WITHOUT_EFFECT}
        self._setup = Setup(initializer=initializer, initargs=tuple(initargs), **setup)
        self._futures: set[Future[Any]] = set()
        self._queue: Queue | None = None
        self._staff = self._common
        self._closed = False
        self._booting = threading.Lock()

    @property
    def num_workers(self) -> int:
        """How many workers this executor uses; 0 when it has been shut down, or cannot work any more."""
        if self._closed:
            return 0
        queue = self._boot()
        return 0 if queue.broken is not None else queue.limit

    def bootup(self, wait: bool = True) -> MPIPoolExecutor:
        """Have the workers make themselves ready now instead of at their first task.

        Whether an initializer fails is for the tasks to tell.

        Args:
            wait: whether to wait until they are.

        Raises:
            RuntimeError: there are none, or the executor has been shut down.
        """
        queue = self._boot()
        with contextlib.suppress(BrokenExecutor):
            futures = [self.submit(_nothing) for _ in range(queue.limit)]
            if wait:
                concurrent.futures.wait(futures)
        return self

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        """Have `fn(*args, **kwargs)` called by a worker.

        Returns:
            A future. What the call raises has the traceback in the worker as its cause.

        Raises:
            RuntimeError: there are no workers, or the executor has been shut down.
            BrokenExecutor: no worker could make itself ready, or all are gone.
        """
        queue = self._boot()
        if queue.broken is not None:
            raise queue.broken
        future: Future[T] = Future()
        self._futures.add(future)
        future.add_done_callback(self._futures.discard)
        assert self._staff is not None
        self._staff.submit(queue, Task((fn, args, kwargs), _Promise(future)))
        return future

    def _boot(self) -> Queue:
        with self._booting:
            if self._closed:
                raise RuntimeError("this executor has been shut down")
            if self._queue is None:
                if self._staff is None:
                    raise RuntimeError(
                        "there are no workers: start the program with `aiompi-launch -n N -m aiompi.futures PROGRAM`, "
                        "or use MPICommExecutor; processes are not spawned at run time"
                    )
                self._queue = Queue(min(self._max_workers or self._staff.size, self._staff.size), self._setup.calls())
                self._staff.serve(self._queue)
            return self._queue

    def map(
        self,
        fn: Callable[..., T],
        *iterables: Iterable[Any],
        timeout: float | None = None,
        chunksize: int = 1,
        buffersize: int | None = None,
        unordered: bool = False,
    ) -> Iterator[T]:
        """As the built-in `map`, with calls made by the workers; see `starmap`."""
        return self.starmap(fn, zip(*iterables, strict=False), timeout, chunksize, buffersize, unordered)

    def starmap(
        self,
        fn: Callable[..., T],
        iterable: Iterable[Iterable[Any]],
        timeout: float | None = None,
        chunksize: int = 1,
        buffersize: int | None = None,
        unordered: bool = False,
    ) -> Iterator[T]:
        """As `itertools.starmap`, with calls made by the workers.

        Args:
            iterable: the arguments of each call.
            timeout: seconds from now until the last result must be there.
            chunksize: calls that are sent to a worker at a time.
            buffersize: chunks that are submitted before their results are taken; all by default.
            unordered: results come as they are ready.

        Returns:
            The results. When the iterator is closed, what no worker has begun is cancelled.

        Raises:
            ValueError: chunksize or buffersize is not positive.
            TimeoutError: by the iterator.
        """
        for name, value in (("chunksize", chunksize), ("buffersize", buffersize)):
            if value is not None and value < 1:
                raise ValueError(f"{name} must be positive, not {value}")
        deadline = Deadline(timeout)
        chunks = (self.submit(apply_to_all, fn, chunk) for chunk in _chunks(iterable, chunksize))
        begun = list(itertools.islice(chunks, buffersize))
        return (as_they_come if unordered else ordered)(begun, chunks, deadline)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no tasks any more; may be called again.

        Args:
            wait: whether to wait until all tasks have been done.
            cancel_futures: whether those that no worker has begun are cancelled.
        """
        with self._booting:
            self._closed = True
            if self._queue is not None:
                self._queue.closed = True
        futures = list(self._futures)
        if cancel_futures:
            for future in futures:
                future.cancel()
        if wait:
            concurrent.futures.wait(futures)


class _Promise:
    """A future of `concurrent.futures` that is told the outcome."""

    __slots__ = ("_future",)

    def __init__(self, future: Future[Any]) -> None:
        self._future = future

    def start(self) -> bool:
        return self._future.set_running_or_notify_cancel()

    def succeed(self, result: Any) -> None:
        self._future.set_result(result)

    def fail(self, error: BaseException) -> None:
        self._future.set_exception(error)


def _nothing() -> None:
    """The task of a worker that only makes itself ready."""


def _chunks(iterable: Iterable[Iterable[Any]], size: int) -> Iterator[list[tuple[Any, ...]]]:
    items = map(tuple, iterable)
    while chunk := list(itertools.islice(items, size)):
        yield chunk


class MPICommExecutor:
    """A block in which one process of a communicator has an executor, and the others are its workers.

        with MPICommExecutor(MPI.COMM_WORLD, root=0) as executor:
            if executor is not None:
                print(list(executor.map(abs, [-1, 2])))

    Args:
        comm: intracommunicator, COMM_WORLD by default; nothing else may use the processes meanwhile, but its own
            traffic is not disturbed.
        root: rank of the process that has the executor.
        options: as for `MPIPoolExecutor`. Where all processes run the same program `main` is False by default.

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
        self._staff: Staff | None = None
        self._executor: MPIPoolExecutor | None = None
        self._entered = False

    def __enter__(self) -> MPIPoolExecutor | None:
        """Begin to work: at the processes that are workers, until the root has left its block.

        Returns:
            The executor at the root. At the other processes None, and not before the root has left its block.

        Raises:
            RuntimeError: this block has not been left yet, or the thread level of the root is not THREAD_MULTIPLE.
        """
        if self._entered:
            raise RuntimeError("this MPICommExecutor has been entered already: make another one")
        self._entered = True
        if MPIPoolExecutor._common is not None:
            self._executor = MPIPoolExecutor(**self._options)
        elif self._comm.rank == self._root:
            self._staff = Staff(self._comm.Dup())
            self._executor = MPIPoolExecutor(**{"main": False, **self._options})
            self._executor._staff = self._staff
        else:
            work_for(self._root, self._comm.Dup())
        return self._executor

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._executor is not None:
            self._executor.shutdown()
        if self._staff is not None:
            self._staff.dismiss()
        self._staff = self._executor = None
        self._entered = False
