"""Neighbourhood collectives (section 7.6 of MPI-3.1) on grids, graphs and distributed graphs."""

from __future__ import annotations

import inspect
import itertools
import random
from collections import defaultdict, deque

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiompi.coll import neighborhood, objects
from aiompi.comm.topology import Cartesian, DistributedGraph, Graph
from aiompi.constants import PROC_NULL
from aiompi.datatype import DOUBLE, IN_PLACE, INT
from aiompi.errors import (
    InvalidArgumentError,
    InvalidBufferError,
    InvalidCountError,
    InvalidTopologyError,
    TruncationError,
)
from coll.forms import FORMS, Memory
from support.cases import cases

UNTOUCHED = -1
SHAPES = [(), (1,), (2,), (3,), (5,), (8,), (1, 1), (1, 2), (2, 2), (2, 3), (1, 7), (1, 2, 3), (2, 2, 2), (2, 1, 3)]
GRIDS = [
    Cartesian(shape, periods) for shape in SHAPES for periods in itertools.product((False, True), repeat=len(shape))
]


def arranged(ranks, topologies):
    """Give each rank its topology, or all the same one."""
    for comm in ranks.comms:
        comm.topology = topologies[comm.rank] if isinstance(topologies, list) else topologies
    return ranks


def block(rank, place):
    """Return the data that a rank sends along its outgoing edge of this number."""
    return 100 * rank + place


def outgoing(comm):
    return [block(comm.rank, place) for place in range(len(comm.topology.neighbors(comm.rank)[1]))]


def from_grid(grid, rank):
    """Return the blocks that arrive: in each dimension that of the previous process, then that of the next one."""
    expected = []
    for direction in range(grid.ndims):
        before, behind = grid.shift(rank, direction, 1)
        expected.append(UNTOUCHED if before == PROC_NULL else block(before, 2 * direction + 1))
        expected.append(UNTOUCHED if behind == PROC_NULL else block(behind, 2 * direction))
    return expected


def alltoall(ranks):
    """What arrives at each rank when all send their blocks."""
    received = [np.full(len(comm.topology.neighbors(comm.rank)[0]), UNTOUCHED, "i") for comm in ranks.comms]
    ranks.results(lambda comm: neighborhood.neighbor_alltoall(comm, np.array(outgoing(comm), "i"), received[comm.rank]))
    return [array.tolist() for array in received]


@pytest.mark.parametrize("eager_limit", [0, 65536])
def test_what_leaves_a_process_forward_arrives_from_before(eager_limit, world):
    """Also where both neighbours are one process, or the process itself."""
    for grid, seed in itertools.product(GRIDS, range(3)):
        ranks = arranged(world(grid.nnodes, seed=seed, eager_limit=eager_limit), grid)
        assert alltoall(ranks) == [from_grid(grid, rank) for rank in range(grid.nnodes)], (grid.dims, grid.periods)


def test_two_processes_in_a_circle(world):
    """Ranks 0 and 1 each send backward, then forward, and receive first what was sent forward."""
    assert alltoall(arranged(world(2), Cartesian((2,), (True,)))) == [[101, 100], [1, 0]]


def test_objects_on_grids(world, codec):
    for grid in GRIDS:
        check_objects(grid, world, codec)


def check_objects(grid, world, codec):
    ranks = arranged(world(grid.nnodes), grid)
    expected = [[None if value == UNTOUCHED else value for value in from_grid(grid, r)] for r in range(grid.nnodes)]
    assert ranks.results(lambda comm: objects.neighbor_alltoall(comm, codec, outgoing(comm))) == expected
    sources = [[None if rank == PROC_NULL else [rank] for rank in grid.neighbors(r)[0]] for r in range(grid.nnodes)]
    assert ranks.results(lambda comm: objects.neighbor_allgather(comm, codec, [comm.rank])) == sources


def test_the_same_for_all_neighbours(world):
    for grid in GRIDS:
        check_allgather(grid, world)


def check_allgather(grid, world):
    ranks = arranged(world(grid.nnodes), grid)
    received = [np.full((2 * grid.ndims, 3), UNTOUCHED, "i") for _ in ranks.comms]
    ranks.results(lambda comm: neighborhood.neighbor_allgather(comm, np.full(3, comm.rank, "i"), received[comm.rank]))
    for rank, array in enumerate(received):
        sources = [UNTOUCHED if source == PROC_NULL else source for source in grid.neighbors(rank)[0]]
        assert array.tolist() == [[source] * 3 for source in sources]


@pytest.mark.parametrize("size", range(1, 9))
def test_nothing_is_sent_beyond_a_border(size, world):
    ranks = arranged(world(size), Cartesian((size,), (False,)))
    alltoall(ranks)
    assert [sent["messages"] for sent in ranks.sent] == [(rank > 0) + (rank < size - 1) for rank in range(size)]


def test_memory_beyond_a_border_stays_as_it_is(world):
    """This also holds where received blocks are unpacked at the end."""
    gaps = INT.Create_resized(0, 8).Commit()
    ranks = arranged(world(2), Cartesian((2,), (False,)))
    received = np.arange(8, dtype="i").reshape(2, 4)
    ranks.results(
        lambda comm: neighborhood.neighbor_allgather(comm, np.full(1, 50, "i"), [received[comm.rank], 1, gaps])
    )
    assert received.tolist() == [[0, 1, 50, 3], [50, 5, 6, 7]]


def test_edges_of_a_graph_in_their_order(world, codec):
    """0 and 1 have two edges, with others between them, 0 has one to itself."""
    topology = Graph.create([3, 6, 7], [1, 0, 1, 0, 2, 0, 1], 3)
    expected = [[100, 1, 102], [0, 200, 2], [101]]
    for seed in range(5):
        ranks = arranged(world(3, seed=seed), topology)
        assert alltoall(ranks) == expected
        assert ranks.results(lambda comm: objects.neighbor_alltoall(comm, codec, outgoing(comm))) == expected


def random_graph(size, seed):
    """Any edges, several between some processes, and from some to themselves; in any order at either end."""
    numbers = random.Random(seed)
    edges = [(numbers.randrange(size), numbers.randrange(size)) for _ in range(3 * size)]
    ends = [
        (
            numbers.sample(sources := [tail for tail, head in edges if head == rank], len(sources)),
            [head for tail, head in edges if tail == rank],
        )
        for rank in range(size)
    ]
    return [DistributedGraph(tuple(sources), tuple(destinations)) for sources, destinations in ends]


def from_graph(graphs, block=block):
    """The blocks that arrive at each rank; those of several edges between two processes in their order."""
    under_way = defaultdict(deque)
    for rank, graph in enumerate(graphs):
        for place, destination in enumerate(graph.destinations):
            under_way[rank, destination].append(block(rank, place))
    return [[under_way[source, rank].popleft() for source in graph.sources] for rank, graph in enumerate(graphs)]


@pytest.mark.parametrize("size", range(1, 9))
@pytest.mark.parametrize("eager_limit", [0, 65536])
def test_distributed_graphs(size, eager_limit, world, codec):
    for seed in range(5):
        graphs = random_graph(size, seed)
        ranks = arranged(world(size, seed=seed, eager_limit=eager_limit), graphs)
        assert alltoall(ranks) == from_graph(graphs)
        found = ranks.results(lambda comm: objects.neighbor_allgather(comm, codec, comm.rank))
        assert found == [list(graph.sources) for graph in graphs]


@pytest.mark.parametrize("size", range(1, 9))
def test_blocks_of_any_length(size, world):
    """A rank sends rank + 1 items to each, which come to places in reverse order, with an item between them."""
    for seed in range(3):
        graphs = random_graph(size, seed)
        ranks = arranged(world(size, seed=seed), graphs)
        gathered, exchanged, expected = [], [], []
        for graph in graphs:
            counts = [source + 1 for source in graph.sources]
            displs = [sum(counts[place + 1 :]) + len(counts) - 1 - place for place in range(len(counts))]
            memory = np.full(sum(counts) + len(counts), UNTOUCHED, "i")
            gathered.append([memory.copy(), (counts, displs), INT])
            exchanged.append([memory.copy(), (counts, displs), INT])
            for source, displ in zip(graph.sources, displs, strict=True):
                memory[displ : displ + source + 1] = source
            expected.append(memory.tolist())
        own = [np.full(rank + 1, rank, "i") for rank in range(size)]
        ranks.results(lambda c: neighborhood.neighbor_allgatherv(c, own[c.rank], gathered[c.rank]))
        ranks.results(
            lambda c: neighborhood.neighbor_alltoallv(
                c, [own[c.rank], (c.rank + 1, 0), INT] if c.topology.destinations else None, exchanged[c.rank]
            )
        )
        assert [spec[0].tolist() for spec in gathered] == expected
        assert [spec[0].tolist() for spec in exchanged] == expected


@pytest.mark.parametrize("name", neighborhood.__all__)
@given(
    size=st.integers(1, 9),
    count=st.integers(0, 3),
    forms=st.lists(st.tuples(*[st.sampled_from(FORMS)] * 2), min_size=9, max_size=9),
    persistent=st.booleans(),
    seed=st.integers(0, 2**32),
    eager_limit=st.sampled_from([0, 65536]),
)
def test_any_graph_datatypes_and_lengths(name, size, count, forms, persistent, seed, eager_limit, world):
    collective, graphs = getattr(neighborhood, name), random_graph(size, seed)
    same, alike = "allgather" in name, name.endswith(("gather", "all"))
    shape = "spec" if alike else "typed" if name.endswith("w") else "vector"

    def sent(rank, place):
        place *= not same
        length = count if alike else (seed + rank + place) % 4
        return (np.arange(2 * length) + 1000 * rank + 10 * place).tolist()

    def memory(form, blocks):
        return (Memory if alike else Memory.apart)(form, [len(block) // 2 for block in blocks])

    expected = from_graph(graphs, sent)
    out, into = [], []
    for rank, graph in enumerate(graphs):
        blocks = [sent(rank, place) for place in range(1 if same else len(graph.destinations))]
        out.append(memory(forms[rank][0], blocks))
        for place, numbers in enumerate(blocks):
            out[rank].put(place, numbers)
        into.append(memory(forms[rank][1], expected[rank]))

    def start(comm):
        buffers = [getattr(it[comm.rank], shape) if it[comm.rank].counts else None for it in (out, into)]
        if same:
            buffers[0] = out[comm.rank].whole
        if not persistent:
            return collective(comm, *buffers)
        request = collective.init(comm, *buffers)
        request.start()
        return request

    arranged(world(size, seed, eager_limit=eager_limit), graphs).results(start)
    assert [memory.blocks() for memory in into] == expected
    assert all(memory.intact() for memory in into)


def test_a_datatype_for_each_neighbour(world):
    """Numbers to the process before, an integer to the next one, which all get from the other side."""
    item = np.dtype([("integer", "i4"), ("number", "f8")], align=True)
    ranks = arranged(world(3), Cartesian((3,), (True,)))
    sent = [np.array((rank, rank + 0.5), item) for rank in range(3)]
    received = [np.zeros((), item) for _ in range(3)]
    at = item.fields["number"][1]
    ranks.results(
        lambda comm: neighborhood.neighbor_alltoallw(
            comm,
            [sent[comm.rank], ([1, 1], [at, 0]), [DOUBLE, INT]],
            [received[comm.rank], ([1, 1], [0, at]), [INT, DOUBLE]],
        )
    )
    assert [array.item() for array in received] == [((rank - 1) % 3, (rank + 1) % 3 + 0.5) for rank in range(3)]


def test_several_at_once_and_started_again(world):
    grid = Cartesian((2, 2), (True, True))
    ranks = arranged(world(4), grid)
    sent, received = np.zeros((4, 4), "i"), np.zeros((2, 4, 4), "i")
    bound = [
        ranks.start(lambda c, i=i: neighborhood.neighbor_alltoall.init(c, sent[c.rank], received[i, c.rank]))
        for i in range(2)
    ]
    for turn in range(3):
        sent[:] = [[block(rank, place) + turn for place in range(4)] for rank in range(4)]
        for rank in range(4):
            for requests in bound[:: -1 if rank % 2 else 1]:
                requests[rank].start()
        ranks.run()
        expected = [[value + turn for value in from_grid(grid, rank)] for rank in range(4)]
        assert received.tolist() == [expected, expected]


def test_without_neighbours_buffers_do_not_matter(world, codec):
    ranks = arranged(world(2), DistributedGraph((), ()))
    for call in (neighborhood.neighbor_alltoall, neighborhood.neighbor_alltoallv, neighborhood.neighbor_alltoallw):
        assert ranks.results(lambda comm, call=call: call(comm, None, None)) == [None, None]
    assert ranks.results(lambda comm: objects.neighbor_alltoall(comm, codec, [])) == [[], []]
    assert not any(ranks.sent)


CALLS = [getattr(neighborhood, name) for name in neighborhood.__all__]


@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.name)
def test_no_topology(call, world):
    comm = world(2).comms[0]
    with pytest.raises(InvalidTopologyError, match=rf"{call.name} on WORLD, rank 0: there is no topology"):
        call(comm, np.zeros(2), np.zeros(2))


def test_no_topology_for_objects(world, codec):
    comm = world(2).comms[0]
    for call, name in ((objects.neighbor_allgather, "allgather"), (objects.neighbor_alltoall, "alltoall")):
        with pytest.raises(InvalidTopologyError, match=f"neighbor_{name} on WORLD, rank 0: there is no topology"):
            call(comm, codec, [])


def test_a_graph_must_have_as_many_edges_both_ways(world):
    """All ranks raise the error, also those that are not at the edge, which would otherwise wait."""
    ranks = arranged(world(3), Graph.create([1, 3, 4], [1, 0, 0, 2], 3))
    for comm in ranks.comms:
        with pytest.raises(InvalidTopologyError, match="more edges from 1 to 0 than back"):
            neighborhood.neighbor_allgather(comm, np.zeros(1), np.zeros(2))
    assert not ranks.deliver_one()


def test_wrong_arguments(world, codec):
    comm = arranged(world(3), Cartesian((3,), (True,))).comms[0]
    call, one, two, three = neighborhood.neighbor_alltoall, np.zeros(1), np.zeros(2), np.zeros(3)
    with pytest.raises(InvalidBufferError, match="sendbuf cannot be IN_PLACE"):
        call(comm, IN_PLACE, two)
    with pytest.raises(InvalidBufferError, match="share memory"):
        call(comm, two, two)
    with pytest.raises(InvalidCountError, match="2 equal blocks"):
        call(comm, three, two)
    with pytest.raises(InvalidCountError, match="sendbuf has 16 bytes for a rank, recvbuf 8"):
        call(comm, np.zeros(4), two)
    with pytest.raises(InvalidCountError, match="sendbuf has 16 bytes for a rank, recvbuf 8"):
        neighborhood.neighbor_allgather(comm, two.copy(), two)
    with pytest.raises(InvalidArgumentError, match="has 3 entries: expected 2"):
        neighborhood.neighbor_alltoallv(comm, [three, [1, 1, 1]], [one, [1, 0]])
    with pytest.raises(InvalidArgumentError, match=r"expected 2 objects, one for each neighbour.*, got 3"):
        objects.neighbor_alltoall(comm, codec, "abc")


def test_neighbours_that_do_not_agree_on_the_length(world):
    ranks = arranged(world(2), Cartesian((2,), (False,)))
    requests = ranks.start(
        lambda comm: neighborhood.neighbor_allgather(comm, np.zeros(comm.rank + 1), np.zeros(2 * (comm.rank + 1)))
    )
    ranks.run()
    with pytest.raises(TruncationError, match="rank 1 sent 16 bytes where 8 are expected"):
        requests[0].result()
    with pytest.raises(InvalidCountError, match="rank 0 sent 8 bytes where 16 are expected"):
        requests[1].result()


@cases("name", neighborhood.__all__)
def test_documented(name):
    collective = getattr(neighborhood, name)
    assert "MPI_" + name.capitalize() in inspect.getdoc(collective)
    assert collective.name == name.capitalize()
