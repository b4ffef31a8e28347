"""The side of the notebook: ranks, and the cells that they run.

A separate thread runs the event loop in which the notebook is a rank. So messages make progress even between cells, and
a cell of the notebook may block. `Cell` passes the output of the ranks from the event loop to the waiting thread.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import pickle
import queue
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from importlib.util import find_spec
from typing import Any, Final, Self, TypeAlias, TypeVar

from aiompi.base.words import ranks_do, ranks_text
from aiompi.errors import InvalidArgumentError, LocalProtocolError, MPIError
from aiompi.notebook.cell import Caution, Cell, Event, Failure, Result, Text, Unfinished
from aiompi.notebook.job import RanksError, RanksJob
from aiompi.notebook.loop import LoopThread
from aiompi.notebook.presses import Presses
from aiompi.notebook.processes import PLACE, Processes
from aiompi.notebook.protocol import FENCE, INTERRUPT, Command, Pull, Push, Renew, Run, dumps

T = TypeVar("T")

#: seconds in which ranks react to an interrupt, unless they are in code in which Python runs no signal handlers
GRACE: Final = 10.0
#: seconds that the other ranks have to end after the exception of a rank; then the user is told that they go on
PATIENCE: Final = 1.0
#: function that shows an event to the user
Show: TypeAlias = Callable[[Event], object]


class Ranks:
    """Ranks of a notebook: processes that run cells. `start` makes them.

    Attributes:
        count: number of ranks.
    """

    def __init__(self, count: int, arguments: Sequence[str], options: Sequence[str]) -> None:
        self.count = count
        self._job = RanksJob(count, arguments, options)
        self._loop: LoopThread | None = None
        self._processes = Processes({})
        self._interrupted = False  # True if interrupts were sent since the last fence
        self._order = threading.RLock()  # keeps interrupts and fences in order
        self._life = threading.RLock()  # only one thread starts or stops the ranks
        self._lock = threading.Lock()  # only one thread lets the ranks run something

    def __repr__(self) -> str:
        cell = self._job.cell
        state = self._job.lost or ("running a cell" if cell is not None and cell.open else "waiting for cells")
        return f"<{self.count} ranks of a notebook: {state}>"

    # Their life.

    async def start(self) -> Self:
        """Start the ranks; `aiompi.notebook.start` calls this.

        Raises:
            RanksError: they cannot be started; the message says why.
        """
        await asyncio.to_thread(self.start_now)
        return self

    def start_now(self) -> None:
        """Start the ranks. Blocks; see `start`."""
        with self._life:
            if self._loop is not None:
                raise LocalProtocolError("the ranks have been started: restart them, or stop them first")
            self._interrupted = False
            self._loop = LoopThread()
            try:
                self._call(self._job.start())
            except BaseException as error:
                self._end_loop()
                if isinstance(error, MPIError):
                    raise RanksError(f"the ranks cannot be started: {error}") from None
                raise
            try:  # a first command: before it, an interrupt could end a rank that is not yet ready for commands
                with Presses() as presses:
                    cell = self._do({rank: Pull(PLACE) for rank in range(self.count)}, None, print_event, presses)
                if cell.cause is not None:
                    raise cell.cause
                self._processes = Processes(cell.answers)
            except BaseException:
                self.stop_now()
                raise

    def _end_loop(self) -> None:
        loop, self._loop = self._loop, None
        assert loop is not None
        loop.end()

    async def restart(self) -> None:
        """End the ranks, whatever they are doing, and start the same number of new ranks, which have no variables."""
        await asyncio.to_thread(self.restart_now)

    def restart_now(self) -> None:
        """End the ranks and start new ones. Blocks; see `restart`."""
        with self._life:
            self.stop_now()
            self.start_now()

    async def stop(self) -> None:
        """End the ranks: at once if they wait for cells, or else by a signal."""
        await asyncio.to_thread(self.stop_now)

    def stop_now(self) -> None:
        """End the ranks. Blocks; see `stop`."""
        with self._life:
            if self._loop is not None:
                try:
                    self._call(self._job.stop())
                finally:
                    self._end_loop()

    # Commands.

    async def run(
        self, code: str, ranks: Iterable[int] | None = None, limit: float | None = None, show: Show | None = None
    ) -> None:
        """Let ranks run a cell, and pass on their output as it comes.

        Args:
            code: statements as in a cell of a notebook, with `await` and magics. Names: `comm`, and `aiompi` or `MPI`.
            ranks: the ranks that run the cell; None for all.
            limit: seconds, after which the cell is interrupted; None for no limit.
            show: called with each event; by default lines are printed with their rank before them.

        Raises:
            RanksError: a rank has raised an exception, does not react to an interrupt, or is gone.
            TimeoutError: the cell was interrupted after `limit` seconds.

        Cancelling:
            Cancelling the await interrupts the cell, and waits until the ranks have reacted.
        """
        left = threading.Event()
        running = asyncio.ensure_future(asyncio.to_thread(self._run, Run(code), ranks, limit, show, left))
        try:
            await asyncio.shield(running)
        except asyncio.CancelledError:
            left.set()  # before the interrupt: the cell may not have begun
            self.interrupt()
            await asyncio.wait([running], timeout=2 * GRACE)
            raise

    def run_now(
        self,
        code: str | Run,
        ranks: Iterable[int] | None = None,
        limit: float | None = None,
        show: Show | None = None,
    ) -> None:
        """Let ranks run a cell. Blocks, and KeyboardInterrupt interrupts the cell; see `run`."""
        self._run(code if isinstance(code, Run) else Run(code), ranks, limit, show, threading.Event())

    def _run(
        self, command: Run, ranks: Iterable[int] | None, limit: float | None, show: Show | None, left: threading.Event
    ) -> None:
        """Let ranks run a cell, unless `left` is set before they begin."""
        where = self._checked(ranks)
        show = show or print_event
        with Presses() as presses:
            if self._interrupted:  # interrupted while the ranks ran no cell, or did not react
                self._renew(None, show, presses)
            if left.is_set():
                return
            cell = self._do(dict.fromkeys(where, command), limit, show, presses)
            if self._interrupted or {*cell.how.values()} != {"well"}:
                self._renew(cell.cause, show, presses)
            if cell.cause is not None:
                raise cell.cause
        failed = [rank for rank, how in sorted(cell.how.items()) if how == "badly"]
        if failed:
            raise RanksError(f"{ranks_text(failed)} of {self.count} raised an exception")

    async def push(self, ranks: Iterable[int] | None = None, /, **values: Any) -> None:
        """Set variables of ranks to copies of the values.

        Raises:
            RanksError: a value cannot be pickled, or cannot be loaded at a rank.
        """
        await asyncio.to_thread(self.push_now, values, ranks)

    def push_now(self, values: dict[str, Any], ranks: Iterable[int] | None = None) -> None:
        """Set variables of ranks. Blocks; see `push`."""
        pickled = {name: dumps(value) for name, value in values.items()}
        self._exchange({rank: Push(pickled) for rank in self._checked(ranks)})

    async def pull(self, expression: str, ranks: Iterable[int] | None = None) -> list[Any]:
        """Return copies of the value of an expression at ranks, in their order.

        Raises:
            RanksError: the expression raises an exception at a rank, or its value cannot be pickled.
        """
        return await asyncio.to_thread(self.pull_now, expression, ranks)

    def pull_now(self, expression: str, ranks: Iterable[int] | None = None) -> list[Any]:
        """Return values of ranks. Blocks; see `pull`."""
        where = self._checked(ranks)
        answers = self._exchange({rank: Pull(expression) for rank in where}).answers
        return [pickle.loads(answers[rank]) for rank in where]

    def interrupt(self) -> None:
        """Interrupt the running cell: raise KeyboardInterrupt in the code of all ranks, or cancel the cell's awaits."""
        with self._order:
            if self._loop is not None:
                self._interrupted = True
                self._loop.soon(self._job.signal, INTERRUPT)

    def _exchange(self, commands: dict[int, Command]) -> Cell:
        """Let ranks carry out commands that run no cell."""
        raised: list[Failure] = []
        with Presses() as presses:
            cell = self._do(
                commands, None, lambda event: raised.append(event) if isinstance(event, Failure) else None, presses
            )
        for failure in sorted(raised):
            raise RanksError(f"rank {failure.rank} raised {failure.raised.name}: {failure.raised.text}")
        return cell

    def _checked(self, ranks: Iterable[int] | None) -> list[int]:
        where = [*range(self.count)] if ranks is None else sorted({*ranks})
        wrong = [rank for rank in where if not 0 <= rank < self.count]
        if wrong or not where:
            raise InvalidArgumentError(f"ranks {wrong}: there are ranks 0 to {self.count - 1}")
        return where

    def _do(self, commands: dict[int, Command], limit: float | None, show: Show, presses: Presses) -> Cell:
        """Let ranks carry out commands; show events, and interrupt the ranks after `limit` seconds or at Ctrl-C."""
        with self._begun(commands, presses) as cell:
            return self._wait(cell, limit, show, presses)

    @contextlib.contextmanager
    def _begun(self, commands: dict[int, Command], presses: Presses) -> Iterator[Cell]:
        """Send commands to ranks; yield the `Cell` that gets their answers. Presses wake it."""
        if not self._lock.acquire(blocking=False):
            raise LocalProtocolError("the ranks run another cell: interrupt it, or wait for its end")
        try:
            with contextlib.closing(self._call(self._job.send(commands))) as cell:
                presses.to(cell.wake)
                yield cell
        finally:
            presses.to(None)
            self._lock.release()

    def _renew(self, cause: BaseException | None, show: Show, presses: Presses) -> None:
        """Let ranks make a new `comm` after a cell that has failed, or that was interrupted because of `cause`."""
        renew = Renew(self._interrupted)
        used = self._processes.used(range(self.count))
        due = time.monotonic() + GRACE
        with self._begun(dict.fromkeys(range(self.count), renew), presses) as cell:
            if renew.interrupted:
                with self._order:  # an interrupt that comes later is for the next `Renew`
                    self._interrupted = False
                    assert self._loop is not None
                    self._loop.soon(self._job.signal, FENCE)
            while not cell.over:
                try:
                    event = cell.get(max(0.0, due - time.monotonic()))
                except queue.Empty:
                    why = self._processes.why(cell.open, used, "wait", "for the interrupt, or for other ranks")
                    raise RanksError(
                        f"the last cell has ended, but {GRACE:g} s later there is no new `comm`: {why}"
                    ) from cause
                if event is not None:
                    show(event)
        if "gone" in cell.how.values():
            raise self._job.error from cause

    def _wait(self, cell: Cell, limit: float | None, show: Show, presses: Presses) -> Cell:
        due = math.inf if limit is None else time.monotonic() + limit
        used: dict[int, float] = {}
        told = math.inf  # time at which the user is told that ranks go on after an exception
        while not cell.over:
            left = min(due, told) - time.monotonic()
            with contextlib.suppress(queue.Empty):
                event = cell.get(max(0.0, left) if left < math.inf else None)
                if event is not None:
                    show(event)
                if isinstance(event, Failure):
                    if cell.cause is None:
                        told = time.monotonic() + PATIENCE
                    else:
                        due = time.monotonic() + GRACE  # a rank has reacted
            now, pressed = time.monotonic(), presses.taken()
            if now >= told:
                told = math.inf
                if cell.open:
                    show(Unfinished(frozenset(cell.open)))
            if not pressed and (now < due or not cell.open):
                continue
            if cell.cause is not None and not pressed:
                why = self._processes.why(cell.open, used, "run", "code that does not return to Python")
                raise RanksError(
                    f"{ranks_text(cell.open)} did not react to an interrupt for {GRACE:g} s: {why}. "
                    "Restart the ranks to end the cell"
                ) from cell.cause
            if cell.cause is None and pressed:
                cell.cause = KeyboardInterrupt()
            cell.cause = cell.cause or TimeoutError(f"{ranks_text(cell.open)} had not ended after {limit:g} s")
            used = self._processes.used(cell.open)
            self.interrupt()
            due, told = time.monotonic() + GRACE, math.inf
        if "gone" in cell.how.values():
            raise self._job.error from cell.cause
        return cell

    def _call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the loop of the ranks, and return its result; an interrupt cancels it."""
        if self._loop is None:
            coroutine.close()
            raise self._job.error
        future = self._loop.begin(coroutine)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise


async def start(count: int, *, blocking: bool = False, options: Sequence[str] = ()) -> Ranks:
    """Start ranks that run cells.

    Args:
        count: number of ranks.
        blocking: True for ranks of the blocking face, for which `from mpi4py import MPI` works; by default they are of
            the asyncio face.
        options: more options of `aiompi-launch`, such as `["--hosts", "a:2,b:2"]`.

    Raises:
        RanksError: they cannot be started; the message says why.
    """
    return await ranks_for(count, options, blocking=blocking).start()


def ranks_for(count: int, options: Sequence[str] = (), *, blocking: bool = False) -> Ranks:
    """Return ranks that have not been started; see `start`.

    Raises:
        RanksError: IPython is not installed.
    """
    if find_spec("IPython") is None:
        raise RanksError("IPython runs the cells, and it is not installed: it comes with the extra notebook of aiompi")
    if blocking:
        return Ranks(count, ["blocking"], ["--mpi4py", *options])
    return Ranks(count, ["asyncio"], options)


def print_event(event: Event) -> None:
    """Print an event with its rank before each line."""
    match event:
        case Text():
            print(f"[{event.rank}] {event.text}", file=sys.stderr if event.is_error else sys.stdout)
        case Caution():
            print("\n".join(f"[{event.rank}] {line}" for line in event.text.splitlines()), file=sys.stderr)
        case Result():
            text = event.shown.data.get("text/plain", "an object without text")
            print("\n".join(f"[{event.rank}] {line}" for line in str(text).splitlines()))
        case Failure():
            traceback = "\n".join(event.raised.traceback)
            print("\n".join(f"[{event.rank}] {line}" for line in traceback.splitlines()), file=sys.stderr)
        case Unfinished():
            hint = "and may wait for a rank that has raised: interrupt the cell to end it"
            print(f"{ranks_do(event.ranks, 'still run')} this cell, {hint}")
