"""Messages within one process."""

from __future__ import annotations

from typing import Any

import pytest

from aiompi import errors
from aiompi.engine import Engine
from aiompi.settings import Settings
from aiompi.transport.loopback import Hub, Loopback, LoopbackLink
from aiompi.transport.template import Site
from aiompi.wire import frame
from support.worlds import LocalWorld, NoDriver, irecv, isend, pattern


def test_rank_of_its_own_process_reaches_itself_only() -> None:
    engine = Engine(3, 5, Settings(), NoDriver())  # type: ignore[arg-type]
    loopback = Loopback(engine, Site())
    assert loopback.address() == 3
    assert loopback.reaches(engine.peer(3), 3)
    assert not loopback.reaches(engine.peer(4), 4)


def test_ranks_of_a_hub_reach_each_other_until_they_close() -> None:
    hub = Hub()
    engines = [Engine(rank, 2, Settings(), NoDriver()) for rank in range(2)]  # type: ignore[arg-type]
    loopbacks = [Loopback(engine, Site(), hub) for engine in engines]
    assert loopbacks[0].reaches(engines[0].peer(1), 1)
    loopbacks[1].close()
    loopbacks[1].close()
    assert not loopbacks[0].reaches(engines[0].peer(1), 1)


def test_link_is_always_idle_and_transport_has_nothing_pending() -> None:
    w = LocalWorld(2)
    isend(w.comms[0], b"x", 1)
    link = w.engines[0].peer(1).link
    assert isinstance(link, LoopbackLink)
    assert link.idle
    loopback = Loopback(w.engines[0], Site())
    assert loopback.idle()
    assert not loopback.pending(w.engines[0].peer(1))


def test_message_is_delivered_inside_the_send() -> None:
    w = LocalWorld(2)
    receive = irecv(w.comms[1])
    send = isend(w.comms[0], pattern(10**6), 1)
    assert receive.done()
    assert send.done()


def test_consequences_of_a_delivery_wait_their_turn() -> None:
    w = LocalWorld(3)
    order: list[Any] = []
    receives = [irecv(w.comms[1]), irecv(w.comms[2]), irecv(w.comms[0])]

    def answer(_: Any) -> None:
        isend(w.comms[1], b"x", 2)
        isend(w.comms[1], b"y", 0)
        order.append("answered")

    receives[0].when_done(answer)
    receives[1].when_done(lambda _: order.append("2 has it"))
    receives[2].when_done(lambda _: order.append("0 has it"))
    isend(w.comms[0], b"x", 1)
    assert order == ["answered", "2 has it", "0 has it"]


def test_hub_survives_an_error_of_a_delivery() -> None:
    w = LocalWorld(2)

    def fail(_: Any) -> None:
        raise KeyboardInterrupt

    irecv(w.comms[1], 0, 1).when_done(fail)
    with pytest.raises(KeyboardInterrupt):
        isend(w.comms[0], b"x", 1, 1)
    isend(w.comms[0], b"y", 1, 2)
    assert irecv(w.comms[1], 0, 2).result() == b"y"


def test_pieces_arrive_as_one() -> None:
    w = LocalWorld(2)
    w.comms[0].isend((b"one ", memoryview(b"two "), b"", b"three"), 13, 1, 0)
    assert irecv(w.comms[1]).result() == b"one two three"


def test_received_bytes_are_the_receivers_own() -> None:
    w = LocalWorld(2)
    memory = bytearray(b"original")
    receive = w.comms[1].irecv(None, 0, 0, bytearray)
    isend(w.comms[0], memory, 1)
    memory[:] = b"modified"
    assert receive.result() == b"original"


def test_two_worlds_do_not_meet() -> None:
    first, second = LocalWorld(2), LocalWorld(2)
    receive = irecv(second.comms[1])
    isend(first.comms[0], b"x", 1)
    assert not receive.done()
    assert irecv(first.comms[1]).done()


def test_goodbye_reaches_the_others() -> None:
    w = LocalWorld(2)
    w.engines[0].peer(1).emit(frame.FINI)
    assert isinstance(irecv(w.comms[1], 0).exception(), errors.ProcessFailedError)
