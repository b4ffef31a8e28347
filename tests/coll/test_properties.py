"""Every algorithm with any size, root, lengths and order of arrival, against a plain evaluation."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiompi.coll.accumulator import VectorAccumulator
from aiompi.coll.block import Block
from aiompi.coll.registry import COLLECTIVES
from aiompi.coll.select import select
from aiompi.datatype import INT, resolve_recv, resolve_send
from aiompi.op import SUM, Op

REDUCTIONS = ["reduce", "allreduce", "reduce_scatter", "scan", "exscan"]

sizes = st.integers(1, 9)
lengths = st.integers(0, 20)
worlds = st.fixed_dictionaries({"seed": st.integers(0, 2**32), "eager_limit": st.sampled_from([0, 4, 65536])})
#: each algorithm gets some of the examples: all of one collective share most of what runs
few = settings(max_examples=settings().max_examples // 3)
#: without slots, and with each rank on a host of its own, these are others; `test_every_collective` has them
DERIVED = {"shm", "two_level"}


def each(names, cutting=False):
    """All algorithms of these collectives, or those that cut what they are given."""
    return pytest.mark.parametrize(("name", "algorithm"), [
        (name, algorithm)
        for name in names
        for algorithm, traits in COLLECTIVES[name].algorithms.items()
        if algorithm not in DERIVED and not (cutting and traits.any_form)
    ])  # fmt: skip


def run(world, name, algorithm, arguments, **call):
    """Let all ranks run an algorithm, the last ones first. A rank that has ended must not be sending any more.

    Args:
        arguments: rank -> what the algorithm takes.
        call: of `select`.
    """
    requests = []
    for comm in reversed(world.comms):
        chosen = select(comm, COLLECTIVES[name], 1, algorithm=algorithm, **call)
        requests.append(comm.start(lambda channel: chosen(channel, *arguments[channel.rank]), name))
    requests.reverse()
    ended = {}
    while world.deliver_one():
        for rank, request in enumerate(requests):
            if request.done() and rank not in ended:
                ended[rank] = dict(world.sent[rank])
                assert not under_way(world, rank)
    for rank, request in enumerate(requests):
        request.result()
        assert ended.get(rank, {}) == world.sent[rank]


def under_way(world, rank):
    """Return the frames with memory of a rank that are not delivered yet."""
    wires = [wire for wire in world._wires if wire._sent is world.sent[rank]]
    return [frame for wire in wires for frame in wire.frames if any(map(len, frame[1]))]


def filled(*lengths):
    return [Block(memoryview(bytearray(np.random.default_rng(lengths).bytes(length)))) for length in lengths]


def empty(slots):
    return [Block(memoryview(bytearray(slot.nbytes))) for slot in slots]


def bytes_of(slots):
    return [bytes(slot.data) for slot in slots]


def bcast(slots, root):
    mine = [
        slot if rank == root else Block(memoryview(bytearray(slots[root].nbytes))) for rank, slot in enumerate(slots)
    ]
    yield [(slot, root) for slot in mine]
    assert bytes_of(mine) == bytes_of([slots[root]]) * len(slots)


def gather(slots, root):
    places = empty(slots)
    yield [(slot, places if rank == root else None, root) for rank, slot in enumerate(slots)]
    assert bytes_of(places) == bytes_of(slots)


def scatter(slots, root):
    places = empty(slots)
    yield [(slots if rank == root else None, place, root) for rank, place in enumerate(places)]
    assert bytes_of(places) == bytes_of(slots)


def allgather(slots, root):
    places = [[slot if rank == i else room for i, room in enumerate(empty(slots))] for rank, slot in enumerate(slots)]
    yield [(row,) for row in places]
    assert all(bytes_of(row) == bytes_of(slots) for row in places)


def alltoall(slots, root):
    """What rank i sends to rank j has the length of slot i + j."""
    size = len(slots)
    outgoing = [filled(*(slots[(i + j) % size].nbytes for j in range(size))) for i in range(size)]
    incoming = [empty(row) for row in outgoing]
    yield list(zip(outgoing, incoming, strict=True))
    assert [bytes_of(row) for row in incoming] == [bytes_of(column) for column in zip(*outgoing, strict=True)]


CASES = {"bcast": bcast, "gather": gather, "scatter": scatter, "allgather": allgather, "alltoall": alltoall}


@pytest.mark.spec("S4.1-9", "S4.4-1", "S4.5-1", "S4.6-1", "S4.7-1", "S4.8-1")
@each(CASES)
@few
@given(blocks=st.lists(lengths, min_size=1, max_size=9), root=st.integers(0, 8), drawn=worlds)
def test_movement(name, algorithm, blocks, root, drawn, world):
    if not COLLECTIVES[name].algorithms[algorithm].any_lengths:
        blocks = [blocks[0]] * len(blocks)
    root %= len(blocks)
    equal = len(set(blocks)) == 1
    case = CASES[name](filled(*blocks), root)
    run(world(len(blocks), **drawn), name, algorithm, next(case), equal=equal)
    assert next(case, None) is None


def reduced(name, algorithm, ranks, vectors, root=0, op=SUM, counts=None, in_place=False, forms=(lambda x: x,) * 2):
    """Results of a reduction by rank, those that matter; the contributions must stay.

    Args:
        vectors: contributions, which are copied.
        forms: of the buffers of contributions and results: makes one of an array that has room for it.
    """
    given, results = ([form(np.zeros_like(vectors[0])) for _ in vectors] for form in forms)
    kept = [counts[rank] if counts else len(vector) for rank, vector in enumerate(vectors)]
    accumulators, wanted = [], []
    for rank, vector in enumerate(vectors):
        given[rank][...] = results[rank][...] = vector
        target = results[rank][: kept[rank]] if name != "reduce" or rank == root else None
        sent = resolve_send(results[rank] if in_place and target is not None and not counts else given[rank])
        place = None if target is None else resolve_recv(target)
        accumulators.append(VectorAccumulator(place if in_place and place and not counts else sent, place, op))
        wanted.append(target)
    extra = (root,) if name == "reduce" else (counts,) if name == "reduce_scatter" else ()
    run(ranks, name, algorithm, [(accumulator, *extra) for accumulator in accumulators], commute=op.commute)
    for accumulator in accumulators:
        accumulator.finish()
    assert all(np.array_equal(buffer, vector) for buffer, vector in zip(given, vectors, strict=True))
    return wanted


def evaluated(name, vectors, combine, counts=None):
    """The same by rank; of a reduce at every rank."""
    prefixes = [functools.reduce(combine, vectors[: rank + 1]) for rank in range(len(vectors))]
    if name == "scan":
        return prefixes
    if name == "exscan":
        return [None, *prefixes[:-1]]
    if name == "reduce_scatter":
        return np.split(prefixes[-1], np.cumsum(counts)[:-1])
    return [prefixes[-1]] * len(vectors)


def gapped(array):
    return np.zeros(2 * len(array), array.dtype)[::2]


def backwards(array):
    return np.zeros(len(array), array.dtype)[::-1]


def dense(array):
    return np.zeros(len(array), array.dtype)


@st.composite
def cases(draw):
    """Contributions of integers, and the other arguments of `reduced`."""
    size = draw(sizes)
    counts = draw(st.lists(st.integers(0, 4), min_size=size, max_size=size))
    numbers = np.random.default_rng(draw(st.integers(0, 2**32)))
    return {
        "vectors": numbers.integers(0, 97, (size, sum(counts)), np.int32),
        "counts": counts,
        "root": draw(st.integers(0, size - 1)),
        "in_place": draw(st.booleans()),
        "forms": draw(st.tuples(*[st.sampled_from([dense, gapped, backwards])] * 2)),
    }


def first(left, right, datatype):
    """Return the item of the lower ranks, unless it is a multiple of three: associative, but does not commute."""
    right[:] = chosen(np.frombuffer(left, "i"), np.frombuffer(right, "i")).tobytes()


def add(left, right, datatype):
    right[:] = (np.frombuffer(left, "i") + np.frombuffer(right, "i")).tobytes()


def chosen(left, right):
    return np.where(left % 3, left, right)


@pytest.mark.spec("S4.9.1-1", "S4.9.1-4", "S4.9.1-7", "S4.9.6-1", "S4.10-1", "S4.10-2", "S4.11-1", "S4.11-2")
@each(REDUCTIONS)
@few
@given(case=cases(), ordered=st.booleans(), drawn=worlds)
def test_reduction(name, algorithm, case, ordered, drawn, world):
    ordered = ordered and COLLECTIVES[name].algorithms[algorithm].order_safe
    op, combine = (Op.Create(first), chosen) if ordered else (SUM, np.add)
    if name != "reduce_scatter":
        case = {**case, "counts": None}
    vectors = case["vectors"]
    results = reduced(name, algorithm, world(len(vectors), **drawn), op=op, **case)
    for result, expected in zip(results, evaluated(name, vectors, combine, case["counts"]), strict=True):
        assert result is None or expected is None or np.array_equal(result, expected)


@pytest.mark.spec("S4.9.1-6", "S4.9.6-1")
@each(["allreduce", "reduce"])
@few
@given(size=sizes, count=st.integers(1, 20), seed=st.integers(0, 2**32), drawn=st.tuples(worlds, worlds, worlds))
def test_floating_results_are_the_same_bits_everywhere_and_always(name, algorithm, size, count, seed, drawn, world):
    vectors = np.random.default_rng(seed).normal(0, 1, (size, count)) * 10.0 ** np.arange(count)
    results = [
        result
        for root, options in enumerate(drawn)
        for result in reduced(name, algorithm, world(size, **options), vectors, (root + seed) % size)
        if result is not None
    ]
    assert len(results) == (3 if name == "reduce" else 3 * size)
    assert len({result.tobytes() for result in results}) == 1
    assert np.allclose(results[0], vectors.sum(axis=0), rtol=1e-6, atol=1e-6)


@pytest.mark.spec("S4.9.4-4")
@each(REDUCTIONS, cutting=True)
@few
@given(size=sizes, count=st.integers(0, 9), root=st.integers(0, 8), drawn=worlds)
def test_items_with_gaps_are_cut_between_items(name, algorithm, size, count, root, drawn, world):
    commute = not COLLECTIVES[name].algorithms[algorithm].order_safe
    op, combine = (Op.Create(add, commute=True), np.add) if commute else (Op.Create(first), chosen)
    root %= size
    counts = [count // size + (rank < count % size) for rank in range(size)]
    kept = counts if name == "reduce_scatter" else [count] * size
    ends = INT.Create_vector(2, 1, 2).Commit()
    triples = np.arange(size * count * 3, dtype="i").reshape(size, count, 3)
    results = [np.full((kept[rank], 3), -1, "i") for rank in range(size)]
    accumulators = [
        VectorAccumulator(resolve_send([triple, count, ends]), resolve_recv([result, len(result), ends]), op)
        for triple, result in zip(triples, results, strict=True)
    ]
    extra = (root,) if name == "reduce" else (counts,) if name == "reduce_scatter" else ()
    run(world(size, **drawn), name, algorithm, [(accumulator, *extra) for accumulator in accumulators], commute=commute)
    expected = evaluated(name, triples, combine, counts)
    for rank in range(size) if name != "reduce" else [root]:
        accumulators[rank].finish()
        if expected[rank] is not None:
            assert np.array_equal(results[rank][:, ::2], expected[rank][:, ::2])
        assert (results[rank][:, 1] == -1).all()
