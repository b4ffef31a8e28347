"""What Gather, Gatherv, Allgather and Allgatherv send between clients (IMPI 0.0, sections 4.12, 4.13, 4.19, 4.20)."""

from __future__ import annotations

import numpy as np
import pytest

from aiompi.coll import buffers
from aiompi.coll.algorithms.impi import are_short
from aiompi.coll.block import Block
from aiompi.datatype import INT, LONG
from coll.impi.clients import EIGHT, SHAPES, WIDE, ClientWorld, Message, accumulated, bare, external

X = 64  # crossover in bytes, of 16 integers


def blocks(counts):
    """Return the contribution of each rank: integers that identify the rank."""
    return [np.arange(count, dtype="i") + 1000 * rank for rank, count in enumerate(counts)]


def joined(made, ranks):
    return external(np.concatenate([made[rank] for rank in ranks]))


def gather(world, count, root):
    """A Gather; the messages, after the result has been checked."""
    made = blocks([count] * world.size)
    place = np.full(world.size * count, -1, "i")
    messages = world.recorded(
        lambda comm: buffers.gather(comm, made[comm.rank], place if comm.rank == root else None, root)
    )
    assert place.tolist() == np.concatenate(made).tolist()
    return messages


def gatherv(world, counts, root):
    """A Gatherv into places in the reverse order; the messages, after the result has been checked."""
    made, size = blocks(counts), world.size
    displs = accumulated(counts[::-1])[::-1]
    place = np.full(sum(counts), -1, "i")
    spec = [place, (counts, displs), INT]
    messages = world.recorded(
        lambda comm: buffers.gatherv(comm, made[comm.rank], spec if comm.rank == root else None, root)
    )
    assert [place[displs[rank] :][: counts[rank]].tolist() for rank in range(size)] == [m.tolist() for m in made]
    return messages


@pytest.mark.spec("I4.1-2", "I4.1-9", "I4.12-1", "I4.12-3", "I4.12-4", "I4.12-6", "I4.12-8", "I4.12-9")
@pytest.mark.parametrize("shape", [*SHAPES, EIGHT])
@pytest.mark.parametrize("count", [0, 1, 15])
def test_a_short_gather(shape, count):
    """The master of each other client sends one message straight to the root."""
    world = ClientWorld(*shape, xsize=X)
    made = blocks([count] * world.size)
    for root in range(world.size):
        expected = [
            Message(part[0], root, 130, 1, 4 * count * len(part), joined(made, part)) for part in world.others(root)
        ]
        assert sorted(gather(world, count, root)) == sorted(expected)


@pytest.mark.spec("I4.12-1", "I4.12-2")
@pytest.mark.parametrize("shape", [*SHAPES, EIGHT, WIDE])
@pytest.mark.parametrize("count", [16, 17])
def test_a_long_gather(shape, count):
    """From the crossover on, every rank of another client sends its own block; masters take no part."""
    world = ClientWorld(*shape, xsize=X)
    made = blocks([count] * world.size)
    for root in (0, world.size - 1):
        others = [rank for part in world.others(root) for rank in part]
        expected = [Message(rank, root, 130, 1, 4 * count, external(made[rank])) for rank in others]
        assert sorted(gather(world, count, root)) == sorted(expected)


@pytest.mark.spec("I4.12-1", "I2.3.5-28")
def test_the_crossover_counts_bytes_of_external32():
    """255 LONG are 1020 bytes and short, 256 are long; in memory both take more than 1024."""
    for count, sources in ((255, [2]), (256, [2, 3])):
        world = ClientWorld((2, 2))
        place = np.zeros(4 * count, "l")
        messages = world.recorded(
            lambda comm, count=count, place=place: buffers.gather(
                comm, [np.arange(count), LONG], [place, LONG] if comm.rank == 0 else None, 0
            )
        )
        assert sorted(message.source for message in messages) == sources
        assert place.tolist() == 4 * list(range(count))


@pytest.mark.spec("I4.12-5", "I4.12-6", "I4.12-7")
def test_a_gather_along_the_tree():
    """Six clients of two ranks, an INT each, root 5; buffers have the clients in the order of relative numbers."""
    expected = {
        (6, 5): [6, 7], (10, 8): [10, 11], (8, 5): [8, 9, 10, 11], (2, 0): [2, 3], (0, 5): [0, 1, 2, 3],
    }  # fmt: skip
    made = blocks([1] * 12)
    messages = gather(ClientWorld(*WIDE), 1, 5)
    assert {(message.source, message.dest): message.payload for message in messages} == {
        pair: joined(made, ranks) for pair, ranks in expected.items()
    }
    assert len(messages) == len(expected)
    assert {(message.tag, message.context) for message in messages} == {(130, 1)}


@pytest.mark.spec("I4.12-6", "I4.13-4")
@pytest.mark.parametrize("clients", [(1,) * 5, (2, 1, 1, 3, 1, 2, 1), (1,) * 8])
@pytest.mark.parametrize("seed", range(2))
def test_trees_of_any_size_bring_everything_to_any_root(clients, seed):
    for root in range(sum(clients)):
        world = ClientWorld(clients, seed=seed)
        assert len(gather(world, 1, root)) == len(clients) - 1
        assert len(gatherv(world, [rank % 3 + 1 for rank in range(world.size)], root)) == 2 * (len(clients) - 1)


def bound(world, root, t):
    """The Bcast of the bound."""
    payload = external(t)
    return [Message(root, part[0], 120, 1, 4, payload) for part in world.others(root)]


@pytest.mark.spec("I4.13-1", "I4.13-3", "I4.13-4", "I4.13-7", "I1.2.1-3")
@pytest.mark.parametrize("shape", [*SHAPES, EIGHT])
@pytest.mark.parametrize("longest", [3, 16])
def test_a_short_gatherv(shape, longest):
    """The bound, from the root; then each client in one message, empty or not. A length of the crossover is short."""
    world = ClientWorld(*shape, xsize=X)
    for root in range(world.size):
        counts = [0] * world.size
        counts[-1] = 1
        counts[root] = longest
        made = blocks(counts)
        expected = [
            Message(part[0], root, 140, 1, 4 * sum(counts[rank] for rank in part), joined(made, part))
            for part in world.others(root)
        ]
        assert sorted(gatherv(world, counts, root)) == sorted(bound(world, root, 4 * longest) + expected)


@pytest.mark.spec("I4.13-1", "I4.13-2", "I4.13-5")
@pytest.mark.parametrize("shape", [*SHAPES, EIGHT, WIDE])
@pytest.mark.parametrize("longest", [17, 0])
def test_a_long_gatherv(shape, longest):
    """Above the crossover, and without any data, the bound is 0 and every rank sends its own block."""
    world = ClientWorld(*shape, xsize=X)
    root = world.size // 2
    counts = [0] * world.size
    counts[0] = longest
    made = blocks(counts)
    others = [rank for part in world.others(root) for rank in part]
    expected = [Message(rank, root, 140, 1, 4 * counts[rank], external(made[rank])) for rank in others]
    messages = gatherv(world, counts, root)
    assert sorted(message for message in messages if message.tag == 140) == sorted(expected)
    assert {message.payload for message in messages if message.tag == 120} == {external(0)}


@pytest.mark.spec("I4.19-1")
@pytest.mark.parametrize("shape", [*SHAPES, EIGHT])
@pytest.mark.parametrize("count", [0, 4, 16])
def test_an_allgather(shape, count):
    """A Gather to rank 0, whose crossover depends on one contribution, and a Bcast of everything from there."""
    world = ClientWorld(*shape, xsize=X)
    made, places = blocks([count] * world.size), [np.zeros(world.size * count, "i") for _ in range(world.size)]
    messages = world.recorded(lambda comm: buffers.allgather(comm, made[comm.rank], places[comm.rank]))
    whole = joined(made, range(world.size))
    spread = [Message(0, part[0], 120, 1, len(whole), whole) for part in world.others(0)]
    assert sorted(messages) == sorted(gather(ClientWorld(*shape, xsize=X), count, 0) + spread)
    assert all(place.tolist() == np.concatenate(made).tolist() for place in places)


@pytest.mark.spec("I4.20-1", "I4.20-2")
@pytest.mark.parametrize("shape", [*SHAPES, EIGHT])
@pytest.mark.parametrize("longest", [0, 5, 40])
def test_an_allgatherv(shape, longest):
    """A Gatherv to rank 0 and a Bcast of the blocks in rank order; every rank has other places for them."""
    world = ClientWorld(*shape, xsize=X)
    counts = [longest * (rank % 2) for rank in range(world.size)]
    made, places = blocks(counts), [np.full(3 * sum(counts) + 1, -1, "i") for _ in range(world.size)]
    reverse = accumulated(counts[::-1])[::-1]
    displs = [[(1 + rank % 2) * displ for displ in reverse] for rank in range(world.size)]
    messages = world.recorded(
        lambda comm: buffers.allgatherv(comm, made[comm.rank], [places[comm.rank], (counts, displs[comm.rank]), INT])
    )
    whole = joined(made, range(world.size))
    spread = [Message(0, part[0], 120, 1, len(whole), whole) for part in world.others(0)]
    assert sorted(messages) == sorted(gatherv(ClientWorld(*shape, xsize=X), counts, 0) + spread)
    for place, starts in zip(places, displs, strict=True):
        filled = [place[start : start + count].tolist() for start, count in zip(starts, counts, strict=True)]
        assert filled == [block.tolist() for block in made]
        assert (place == -1).sum() == len(place) - sum(counts)


def test_order_of_one_sender():
    """The bound leaves the root in the order of the masters, before anything else."""
    world = ClientWorld((1, 1, 1), xsize=X)
    messages = gatherv(world, [1, 1, 1], 1)
    assert [(message.dest, message.tag) for message in messages if message.source == 1] == [(0, 120), (2, 120)]
    assert bare(messages)[0].tag == 140


@pytest.mark.spec("I4.13-6")
@pytest.mark.parametrize("clients", [(1, 1), (2, 1, 3)])
@pytest.mark.parametrize("seed", range(3))
def test_a_long_gatherv_takes_the_tag_of_gather_too(clients, seed):
    """Other clients may send with the tags of the listing; no receive is left behind."""
    world = ClientWorld(clients, seed=seed, xsize=X)
    counts = [17] * world.size
    made, place = blocks(counts), np.full(sum(counts), -1, "i")

    def other(data):
        async def run(channel):
            assert not await are_short(channel, None, 0)
            await Block(memoryview(bytearray(data))).isend(channel.tagged(130), 0)

        return run

    for _ in range(2):
        requests = [buffers.gatherv(world.comms[0], made[0], [place, (counts, accumulated(counts)), INT], 0)]
        for comm in world.comms[1:]:
            if comm.rank in world.client(0):
                requests.append(buffers.gatherv(comm, made[comm.rank], None, 0))
            else:
                requests.append(comm.start(other(external(made[comm.rank])), "Gatherv"))
        world.run()
        assert all(request.done() for request in requests)
        assert place.tolist() == np.concatenate(made).tolist()
    assert {message.tag for message in world.messages} == {120, 130}
    matcher = world.comms[0].engine.matcher(1)
    assert not [*matcher.posted(), *matcher.unexpected()]
