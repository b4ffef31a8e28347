"""`Runtime`: one rank from start to end. It joins the job, connects transports, and creates the communicators."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import signal
import socket
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NoReturn, cast

from aiompi import settings as settings_module
from aiompi.coll import select
from aiompi.comm import Communicator, Group, make_communicator
from aiompi.comm.session import Sessions
from aiompi.constants import CONTEXT_SELF, CONTEXT_WORLD
from aiompi.driver.spin import cores, throttled
from aiompi.engine import Driver, Endpoint, Engine, Link, Peer, Request, Schedule
from aiompi.engine.blame import cause_of
from aiompi.engine.schedule import settled
from aiompi.errors import (
    InvalidArgumentError,
    JobAbortedError,
    LocalProtocolError,
    OtherError,
    ProcessFailedError,
    RevokedError,
    failure,
)
from aiompi.job.agent import Agent, Contact
from aiompi.job.departures import Departures
from aiompi.job.ports import Outreach, business_card
from aiompi.net import interfaces
from aiompi.objects import Codec
from aiompi.settings import Settings
from aiompi.transport import registry
from aiompi.transport.dial import describe
from aiompi.transport.loopback import Hub, Loopback
from aiompi.transport.recovery import AgentRecovery
from aiompi.transport.resolve import Address, Resolving, resolve
from aiompi.transport.sockets import TCP
from aiompi.transport.template import Site, Transport
from aiompi.wire import control, liveness
from aiompi.wire.hello import NAMESPACE_BYTES
from aiompi.wire.wait_report import WaitReport

if TYPE_CHECKING:
    from aiompi.hang_report import HangReporter
    from aiompi.impi.universe import Universe
    from aiompi.transport.impi_host import ImpiHost

#: seconds of spinning; a sleeping core of a virtual machine takes up to half of this to wake up
_SPIN: Final = 500e-6


class Runtime:
    """A rank of a job, or the only rank of a job of its own if there is no contact.

    Args:
        driver: driver in which this rank waits.
        contact: job to join.
        settings: settings, by default those of the environment.

    Attributes:
        engine: engine of this rank.
        world, self_comm: communicators COMM_WORLD and COMM_SELF, valid after the start.
        sessions: its sessions, beside COMM_WORLD.
        codec: serialises objects.
        on_end: called with an exit status if the job ends early and this rank has not caused it.
        parent: communicator with the processes that have spawned this one, None if there are none.
        parting: in a rank that lives only for ranks that it has spawned, returns a request of its end; otherwise None.
        on_finalize: called first when communication ends, while all calls are still possible.
        joined: True if the job has accepted this process as a rank. From then on its agent knows why the job ends.
        finalized: True if communication has ended.
        universe_size: number of cores of the machine, if all ranks are on it; otherwise 0.
        end_error: error of operations after the end of communication, None for one that says so.
    """

    def __init__(self, driver: Driver, contact: Contact | None = None, settings: Settings | None = None) -> None:
        self.settings = settings_module.load() if settings is None else settings
        select.check(self.settings.coll)
        select.tuning()  # read now: a program may lose access to the files of this package, for example by chroot
        self.engine = Engine(0, 1, self.settings, driver)
        self.engine.fatal = self._on_fatal
        self.codec = Codec(pickle=self.settings.pickle)
        self.joined = self.finalized = False
        self.universe_size = cores()
        self.end_error: Exception | None = None
        self.on_end: Callable[[int], object] = lambda code: None
        self.on_finalize: Callable[[], object] = lambda: None
        self.world: Communicator
        self.self_comm: Communicator
        self.sessions = Sessions(self, self.engine)
        self.contact = contact
        self._started: Schedule[None] | None = None
        self.parent: Communicator | None = None
        self.parting: Callable[[], Request[None]] | None = None
        self._agent: Agent | None = None
        self._transports: list[Transport] = []
        self.outreach = Outreach(self.engine, self._transports, self._expand, self._address_to_bind)
        self._host: ImpiHost | None = None
        self._welcome: Request[control.Welcome] = Request(self.engine)
        self._cards: Request[list[control.BusinessCard]] = Request(self.engine)
        self._farewell: Request[None] = Request(self.engine)
        self._drained: Request[None] | None = None
        self._departures: Departures | None = None
        self._recovery: AgentRecovery | None = None
        self._hang_reporter: HangReporter | None = None
        self._resolving: Resolving | None = None

    # Start.

    def start(self) -> Schedule[None]:
        """Join the job (MPI_Init, section 7.5). This is complete when every rank has joined.

        A rank is started once: later calls return the first request.

        Raises:
            JobAbortedError: the job cannot be joined, or has ended meanwhile.
        """
        if self._started is None:
            self._started = self.engine.spawn(self._start())
        return self._started

    async def _start(self) -> None:
        try:
            self.contact = self.contact and await self.contact.met(self.engine)
            cards = None if self.contact is None else await self._join(self.contact)
        except BaseException as error:
            if self.joined and isinstance(error, Exception):
                self.abort(1, f"rank {self.engine.rank} {failure(error)}")
            self.close()
            raise
        if cards is None:
            self.engine.processes.cards[0] = control.BusinessCard(host=self.node)
            self.engine.survives = self.settings.on_failure == "continue"
            self._wire(Site(), [Loopback])
            self._make_communicators(0, 1)
            return
        self.engine.windows[:] = (card.get("window", 0) for card in cards)
        self.engine.shm_domains[:] = map(registry.home, cards)
        self.engine.processes.cards.update(enumerate(cards))
        self._make_communicators(self.engine.rank, self.engine.size)
        self.engine.connect = self._connect
        self._share_cores(cards)
        self.parent = await self.outreach.meet_parent(self.world)
        if self.engine.size == 1:
            self.engine.driver.set_deadlock_check(self.engine.failure.all_gone)

    async def _join(self, contact: Contact) -> list[control.BusinessCard]:
        self._agent = agent = Agent(self.engine, contact, self._on_message, self._on_agent_lost)
        await agent.connected
        agent.send(control.Join(os.getpid(), liveness.namespace(), contact.world))
        welcome = await self._welcome
        self.joined = True
        universe = _universe(welcome)
        self.engine.join_world(welcome.rank, welcome.size, universe)
        processes = self.engine.processes
        processes.enrol(welcome.job, b"", welcome.process - welcome.rank, welcome.keys)
        self.outreach.offer()
        self.engine.survives = welcome.survives
        if welcome.heartbeat:
            agent.watch(welcome.heartbeat, welcome.namespace)
        kinds = registry.select(self.settings.transports)
        if contact.local and not welcome.address and not self.settings.transports:
            kinds.remove(TCP)
        bind = await self._address_to_bind() if TCP in kinds else ""
        local = agent.local_host  # loopback, perhaps, in a job that ranks of other machines join
        seen = welcome.address if welcome.address and (not local or interfaces.is_loopback(local)) else local
        hosts = self._hosts(seen, bind) if TCP in kinds else ()
        may_return = bool(welcome.heartbeat) and not contact.launched
        self._wire(Site(welcome.directory, bind, hosts, welcome.heartbeat, may_return, agent.process), kinds)
        alone = universe is None or len(universe.clients) < 2
        departures = Departures(self.engine, self._transports, agent.send, self._farewell.done, alone)
        self._departures = departures
        self._recovery = AgentRecovery(self.engine, agent.send, departures.gone) if alone else None
        self.engine.recovery = self._recovery
        if universe is not None and len(universe.clients) > 1 and not universe.native:
            await self._open_gateway(universe, welcome.host, contact.key)
        if self.settings.debug:
            self._watch_calls()
        card = business_card(self.engine, self._transports, self.node)
        if contact.appnum is not None:
            card["appnum"] = contact.appnum
        agent.send(control.Card(card))
        return await self._cards

    def _expand(self, kinds: list[type[Transport]], bind: str) -> None:
        """Use more kinds of transports, because processes of other jobs are to be reached."""
        if self._departures is None:
            self._departures = Departures(self.engine, self._transports, None, self._farewell.done)
        site = dataclasses.replace(self._transports[0].site, bind=bind, hosts=self._hosts("", bind))
        self._wire(site, kinds)
        self.engine.connect = self._connect

    async def _address_to_bind(self) -> str:
        """Return the numeric address of the setting `bind`, empty if it is not set."""
        found: Request[str] = Request(self.engine)

        def resolved(addresses: list[Address], cause: str | None) -> None:
            if cause is None:
                found.complete(addresses[0][1][0])
            else:
                found.fail(InvalidArgumentError(f"this rank cannot listen at {name!r} (AIOMPI_BIND): {cause}"))

        name = self.settings.bind
        if not name:
            return ""
        self._resolving = resolve(self.engine.driver, name, self.settings.connect_timeout, resolved)
        return await found

    def _hosts(self, seen: str, bind: str) -> tuple[str, ...]:
        """Return the addresses under which other ranks reach this one.

        Args:
            seen: address of this host in the connection to the agent or the IMPI server; empty if these are here.
            bind: numeric address on which this rank listens, or empty.
        """
        if self.settings.interface:
            return interfaces.select(self.settings.interface)
        if bind in interfaces.LOOPBACK:
            return tuple(dict.fromkeys((seen, *interfaces.published(bind)))) if seen else (interfaces.LOOPBACK[bind],)
        return (bind or seen or interfaces.loopback(),)

    async def _open_gateway(self, universe: Universe, address: str, key: bytes) -> None:
        """Connect to the ranks of other IMPI clients through the host of this client."""
        from aiompi.engine.gateway import Gateway  # other jobs do not need this module
        from aiompi.transport.impi_host import ImpiHost

        self.engine.gateway = Gateway(self.engine, universe)
        self._host = host = ImpiHost(self.engine, address, key, self._on_host_lost)
        host.drained = self._on_drained
        # Other clients may start earlier: their messages are acknowledged before this rank has all cards.
        self.engine.connect = lambda peer: host.link
        await host.connected

    def _on_host_lost(self, cause: str) -> None:
        if not self._farewell.done():
            self.abort(1, cause)
            self.on_end(1)

    def _connect(self, peer: Endpoint) -> Link:
        if not isinstance(peer, Peer):
            assert self._host is not None
            return self._host.link
        try:
            return registry.connect(self._transports, peer, self.engine.processes.cards[peer.rank])
        except OtherError:
            raise
        except Exception as error:  # all that is not of this machine is what the card says, which nobody has checked
            cause = describe(error) if isinstance(error, OSError) else cause_of(error)
            label = self.engine.processes.label(peer.rank)
            raise OtherError(f"{label} cannot be reached: {cause}") from None

    def _share_cores(self, cards: list[control.BusinessCard]) -> None:
        """Choose how this rank waits and wakes others, by the number of ranks per core of this host."""
        uncrowded = (here := sum(card.get("host") == self.node for card in cards)) <= cores()
        self.universe_size *= here == len(cards)
        spin = self.settings.spin
        if spin is None:
            spin = _SPIN if uncrowded or not throttled() else 0.0
        self.engine.driver.spin(spin, yields_core=not uncrowded)
        self.engine.spins, self.engine.yields_core = spin > 0, not uncrowded

    def _wire(self, site: Site, kinds: list[type[Transport]]) -> None:
        for kind in kinds:
            transport = kind(self.engine, site)
            transport.drained = self._on_drained
            self._transports.append(transport)
        own = next(transport for transport in self._transports if isinstance(transport, Loopback))
        self.engine.connect = lambda peer: own.connect(cast(Peer, peer), peer.rank)

    def _make_communicators(self, rank: int, size: int) -> None:
        session = self.sessions.world
        everyone, alone = Group.of(range(size), rank), Group.of((rank,), rank)
        self.world = make_communicator(self.engine, everyone, CONTEXT_WORLD, "MPI_COMM_WORLD", ids=session.ids)
        self.self_comm = make_communicator(self.engine, alone, CONTEXT_SELF, "MPI_COMM_SELF", ids=session.ids)
        self.world.session = self.self_comm.session = session

    # Reports of the agent and the transports.

    def _on_message(self, message: control.Message) -> None:
        match message:
            case control.Welcome():
                self._welcome.complete(message)
            case control.Cards():
                self._cards.complete(message.cards)
            case control.Finalized():
                self._farewell.complete()
            case control.Left() | control.Failed() | control.Obituary():
                assert self._departures is not None
                self._departures.report(message)
            case control.Revoke():
                rank = self.engine.processes.of_job(message.process)
                if rank is not None:  # otherwise it has nothing to do with this rank
                    self.engine.failure.revoked(message.context, rank)
            case control.Agreed() if self._recovery is not None:
                self._recovery.agreed(message)
            case control.ReportRequest():
                self._tell(message.number, self._hang_reporter.report() if self._hang_reporter else WaitReport())
            case control.Abort():
                self._end(message.code, message.reason)
            case _:
                self._end(1, f"the agent sent {type(message).__name__}, which is not for ranks")

    def _watch_calls(self) -> None:
        """Report calls that wait for long to the agent."""
        from aiompi.hang_report import HangReporter  # seldom needed

        self._hang_reporter = HangReporter(self.engine, self.settings.debug, lambda report: self._tell(0, report))

    def _tell(self, number: int, report: WaitReport) -> None:
        if self._agent is not None and self.engine.error is None:
            self._agent.send(control.Report(number, report.pack()))

    def _on_agent_lost(self, cause: str) -> None:
        self._end(1, f"the job ended: {cause}")

    def _end(self, code: int, reason: str) -> None:
        """Handle an end of the job that this rank has not caused."""
        self.give_up(JobAbortedError(reason))
        self.on_end(code)

    def give_up(self, error: Exception) -> None:
        """End communication at once: every operation fails with the error, now and later."""
        if self._departures is not None:
            self._departures.say(str(error))
        self.engine.failure.abort(error)
        if self._recovery is not None:
            self._recovery.close(error)
        drained, self._drained = self._drained, None
        for request in filter(None, (self._welcome, self._cards, self._farewell, drained)):
            request.fail(error)
        self.close()

    def _on_fatal(self, error: BaseException) -> None:
        """Handle the failure of an operation that no call waits for: it can only end the job (section 2.7)."""
        # A peer that fails does not end this rank if the job survives failures, or if it may be of another job.
        engine = self.engine
        if (engine.survives or engine.processes.has_met) and isinstance(error, ProcessFailedError | RevokedError):
            return
        what = "a send that was complete already, or an operation whose request was freed, has failed"
        self.abort(1, f"rank {engine.rank}: {what}: {error}")
        self.on_end(1)

    def _on_drained(self) -> None:
        if self._departures is not None:
            self._departures.drained()
        if self._drained is not None and self._idle():
            drained, self._drained = self._drained, None
            drained.complete()

    def at_rest(self) -> bool:
        """Return True if no operation is in progress, and no data waits to be sent."""
        return self.engine.at_rest() and self._idle()

    def _idle(self) -> bool:
        return all(transport.idle() for transport in self._transports) and (self._host is None or self._host.idle())

    # End.

    def finalize(self, timeout: float | None = None) -> Schedule[bool]:
        """End communication (MPI_Finalize, section 7.5). This is complete when every rank of the job has called it.

        Collectives in progress end first, and messages are delivered as far as they are received.

        Args:
            timeout: seconds after which this rank leaves without the others; None if it waits for them.

        Returns:
            A request whose result is True if all ranks have finalized, False if this rank has left without them.

        Raises:
            aiompi.MPIError: a callback for the attributes of COMM_SELF failed; communication has not ended.
        """
        self._before_end()
        if not self.sessions.open:
            self._meet()
        schedules = [schedule for schedule in self.engine.schedules if schedule.owner is not self.sessions]
        if self.sessions.open:
            return self.engine.spawn(self.sessions.end_world(schedules))
        finalizing = self.engine.spawn(self._finalize(schedules))
        if timeout is None or finalizing.done():
            return finalizing
        return self.engine.spawn(self._finalize_in_time(finalizing, timeout))

    async def _finalize_in_time(self, finalizing: Schedule[bool], timeout: float) -> bool:
        first: Request[None] = Request(self.engine)
        timer = self.engine.driver.call_later(timeout, first.complete)
        finalizing.when_done(lambda _: None if first.done() else first.complete())
        await first
        timer.cancel()
        if finalizing.done() or self.engine.error is not None:
            return await finalizing
        await self.stop_waiting()
        return False

    def stop_waiting(self) -> Schedule[None]:
        """Leave without the other ranks while `finalize` waits for them; the agent learns this at once."""
        return self.engine.spawn(self._stop_waiting())

    async def _stop_waiting(self) -> None:
        self.engine.finish()
        if self._agent is not None:
            self._agent.send(control.Leave())
            await self._agent.finish()
        self.give_up(self._finalized_error())

    async def _finalize(self, schedules: list[Schedule[Any]]) -> bool:
        if self.finalized:
            raise LocalProtocolError("Finalize was called before: call it once, as the last MPI call")
        if self.engine.error is not None:
            raise self.engine.error
        self._closing()
        await settled(schedules)
        await self.engine.encoded()
        if self.engine.gateway is not None:
            self.engine.gateway.fail_unmatched_sends()  # the barrier among clients has ended
        self.engine.finish()
        await settled(self.engine.undelivered())
        await self._flush()
        await self.outreach.children_ended()
        if self._agent is not None:
            self._agent.send(control.Finalize())
            await self._farewell
            await self._agent.finish()
        self._end_well()
        return True

    def _meet(self) -> None:
        """Start the final barrier of the ranks of several clients (IMPI 0.0, section 2.4)."""
        if self.engine.gateway is not None and not self.finalized and self.engine.error is None:
            from aiompi.coll import buffers  # other jobs do not need it here

            buffers.barrier(self.world)

    def leave(self) -> Schedule[None]:
        """End communication without waiting for the other ranks: deliver sent messages and leave."""
        self._before_end()
        return self.engine.spawn(self._leave())

    async def _leave(self) -> None:
        self._closing()
        await self.engine.encoded()
        if self.engine.undelivered() or self.outreach.has_children:
            self.engine.finish()  # so that no process waits for this rank while this rank waits for that process
            await settled(self.engine.undelivered())
        self.engine.part()
        await self._flush()
        await self.outreach.children_ended()
        if self._agent is not None:
            self._agent.send(control.Leave())
            await self._agent.finish()
        self._end_well()

    def leave_now(self) -> None:
        """Tell the agent that this rank ends, at the end of a process whose event loop does not run any more."""
        if not self.finalized and self.engine.error is None:
            with contextlib.suppress(RuntimeError):  # what cannot leave at once needs the loop
                self.engine.part()
            if self._agent is not None:
                self._agent.send(control.Leave())
            self._closing()

    def _before_end(self) -> None:
        if not self.finalized and not self.sessions.world_ended and self.engine.error is None:
            self.on_finalize()

    def _closing(self) -> None:
        self.finalized = True
        self.engine.close()

    def _end_well(self) -> None:
        self.close()
        self.engine.failure.abort(self._finalized_error())

    def _finalized_error(self) -> Exception:
        return self.end_error or LocalProtocolError(
            f"rank {self.engine.rank} has finalized: no communication is possible"
        )

    async def _flush(self) -> None:
        """Wait until all data has left this process, with the message to the IMPI host that nothing follows."""
        await self._drain()
        if self._host is not None:
            self._host.finish()
            await self._drain()

    async def _drain(self) -> None:
        if not self._idle():
            self._drained = Request(self.engine)
            await self._drained

    def fail(self, error: BaseException) -> None:
        """End the job because of an exception that the program does not catch; or this rank, if the job survives it."""
        code, cause = 1, failure(error)
        if isinstance(error, SystemExit) and isinstance(error.code, int):
            code, cause = error.code, f"exited with status {error.code}"
        elif isinstance(error, KeyboardInterrupt):
            code, cause = 128 + signal.SIGINT, "was ended by KeyboardInterrupt (SIGINT)"
        reason = f"rank {self.engine.rank} {cause}"
        if self.engine.survives and self._agent is not None and self.engine.error is None:
            self._agent.send(control.Failed(self.engine.processes.own.process, cause))
            self.finalized = True
            self.give_up(JobAbortedError(reason))
        else:
            self.abort(code, reason)

    def abort(self, code: int, reason: str) -> None:
        """End the job (MPI_Abort, section 7.5) through the agent, which ends all other ranks.

        Args:
            code: exit status of the job.
            reason: which rank aborts and why, for the user.
        """
        if self._agent is not None and self.engine.error is None:
            self._agent.abort(code, reason)
        self.finalized = True
        self.give_up(JobAbortedError(reason))

    def disown(self) -> None:
        """Reset the copy of a rank in a forked process: operations fail, and nothing of the parent is touched."""
        # Connections are not closed, because that could shut down those of the parent.
        self._inherited = self._transports, self._agent, self._host
        settings_module.rc.forgotten_by(self)
        self._transports, self._agent, self._host = [], None, None
        try:
            for transport in self._inherited[0]:
                transport.disown()
            self.engine.driver.reset_after_fork()
        finally:
            self.engine.failure.abort_fork(
                LocalProtocolError(
                    f"this process was forked from rank {self.engine.rank} and is no rank itself: only its parent can "
                    "communicate"
                )
            )

    def exit(self, code: int) -> NoReturn:
        """End this process at once, as MPI_Abort does, but flush its output."""
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):
                stream.flush()
        os._exit(code)

    @property
    def label(self) -> str:
        """Name of this rank in messages, also before it knows its number."""
        if self.contact is not None and not self.joined:
            return "a process that was about to become a rank"
        return f"rank {self.engine.rank}"

    @property
    def node(self) -> str:
        """Name of the machine. Processes with equal names can share memory."""
        return socket.gethostname()

    @property
    def launched(self) -> bool:
        """True if a launcher started this process."""
        return self.contact is not None and self.contact.launched

    def close(self) -> None:
        """Close all connections and remove all files."""
        settings_module.rc.forgotten_by(self)
        self.outreach.close()
        users = self._departures, self._hang_reporter, self._resolving
        ways: list[Transport | ImpiHost | Agent | None] = [*self._transports, self._host, self._agent]
        for part in (*users, *ways):
            if part is not None:
                part.close()


def _universe(welcome: control.Welcome) -> Universe | None:
    if not welcome.universe:
        return None
    from aiompi.impi.universe import Universe  # no other job needs it

    return Universe.unpack(welcome.universe)


def local_runtimes(size: int, driver: Driver, settings: Settings | None = None) -> list[Runtime]:
    """Return ranks that live in one process and wait in one driver, connected by loopback."""
    hub = Hub()
    runtimes = []
    job = os.urandom(NAMESPACE_BYTES)
    for rank in range(size):
        runtime = Runtime(driver, settings=settings)
        runtime.universe_size = size
        runtime.engine.join_world(rank, size)
        runtime.engine.processes.enrol(job, b"", 0)
        transport = Loopback(runtime.engine, Site(), hub)
        runtime._transports.append(transport)
        runtime.engine.connect = lambda peer, own=transport: own.connect(peer, peer.rank)  # type: ignore[misc]
        runtime._make_communicators(rank, size)
        runtimes.append(runtime)
    return runtimes
