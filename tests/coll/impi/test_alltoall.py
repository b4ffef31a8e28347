"""What Alltoall and Alltoallv send between clients (IMPI 0.0, sections 4.22 and 4.23)."""

from __future__ import annotations

import numpy as np
import pytest

from aiompi.coll import buffers
from aiompi.datatype import BYTE, INT
from coll.impi.clients import EIGHT, SHAPES, WIDE, ClientWorld, Message, accumulated, bare, by_source, external

X = 64  # crossover in bytes, of 16 integers
ALL_SHAPES = [*SHAPES, EIGHT, WIDE]


def block(sender, receiver, count):
    return np.arange(count, dtype="i") + 100 * sender + 10000 * receiver


def alltoall(world, count):
    size = world.size
    made = [np.concatenate([block(rank, other, count) for other in range(size)]) for rank in range(size)]
    places = [np.full(size * count, -1, "i") for _ in range(size)]
    messages = world.recorded(lambda comm: buffers.alltoall(comm, made[comm.rank], places[comm.rank]))
    expected = [np.concatenate([block(other, rank, count) for other in range(size)]) for rank in range(size)]
    assert [place.tolist() for place in places] == [numbers.tolist() for numbers in expected]
    return messages


def directly(world, counts, tag):
    """A message from every rank to every rank of another client."""
    return [
        Message(rank, other, tag, 1, 4 * counts[rank][other], external(block(rank, other, counts[rank][other])))
        for rank in range(world.size)
        for part in world.others(rank)
        for other in part
    ]


@pytest.mark.spec("I4.1-9", "I4.22-1", "I4.22-3", "I4.22-4")
@pytest.mark.parametrize("shape", ALL_SHAPES)
@pytest.mark.parametrize("count", [0, 1, 15])
def test_a_short_alltoall(shape, count):
    """One message for each ordered pair of masters, the sender of its blocks varying slowest."""
    world = ClientWorld(*shape, xsize=X)
    messages = alltoall(world, count)
    expected = []
    for part in world.clients:
        for other in world.others(part[0]):
            payload = b"".join(external(block(sender, receiver, count)) for sender in part for receiver in other)
            expected.append(Message(part[0], other[0], 170, 1, 4 * count * len(part) * len(other), payload))
    assert sorted(messages) == sorted(expected)
    order = by_source(messages)
    assert all(dests == sorted(dests) for dests in order.values()), "to the other masters in their order"


@pytest.mark.spec("I4.22-5")
def test_the_example():
    """A = 0 1 4, B = 2 3 5, C = 6 7, blocks of one INT."""
    messages = {(message.source, message.dest): message for message in alltoall(ClientWorld(*EIGHT), 1)}
    assert {pair: message.nbytes for pair, message in messages.items()} == {
        (0, 2): 36, (0, 6): 24, (2, 0): 36, (2, 6): 24, (6, 0): 24, (6, 2): 24,
    }  # fmt: skip
    path = [(0, 2), (0, 3), (0, 5), (1, 2), (1, 3), (1, 5), (4, 2), (4, 3), (4, 5)]
    assert messages[0, 2].payload == b"".join(external(block(*step, 1)) for step in path)


@pytest.mark.spec("I4.22-1", "I4.22-2")
@pytest.mark.parametrize("shape", ALL_SHAPES)
@pytest.mark.parametrize("count", [16, 17])
def test_a_long_alltoall(shape, count):
    world = ClientWorld(*shape, xsize=X)
    assert sorted(alltoall(world, count)) == sorted(directly(world, [[count] * world.size] * world.size, 170))


@pytest.mark.spec("I4.1-10", "I4.23-1")
@pytest.mark.parametrize("shape", ALL_SHAPES)
@pytest.mark.parametrize("most", [0, 2, 20])
@pytest.mark.parametrize("typed", [False, True])
def test_an_alltoallv(shape, most, typed):
    """Always straight, also what is empty; Alltoallw, which IMPI does not know, is the same."""
    world = ClientWorld(*shape, xsize=X)
    size = world.size
    counts = [[most * ((rank + other) % 3) // 2 for other in range(size)] for rank in range(size)]
    received = [[counts[other][rank] for other in range(size)] for rank in range(size)]
    made = [np.concatenate([block(rank, other, counts[rank][other]) for other in range(size)]) for rank in range(size)]
    places = [np.full(sum(numbers), -1, "i") for numbers in received]

    def spec(memory, numbers):
        if typed:
            return [memory, (numbers, [4 * displ for displ in accumulated(numbers)]), [INT] * size]
        return [memory, (numbers, accumulated(numbers)), INT]

    run = buffers.alltoallw if typed else buffers.alltoallv
    messages = world.recorded(
        lambda comm: run(comm, spec(made[comm.rank], counts[comm.rank]), spec(places[comm.rank], received[comm.rank]))
    )
    assert sorted(messages) == sorted(directly(world, counts, 180))
    for rank, place in enumerate(places):
        expected = [block(other, rank, counts[other][rank]) for other in range(size)]
        assert place.tolist() == np.concatenate(expected).tolist()


@pytest.mark.spec("I4.25-2", "I4.3-2")
def test_user_messages_with_tags_of_collectives_are_apart():
    """A receive of anything from anybody, posted before, gets the message that was sent for it."""
    world = ClientWorld((2, 1))
    receives = [comm.irecv(None, -1, -1, bytes) for comm in world.comms]
    alltoall(world, 1)
    assert not any(receive.done() for receive in receives)
    for comm in world.comms:
        comm.isend((b"user",), 4, (comm.rank + 1) % 3, 170)
    world.run()
    assert [receive.result() for receive in receives] == [b"user"] * 3
    assert {message.context for message in world.messages if message.payload == b"user"} == {0}


def test_bytes_travel_as_they_are():
    world = ClientWorld((1, 1))
    made, places = [b"ab", b"cd"], [bytearray(2), bytearray(2)]
    messages = world.recorded(lambda comm: buffers.alltoall(comm, [made[comm.rank], BYTE], [places[comm.rank], BYTE]))
    assert [bytes(place) for place in places] == [b"ac", b"bd"]
    assert bare(messages) == [Message(0, 1, 170, 1, 1), Message(1, 0, 170, 1, 1)]
