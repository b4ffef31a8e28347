"""Programs on topologies, such as the examples of chapter 6; ranks start them in both orders."""

from __future__ import annotations

import numpy as np
import pytest

from aiompi import PROC_NULL, UNDEFINED, Intracomm, errors
from aiompi.comm.topology import Compute_dims
from support.spmd import on_ranks


@pytest.mark.spec("S6.4-1", "S6.5.1-1", "S6.5.1-4", "S6.5.7-2")
@on_ranks(5)
async def test_grid_of_some_processes(comm: Intracomm) -> None:
    """Ranks stay, a process outside gets no communicator, and processes that are no neighbours can communicate."""
    cart = await comm.Create_cart([2, 2], periods=[False, True])
    split = await comm.Split(0 if comm.rank < 4 else UNDEFINED, comm.Cart_map([2, 2]))
    assert bool(cart) == bool(split) == (comm.rank < 4)
    if cart:
        assert cart.rank == split.rank == comm.rank
        assert cart.Get_topo() == ([2, 2], [False, True], [comm.rank // 2, comm.rank % 2])
        across = 3 - cart.rank
        assert across not in cart.outedges
        assert await cart.sendrecv(cart.rank, across, source=across) == across
        assert await cart.allgather(comm.rank) == [0, 1, 2, 3]
    for arguments, kind in ((([3, 2],), errors.InvalidDimsError), (([5], [True, True]), ValueError)):
        with pytest.raises(kind):
            await comm.Create_cart(*arguments)


@pytest.mark.spec("S6.5.3-1", "S6.5.3-2", "S6.5.4-6")
@on_ranks(8)
async def test_shuffle_exchange(comm: Intracomm) -> None:
    """Example 6.3: the three permutations of a network of 2 ** 3 processes; unshuffling undoes shuffling."""
    bits, size = 3, comm.size
    exchange = [rank ^ 1 for rank in range(size)]
    shuffle = [(rank << 1 | rank >> bits - 1) % size for rank in range(size)]
    unshuffle = [shuffle.index(rank) for rank in range(size)]
    edges = [edge for three in zip(exchange, shuffle, unshuffle, strict=True) for edge in three]
    graph = await comm.Create_graph(range(3, 3 * size + 1, 3), edges)
    exchanged, shuffled, unshuffled = graph.Get_neighbors(graph.rank)
    value = np.array([graph.rank])
    await graph.Sendrecv_replace(value, exchanged, source=exchanged)
    assert value == exchange[graph.rank]
    await graph.Sendrecv_replace(value, shuffled, source=unshuffled)
    assert value == exchange[unshuffle[graph.rank]]
    await graph.Sendrecv_replace(value, unshuffled, source=shuffled)
    assert value == exchange[graph.rank]


@pytest.mark.spec("S6.5.5-1", "S6.5.5-4")
@on_ranks(6)
async def test_skewed_columns(comm: Intracomm) -> None:
    """Example 6.4: column i of a periodic array of processes is shifted by i."""
    cart = await comm.Create_cart([3, 2], periods=True)
    row, column = cart.coords
    source, dest = cart.Shift(0, column)
    value = np.array([row, column])
    await cart.Sendrecv_replace(value, dest, source=source)
    assert value.tolist() == [(row - column) % 3, column]


@pytest.mark.spec("S6.5.5-2", "S6.5.5-4")
@on_ranks(3)
async def test_shift_over_an_open_border(comm: Intracomm) -> None:
    cart = await comm.Create_cart([3])
    source, dest = cart.Shift(0, 1)
    value = np.array([cart.rank])
    await cart.Sendrecv_replace(value, dest, source=source)
    assert value == max(0, cart.rank - 1)
    assert (source == PROC_NULL) == (cart.rank == 0)


@pytest.mark.spec("S6.5.6-1", "S6.5.6-2")
@on_ranks(8)
async def test_sub_grids(comm: Intracomm) -> None:
    """Example 6.5, with a grid of 2 x 2 x 2."""
    cart = await comm.Create_cart([2, 2, 2], periods=[True, False, False])
    for keep in ([True, False, True], [False, False, True], [True] * 3, [False] * 3):
        kept = [direction for direction in range(3) if keep[direction]]
        part = await cart.Sub(keep)
        assert part.size == 2 ** len(kept)
        assert part.Get_topo() == tuple([values[direction] for direction in kept] for values in cart.Get_topo())
        others = await part.allgather(cart.coords)
        cut = [direction for direction in range(3) if not keep[direction]]
        assert all([coords[d] for d in cut] == [cart.coords[d] for d in cut] for coords in others)
        assert [part.Get_coords(rank) for rank in range(part.size)] == [[coords[d] for d in kept] for coords in others]


@pytest.mark.spec("S6.5.2-1", "S6.5.4-5")
@on_ranks(6)
async def test_relaxation(comm: Intracomm) -> None:
    """Example 6.6: the sum of the four neighbours, on a periodic grid that the library has chosen."""
    cart = await comm.Create_cart(Compute_dims(comm.size, [0, 0]), periods=[True, True])
    dims, _, (row, column) = cart.Get_topo()
    assert dims == [3, 2]
    around = [cart.Get_cart_rank([row + dr, column + dc]) for dr, dc in ((-1, 0), (1, 0), (0, -1), (0, 1))]
    value = np.array([10.0**cart.rank])
    received = np.zeros(4)
    receives = [cart.Irecv(received[i : i + 1], rank, tag=i ^ 1) for i, rank in enumerate(around)]
    sends = [cart.Isend(value, rank, tag=i) for i, rank in enumerate(around)]
    for request in receives + sends:
        await request
    assert received.tolist() == [10.0**rank for rank in around]
    assert around == [
        (row - 1) % 3 * 2 + column, (row + 1) % 3 * 2 + column, row * 2 + 1 - column, row * 2 + 1 - column,
    ]  # fmt: skip


@pytest.mark.spec("S6.3-1")
@on_ranks(4)
async def test_duplicates_have_the_topology(comm: Intracomm) -> None:
    cart = await comm.Create_cart([2, 2], periods=True)
    copy = await cart.Dup()
    assert type(copy) is type(cart)
    assert copy.Get_topo() == cart.Get_topo()
    assert (await (await cart.Split(0, 0)).Dup()).Get_topology() == UNDEFINED


@on_ranks(3)
async def test_distributed_graph_that_others_name(comm: Intracomm) -> None:
    """Each rank names the edges that lead to it, so that the other ranks must learn of them."""
    before, behind = (comm.rank - 1) % 3, (comm.rank + 1) % 3
    graph = await comm.Create_dist_graph([before, behind], [1, 1], [comm.rank, comm.rank], [10, comm.rank])
    sources, destinations, weights = graph.Get_dist_neighbors()
    assert weights is not None
    assert sorted(zip(sources, weights[0], strict=True)) == sorted([(before, 10), (behind, comm.rank)])
    assert sorted(zip(destinations, weights[1], strict=True)) == sorted([(behind, 10), (before, before)])
