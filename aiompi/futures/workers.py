"""The master's side: which worker does which task.

For each worker there is one coroutine of requests, its lane: it takes a task, sends the call, waits for the answer. So
the engine of the rank does all the work, in whatever way it makes progress, and both faces share it. A worker has one
task at a time.
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
from aiompi.futures.task import Call, Failure, Success, Task, culprit
from aiompi.objects import Codec

#: tags on the communicator between the master and its workers
CALL: Final = 1
ANSWER: Final = 2

_GONE: Final = (ProcessFailedError, JobAbortedError)


class Queue:
    """The tasks of one executor.

    Args:
        limit: how many of them may be under way at once.
        setup: calls that each worker makes before its first task of this executor.

    Attributes:
        pending: tasks that no worker has yet.
        active: number of tasks that workers have.
        broken: why no task can be done any more.
        closed: whether there will be no further ones.
        ready: ranks that have made these calls.
    """

    def __init__(self, limit: int, setup: Sequence[Call] = ()) -> None:
        self.limit = limit
        self.setup = setup
        self.pending: deque[Task] = deque()
        self.active = 0
        self.broken: BrokenExecutor | None = None
        self.closed = False
        self.ready: set[int] = set()

    @property
    def idle(self) -> bool:
        return not self.pending and not self.active

    def take(self) -> Task | None:
        """A task for a worker, if there is one, and not too many are under way."""
        while self.pending and self.active < self.limit:
            task = self.pending.popleft()
            if task.promise.start():
                self.active += 1
                return task
        return None

    def fail(self, error: BrokenExecutor) -> None:
        """No task can be done any more."""
        self.broken = error
        while self.pending:
            task = self.pending.popleft()
            if task.promise.start():
                task.promise.fail(error)


class Workers:
    """All ranks of a communicator but this one, which serve this one; this one too, if it is alone.

    Args:
        core: of the communicator; no other traffic may be on it.
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
        """How many there are that have not failed."""
        return sum(not lane.done() for lane in self._lanes)

    def add(self, queue: Queue) -> None:
        """Serve the tasks of one more executor."""
        self._queues.append(queue)

    def submit(self, queue: Queue, task: Task) -> None:
        """Have a task done when it is its turn."""
        queue.pending.append(task)
        self._offer(queue)

    def _offer(self, queue: Queue) -> None:
        if self._idle and queue.pending and queue.active < queue.limit:
            self._idle.popleft().complete()

    def dismiss(self) -> Request[Any]:
        """Tell the workers that there will be nothing more to do: complete when all lanes have ended."""
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
            except _GONE as error:
                self._lost(rank, error)
                raise
            finally:
                queue.active -= 1
            self._offer(queue)
        await self._core.send(*self._codec.dumps(None), rank, CALL)

    async def _next(self) -> tuple[Queue, Task] | None:
        """A task to be done; None when there will not be any."""
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
        if rank not in queue.ready and queue.broken is None:
            await self._set_up(rank, queue)
        if queue.broken is not None:
            self._later(task.promise.fail, queue.broken)
            return
        try:
            answer = await self._ask(rank, task.call)
        except _GONE as error:
            self._later(task.promise.fail, _broken(rank, error))
            raise
        self._later(answer.tell, task.promise)

    async def _set_up(self, rank: int, queue: Queue) -> None:
        for call in queue.setup:
            answer = await self._ask(rank, call)
            if isinstance(answer, Failure):
                error = not_ready(rank, answer)
                self._later(queue.fail, error)
                queue.broken = error
                return
        queue.ready.add(rank)

    async def _ask(self, rank: int, call: Call) -> Success | Failure:
        """Have a worker make a call; one that cannot be pickled, or whose answer cannot be unpickled, fails.

        Raises:
            ProcessFailedError: it is gone.
        """
        try:
            message = self._codec.dumps(call)
        except MPIException as error:
            return Failure(culprit(error), "")
        receiving = self._core.irecv(None, rank, ANSWER, memoryview)
        await self._core.send(*message, rank, CALL)
        data = await receiving
        try:
            answer: Success | Failure = self._codec.loads(data)
        except MPIException as error:
            return Failure(culprit(error), "")
        return answer

    def _lost(self, rank: int, error: Exception) -> None:
        if len(self) <= 1:  # the lane that tells this
            for queue in self._queues:
                queue.fail(_broken(rank, error))

    def _later(self, tell: Callable[..., object], *args: Any) -> None:
        """Call what may call back the program when the engine is not in the midst of anything."""
        self._core.engine.driver.call_soon(tell, *args)


def not_ready(rank: int, answer: Failure) -> BrokenExecutor:
    """What becomes of an executor whose initializer fails."""
    error = BrokenExecutor(f"the worker of rank {rank} could not make itself ready: {answer.error!r}")
    error.__cause__ = answer.with_trace()
    return error


def _broken(rank: int, cause: Exception) -> BrokenExecutor:
    error = BrokenExecutor(f"the worker of rank {rank} is gone: {cause}")
    error.__cause__ = cause
    return error
