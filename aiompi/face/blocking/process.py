"""The one rank that a process of the blocking face is: its start at first use, and its end."""

from __future__ import annotations

import atexit
import os
import sys
from collections.abc import Callable
from types import TracebackType

from aiompi.driver.blocking import BlockingDriver, refuse_running_loop
from aiompi.runtime import Runtime
from aiompi.transport.agent import Contact


class Process:
    """The one rank that a process of the blocking face is.

    Attributes:
        on_finalize: called first when communication is to end; given by the communicators of this face.
    """

    def __init__(self) -> None:
        self.on_finalize: Callable[[], object] = lambda: None
        self._runtime: Runtime | None = None
        self.driver: BlockingDriver

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
            self._start()
        assert self._runtime is not None
        return self._runtime

    def _start(self) -> None:
        refuse_running_loop("MPI_Init", "async with aiompi.init() as world")
        self.driver = BlockingDriver()
        runtime = Runtime(self.driver, Contact.from_environ())
        self.driver.wait(runtime.start())
        self._runtime = runtime
        runtime.on_finalize = self.on_finalize
        if runtime.launched:
            runtime.on_end = runtime.exit
        self._excepthook, sys.excepthook = sys.excepthook, self._failed
        atexit.register(self._leave)
        os.register_at_fork(after_in_child=self._forked)

    def _failed(self, kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
        """An exception that nobody caught ends the job."""
        self._excepthook(kind, error, traceback)
        runtime = self._runtime
        if runtime is not None and not runtime.finalized and runtime.engine.error is None:
            runtime.abort(1, f"rank {runtime.engine.rank} failed: {kind.__name__}: {error}")

    def _leave(self) -> None:
        runtime = self._runtime
        if runtime is not None and not runtime.finalized and runtime.engine.error is None:
            self.driver.wait(runtime.leave())

    def _forked(self) -> None:
        """A forked child shares the sockets and the epoll of its parent and must not touch them."""
        if self._runtime is not None:
            BlockingDriver.__init__(self.driver)  # anew, in place: communicators refer to it
            self._runtime.disown()

    def finalize(self) -> None:
        refuse_running_loop("MPI_Finalize", "async with aiompi.init() as world")
        self.driver.wait(self.runtime.finalize())


process = Process()
