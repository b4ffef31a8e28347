"""Alltoallw of blocks with gaps among ranks of one host, which the native core serves as one call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from aiompi import core
from aiompi.coll import buffers
from aiompi.datatype import DOUBLE, IN_PLACE, INT, Datatype
from aiompi.errors import (
    InvalidBufferError,
    InvalidCommError,
    InvalidCountError,
    InvalidTypeError,
    OtherError,
    TruncationError,
)
from coll.wires import World
from support.cases import cases

EDGE = 6


def parts(axis: int, size: int) -> list[Datatype]:
    """The parts of a square of doubles along an axis, one for each rank."""
    types = []
    for rank in range(size):
        sizes, starts = [EDGE] * 2, [0] * 2
        sizes[axis], starts[axis] = EDGE // size, rank * EDGE // size
        types.append(DOUBLE.Create_subarray([EDGE] * 2, sizes, starts).Commit())
    return types


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("size", [1, 2, 3])
def test_subarrays_change_their_axis(size: int, seed: int) -> None:
    """Twice, so that messages of the second exchange may come before the first has ended."""
    each = [1] * size, [0] * size
    rows, columns = parts(0, size), parts(1, size)
    sent = [np.random.default_rng(rank).random((EDGE, EDGE)) for rank in range(size)]
    first, second = np.zeros((2, size, EDGE, EDGE))
    world = World(size, seed, hosts=[0] * size)
    requests = [
        buffers.alltoallw(comm, [sent[comm.rank], each, rows], [into[comm.rank], each, columns])
        for into in (first, second)
        for comm in world.comms
    ]
    world.run()
    assert all(request.result() is None for request in requests)
    part = EDGE // size
    for rank in range(size):
        for other in range(size):
            block = sent[other][part * rank : part * (rank + 1)].reshape(EDGE, part)
            assert (first[rank][:, part * other : part * (other + 1)] == block).all()
    assert (first == second).all()


def exchange(world: World, into: np.ndarray, counts: list[list[int]]) -> list[Any]:
    """Start an exchange of integers; `counts` has those that each rank sends, and two come from each rank."""
    return [call(world, into, rank, sent) for rank, sent in enumerate(counts)]


def call(world: World, into: np.ndarray, rank: int, sent: list[int]) -> Any:
    source = [np.arange(6, dtype="i4"), sent, [0, 8, 16], [INT] * 3]
    return buffers.alltoallw(world.comms[rank], source, [into[rank], [2] * 3, [0, 8, 16], [INT] * 3])


@pytest.mark.spec("S4.1-8")
@pytest.mark.parametrize(("wrong", "error"), [(1, InvalidCountError), (3, TruncationError)])
def test_another_number_of_items_is_an_error_at_the_receiver(wrong: int, error: type[Exception]) -> None:
    world, into = World(3, hosts=[0] * 3), np.zeros((3, 6), "i4")
    first, *others = exchange(world, into, [[2, 2, 2], [2, 2, 2], [wrong, 2, 2]])
    world.run()
    with pytest.raises(error, match=f"Alltoallw .*rank 2 sent {4 * wrong} bytes where 8 are expected"):
        first.result()
    for other in others:
        other.result()
    assert into[1].tolist() == [2, 3, 2, 3, 2, 3]


def test_a_rank_whose_call_fails_at_once_sends_its_blocks() -> None:
    """The message that is wrong has come before the call."""
    world, into = World(3, hosts=[0] * 3), np.zeros((3, 6), "i4")
    requests = []
    for rank, sent in (2, [1, 2, 2]), (0, [2, 2, 2]), (1, [2, 2, 2]):
        requests.append(call(world, into, rank, sent))
        world.run()
    with pytest.raises(InvalidCountError, match="rank 2 sent 4 bytes"):
        requests[1].result()
    for rank, request in (2, requests[0]), (1, requests[2]):
        assert request.result() is None
        assert into[rank].tolist() == [2 * rank, 2 * rank + 1] * 3


@pytest.mark.skipif(core.form == "pure", reason="a receive into memory without gaps stays")
def test_what_comes_after_an_error_changes_nothing() -> None:
    world, into = World(3, hosts=[0] * 3), np.zeros((3, 6), "i4")
    failed, _ = call(world, into, 0, [2, 2, 2]), call(world, into, 2, [1, 2, 2])
    world.run()
    with pytest.raises(InvalidCountError, match="rank 2 sent 4 bytes"):
        failed.result()
    into[0] = -1
    call(world, into, 1, [2, 2, 2])
    world.run()
    assert into[0].tolist() == [-1] * 6


def test_another_collective_is_an_error() -> None:
    world, into = World(2, hosts=[0] * 2), np.zeros((2, 4), "i4")
    source = np.arange(4, dtype="i4")
    typed = buffers.alltoallw(world.comms[0], [source, [2, 2], [0, 8], [INT] * 2], [into[0], [2, 2], [0, 8], [INT] * 2])
    plain = buffers.alltoallv(world.comms[1], [source, [2, 2]], [into[1], [2, 2]])
    world.run()
    for request, theirs in ((typed, "rank 1 has called Alltoallv"), (plain, "rank 0 has called Alltoallw")):
        with pytest.raises(OtherError, match=theirs):
            request.result()


def test_what_is_wrong_is_refused_also_after_the_same_types_were_right() -> None:
    world = World(2, hosts=[0] * 2)
    comm, ones = world.comms[0], [1, 1]
    right = [np.zeros(2), (ones, [0, 8]), [DOUBLE] * 2]
    world.results(lambda comm: buffers.alltoallw(comm, right, [np.zeros(2), (ones, [0, 8]), [DOUBLE] * 2]))
    loose = DOUBLE.Create_vector(2, 1, 2)
    frozen = np.zeros(2)
    frozen.flags.writeable = False
    for into, error, text in (
        ([np.zeros(2), (ones, [0, 0]), [DOUBLE] * 2], InvalidBufferError, "overlap"),
        ([np.zeros(1), (ones, [0, 8]), [DOUBLE] * 2], InvalidBufferError, "recvbuf"),
        ([frozen, (ones, [0, 8]), [DOUBLE] * 2], InvalidBufferError, "read-only"),
        ([np.zeros(3), ([2, 1], [0, 16]), [DOUBLE] * 2], InvalidCountError, "must be equal"),
        ([right[0], (ones, [0, 8]), [DOUBLE] * 2], InvalidBufferError, "share memory"),
        ([np.zeros(8), (ones, [0, 32]), [loose, DOUBLE]], InvalidTypeError, "committed"),
    ):
        with pytest.raises(error, match=text):
            buffers.alltoallw(comm, right, into)
    comm.release()
    with pytest.raises(InvalidCommError, match="freed"):
        buffers.alltoallw(comm, right, [np.zeros(2), (ones, [0, 8]), [DOUBLE] * 2])


def test_blocks_are_exchanged_in_place() -> None:
    into = np.array([[1, 2], [3, 4]], "i4")
    World(2, hosts=[0] * 2).results(
        lambda comm: buffers.alltoallw(comm, IN_PLACE, [into[comm.rank], [1, 1], [0, 4], [INT] * 2])
    )
    assert into.tolist() == [[1, 3], [2, 4]]


def test_the_call_names_itself_until_it_is_complete() -> None:
    world, into = World(2, hosts=[0] * 2), np.zeros((2, 2))
    each = [[1, 1], [0, 8], [DOUBLE] * 2]
    request = buffers.alltoallw(world.comms[0], [np.zeros(2), *each], [into[0], *each])
    assert not request.done()
    assert request.cancel() is False
    assert repr(request) == "<Alltoallw on WORLD: pending>"
    buffers.alltoallw(world.comms[1], [np.ones(2), *each], [into[1], *each])
    world.run()
    assert request.done()
    assert into.tolist() == [[0, 1], [0, 1]]


@cases(
    "form",
    [
        lambda types: [[1, 1], np.array([0, 4]), types],
        lambda types: [np.array([1, 1]), [0, 4], types],
        lambda types: [1, [0, 4], types],
        lambda types: [(1, 1), (0, 4), types],
        lambda types: [([1, 1], [0, 4]), types],
        lambda types: [[[1, 1], [0, 4]], types],
        lambda types: [[1, 1], [0, 4], tuple(types)],
    ],
)
def test_all_forms_of_a_specification_mean_the_same(form: Callable[[list[Datatype]], list[object]]) -> None:
    into = np.zeros((2, 2), "i4")
    World(2, hosts=[0] * 2).results(
        lambda comm: buffers.alltoallw(
            comm, [np.array([1, 2], "i4") + comm.rank, *form([INT] * 2)], [into[comm.rank], *form([INT] * 2)]
        )
    )
    assert into.tolist() == [[1, 2], [2, 3]]
