"""The start of a rank (MPI_Init, section 7.5): it joins its job, connects transports, and makes its communicators."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from aiompi.comm import Group, make_communicator
from aiompi.constants import CONTEXT_SELF, CONTEXT_WORLD
from aiompi.create import ports
from aiompi.driver.spin import cores, throttled
from aiompi.errors import failure
from aiompi.job.agent import AgentConnection, Contact
from aiompi.net import interfaces
from aiompi.transport import registry
from aiompi.transport.loopback import Loopback
from aiompi.transport.sockets import TCP
from aiompi.transport.template import Site
from aiompi.wire import control, liveness
from aiompi.wire.variables import ENV_PARENT

if TYPE_CHECKING:
    from aiompi.impi.universe import Universe
    from aiompi.job.runtime import Runtime

#: seconds of spinning; a sleeping core of a virtual machine takes up to half of this to wake up
_SPIN: Final = 500e-6


async def start(runtime: Runtime) -> None:
    """Start a rank; see `Runtime.start`."""
    engine, wiring = runtime.engine, runtime.wiring
    engine.outside.add(runtime)  # the agent may still send the cards after all other ranks have finalized
    try:
        runtime.contact = runtime.contact and await runtime.contact.met(engine)
        cards = None if runtime.contact is None else await _join(runtime, runtime.contact)
    except BaseException as error:
        if runtime.joined and isinstance(error, Exception):
            runtime.abort(1, f"rank {engine.rank} {failure(error)}")
        runtime.close()
        raise
    finally:
        engine.outside.discard(runtime)
    if cards is None:
        engine.processes.cards[0] = control.BusinessCard(host=runtime.node)
        engine.survives = runtime.settings.on_failure == "continue"
        wiring.open(Site(), [Loopback])
        make_communicators(runtime)
        runtime.record_calls()
        return
    engine.windows[:] = (card.get("window", 0) for card in cards)
    engine.shm_domains[:] = map(registry.home, cards)
    engine.processes.cards.update(enumerate(cards))
    make_communicators(runtime)
    runtime.record_calls()
    share_cores(runtime, cards)
    port = os.environ.pop(ENV_PARENT, None)
    if port is not None:
        runtime.parent = await ports.connect(runtime.world, port, 0)
    if engine.size == 1:
        engine.driver.set_deadlock_check(engine.failure.all_gone)


async def _join(runtime: Runtime, contact: Contact) -> list[control.BusinessCard]:
    """Join the job; return the business cards of all ranks when all of them have joined."""
    engine, wiring = runtime.engine, runtime.wiring
    runtime.agent = agent = AgentConnection(engine, contact, runtime.on_message, runtime.on_agent_lost)
    await agent.connected
    agent.send(control.Join(os.getpid(), liveness.namespace(), contact.world))
    welcome = await runtime.welcome
    runtime.joined = True
    universe = _universe(welcome)
    engine.join_world(welcome.rank, welcome.size, universe)
    engine.processes.enrol(welcome.job, b"", welcome.process - welcome.rank, welcome.keys)
    engine.survives = welcome.survives
    if welcome.heartbeat:
        agent.watch(welcome.heartbeat, welcome.namespace)
    await _open_transports(runtime, contact, welcome)
    several = universe is not None and len(universe.clients) > 1
    wiring.join(agent.send, knows_all=not several)
    if universe is not None and several and not universe.native:
        # Other clients may start earlier: their messages are acknowledged before this rank has all cards.
        await wiring.open_gateway(universe, welcome.host, contact.key, runtime.on_host_lost)
    if runtime.settings.debug:
        runtime.watch_calls()
    card = wiring.business_card(wiring.transports, runtime.node)
    if contact.appnum is not None:
        card["appnum"] = contact.appnum
    agent.send(control.Card(card))
    return await runtime.cards


def _universe(welcome: control.Welcome) -> Universe | None:
    if not welcome.universe:
        return None
    from aiompi.impi.universe import Universe  # no other job needs it

    return Universe.unpack(welcome.universe)


async def _open_transports(runtime: Runtime, contact: Contact, welcome: control.Welcome) -> None:
    """Use the transports that the settings and the place of this rank allow."""
    agent, wiring, settings = runtime.agent, runtime.wiring, runtime.settings
    assert agent is not None
    kinds = registry.select(settings.transports)
    if contact.local and not welcome.address and not settings.transports:
        kinds.remove(TCP)
    bind = await wiring.address_to_bind() if TCP in kinds else ""
    local = agent.local_host  # loopback, perhaps, in a job that ranks of other machines join
    seen = welcome.address if welcome.address and (not local or interfaces.is_loopback(local)) else local
    hosts = wiring.hosts(seen, bind) if TCP in kinds else ()
    may_return = bool(welcome.heartbeat) and not contact.launched
    wiring.open(Site(welcome.directory, bind, hosts, welcome.heartbeat, may_return, agent.process), kinds)


def share_cores(runtime: Runtime, cards: list[control.BusinessCard]) -> None:
    """Choose how a rank waits and wakes others, by the number of ranks per core of this host.

    Args:
        runtime: the rank.
        cards: the business cards of all ranks.
    """
    engine = runtime.engine
    uncrowded = (here := sum(card.get("host") == runtime.node for card in cards)) <= cores()
    runtime.universe_size *= here == len(cards)
    spin = runtime.settings.spin
    if spin is None:
        spin = _SPIN if uncrowded or not throttled() else 0.0
    engine.driver.spin(spin, yields_core=not uncrowded)
    engine.spins, engine.yields_core = spin > 0, not uncrowded


def make_communicators(runtime: Runtime) -> None:
    """Make COMM_WORLD and COMM_SELF of a rank whose number and world size are known."""
    engine, session = runtime.engine, runtime.sessions.world
    everyone, alone = Group.of(range(engine.size), engine.rank), Group.of((engine.rank,), engine.rank)
    runtime.world = make_communicator(engine, everyone, CONTEXT_WORLD, "MPI_COMM_WORLD", ids=session.ids)
    runtime.self_comm = make_communicator(engine, alone, CONTEXT_SELF, "MPI_COMM_SELF", ids=session.ids)
    runtime.world.session = runtime.self_comm.session = session
