"""`RanksJob`: in an event loop, starts and ends the ranks of a notebook, reads their output, and sends commands."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, Final

import aiompi
from aiompi.base.words import ranks_do
from aiompi.errors import MPIError
from aiompi.face.native.spawn import spawned_job
from aiompi.notebook.cell import WAITING, Caution, Cell, Event, Failure, Result, Text
from aiompi.notebook.protocol import MARK, WARNING, Command, Done, Pulled, Raised, Shown, Stop, pack, unpack

#: seconds in which ranks end by themselves
_ENDING: Final = 5.0


class RanksError(MPIError):
    """Ranks of a notebook have raised an exception, do not answer, or are gone."""


class RanksJob:
    """The ranks, as the rank of the notebook sees them.

    Args:
        count: number of ranks.
        arguments: arguments of the program of the ranks.
        options: of the launcher.

    Attributes:
        cell: the command that ranks carry out, or the last command if they carry out none.
        lost: why the ranks are gone; empty while they are there.
    """

    def __init__(self, count: int, arguments: Sequence[str], options: Sequence[str]) -> None:
        self._count, self._arguments, self._options = count, arguments, options
        self._children: Any = None
        self._tasks: list[asyncio.Task[None]] = []
        self._late: deque[Event] = deque(maxlen=WAITING)  # output of the ranks between cells
        self.cell: Cell | None = None
        self.lost = "they have not been started"

    # Their life.

    async def start(self) -> None:
        """Start the ranks.

        Raises:
            SpawnError: they cannot be started.
        """
        lines = aiompi.OutputLines()
        words = ("-m", "aiompi.notebook.worker", *self._arguments)
        self._children = await aiompi.spawn(self._count, *words, output=lines, options=self._options)
        self.lost = ""
        self._outputs: list[asyncio.Queue[aiompi.OutputLine]] = [asyncio.Queue(WAITING) for _ in range(self._count)]
        self._tasks = [asyncio.ensure_future(self._read(lines))]
        self._tasks += [asyncio.ensure_future(self._follow(rank)) for rank in range(self._count)]

    async def stop(self) -> None:
        """End the ranks: by the command `Stop` if they wait for cells, otherwise by a signal."""
        children, self._children = self._children, None
        if children is None:
            return
        idle = not self.lost and (self.cell is None or not self.cell.open)
        self._end("they have been stopped")
        try:
            if idle:
                async with asyncio.timeout(_ENDING):
                    for rank in range(self._count):
                        await children.send(pack(Stop()), dest=rank)
                    await children.Disconnect()
                return
        except (MPIError, TimeoutError):
            pass
        finally:
            for task in self._tasks:
                task.cancel()
        job = spawned_job(children)
        job.end()
        await job()

    def _end(self, reason: str) -> None:
        """Record that the ranks are gone."""
        self.lost = self.lost or reason
        if self.cell is not None:
            for rank in [*self.cell.open]:
                self.cell.settle(rank, "gone")

    @property
    def error(self) -> RanksError:
        """The error of a command when the ranks are gone."""
        return RanksError(f"the ranks are gone: {self.lost}. `%aiompi restart` starts new ones, without variables")

    # The output and the messages of the ranks.

    async def _read(self, lines: aiompi.OutputLines) -> None:
        """Hand out lines to the followers of ranks, until the ranks have ended."""
        job = spawned_job(self._children)
        async for line in lines:
            if line.rank is None:
                await self._put(Text(None, line.text, is_error=True))
            else:
                await self._outputs[line.rank].put(line)
        await job()
        self._end(str(job.error or "they have ended"))

    async def _follow(self, rank: int) -> None:
        """Pass on the output of a rank, and receive one message from the rank for each mark in the output."""
        ended = False  # True once standard error has ended for the command
        done: Done | None = None
        while True:
            line = await self._outputs[rank].get()
            text, mark, _ = line.text.partition(MARK)
            text, warning, packed = text.partition(WARNING)
            if text or not (mark or warning):
                await self._put(Text(rank, text, line.is_error))
            if warning:
                await self._put(Caution(rank, json.loads(packed)))
            if mark and line.is_error:
                ended = True
            elif mark:
                event = unpack(await self._children.recv(source=rank))
                if isinstance(event, Done):
                    done = event
                else:
                    await self._take(rank, event)
            if done is not None and ended:
                assert self.cell is not None
                self.cell.settle(rank, done.how)
                done = None
                ended = False

    async def _take(self, rank: int, event: object) -> None:
        match event:
            case Pulled():
                assert self.cell is not None
                self.cell.answers[rank] = event.value
            case Shown():
                await self._put(Result(rank, event))
            case Raised():
                await self._put(Failure(rank, event))

    async def _put(self, event: Event) -> None:
        if self.cell is None or self.cell.closed:
            self._late.append(event)
        else:
            await self.cell.put(event)

    # Commands.

    def signal(self, signum: int) -> None:
        """Send INTERRUPT or FENCE to all ranks."""
        if self._children is not None:
            spawned_job(self._children).signal(signum)

    async def send(self, commands: Mapping[int, Command]) -> Cell:
        """Let ranks begin commands.

        Raises:
            RanksError: the ranks are gone, or still busy.
        """
        if self.lost:
            raise self.error
        if self.cell is not None and self.cell.open:
            busy = ranks_do(self.cell.open, "still run")
            raise RanksError(f"{busy} an earlier cell. Interrupt it, or restart the ranks")
        self.cell = cell = Cell(asyncio.get_running_loop(), [*commands])
        while self._late:
            await cell.put(self._late.popleft())
        for rank, command in commands.items():
            await self._children.send(pack(command), dest=rank)
        return cell
