"""Communicators: their ranks, their contexts, and the channels of their collectives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from aiompi import errors
from aiompi.comm import Channel, Communicator, Group
from aiompi.comm.null import NULL, freed, is_null
from aiompi.constants import (
    ANY_SOURCE,
    ANY_TAG,
    CONGRUENT,
    CONTEXT_SELF,
    IDENT,
    PROC_NULL,
    SIMILAR,
    TAG_UB,
    UNEQUAL,
)
from aiompi.engine import Mode
from support.cases import cases
from support.worlds import LocalWorld, irecv, isend


def over(world: LocalWorld, members: list[int], context: int) -> dict[int, Communicator]:
    """A communicator of some ranks of a world, by world rank."""
    return {rank: Communicator(world.engines[rank], Group.of(members, rank), context, "SUB") for rank in members}


def test_what_it_says_of_itself() -> None:
    comm = LocalWorld(3).comms[1]
    assert (comm.rank, comm.size, comm.name) == (1, 3, "WORLD")
    assert repr(comm) == "<WORLD: rank 1 of 3>"
    assert comm.where("MPI_Bcast") == "MPI_Bcast on WORLD, rank 1"


@pytest.mark.spec("S2.6-1", "S3.2.3-5", "S3.2.3-7")
def test_ranks_are_those_of_the_group() -> None:
    w = LocalWorld(4)
    sub = over(w, [3, 1], 10)
    assert {world: comm.rank for world, comm in sub.items()} == {3: 0, 1: 1}
    isend(sub[3], b"x", 1, 5)
    status = sub[1].iprobe(ANY_SOURCE, ANY_TAG)
    assert status is not None
    assert (status.source, status.tag) == (0, 5)
    assert irecv(sub[1], 0).result() == b"x"
    with pytest.raises(errors.InvalidRankError, match=r"SUB, rank 1: destination 3 is not in 0\.\.1"):
        isend(sub[1], b"x", 3)
    with pytest.raises(errors.InvalidRankError, match="SUB, rank 1: source 2"):
        irecv(sub[1], 2)


@pytest.mark.spec("S3.2.3-4", "S3.2.4-3")
def test_contexts_do_not_mix() -> None:
    w = LocalWorld(2)
    others = over(w, [0, 1], 10)
    receive = irecv(w.comms[1])
    isend(others[0], b"other", 1)
    assert not receive.done()
    assert w.comms[1].iprobe(ANY_SOURCE, ANY_TAG) is None
    isend(w.comms[0], b"world", 1)
    assert receive.result() == b"world"
    assert irecv(others[1]).result() == b"other"


def test_communicator_of_one_rank_talks_to_itself() -> None:
    w = LocalWorld(3)
    alone = over(w, [2], CONTEXT_SELF)[2]
    isend(alone, b"me", 0)
    assert irecv(alone, 0).result() == b"me"
    assert w.comms[2].iprobe(ANY_SOURCE, ANY_TAG) is None


def test_failure_of_a_rank_concerns_its_place_in_the_group() -> None:
    w = LocalWorld(4)
    sub = over(w, [3, 1], 10)
    receives = [irecv(sub[1], 0), irecv(w.comms[1], 0)]
    w.engines[1].peer(3).mark_failed("test")
    assert isinstance(receives[0].exception(), errors.ProcessFailedError)
    assert not receives[1].done()
    assert isinstance(isend(sub[1], b"x", 0).exception(), errors.ProcessFailedError)


@cases("root", [-1, 2, PROC_NULL, ANY_SOURCE])
def test_root_is_checked(root: int) -> None:
    comm = LocalWorld(2).comms[1]
    assert comm.checked_root(0, "MPI_Bcast") == 0
    assert type(comm.checked_root(np.int64(1), "MPI_Bcast")) is int
    with pytest.raises(errors.InvalidRootError, match=rf"MPI_Bcast on WORLD, rank 1: root {root} is not in 0\.\.1"):
        comm.checked_root(root, "MPI_Bcast")


# Collectives.


async def swap(channel: Channel, data: bytes, seen: list[Any]) -> bytes:
    seen.append((channel.rank, channel.size, channel.where))
    other = 1 - channel.rank
    receive = channel.irecv(None, other)
    await channel.isend((data,), len(data), other)
    await receive
    assert receive.data is not None
    return bytes(receive.data)


@pytest.mark.spec("S4.1-7", "S4.1-8")
def test_collective_meets_no_other_traffic() -> None:
    w = LocalWorld(2)
    seen: list[Any] = []
    receives = [irecv(comm) for comm in w.comms]
    probes = [comm.probe(ANY_SOURCE, ANY_TAG) for comm in w.comms]
    schedules = [comm.start(lambda ch, own=comm.rank: swap(ch, b"%d" % own, seen), "swap") for comm in w.comms]
    assert [schedule.result() for schedule in schedules] == [b"1", b"0"]
    assert seen == [(0, 2, "swap on WORLD, rank 0"), (1, 2, "swap on WORLD, rank 1")]
    assert not any(request.done() for request in [*receives, *probes])
    isend(w.comms[0], b"x", 1)
    assert receives[1].result() == b"x"


@pytest.mark.spec("S4.1-9")
def test_collectives_are_matched_by_the_order_of_their_calls() -> None:
    w = LocalWorld(2)
    started: dict[int, list[Any]] = {}
    for comm in w.comms:
        started[comm.rank] = [
            comm.start(lambda ch, i=i, own=comm.rank: swap(ch, b"%d of %d" % (i, own), []), "swap") for i in range(5)
        ]
    for rank in range(2):
        assert [s.result() for s in started[rank]] == [b"%d of %d" % (i, 1 - rank) for i in range(5)]


def test_numbering_of_collectives_starts_again_at_its_end() -> None:
    w = LocalWorld(2)
    for comm in w.comms:
        comm.collectives = TAG_UB - 1
    for i in range(3):
        schedules = [comm.start(lambda ch, i=i: swap(ch, b"%d" % i, []), "swap") for comm in w.comms]
        assert [schedule.result() for schedule in schedules] == [b"%d" % i] * 2
    assert w.comms[0].collectives == 2


def test_collectives_of_two_communicators_are_apart() -> None:
    w = LocalWorld(2)
    others = over(w, [1, 0], 2)
    first = [comm.start(lambda ch: swap(ch, b"world", []), "swap") for comm in w.comms[:1]]
    second = [comm.start(lambda ch: swap(ch, b"sub", []), "swap") for comm in others.values()]
    assert [schedule.result() for schedule in second] == [b"sub", b"sub"]
    assert not first[0].done()


# Intercommunicators.


def between(world: LocalWorld, groups: list[list[int]], context: int) -> dict[int, Communicator]:
    """An intercommunicator of two groups of ranks of a world, by world rank."""
    return {
        rank: Communicator(world.engines[rank], Group.of(own, rank), context, "INTER", Group.of(other))
        for own, other in (groups, groups[::-1])
        for rank in own
    }


@pytest.mark.spec("S5.6-1", "S5.6-2")
def test_ranks_are_those_of_the_remote_group() -> None:
    w = LocalWorld(5)
    inter = between(w, [[4, 0], [3, 1, 2]], 10)
    assert (inter[0].rank, inter[0].size, inter[0].targets) == (1, 2, (3, 1, 2))
    assert repr(inter[0]) == "<INTER: rank 1 of 2, remote group of 3>"
    for dest, world in enumerate([3, 1, 2]):
        isend(inter[0], b"%d" % dest, dest, 7)
        status = inter[world].iprobe(ANY_SOURCE, 7)
        assert status is not None
        assert status.source == 1
        assert irecv(inter[world], 1).result() == b"%d" % dest
    isend(inter[2], b"back", 0)
    assert irecv(inter[4], 2).result() == b"back"
    assert isend(inter[4], b"", PROC_NULL).done()
    assert irecv(inter[4], PROC_NULL).done()
    with pytest.raises(errors.InvalidRankError, match=r"destination 3 is not in 0\.\.2, the ranks of the remote group"):
        isend(inter[4], b"x", 3)
    with pytest.raises(errors.InvalidRankError, match=r"source 2 is not in 0\.\.1, the ranks of the remote group"):
        irecv(inter[1], 2)


@pytest.mark.spec("S5.6-5")
def test_groups_communicate_apart_from_each_other_and_from_the_world() -> None:
    """Channels to the own and to the remote group, and point-to-point: all with equal ranks."""
    w = LocalWorld(4)
    inter = between(w, [[0, 1], [2, 3]], 10)
    receives = [irecv(comm) for comm in [*inter.values(), *w.comms]]

    async def both(channel: Channel) -> tuple[bytes, bytes]:
        assert (channel.size, channel.local.size) == (2, 2)
        local, remote = channel.local, channel
        own = b"%d" % (channel.rank + 2 * (channel._route.members[0] == 0))
        found = [remote.irecv(None, 1 - remote.rank), local.irecv(None, 1 - local.rank)]
        await local.isend((b"local" + own,), 6, 1 - local.rank)
        await remote.isend((b"remote" + own,), 7, 1 - remote.rank)
        for receive in found:
            await receive
        return tuple(bytes(receive.data or b"") for receive in found)  # type: ignore[return-value]

    schedules = [comm.start(both, "both") for comm in inter.values()]
    assert [schedule.result() for schedule in schedules] == [
        (b"remote3", b"local1"),
        (b"remote2", b"local0"),
        (b"remote1", b"local3"),
        (b"remote0", b"local2"),
    ]
    assert not any(receive.done() for receive in receives)


@pytest.mark.spec("S5.4.1-2", "S5.6.1-2")
def test_comparison() -> None:
    w = LocalWorld(4)
    world, same = w.comms[0], over(w, [0, 1, 2, 3], 10)[0]
    other, part = over(w, [1, 0, 2, 3], 12)[0], over(w, [0, 1], 14)[0]
    assert world.compare(world) == IDENT
    assert world.compare(same) == CONGRUENT
    assert world.compare(other) == other.compare(world) == SIMILAR
    assert world.compare(part) == UNEQUAL
    inter = between(w, [[0, 1], [2, 3]], 20)[0]
    assert inter.compare(inter) == IDENT
    assert inter.compare(between(w, [[0, 1], [2, 3]], 22)[0]) == CONGRUENT
    assert inter.compare(between(w, [[0, 1], [3, 2]], 24)[0]) == SIMILAR
    assert inter.compare(between(w, [[1, 0], [2, 3]], 26)[0]) == SIMILAR
    assert inter.compare(between(w, [[0, 1], [2]], 28)[0]) == UNEQUAL
    assert inter.compare(part) == part.compare(inter) == UNEQUAL


# The end of a communicator.


@pytest.mark.spec("S5.4.3-1")
def test_contexts_are_forgotten_when_nothing_is_pending() -> None:
    w = LocalWorld(2)
    sub = over(w, [0, 1], 10)
    contexts = w.engines[1].contexts
    receive, probe = irecv(sub[1], 0, 1), sub[1].probe(0, 2)
    isend(sub[0], b"late", 1, 2)
    assert probe.done()
    assert irecv(sub[1], 0, 2).result() == b"late"
    schedule = sub[1].start(lambda channel: swap(channel, b"1", []), "swap")
    sub[1].release()
    assert {10, 11} <= contexts.keys()
    isend(sub[0], b"pending", 1, 1)
    assert receive.result() == b"pending"
    assert {10, 11} <= contexts.keys()
    sub[0].start(lambda channel: swap(channel, b"0", []), "swap")
    assert schedule.result() == b"0"
    assert not {10, 11} & contexts.keys()


@pytest.mark.spec("S5.4.3-1")
def test_probes_and_receives_that_are_cancelled_are_not_pending() -> None:
    w = LocalWorld(2)
    sub = over(w, [0, 1], 10)[1]
    requests = [irecv(sub, 0, 1), irecv(sub, 0, 1), sub.probe(0, 2)]
    sub.release()
    for request in requests:
        assert 10 in w.engines[1].contexts
        request.cancel()
    assert not {10, 11} & w.engines[1].contexts.keys()


@pytest.mark.spec("S5.4.3-1")
@pytest.mark.parametrize("nbytes", [10, 300_000])
def test_sends_that_are_pending_complete(nbytes: int) -> None:
    w = LocalWorld(2)
    sub = over(w, [0, 1], 10)
    send = isend(sub[0], bytes(nbytes), 1, sync=True)
    sub[0].release()
    assert not send.done()
    assert irecv(sub[1], 0).result() == bytes(nbytes)
    assert send.done()


def test_message_that_nobody_has_received_keeps_its_context() -> None:
    """Its memory stays accounted for, and its sender can still recall it."""
    w = LocalWorld(2)
    sub = over(w, [0, 1], 10)
    send = isend(sub[0], b"x", 1, sync=True)
    sub[1].release()
    assert 10 in w.engines[1].contexts
    assert 11 not in w.engines[1].contexts
    send.cancel()
    assert send.cancelled()


def test_failure_of_a_peer_ends_what_is_pending() -> None:
    w = LocalWorld(2)
    sub = over(w, [0, 1], 10)
    receive = irecv(sub[1], 0)
    sub[1].release()
    w.engines[1].peer(0).mark_failed("test")
    assert isinstance(receive.exception(), errors.ProcessFailedError)
    assert not {10, 11} & w.engines[1].contexts.keys()


@pytest.mark.spec("S5.4.3-3")
def test_persistent_requests_of_a_freed_communicator_cannot_be_started() -> None:
    w = LocalWorld(2)
    sub = over(w, [0, 1], 10)[0]
    memory = memoryview(bytearray(1))
    persistent = [
        sub.send_init(lambda: ((memory,), 1), 1, 0, Mode.STANDARD),
        sub.send_init(lambda: ((memory,), 1), PROC_NULL, 0, Mode.STANDARD),
        *(sub.recv_init(memory, source, 0) for source in (1, ANY_SOURCE, PROC_NULL)),
    ]
    sub.release()
    for request in persistent:
        with pytest.raises(errors.InvalidCommError, match="SUB, rank 0: the communicator has been freed"):
            request.start()


@pytest.mark.spec("S5.4.3-3")
def test_collectives_of_a_freed_communicator_cannot_be_started() -> None:
    sub = over(LocalWorld(2), [0, 1], 10)[0]
    sub.release()
    with pytest.raises(errors.InvalidCommError, match="SUB, rank 0: the communicator has been freed"):
        sub.start(lambda channel: swap(channel, b"", []), "swap")


@pytest.mark.spec("S5.4.3-3", "S2.4.1-5")
def test_null_communicators() -> None:
    sub = over(LocalWorld(2), [0, 1], 10)[1]
    gone = freed(sub)
    assert is_null(gone)
    assert is_null(NULL)
    assert not is_null(sub)
    with pytest.raises(errors.InvalidCommError, match="the communicator is COMM_NULL: SUB, rank 1, has been freed"):
        isend(gone, b"x", 0)
    with pytest.raises(errors.InvalidCommError, match="the communicator is COMM_NULL: there is no communicator"):
        NULL.size  # noqa: B018
    assert repr(gone) == "<COMM_NULL>"


def test_communicator_without_a_name() -> None:
    comm = Communicator(LocalWorld(1).engines[0], Group.of([0], 0), 10, "")
    assert repr(comm) == "<communicator 10: rank 0 of 1>"
    with pytest.raises(errors.InvalidRankError, match="communicator 10, rank 0: destination 1"):
        isend(comm, b"x", 1)
    comm.name = "library"
    assert comm.where("Bcast") == "Bcast on library, rank 0"
