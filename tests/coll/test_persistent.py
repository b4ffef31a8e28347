"""Collectives whose arguments are bound: checked at once, started many times, in any order."""

from __future__ import annotations

import inspect
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiompi.coll import buffers
from aiompi.datatype import IN_PLACE, INT
from aiompi.errors import InvalidArgumentError, InvalidBufferError, InvalidRequestError
from aiompi.op import SUM
from support.cases import cases

HOLE = INT.Create_resized(0, 8).Commit()


def bound(ranks, collective, *arguments):
    """Bind on all ranks; `arguments` by rank."""
    return [collective.init(comm, *(each[comm.rank] for each in arguments)) for comm in ranks.comms]


def start(ranks, requests):
    for request in requests:
        request.start()
    ranks.run()
    return [request.result() for request in requests]


@pytest.mark.parametrize("kind", [INT, HOLE], ids=["dense", "gaps"])
def test_each_start_sends_what_is_in_the_buffers_then(kind, world):
    ranks, step = world(3), kind.extent // 4
    mine, everyone = np.zeros((3, 2 * step), "i"), np.full((3, 6 * step), -1, "i")
    requests = bound(
        ranks,
        buffers.allgather,
        [[mine[rank], 2, kind] for rank in range(3)],
        [[everyone[rank], 2, kind] for rank in range(3)],
    )
    assert not any(request.active for request in requests)
    for turn in range(3):
        mine[:, ::step] = 10 * turn + np.arange(3)[:, None]
        assert start(ranks, requests) == [None] * 3
        assert everyone[:, ::step].tolist() == [np.repeat(10 * turn + np.arange(3), 2).tolist()] * 3
        assert (everyone[:, 1::step] == -1).all() or step == 1


def test_in_place_takes_the_result_of_the_last_start(world):
    ranks, totals = world(3), np.ones((3, 2), "i")
    requests = bound(ranks, buffers.allreduce, [IN_PLACE] * 3, totals, [SUM] * 3)
    for expected in (3, 9, 27):
        start(ranks, requests)
        assert (totals == expected).all()


def test_arguments_are_checked_when_they_are_bound(world):
    comm = world(2).comms[0]
    with pytest.raises(InvalidBufferError, match="Gather on WORLD, rank 0: recvbuf is read-only"):
        buffers.gather.init(comm, bytes(1), bytes(2), 0)
    with pytest.raises(InvalidArgumentError, match="recvcounts is None"):
        buffers.reduce_scatter.init(comm, IN_PLACE, bytearray(1), None, SUM)


def test_a_request_that_is_active_cannot_be_started(world):
    ranks = world(2)
    request, other = bound(ranks, buffers.barrier)
    request.start()
    with pytest.raises(InvalidRequestError, match="active"):
        request.start()
    other.start()
    ranks.run()
    assert not request.active
    request.start()


@given(size=st.integers(2, 6), seed=st.integers(0, 2**32), eager_limit=st.sampled_from([0, 65536]))
def test_ranks_may_start_them_in_different_orders_among_other_collectives(size, seed, eager_limit, world):
    ranks, chance = world(size, seed, eager_limit=eager_limit), random.Random(seed)
    arrays = np.zeros((size, 5, 3), "i")
    others = np.zeros((size, 1), "i")
    requests = [
        [buffers.bcast.init(comm, arrays[comm.rank, i], i % size) for i in range(5)]
        + [buffers.allreduce(comm, others[comm.rank : comm.rank + 1] * 0 + 1, others[comm.rank], SUM)]
        for comm in ranks.comms
    ]
    for turn in range(3):
        for rank, own in enumerate(requests):
            arrays[rank] = 100 * turn + 10 * rank + np.arange(5)[:, None]
            for request in chance.sample(own[:5], 5):
                request.start()
        ranks.run()
        assert not any(request.active for own in requests for request in own[:5])
        expected = [[100 * turn + 10 * (i % size) + i] * 3 for i in range(5)]
        assert arrays.tolist() == [expected] * size
    assert (others == size).all()


def test_rounds_do_not_mix_when_ranks_run_ahead(world):
    """The root starts again before the others have received; eager messages stay in order."""
    ranks = world(3)
    array = np.zeros((3, 1), "i")
    requests = bound(ranks, buffers.bcast, array, [0] * 3)
    for turn in range(4):
        array[0] = turn
        requests[0].start()
        while not requests[0].done():
            ranks.deliver_one()
    for turn in range(4):
        for request in requests[1:]:
            request.start()
        ranks.run()
        assert array[1:].tolist() == [[turn], [turn]]


def test_an_algorithm_can_be_named(world):
    sent = {}
    for name in ("linear", "recursive_doubling"):
        ranks = world(8)
        results = np.zeros((8, 1), "i")
        ranks.results(
            lambda comm, name=name, results=results: buffers.scan.using(name)(
                comm, np.ones(1, "i"), results[comm.rank], SUM
            )
        )
        assert results.ravel().tolist() == list(range(1, 9))
        sent[name] = sum(counter["messages"] for counter in ranks.sent)
    assert sent == {"linear": 7, "recursive_doubling": 7 + 6 + 4}
    with pytest.raises(InvalidArgumentError, match=r"Scan on WORLD, rank 0: scan has no algorithm 'none'"):
        buffers.scan.using("none")(world(2).comms[0], np.ones(1), np.ones(1), SUM)


@cases("name", buffers.__all__)
def test_documented(name):
    collective = getattr(buffers, name)
    assert "MPI_" + name.capitalize() in inspect.getdoc(collective)
    assert collective.name == name.capitalize()
