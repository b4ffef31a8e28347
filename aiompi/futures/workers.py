"""The master's side: `Workers` gives the tasks of executors, which wait in a `Queue` for each, to its workers.

Each worker has a lane, which listens to its answers as long as the worker lives. Each task in progress is a coroutine
that awaits requests. So the engine of the rank makes all progress, and both faces share this module. A worker has one
function at a time, and beside it as many coroutine functions as their executor allows.
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
from aiompi.errors import Exception as MPIException
from aiompi.errors import JobAbortedError, ProcessFailedError
from aiompi.futures.task import Call, Failure, Success, Task, original_error
from aiompi.objects import Codec, Segment

#: tags on the communicator between the master and its workers
CALL: Final = 1
ANSWER: Final = 2
#: number of the dismissal of a worker, and of its last answer
FAREWELL: Final = 0xFFFF_FFFF
#: number with which a worker says that it leaves: it begins no call any more, and says farewell after those in progress
LEAVING: Final = FAREWELL - 1
#: coroutine functions that a worker runs at once by default
CONCURRENCY: Final = 16

#: the module that runs in a worker that has been started
SERVER: Final = "aiompi.futures.server"
#: name of a service that does not say it, as in mpi4py
SERVICE: Final = "mpi4py.futures"

_NUMBER_BYTES: Final = 4
_WORKER_LOST: Final = (ProcessFailedError, JobAbortedError)


class _NotBegun(Exception):
    """A worker has left without having begun a call."""


def with_number(pieces: Sequence[Segment], nbytes: int, number: int) -> tuple[list[Segment], int]:
    """Return a message that ends with the number of its call, which can be read even if the rest cannot."""
    return [*pieces, number.to_bytes(_NUMBER_BYTES, "little")], nbytes + _NUMBER_BYTES


def split_number(message: memoryview) -> tuple[int, memoryview]:
    """Return the number at the end of a message, and the rest."""
    return int.from_bytes(message[-_NUMBER_BYTES:], "little"), message[:-_NUMBER_BYTES]


def recruiter(
    core: Communicator, executable: str | None = None, arguments: Sequence[str] = ()
) -> Callable[[int], Request[Communicator]]:
    """Return a function that starts processes as workers, and returns the intercommunicator with them.

    Args:
        core: communicator of this process alone.
        executable: interpreter of the workers; None for that of this process.
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
        retries: number of times that a task is given to another worker because its worker has failed.
        concurrency: coroutine functions that a worker runs at once.

    Attributes:
        pending: tasks that no worker has yet: those of functions, then those of coroutine functions.
        active: number of tasks of each of the two kinds that workers have.
        broken: error of all tasks from now on, None while tasks can be done.
        closed: True if no further tasks will come.
        initializing, initialized: lanes whose workers make the calls of the setup, or have made them.

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
        self.initializing: set[Lane] = set()
        self.initialized: set[Lane] = set()

    @property
    def size(self) -> int:
        """Number of workers that the executor uses now; 0 once it is broken."""
        workers = len(self.workers)
        return 0 if self.broken is not None else workers if self.limit is None else min(self.limit, workers)

    @property
    def idle(self) -> bool:
        return not any(self.pending) and not any(self.active)

    def may_begin(self, is_async: bool) -> bool:
        """Return True if there is a task of this kind, and fewer than allowed are in progress."""
        if self.broken is not None or not self.pending[is_async]:
            return False
        return self.limit is None or self.active[is_async] < self.limit * (self.concurrency if is_async else 1)

    def take(self, is_async: bool) -> Task | None:
        """Return the next task of a kind; None if there is none that has not been cancelled."""
        pending = self.pending[is_async]
        while pending:
            task = pending.popleft()
            if task.promise.start():
                self.active[is_async] += 1
                return task
        return None


class Lane:
    """One worker, as the master knows it.

    Args:
        core: communicator with the worker, which is used for nothing else.
        rank: of the worker.

    Attributes:
        has_function: True while the worker has a task whose function is no coroutine function.
        coroutines: number of tasks of coroutine functions that the worker has.
        leaving: True if the worker begins no call any more.
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
        """Hand out the answers of the worker until it says farewell.

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
        """Have the worker make a call, and return the answer: a failure if it or the call cannot be (un)pickled.

        Args:
            task: gets the number of the call, so that it can be withdrawn.

        Raises:
            ProcessFailedError, JobAbortedError: the worker has failed.
            _NotBegun: it has left before.
        """
        try:
            message = self._codec.dumps(call)
        except MPIException as error:
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
        except MPIException as error:
            return Failure(original_error(error), "")
        return answer

    def withdraw(self, number: int) -> None:
        """Cancel a coroutine function, whose answer is still to come."""
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
        recruit: starts as many processes as it is told, and returns the intercommunicator with them, which is used for
            nothing else. With it, a worker that has failed is replaced.
    """

    def __init__(
        self, engine: Engine, codec: Codec, recruit: Callable[[int], Request[Communicator]] | None = None
    ) -> None:
        self.engine = engine
        self._codec = codec
        self._recruit = recruit
        self._queues: list[Queue] = []
        self._lanes: list[Lane] = []
        self._crews: list[Request[None]] = []
        self._idle: Request[None] | None = None
        self._error: BrokenExecutor | None = None
        self._dismissal: Request[None] | None = None
        self._arrivals: list[Request[None]] = []
        self._doors: list[Request[None]] = []
        self._closing: Request[None] = Request(engine)

    def __len__(self) -> int:
        """Return the number of workers that have not failed and do not leave."""
        return sum(not lane.leaving for lane in self._lanes)

    def hire(self, core: Communicator) -> None:
        """Take the remote group of a communicator as workers, or its other ranks, or this one if there is no other.

        Args:
            core: communicator, which is used for nothing else. An intercommunicator is freed at the end.
        """
        everyone = range(core.size if core.remote is None else core.remote.size)
        ranks = [rank for rank in everyone if core.remote is not None or rank != core.rank] or [core.rank]
        lanes = [Lane(core, rank, self._codec) for rank in ranks]
        self._lanes += lanes
        self._crews = [crew for crew in self._crews if not crew.done()]
        self._crews.append(core.run(self._accompany(core, lanes)))
        self._assign()

    async def _accompany(self, core: Communicator, lanes: list[Lane]) -> None:
        await settled([core.run(self._listen(lane)) for lane in lanes])
        if core.remote is not None:
            free(core)

    def start(self, count: int) -> None:
        """Start processes that become workers."""
        if self._recruit is not None:
            self.await_crew(self._recruit(count))

    def await_crew(self, coming: Request[Communicator]) -> None:
        """Take the remote group of a communicator as workers once there is one; see `hire`."""
        self._arrivals = [*self.arriving, self.engine.spawn(self._await_crew(coming))]

    async def admit(self, core: Communicator) -> str:
        """Let other processes become workers whenever they like, until the workers are dismissed.

        Args:
            core: communicator of this process alone.

        Returns:
            The name of the port to which they connect. It contains the key that lets them in.
        """
        port = await ports.open_port(self.engine)
        self._doors.append(self.engine.spawn(self._admit(core, port)))
        return port

    async def _admit(self, core: Communicator, port: str) -> None:
        while not self._closing.done():
            try:
                self.hire(await ports.accept(core, port, 0, self._closing))
            except MPIException as error:
                if isinstance(error, JobAbortedError):
                    return
        ports.close_port(self.engine, port)

    @property
    def arriving(self) -> list[Request[None]]:
        """Requests that complete when workers that have been started are there."""
        return [arrival for arrival in self._arrivals if not arrival.done()]

    async def _await_crew(self, coming: Request[Communicator]) -> None:
        try:
            self.hire(await coming)
        except Exception as error:
            if not self._lanes and len(self.arriving) <= 1:  # this call
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
        """Have a worker do a task of an executor when one is free."""
        queue.pending[task.is_async].append(task)
        if queue.broken is None:
            self._assign()
        else:
            self._call_soon(self._fail_all, queue)

    def withdraw(self, task: Task) -> None:
        """Cancel the coroutine function of a task, if a worker has begun it."""
        if task.place is not None and task.is_async:
            lane, number = task.place
            if lane in self._lanes:
                lane.withdraw(number)

    def dismiss(self) -> Request[None]:
        """Dismiss the workers when all tasks are done. Further calls return the same request.

        Returns:
            A request that is complete when no worker is left.
        """
        if self._dismissal is None:
            self._dismissal = self.engine.spawn(self._dismiss())
        return self._dismissal

    async def _dismiss(self) -> None:
        await settled(self.arriving)
        if not all(queue.idle for queue in self._queues):
            self._idle = Request(self.engine)
            await self._idle
        self._recruit = None
        self._closing.complete()
        await settled(self._doors)
        await settled(self.arriving)  # those that replace others
        for lane in [*self._lanes]:
            await lane.dismiss()
        await settled(self._crews)

    async def _listen(self, lane: Lane) -> None:
        try:
            await lane.listen()
        except _WORKER_LOST as error:
            self._lost(lane, error)
        else:
            self._forget(lane)
            if lane.leaving:
                self._check_left(BrokenExecutor("there are no workers any more: the last one has left"))
                self._assign()

    def _forget(self, lane: Lane) -> None:
        self._lanes.remove(lane)
        for queue in self._queues:
            queue.initializing.discard(lane)
            queue.initialized.discard(lane)

    def _check_left(self, error: BrokenExecutor) -> None:
        """Break all executors if there are no workers, and none can come."""
        if not self._lanes and not self.arriving and not self._doors:
            self._give_up(error)

    def _lost(self, lane: Lane, error: Exception) -> None:
        """Give up a worker that has failed. Its tasks notice it themselves.

        Another one takes its place, unless it has failed while it was initialized, as others would as well.
        """
        if lane not in self._lanes:
            return
        unfit = any(lane in queue.initializing for queue in self._queues)
        self._forget(lane)
        if not unfit and not isinstance(error, JobAbortedError):
            self.start(1)
        self._check_left(_broken(lane, error))
        lane.fail(error)

    def _give_up(self, error: BrokenExecutor) -> None:
        """Break all executors, also those to come, because there are no workers any more."""
        self._error = error
        for queue in self._queues:
            self._break(queue, error)

    def _break(self, queue: Queue, error: BrokenExecutor) -> None:
        """Fail the tasks of an executor, now and later."""
        if queue.broken is None:
            queue.broken = error
            self._call_soon(self._fail_all, queue)

    def _fail_all(self, queue: Queue) -> None:
        """Fail the tasks of a broken executor that no worker has."""
        assert queue.broken is not None
        for pending in queue.pending:
            while pending:
                task = pending.popleft()
                if task.promise.start():
                    task.promise.fail(queue.broken)
        self._assign()

    def _assign(self) -> None:
        """Give tasks to workers, as long as there are both. Executors take turns."""
        for is_async in (False, True):
            waiting = deque(queue for queue in self._queues if queue.may_begin(is_async))
            while waiting:
                queue = waiting.popleft()
                lane = self._choose(queue, is_async)
                task = None if lane is None else queue.take(is_async)
                if lane is not None and task is not None:
                    self._begin(lane, queue, task)
                    if queue.may_begin(is_async):
                        waiting.append(queue)
        self._queues = [queue for queue in self._queues if not (queue.closed and queue.idle)]
        if self._idle is not None and all(queue.idle for queue in self._queues):
            self._idle.complete()

    def _choose(self, queue: Queue, is_async: bool) -> Lane | None:
        """Return the worker with the fewest tasks that can begin one more, None if there is none."""
        ready = (
            lane
            for lane in self._lanes
            if (lane.coroutines < queue.concurrency if is_async else not lane.has_function)
            and not lane.leaving
            and lane not in queue.initializing
        )
        return min(ready, key=lambda lane: lane.coroutines + lane.has_function, default=None)

    def _begin(self, lane: Lane, queue: Queue, task: Task) -> None:
        lane.coroutines += task.is_async
        lane.has_function |= not task.is_async
        self.engine.spawn(self._serve(lane, queue, task))

    async def _serve(self, lane: Lane, queue: Queue, task: Task) -> None:
        try:
            if lane not in queue.initialized and queue.broken is None:
                await self._set_up(lane, queue)
            if queue.broken is not None:
                self._call_soon(task.promise.fail, queue.broken)
            else:
                answer = await lane.ask(task.call, task)
                self._call_soon(answer.settle, task.promise)
        except _WORKER_LOST as error:
            self._lost(lane, error)
            self._try_again(lane, queue, task, error)
        except _NotBegun:
            if queue.broken is None:
                queue.pending[task.is_async].appendleft(task)
            else:
                self._call_soon(task.promise.fail, queue.broken)
        finally:
            task.place = None
            queue.active[task.is_async] -= 1
            lane.coroutines -= task.is_async
            lane.has_function &= task.is_async
        self._assign()

    def _try_again(self, lane: Lane, queue: Queue, task: Task, error: Exception) -> None:
        """Put a task whose worker has failed in front of the others, if it may be run again; fail it otherwise."""
        if queue.broken is None and task.failures < queue.retries and not isinstance(error, JobAbortedError):
            task.failures += 1
            queue.pending[task.is_async].appendleft(task)
        else:
            self._call_soon(task.promise.fail, queue.broken or _broken(lane, error))

    async def _set_up(self, lane: Lane, queue: Queue) -> None:
        queue.initializing.add(lane)  # where it stays if the worker fails
        for call in queue.setup:
            answer = await lane.ask(call)
            if isinstance(answer, Failure):
                self._break(queue, _not_initialized(lane, answer))
                break
        else:
            queue.initialized.add(lane)
        queue.initializing.remove(lane)
        self._assign()

    def _call_soon(self, function: Callable[..., object], *args: Any) -> None:
        """Call a function that may run callbacks of the program later, outside of the engine."""
        self.engine.driver.call_soon(function, *args)


def _not_initialized(lane: Lane, answer: Failure) -> BrokenExecutor:
    """Return the error of an executor whose setup has failed in a worker."""
    error = BrokenExecutor(f"the worker of rank {lane.rank} could not be initialized: {answer.error!r}")
    error.__cause__ = answer.with_trace()
    return error


def _broken(lane: Lane, cause: Exception) -> BrokenExecutor:
    error = BrokenExecutor(f"the worker of rank {lane.rank} has failed: {cause}")
    error.__cause__ = cause
    return error
