"""Nonblocking and persistent collectives over clients, and those that IMPI 0.0 does not know."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from aiompi.coll import buffers
from aiompi.coll.signature import NAMES
from aiompi.errors import InvalidArgumentError, InvalidCountError
from aiompi.op import SUM
from coll.impi.clients import EIGHT, SHAPES, WIDE, ClientWorld
from coll.test_isolation import started

ALL_SHAPES = [*SHAPES, EIGHT, WIDE]


class Codec:
    """Pickles."""

    def dumps(self, obj):
        data = pickle.dumps(obj)
        return (data,), len(data)

    def loads(self, data):
        return pickle.loads(data)


@pytest.mark.spec("I4.1-2")
@pytest.mark.parametrize("shape", ALL_SHAPES)
@pytest.mark.parametrize("seed", range(3))
def test_every_collective_at_once(shape, seed):
    """On buffers and on objects, all under way on one communicator, and twice over: each gets its own messages."""
    world = ClientWorld(*shape, seed=seed)
    calls = [call for comm in world.comms for call in started(comm, Codec()) + started(comm, Codec(), NAMES[::-1])]
    world.run()
    assert all(request.done() and right() for request, right in calls)
    assert {message.context for message in world.messages} == {1}


@pytest.mark.spec("I4.1-2")
def test_nonblocking_ones_send_what_blocking_ones_do():
    """In the order of calls, although no call waits for the one before."""
    shape = (2, 1, 3)
    made = [np.array([rank], "i") for rank in range(6)]

    def calls(comm):
        place = np.zeros(6, "i")
        return [
            lambda: buffers.bcast(comm, made[comm.rank].copy(), 3),
            lambda: buffers.allgather(comm, made[comm.rank], place),
            lambda: buffers.barrier(comm),
            lambda: buffers.bcast(comm, made[comm.rank].copy(), 0),
        ]

    waiting, at_once = ClientWorld(shape), ClientWorld(shape)
    for number in range(4):
        waiting.results(lambda comm, number=number: calls(comm)[number]())
    requests = [call() for comm in at_once.comms for call in calls(comm)]
    at_once.run()
    assert all(request.done() for request in requests)

    def streams(world):
        pairs = {(m.source, m.dest) for m in world.messages}
        return {pair: [m for m in world.messages if (m.source, m.dest) == pair] for pair in pairs}

    assert streams(at_once) == streams(waiting)


@pytest.mark.parametrize("shape", [*SHAPES, WIDE])
def test_persistent_ones_are_started_in_any_order(shape):
    """They have tags of their own, so that neither each other nor blocking ones get their messages."""
    world = ClientWorld(*shape)
    size = world.size
    totals = [[np.zeros(1, "i") for _ in range(size)] for _ in range(2)]
    sent = [[np.array([factor * rank], "i") for rank in range(size)] for factor in (1, 10)]
    blocking = [np.zeros(1, "i") for _ in range(size)]
    bound = [
        [buffers.allreduce.init(comm, sent[i][comm.rank], totals[i][comm.rank], SUM) for i in range(2)]
        for comm in world.comms
    ]
    for turn in range(2):
        waiting = []
        for comm, (one, other) in zip(world.comms, bound, strict=True):
            first, second = (one, other) if comm.rank % 2 else (other, one)
            first.start()
            waiting.append(buffers.allreduce(comm, sent[0][comm.rank], blocking[comm.rank], SUM))
            second.start()
        world.run()
        assert all(request.done() for pair in bound for request in pair), turn
        for pair in bound:
            for request in pair:
                request.result()
        assert [array[0] for array in totals[0]] == [sum(range(size))] * size
        assert [array[0] for array in totals[1]] == [10 * sum(range(size))] * size
        assert [array[0] for array in blocking] == [sum(range(size))] * size
    assert {message.tag for message in world.messages} == {190, 120, 702, 632, 1214, 1144}


def test_a_bound_channel_has_legal_tags():
    """However many are bound, with the least tag bound that a client may have."""
    world = ClientWorld((1, 1))
    for comm in world.comms:
        comm.tag_ub = 32767
    for _ in range(100):
        bound = [buffers.barrier.init(comm) for comm in world.comms]
        for request in bound:
            request.start()
        world.run()
        assert all(request.done() for request in bound)
    assert max(message.tag for message in world.messages) <= 32767


@pytest.mark.spec("I4.1-1")
def test_algorithms_cannot_be_chosen():
    world = ClientWorld((1, 1))
    with pytest.raises(InvalidArgumentError, match="spans IMPI clients"):
        buffers.bcast.using("binomial")(world.comms[0], bytearray(1), 0)
    forced = ClientWorld((1, 1), coll={"bcast": "pipelined_chain"})
    assert [m.tag for m in forced.recorded(lambda comm: buffers.bcast(comm, bytearray(1), 0))] == [120]


@pytest.mark.spec("I4.1-12")
def test_an_error_is_told_where_it_is_noticed_and_leaves_nothing_behind():
    """Rank 1 expects less than rank 0 sends; afterwards all is as before."""
    world = ClientWorld((1, 1))
    requests = [buffers.bcast(comm, np.zeros(2 + 2 * comm.rank, "i"), 0) for comm in world.comms]
    world.run()
    assert requests[0].result() is None
    assert isinstance(requests[1].exception(), InvalidCountError)
    made = [np.full(1, comm.rank, "i") for comm in world.comms]
    world.results(lambda comm: buffers.bcast(comm, made[comm.rank], 0))
    assert [array[0] for array in made] == [0, 0]
    assert all(next(comm.engine.matcher(1).unexpected(), None) is None for comm in world.comms)
