"""Communicators: whose ranks they are, which context they use, and the channels of their collectives."""

from __future__ import annotations

from typing import Any

import pytest
from worlds import LocalWorld, irecv, isend

from aiompi import errors
from aiompi.comm import Channel, Communicator, Group
from aiompi.constants import ANY_SOURCE, ANY_TAG, CONTEXT_SELF, PROC_NULL, TAG_UB


def over(world: LocalWorld, members: list[int], context: int) -> dict[int, Communicator]:
    """A communicator of some ranks of a world, by world rank."""
    return {rank: Communicator(world.engines[rank], Group(members, rank), context, "SUB") for rank in members}


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
    w.engines[1].peer(3).gone("test")
    assert isinstance(receives[0].exception(), errors.ProcessFailedError)
    assert not receives[1].done()
    assert isinstance(isend(sub[1], b"x", 0).exception(), errors.ProcessFailedError)


@pytest.mark.parametrize("root", [-1, 2, PROC_NULL, ANY_SOURCE])
def test_root_is_checked(root: int) -> None:
    comm = LocalWorld(2).comms[1]
    comm.check_root(0, "MPI_Bcast")
    comm.check_root(1, "MPI_Bcast")
    with pytest.raises(errors.InvalidRootError, match=rf"MPI_Bcast on WORLD, rank 1: root {root} is not in 0\.\.1"):
        comm.check_root(root, "MPI_Bcast")


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
        comm._collectives = TAG_UB - 1
    for i in range(3):
        schedules = [comm.start(lambda ch, i=i: swap(ch, b"%d" % i, []), "swap") for comm in w.comms]
        assert [schedule.result() for schedule in schedules] == [b"%d" % i] * 2
    assert w.comms[0]._collectives == 2


def test_collectives_of_two_communicators_are_apart() -> None:
    w = LocalWorld(2)
    others = over(w, [1, 0], 2)
    first = [comm.start(lambda ch: swap(ch, b"world", []), "swap") for comm in w.comms[:1]]
    second = [comm.start(lambda ch: swap(ch, b"sub", []), "swap") for comm in others.values()]
    assert [schedule.result() for schedule in second] == [b"sub", b"sub"]
    assert not first[0].done()
