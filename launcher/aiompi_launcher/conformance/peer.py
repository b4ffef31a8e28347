"""A simulated implementation under test, made of the tester's own processes, to test the tester itself.

It can be made wrong on purpose, to see that the tester notices.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from aiompi_launcher.conformance.delivery import follow
from aiompi_launcher.conformance.journal import Journal
from aiompi_launcher.conformance.lower import LowerTester
from aiompi_launcher.conformance.model.client import Client, ClientMischief, Part
from aiompi_launcher.conformance.model.mpi import ModelMpi


class Peer:
    """A simulated client under test.

    Args:
        part: description of the client.
        mischief: applies a fault.
        say: called with each line that it prints.
    """

    def __init__(
        self, part: Part, mischief: ClientMischief | None = None, say: Callable[[str], None] = lambda _: None
    ) -> None:
        self._client = Client(part, LowerTester(Journal()), mischief)
        self._say = say

    async def run(self, address: str, port: int, *, startup_only: bool = False) -> None:
        """Take part in one job, to its end."""
        try:
            await self._client.start(address, port)
            if not startup_only:
                await self._follow()
            await self._client.finalize()
        finally:
            self._client.close()
            await self._client.closed()

    async def _follow(self) -> None:
        procs = [proc for host in self._client.hosts for proc in host.procs.values()]
        await asyncio.gather(*(follow(ModelMpi(proc, controls=False), self) for proc in procs))

    def print(self, text: str) -> None:
        self._say(text.rstrip("\n"))

    report = print
