"""Collectives between the two groups of an intercommunicator, against a plain evaluation."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiompi.coll import buffers, objects
from aiompi.comm import Group, derive
from aiompi.constants import PROC_NULL, ROOT
from aiompi.datatype import IN_PLACE, INT
from aiompi.errors import (
    InvalidArgumentError,
    InvalidBufferError,
    InvalidCommError,
    InvalidCountError,
    InvalidRootError,
    InvalidTypeError,
    OtherError,
)
from aiompi.op import SUM, Op
from coll.forms import GAPS, HOLE, PLAIN, Memory


class Between:
    """The processes of two groups of these sizes; the ranks of the world alternate between them.

    Attributes:
        sides: the communicators of either group, by rank.
    """

    def __init__(self, world, sizes, seed=0, **settings):
        self.world = world(sum(sizes), seed, **settings)
        members = [[], []]
        for rank in range(sum(sizes)):
            side = rank % 2 if len(members[rank % 2]) < sizes[rank % 2] else 1 - rank % 2
            members[side].append(rank)
        self.sides = [
            [
                derive(self.world.comms[rank], Group.of(members[side], rank), 20, Group.of(members[1 - side]))
                for rank in ranks
            ]
            for side, ranks in enumerate(members)
        ]

    def results(self, call):
        """Make a call on all processes, given the side; every result must be None."""
        requests = [call(comm, side) for side, comms in enumerate(self.sides) for comm in comms]
        self.world.run()
        assert [request.result() for request in requests] == [None] * len(requests)

    def root(self, comm, side, rank):
        """The root argument for the root of this rank on side 0."""
        return rank if side else ROOT if comm.rank == rank else PROC_NULL


shapes = st.tuples(st.integers(1, 5), st.integers(1, 5))
counts = st.integers(0, 3)
seeds = st.integers(0, 2**32)
forms = st.sampled_from([PLAIN, HOLE, GAPS])
limits = st.sampled_from([0, 65536])


def numbers(side, sender, receiver, count):
    return (np.arange(2 * count) + 10 * sender + 100 * receiver + 1000 * side).tolist()


@given(sizes=shapes, count=counts, seed=seeds, limit=limits, form=forms, data=st.data())
def test_bcast(sizes, count, seed, limit, form, data, world):
    between, root = Between(world, sizes, seed, eager_limit=limit), data.draw(st.integers(0, sizes[0] - 1))
    into = [Memory(form, [count]) for _ in range(sizes[1])]
    source = np.array(numbers(0, root, 0, count), "i")

    def call(comm, side):
        at = between.root(comm, side, root)
        return buffers.bcast(comm, into[comm.rank].whole if side else source if at == ROOT else None, at)

    between.results(call)
    assert all(memory.get(0) == source.tolist() and memory.intact() for memory in into)


@pytest.mark.parametrize("vector", [False, True])
@given(sizes=shapes, count=counts, seed=seeds, limit=limits, form=forms, data=st.data())
def test_gather_and_scatter(vector, sizes, count, seed, limit, form, data, world):
    between, root = Between(world, sizes, seed, eager_limit=limit), data.draw(st.integers(0, sizes[0] - 1))
    lengths = [(count + rank) % 4 if vector else count for rank in range(sizes[1])]
    place = Memory(form, lengths)
    gather, scatter = (buffers.gatherv, buffers.scatterv) if vector else (buffers.gather, buffers.scatter)

    def collect(comm, side):
        at = between.root(comm, side, root)
        own = np.array(numbers(1, comm.rank, 0, lengths[comm.rank]), "i") if side else "anything"
        whole = (place.vector if vector else place.spec) if at == ROOT else "anything"
        return gather(comm, own, whole, at)

    between.results(collect)
    assert place.blocks() == [numbers(1, rank, 0, lengths[rank]) for rank in range(sizes[1])]
    assert place.intact()
    into = [np.zeros(2 * length, "i") for length in lengths]

    def distribute(comm, side):
        at = between.root(comm, side, root)
        whole = (place.vector if vector else place.spec) if at == ROOT else "anything"
        return scatter(comm, whole, into[comm.rank] if side else "anything", at)

    between.results(distribute)
    assert [part.tolist() for part in into] == place.blocks()


@pytest.mark.parametrize("name", ["allgather", "allgatherv", "alltoall", "alltoallv", "alltoallw"])
@given(sizes=shapes, count=counts, seed=seeds, limit=limits, form=forms)
def test_exchanges(name, sizes, count, seed, limit, form, world):
    between = Between(world, sizes, seed, eager_limit=limit)
    for_all = name.startswith("allgather")
    places = [[Memory(form, [count] * sizes[1 - side]) for _ in range(sizes[side])] for side in range(2)]

    def call(comm, side):
        reach = sizes[1 - side]
        place = places[side][comm.rank]
        sent = [numbers(side, comm.rank, 0 if for_all else other, count) for other in range(1 if for_all else reach)]
        send = np.array(sent, "i").ravel()
        if name in ("allgather", "alltoall"):
            return getattr(buffers, name)(comm, [send, 2 * count, INT], place.spec)
        if name == "alltoallw":
            displs = [displ * form.datatype.extent for displ in place.displs]
            receive = [place.array, (place.counts, displs), [form.datatype] * reach]
            return buffers.alltoallw(
                comm, [send, (2 * count, [8 * count * other for other in range(reach)]), [INT] * reach], receive
            )
        return getattr(buffers, name)(comm, send if for_all else [send, 2 * count], place.vector)

    between.results(call)
    for side in range(2):
        for rank, place in enumerate(places[side]):
            expected = [numbers(1 - side, o, 0 if for_all else rank, count) for o in range(sizes[1 - side])]
            assert place.blocks() == expected
            assert place.intact()


@given(sizes=shapes, seed=seeds, limit=limits, data=st.data())
def test_reductions(sizes, seed, limit, data, world):
    between, root = Between(world, sizes, seed, eager_limit=limit), data.draw(st.integers(0, sizes[0] - 1))
    vectors = [np.random.default_rng([seed, side]).integers(0, 99, (sizes[side], 6)) for side in range(2)]
    totals = [vector.sum(axis=0) for vector in vectors]
    at_root, everywhere = np.zeros(6, int), [np.zeros((size, 6), int) for size in sizes]

    def reduce(comm, side):
        at = between.root(comm, side, root)
        return buffers.reduce(comm, vectors[1][comm.rank] if side else None, at_root if at == ROOT else None, SUM, at)

    between.results(reduce)
    between.results(
        lambda comm, side: buffers.allreduce(comm, vectors[side][comm.rank], everywhere[side][comm.rank], SUM)
    )
    assert np.array_equal(at_root, totals[1])
    assert all((everywhere[side] == totals[1 - side]).all() for side in range(2))


@given(sizes=shapes, seed=seeds, limit=limits)
def test_reduce_scatter(sizes, seed, limit, world):
    between = Between(world, sizes, seed, eager_limit=limit)
    total = sizes[0] * sizes[1]
    vectors = [np.random.default_rng([seed, side]).integers(0, 99, (sizes[side], total)) for side in range(2)]
    blocks = [np.zeros((size, total // size), int) for size in sizes]
    segments = [[total if rank == 0 else 0 for rank in range(size)] for size in sizes]
    parts = [[np.zeros(count, int) for count in segments[side]] for side in range(2)]
    between.results(
        lambda comm, side: buffers.reduce_scatter_block(comm, vectors[side][comm.rank], blocks[side][comm.rank], SUM)
    )
    with_counts = [[np.zeros_like(block) for block in of_side] for of_side in blocks]
    between.results(  # each count is that of a block
        lambda comm, side: buffers.reduce_scatter_block(
            comm,
            [vectors[side][comm.rank], total // comm.size],
            [with_counts[side][comm.rank], total // comm.size],
            SUM,
        )
    )
    assert all(np.array_equal(*pair) for side in range(2) for pair in zip(with_counts[side], blocks[side], strict=True))
    between.results(
        lambda comm, side: buffers.reduce_scatter(
            comm, vectors[side][comm.rank], parts[side][comm.rank], segments[side], SUM
        )
    )
    for side in range(2):
        expected = vectors[1 - side].sum(axis=0)
        assert np.array_equal(blocks[side].ravel(), expected)
        assert np.array_equal(parts[side][0], expected)


@pytest.mark.parametrize("sizes", [(1, 1), (2, 3), (4, 1)])
def test_nobody_leaves_a_barrier_before_all_of_the_other_group_have_entered(sizes, world):
    between = Between(world, sizes)
    everyone = [(comm, side) for side in range(2) for comm in between.sides[side]]
    for late, _ in everyone:
        early = [(buffers.barrier(comm), side) for comm, side in everyone if comm is not late]
        between.world.run()
        assert not any(request.done() for request, side in early if side != (late in between.sides[1]))
        last = buffers.barrier(late)
        between.world.run()
        assert last.done()
        assert all(request.done() for request, _ in early)


def test_an_operation_that_does_not_commute_keeps_the_order_of_the_remote_group(world):
    def left(invec, inoutvec, datatype):
        inoutvec[:] = bytes(invec)

    between = Between(world, (3, 4))
    found = [np.zeros((size, 1), "B") for size in (3, 4)]
    between.results(
        lambda comm, side: buffers.allreduce(
            comm, np.array([10 * side + comm.rank], "B"), found[side][comm.rank], Op.Create(left)
        )
    )
    assert [set(part.ravel().tolist()) for part in found] == [{10}, {0}]


def test_they_can_be_outstanding_together_and_persistent(world):
    between = Between(world, (2, 3), seed=5)
    into = [np.zeros((size, other), "i") for size, other in ((2, 3), (3, 2))]
    own = [np.arange(size, dtype="i")[:, None] + 10 * side for side, size in enumerate((2, 3))]
    requests = [
        buffers.allgather.init(comm, own[side][comm.rank], into[side][comm.rank])
        for side in range(2)
        for comm in between.sides[side]
    ]
    for turn in range(2):
        for side in range(2):
            own[side] += 100 * turn
        for request in requests:
            request.start()
        between.world.run()
        assert all(request.result() is None for request in requests)
        assert into[0].tolist() == [[10 + 100 * turn, 11 + 100 * turn, 12 + 100 * turn]] * 2
        assert into[1].tolist() == [[100 * turn, 1 + 100 * turn]] * 3


ones = np.ones(6)
REFUSED = [
    (lambda c: buffers.scan(c, ones, np.ones(6), SUM), InvalidCommError, "Scan on .*not defined on an intercomm"),
    (lambda c: buffers.exscan.init(c, ones, np.ones(6), SUM), InvalidCommError, "Exscan on .*not defined"),
    (lambda c: buffers.bcast(c, ones, 3), InvalidRootError, r"root 3 is not in 0\.\.2, .*pass ROOT"),
    (lambda c: buffers.gather(c, ones, None, -7), InvalidRootError, "root -7"),
    (lambda c: buffers.allgather(c, IN_PLACE, ones), InvalidBufferError, "cannot be IN_PLACE"),
    (lambda c: buffers.alltoall(c, IN_PLACE, ones), InvalidBufferError, "cannot be IN_PLACE"),
    (lambda c: buffers.alltoallv(c, IN_PLACE, ones), InvalidBufferError, "cannot be IN_PLACE"),
    (lambda c: buffers.allreduce(c, IN_PLACE, ones, SUM), InvalidBufferError, "cannot be IN_PLACE"),
    (lambda c: buffers.allreduce(c, ones, np.ones(5), SUM), InvalidCountError, "6 items, recvbuf 5"),
    (lambda c: buffers.allreduce(c, ones, np.ones(6, "f"), SUM), InvalidTypeError, "one datatype"),
    (lambda c: buffers.allgather(c, ones[:1], ones), InvalidBufferError, "share memory"),
    (lambda c: buffers.alltoall(c, ones[:4], np.ones(6)), InvalidCountError, "cut into 3"),
    (lambda c: buffers.reduce_scatter(c, ones, np.ones(3), None, SUM), InvalidArgumentError, "recvcounts is None"),
    (lambda c: buffers.reduce_scatter(c, ones, np.ones(3), [3, 2], SUM), InvalidCountError, "5 together"),
    (lambda c: buffers.reduce_scatter_block(c, ones, np.ones(2), SUM), InvalidCountError, "4 together"),
]


@pytest.mark.spec("S4.2-1")
@pytest.mark.parametrize(("call", "error", "message"), REFUSED)
def test_refused(call, error, message, world):
    between = Between(world, (2, 3))
    with pytest.raises(error, match=message):
        call(between.sides[0][0])
    assert not between.world.deliver_one()


@given(sizes=shapes, seed=seeds, limit=limits, data=st.data())
def test_objects(sizes, seed, limit, data, world, new_codec):
    codec, root = new_codec(), data.draw(st.integers(0, sizes[0] - 1))
    between = Between(world, sizes, seed, eager_limit=limit)

    def results(call):
        requests = [[call(comm, side) for comm in comms] for side, comms in enumerate(between.sides)]
        between.world.run()
        return [[request.result() for request in side] for side in requests]

    def at(comm, side):
        return between.root(comm, side, root)

    nobody, names = [None] * sizes[0], [[f"{'ab'[side]}{rank}" for rank in range(sizes[side])] for side in range(2)]
    at_root = [names[1] if rank == root else None for rank in range(sizes[0])]
    joined = ["".join(side) for side in names]
    assert results(lambda c, s: objects.bcast(c, codec, [s, c.rank], at(c, s))) == [nobody, [[0, root]] * sizes[1]]
    assert results(lambda c, s: objects.scatter(c, codec, names[1], at(c, s))) == [nobody, names[1]]
    assert results(lambda c, s: objects.gather(c, codec, names[s][c.rank], at(c, s))) == [at_root, [None] * sizes[1]]
    found = results(lambda c, s: objects.allgather(c, codec, names[s][c.rank]))
    assert found == [[names[1]] * sizes[0], [names[0]] * sizes[1]]
    found = results(lambda c, s: objects.alltoall(c, codec, [names[s][c.rank] + name for name in names[1 - s]]))
    assert found == [[[other + name for other in names[1 - side]] for name in names[side]] for side in range(2)]
    found = results(lambda c, s: objects.reduce(c, codec, names[s][c.rank], SUM, at(c, s)))
    assert found == [[joined[1] if rank == root else None for rank in range(sizes[0])], [None] * sizes[1]]
    found = results(lambda c, s: objects.allreduce(c, codec, names[s][c.rank], lambda a, b: a + b))
    assert found == [[joined[1]] * sizes[0], [joined[0]] * sizes[1]]


@pytest.mark.spec("S4.2-1")
def test_objects_refused(world, codec):
    comm = Between(world, (2, 3)).sides[0][0]
    for call in (objects.scan, objects.exscan):
        with pytest.raises(InvalidCommError, match=f"{call.__name__} on .*not defined on an intercommunicator"):
            call(comm, codec, 1, SUM)
    with pytest.raises(InvalidRootError, match=r"bcast on .*root 3 is not in 0\.\.2"):
        objects.bcast(comm, codec, 1, 3)
    with pytest.raises(InvalidArgumentError, match="expected 3 objects, one per rank, got 2 objects"):
        objects.alltoall(comm, codec, [1, 2])


def test_ranks_of_a_group_that_disagree(world):
    """Messages within a group also carry the collective that they belong to."""
    between = Between(world, (1, 2))
    one, other = between.sides[1]
    buffers.bcast(between.sides[0][0], bytearray(1), ROOT)
    buffers.bcast(one, bytearray(1), 0)
    request = buffers.barrier(other)
    between.world.run()
    with pytest.raises(OtherError, match="rank 0 has called Bcast with root 0, this rank Barrier"):
        request.result()


def test_a_root_that_is_no_integer(world):
    comm = Between(world, (1, 1)).sides[0][0]
    with pytest.raises(TypeError, match=r"Bcast on .*, rank 0: root is 'x': expected an integer"):
        buffers.bcast(comm, bytearray(1), "x")
