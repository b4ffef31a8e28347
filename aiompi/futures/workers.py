"""The master's side: each executor has a `Queue` of tasks, and `Workers` gives the tasks to the workers.

For each worker there is a `WorkerProxy`, which receives the answers of this worker until the worker ends. Each task in
progress is a coroutine that awaits requests. The engine of the rank resumes these coroutines, so both faces can share
this module. A worker runs one plain function at a time, and besides as many coroutine functions as the executor allows.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import BrokenExecutor
from typing import Any, Final

from aiompi.comm import Communicator
from aiompi.create import ports
from aiompi.create.free import free
from aiompi.engine import Engine, Request
from aiompi.engine.processes import Program
from aiompi.engine.schedule import settled
from aiompi.errors import JobAbortedError, MPIError, ProcessFailedError
from aiompi.futures.task import Call, Failure, Success, Task, original_error
from aiompi.objects import Codec, Segment

#: tags on the communicator between the master and its workers
CALL: Final = 1
ANSWER: Final = 2
#: number of the message that dismisses a worker, and of the worker's last answer
FAREWELL: Final = 0xFFFF_FFFF
#: number of the message by which a worker leaves: it begins no further call, and sends FAREWELL after the calls in
#: progress
LEAVING: Final = FAREWELL - 1
#: coroutine functions that a worker runs at once by default
CONCURRENCY: Final = 16

#: the module that a started worker runs
SERVER: Final = "aiompi.futures.server"
#: default name of a service, as in mpi4py
SERVICE: Final = "mpi4py.futures"

_NUMBER_BYTES: Final = 4
_WORKER_LOST: Final = (ProcessFailedError, JobAbortedError)


class _NotBegun(Exception):
    """A worker has left without having begun a call."""


def with_number(pieces: Sequence[Segment], nbytes: int, number: int) -> tuple[list[Segment], int]:
    """Return a message that ends with the number of its call: the number is readable even if the rest is not."""
    return [*pieces, number.to_bytes(_NUMBER_BYTES, "little")], nbytes + _NUMBER_BYTES


def split_number(message: memoryview) -> tuple[int, memoryview]:
    """Return the number at the end of a message, and the rest."""
    return int.from_bytes(message[-_NUMBER_BYTES:], "little"), message[:-_NUMBER_BYTES]


def spawner(
    core: Communicator, executable: str | None = None, arguments: Sequence[str] = ()
) -> Callable[[int], Request[Communicator]]:
    """Return a function that starts processes as workers, and returns the intercommunicator with them.

    Args:
        core: communicator of this process alone.
        executable: interpreter of the workers; None for the interpreter of this process.
        arguments: more options of the interpreter.
    """
    flags = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
    command = (executable or sys.executable, *flags, *arguments, "-m", SERVER)
    return lambda count: ports.spawn(core, [Program(command, count)], 0, ["--on-failure=continue"])


class Queue:
    """The tasks of one executor; `Workers.open` makes it.

    Args:
        workers: do the tasks.
        limit: most workers that the executor uses, None for all.
        setup: calls that each worker makes before its first task of this executor.
        retries: how often a task is given to another worker after its worker has failed.
        concurrency: coroutine functions that a worker runs at once.

    Attributes:
        pending: (tasks of functions, tasks of coroutine functions) that have not been given to a worker.
        active: numbers of tasks in progress, with the indices of `pending`.
        broken: error of all tasks from now on; None while the executor works.
        closed: True if no further tasks will come.
        initializing, initialized: proxies of workers that are making, or have made, the calls of the setup.

    Raises:
        ValueError: the limit or the concurrency is not positive, or retries is negative.
    """

    def __init__(
        self, workers: Workers, limit: int | None, setup: Sequence[Call] = (), retries: int = 0,
        concurrency: int = CONCURRENCY,
    ) -> None:  # fmt: skip
        for name, value, least in (("max_workers", limit, 1), ("retries", retries, 0), ("concurrency", concurrency, 1)):
            if value is not None and value < least:
                raise ValueError(f"{name} must be at least {least}, not {value}")
        self.workers = workers
        self.limit = limit
        self.setup = setup
        self.retries = retries
        self.concurrency = concurrency
        self.pending: tuple[deque[Task], deque[Task]] = (deque(), deque())
        self.active = [0, 0]
        self.broken: BrokenExecutor | None = None
        self.closed = False
        self.initializing: set[WorkerProxy] = set()
        self.initialized: set[WorkerProxy] = set()

    @property
    def size(self) -> int:
        """Number of workers that the executor uses now; 0 once it is broken."""
        workers = len(self.workers)
        return 0 if self.broken is not None else workers if self.limit is None else min(self.limit, workers)

    @property
    def idle(self) -> bool:
        return not any(self.pending) and not any(self.active)

    def may_begin(self, is_async: bool) -> bool:
        """Return True if a task of this kind is pending, and the limit allows one more in progress."""
        if self.broken is not None or not self.pending[is_async]:
            return False
        return self.limit is None or self.active[is_async] < self.limit * (self.concurrency if is_async else 1)

    def take(self, is_async: bool) -> Task | None:
        """Return the next task of a kind that is not cancelled; None if there is no such task."""
        pending = self.pending[is_async]
        while pending:
            task = pending.popleft()
            if task.promise.start():
                self.active[is_async] += 1
                return task
        return None


class WorkerProxy:
    """One worker, as the master knows it.

    Args:
        core: communicator with the worker, used only for this.
        rank: of the worker.

    Attributes:
        has_function: True while the worker runs a task whose function is not a coroutine function.
        coroutines: number of coroutine functions that the worker runs.
        leaving: True if the worker begins no further call.
    """

    def __init__(self, core: Communicator, rank: int, codec: Codec) -> None:
        self.rank = rank
        self.has_function = self.leaving = self._left = False
        self.coroutines = 0
        self._core = core
        self._codec = codec
        self._calls: dict[int, Request[memoryview]] = {}
        self._last = 0

    async def listen(self) -> None:
        """Receive the answers of the worker until FAREWELL.

        Raises:
            ProcessFailedError, JobAbortedError: the worker has failed.
        """
        while True:
            message = await self._core.irecv(None, self.rank, ANSWER, memoryview)
            number, answer = split_number(message)
            if number == FAREWELL:
                self._left = True
                self.fail(_NotBegun())
                return
            if number == LEAVING:
                self.leaving = True
            else:
                self._calls.pop(number).complete(answer)

    async def ask(self, call: Call, task: Task | None = None) -> Success | Failure:
        """Let the worker make a call; return the answer. A call or answer that cannot be (un)pickled is a Failure.

        Args:
            task: gets the number of the call, so that it can be withdrawn.

        Raises:
            ProcessFailedError, JobAbortedError: the worker has failed.
            _NotBegun: the worker has left before it began the call.
        """
        try:
            message = self._codec.dumps(call)
        except MPIError as error:
            return Failure(original_error(error), "")
        number = self._last = (self._last + 1) % LEAVING
        answered = self._calls[number] = Request(self._core.engine)
        if task is not None:
            task.place = (self, number)
        try:
            await self._send(*message, number)
            answer: Success | Failure = self._codec.loads(await answered)
        except _WORKER_LOST:
            if self._left:
                raise _NotBegun from None
            raise
        except MPIError as error:
            return Failure(original_error(error), "")
        return answer

    def withdraw(self, number: int) -> None:
        """Cancel a coroutine function; its answer still comes."""
        self._core.run(settled([self._send((), 0, number)]))

    async def dismiss(self) -> None:
        """Dismiss the worker."""
        with contextlib.suppress(*_WORKER_LOST):
            await self._send((), 0, FAREWELL)

    def fail(self, error: Exception) -> None:
        """Fail all calls of a worker that has failed or left."""
        calls, self._calls = self._calls, {}
        for call in calls.values():
            call.fail(error)

    def _send(self, pieces: Sequence[Segment], nbytes: int, number: int) -> Request[None]:
        return self._core.send(*with_number(pieces, nbytes, number), self.rank, CALL)


class Workers:
    """The workers of this rank, and the executors that use them.

    Args:
        engine: of this rank.
        codec: makes messages of calls and answers.
        spawn: called with a number of processes; starts them, and returns an intercommunicator with them that only this
            object uses. If `spawn` is given, failed workers are replaced.
    """

    def __init__(
        self, engine: Engine, codec: Codec, spawn: Callable[[int], Request[Communicator]] | None = None
    ) -> None:
        self.engine = engine
        self._codec = codec
        self._spawn = spawn
        self._queues: list[Queue] = []
        self._proxies: list[WorkerProxy] = []
        self._listening: list[Request[None]] = []
        self._idle: Request[None] | None = None
        self._error: BrokenExecutor | None = None
        self._dismissal: Request[None] | None = None
        self._arrivals: list[Request[None]] = []
        self._ports: list[Request[None]] = []
        self._closing: Request[None] = Request(engine)

    def __len__(self) -> int:
        """Return the number of living workers that are not leaving."""
        return sum(not proxy.leaving for proxy in self._proxies)

    def add(self, core: Communicator) -> None:
        """Add workers: the remote group of a communicator or, on an intracommunicator, the other ranks.

        If this rank is alone in the intracommunicator, it is the worker itself.

        Args:
            core: communicator, used only for messages with the workers. An intercommunicator is freed at the end.
        """
        everyone = range(core.size if core.remote is None else core.remote.size)
        ranks = [rank for rank in everyone if core.remote is not None or rank != core.rank] or [core.rank]
        proxies = [WorkerProxy(core, rank, self._codec) for rank in ranks]
        self._proxies += proxies
        self._listening = [request for request in self._listening if not request.done()]
        self._listening.append(core.run(self._listen_to_all(core, proxies)))
        self._assign()

    async def _listen_to_all(self, core: Communicator, proxies: list[WorkerProxy]) -> None:
        await settled([core.run(self._listen(proxy)) for proxy in proxies])
        if core.remote is not None:
            free(core)

    def start(self, count: int) -> None:
        """Start processes that become workers."""
        if self._spawn is not None:
            self.add_when_ready(self._spawn(count))

    def add_when_ready(self, coming: Request[Communicator]) -> None:
        """Add the remote group of a communicator as workers once the communicator exists; see `add`."""
        self._arrivals = [*self.arriving, self.engine.spawn(self._add_when_ready(coming))]

    async def admit(self, core: Communicator) -> str:
        """Let other processes become workers at any time, until the workers are dismissed.

        Args:
            core: communicator of this process alone.

        Returns:
            The name of the port to which these processes connect. The name contains the key of the port.
        """
        port = await ports.open_port(self.engine)
        self._ports.append(self.engine.spawn(self._admit(core, port)))
        return port

    async def _admit(self, core: Communicator, port: str) -> None:
        while not self._closing.done():
            try:
                self.add(await ports.accept(core, port, 0, self._closing))
            except MPIError as error:
                if isinstance(error, JobAbortedError):
                    return
        ports.close_port(self.engine, port)

    @property
    def arriving(self) -> list[Request[None]]:
        """Requests that complete when started workers have connected."""
        return [arrival for arrival in self._arrivals if not arrival.done()]

    async def _add_when_ready(self, coming: Request[Communicator]) -> None:
        try:
            self.add(await coming)
        except Exception as error:
            if not self._proxies and len(self.arriving) <= 1:  # this call
                broken = BrokenExecutor(f"there are no workers: {error}")
                broken.__cause__ = error
                self._give_up(broken)

    def open(self, limit: int | None, **options: Any) -> Queue:
        """Serve the tasks of one more executor; the arguments are those of `Queue`."""
        queue = Queue(self, limit, **options)
        queue.broken = self._error
        self._queues.append(queue)
        return queue

    def submit(self, queue: Queue, task: Task) -> None:
        """Give a task of an executor to a worker when one is free."""
        queue.pending[task.is_async].append(task)
        if queue.broken is None:
            self._assign()
        else:
            self._call_soon(self._fail_all, queue)

    def withdraw(self, task: Task) -> None:
        """Cancel the coroutine function of a task, if a worker has begun it."""
        if task.place is not None and task.is_async:
            proxy, number = task.place
            if proxy in self._proxies:
                proxy.withdraw(number)

    def dismiss(self) -> Request[None]:
        """Dismiss the workers when all tasks are done. Further calls return the same request.

        Returns:
            A request that completes when no worker is left.
        """
        if self._dismissal is None:
            self._dismissal = self.engine.spawn(self._dismiss())
        return self._dismissal

    async def _dismiss(self) -> None:
        await settled(self.arriving)
        if not all(queue.idle for queue in self._queues):
            self._idle = Request(self.engine)
            await self._idle
        self._spawn = None
        self._closing.complete()
        await settled(self._ports)
        await settled(self.arriving)  # replacements of failed workers
        for proxy in [*self._proxies]:
            await proxy.dismiss()
        await settled(self._listening)

    async def _listen(self, proxy: WorkerProxy) -> None:
        try:
            await proxy.listen()
        except _WORKER_LOST as error:
            self._lost(proxy, error)
        else:
            self._forget(proxy)
            if proxy.leaving:
                self._check_left(BrokenExecutor("there are no workers any more: the last one has left"))
                self._assign()

    def _forget(self, proxy: WorkerProxy) -> None:
        self._proxies.remove(proxy)
        for queue in self._queues:
            queue.initializing.discard(proxy)
            queue.initialized.discard(proxy)

    def _check_left(self, error: BrokenExecutor) -> None:
        """Break all executors if there are no workers and none can join."""
        if not self._proxies and not self.arriving and not self._ports:
            self._give_up(error)

    def _lost(self, proxy: WorkerProxy, error: Exception) -> None:
        """Give up a failed worker; its tasks notice the failure themselves.

        Another worker replaces the failed one. A worker that failed during initialization is not replaced, because its
        successor would fail as well.
        """
        if proxy not in self._proxies:
            return
        unfit = any(proxy in queue.initializing for queue in self._queues)
        self._forget(proxy)
        if not unfit and not isinstance(error, JobAbortedError):
            self.start(1)
        self._check_left(_broken(proxy, error))
        proxy.fail(error)

    def _give_up(self, error: BrokenExecutor) -> None:
        """Break all executors, now and later, because there are no workers any more."""
        self._error = error
        for queue in self._queues:
            self._break(queue, error)

    def _break(self, queue: Queue, error: BrokenExecutor) -> None:
        """Fail the tasks of an executor, now and later."""
        if queue.broken is None:
            queue.broken = error
            self._call_soon(self._fail_all, queue)

    def _fail_all(self, queue: Queue) -> None:
        """Fail the pending tasks of a broken executor."""
        assert queue.broken is not None
        for pending in queue.pending:
            while pending:
                task = pending.popleft()
                if task.promise.start():
                    task.promise.fail(queue.broken)
        self._assign()

    def _assign(self) -> None:
        """Give tasks to workers, as long as there are tasks and free workers. Executors take turns."""
        for is_async in (False, True):
            waiting = deque(queue for queue in self._queues if queue.may_begin(is_async))
            while waiting:
                queue = waiting.popleft()
                proxy = self._choose(queue, is_async)
                task = None if proxy is None else queue.take(is_async)
                if proxy is not None and task is not None:
                    self._begin(proxy, queue, task)
                    if queue.may_begin(is_async):
                        waiting.append(queue)
        self._queues = [queue for queue in self._queues if not (queue.closed and queue.idle)]
        if self._idle is not None and all(queue.idle for queue in self._queues):
            self._idle.complete()

    def _choose(self, queue: Queue, is_async: bool) -> WorkerProxy | None:
        """Return the proxy of the least busy worker that can take one more task of this kind; None if no worker can."""
        ready = (
            proxy
            for proxy in self._proxies
            if (proxy.coroutines < queue.concurrency if is_async else not proxy.has_function)
            and not proxy.leaving
            and proxy not in queue.initializing
        )
        return min(ready, key=lambda proxy: proxy.coroutines + proxy.has_function, default=None)

    def _begin(self, proxy: WorkerProxy, queue: Queue, task: Task) -> None:
        proxy.coroutines += task.is_async
        proxy.has_function |= not task.is_async
        self.engine.spawn(self._serve(proxy, queue, task))

    async def _serve(self, proxy: WorkerProxy, queue: Queue, task: Task) -> None:
        try:
            if proxy not in queue.initialized and queue.broken is None:
                await self._set_up(proxy, queue)
            if queue.broken is not None:
                self._call_soon(task.promise.fail, queue.broken)
            else:
                answer = await proxy.ask(task.call, task)
                self._call_soon(answer.settle, task.promise)
        except _WORKER_LOST as error:
            self._lost(proxy, error)
            self._try_again(proxy, queue, task, error)
        except _NotBegun:
            if queue.broken is None:
                queue.pending[task.is_async].appendleft(task)
            else:
                self._call_soon(task.promise.fail, queue.broken)
        finally:
            task.place = None
            queue.active[task.is_async] -= 1
            proxy.coroutines -= task.is_async
            proxy.has_function &= task.is_async
        self._assign()

    def _try_again(self, proxy: WorkerProxy, queue: Queue, task: Task, error: Exception) -> None:
        """Put a task whose worker has failed at the front of the queue if a retry is left; otherwise fail the task."""
        if queue.broken is None and task.failures < queue.retries and not isinstance(error, JobAbortedError):
            task.failures += 1
            queue.pending[task.is_async].appendleft(task)
        else:
            self._call_soon(task.promise.fail, queue.broken or _broken(proxy, error))

    async def _set_up(self, proxy: WorkerProxy, queue: Queue) -> None:
        queue.initializing.add(proxy)  # it stays there if the worker fails
        for call in queue.setup:
            answer = await proxy.ask(call)
            if isinstance(answer, Failure):
                self._break(queue, _not_initialized(proxy, answer))
                break
        else:
            queue.initialized.add(proxy)
        queue.initializing.remove(proxy)
        self._assign()

    def _call_soon(self, function: Callable[..., object], *args: Any) -> None:
        """Call a function in a later turn of the event loop, outside the engine: it may run the program's callbacks."""
        self.engine.driver.call_soon(function, *args)


def _not_initialized(proxy: WorkerProxy, answer: Failure) -> BrokenExecutor:
    """Return the error of an executor whose setup has failed in a worker."""
    error = BrokenExecutor(f"the worker of rank {proxy.rank} could not be initialized: {answer.error!r}")
    error.__cause__ = answer.with_trace()
    return error


def _broken(proxy: WorkerProxy, cause: Exception) -> BrokenExecutor:
    error = BrokenExecutor(f"the worker of rank {proxy.rank} has failed: {cause}")
    error.__cause__ = cause
    return error
