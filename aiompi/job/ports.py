"""`Outreach`: how a rank reaches processes of other jobs, and starts some (MPI-2, chapter 5)."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from aiompi.comm import Communicator
from aiompi.create import ports
from aiompi.engine import Engine, Request
from aiompi.engine.processes import Program
from aiompi.engine.schedule import settled
from aiompi.errors import InvalidServiceError
from aiompi.job import published_names
from aiompi.job.spawn import Launch
from aiompi.transport import registry
from aiompi.transport.template import Transport
from aiompi.wire import control
from aiompi.wire.hello import NAMESPACE_BYTES, new_key


class Outreach:
    """What a rank needs beyond its job.

    Args:
        engine: of the rank.
        transports: its transports.
        expand: makes the rank use more kinds of transports, which listen at a numeric address.
        bind: returns the address at which TCP listens.
    """

    def __init__(
        self,
        engine: Engine,
        transports: list[Transport],
        expand: Callable[[list[type[Transport]], str], object],
        bind: Callable[[], Coroutine[Any, Any, str]],
    ) -> None:
        self._engine = engine
        self._transports = transports
        self._expand = expand
        self._bind = bind
        self._launches: list[Launch] = []
        self._published: set[str] = set()
        self.offer()

    def offer(self) -> None:
        """Let communicators use this; call it again when the rank has taken its place in a world."""
        processes = self._engine.processes
        processes.home, processes.admit, processes.start = registry.home, self._admit, self._start

    async def _admit(self) -> None:
        """Listen for processes of other jobs, and be able to connect to them."""
        engine, processes = self._engine, self._engine.processes
        if engine.error is not None:
            raise engine.error
        if engine.gateway is not None:
            raise NotImplementedError("aiompi does not connect jobs that have several IMPI clients")
        address = await self._bind() if self._missing() else ""
        missing = self._missing()  # another call may have ended meanwhile
        if not missing:
            return
        if processes.job not in processes.namespaces:  # this process is in no job
            processes.enrol(os.urandom(NAMESPACE_BYTES), new_key(), 0)
        self._expand(missing, address)
        added = business_card(engine, self._transports[-len(missing) :], "")
        card = processes.cards.setdefault(engine.rank, added)
        card["window"] = added["window"]
        card["transports"] = {**card.get("transports", {}), **added["transports"]}
        engine.shm_domains[engine.rank] = processes.home(card)

    def _missing(self) -> list[type[Transport]]:
        """Return the kinds of transports that this rank may use, and has not needed so far."""
        used = {type(transport) for transport in self._transports}
        return [kind for kind in registry.select(self._engine.settings.transports) if kind not in used]

    def _start(self, programs: Sequence[Program], port: str, options: Sequence[str]) -> Request[None]:
        settings, hosts = self._engine.settings, self._transports[0].site.hosts
        given = settings.bind or settings.interface or not hosts
        # so that other hosts of this job reach the new processes
        variables = {} if given else {"AIOMPI_INTERFACE": ",".join(hosts)}
        launch = Launch(self._engine, programs, port, options, variables=variables)
        self._launches.append(launch)
        launch.ended.when_done(lambda _: self._launches.remove(launch))
        return launch.ended

    async def meet_parent(self, world: Communicator) -> Communicator | None:
        """Connect to the processes that have spawned this one, and return the communicator; None if there are none."""
        port = os.environ.pop(control.ENV_PARENT, None)
        return None if port is None else await ports.connect(world, port, 0)

    @property
    def has_children(self) -> bool:
        """True while jobs are running that this rank has started."""
        return bool(self._launches)

    async def children_ended(self) -> None:
        """Wait until the jobs that this rank has started have ended: their launchers end with this process."""
        await settled([launch.ended for launch in self._launches])

    # Published published_names.

    def publish(self, service: str, port: str) -> None:
        """Publish the name of a port (MPI_Publish_name)."""
        if self._engine.error is not None:
            raise self._engine.error  # nothing would withdraw it
        published_names.publish(self._engine.settings, service, port)
        self._published.add(service)

    def withdraw(self, service: str) -> None:
        """Undo `publish` (MPI_Unpublish_name)."""
        published_names.withdraw(self._engine.settings, service)
        self._published.discard(service)

    def lookup(self, service: str) -> str:
        """Return the name of the port that was published with a service (MPI_Lookup_name)."""
        return published_names.lookup(self._engine.settings, service)

    def close(self) -> None:
        """Withdraw the names that are still published, and end the jobs that this rank has started."""
        for launch in self._launches:
            launch.close()
        for service in [*self._published]:
            with contextlib.suppress(InvalidServiceError, OSError):  # what clears the directory has removed it
                self.withdraw(service)


def business_card(engine: Engine, transports: Sequence[Transport], host: str) -> control.BusinessCard:
    """Let transports listen; return the card by which others reach the rank."""
    addresses = {transport.name: transport.address() for transport in transports}
    return control.BusinessCard(window=engine.settings.eager_window, host=host, transports=addresses)
