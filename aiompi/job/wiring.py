"""`Wiring`: the connections of a rank, which are the environment of its engine."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING

from aiompi.engine import Driver, Endpoint, Engine, Link, Peer, Request
from aiompi.engine.blame import cause_of
from aiompi.engine.environment import Environment
from aiompi.engine.processes import Program
from aiompi.engine.seams import RecoveryService
from aiompi.engine.slots import SlotProvider
from aiompi.errors import InvalidArgumentError, OtherError
from aiompi.job.failure_detector import FailureDetector
from aiompi.job.spawn import Children
from aiompi.net import interfaces
from aiompi.settings import Settings
from aiompi.transport import registry
from aiompi.transport.dial import describe
from aiompi.transport.loopback import Loopback
from aiompi.transport.recovery import AgentRecovery
from aiompi.transport.resolve import Address, Resolving, resolve
from aiompi.transport.template import Site, Transport
from aiompi.wire import control
from aiompi.wire.hello import NAMESPACE_BYTES, new_key

if TYPE_CHECKING:
    from aiompi.impi.universe import Universe
    from aiompi.transport.impi_host import ImpiHost


class Wiring(Environment):
    """The transports of a rank, and the handling of reports about its peers from transports and the agent.

    Args:
        settings: of the rank.
        driver: driver in which the rank waits.
        on_fatal: called with an error that no call can report.

    Attributes:
        engine: the engine of the rank, made here.
        transports: the transports that the rank uses, those with the highest preference first.
        loopback: the transport of messages to the rank itself and to ranks of the same process.
        host: the connection to the IMPI host; None without other IMPI clients.
        detector: judges how peers have ended; None while the rank is alone.
        agent_recovery: asks the agent about communicators with failed members; None if the job has no agent for this.
        all_finalized: request that completes when every rank of the job has finalized.
        children: the jobs that this rank has started.
        in_local_world: True if all ranks of the world are in this process.
    """

    loopback: Loopback

    def __init__(self, settings: Settings, driver: Driver, on_fatal: Callable[[BaseException], object]) -> None:
        self.engine = Engine(0, 1, settings, driver, self)
        self.transports: list[Transport] = []
        self.host: ImpiHost | None = None
        self.detector: FailureDetector | None = None
        self.agent_recovery: AgentRecovery | None = None
        self.all_finalized: Request[None] = Request(self.engine)
        self.children = Children(self.engine)
        self.in_local_world = False
        self._on_fatal = on_fatal
        self._alone = True
        self._drained: Request[None] | None = None
        self._resolving: Resolving | None = None

    # What the start of a rank needs.

    def add(self, *transports: Transport) -> None:
        """Use more transports."""
        for transport in transports:
            transport.drained = self._on_drained
            self.transports.append(transport)
            if isinstance(transport, Loopback):
                self.loopback = transport

    def open(self, site: Site, kinds: Sequence[type[Transport]]) -> None:
        """Use transports of these kinds."""
        self.add(*(kind(self.engine, site) for kind in kinds))

    def join(self, tell: Callable[[control.Message], object], *, knows_all: bool) -> None:
        """Judge the ends of peers together with the agent of a job.

        Args:
            tell: sends a message to the agent.
            knows_all: True if the agent knows all ranks of the world and decides which have failed.
        """
        self._alone = False
        self.detector = FailureDetector(self.engine, self.transports, tell, self.all_finalized.done, knows_all)
        if knows_all:
            self.agent_recovery = AgentRecovery(self.engine, tell, self.detector.gone)

    async def open_gateway(
        self, universe: Universe, address: str, key: bytes, on_lost: Callable[[str], object]
    ) -> None:
        """Connect to the ranks of other IMPI clients through the host of this client.

        Args:
            universe: the clients.
            address: address of the host, "unix:PATH".
            key: key of the job.
            on_lost: called with the cause when the connection breaks.
        """
        from aiompi.engine.gateway import Gateway  # other jobs do not need this module
        from aiompi.transport.impi_host import ImpiHost

        self.engine.gateway = Gateway(self.engine, universe)
        self.host = host = ImpiHost(self.engine, address, key, on_lost)
        host.drained = self._on_drained
        await host.connected

    async def address_to_bind(self) -> str:
        """Return the numeric address of the setting `bind`, empty if it is not set."""
        found: Request[str] = Request(self.engine)

        def resolved(addresses: list[Address], cause: str | None) -> None:
            if cause is None:
                found.complete(addresses[0][1][0])
            else:
                found.fail(InvalidArgumentError(f"this rank cannot listen at {name!r} (AIOMPI_BIND): {cause}"))

        name = self.engine.settings.bind
        if not name:
            return ""
        self._resolving = resolve(self.engine.driver, name, self.engine.settings.connect_timeout, resolved)
        return await found

    def hosts(self, seen: str, bind: str) -> tuple[str, ...]:
        """Return the addresses under which other ranks reach this rank.

        Args:
            seen: address of this host in the connection to the agent or the IMPI server; empty if agent or server is on
                this host.
            bind: numeric address on which this rank listens, or empty.
        """
        if self.engine.settings.interface:
            return interfaces.select(self.engine.settings.interface)
        if bind in interfaces.LOOPBACK:
            return tuple(dict.fromkeys((seen, *interfaces.published(bind)))) if seen else (interfaces.LOOPBACK[bind],)
        return (bind or seen or interfaces.loopback(),)

    # The environment of the engine.

    def connect(self, peer: Endpoint) -> Link:
        if not isinstance(peer, Peer):
            assert self.host is not None
            return self.host.link
        if self.loopback.reaches(peer, None):
            return self.loopback.connect(peer, None)
        try:
            return registry.connect(self.transports, peer, self.engine.processes.cards[peer.rank])
        except OtherError:
            raise
        except Exception as error:  # a card, which has not been checked, may say anything about another machine
            cause = describe(error) if isinstance(error, OSError) else cause_of(error)
            label = self.engine.processes.label(peer.rank)
            raise OtherError(f"{label} cannot be reached: {cause}") from None

    def home(self, card: control.BusinessCard) -> Hashable:
        return registry.home(card)

    @property
    def slot_provider(self) -> SlotProvider | None:
        return next(filter(None, (transport.slot_provider for transport in self.transports)), None)

    def lost(self, peer: Endpoint, cause: str) -> None:
        if self.detector is None:
            peer.mark_failed(cause)
        else:
            self.detector.lost(peer, cause)

    def forgotten(self, peer: Endpoint) -> None:
        if self.detector is not None:
            self.detector.forgotten(peer)

    def unfit(self, error: Exception) -> None:
        if self.detector is not None:
            self.detector.unfit(error)

    def fatal(self, error: BaseException) -> None:
        self._on_fatal(error)

    @property
    def recovery(self) -> RecoveryService | None:
        if self._alone and self.transports:
            return self.loopback.recovery
        return self.agent_recovery

    async def admit(self) -> None:
        if self.in_local_world:
            await super().admit()
        engine, processes = self.engine, self.engine.processes
        if engine.error is not None:
            raise engine.error
        if engine.gateway is not None:
            raise NotImplementedError("aiompi does not connect jobs that have several IMPI clients")
        bind = await self.address_to_bind() if self._unused() else ""
        kinds = self._unused()  # another call may have ended meanwhile
        if not kinds:
            return
        if processes.job not in processes.namespaces:  # this process is in no job
            processes.enrol(os.urandom(NAMESPACE_BYTES), new_key(), 0)
        if self.detector is None:
            self.detector = FailureDetector(engine, self.transports, None, self.all_finalized.done)
        self.open(dataclasses.replace(self.transports[0].site, bind=bind, hosts=self.hosts("", bind)), kinds)
        added = self.business_card(self.transports[-len(kinds) :], "")
        card = processes.cards.setdefault(engine.rank, added)
        card["window"] = added["window"]
        card["transports"] = {**card.get("transports", {}), **added["transports"]}
        engine.shm_domains[engine.rank] = self.home(card)

    def _unused(self) -> list[type[Transport]]:
        """Return the kinds of transports that this rank may use but has not needed so far."""
        used = {type(transport) for transport in self.transports}
        return [kind for kind in registry.select(self.engine.settings.transports) if kind not in used]

    def business_card(self, transports: Sequence[Transport], node: str) -> control.BusinessCard:
        """Let transports listen; return the card by which others reach the rank.

        Args:
            transports: some of this rank.
            node: name of the machine.
        """
        addresses = {transport.name: transport.address() for transport in transports}
        return control.BusinessCard(window=self.engine.settings.eager_window, host=node, transports=addresses)

    def start(self, programs: Sequence[Program], port: str, options: Sequence[str]) -> Request[None]:
        return self.children.start(programs, port, options, self.transports[0].site.hosts)

    def obituaries_changed(self) -> None:
        if self.detector is not None:
            self.detector.obituaries_changed()

    def relay(self, obituary: control.Obituary) -> None:
        if self.detector is not None:
            self.detector.relay(obituary)

    # The end.

    def idle(self) -> bool:
        """Return True if all data has left this process."""
        return all(transport.idle() for transport in self.transports) and (self.host is None or self.host.idle())

    def _on_drained(self) -> None:
        if self.detector is not None:
            self.detector.drained()
        if self._drained is not None and self.idle():
            drained, self._drained = self._drained, None
            drained.complete()

    async def flush(self) -> None:
        """Wait until all data has left this process; then tell the IMPI host that nothing follows, and wait again."""
        await self._drain()
        if self.host is not None:
            self.host.finish()
            await self._drain()

    async def _drain(self) -> None:
        if not self.idle():
            self._drained = Request(self.engine)
            await self._drained

    def give_up(self, error: Exception) -> None:
        """End communication at once: every operation fails with the error, now and later."""
        if self.detector is not None:
            self.detector.say(str(error))
        self.engine.failure.abort(error)
        if self.agent_recovery is not None:
            self.agent_recovery.close(error)
        drained, self._drained = self._drained, None
        if drained is not None:
            drained.fail(error)
        self.all_finalized.fail(error)

    def close(self) -> None:
        """Close all connections, and end the jobs that this rank has started."""
        self.children.close()
        for part in (self.detector, self._resolving, *self.transports, self.host):
            if part is not None:
                part.close()
