"""Collectives without messages: ranks write into slots that all of them read."""

from __future__ import annotations

import errno
import itertools
import mmap
import os
import platform
import random
import resource
import socket
import struct
import sys
import time
from contextlib import nullcontext

import numpy as np
import pytest

from aiompi import MPI, errors
from aiompi.coll import buffers, objects, shm_sync
from aiompi.comm import Channel, Communicator
from aiompi.core._native import LONG_PLACES, SLOTS_PREFIX, SlotExchanges
from aiompi.engine import FIRST_COMMUNICATORS, LITTLE_ROOM, ROOM, room
from aiompi.hang_report.call_record import _awaited_ranks
from aiompi.objects import codec
from aiompi.op import MAX, SUM, Op
from aiompi.transport.shared_memory import slots, transport
from aiompi.transport.shared_memory.descriptors import affords_descriptors
from aiompi.transport.shared_memory.link import RingLink
from aiompi.transport.shared_memory.slots import PARTS
from aiompi.wire import memory
from support.interrupts import everywhere
from support.limits import LIMIT
from support.shm_sync import (
    allgathered,
    beside,
    everyone,
    exchanged,
    join,
    joined_in_order,
    joined_in_segments,
    reduced,
    scanned,
    scattered,
    summed,
    until_assembled,
    written,
)
from support.worlds import irecv, isend


def allreduce(contributions, op=SUM):
    """Make a call on each rank. Return the requests and the results."""
    results = [np.empty_like(contribution) for contribution in contributions]
    return (lambda comm: buffers.allreduce(comm, contributions[comm.rank], results[comm.rank], op)), results


@pytest.mark.parametrize("size", [2, 3, 33])
def test_after_some_calls_nothing_is_sent(together, size):
    w = together(size)
    before = written(w)
    for _ in range(5):
        everyone(w, buffers.barrier)
    assert written(w) == before


@pytest.mark.parametrize("polls", [False, True])
def test_a_call_that_is_not_polled_asks_to_be_woken(together, monkeypatch, polls):
    """The last rank posts after the others have looked, and before they ask."""
    w = together(2)
    last = []

    def start_polling(poller, *, first):
        last.append(buffers.barrier(w.comms[1]))
        return polls

    monkeypatch.setattr(w.drivers[0], "start_polling", start_polling)
    barrier = buffers.barrier(w.comms[0])
    exchanges = w.transports[0].exchanges
    if polls:
        assert not barrier.done()
        assert not exchanges.rest(), "there was something to do"
    assert barrier.done(), "no rank would wake this one for it any more"


@pytest.mark.spec("S4.3-1")
@pytest.mark.parametrize("size", [2, 3, 5])
def test_no_rank_leaves_a_barrier_before_the_last_has_entered(together, size):
    w = together(size)
    for last in [*range(size)] * 3:
        waiting = [buffers.barrier(comm) for comm in w.comms if comm.rank != last]
        for _ in range(20):
            w.poll()
        assert not any(request.done() for request in waiting)
        w.finish(*waiting, buffers.barrier(w.comms[last]))


def test_several_at_once_end_one_after_the_other(together):
    w = together()
    early = [[buffers.barrier(comm) for _ in range(5)] for comm in w.comms[:2]]
    for nth in range(5):
        assert not any(request.done() for requests in early for request in requests[nth:])
        w.finish(buffers.barrier(w.comms[2]), *[requests[nth] for requests in early])


@pytest.mark.parametrize("last", range(3))
@pytest.mark.parametrize("assembled", [False, True])
def test_a_call_that_meets_twice_is_not_overtaken_by_the_next_one(apart, assembled, last):
    """The last rank has finished the first round before it makes the next call, and the others have not."""
    w = apart()
    if assembled:
        until_assembled(w)
    contribution, results = np.arange(6), [np.zeros(2, "i8") for _ in range(3)]

    def calls(comm):
        asking = buffers.reduce_scatter(comm, contribution, results[comm.rank], None, SUM)
        return asking, buffers.barrier(comm), buffers.reduce_scatter(comm, contribution, np.zeros(2, "i8"), None, SUM)

    for _ in range(10):
        early = [calls(comm) for comm in w.comms if comm.rank != last]
        w.finish(*itertools.chain(*early, calls(w.comms[last])))
        assert [result.tolist() for result in results] == [[0, 3], [6, 9], [12, 15]]
    until_assembled(w)


def test_the_calls_before_they_meet_may_be_made_at_once(apart):
    w = apart()
    requests = [[buffers.barrier(comm) for _ in range(12)] for comm in w.comms]
    w.finish(*itertools.chain(*requests))
    until_assembled(w)


def spread(array):
    """Return a specification of the items of an array with gaps between them, and the items."""
    memory = np.zeros((len(array), 2))
    memory[:, 0] = array
    return [memory, 1, MPI.DOUBLE.Create_vector(len(array), 1, 2).Commit()], memory[:, 0]


@pytest.mark.parametrize("size", [2, 3])
def test_ranks_whose_long_buffers_have_gaps_make_the_same_calls_as_the_others(together, size):
    """The core itself takes the buffers of the ranks above 0 only."""
    w, count = together(size), ROOM // 8 + 5
    before = written(w)
    given = [np.arange(count) * (rank + 1.0) for rank in range(size)]
    total = np.arange(count) * (size * (size + 1) / 2)
    source, _ = spread(given[0])
    sources = [source, *given[1:]]
    place, arrived = spread(np.zeros(count))
    places = [place, *np.zeros((size - 1, count))]

    everyone(w, lambda comm: buffers.bcast(comm, given[1] if comm.rank == 1 else places[comm.rank], 1))
    assert (arrived == given[1]).all()
    for odd in (0, 1):  # bytes that the items of rank 0 are away from a multiple of their size
        memory = np.zeros((2, 8 * count + odd), "u1")
        mine, result = ([row[odd:], count, MPI.DOUBLE] for row in memory)
        mine[0][:] = given[0].view("u1")
        for own in (mine, None):
            result[0][:] = given[0].view("u1")
            everyone(
                w,
                lambda comm, own=own, result=result: buffers.allreduce(
                    comm, given[comm.rank] if comm.rank else own, places[comm.rank] if comm.rank else result, SUM
                ),
            )
            assert all(each.tobytes() == total.tobytes() for each in (result[0], *places[1:]))
        for root in range(size):
            result[0][:] = 0
            everyone(
                w,
                lambda comm, root=root, mine=mine, result=result: buffers.reduce(
                    comm, given[comm.rank] if comm.rank else mine, places[comm.rank] if comm.rank else result, SUM, root
                ),
            )
            assert (result[0].tobytes() == total.tobytes()) == (root == 0)
            assert (places[1] == total).all()
            assert mine[0].tobytes() == given[0].tobytes()
    gathered = np.zeros((size, size, count))
    gathered[0, 0] = given[0]
    everyone(w, lambda comm: buffers.allgather(comm, sources[comm.rank] if comm.rank else None, gathered[comm.rank]))
    assert (gathered == given).all()
    blocks = np.random.default_rng(1).random((size, size, count))
    spread_blocks, _ = spread(blocks[0].ravel())
    spread_blocks[1:] = [count, MPI.DOUBLE.Create_resized(0, 16).Commit()]
    everyone(
        w, lambda comm: buffers.alltoall(comm, blocks[comm.rank] if comm.rank else spread_blocks, gathered[comm.rank])
    )
    assert (gathered == blocks.transpose(1, 0, 2)).all()
    assert written(w) == before, "nothing is sent"


@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize("place", [0, FIRST_COMMUNICATORS + 1])
@pytest.mark.parametrize("seed", range(2))
def test_calls_of_any_length_that_are_under_way_at_once_keep_their_order(apart, size, place, seed):
    """The ranks begin them when chance has it, also before they have slots, and with any specification."""
    w, dice = apart(size), random.Random(seed)
    comms = beside(w, place) if place else w.comms
    kinds = [(dice.choice((8, 90, 6_000, 20_000, 40_000)), dice.choice(("f8", "f8", "c16"))) for _ in range(16)]
    given = [[np.arange(count).astype(kind) + rank for count, kind in kinds] for rank in range(size)]
    results = [[np.zeros_like(array) for array in arrays] for arrays in given]
    begun = [[] for _ in range(size)]
    deadline = time.monotonic() + LIMIT
    while any(len(requests) < len(kinds) or not all(each.done() for each in requests) for requests in begun):
        assert time.monotonic() < deadline, "the world stands still"
        rank = dice.randrange(size)
        nth = len(begun[rank])
        if nth < len(kinds) and sum(not each.done() for each in begun[rank]) < 4 and dice.random() < 0.5:
            own = given[rank][nth]
            spec = [own, MPI.DOUBLE if own.dtype == "f8" else MPI.C_DOUBLE_COMPLEX] if dice.random() < 0.3 else own
            begun[rank].append(buffers.allreduce(comms[rank], spec, results[rank][nth], SUM))
        else:
            w.drivers[rank].poll()
    assert not any(request.exception() for requests in begun for request in requests)
    for nth in range(len(kinds)):
        total = sum(arrays[nth] for arrays in given)
        assert all((own[nth] == total).all() for own in results)


def test_long_vectors_that_the_core_cannot_combine_go_by_messages(together):
    w = together(3)
    before = written(w)
    for contributions, op in (
        ([np.full(ROOM // 8, rank + 1j) for rank in range(3)], SUM),
        ([np.full(ROOM // 8 + 1, rank + 1, "u8") for rank in range(3)], Op.Create(join)),
    ):
        call, results = allreduce(contributions, op)
        everyone(w, call)
        assert all(result.tolist() == results[0].tolist() for result in results)
    assert results[0][0] != 0
    assert written(w) > before


@pytest.mark.spec("S4.9.6-1", "S4.9.4-3")
@pytest.mark.parametrize("size", [2, 3, 4, 12])
def test_contributions_are_combined_in_the_order_of_ranks(together, size):
    w = together(size)
    call, results = allreduce([np.array([rank + 1, 0], "u8") for rank in range(size)], Op.Create(join))
    before = written(w)
    for _ in range(3):
        everyone(w, call)
        expected = int("".join(str(rank + 1) for rank in range(size)))
        assert [result.tolist() for result in results] == [[expected, 0]] * size
    assert written(w) == before


@pytest.mark.spec("S4.9.4-3")
def test_many_ranks_combine_in_order_whatever_the_collective(together):
    w = together(13)
    before = written(w)
    assert joined_in_order(w, None, 3)
    assert joined_in_segments(w, None, [rank % 3 for rank in range(13)], in_place=False)
    assert written(w) == before


def test_all_ranks_get_the_same_bits(together):
    w = together(4)
    a, b, c, d = (np.random.default_rng(rank).normal(size=ROOM // 8) for rank in range(4))
    call, results = allreduce([a, b, c, d])
    everyone(w, call)
    assert all(np.array_equal(result, a + (b + (c + d))) for result in results)


def test_a_contribution_in_place_is_taken_before_the_result_comes(together):
    w = together()
    arrays = [np.full(3, float(rank)) for rank in range(3)]
    everyone(w, lambda comm: buffers.allreduce(comm, None, arrays[comm.rank], SUM))
    assert [array.tolist() for array in arrays] == [[3.0] * 3] * 3


@pytest.mark.spec("S4.7-1", "S4.8-1")
@pytest.mark.parametrize("collective", [allgathered, exchanged, scattered, summed, reduced, scanned])
@pytest.mark.parametrize("size", [2, 3, 4, 7])
def test_blocks_of_all_are_without_messages_too(together, collective, size):
    w = together(size)
    before = written(w)
    for in_place, count in itertools.product((False, True), (0, 1, ROOM // 8 // size)):
        for _ in range(2):
            assert collective(w, "shm", count, in_place), (in_place, count)
        assert written(w) == before, (in_place, count)


def test_what_is_posted_is_not_overwritten_before_all_have_it(together):
    """A rank is at most one call ahead of another one, and has written in the other cell."""
    w = together(2)
    results = [[np.zeros(1, "i8") for _ in range(40)] for _ in range(2)]

    def call(rank, nth):
        return buffers.allreduce(w.comms[rank], np.array([nth + 1]), results[rank][nth], SUM)

    ahead = [call(0, nth) for nth in range(40)]
    w.finish(*ahead, *[call(1, nth) for nth in range(40)])
    assert [[int(result[0]) for result in own] for own in results] == [[2 * (nth + 1) for nth in range(40)]] * 2


# Ranks that sleep.


def rung_ranks(w):
    """Return a function that returns the ranks for which others have rung since."""
    links = [link for own in w.transports for link in own.links]
    before = [link._ring.rings for link in links]
    return lambda: sorted(link.peer.rank for link, old in zip(links, before, strict=True) if link._ring.rings > old)


def test_only_sleeping_ranks_are_woken(together):
    w = together()
    rung = rung_ranks(w)
    w.drivers[1].spin(60.0)
    waiting = [buffers.barrier(comm) for comm in w.comms[:2]]
    buffers.barrier(w.comms[2])
    assert rung() == [0]
    w.drivers[1].poll()
    assert [call.done() for call in waiting] == [False, True]
    w.transports[0].exchanges.poll()


def test_no_rank_sleeps_when_the_last_one_has_come_meanwhile(together):
    w = together(2)
    rung = rung_ranks(w)
    w.drivers[0].spin(60.0)
    waiting = buffers.barrier(w.comms[0])
    buffers.barrier(w.comms[1])
    assert not w.transports[0].exchanges.stale()
    assert not w.transports[0].exchanges.rest()
    assert waiting.done()
    assert w.transports[0].exchanges.stale()
    assert w.transports[0].exchanges.rest()
    assert not rung()


def test_links_on_which_nothing_comes_are_not_asked_meanwhile(together):
    w = together(2)
    driver = w.drivers[0]
    driver.spin(60.0)
    while not driver._pollers:
        w.finish(irecv(w.comms[0]), isend(w.comms[1], b"x", 0))
        w.poll()
    waiting = buffers.barrier(w.comms[0])
    assert [type(poller) for poller in driver._pollers] == [SlotExchanges, RingLink]
    while len(driver._pollers) > 1:
        w.poll()
    assert [type(poller) for poller in driver._pollers] == [SlotExchanges]
    assert w.finish(waiting, buffers.barrier(w.comms[1]), irecv(w.comms[0]), isend(w.comms[1], b"x", 0))[2] == b"x"


# Ranks that do not agree.


def test_another_collective_is_told_with_both_views(together):
    w = together()
    calls = [buffers.barrier(w.comms[0]), *[allgather_nothing(comm) for comm in w.comms[1:]]]
    w.until(lambda: all(call.done() for call in calls))
    with pytest.raises(errors.OtherError, match="rank 1 has called Allgather, this rank Barrier"):
        calls[0].result()
    with pytest.raises(errors.OtherError, match="rank 0 has called Barrier, this rank Allgather"):
        calls[2].result()


def allgather_nothing(comm):
    return buffers.allgather(comm, b"", bytearray())


def test_a_collective_of_messages_is_told_with_both_views(together):
    """It fails before or after the others have written their slots."""
    w = together()
    early = buffers.barrier(w.comms[1])
    sent = buffers.bcast.using("linear")(w.comms[0], np.zeros(1), 0)
    calls = [early, buffers.barrier(w.comms[2])]
    w.until(lambda: all(call.done() for call in calls))
    for call, rank in zip(calls, (1, 2), strict=True):
        text = f"Barrier on WORLD, rank {rank}: rank 0 has called Bcast with root 0, this rank Barrier"
        with pytest.raises(errors.OtherError, match=text):
            call.result()
    assert sent.done()
    assert w.transports[1].exchanges.stale()


def test_rank_that_is_a_call_ahead_is_told(together):
    """Rank 2 has made another call that the others did not see, and then the call that they make."""
    w = together()
    ahead = buffers.bcast.using("linear")(w.comms[2], np.zeros(1), 0)
    call, _ = allreduce([np.ones(1)] * 3)
    calls = [call(comm) for comm in w.comms]
    w.until(lambda: all(made.done() for made in calls))
    number = w.comms[0].collectives - 1
    text = f"rank 2 this is collective {number + 1} on the communicator, for this rank {number}; call the same"
    for made in calls[:2]:
        with pytest.raises(errors.OtherError, match=text):
            made.result()
    with pytest.raises(errors.OtherError, match=f"rank 0 this is collective {number} .* for this rank {number + 1};"):
        calls[2].result()
    assert not ahead.done()


def test_an_amount_that_is_sent_is_told(together):
    w = together(2)
    calls = [buffers.allreduce(comm, np.ones(n), np.ones(n), SUM) for comm, n in zip(w.comms, (1, 5000), strict=True)]
    w.until(calls[0].done)
    with pytest.raises(errors.InvalidCountError, match="rank 1 sent 40000 bytes where 8 are expected"):
        calls[0].result()


def test_messages_behind_a_round_disturb_no_rank(together):
    """The last rank continues with messages of the same call before the others have looked."""
    w = together(2)
    results = [np.zeros(2), np.zeros(2)]
    reduce_scatter = buffers.reduce_scatter.using("pairwise")

    for _ in range(5):
        everyone(w, lambda comm: reduce_scatter(comm, np.arange(4.0), results[comm.rank], None, SUM))
        assert [result.tolist() for result in results] == [[0.0, 2.0], [4.0, 6.0]]


def test_another_operation_is_told(together):
    w = together(2)
    calls = [buffers.allreduce(comm, np.ones(1), np.ones(1), op) for comm, op in zip(w.comms, (SUM, MAX), strict=True)]
    w.until(lambda: all(call.done() for call in calls))
    with pytest.raises(errors.InvalidOpError, match="rank 1 has called Allreduce with MPI_MAX"):
        calls[0].result()


def test_another_amount_is_told(together):
    w = together(2)
    calls = [buffers.allreduce(comm, np.ones(1 + comm.rank), np.ones(1 + comm.rank), SUM) for comm in w.comms]
    w.until(lambda: all(call.done() for call in calls))
    for call, text in zip(calls, ("rank 1 sent 16 bytes where 8", "rank 0 sent 8 bytes where 16"), strict=True):
        with pytest.raises(errors.InvalidCountError, match=text):
            call.result()


# Ranks that do not come.


def test_a_collective_that_goes_on_when_the_job_has_ended_gets_the_cause(together):
    """As when the exchange that it waits for is complete, and the rank is expelled in the same turn."""
    w = together()
    everyone(w, buffers.barrier)
    (group,) = w.transports[0]._groups.values()
    w.engines[0].failure.abort(errors.JobAbortedError("it was expelled"))
    w.transports[0].close()
    with pytest.raises(errors.JobAbortedError, match="it was expelled"):
        group.publish(Channel(w.comms[0], 0, "Barrier"), b"", 0, 0, 2)


def test_a_rank_that_dies_ends_the_waiting(together):
    w = together()
    call = buffers.barrier(w.comms[0])
    w.engines[0].peer(2).mark_failed("it was killed")
    with pytest.raises(errors.ProcessFailedError, match="rank 2 is gone: it was killed"):
        call.result()
    assert w.transports[0].exchanges.stale()
    with pytest.raises(errors.ProcessFailedError, match="rank 2 is gone"):
        w.finish(buffers.barrier(w.comms[0]))


def test_a_rank_of_many_that_dies_in_the_middle_ends_the_waiting_of_all(together):
    w = together(12)
    barriers = [buffers.barrier(comm) for comm in w.comms if comm.rank not in (5, 11)]
    w.poll()
    for engine in w.engines:
        if engine.rank != 5:
            engine.peer(5).mark_failed("it was killed")
    for call in barriers:
        with pytest.raises(errors.ProcessFailedError, match="rank 5 is gone: it was killed"):
            call.result()
    with pytest.raises(errors.ProcessFailedError, match="rank 5 is gone"):
        w.finish(buffers.barrier(w.comms[11]))


def test_what_a_rank_has_posted_before_it_died_counts(together):
    w = together(2)
    early = buffers.barrier(w.comms[0])
    buffers.barrier(w.comms[1])
    w.engines[0].peer(1).mark_failed("it was killed")
    assert early.result() is None


@pytest.fixture
def shallow():
    """Calls that lie in each other soon are too many."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(300)
    yield
    sys.setrecursionlimit(before)


def test_a_rank_that_dies_ends_any_number_of_calls(together):
    w = together(2)
    requests = [buffers.barrier(w.comms[0]) for _ in range(sys.getrecursionlimit())]
    w.engines[0].peer(1).connection_lost("its connection closed")
    assert {type(request.exception()) for request in requests} == {errors.ProcessFailedError}


def test_any_number_of_calls_leave_it_at_messages(together, shallow):
    w = together(2)
    too_long, call = np.zeros(ROOM + 1, "B"), buffers.allreduce.using("shm")
    requests = []
    for comm in w.comms:
        requests.append(buffers.barrier(comm))
        requests += [call(comm, too_long, too_long.copy(), SUM) for _ in range(sys.getrecursionlimit())]
    w.finish(*requests)


def test_a_rank_that_has_finalized_ends_the_waiting(together):
    w = together()
    call = buffers.barrier(w.comms[0])
    w.engines[0].peer(1).mark_finalized()
    with pytest.raises(errors.ProcessFailedError, match="rank 1 has finalized"):
        call.result()


def test_an_abort_ends_the_waiting(together):
    w = together()
    call = buffers.barrier(w.comms[0])
    w.engines[0].failure.abort(errors.OtherError("enough"))
    with pytest.raises(errors.OtherError, match="enough"):
        call.result()
    with pytest.raises(errors.OtherError, match="enough"):
        w.finish(buffers.barrier(w.comms[0]))


def test_nothing_is_posted_after_an_abort(together):
    """This holds in the copy of a fork as well: others would take its slot for that of its parent."""
    w = together(2)
    waiting = buffers.barrier(w.comms[1])
    w.engines[0].failure.abort(errors.OtherError("a copy"))
    with pytest.raises(errors.OtherError, match="a copy"):
        w.finish(buffers.barrier(w.comms[0]))
    for _ in range(20):
        w.poll()
    assert not waiting.done()


def test_rank_that_has_come_since_the_last_look_is_not_told_to_be_missing(together):
    w = together()
    early = buffers.barrier(w.comms[0])
    buffers.barrier(w.comms[2])
    assert [*_awaited_ranks(early)] == [1]


# When they meet.


def links_of(w):
    return sorted((own.engine.rank, link.peer.rank) for own in w.transports for link in own.links)


def test_ranks_connect_to_all_only_after_as_many_calls_as_there_are_ranks(apart):
    size = 9
    w = apart(size)
    everyone(w, buffers.barrier)
    few = links_of(w)
    assert len(few) < size * (size - 1)
    for _ in range(size):
        everyone(w, buffers.barrier)
    assert links_of(w) == few
    everyone(w, buffers.barrier)
    assert [(rank, peer) for rank, peer in itertools.permutations(range(size), 2)] == sorted({*links_of(w)})


def test_ranks_that_are_connected_meet_at_once(together):
    w = together(5)
    others = [Communicator(comm.engine, comm.group, 10, "other") for comm in w.comms]
    for other in others:
        other.shares_memory = True
    for _ in range(2):  # they ask each other, and then all have the others' slots already
        everyone(w, buffers.barrier, others)
    assert all(other.attached[shm_sync.ShmSync].slots is not None for other in others)


def test_two_ranks_that_meet_make_one_connection(apart):
    size = 7
    w = apart(size)
    for comm in w.comms:
        comm.attached.put(shm_sync.ShmSync(comm.channel("Barrier").alarm()))
        comm.attached[shm_sync.ShmSync].affordable = True  # without a message before
    for comm in w.comms:
        shm_sync._assemble(comm)
    w.until(lambda: len(links_of(w)) >= size * (size - 1))
    assert links_of(w) == [*itertools.permutations(range(size), 2)]


# Where they cannot meet.


def refuse():
    raise OSError("no memory")


def test_ranks_that_cannot_have_memory_leave_it_at_messages(apart, monkeypatch):
    monkeypatch.setattr(transport, "SlotArea", refuse)
    w = apart()
    for _ in range(2 * shm_sync._ATTEMPTS + len(w.comms)):
        everyone(w, buffers.barrier)
    syncs = [comm.attached[shm_sync.ShmSync] for comm in w.comms]
    assert [(sync.slots, sync.attempts) for sync in syncs] == [(None, 0)] * 3


def test_one_rank_that_cannot_is_enough(apart, monkeypatch):
    w = apart()
    monkeypatch.setattr(w.transports[1], "assemble", lambda context, rank, peers: None)
    for _ in range(2 * shm_sync._ATTEMPTS + len(w.comms)):
        everyone(w, buffers.barrier)
    assert [comm.attached[shm_sync.ShmSync].slots for comm in w.comms] == [None] * 3


def test_ranks_without_descriptors_do_with_the_links_that_messages_need(apart):
    w = apart(6)
    everyone(w, buffers.barrier.using("dissemination"))
    linked = [len(own.links) for own in w.transports]
    for engine in w.engines:
        engine.environment.connect = lacking_descriptors
    for _ in range(2 * shm_sync._ATTEMPTS + len(w.comms)):
        everyone(w, buffers.barrier)
    syncs = [comm.attached[shm_sync.ShmSync] for comm in w.comms]
    assert [(sync.slots, sync.attempts) for sync in syncs] == [(None, 0)] * 6
    assert [len(own.links) for own in w.transports] == linked


@pytest.mark.parametrize("lacking", ["descriptors", "memory"])
def test_no_rank_connects_to_a_rank_that_can_have_no_more_links(apart, monkeypatch, lacking):
    w = apart(6)
    everyone(w, buffers.barrier.using("dissemination"))
    linked = [len(own.links) for own in w.transports]
    asked = []

    def affords(number):
        asked.append(number)
        return len(asked) % 6 != 4  # one of the ranks that ask

    module, name = {"descriptors": (transport, "affords_descriptors"), "memory": (memory, "affords")}[lacking]
    monkeypatch.setattr(module, name, affords)
    for _ in range(2 * shm_sync._ATTEMPTS + len(w.comms)):
        everyone(w, buffers.barrier)
    assert len(asked) == 6 * shm_sync._ATTEMPTS
    syncs = [comm.attached[shm_sync.ShmSync] for comm in w.comms]
    assert [(sync.slots, sync.attempts) for sync in syncs] == [(None, 0)] * 6
    assert [len(own.links) for own in w.transports] == linked


def test_ranks_that_meet_leave_as_many_descriptors_and_addresses_to_their_program(apart, monkeypatch):
    w, asked = apart(6), {"descriptors": 0, "addresses": 0}

    def count(kind):
        return lambda number: asked.update({kind: asked[kind] + number}) or True

    monkeypatch.setattr(transport, "affords_descriptors", count("descriptors"))
    monkeypatch.setattr(memory, "affords", count("addresses"))
    before = len(os.listdir("/proc/self/fd")), mapped()
    until_assembled(w)
    descriptors, addresses = len(os.listdir("/proc/self/fd")) - before[0], mapped() - before[1]
    assert asked["descriptors"] >= 2 * descriptors > 0
    assert asked["addresses"] >= 2 * addresses > 0


def mapped():
    """Bytes of the memory that is shared."""
    with open("/proc/self/maps", encoding="utf8") as file:
        spans = [line.split()[0].split("-") for line in file if "memfd:aiompi" in line]
    return sum(int(stop, 16) - int(start, 16) for start, stop in spans)


def test_what_a_process_affords_is_found_out_without_a_trace():
    before = os.listdir("/proc/self/fd")
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(before) + 50, limits[1]))
    try:
        assert affords_descriptors(20)
        assert not affords_descriptors(100)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert memory.affords(2**30)
    assert not memory.affords(2**60)
    assert os.listdir("/proc/self/fd") == before


def lacking_descriptors(peer):
    raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))


def test_only_the_first_communicators_have_a_part():
    parts = [slots.part_of(context) for context in range(0, 2 * PARTS, 2)]
    assert slots.part_of(2 * PARTS) is None
    assert [part.stop for part in parts] == [*[part.start for part in parts[1:]], slots.SIZE], "nothing lies between"
    for place, part in enumerate(parts):
        assert part.stop - part.start == SLOTS_PREFIX + LONG_PLACES * room(2 * place)
    assert [room(2 * place) for place in (0, FIRST_COMMUNICATORS - 1, FIRST_COMMUNICATORS, PARTS - 1)] == [
        ROOM,
        ROOM,
        LITTLE_ROOM,
        LITTLE_ROOM,
    ]


def other_content(w, call, content, length):
    """Rank 1 posts as if it made the same call, with another content; return the error of rank 0."""
    waiting = call(w.comms[0])
    start = slots.part_of(w.comms[0].context_id).start
    cell = start + 128 + w.comms[0].attached[shm_sync.ShmSync].slots.number % 16 * 256
    stamp, note, claim = struct.unpack_from("=3Q", w.transports[0]._slots.memory, cell)
    struct.pack_into("=4Q", w.transports[1]._slots.memory, cell, stamp, note, claim, length)
    for place, room_there in ((cell + 32, 224), (start + SLOTS_PREFIX, ROOM), (start + SLOTS_PREFIX + ROOM, ROOM)):
        w.transports[1]._slots.memory[place : place + min(room_there, len(content))] = content[:room_there]
    w.until(lambda: waiting.done() or w.transports[0].exchanges.poll())
    assert w.finish(isend(w.comms[1], b"goes on", 0), irecv(w.comms[0], 1)) == [None, b"goes on"]
    return waiting.exception()


@pytest.mark.parametrize("length", [0, 65, 2**40])
@pytest.mark.parametrize(
    "call",
    [
        lambda comm: buffers.allreduce(comm, np.arange(8), np.zeros(8, "i8"), SUM),
        lambda comm: buffers.allgather(comm, np.arange(8), np.zeros(16, "i8")),
        lambda comm: buffers.alltoall(comm, np.arange(8), np.zeros(8, "i8")),
        lambda comm: buffers.allreduce.using("shm")(comm, np.arange(8), np.zeros(8, "i8"), SUM),
        lambda comm: buffers.bcast.using("shm")(comm, np.zeros(8, "i8"), 1),
    ],
    ids=["allreduce", "allgather", "alltoall", "allreduce_usual", "bcast_usual"],
)
def test_a_slot_that_has_another_length_than_it_claims(together, call, length):
    error = other_content(together(2), call, b"", length)
    assert isinstance(error, errors.InvalidCountError)
    assert f"rank 1 sent {min(length, room(0))} bytes where 64 are expected here" in str(error)


@pytest.mark.parametrize("length", [2, 200, 2**40])
@pytest.mark.parametrize(
    "call",
    [
        lambda comm: objects.allreduce(comm, codec.Codec(), [1, 2], lambda left, right: left),
        lambda comm: objects.allgather(comm, codec.Codec(), [1, 2]),
        lambda comm: objects.alltoall(comm, codec.Codec(), [1, 2], "shm"),
    ],
    ids=["allreduce", "allgather", "alltoall"],
)
def test_a_slot_that_has_no_object(together, call, length):
    junk = random.Random(0).randbytes(4096)
    assert isinstance(other_content(together(2), call, junk, length), errors.RemoteProtocolError)


def test_communicators_do_not_see_what_others_post(together):
    w = together()
    others = beside(w)
    waiting = [buffers.barrier(comm) for comm in w.comms[:2]]
    everyone(w, buffers.barrier, others)
    assert not any(request.done() for request in waiting)
    w.finish(*waiting, buffers.barrier(w.comms[2]))


def test_a_call_whose_end_a_signal_handler_interrupts_is_looked_at_again(together):
    w = together(2)
    exchanges = w.transports[0].exchanges
    barrier = buffers.barrier.using("shm")

    def ended():
        early = barrier(w.comms[0])
        barrier(w.comms[1])
        return nullcontext((early, *w.engines[0].slot_exchanges))

    for early, current in everywhere(ended, lambda _: exchanges.poll()):
        complete = current.done()
        exchanges.poll()
        assert current.done()
        assert exchanges.stale()
        assert complete or early.done()


def test_a_signal_handler_that_interrupts_the_end_of_one_round_leaves_the_others(together):
    def interrupt(request):
        raise KeyboardInterrupt

    w = together(2)
    others = beside(w)
    early = [buffers.barrier(comm) for comm in (w.comms[0], others[0])]
    early[0].when_done(interrupt)
    for comm in (w.comms[1], others[1]):
        buffers.barrier(comm)
    with pytest.raises(KeyboardInterrupt):
        w.transports[0].exchanges.poll()
    w.finish(*early)


def test_persistent_collectives_which_start_in_any_order_send(together):
    w = together()
    pairs = [(buffers.barrier.init(comm), buffers.barrier.init(comm)) for comm in w.comms]
    before = written(w)
    for pair, order in zip(pairs, ((0, 1), (1, 0), (0, 1)), strict=True):
        for nth in order:
            pair[nth].start()
    w.finish(*itertools.chain(*pairs))
    assert written(w) > before


@pytest.mark.parametrize("nbytes", [slots.SIZE // 2, slots.SIZE + 1, 2**40])
def test_slots_of_another_size_are_refused(apart, nbytes):
    """Memory that is larger would take all addresses of this process."""
    w = apart(2)
    everyone(w, buffers.barrier)
    fd = os.memfd_create("other")
    os.ftruncate(fd, nbytes)
    socket.send_fds(w.links(0, 1)[0]._socket, [struct.pack("!Q", nbytes)], [fd])
    os.close(fd)
    w.until(lambda: w.engines[1].peer(0).error is not None)


@pytest.mark.skipif(platform.release() < "5.", reason="the kernel cannot forbid it")
def test_no_rank_can_write_into_the_slots_of_another():
    area = slots.SlotArea()
    with pytest.raises(PermissionError):
        mmap.mmap(area._fd, slots.SIZE)
    area.close()
