"""Executors with the interface of `multiprocessing.pool`, with the names of mpi4py.util.pool."""

from __future__ import annotations

import itertools
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sized
from concurrent.futures import CancelledError, Future
from types import MappingProxyType
from typing import Any, ClassVar, Final, Generic, TypeVar

from aiompi.futures import MPIPoolExecutor, ThreadPoolExecutor, collect, compose
from aiompi.futures.task import apply_to_all, chunks

T = TypeVar("T")
Callback = Callable[[Any], object] | None

__all__ = ["ApplyResult", "AsyncResult", "MapResult", "Pool", "ThreadPool"]

#: chunks per worker into which `map` cuts its input by default
_CHUNKS_PER_WORKER: Final = 4
_NONE: Final[Mapping[str, Any]] = MappingProxyType({})


class Pool:
    """A pool whose workers are MPI processes.

    Args:
        processes: number of workers.
        initializer: called with `initargs` by each worker first.
        options: options of the executor. `maxtasksperchild` and `context` of multiprocessing are ignored with a
            warning.

    Attributes:
        executor: the executor that makes the calls.

    Raises:
        ValueError: processes is not positive.
        TypeError: the initializer cannot be called.
    """

    Executor: ClassVar[Callable[..., Any]] = MPIPoolExecutor

    def __init__(
        self,
        processes: int | None = None,
        initializer: Callable[..., object] | None = None,
        initargs: Iterable[Any] = (),
        **options: Any,
    ) -> None:
        if processes is not None and processes < 1:
            raise ValueError(f"processes must be at least 1, not {processes}")
        if initializer is not None and not callable(initializer):
            raise TypeError(f"the initializer {initializer!r} cannot be called")
        for name in ("maxtasksperchild", "context"):
            if options.pop(name, None) is not None:
                warnings.warn(f"argument {name!r} is not supported", stacklevel=2)
        self.executor = type(self).Executor(processes, initializer=initializer, initargs=initargs, **options)

    def apply(self, func: Callable[..., T], args: Iterable[Any] = (), kwds: Mapping[str, Any] = _NONE) -> T:
        """Call `func(*args, **kwds)` in a worker and return the result."""
        result: T = self.executor.submit(func, *args, **kwds).result()
        return result

    def apply_async(
        self,
        func: Callable[..., T],
        args: Iterable[Any] = (),
        kwds: Mapping[str, Any] = _NONE,
        callback: Callback = None,
        error_callback: Callback = None,
    ) -> ApplyResult[T]:
        """Start the call `func(*args, **kwds)` in a worker; a callback gets the result or the exception."""
        return ApplyResult(self.executor.submit(func, *args, **kwds), callback, error_callback)

    def map(self, func: Callable[[Any], T], iterable: Iterable[Any], chunksize: int | None = None) -> list[T]:
        """Return the results for all items, in order.

        Args:
            chunksize: number of calls that are sent to a worker at a time; by default each worker gets four chunks.
        """
        iterable, size = self._sized(iterable, chunksize)
        return list(self.imap(func, iterable, size))

    def map_async(
        self,
        func: Callable[[Any], T],
        iterable: Iterable[Any],
        chunksize: int | None = None,
        callback: Callback = None,
        error_callback: Callback = None,
    ) -> MapResult[T]:
        """Start the calls of `func` with all items in workers; a callback gets the list of results or the exception."""
        iterable, size = self._sized(iterable, chunksize)
        return self.starmap_async(func, zip(iterable, strict=False), size, callback, error_callback)

    def imap(self, func: Callable[[Any], T], iterable: Iterable[Any], chunksize: int = 1) -> Iterator[T]:
        """Return an iterator of the results, in order."""
        results: Iterator[T] = self.executor.map(func, iterable, chunksize=chunksize)
        return results

    def imap_unordered(self, func: Callable[[Any], T], iterable: Iterable[Any], chunksize: int = 1) -> Iterator[T]:
        """Return an iterator of the results, as they become ready."""
        results: Iterator[T] = self.executor.map(func, iterable, chunksize=chunksize, unordered=True)
        return results

    def starmap(
        self, func: Callable[..., T], iterable: Iterable[Iterable[Any]], chunksize: int | None = None
    ) -> list[T]:
        """Return the results for all tuples of arguments, in order; see `map`."""
        iterable, size = self._sized(iterable, chunksize)
        return list(self.istarmap(func, iterable, size))

    def starmap_async(
        self,
        func: Callable[..., T],
        iterable: Iterable[Iterable[Any]],
        chunksize: int | None = None,
        callback: Callback = None,
        error_callback: Callback = None,
    ) -> MapResult[T]:
        """Start the calls that `starmap` makes; see `map_async`."""
        iterable, size = self._sized(iterable, chunksize)
        futures = [self.executor.submit(apply_to_all, func, chunk) for chunk in chunks(iterable, size)]
        whole = compose(collect(futures), lambda results: [*itertools.chain.from_iterable(results)])
        return MapResult(whole, callback, error_callback)

    def istarmap(self, func: Callable[..., T], iterable: Iterable[Iterable[Any]], chunksize: int = 1) -> Iterator[T]:
        """Return an iterator of the results for tuples of arguments, in order."""
        results: Iterator[T] = self.executor.starmap(func, iterable, chunksize=chunksize)
        return results

    def istarmap_unordered(
        self, func: Callable[..., T], iterable: Iterable[Iterable[Any]], chunksize: int = 1
    ) -> Iterator[T]:
        """Return an iterator of the results for tuples of arguments, as they become ready."""
        results: Iterator[T] = self.executor.starmap(func, iterable, chunksize=chunksize, unordered=True)
        return results

    def close(self) -> None:
        """Accept no more tasks."""
        self.executor.shutdown(wait=False)

    def terminate(self) -> None:
        """Accept no more tasks, and cancel the tasks that no worker has begun."""
        self.executor.shutdown(wait=False, cancel_futures=True)

    def join(self) -> None:
        """Wait until all tasks are done."""
        self.executor.shutdown(wait=True)

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _sized(self, iterable: Iterable[Any], chunksize: int | None) -> tuple[Iterable[Any], int]:
        """Return the items, and the number of items in a chunk."""
        if chunksize is not None:
            return iterable, chunksize
        items = iterable if isinstance(iterable, Sized) else list(iterable)
        workers = max(1, getattr(self.executor, "_max_workers", 0))
        return items, max(1, -(-len(items) // (_CHUNKS_PER_WORKER * workers)))


class ThreadPool(Pool):
    """A pool whose workers are threads of this process."""

    Executor = ThreadPoolExecutor


class AsyncResult(Generic[T]):
    """The result of calls that have been started.

    Args:
        future: has the outcome of the calls.
        callback, error_callback: the first is called with the result, or the second with the exception, in another
            thread.
    """

    def __init__(self, future: Future[Any], callback: Callback = None, error_callback: Callback = None) -> None:
        self.future = future
        self._ready = threading.Event()
        self._callbacks = callback, error_callback
        future.add_done_callback(self._done)

    def _done(self, future: Future[Any]) -> None:
        callback, error_callback = self._callbacks
        try:
            error = TimeoutError() if future.cancelled() else future.exception()
            if error is not None and error_callback is not None:
                error_callback(error)
            elif error is None and callback is not None:
                callback(future.result())
        finally:
            self._ready.set()

    def get(self, timeout: float | None = None) -> Any:
        """Return the result.

        Raises:
            TimeoutError: the result is not there within `timeout` seconds, or the calls have been cancelled.
            Any exception of the calls.
        """
        self._ready.wait(timeout)
        if not self._ready.is_set() or self.future.cancelled():
            raise TimeoutError
        try:
            return self.future.result()
        except CancelledError:
            raise TimeoutError from None

    def wait(self, timeout: float | None = None) -> None:
        """Wait until the result is there, for at most `timeout` seconds."""
        self._ready.wait(timeout)

    def ready(self) -> bool:
        """Return True if the result is there."""
        return self._ready.is_set()

    def successful(self) -> bool:
        """Return True if the calls have raised no exception.

        Raises:
            ValueError: the result is not there.
        """
        if not self._ready.is_set():
            raise ValueError(f"{self!r} is not ready")
        return not self.future.cancelled() and self.future.exception() is None


class ApplyResult(AsyncResult[T]):
    """The result of `apply_async`."""


class MapResult(AsyncResult[T]):
    """The result of `map_async` and `starmap_async`, a list."""
