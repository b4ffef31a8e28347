"""The other IMPI clients of a job, for its supervisor; nothing here takes time in a job without other clients."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from aiompi.wire import control
from aiompi_launcher.job.rendezvous import Rendezvous, RendezvousError
from aiompi_launcher.job.table import Job
from aiompi_launcher.net.listen import rethrow


class Clients:
    """Performs the steps of a job that include other clients, each in its own task.

    Args:
        job: the table of the job.
        inform: tells the table of an event.
        fail: ends the job for a reason.
    """

    def __init__(self, job: Job, inform: Callable[..., None], fail: Callable[[str], None]) -> None:
        self._job, self._inform, self._fail = job, inform, fail
        self._rendezvous: Rendezvous
        self._steps: set[asyncio.Task[None]] = set()

    async def meet(self, rendezvous: Rendezvous, ended: asyncio.Future[int]) -> bool:
        """Run the IMPI start-up protocol; give it up if the job ends first.

        Args:
            rendezvous: the IMPI server.
            ended: done once the job has ended.

        Returns:
            True if the job goes on.
        """
        self._rendezvous = rendezvous
        meeting = asyncio.create_task(rendezvous.meet())
        either: set[asyncio.Future[Any]] = {meeting, ended}
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if not meeting.done():
            meeting.cancel()
            await asyncio.wait({meeting})
            return False
        try:
            world = meeting.result()
        except RendezvousError as error:
            self._fail(str(error))
            return False
        self._job.enrol(world)
        rendezvous.watch(self._fail)
        return True

    def exchange(self, cards: list[control.BusinessCard]) -> None:
        """Exchange the cards of all ranks, and tell the table."""
        self._take(self._exchange(cards))

    def fence(self) -> None:
        """Wait until the ranks of all clients have finalized or left, and tell the table."""
        self._take(self._fence())

    async def leave(self, *, well: bool, hurry: asyncio.Event) -> bool:
        """Close the connection to the server.

        Args:
            well: True to send FINI before. The end of a connection without FINI means failure.
            hurry: set once the user does not wait for other clients.

        Returns:
            False if FINI was given up because of `hurry`.

        Raises:
            RendezvousError: the server has ended.
        """
        for step in self._steps:
            step.cancel()
        try:
            return not well or await self._finish(hurry)
        finally:
            await self._rendezvous.close()

    async def _finish(self, hurry: asyncio.Event) -> bool:
        leaving = asyncio.ensure_future(self._rendezvous.finish())
        hurried = asyncio.ensure_future(hurry.wait())
        await asyncio.wait({leaving, hurried}, return_when=asyncio.FIRST_COMPLETED)
        hurried.cancel()
        if not leaving.done():
            leaving.cancel()
            return False
        leaving.result()
        return True

    def _take(self, step: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(step)
        self._steps.add(task)
        task.add_done_callback(self._steps.discard)
        task.add_done_callback(rethrow)

    async def _exchange(self, cards: list[control.BusinessCard]) -> None:
        try:
            everybody = await self._rendezvous.exchange(cards)
        except RendezvousError as error:
            self._fail(str(error))
        else:
            self._inform(self._job.introduce, everybody)

    async def _fence(self) -> None:
        try:
            await self._rendezvous.fence()
        except RendezvousError as error:
            self._fail(str(error))
        else:
            self._inform(self._job.fenced)
