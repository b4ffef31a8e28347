"""Every collective on buffers against numpy: any algorithm, size, root, counts, datatypes with gaps, order of arrival;
started at once, or bound first."""

from __future__ import annotations

import dataclasses
import functools
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiompi.coll import buffers
from aiompi.coll.registry import COLLECTIVES
from aiompi.datatype import IN_PLACE
from aiompi.op import Op
from coll.forms import FORMS, OF_PAIRS, Form, Memory

PRIME = 97


@dataclasses.dataclass(frozen=True)
class Case:
    """One call of a collective.

    Attributes:
        size: number of ranks.
        root: one of them.
        table: pairs that rank i has for rank j.
        forms: of each rank, what it sends and what it receives.
        in_place: whether IN_PLACE is passed where it may be.
        seed: of the order of arrival, and the choice of algorithms.
        eager_limit: bytes.
        persistent: whether the arguments are bound before it is started.
    """

    size: int
    root: int
    table: list[list[int]]
    forms: list[tuple[Form, Form]]
    in_place: bool
    seed: int
    eager_limit: int
    persistent: bool

    @property
    def count(self):
        return self.table[0][0]

    @property
    def counts(self):
        return self.table[0]

    def results(self, world, call):
        """Let all ranks make their calls, by any algorithm that can serve them.

        Args:
            call: rank -> a collective and its arguments.
        """
        chance = random.Random(self.seed)
        coll = {name: chance.choice([*collective.algorithms]) for name, collective in COLLECTIVES.items()}
        ranks = world(self.size, self.seed, eager_limit=self.eager_limit, coll=coll)
        assert ranks.results(lambda comm: self._start(comm, *call(comm.rank))) == [None] * self.size

    def _start(self, comm, collective, *arguments):
        if not self.persistent:
            return collective(comm, *arguments)
        request = collective.init(comm, *arguments)
        request.start()
        return request


@st.composite
def cases(draw):
    size = draw(st.integers(1, 9))

    def below(bound, count):
        """Draw so many numbers at once: drawing them one by one would take as long as the collective."""
        return [byte % bound for byte in draw(st.binary(min_size=count, max_size=count))]

    chosen = [FORMS[number] for number in below(len(FORMS), 2 * size)]
    return Case(
        size,
        draw(st.integers(0, size - 1)),
        [below(4, size) for _ in range(size)],
        list(zip(chosen[::2], chosen[1::2], strict=True)),
        draw(st.booleans()),
        draw(st.integers(0, 2**32)),
        draw(st.sampled_from([0, 65536])),
        draw(st.booleans()),
    )


def numbers(sender, receiver, count):
    """Return the data to send, different for each pair of ranks."""
    return (np.arange(2 * count) + 100 * sender + 1000 * receiver).tolist()


def sources(case, counts):
    """Return one block in each rank's form, with data that does not depend on the receiver."""
    memories = [Memory(case.forms[rank][0], [counts[rank]]) for rank in range(case.size)]
    for rank, memory in enumerate(memories):
        memory.put(0, numbers(rank, 0, counts[rank]))
    return memories


def everyone(counts):
    return [numbers(rank, 0, count) for rank, count in enumerate(counts)]


@pytest.mark.spec("S4.1-2", "S4.2-2", "S4.4-1", "S4.4-2", "S4.4-4")
@given(case=cases())
def test_bcast(case, world):
    made = sources(case, [case.count] * case.size)
    case.results(world, lambda rank: (buffers.bcast, made[rank].whole, case.root))
    assert all(memory.blocks() == [numbers(case.root, 0, case.count)] for memory in made)
    assert all(memory.intact() for memory in made)


@pytest.mark.spec("S4.1-2", "S4.2-2", "S4.5-1", "S4.5-4", "S4.5-6", "S4.5-7")
@pytest.mark.parametrize("vector", [False, True])
@given(case=cases())
def test_gather_and_gatherv(vector, case, world):
    counts = case.counts if vector else [case.count] * case.size
    made, form = sources(case, counts), case.forms[case.root][1]
    place = Memory.apart(form, counts) if vector else Memory(form, counts)
    if case.in_place:
        place.put(case.root, made[case.root].get(0))

    def call(rank):
        send = IN_PLACE if case.in_place and rank == case.root else made[rank].whole
        if vector:
            return buffers.gatherv, send, place.vector if rank == case.root else None, case.root
        return buffers.gather, send, place.spec if rank == case.root else None, case.root

    case.results(world, call)
    assert place.blocks() == everyone(counts)
    assert place.intact()


@pytest.mark.spec("S4.1-2", "S4.2-2", "S4.6-1", "S4.6-3", "S4.6-5")
@pytest.mark.parametrize("vector", [False, True])
@given(case=cases())
def test_scatter_and_scatterv(vector, case, world):
    counts = case.counts if vector else [case.count] * case.size
    form = case.forms[case.root][0]
    source = Memory.apart(form, counts) if vector else Memory(form, counts)
    for rank in range(case.size):
        source.put(rank, numbers(case.root, rank, counts[rank]))
    before = source.array.copy()
    made = [Memory(case.forms[rank][1], [counts[rank]]) for rank in range(case.size)]

    def call(rank):
        receive = IN_PLACE if case.in_place and rank == case.root else made[rank].whole
        if vector:
            return buffers.scatterv, source.vector if rank == case.root else None, receive, case.root
        return buffers.scatter, source.spec if rank == case.root else None, receive, case.root

    case.results(world, call)
    assert np.array_equal(source.array, before)
    for rank, memory in enumerate(made):
        if not (case.in_place and rank == case.root):
            assert memory.blocks() == [numbers(case.root, rank, counts[rank])]
        assert memory.intact()


@pytest.mark.spec("S4.1-2", "S4.2-2", "S4.7-1", "S4.7-2")
@pytest.mark.parametrize("vector", [False, True])
@given(case=cases())
def test_allgather_and_allgatherv(vector, case, world):
    counts = case.counts if vector else [case.count] * case.size
    made = sources(case, counts)
    places = [Memory.apart(form, counts) if vector else Memory(form, counts) for _, form in case.forms]
    for rank in range(case.size if case.in_place else 0):
        places[rank].put(rank, made[rank].get(0))

    def call(rank):
        send = IN_PLACE if case.in_place else made[rank].whole
        if vector:
            return buffers.allgatherv, send, places[rank].vector
        return buffers.allgather, send, places[rank].spec

    case.results(world, call)
    assert all(place.blocks() == everyone(counts) for place in places)
    assert all(place.intact() for place in places)


@pytest.mark.spec("S4.1-2", "S4.2-2", "S4.8-1", "S4.8-2", "S4.8-3")
@pytest.mark.parametrize("name", ["alltoall", "alltoallv", "alltoallw"])
@given(case=cases())
def test_alltoall_and_its_kin(name, case, world):
    size = case.size
    table = np.full((size, size), case.count) if name == "alltoall" else np.array(case.table)
    if case.in_place:
        table = np.tril(table) + np.tril(table, -1).T  # what is sent has the length of what is received
    make = Memory if name == "alltoall" else Memory.apart
    out = [make(case.forms[rank][0], table[rank].tolist()) for rank in range(size)]
    into = [make(case.forms[rank][1], table[:, rank].tolist()) for rank in range(size)]
    for rank in range(size):
        for other in range(size):
            (into if case.in_place else out)[rank].put(other, numbers(rank, other, table[rank, other]))
    form = {"alltoall": lambda m: m.spec, "alltoallv": lambda m: m.vector, "alltoallw": lambda m: m.typed}[name]

    def call(rank):
        send = IN_PLACE if case.in_place else form(out[rank])
        return getattr(buffers, name), send, form(into[rank])

    case.results(world, call)
    for rank, memory in enumerate(into):
        assert memory.blocks() == [numbers(other, rank, table[other, rank]) for other in range(size)]
        assert memory.intact()


def composition(form):
    """Composition of affine maps x -> a x + b modulo a prime, as pairs (a, b): it does not commute."""

    def function(left, right, datatype):
        assert datatype is form.datatype
        f, g = (np.frombuffer(memory, "i").reshape(-1, form.extent) for memory in (left, right))
        a, b = form.offsets
        g[:, a], g[:, b] = f[:, a] * g[:, a] % PRIME, (f[:, a] * g[:, b] + f[:, b]) % PRIME

    return Op.Create(function)


def composed(f, g):
    return [
        number
        for a, b, c, d in zip(f[::2], f[1::2], g[::2], g[1::2], strict=True)
        for number in (a * c % PRIME, (a * d + b) % PRIME)
    ]


def maps(case, count):
    """The maps of each rank, and for each rank those of all up to it composed."""
    chance = np.random.default_rng(case.seed)
    mine = [chance.integers(1, PRIME, 2 * count).tolist() for _ in range(case.size)]
    return mine, [functools.reduce(composed, mine[: rank + 1]) for rank in range(case.size)]


def filled(form, vectors, wanted):
    memories = [Memory(form, [len(vector) // 2]) for vector in vectors]
    for memory, vector in zip(memories, vectors, strict=True):
        if wanted:
            memory.put(0, vector)
    return memories


@pytest.mark.spec(
    "S4.2-2", "S4.9.1-1", "S4.9.1-4", "S4.9.1-7", "S4.9.4-3", "S4.9.4-4", "S4.9.4-6", "S4.11-1", "S4.11-2", "S4.11-3",
)  # fmt: skip
@pytest.mark.parametrize("name", ["reduce", "allreduce", "scan", "exscan"])
@given(case=cases(), form=st.sampled_from(OF_PAIRS))
def test_reductions(name, case, form, world):
    mine, upto = maps(case, case.count)
    out, into = filled(form, mine, True), filled(form, mine, case.in_place)
    op, root = composition(form), case.root

    def call(rank):
        receive = into[rank].whole
        if name == "reduce":
            send = IN_PLACE if case.in_place and rank == root else out[rank].whole
            return buffers.reduce, send, receive, op, root
        send = IN_PLACE if case.in_place else out[rank].whole
        return getattr(buffers, name), send, receive, op

    before = [memory.array.copy() for memory in (*out, *into)]
    case.results(world, call)
    expected = {
        "reduce": {root: upto[-1]},
        "allreduce": dict.fromkeys(range(case.size), upto[-1]),
        "scan": dict(enumerate(upto)),
        "exscan": dict(enumerate(upto[:-1], 1)),
    }[name]
    for rank in range(case.size):
        assert np.array_equal(out[rank].array, before[rank])
        assert into[rank].intact()
        if rank in expected:
            assert into[rank].get(0) == expected[rank]
        else:
            assert np.array_equal(into[rank].array, before[case.size + rank])


@pytest.mark.spec("S4.2-2", "S4.9.4-6", "S4.10-1", "S4.10-2", "S4.10-3")
@pytest.mark.parametrize("name", ["reduce_scatter", "reduce_scatter_block", "asking"])
@given(case=cases(), form=st.sampled_from(OF_PAIRS))
def test_reduce_scatter(name, case, form, world):
    """`asking`: the ranks do not know each other's counts."""
    size, in_place = case.size, name != "asking" and case.in_place
    counts = [case.count] * size if name == "reduce_scatter_block" else case.counts
    mine, upto = maps(case, sum(counts))
    out, into = filled(form, mine, True), [Memory(form, [counts[rank]]) for rank in range(size)]
    op = composition(form)

    def call(rank):
        send, receive = out[rank].whole, into[rank].whole
        if name == "reduce_scatter_block":  # whose counts are all that of one block
            send[1] = receive[1]
        if in_place:
            send, receive = IN_PLACE, send
        if name == "reduce_scatter_block":
            return buffers.reduce_scatter_block, send, receive, op
        return buffers.reduce_scatter, send, receive, None if name == "asking" else counts, op

    case.results(world, call)
    for rank in range(size):
        start = 2 * sum(counts[:rank])
        segment = upto[-1][start : start + 2 * counts[rank]]
        if in_place:
            assert out[rank].get(0)[: 2 * counts[rank]] == segment
        else:
            assert into[rank].get(0) == segment
            assert out[rank].get(0) == mine[rank]
        assert into[rank].intact()
        assert out[rank].intact()
