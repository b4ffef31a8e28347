"""The rank of a process that uses the blocking face: its start on first use, and its end."""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from types import TracebackType
from typing import Any, Final, NoReturn, cast

from aiompi import hooks
from aiompi.comm.session import SessionState
from aiompi.constants import THREAD_FUNNELED, THREAD_SERIALIZED, THREAD_SINGLE
from aiompi.driver.blocking import BlockingDriver
from aiompi.driver.threads import (
    NO_THREAD,
    RLock,
    get_ident,
    loop_is_running,
    name_of_thread,
    refuse_running_loop,
    refuse_stale_method,
    report_thread_failures,
)
from aiompi.engine import Request
from aiompi.errors import InvalidArgumentError, LocalProtocolError, MPIError, failure
from aiompi.face import uncaught
from aiompi.face.interrupts import Interrupts
from aiompi.job.agent import Contact
from aiompi.job.runtime import Runtime
from aiompi.objects import Codec
from aiompi.settings import BLOCK, THREAD_LEVELS, rc
from aiompi.settings import load as load_settings

#: packages whose frames may stand between a call of the program and the library
_BELOW_PROGRAM: Final = frozenset({"aiompi", "mpi4py", "importlib"})


class _Unstarted:
    """Placeholder for the driver before the start."""

    owner: Final = NO_THREAD


_UNSTARTED: Final = cast(BlockingDriver, _Unstarted)


class Process:
    """The rank of a process that uses the blocking face.

    Attributes:
        initialized: True once the World Model has begun, by Init or the first use of a predefined communicator.
        driver: waits for operations, and knows the thread that may make calls; set by `start`.
        codec: makes and reads the messages of objects; set by `start`.
        lenient: True for programs of mpi4py; see `Engine.lenient` and the setting `running_loop`.
        blocks_loop: True once a call was allowed, with a warning, to block a running event loop.
        on_finalize: called before communication ends; set by the communicators of this face.
        interrupts: reacts to SIGINT; a rank of a notebook sets its own.
    """

    def __init__(self) -> None:
        self.on_finalize: Callable[[], object] = lambda: None
        self._runtime: Runtime | None = None
        self._starting = RLock()
        self._finalizing: Request[bool] | None = None
        self._early: dict[int, Callable[[], object]] = {}  # thread -> lets its call take its turn
        self.interrupts = Interrupts(signal.SIGINT, lambda: self.driver.ring())  # noqa: PLW0108 (the driver changes)
        self._serializer: Any = None
        self.initialized = self.lenient = self.blocks_loop = self._world_ended = False
        self.driver: BlockingDriver = _UNSTARTED
        self.codec: Any = Codec()

    @property
    def joined(self) -> bool:
        """True once the process is a rank, by the World Model or a session."""
        return self._runtime is not None

    @property
    def finalized(self) -> bool:
        return self._world_ended or (self._runtime is not None and self._runtime.finalized)

    @property
    def runtime(self) -> Runtime:
        """The rank; the first access begins the World Model, unless a session has begun."""
        if self._runtime is None:
            self.start()
        assert self._runtime is not None
        return self._runtime

    @property
    def wrapped(self) -> bool:
        """True if joining the job will wrap the calls, because of several threads or of the setting `debug`."""
        settings = load_settings()
        return settings.debug > 0 or settings.thread_level in THREAD_LEVELS[THREAD_SERIALIZED:]

    def start(self, level: int = THREAD_SINGLE) -> None:
        """Begin the World Model. Join the job first, unless this process has joined it already; see `join`."""
        check_running_loop("MPI_Init", "async with aiompi.init() as world")
        self.join(level)
        self.initialized = True

    def join(self, level: int = THREAD_SINGLE) -> Runtime:
        """Join the job, unless this process is a rank. The process may join again after it has left.

        Args:
            level: lowest thread level that the program needs; the settings may ask for a higher level.

        Returns:
            The rank.
        """
        with self._starting:
            if self._runtime is None:
                self._start(level)
                self._attend()
            elif self._runtime.finalized and isinstance(self._runtime.engine.error, LocalProtocolError):
                self.driver.close()
                self._start(level)
                self._runtime.sessions.close_world()
            assert self._runtime is not None
            return self._runtime

    def _start(self, level: int) -> None:
        settings = load_settings()
        self.driver = driver = self._make_driver(max(level, THREAD_LEVELS.index(settings.thread_level)))
        driver.on_signal = lambda: self.interrupts.attend()  # noqa: PLW0108 (a notebook has interrupts of its own)
        runtime = Runtime(driver, Contact.from_environ(settings), settings)
        rc.read_by(runtime)
        uncaught.watch(runtime)
        with driver.exclusive("Init"):
            driver.wait(runtime.start())
        self.codec = runtime.codec if self._serializer is None else self._serializer
        runtime.engine.lenient = self.lenient
        runtime.on_finalize = self.on_finalize
        if runtime.launched:
            runtime.on_end = runtime.exit
        if driver.level > THREAD_FUNNELED:
            self._take_turns()
        driver.start()
        self.interrupts.watch()
        self._runtime = runtime  # last, because other threads use it from now on

    def _attend(self) -> None:
        """Attend to uncaught exceptions, forks, and the end of the process."""
        self._excepthook, sys.excepthook = sys.excepthook, self._failed
        report_thread_failures(self._thread_failed)
        atexit.register(self._leave)
        os.register_at_fork(
            before=lambda: self.driver.before_fork(),  # noqa: PLW0108 (a process that joins again has another driver)
            after_in_parent=lambda: self.driver.after_fork(),  # noqa: PLW0108
            after_in_child=self._forked,
        )

    def _make_driver(self, level: int) -> BlockingDriver:
        if level <= THREAD_FUNNELED:
            return BlockingDriver()
        if level == THREAD_SERIALIZED:
            from aiompi.driver.thread import SerialDriver  # for this thread level only

            return SerialDriver(self._take_turn)
        from aiompi.driver.thread import ThreadDriver  # for this thread level only

        return ThreadDriver(self._stalled, self._take_turn)

    # Threads.

    def check_thread(self) -> None:
        """Check that the calling thread may make calls.

        Raises:
            LocalProtocolError: the thread may not make calls.
        """
        if get_ident() != self.driver.owner and self._runtime is not None:
            self.driver.check_thread()

    def expect_threads(self) -> None:
        """Let calls take turns from the first call on, if the settings allow calls of several threads."""
        with contextlib.suppress(InvalidArgumentError):  # the first call raises this error
            if load_settings().thread_level in THREAD_LEVELS[THREAD_SERIALIZED:]:
                self._take_turns()

    def _take_turns(self) -> None:
        """Let calls that communicate take turns: one thread at a time makes such calls."""
        hooks.guard(self._turn, lambda namespace: getattr(namespace, "_gated", False))

    def _turn(self, call: str) -> AbstractContextManager[object]:
        """Return the context manager for a call that communicates."""
        if self.driver is _UNSTARTED:
            return self._begin_early(call)
        return nullcontext() if call == "Abort" or self.driver.level <= THREAD_FUNNELED else self.driver.exclusive(call)

    @contextlib.contextmanager
    def _begin_early(self, call: str) -> Iterator[None]:
        """Begin a call of a process that has no rank yet; the call takes its turn once it needs the rank."""
        thread = get_ident()
        if thread in self._early:
            yield
            return
        with contextlib.ExitStack() as turn:
            self._early[thread] = lambda: turn.enter_context(self.driver.exclusive(call))
            try:
                yield
            finally:
                self._early.pop(thread, None)

    def _take_turn(self) -> None:
        """Let a call of this thread take its turn, if the call began before this process joined the job.

        Raises:
            LocalProtocolError: the method of the call does not take turns, or `BlockingDriver.exclusive` refuses the
                call.
        """
        self._early.pop(get_ident(), refuse_stale_method)()

    # End.

    def finalize(self) -> None:
        """Leave the job, when all ranks do (MPI_Finalize, section 7.5).

        Raises:
            LocalProtocolError: finalize was called before, or another thread has initialised MPI.
        """
        check_running_loop("MPI_Finalize", "async with aiompi.init() as world")
        if self._world_ended:
            raise LocalProtocolError("Finalize was called before: call it once, as the last MPI call")
        self.start()
        runtime, driver = self.runtime, self.driver
        if not driver.in_first_thread:
            raise LocalProtocolError(
                f"MPI_Finalize was called by {name_of_thread()}: call it in the thread that has initialised MPI, after "
                "all others have made their last call"
            )
        with driver.exclusive("Finalize"):
            self._finalizing = self._finalizing or runtime.finalize()  # an interrupt may have ended an earlier wait
            try:
                driver.wait(self._finalizing)
            except MPIError:
                self._finalizing = None
                raise
        self._world_ended = True
        if runtime.finalized:
            driver.stop()

    def close_session(self, session: SessionState) -> None:
        """End a session; if it is the last session after Finalize, also end communication."""
        driver = self.driver
        driver.wait(self.runtime.sessions.end(session))
        if self.runtime.finalized:
            driver.stop()

    def abort(self, code: int, reason: str) -> NoReturn:
        """End the job and this process."""
        runtime = self.runtime
        with self.driver.exclusive_to_abort():
            runtime.abort(code, reason)
        runtime.exit(code)

    def serialise(self, serializer: Any) -> None:
        """Use a serializer to encode and decode the messages of objects; None for the codec of the runtime."""
        self._serializer = serializer
        if self._runtime is not None:
            self.codec = serializer or self._runtime.codec

    def _failed(self, kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
        """End the job because of an uncaught exception."""
        self._excepthook(kind, error, traceback)
        runtime = self._runtime
        if runtime is not None and not runtime.finalized and runtime.engine.error is None:
            with self.driver.exclusive_to_abort():
                runtime.fail(error)

    def _thread_failed(self, error: BaseException) -> None:
        """End the job because of an uncaught MPI error in a thread; other exceptions end only the thread."""
        runtime = self.runtime
        if isinstance(error, MPIError) and runtime.launched and not runtime.finalized:
            self.abort(1, f"rank {runtime.engine.rank} {failure(error)}")

    def _stalled(self, error: BaseException) -> None:
        """End the job because the progress thread has failed: without it all other threads would wait forever."""
        self._failed(type(error), error, error.__traceback__)
        if self._runtime is not None:
            self._runtime.on_end(1)

    def _leave(self) -> None:
        """Leave the job at the end of the program."""
        runtime, driver = self._runtime, self.driver
        if runtime is not None and not runtime.finalized and runtime.engine.error is None:
            with contextlib.ExitStack() as stack:
                try:
                    stack.enter_context(driver.exclusive("exit"))
                except LocalProtocolError as error:
                    runtime.abort(1, f"rank {runtime.engine.rank} has ended in the middle of a call: {error}")
                else:
                    driver.wait(runtime.leave())
        driver.stop()

    def _forked(self) -> None:
        """Disown the rank in a forked child, which shares the sockets and the epoll of its parent."""
        if self._runtime is not None:
            self._runtime.disown()


process = Process()
rc.watch(process.expect_threads)


def check_running_loop(call: str, awaitable: str) -> None:
    """Refuse a blocking call inside a running event loop, or warn once that it blocks the loop.

    Raises:
        BlockingCallError: the setting `running_loop` does not allow the call; the message names the awaitable to use.
    """
    if process.blocks_loop or not loop_is_running():
        return
    if (load_settings().running_loop or (BLOCK if process.lenient else "")) != BLOCK:
        refuse_running_loop(call, awaitable, "; with AIOMPI_RUNNING_LOOP=block the call blocks the loop")
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in _BELOW_PROGRAM:
        frame = frame.f_back
    warnings.warn_explicit(
        f"{call} blocks the event loop that is running in this thread, and so will later calls, without a warning: use "
        f"`{awaitable}` of the asyncio face (aiompi.run, aiompi.init), or a thread",
        RuntimeWarning,
        frame.f_code.co_filename,
        frame.f_lineno,
    )
    process.blocks_loop = True


def wait(request: Request[Any]) -> None:
    """Wait for an operation of this call; withdraw the operation if a signal handler raises an exception."""
    try:
        process.driver.finish(request)
    except BaseException:
        request.withdraw()
        raise
