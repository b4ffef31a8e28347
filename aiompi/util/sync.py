"""Counters, locks and sequential blocks for the processes of a communicator, with the names of mpi4py.util.sync.

One process keeps the state of each object, and the others send requests to it. The engine of the process with the state
answers whenever that engine makes progress: in any MPI call, and with THREAD_MULTIPLE also while the program computes.
A waiting process sleeps in a receive. Making and freeing an object are collective calls, except for `Sequential`.
"""

from __future__ import annotations

import array
import itertools
from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, TypeAlias, TypeVar

from aiompi.constants import ANY_SOURCE
from aiompi.datatype.datatype import Datatype
from aiompi.datatype.predefined import BYTE
from aiompi.errors import MPIError
from aiompi.face.blocking import COMM_SELF, Intracomm
from aiompi.face.blocking.process import process
from aiompi.info import INFO_NULL

if TYPE_CHECKING:
    from aiompi.engine import Request
    from aiompi.info import Info

__all__ = ["Condition", "Counter", "Mutex", "Semaphore", "Sequential"]

T = TypeVar("T")
#: the rank that has sent a request, and the tag of its answer
Asker: TypeAlias = tuple[int, int]
#: sends an object to the rank that has asked
Answer: TypeAlias = Callable[[Asker, Any], None]

#: tag of requests on the communicator of an object, and those of answers, each for one request
_ASK: Final = 0
_ANSWERS: Final = range(1, 2**15)

#: answers of locks
_GRANTED: Final = True
_REFUSED: Final = False


class _Block:
    """A context manager that calls `acquire` and `release`."""

    def __enter__(self) -> Self:
        self.acquire()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.release()

    def acquire(self, blocking: bool = True) -> bool:
        raise NotImplementedError

    def release(self) -> None:
        raise NotImplementedError


class Sequential:
    """A block that the processes of a communicator run one after the other, in the order of their ranks.

    Args:
        comm: intracommunicator.
        tag: of the messages.
    """

    def __init__(self, comm: Intracomm, tag: int = 0) -> None:
        self.comm = comm
        self.tag = int(tag)

    def __enter__(self) -> Self:
        self.begin()
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def begin(self) -> None:
        """Wait until the process of the next lower rank has called `end`."""
        if self.comm.rank > 0:
            self.comm.Recv([bytearray(), 0, BYTE], self.comm.rank - 1, self.tag)

    def end(self) -> None:
        """Let the process of the next higher rank begin."""
        if self.comm.rank < self.comm.size - 1:
            self.comm.Send([bytearray(), 0, BYTE], self.comm.rank + 1, self.tag)


class _Shared:
    """State that one process keeps for all processes of a communicator.

    Args:
        comm: intracommunicator; the object uses a duplicate of it.
        root: rank of the process that keeps the state.
        handle: answers a request in the process with the state: `handle(answer, asker, request)` calls `answer(asker,
            object)` now or later.
    """

    def __init__(self, comm: Intracomm, root: int, handle: Callable[[Answer, Asker, Any], object]) -> None:
        self._comm: Intracomm | None = comm.Dup()
        self._root = root
        self._handle = handle
        self._core = self._comm._core
        self._freed: list[Asker] = []
        self._tags = itertools.cycle(_ANSWERS)
        if comm.rank == root:
            with process.driver.exclusive("Dup"):
                self._listen()
        self._comm.Barrier()

    def ask(self, *request: Any, undo: tuple[Any, ...] = ()) -> Any:
        """Send a request and wait for its answer.

        Args:
            request: the request.
            undo: request that releases the lock or permit, sent if an interrupt has ended the wait before the answer
                granted it.

        Raises:
            RuntimeError: the object has been freed.
        """
        comm, tag = self.comm, next(self._tags)
        comm.send((tag, request), self._root, _ASK)
        try:
            return comm.recv(None, self._root, tag)
        except MPIError:
            raise
        except BaseException:
            with process.driver.exclusive("recv"):
                self._drop_answer(tag, undo)
            raise

    def _drop_answer(self, tag: int, undo: tuple[Any, ...]) -> None:
        receive = self._core.irecv(None, self._root, tag, process.codec.loads)
        if receive.done():
            self._answer_dropped(receive, undo)
        else:
            receive.when_done(lambda done: self._answer_dropped(done, undo))

    def _answer_dropped(self, receive: Request[Any], undo: tuple[Any, ...]) -> None:
        if undo and receive.exception() is None and receive.result():
            tag = next(self._tags)
            pieces, nbytes = process.codec.dumps((tag, undo))
            self._core.send(pieces, nbytes, self._root, _ASK).free()
            self._drop_answer(tag, ())

    @property
    def comm(self) -> Intracomm:
        if self._comm is None:
            raise RuntimeError("this object has been freed already")
        return self._comm

    def free(self) -> None:
        """Wait until all processes have called this. Further calls do nothing."""
        if self._comm is not None:
            self.ask()
            self._comm.Free()
            self._comm = None

    def _listen(self) -> None:
        """Serve the requests that have come, and later ones as they come."""
        while len(self._freed) < self._core.size:
            receive = self._core.irecv(None, ANY_SOURCE, _ASK, process.codec.loads)
            if not receive.done():
                receive.when_done(self._received)
                return
            self._serve(receive)

    def _received(self, receive: Request[Any]) -> None:
        if receive.exception() is None:  # otherwise the job ends, or a process has failed
            self._serve(receive)
            self._listen()

    def _serve(self, receive: Request[Any]) -> None:
        (tag, request), rank = receive.result(), receive.status.source
        asker = rank, tag
        if request:
            self._handle(self._answer, asker, request)
            return
        self._freed.append(asker)
        if len(self._freed) == self._core.size:
            for each in self._freed:
                self._answer(each, None)

    def _answer(self, asker: Asker, answer: Any) -> None:
        pieces, nbytes = process.codec.dumps(answer)
        rank, tag = asker
        self._core.send(pieces, nbytes, rank, tag).free()


class Counter:
    """A shared number. `next` returns the number and then increases it, for one process at a time.

    Args:
        start: first value.
        step: default increment of `next`.
        typecode: type of the values, a code of the module `array`.
        comm: intracommunicator.
        info: has no effect.
        root: rank of the process that keeps the value.
    """

    def __init__(
        self,
        start: float = 0,
        step: float = 1,
        *,
        typecode: str = "i",
        comm: Intracomm = COMM_SELF,
        info: Info = INFO_NULL,
        root: int = 0,
    ) -> None:
        self._typecode = Datatype.fromcode(typecode).typechar
        self._step = step
        self._shared = _Shared(comm, root, _CountHandler(self._number(start)))

    def _number(self, value: float) -> Any:
        return array.array(self._typecode, [value])[0]

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
        return self.next()

    def next(self, incr: float | None = None) -> Any:
        """Return the value, and then add `incr` to it, by default the step.

        Raises:
            RuntimeError: the counter has been freed.
        """
        return self._shared.ask("next", self._number(self._step if incr is None else incr))

    def free(self) -> None:
        """Free the counter; a collective call."""
        self._shared.free()


class _CountHandler:
    """The value of a counter or semaphore, and the ranks that wait until it is positive."""

    def __init__(self, value: Any) -> None:
        self._value = value
        self._waiting: deque[Asker] = deque()

    def __call__(self, answer: Answer, asker: Asker, request: Any) -> None:
        match request:
            case ("next", incr):
                answer(asker, self._value)
                self._value += incr
            case ("release", number, most) if most is None or self._value + number <= most:
                self._value += number
                answer(asker, _GRANTED)
            case ("acquire", True):
                self._waiting.append(asker)
            case ("acquire", False) if self._value > 0 and not self._waiting:
                self._value -= 1
                answer(asker, _GRANTED)
            case _:
                answer(asker, _REFUSED)
        while self._waiting and self._value > 0:
            self._value -= 1
            answer(self._waiting.popleft(), _GRANTED)


class Semaphore(_Block):
    """A number of permits, which processes acquire and release.

    Args:
        value: number of permits at first.
        bounded: True to refuse a release that would make more than `value` permits.
        comm: intracommunicator.
        info: has no effect.

    Raises:
        ValueError: the value is negative.
    """

    def __init__(
        self, value: int = 1, *, bounded: bool = True, comm: Intracomm = COMM_SELF, info: Info = INFO_NULL
    ) -> None:
        if value < 0:
            raise ValueError(f"the value of a semaphore must not be negative, as {value} is")
        self._bounded = bool(bounded)
        self._value = value
        self._counter = Counter(value, comm=comm)

    def acquire(self, blocking: bool = True) -> bool:
        """Take a permit.

        Args:
            blocking: True to wait for a permit.

        Returns:
            True if this process has got a permit.

        Raises:
            RuntimeError: the semaphore has been freed.
        """
        return bool(self._counter._shared.ask("acquire", bool(blocking), undo=("release", 1, None)))

    def release(self, n: int = 1) -> None:
        """Give `n` permits back.

        Raises:
            ValueError: n is not positive, or the semaphore is bounded and would have more permits than its initial
                value.
            RuntimeError: the semaphore has been freed.
        """
        if n < 1:
            raise ValueError(f"a semaphore is released once or more, not {n} times")
        if not self._counter._shared.ask("release", n, self._value if self._bounded else None):
            raise ValueError("the semaphore has been released too many times")

    def free(self) -> None:
        """Free the semaphore; a collective call."""
        self._counter.free()


class Mutex(_Block):
    """A lock that one process holds at a time. Processes get it in the order of their requests.

    Args:
        recursive: True to let the process that holds the lock acquire it again.
        comm: intracommunicator.
        info: has no effect.
    """

    def __init__(self, *, recursive: bool = False, comm: Intracomm = COMM_SELF, info: Info = INFO_NULL) -> None:
        self._recursive = bool(recursive)
        self._held = 0
        self._conditions = itertools.count()
        self._shared = _Shared(comm, 0, _LockHandler())

    def acquire(self, blocking: bool = True) -> bool:
        """Acquire the lock.

        Args:
            blocking: True to wait for it.

        Returns:
            True if this process holds the lock now.

        Raises:
            RuntimeError: this process already holds the lock and the lock is not recursive, or the lock has been freed.
        """
        if self.locked() and not self._recursive:
            raise RuntimeError("this process holds the mutex already")
        if self._held or self._shared.ask("acquire", bool(blocking), undo=("release",)):
            self._held += 1
            return True
        return False

    def release(self) -> None:
        """Release the lock, or undo one of several calls of `acquire`.

        Raises:
            RuntimeError: this process does not hold the lock, or the lock has been freed.
        """
        if not self.locked():
            raise RuntimeError("this process does not hold the mutex")
        self._held -= 1
        if not self._held:
            self._shared.ask("release")

    def locked(self) -> bool:
        """Return True if this process holds the lock."""
        return self.count() > 0

    def count(self) -> int:
        """Return how many times this process has acquired the lock and not released it."""
        assert self._shared.comm
        return self._held

    def free(self) -> None:
        """Release the lock if this process holds it, and free it; a collective call."""
        if self._held:
            self._held = 1
            self.release()
        self._shared.free()


class _LockHandler:
    """The state of a mutex: its holder, the ranks that wait for it, and the ranks that wait for its conditions."""

    def __init__(self) -> None:
        self._holder: Asker | None = None
        self._waiting: deque[Asker] = deque()
        self._sleeping: dict[int, deque[Asker]] = {}

    def __call__(self, answer: Answer, asker: Asker, request: Any) -> None:
        match request:
            case ("acquire", False) if self._holder is not None:
                answer(asker, _REFUSED)
            case ("acquire", _):
                self._waiting.append(asker)
            case ("release",):
                self._holder = None
                answer(asker, None)
            case ("wait", condition):
                self._holder = None
                self._sleeping.setdefault(condition, deque()).append(asker)
            case ("notify", condition, most):
                sleeping = self._sleeping.get(condition, deque())
                woken = [sleeping.popleft() for _ in range(min(most, len(sleeping)))]
                self._waiting.extend(woken)
                answer(asker, len(woken))
        if self._holder is None and self._waiting:
            self._holder = self._waiting.popleft()
            answer(self._holder, _GRANTED)


class Condition(_Block):
    """A condition variable: processes wait for it until other processes notify them.

    Args:
        mutex: lock that protects the condition; the condition uses its communicator. None to make a new lock.
        recursive: True to make a recursive lock.
        comm: intracommunicator of the new lock.
        info: has no effect.
    """

    def __init__(
        self,
        mutex: Mutex | None = None,
        *,
        recursive: bool = True,
        comm: Intracomm = COMM_SELF,
        info: Info = INFO_NULL,
    ) -> None:
        self._owned = mutex is None
        self._mutex = Mutex(recursive=recursive, comm=comm) if mutex is None else mutex
        self._number = next(self._mutex._conditions)
        self._freed = False

    def _check(self, call: str = "") -> None:
        if self._freed:
            raise RuntimeError("this condition has been freed already")
        if call and not self._mutex.locked():
            raise RuntimeError(f"this process must hold the mutex of the condition to {call}")

    def acquire(self, blocking: bool = True) -> bool:
        """Acquire the lock; see `Mutex.acquire`."""
        self._check()
        return self._mutex.acquire(blocking)

    def release(self) -> None:
        """Release the lock; see `Mutex.release`."""
        self._check()
        self._mutex.release()

    def locked(self) -> bool:
        """Return True if this process holds the lock."""
        return self._mutex.locked()

    def wait(self) -> bool:
        """Release the lock, wait for a notification, and acquire the lock again.

        Returns:
            True.

        Raises:
            RuntimeError: this process does not hold the lock, or the condition has been freed.
        """
        self._check("wait")
        held, self._mutex._held = self._mutex._held, 0
        try:
            self._mutex._shared.ask("wait", self._number, undo=("release",))
        except MPIError:
            raise
        except BaseException:  # the lock is held afterwards, as with `threading.Condition`
            self._mutex.acquire()
            self._mutex._held = held
            raise
        self._mutex._held = held
        return True

    def wait_for(self, predicate: Callable[[], T]) -> T:
        """Wait until a function returns a true value, and return this value."""
        result = predicate()
        while not result:
            self.wait()
            result = predicate()
        return result

    def notify(self, n: int = 1) -> int:
        """Notify at most `n` waiting processes, the longest-waiting first.

        Returns:
            The number of notified processes.

        Raises:
            RuntimeError: this process does not hold the lock, or the condition has been freed.
        """
        self._check("notify")
        return int(self._mutex._shared.ask("notify", self._number, max(0, n)))

    def notify_all(self) -> int:
        """Notify all processes that wait; see `notify`."""
        return self.notify(self._mutex._shared.comm.size)

    def free(self) -> None:
        """Free the condition, and its lock if the condition has created that lock; a collective call."""
        self._freed = True
        if self._owned:
            self._mutex.free()
