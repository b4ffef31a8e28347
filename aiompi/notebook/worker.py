"""A rank of a notebook: `python -m aiompi.notebook.worker asyncio|blocking`.

The process is a rank of one of the faces. The notebook has spawned it, and sends it commands. IPython runs the cells,
so that tracebacks, magics, rich results and `await` are those of a notebook.
"""

from __future__ import annotations

import asyncio
import json
import linecache
import pickle
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Final

from IPython.core.async_helpers import get_asyncio_loop
from IPython.core.displayhook import DisplayHook
from IPython.core.displaypub import DisplayPublisher
from IPython.core.interactiveshell import InteractiveShell
from traitlets import Any as AnyTrait
from traitlets import Type
from traitlets.config import Config

import aiompi
from aiompi.face.interrupts import FILES
from aiompi.notebook.interrupts import CellInterrupts
from aiompi.notebook.protocol import (
    MARK,
    WARNING,
    Done,
    Event,
    Pull,
    Pulled,
    Push,
    Raised,
    Renew,
    Run,
    Shown,
    Stop,
    dumps,
    pack,
    unpack,
)

if TYPE_CHECKING:
    from aiompi import MPI


#: seconds between two looks whether the fence has come
_LOOK: Final = 1e-3


class _Publisher(DisplayPublisher):
    """Sends what a cell shows by `display`."""

    def publish(self, data: Any, metadata: Any = None, *_: Any, **__: Any) -> None:
        self.shell.tell(Shown(dict(data), dict(metadata or {})))
        self.shell.interrupts.end_cell_at(sys._getframe(1))


class _ResultHook(DisplayHook):
    """Sends the result of a cell."""

    def write_output_prompt(self) -> None:
        pass

    def write_format_data(self, format_dict: Any, md_dict: Any = None) -> None:
        assert self.shell is not None
        self.shell.tell(Shown(dict(format_dict), dict(md_dict or {})))
        self.shell.interrupts.end_cell_at(sys._getframe(1))


class _Shell(InteractiveShell):
    """Runs cells, which interrupts end; `tell` sends an event to the notebook."""

    displayhook_class = Type(_ResultHook)
    display_pub_class = Type(_Publisher)
    tell = AnyTrait()
    interrupts = AnyTrait()

    async def run_code(self, *args: Any, **kwargs: Any) -> Any:
        """Run a statement of a cell, unless an interrupt is deferred."""
        if self.interrupts.deferred:
            self.interrupts.end_cell()
        return await super().run_code(*args, **kwargs)  # type: ignore[no-untyped-call]

    def showtraceback(self, exc_tuple: Any = None, *args: Any, **kwargs: Any) -> None:
        """Show the exception of a cell. After an interrupt, the traceback ends at the interrupted call of aiompi."""
        kind, error, traceback = self._get_exc_info(exc_tuple)  # type: ignore[no-untyped-call]
        if issubclass(kind, KeyboardInterrupt | asyncio.CancelledError):
            step = traceback
            while step.tb_next is not None and not step.tb_next.tb_frame.f_code.co_filename.startswith(FILES):
                step = step.tb_next
            step.tb_next = None
        super().showtraceback((kind, error, traceback), *args, **kwargs)

    def _showtraceback(self, etype: Any, evalue: Any, stb: list[str]) -> None:
        self.tell(Raised(etype.__name__, str(evalue), list(stb)))

    def init_signal(self) -> None:
        """Keep the handlers of aiompi."""


class Worker:
    """A rank between the commands of the notebook.

    Args:
        parent: communicator with the notebook.
        variables: names that cells find.
        ring: lets a blocking call that waits attend to interrupts.
    """

    def __init__(
        self,
        parent: aiompi.Intercomm | MPI.Intercomm,
        variables: dict[str, Any],
        ring: Callable[[], object] = lambda: None,
    ) -> None:
        self.interrupts = CellInterrupts(_Shell.run_code.__code__, ring)
        self._parent: Any = parent
        self._sent: list[Any] = []
        self._how = "well"
        config = Config()
        config.HistoryManager.enabled = False
        self.shell: Any = _Shell.instance(
            config=config,
            user_ns=variables,
            tell=self.tell,
            interrupts=self.interrupts,
            loop_runner=self._run_in_loop,
        )
        warnings.showwarning = self._warn

    def tell(self, event: Event) -> None:
        """Send an event to the notebook, in its place among the output."""
        if isinstance(event, Raised):
            self._how = "badly"
        print(MARK, flush=True)
        self._sent.append(self._parent.isend(pack(event), dest=0))

    def _warn(
        self, message: Warning | str, category: type[Warning], filename: str, lineno: int, *_: Any, **__: Any
    ) -> None:
        """Show a warning with the number of its cell. IPython would name a temporary file instead."""
        cell = self.shell.compile.format_code_name(filename)
        place = filename if cell is None else " ".join(cell)
        text = warnings.formatwarning(message, category, place, lineno, linecache.getline(filename, lineno))
        print(f"{WARNING}{json.dumps(text)}", file=sys.stderr, flush=True)

    async def run(self, command: Run) -> None:
        """Run a cell in the running event loop, as a task of its own, which an interrupt cancels."""
        task = asyncio.current_task()
        assert task is not None
        with self.interrupts.of_cell(), self.interrupts.of_task(task):
            self._count(command)
            transformed = self.shell.transform_cell(command.code)
            await self.shell.run_cell_async(command.code, store_history=True, transformed_cell=transformed)

    def run_blocking(self, command: Run) -> None:
        """Run a cell, in the event loop of IPython if the cell awaits."""
        with self.interrupts.of_cell():
            self._count(command)
            self.shell.run_cell(command.code, store_history=True)

    def _run_in_loop(self, cell: Coroutine[Any, Any, Any]) -> Any:
        loop = get_asyncio_loop()  # type: ignore[no-untyped-call]
        task = loop.create_task(cell)
        with self.interrupts.of_task(task):
            return loop.run_until_complete(task)

    def _count(self, command: Run) -> None:
        self.shell.execution_count = command.number or self.shell.execution_count

    def do(self, command: Push | Pull) -> None:
        """Carry out a command that runs no cell."""
        try:
            if isinstance(command, Push):
                self.shell.push({name: pickle.loads(value) for name, value in command.values.items()})
            else:
                self.tell(Pulled(dumps(eval(command.expression, self.shell.user_ns))))
        except Exception as error:
            self.tell(Raised(type(error).__name__, str(error), traceback.format_exception_only(error)))

    def begin(self) -> None:
        """Begin a command."""
        self._how = "well"

    def end(self) -> list[Any]:
        """Tell the notebook that a command is done; return the send requests of all events, which the caller awaits."""
        print(MARK, file=sys.stderr, flush=True)
        self.tell(Done("interrupted" if self.interrupts.come else self._how))  # type: ignore[arg-type]
        sends, self._sent = self._sent, []
        return sends


async def serve(world: aiompi.World) -> None:
    """Carry out the commands of the notebook, as a rank of the asyncio face."""
    import asyncio  # the blocking face starts without it

    parent = world.Get_parent()
    apart = await world.Dup()  # cells cannot leave anything in it
    worker = Worker(parent, {"aiompi": aiompi, "comm": await world.Dup()})
    while not isinstance(command := unpack(await parent.recv(source=0)), Stop):
        worker.begin()
        if isinstance(command, Run):
            await asyncio.wait([asyncio.ensure_future(worker.run(command))])
        elif isinstance(command, Renew):
            while command.interrupted and not worker.interrupts.fenced:
                await asyncio.sleep(_LOOK)
            worker.interrupts.forget()
            worker.shell.user_ns["comm"] = await apart.Dup()
        elif isinstance(command, Push | Pull):
            worker.do(command)
        for send in worker.end():
            await send
    await parent.Disconnect()


def serve_blocking() -> None:
    """Carry out the commands of the notebook, as a rank of the blocking face."""
    from aiompi import MPI  # makes this process a rank
    from aiompi.face.blocking.process import process

    parent = MPI.Comm.Get_parent()
    apart = MPI.COMM_WORLD.Dup()  # cells cannot leave anything in it
    worker = Worker(parent, {"MPI": MPI, "comm": MPI.COMM_WORLD.Dup()}, process.driver.ring)
    process.interrupts = worker.interrupts
    while not isinstance(command := unpack(parent.recv(source=0)), Stop):
        worker.begin()
        if isinstance(command, Run):
            worker.run_blocking(command)
        elif isinstance(command, Renew):
            while command.interrupted and not worker.interrupts.fenced:
                time.sleep(_LOOK)
            worker.interrupts.forget()
            worker.shell.user_ns["comm"] = apart.Dup()
        elif isinstance(command, Push | Pull):
            worker.do(command)
        MPI.Request.Waitall(worker.end())
    parent.Disconnect()


if __name__ == "__main__":
    if sys.argv[1:] == ["blocking"]:
        serve_blocking()
    else:
        aiompi.run(serve)
