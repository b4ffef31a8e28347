"""The worker's side: receive a call, make it, send the answer, until the master dismisses the worker."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
from typing import Any

from aiompi.comm import Communicator
from aiompi.engine import Request
from aiompi.errors import Exception as MPIException
from aiompi.face.blocking.process import process
from aiompi.futures.task import Call, Failure, Success, apply_to_all, failure, original_error, perform
from aiompi.futures.workers import ANSWER, CALL
from aiompi.objects import Codec


class Worker:
    """The messages between a worker and its master. The face of the worker decides how it waits and makes calls.

    Args:
        core: communicator of the master and its workers, which is used for nothing else.
        codec: makes messages of calls and answers.
        master: rank of the master.
    """

    def __init__(self, core: Communicator, codec: Codec, master: int) -> None:
        self._core = core
        self._codec = codec
        self._master = master

    @property
    def is_alone(self) -> bool:
        """True if the communicator has one rank, whose process is both the master and the worker."""
        return self._core.size == 1

    def receive(self) -> Request[memoryview]:
        """Start receiving a call."""
        return self._core.irecv(None, self._master, CALL, memoryview)

    def read(self, message: memoryview) -> Call | Failure | None:
        """Return the call, None for a dismissal, or the answer to a call that cannot be unpickled."""
        try:
            call: Call | None = self._codec.loads(message)
        except MPIException as error:
            return failure(original_error(error))
        return call

    def answer(self, answer: Success | Failure) -> Request[None]:
        """Start sending an answer; a result that cannot be sent becomes a failure."""
        try:
            message = self._codec.dumps(answer)
        except MPIException as error:
            message = self._codec.dumps(failure(original_error(error)))
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
    """Serve the master in an asyncio program: await coroutine functions, and call others in a thread."""
    context = contextvars.copy_context()
    while (call := worker.read(await worker.receive())) is not None:
        await worker.answer(call if isinstance(call, Failure) else await _perform_in_task(call, context))


async def _perform_in_task(call: Call, context: contextvars.Context) -> Success | Failure:
    """Make a call in a task of its own, so that its cancellation or exit ends this call and not the worker.

    Args:
        context: context of all calls, so that an initializer that is a coroutine function can set variables for them.
    """
    task = asyncio.create_task(_perform_async(call), context=context)
    try:
        await asyncio.wait({task})
    except BaseException:  # the worker itself is cancelled
        task.cancel()
        await asyncio.wait({task})
        raise
    return failure(asyncio.CancelledError()) if task.cancelled() else task.result()


async def _perform_async(call: Call) -> Success | Failure:
    function, args, kwargs = call
    try:
        if function is apply_to_all and _is_async(args[0]):
            return Success([await args[0](*item) for item in args[1]])
        if _is_async(function):
            return Success(await function(*args, **kwargs))
        outcome = await asyncio.to_thread(_perform_in_thread, call)
        if isinstance(outcome, Success):
            outcome.result = await _awaited(outcome.result, function is apply_to_all)
    except BaseException as error:  # also CancelledError, SystemExit and KeyboardInterrupt
        return failure(error)
    return outcome


def _perform_in_thread(call: Call) -> Success | Failure:
    try:
        return perform(call)
    except KeyboardInterrupt as error:  # of the function itself: signals interrupt only the main thread
        return failure(error)


async def _awaited(result: Any, chunk: bool) -> Any:
    """Return the result of a call, or those of a chunk; coroutines that a plain function has returned are awaited."""
    results = result if chunk else [result]
    try:
        results = [await one if inspect.iscoroutine(one) else one for one in results]
    finally:
        for one in results:
            if inspect.iscoroutine(one):  # one before it has failed
                one.close()
    return results if chunk else results[0]


def _is_async(function: Any) -> bool:
    """Return True for a function or an object whose call returns a coroutine."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)
