"""The worker's side: receive calls, make them, send the answers, until the master dismisses the worker."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import functools
import inspect
import signal
import threading
from collections.abc import Callable, Iterator
from queue import SimpleQueue
from types import FrameType
from typing import Any, TypeAlias, cast

from aiompi.comm import Communicator
from aiompi.constants import THREAD_MULTIPLE
from aiompi.engine import Request
from aiompi.errors import MPIError
from aiompi.face.blocking.process import process
from aiompi.futures.task import (
    Call,
    Failure,
    Success,
    apply_to_all,
    failure,
    from_signal,
    is_async,
    original_error,
    perform,
)
from aiompi.futures.workers import ANSWER, CALL, FAREWELL, LEAVING, split_number, with_number
from aiompi.objects import Codec

Answer: TypeAlias = Success | Failure


class Worker:
    """The messages between a worker and its master. The face of the worker decides how it waits and makes calls.

    Args:
        core: communicator of the master and its workers, used only for these messages.
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

    def read(self, message: memoryview) -> tuple[int, Call | Failure | None]:
        """Return (number, call) of a message; the call is None if the message cancels the call of this number.

        The number FAREWELL is the dismissal. For a call that cannot be unpickled, return the answer instead.
        """
        number, pickled = split_number(message)
        if not pickled:
            return number, None
        try:
            call: Call = self._codec.loads(pickled)
        except MPIError as error:
            return number, failure(original_error(error))
        return number, call

    def answer(self, number: int, answer: Answer) -> None:
        """Send the answer to a call; a result that cannot be sent becomes a failure."""
        try:
            message = self._codec.dumps(answer)
        except MPIError as error:
            message = self._codec.dumps(failure(original_error(error)))
        self._core.send(*with_number(*message, number), self._master, ANSWER).free()

    def leave(self) -> Request[None]:
        """Start sending the last answer."""
        return self._core.send(*with_number((), 0, FAREWELL), self._master, ANSWER)

    def begin_to_leave(self) -> None:
        """Tell the master that this worker will begin no further call."""
        self._core.send(*with_number((), 0, LEAVING), self._master, ANSWER).free()


async def serve_async(worker: Worker) -> asyncio.CancelledError | None:
    """Serve the master in an asyncio program: await coroutine functions, and call others in a thread.

    If this call is cancelled, the worker leaves: it completes the calls in progress, and gives the other calls back to
    the master. If it is cancelled again, the worker gives up the calls in progress.

    Returns:
        None if the master has dismissed the worker; the error to raise if the worker has left.
    """
    calls = Calls(worker.answer)
    try:
        while True:
            receiving = worker.receive()
            try:
                number, call = worker.read(await receiving)
            except asyncio.CancelledError as error:
                try:
                    await _leave(worker, calls, receiving)
                except MPIError:  # the master has failed
                    await calls.give_up()
                return error
            if number == FAREWELL:
                break
            if isinstance(call, Failure):
                worker.answer(number, call)
            elif call is not None:
                calls.begin(number, call)
            else:
                calls.cancel(number)
    except BaseException:  # the master has failed, or the worker is cancelled again
        await calls.give_up()
        raise
    await worker.leave()
    return None


async def _leave(worker: Worker, calls: Calls, receiving: Request[memoryview]) -> None:
    """Leave after the calls in progress, which the master may cancel. Begin no new call."""
    worker.begin_to_leave()
    while calls.tasks:
        waiting: list[Any] = [receiving, *calls.tasks.values()]
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        if receiving.done():
            number, message = split_number(receiving.result())
            if not message:
                calls.cancel(number)
            receiving = worker.receive()
    receiving.cancel()
    await worker.leave()


class Calls:
    """Concurrent calls in the event loop of a worker.

    Each call has its own task, so that a cancellation or an exit in the call does not end the worker. All tasks share a
    context, so that an initializer that is a coroutine function can set variables for later calls.

    Args:
        answer: called with the number of a call and its answer.

    Attributes:
        tasks: the tasks of calls in progress, by number.
    """

    def __init__(self, answer: Callable[[int, Answer], object]) -> None:
        self._answer = answer
        self._context = contextvars.copy_context()
        self.tasks: dict[int, asyncio.Task[Answer]] = {}

    def begin(self, number: int, call: Call) -> None:
        """Begin a call. Call this in the event loop."""
        loop = asyncio.get_running_loop()
        task = self.tasks[number] = loop.create_task(_perform_async(call), context=self._context)
        task.add_done_callback(functools.partial(self._ended, number))

    def cancel(self, number: int) -> None:
        """Cancel a call, unless it has ended."""
        if number in self.tasks:
            self.tasks[number].cancel()

    async def give_up(self) -> None:
        """Cancel all calls and wait for them; the master gets no answer."""
        self._answer = lambda number, answer: None
        for task in self.tasks.values():
            task.cancel()
        if self.tasks:
            await asyncio.wait(self.tasks.values())

    def _ended(self, number: int, task: asyncio.Task[Answer]) -> None:
        del self.tasks[number]
        if task.cancelled():
            self._answer(number, failure(asyncio.CancelledError()))
        elif task.exception() is None:  # otherwise a signal ends this process
            self._answer(number, task.result())


async def _perform_async(call: Call) -> Answer:
    function, args, kwargs = call
    try:
        if function is apply_to_all and is_async(args[0]):
            return Success([await args[0](*item) for item in args[1]])
        if is_async(function):
            return Success(await function(*args, **kwargs))
        answer = await asyncio.to_thread(perform, call)
        if isinstance(answer, Success):
            answer.result = await _awaited(answer.result, function is apply_to_all)
    except BaseException as error:  # also CancelledError, SystemExit and KeyboardInterrupt
        if from_signal(error):
            raise
        return failure(error)
    return answer


async def _awaited(result: Any, chunk: bool) -> Any:
    """Return the result of a call or a chunk; await the coroutines that a plain function has returned."""
    results = result if chunk else [result]
    try:
        results = [await one if inspect.iscoroutine(one) else one for one in results]
    finally:
        for one in results:
            if inspect.iscoroutine(one):  # an earlier one has failed
                one.close()
    return results if chunk else results[0]


class BlockingServer:
    """Serves the master in a program of the blocking face.

    Functions are called in the thread that calls `serve`. Coroutine functions run in an event loop in another thread:
    concurrently if the thread level is THREAD_MULTIPLE, otherwise one after the other.
    """

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._driver = process.driver
        self._answers: SimpleQueue[Answer] = SimpleQueue()  # answers that only the first thread can send
        self._side_by_side = self._driver.level >= THREAD_MULTIPLE
        self._calls = Calls(self._answer if self._side_by_side else lambda _, answer: self._answers.put(answer))
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread

    def serve(self) -> None:
        """Make calls until the master dismisses the worker."""
        number, answer = FAREWELL, cast("Answer | None", None)
        with _visible_interrupts():
            while True:
                with self._driver.exclusive("a task"):
                    if answer is not None:
                        self._worker.answer(number, answer)
                    number, call = self._worker.read(self._driver.wait(self._worker.receive()))
                if number == FAREWELL:
                    break
                if call is None and self._loop is not None:
                    self._loop.call_soon_threadsafe(self._calls.cancel, number)
                answer = self._make(number, call) if isinstance(call, tuple) else call
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()
        with self._driver.exclusive("a task"):
            self._driver.wait(self._worker.leave())

    def _make(self, number: int, call: Call) -> Answer | None:
        """Make a call and return its answer; None for a coroutine function, whose answer is sent later."""
        chunk = call[0] is apply_to_all
        if not is_async(call[1][0] if chunk else call[0]):
            answer = perform(call)
            if isinstance(answer, Failure) or not any(
                map(inspect.iscoroutine, answer.result if chunk else [answer.result])
            ):
                return answer
            call = (_awaited, (answer.result, chunk), {})
        if self._loop is None:
            self._loop = loop = asyncio.new_event_loop()
            self._thread = threading.Thread(target=loop.run_forever, name="aiompi-coroutines", daemon=True)
            self._thread.start()
        self._loop.call_soon_threadsafe(self._calls.begin, number, call)
        return None if self._side_by_side else self._answers.get()

    def _answer(self, number: int, answer: Answer) -> None:
        with self._driver.exclusive("a task"):
            self._worker.answer(number, answer)


@contextlib.contextmanager
def _visible_interrupts() -> Iterator[None]:
    """Make the handler of SIGINT a Python function that raises KeyboardInterrupt: `from_signal` looks for its frame."""

    def interrupt(signum: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    if (
        threading.current_thread() is not threading.main_thread()
        or signal.getsignal(signal.SIGINT) is not signal.default_int_handler
    ):
        yield
        return
    signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
