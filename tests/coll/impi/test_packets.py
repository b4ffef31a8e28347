"""Collectives and constructors over clients as packets of IMPI, which pass through the hosts."""

from __future__ import annotations

import numpy as np
import pytest

from aiompi.coll import buffers, objects
from aiompi.comm import Group
from aiompi.create import create, create_intercomm, dup, free, merge, split
from aiompi.impi.packet import PacketType
from aiompi.objects import Codec
from aiompi.op import SUM
from coll.test_isolation import started
from support.impi_worlds import ImpiWorld, RelayLink

CLIENTS = [[1, 1], [2, 1, 3], [3, 2], [1] * 6]
FIRST = (PacketType.DATA, PacketType.DATASYNC)


def results(world, call):
    """Make a call on all ranks, and let it end; its results by rank."""
    requests = [call(comm) for comm in world.comms]
    world.run()
    return [request.result() for request in requests]


def sent(world, call):
    """The packets with data of a call, with that data."""
    world.relay.packets.clear()
    results(world, call)
    return [(packet, data) for packet, data in world.relay.packets if packet.pk_type in FIRST]


@pytest.mark.spec("I1.1-2", "I4.1-4")
@pytest.mark.parametrize("clients", CLIENTS, ids=str)
@pytest.mark.parametrize(("cut", "datalen", "xsize"), [(2**30, 65536, 1024), (61, 7, 1024), (2**30, 3, 0)])
def test_every_collective(clients, cut, datalen, xsize):
    """All under way at once, with packets of any length, which arrive in pieces; short and long forms."""
    limits = {"datalen": datalen, "xsize": xsize, "ackmark": 2, "hiwater": 3}
    world = ImpiWorld(clients, cut=cut, seed=5, limits=limits)
    calls = [call for comm in world.comms for call in started(comm, Codec())]
    world.run()
    assert all(request.done() and right() for request, right in calls)
    assert {packet.pk_cid for packet, _ in world.relay.packets if packet.pk_type in FIRST} == {1}


@pytest.mark.spec("I4.1-4", "I3.5-11", "I3.5-13")
def test_long_messages_of_a_collective():
    """Short and long in the sense of collectives have nothing to do with packets: a long message takes several of
    them, and waits for the first to be matched, also when it is one of the short variant."""
    world = ImpiWorld([1, 2], limits={"datalen": 10})
    made, place = [np.full(3, rank, "i") for rank in range(3)], np.zeros(9, "i")
    packets = sent(world, lambda comm: buffers.gather(comm, made[comm.rank], place if comm.rank == 0 else None, 0))
    assert place.tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert [packet.pk_type for packet, _ in packets] == [PacketType.DATASYNC, PacketType.DATA, PacketType.DATA]
    assert {(p.pk_tag, p.pk_cid, p.pk_lsrank, p.pk_msglen) for p, _ in packets} == {(130, 1, 1, 24)}
    assert b"".join(data for _, data in packets) == np.array([1, 1, 1, 2, 2, 2], ">i4").tobytes()


@pytest.mark.spec("I4.3-1", "I4.3-6", "I3.5-13", "I3.3-1")
def test_context_identifiers_on_the_wire():
    """COMM_WORLD has 0 and 1, the first duplicate 2 and 3, the next 4 and 5."""
    world = ImpiWorld([1, 1])
    comms = [world.comms, results(world, dup), results(world, dup)]
    for pair, of_ranks in zip((0, 2, 4), comms, strict=True):
        world.relay.packets.clear()
        of_ranks[0].isend((b"user",), 4, 1, 120)
        receive = of_ranks[1].irecv(None, -1, -1, bytes)
        barriers = [buffers.barrier(comm) for comm in of_ranks]
        world.run()
        assert receive.result() == b"user"
        assert all(barrier.done() for barrier in barriers)
        seen = {(packet.pk_cid, packet.pk_tag) for packet, _ in world.relay.packets if packet.pk_type in FIRST}
        assert seen == {(pair, 120), (pair + 1, 110)}


@pytest.mark.spec("I1.1-2", "I3.3-1")
@pytest.mark.parametrize("clients", CLIENTS, ids=str)
@pytest.mark.parametrize(("cut", "datalen"), [(2**30, 65536), (50, 5)])
def test_every_constructor(clients, cut, datalen):
    """Of communicators that hold the clients in another order, of two groups, and of both together."""
    world = ImpiWorld(clients, cut=cut, seed=3, limits={"datalen": datalen})
    size = world.universe.size
    mixed = results(world, lambda comm: split(comm, 0, (5 * comm.rank + 3) % (2 * size + 1)))
    again = [dup(comm) for comm in mixed]
    world.run()
    halves = results(world, lambda comm: split(comm, comm.rank % 2, -comm.rank))
    leaders = [halves[rank % 2].group.members[0] for rank in range(2)]
    requests = [create_intercomm(halves[rank], 0, world.comms[rank], leaders[1 - rank % 2], 11) for rank in range(size)]
    world.run()
    inter = [request.result() for request in requests]
    doubled = [dup(comm) for comm in inter]
    world.run()
    merged = [merge(comm, bool(comm.engine.rank % 2)) for comm in inter]
    world.run()
    part = Group.of(range(size - 1, 0, -1))
    made = results(world, lambda comm: create(comm, part))
    groups = [
        mixed, [r.result() for r in again], halves, [r.result() for r in merged], [comm for comm in made if comm],
    ]  # fmt: skip
    for comms in groups:
        talk(world, comms)
    ids = [comm.context_id for comm in (inter[0], doubled[0].result(), *(comms[0] for comms in groups[:-1]))]
    assert len(set(ids)) == len(ids)
    ending = [free(comm) for comm in [*groups[1], *inter, *(request.result() for request in doubled)]]
    world.run()
    assert all(request.done() for request in ending)
    talk(world, world.comms)


def talk(world, comms):
    requests = [objects.allgather(comm, Codec(), comm.engine.rank) for comm in comms]
    totals = [np.zeros(1, "l") for _ in comms]
    made = [np.array([comm.engine.rank], "l") for comm in comms]
    requests += [buffers.allreduce(c, m, t, SUM) for c, m, t in zip(comms, made, totals, strict=True)]
    world.run()
    for comm, request, total in zip(comms, requests, totals, strict=False):
        assert request.result() == list(comm.group.members)
        assert total[0] == sum(comm.group.members)


def test_packets_do_not_tell_which_call_they_are_part_of():
    """Ranks of different clients therefore do not notice that they disagree."""
    world = ImpiWorld([1, 1])
    requests = [buffers.bcast(comm, np.zeros(1), comm.rank) for comm in world.comms]
    world.run()
    assert [request.result() for request in requests] == [None, None]


class Host:
    """Stand-in for the host of a rank: the relay."""

    def __init__(self, world, rank):
        self._gateway = world.engines[rank].gateway
        self._link = RelayLink(world.relay, rank)
        self.idle = lambda: True
        self.close = lambda: None

    def finish(self):
        self._gateway.close(self._link)


@pytest.mark.spec("I4.24-1", "I2.4-2")
@pytest.mark.parametrize("clients", [[1, 1], [2, 1, 3]], ids=str)
def test_finalize_is_a_barrier(clients):
    """On COMM_WORLD, and then the message to the host."""
    world = ImpiWorld(clients)
    for rank, runtime in enumerate(world.runtimes):
        runtime.wiring.host = Host(world, rank)
    ends = [runtime.finalize() for runtime in world.runtimes[1:]]
    world.run()
    assert not world.relay.finished
    ends.append(world.runtimes[0].finalize())
    world.run()
    assert all(end.done() for end in ends)
    barrier = [packet for packet, _ in world.relay.packets if packet.pk_type in FIRST]
    assert {(packet.pk_tag, packet.pk_cid, packet.pk_msglen) for packet in barrier} == {(110, 1, 0)}
    assert len(barrier) == 2 * (len(clients) - 1)
    assert world.relay.finished == set(range(world.universe.size))
