"""What Scatter and Scatterv send between clients (IMPI 0.0, sections 4.14 and 4.15)."""

from __future__ import annotations

import numpy as np
import pytest

from aiompi.coll import buffers
from aiompi.datatype import INT
from coll.impi.clients import EIGHT, SHAPES, WIDE, ClientWorld, Message, accumulated, by_source, external

X = 64  # crossover in bytes, of 16 integers
ALL_SHAPES = [*SHAPES, EIGHT, WIDE]


def blocks(counts):
    return [np.arange(count, dtype="i") + 1000 * rank for rank, count in enumerate(counts)]


def joined(made, ranks):
    return external(np.concatenate([made[rank] for rank in ranks]))


def scatter(world, count, root):
    made = blocks([count] * world.size)
    places, whole = [np.full(count, -1, "i") for _ in made], np.concatenate(made)
    messages = world.recorded(
        lambda comm: buffers.scatter(comm, whole if comm.rank == root else None, places[comm.rank], root)
    )
    assert [place.tolist() for place in places] == [block.tolist() for block in made]
    return messages


def scatterv(world, counts, root):
    """From blocks that lie in the reverse order."""
    made, displs = blocks(counts), accumulated(counts[::-1])[::-1]
    places, whole = [np.full(count, -1, "i") for count in counts], np.concatenate(made[::-1])
    spec = [whole, (counts, displs), INT]
    messages = world.recorded(
        lambda comm: buffers.scatterv(comm, spec if comm.rank == root else None, places[comm.rank], root)
    )
    assert [place.tolist() for place in places] == [block.tolist() for block in made]
    return messages


@pytest.mark.spec("I4.1-9", "I4.14-1", "I4.14-3", "I4.14-4")
@pytest.mark.parametrize("shape", ALL_SHAPES)
@pytest.mark.parametrize("count", [0, 1, 15])
def test_a_short_scatter(shape, count):
    """The root sends each other client its blocks in one message, in the order of masters; never along a tree."""
    world = ClientWorld(*shape, xsize=X)
    made = blocks([count] * world.size)
    for root in range(world.size):
        assert scatter(world, count, root) == [
            Message(root, part[0], 150, 1, 4 * count * len(part), joined(made, part)) for part in world.others(root)
        ]


@pytest.mark.spec("I4.14-1", "I4.14-2")
@pytest.mark.parametrize("shape", ALL_SHAPES)
@pytest.mark.parametrize("count", [16, 17])
def test_a_long_scatter(shape, count):
    """The root sends to every rank of the other clients, in rank order."""
    world = ClientWorld(*shape, xsize=X)
    made = blocks([count] * world.size)
    for root in range(world.size):
        others = sorted(rank for part in world.others(root) for rank in part)
        expected = [Message(root, rank, 150, 1, 4 * count, external(made[rank])) for rank in others]
        assert scatter(world, count, root) == expected


@pytest.mark.spec("I4.15-1", "I4.15-2", "I4.15-4")
@pytest.mark.parametrize("shape", [*SHAPES, EIGHT])
@pytest.mark.parametrize("longest", [3, 16])
def test_a_short_scatterv(shape, longest):
    """The bound, and a message for each other client, also if it is empty. A length of the crossover is short."""
    world = ClientWorld(*shape, xsize=X)
    for root in range(world.size):
        counts = [0] * world.size
        counts[-1] = 2
        counts[root] = longest
        made = blocks(counts)
        expected = [
            Message(root, part[0], 160, 1, 4 * sum(counts[rank] for rank in part), joined(made, part))
            for part in world.others(root)
        ]
        bound = [Message(root, part[0], 120, 1, 4, external(4 * longest)) for part in world.others(root)]
        assert scatterv(world, counts, root) == bound + expected


@pytest.mark.spec("I4.15-1", "I4.15-3")
@pytest.mark.parametrize("shape", ALL_SHAPES)
@pytest.mark.parametrize("longest", [17, 0])
def test_a_long_scatterv(shape, longest):
    """Above the crossover, and if there is nothing at all, every rank of another client gets a message."""
    world = ClientWorld(*shape, xsize=X)
    for root in (0, world.size - 1):
        counts = [0] * world.size
        counts[0] = longest
        made = blocks(counts)
        others = sorted(rank for part in world.others(root) for rank in part)
        messages = scatterv(world, counts, root)
        assert [message for message in messages if message.tag == 160] == [
            Message(root, rank, 160, 1, 4 * counts[rank], external(made[rank])) for rank in others
        ]
        bound = [message for message in messages if message.tag == 120]
        assert {message.payload for message in bound} == {external(0)}
        assert len(bound) == len(world.clients) - 1


@pytest.mark.spec("I4.15-1", "I4.11-3")
def test_the_bound_takes_the_tree_of_bcast():
    world = ClientWorld(*WIDE, xsize=X)
    messages = scatterv(world, [1] * 12, 5)
    assert by_source([message for message in messages if message.tag == 120]) == {5: [6, 8, 0], 6: [10, 2]}
