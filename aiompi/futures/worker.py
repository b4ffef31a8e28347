"""The worker's side: receive a call, make it, send the answer, until there is nothing more to do."""

from __future__ import annotations

import asyncio
import inspect

from aiompi.comm import Communicator
from aiompi.engine import Request
from aiompi.errors import Exception as MPIException
from aiompi.face.blocking.process import process
from aiompi.futures.task import Call, Failure, Success, culprit, failure, perform
from aiompi.futures.workers import ANSWER, CALL
from aiompi.objects import Codec


class Worker:
    """What a worker says to its master; how it waits and makes calls is for its face to know.

    Args:
        core: of the communicator between the master and its workers; no other traffic may be on it.
        codec: makes messages of calls and answers.
        master: its rank.
    """

    def __init__(self, core: Communicator, codec: Codec, master: int) -> None:
        self._core = core
        self._codec = codec
        self._master = master

    @property
    def is_alone(self) -> bool:
        """True if the communicator has no other rank, so that the master's own process is the worker."""
        return self._core.size == 1

    def receive(self) -> Request[memoryview]:
        """Start receiving a call."""
        return self._core.irecv(None, self._master, CALL, memoryview)

    def read(self, message: memoryview) -> Call | Failure | None:
        """The call; the answer to one that cannot be unpickled here; None when there is nothing more to do."""
        try:
            call: Call | None = self._codec.loads(message)
        except MPIException as error:
            return failure(culprit(error))
        return call

    def answer(self, answer: Success | Failure) -> Request[None]:
        """Start sending an answer; a result that is no message is a failure."""
        try:
            message = self._codec.dumps(answer)
        except MPIException as error:
            message = self._codec.dumps(failure(culprit(error)))
        return self._core.send(*message, self._master, ANSWER)


def serve(worker: Worker) -> None:
    """Serve the master in a program of the blocking face."""
    driver = process.driver
    while True:
        with driver.exclusive("a task"):
            call = worker.read(driver.wait(worker.receive()))
        if call is None:
            return
        answer = call if isinstance(call, Failure) else perform(call)
        with driver.exclusive("a task"):
            driver.wait(worker.answer(answer))


async def serve_async(worker: Worker) -> None:
    """Serve the master in an asyncio program: coroutine functions are awaited, others are called in a thread."""
    while (call := worker.read(await worker.receive())) is not None:
        await worker.answer(call if isinstance(call, Failure) else await _perform(call))


async def _perform(call: Call) -> Success | Failure:
    function, args, kwargs = call
    if not inspect.iscoroutinefunction(function):
        return await asyncio.to_thread(perform, call)
    try:
        return Success(await function(*args, **kwargs))
    except Exception as error:
        return failure(error)
