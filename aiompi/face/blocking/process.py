"""The one rank that a process of the blocking face is: its start at first use, and its end."""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from types import TracebackType
from typing import Any, Final, NoReturn, cast

from aiompi import hooks
from aiompi.constants import THREAD_FUNNELED, THREAD_SERIALIZED, THREAD_SINGLE
from aiompi.driver.blocking import BlockingDriver
from aiompi.driver.threads import (
    NO_THREAD,
    RLock,
    get_ident,
    name_of_thread,
    refuse_running_loop,
    report_thread_failures,
)
from aiompi.engine import Request
from aiompi.errors import Exception as MPIException
from aiompi.errors import LocalProtocolError
from aiompi.objects import Codec
from aiompi.runtime import Runtime
from aiompi.settings import THREAD_LEVELS, rc
from aiompi.settings import load as load_settings
from aiompi.transport.agent import Contact


class _Unstarted:
    """In place of a driver, before there is one."""

    owner: Final = NO_THREAD


class Process:
    """The one rank that a process of the blocking face is.

    Attributes:
        driver: how it waits, once it has been started, and which thread may make calls without asking.
        codec: makes and reads the messages of objects, once it has been started.
        lenient: as of the engine.
        on_finalize: called first when communication is to end; given by the communicators of this face.
    """

    def __init__(self) -> None:
        self.on_finalize: Callable[[], object] = lambda: None
        self._runtime: Runtime | None = None
        self._starting = RLock()
        self._serializer: Any = None
        self.lenient = False
        self.driver: BlockingDriver = cast(BlockingDriver, _Unstarted)
        self.codec: Any = Codec()

    @property
    def initialized(self) -> bool:
        return self._runtime is not None

    @property
    def finalized(self) -> bool:
        return self._runtime is not None and self._runtime.finalized

    @property
    def runtime(self) -> Runtime:
        """The rank; started when it is first asked for."""
        if self._runtime is None:
            self.start()
        assert self._runtime is not None
        return self._runtime

    @property
    def wrapped(self) -> bool:
        """Whether calls are wrapped when the job is joined: because threads share it, or because they are watched."""
        settings = load_settings()
        return settings.debug > 0 or settings.thread_level in THREAD_LEVELS[THREAD_SERIALIZED:]

    def start(self, level: int = THREAD_SINGLE) -> None:
        """Join the job, unless that has been done.

        Args:
            level: least thread level that the program needs; more if the settings say so.
        """
        refuse_running_loop("MPI_Init", "async with aiompi.init() as world")
        with self._starting:
            if self._runtime is None:
                self._start(level)

    def _start(self, level: int) -> None:
        settings = load_settings()
        self.driver = driver = self._make_driver(max(level, THREAD_LEVELS.index(settings.thread_level)))
        runtime = Runtime(driver, Contact.from_environ(), settings)
        rc.read_by(runtime)
        with driver.exclusive("Init"):
            driver.wait(runtime.start())
        self.codec = runtime.codec if self._serializer is None else self._serializer
        runtime.engine.lenient = self.lenient
        runtime.on_finalize = self.on_finalize
        if runtime.launched:
            runtime.on_end = runtime.exit
        self._excepthook, sys.excepthook = sys.excepthook, self._failed
        report_thread_failures(self._thread_failed)
        atexit.register(self._leave)
        os.register_at_fork(before=driver.before_fork, after_in_parent=driver.after_fork, after_in_child=self._forked)
        if driver.level > THREAD_FUNNELED:
            hooks.guard(self._turn, lambda namespace: getattr(namespace, "_gated", False))
        driver.start()
        self._runtime = runtime  # last: other threads take it as it is from now on

    def _make_driver(self, level: int) -> BlockingDriver:
        if level <= THREAD_FUNNELED:
            return BlockingDriver()
        if level == THREAD_SERIALIZED:
            from aiompi.driver.serial import SerialDriver

            return SerialDriver()
        from aiompi.driver.thread import ThreadDriver

        return ThreadDriver(self._stalled)

    # Threads.

    def admit(self) -> None:
        """Refuse the call of a thread that may not make it.

        Raises:
            LocalProtocolError: the thread may not.
        """
        if get_ident() != self.driver.owner and self._runtime is not None:
            self.driver.admit()

    def _turn(self, call: str) -> AbstractContextManager[object]:
        """What a call that has to do with other ranks is inside of: such are made by one thread at a time."""
        return nullcontext() if call == "Abort" else self.driver.exclusive(call)

    # End.

    def finalize(self) -> None:
        """Leave the job, when all ranks do (MPI_Finalize, section 7.5).

        Raises:
            LocalProtocolError: it was called before, or in another thread than the one that has initialised.
        """
        refuse_running_loop("MPI_Finalize", "async with aiompi.init() as world")
        runtime, driver = self.runtime, self.driver
        if not driver.in_first_thread:
            raise LocalProtocolError(
                f"MPI_Finalize was called by {name_of_thread()}: call it in the thread that has initialised MPI, after "
                "all others have made their last call"
            )
        with driver.exclusive("Finalize"):
            driver.wait(runtime.finalize())
        driver.stop()

    def abort(self, code: int, reason: str) -> NoReturn:
        """End the job and this process."""
        runtime = self.runtime
        with self.driver.urgent():
            runtime.abort(code, reason)
        runtime.exit(code)

    def serialise(self, serializer: Any) -> None:
        """Make and read the messages of objects with this, instead of the codec that None stands for."""
        self._serializer = serializer
        if self._runtime is not None:
            self.codec = serializer or self._runtime.codec

    def _failed(self, kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
        """An exception that nobody caught ends the job."""
        self._excepthook(kind, error, traceback)
        runtime = self._runtime
        if runtime is not None and not runtime.finalized and runtime.engine.error is None:
            with self.driver.urgent():
                runtime.abort(1, f"rank {runtime.engine.rank} failed: {kind.__name__}: {error}")

    def _thread_failed(self, error: BaseException) -> None:
        """An MPI error that nobody caught ends the job in any thread; other exceptions end only the thread."""
        runtime = self.runtime
        if isinstance(error, MPIException) and runtime.launched and not runtime.finalized:
            self.abort(1, f"rank {runtime.engine.rank} failed: {type(error).__name__}: {error}")

    def _stalled(self, error: BaseException) -> None:
        """The thread that makes progress has failed: without it all others would wait for ever."""
        self._failed(type(error), error, error.__traceback__)
        if self._runtime is not None:
            self._runtime.on_end(1)

    def _leave(self) -> None:
        """The program has ended."""
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
        """A forked child shares the sockets and the epoll of its parent and must not touch them."""
        if self._runtime is not None:
            self._runtime.disown()


process = Process()


def wait(request: Request[Any]) -> None:
    """Wait for an operation that belongs to the call: when a signal handler raises, nothing of it stays behind."""
    try:
        process.driver.finish(request)
    except BaseException:
        request.withdraw()
        raise
