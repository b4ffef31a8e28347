"""Collectives on short objects without messages: ranks write them where all can read them."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest

from aiompi import errors
from aiompi.coll import buffers, objects, shm_sync
from aiompi.engine import FIRST_COMMUNICATORS, LITTLE_ROOM, ROOM
from aiompi.objects import Codec
from aiompi.op import SUM
from support.shm_sync import beside, everyone, written

CODEC = Codec()
LONG = "x" * ROOM


def allgather(comm, mine):
    return objects.allgather(comm, CODEC, mine)


def alltoall(comm, mine):
    return objects.alltoall(comm, CODEC, [[mine, dest] for dest in range(comm.size)], "shm")


def allreduce(comm, mine):
    return objects.allreduce(comm, CODEC, [mine], lambda a, b: a + b)


def expected(call, contributions):
    """Return the results of all ranks."""
    size = len(contributions)
    if call is alltoall:
        return [[[theirs, rank] for theirs in contributions] for rank in range(size)]
    return [contributions] * size


def rounds(w):
    """Return the cells in which each rank has written."""
    return [comm.attached[shm_sync.ShmSync].slots.number for comm in w.comms]


COLLECTIVES = pytest.mark.parametrize("call", [allgather, alltoall, allreduce])


@pytest.mark.spec("S4.7-1", "S4.8-1", "S4.9.6-1")
@COLLECTIVES
@pytest.mark.parametrize("size", [2, 3, 4, 7, 12])
def test_short_objects_of_any_lengths_are_without_messages(together, call, size):
    w = together(size)
    before = written(w)
    for nth in range(5):
        contributions = [{"rank": rank, "text": "x" * (rank * nth)} for rank in range(size)]
        assert everyone(w, lambda comm: call(comm, contributions[comm.rank])) == expected(call, contributions)
    assert written(w) == before


@COLLECTIVES
def test_objects_are_sent_when_one_of_them_is_long(together, call):
    w = together()
    for long in range(3):
        contributions = [LONG if rank == long else rank for rank in range(3)]
        before = written(w)
        assert everyone(w, lambda comm: call(comm, contributions[comm.rank])) == expected(call, contributions)
        assert written(w) > before


class Bytes:
    """A codec whose messages have exactly as many bytes as the object."""

    def dumps(self, obj):
        return [obj], len(obj)

    def loads(self, data):
        return bytes(data)


@pytest.mark.parametrize("excess", [0, 1])
@pytest.mark.parametrize("call", ["allgather", "alltoall", "allreduce"])
@pytest.mark.parametrize("roomy", [True, False])
def test_the_longest_that_are_posted(together, call, excess, roomy):
    """The objects of an alltoall follow each other behind their lengths."""
    w = together(2)
    comms = w.comms if roomy else beside(w, FIRST_COMMUNICATORS)
    longest = (ROOM if roomy else LITTLE_ROOM) - (2 * 4 if call == "alltoall" else 0) + excess
    message, short = b"x" * longest, b"y"
    before = written(w)
    for _ in range(2):  # in both cells
        found = everyone(w, lambda comm: made(comm, call, (message, short)[comm.rank]), comms)
    assert found == {"allgather": [[message, short]] * 2, "alltoall": [[message[1:], b""], [b"x", short]]}.get(
        call, [message + short] * 2
    )
    assert (written(w) > before) == bool(excess)


def made(comm, call, mine):
    if call == "allgather":
        return objects.allgather(comm, Bytes(), mine, "shm")
    if call == "alltoall":
        return objects.alltoall(comm, Bytes(), [mine[1:], mine[:1]], "shm")
    return objects.allreduce(comm, Bytes(), mine, lambda a, b: a + b, "shm")


def test_after_long_objects_some_calls_are_by_messages_at_once(together):
    """The number is 1, then 3, 7, and so on, for each collective separately."""
    w = together()
    start = rounds(w)[0]
    posted = []
    for _ in range(800):
        assert everyone(w, lambda comm: allgather(comm, LONG)) == [[LONG] * 3] * 3
        assert len({*rounds(w)}) == 1
        posted.append(rounds(w)[0] - start)
    calls = [nth for nth, (before, now) in enumerate(itertools.pairwise([0, *posted])) if now > before]
    backoffs = [later - nth - 1 for nth, later in itertools.pairwise(calls)]
    assert backoffs == [1, 3, 7, 15, 31, 63, 127, 255, 255]
    assert backoffs[-1] == shm_sync._LONGEST_BACKOFF
    before = written(w)
    assert everyone(w, lambda comm: allreduce(comm, comm.rank)) == [[0, 1, 2]] * 3
    assert written(w) == before


def test_short_objects_end_the_pauses(together):
    w = together()
    for _ in range(20):
        everyone(w, lambda comm: allgather(comm, LONG))
    for _ in range(shm_sync._LONGEST_BACKOFF):
        everyone(w, lambda comm: allgather(comm, 1))
    before = written(w)
    assert everyone(w, lambda comm: allgather(comm, 1)) == [[1, 1, 1]] * 3
    assert written(w) == before
    start = rounds(w)[0]
    for _ in range(3):
        everyone(w, lambda comm: allgather(comm, LONG))
    assert rounds(w) == [start + 2] * 3, "the first pause is of one call again"


@pytest.mark.parametrize("seed", range(10))
def test_all_ranks_count_pauses_alike_however_far_they_are_ahead(together, seed):
    """Several calls are active at once, and each rank makes its next call at any time."""
    dice = random.Random(seed)
    w = together(4)
    plan = [
        (dice.choice([allgather, alltoall, allreduce]), [dice.choice(["short", "short", LONG]) for _ in range(4)])
        for _ in range(60)
    ]
    waiting = [iter(plan) for _ in range(4)]
    requests = [[] for _ in range(4)]
    while any(len(made) < len(plan) for made in requests):
        rank = dice.randrange(4)
        for call, contributions in itertools.islice(waiting[rank], dice.randrange(6)):
            requests[rank].append(call(w.comms[rank], contributions[rank]))
        w.poll()
    w.finish(*itertools.chain(*requests))
    for nth, (call, contributions) in enumerate(plan):
        assert [made[nth].result() for made in requests] == expected(call, contributions)
    assert len({*rounds(w)}) == 1


@pytest.mark.spec("S4.9.4-3", "S4.9.6-1")
@pytest.mark.parametrize("size", range(2, 9))
def test_the_brackets_are_those_of_recursive_doubling(together, size):
    """A sum is therefore the same to the last bit, whichever algorithm is used."""
    w = together(size)
    before = written(w)
    posted = everyone(w, lambda comm: objects.allreduce(comm, CODEC, str(comm.rank), lambda a, b: f"({a}{b})"))
    assert written(w) == before
    call = lambda comm, algorithm: objects.allreduce(  # noqa: E731
        comm, CODEC, str(comm.rank), lambda a, b: f"({a}{b})", algorithm
    )
    assert posted == everyone(w, lambda comm: call(comm, "recursive_doubling"))
    assert posted == everyone(w, lambda comm: call(comm, "shm"))
    assert {text.translate({ord("("): None, ord(")"): None}) for text in posted} == {"01234567"[:size]}


def test_what_a_rank_gets_is_its_own(together):
    """This includes arrays that are parts of the message."""
    w = together(2)
    before = written(w)
    for nbytes in (24, 14_000):
        careful = Codec(out_of_band=1000)
        mine = [np.zeros(nbytes // 8) for _ in range(2)]
        for results in (
            everyone(w, lambda comm: objects.allgather(comm, careful, mine[comm.rank])),
            everyone(w, lambda comm: objects.alltoall(comm, careful, [mine[comm.rank]] * 2, "shm")),
            everyone(w, lambda comm: objects.allreduce(comm, careful, mine[comm.rank], SUM)),
        ):
            for array in itertools.chain.from_iterable(r if isinstance(r, list) else [r] for r in results):
                assert not array.any()
                array += 1
        assert not any(array.any() for array in mine)
    assert written(w) == before


def test_an_operation_that_fails_on_one_rank_fails_there(together):
    w = together()

    def op(a, b):
        if failing:
            raise ZeroDivisionError
        return a + b

    requests = []
    for comm in w.comms:
        failing = comm.rank == 2  # the last one to post, and therefore the first one to combine
        requests.append(objects.allreduce(comm, CODEC, comm.rank, op))
    failing = False
    w.until(lambda: all(request.done() for request in requests))
    assert isinstance(requests[2].exception(), ZeroDivisionError)
    assert [request.result() for request in requests[:2]] == [3, 3]
    assert everyone(w, lambda comm: allgather(comm, comm.rank)) == [[0, 1, 2]] * 3


@pytest.mark.parametrize("name", ["allgather", "alltoall", "allreduce", "scan", "exscan"])
def test_an_object_that_cannot_be_sent_counts_as_no_call(together, name):
    """The error is raised before other ranks can mistake this call for one of theirs."""
    w = together(2)
    careful = Codec(pickle=False)
    with pytest.raises(errors.InvalidTypeError):
        if name in ("allgather", "alltoall"):
            getattr(objects, name)(w.comms[0], careful, [object()] * 2)
        else:
            getattr(objects, name)(w.comms[0], careful, object(), SUM)
    assert everyone(w, lambda comm: allgather(comm, comm.rank)) == [[0, 1]] * 2
    assert everyone(w, lambda comm: allreduce(comm, comm.rank)) == [[0, 1]] * 2


@pytest.mark.parametrize("mine", ["short", LONG])
def test_another_collective_is_told_with_both_views(together, mine):
    w = together(2)
    calls = [allgather(w.comms[0], mine), buffers.allreduce(w.comms[1], np.ones(1), np.ones(1), SUM)]
    w.until(lambda: all(call.done() for call in calls))
    with pytest.raises(errors.OtherError, match="rank 1 has called Allreduce with MPI_SUM, this rank allgather"):
        calls[0].result()
    with pytest.raises(errors.OtherError, match="rank 0 has called allgather, this rank Allreduce"):
        calls[1].result()


def test_communicators_pause_by_themselves(together):
    w = together(2)
    others = beside(w)
    for _ in range(3):
        everyone(w, lambda comm: allgather(comm, LONG))
    before = written(w)
    assert everyone(w, lambda comm: allgather(comm, 1), others) == [[1, 1]] * 2
    assert written(w) == before
