"""The engine as a whole: its tables, its peers, and its behaviour before it has links."""

from __future__ import annotations

import asyncio
import sys
import threading
from typing import Any

import pytest

from aiompi import errors
from aiompi.constants import ANY_SOURCE, ANY_TAG, CONTEXT_SELF
from aiompi.driver.aio import AsyncioDriver
from aiompi.engine import Engine
from aiompi.engine.probe import Probe
from aiompi.engine.receive import Receive
from aiompi.settings import Settings
from support.spmd import Run
from support.worlds import LocalWorld, NoDriver, WireWorld, irecv, isend


def test_engine_without_links_says_so() -> None:
    engine = Engine(0, 2, Settings(), NoDriver())  # type: ignore[arg-type]
    with pytest.raises(errors.LocalProtocolError, match="rank 0 cannot reach rank 1"):
        engine.peer(1).send((), 0, 0, 0, 0)


def test_peers_are_made_when_needed() -> None:
    w = LocalWorld(3)
    engine = w.engines[0]
    assert engine.peers() == []
    assert engine.peer(2) is engine.peer(2)
    assert [peer.rank for peer in engine.peers()] == [2]
    irecv(w.comms[0], 1)
    assert [peer.rank for peer in engine.peers()] == [2], "a posted receive needs no peer yet"


def test_connection_is_made_by_the_first_frame() -> None:
    w = WireWorld(3)
    irecv(w.comms[1])
    assert w.wires == {}
    isend(w.comms[0], b"x", 1)
    assert list(w.wires) == [(0, 1)]


def test_place_in_the_world_can_be_taken_late() -> None:
    engine = Engine(0, 1, Settings(eager_window=7), NoDriver())  # type: ignore[arg-type]
    engine.join_world(2, 4)
    assert (engine.rank, engine.size, engine.windows) == (2, 4, [7, 7, 7, 7])
    assert engine.peer(3).credit == 7


@pytest.mark.spec("S3.2.3-4")
def test_contexts_are_separate_before_they_are_known() -> None:
    w = LocalWorld(2)
    for context in (4, CONTEXT_SELF, 2**64 - 1):
        w.engines[0].peer(1).send((memoryview(b"%d" % context),), len(b"%d" % context), context, 0, 3)
    assert w.comms[1].iprobe(ANY_SOURCE, ANY_TAG) is None
    for context in (4, CONTEXT_SELF, 2**64 - 1):
        message = w.engines[1].iprobe(w.engines[1].matcher(context), 0, 3, 0)
        assert message is not None
        assert message.length == len(b"%d" % context)


def test_all_gone() -> None:
    w = WireWorld(3)
    engine = w.engines[0]
    assert not engine.failure.all_gone()
    isend(w.comms[1], bytes(100), 0)
    isend(w.comms[0], bytes(100), 1)
    w.run_wire(1, 0, 60)
    w.engines[1].finish()
    engine.peer(2).mark_failed("test")
    assert not engine.failure.all_gone()
    w.run_wire(1, 0)
    assert not engine.failure.all_gone(), "own bytes are still being sent"
    w.run_wire(0, 1)
    assert engine.failure.all_gone()
    assert LocalWorld(1).engines[0].failure.all_gone()


def test_a_peer_that_connects_later_hears_that_this_rank_has_finished() -> None:
    w = WireWorld(3)
    isend(w.comms[0], b"x", 1)
    w.run()
    w.engines[0].finish()
    assert w.engines[0].finished
    w.engines[0].peer(2).connect()  # type: ignore[attr-defined]
    w.run()
    assert irecv(w.comms[1], 0).result() == b"x"
    for other in (1, 2):
        with pytest.raises(errors.ProcessFailedError, match="rank 0 has finalized"):
            irecv(w.comms[other], 0).result()


def test_completed_operations_leave_nothing_in_the_tables() -> None:
    w = WireWorld(2, cut=50, eager_limit=100)
    for size in (0, 100, 1000):
        for sync in (False, True):
            isend(w.comms[0], bytes(size), 1, 0, sync)
            irecv(w.comms[1])
            w.run()
    for engine in w.engines:
        assert not engine.sends
        assert not engine.arriving
        assert not engine.schedules
        assert not engine.peer(1 - engine.rank).landings
        assert not engine.peer(1 - engine.rank).orphans


@pytest.mark.parametrize("then", ["a receive", "a probe", "a look", "a turn"])
@pytest.mark.parametrize("where", ["in the engine", "in another thread", "unknown"])
def test_what_is_dropped_is_undone_later(run: Run, then: str, where: str) -> None:
    """The thread of the rank undoes it, while the engine is at rest."""
    undone: list[int] = []

    async def main() -> None:
        driver = AsyncioDriver()
        assert driver.loop is asyncio.get_running_loop(), "every rank that has joined knows its loop"
        engine = Engine(0, 2, Settings(), driver)
        matcher = engine.matcher(0)
        undo, frame = (lambda: undone.append(threading.get_ident())), sys._getframe()
        if where == "in the engine":
            inside: Any = eval("sys._getframe()", {"sys": sys, "__name__": "aiompi.engine.matching"})
            engine.finalizers.defer(undo, inside)
        elif where == "in another thread":
            await asyncio.get_running_loop().run_in_executor(None, engine.finalizers.defer, undo, frame)
        else:
            engine.finalizers.defer(undo)
        assert where == "in another thread" or not undone
        if then == "a receive":
            engine.receive(Receive(engine, matcher, None, 1, 0, 1))
        elif then == "a probe":
            engine.probe(Probe(engine, matcher, 1, 0, 1))
        elif then == "a look":
            engine.iprobe(matcher, 1, 0, 1)
        else:
            await asyncio.sleep(0.01)
        assert undone == [threading.get_ident()]
        await asyncio.sleep(0.01)
        engine.finalizers.defer(undo, frame)
        assert undone == [threading.get_ident()] * 2, "at once, since the engine is at rest"

    run(main())
