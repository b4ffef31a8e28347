"""The master's side: `Workers` gives the tasks of executors, which wait in a `Queue` for each, to its workers.

Each worker has a lane, a coroutine that awaits requests: it takes a task, sends the call and waits for the answer. So
the engine of the rank makes all progress, and both faces share this module. A worker has one task at a time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import BrokenExecutor
from typing import Any, Final

from aiompi.comm import Communicator
from aiompi.engine import Request
from aiompi.engine.schedule import settled
from aiompi.errors import Exception as MPIException
from aiompi.errors import JobAbortedError, ProcessFailedError
from aiompi.futures.task import Call, Failure, Success, Task, original_error
from aiompi.objects import Codec

#: tags on the communicator between the master and its workers
CALL: Final = 1
ANSWER: Final = 2

_WORKER_LOST: Final = (ProcessFailedError, JobAbortedError)


class Queue:
    """The tasks of one executor.

    Args:
        size: number of workers, and so of tasks in progress at once.
        setup: calls that each worker makes before its first task of this executor.

    Attributes:
        pending: tasks that no worker has yet.
        active: number of tasks that workers have.
        broken: error of all tasks from now on, None while tasks can be done.
        closed: True if no further tasks will come.
        initialized: ranks that have made the calls of the setup.
    """

    def __init__(self, size: int, setup: Sequence[Call] = ()) -> None:
        self.size = size
        self.setup = setup
        self.pending: deque[Task] = deque()
        self.active = 0
        self.broken: BrokenExecutor | None = None
        self.closed = False
        self.initialized: set[int] = set()

    @property
    def idle(self) -> bool:
        return not self.pending and not self.active

    def take(self) -> Task | None:
        """Return a task for a worker; None if there is none, or as many as allowed are in progress."""
        while self.pending and self.active < self.size:
            task = self.pending.popleft()
            if task.promise.start():
                self.active += 1
                return task
        return None

    def fail(self, error: BrokenExecutor) -> None:
        """Fail all tasks that no worker has, and all that come later."""
        self.broken = error
        while self.pending:
            task = self.pending.popleft()
            if task.promise.start():
                task.promise.fail(error)


class Workers:
    """The workers of this rank: all other ranks of a communicator, or this one if there is no other.

    Args:
        core: communicator, which is used for nothing else.
        codec: makes messages of calls and answers.
    """

    def __init__(self, core: Communicator, codec: Codec) -> None:
        self._core = core
        self._codec = codec
        self._queues: list[Queue] = []
        self._idle: deque[Request[None]] = deque()
        self._dismissed = False
        ranks = [rank for rank in range(core.size) if rank != core.rank] or [core.rank]
        self._lanes = [core.run(self._lane(rank)) for rank in ranks]

    def __len__(self) -> int:
        """Return the number of workers that have not failed."""
        return sum(not lane.done() for lane in self._lanes)

    def add(self, queue: Queue) -> None:
        """Serve the tasks of one more executor."""
        self._queues.append(queue)

    def submit(self, queue: Queue, task: Task) -> None:
        """Have a worker do a task of an executor when one is free."""
        queue.pending.append(task)
        self._offer(queue)

    def _offer(self, queue: Queue) -> None:
        if self._idle and queue.pending and queue.active < queue.size:
            self._idle.popleft().complete()

    def dismiss(self) -> Request[Any]:
        """Dismiss the workers when all tasks are done.

        Returns:
            A request that is complete when all lanes have ended.
        """
        self._dismissed = True
        while self._idle:
            self._idle.popleft().complete()
        return self._core.engine.spawn(settled(self._lanes))

    # Lanes.

    async def _lane(self, rank: int) -> None:
        while (found := await self._next()) is not None:
            queue, task = found
            try:
                await self._serve(rank, queue, task)
            except _WORKER_LOST as error:
                self._worker_lost(rank, error)
                raise
            finally:
                queue.active -= 1
            self._offer(queue)
        await self._core.send(*self._codec.dumps(None), rank, CALL)

    async def _next(self) -> tuple[Queue, Task] | None:
        """Wait for a task, and return it with its queue; None if the workers are dismissed and no task is left."""
        while True:
            for queue in [*self._queues]:
                task = queue.take()
                if task is not None:
                    self._queues.remove(queue)
                    self._queues.append(queue)  # executors take turns
                    return queue, task
                if queue.closed and queue.idle:
                    self._queues.remove(queue)
            if self._dismissed:
                return None
            free: Request[None] = Request(self._core.engine)
            self._idle.append(free)
            await free

    async def _serve(self, rank: int, queue: Queue, task: Task) -> None:
        if rank not in queue.initialized and queue.broken is None:
            await self._set_up(rank, queue)
        if queue.broken is not None:
            self._call_soon(task.promise.fail, queue.broken)
            return
        try:
            answer = await self._ask(rank, task.call)
        except _WORKER_LOST as error:
            self._call_soon(task.promise.fail, _broken(rank, error))
            raise
        self._call_soon(answer.settle, task.promise)

    async def _set_up(self, rank: int, queue: Queue) -> None:
        for call in queue.setup:
            answer = await self._ask(rank, call)
            if isinstance(answer, Failure):
                error = _not_initialized(rank, answer)
                self._call_soon(queue.fail, error)
                queue.broken = error
                return
        queue.initialized.add(rank)

    async def _ask(self, rank: int, call: Call) -> Success | Failure:
        """Have a worker make a call, and return the answer: a failure if it or the call cannot be pickled or unpickled.

        Raises:
            ProcessFailedError: the process of the worker has failed.
        """
        try:
            message = self._codec.dumps(call)
        except MPIException as error:
            return Failure(original_error(error), "")
        receiving = self._core.irecv(None, rank, ANSWER, memoryview)
        await self._core.send(*message, rank, CALL)
        data = await receiving
        try:
            answer: Success | Failure = self._codec.loads(data)
        except MPIException as error:
            return Failure(original_error(error), "")
        return answer

    def _worker_lost(self, rank: int, error: Exception) -> None:
        if len(self) <= 1:  # the lane that makes this call has not ended
            for queue in self._queues:
                queue.fail(_broken(rank, error))

    def _call_soon(self, function: Callable[..., object], *args: Any) -> None:
        """Call a function that may run callbacks of the program later, outside of the engine."""
        self._core.engine.driver.call_soon(function, *args)


def _not_initialized(rank: int, answer: Failure) -> BrokenExecutor:
    """Return the error of an executor whose setup has failed in a worker."""
    error = BrokenExecutor(f"the worker of rank {rank} could not be initialized: {answer.error!r}")
    error.__cause__ = answer.with_trace()
    return error


def _broken(rank: int, cause: Exception) -> BrokenExecutor:
    error = BrokenExecutor(f"the worker of rank {rank} is gone: {cause}")
    error.__cause__ = cause
    return error
