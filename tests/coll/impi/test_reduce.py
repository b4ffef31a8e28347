"""What Reduce, Allreduce, Reduce_scatter and Scan send between clients (IMPI 0.0, sections 4.16 to 4.18, 4.21)."""

from __future__ import annotations

import dataclasses
import functools
import itertools

import numpy as np
import pytest

from aiompi.coll import buffers
from aiompi.datatype import DOUBLE, INT, LONG, LONG_INT
from aiompi.op import MAX, MAXLOC, SUM, Op
from coll.impi.clients import EIGHT, SHAPES, WIDE, ClientWorld, Message, external, pairs

ALL_SHAPES = [*SHAPES, EIGHT, WIDE]


def bracket(invec, inoutvec, datatype):
    """An operation that is neither commutative nor associative, so that the result shows order and brackets."""
    left, right = np.frombuffer(invec, "i"), np.frombuffer(inoutvec, "i")
    right[:] = 3 * left - 5 * right + 7


BRACKET = Op.Create(bracket, commute=False)


def bracketed(values):
    """a0 op (a1 op (... op a(n-1)))."""
    return functools.reduce(lambda right, left: 3 * left - 5 * right + 7, reversed(values))


def contributions(world, count):
    return [np.arange(count, dtype="i") + 5**rank for rank in range(world.size)]


def reduce(world, op, root, count=2):
    made, place = contributions(world, count), np.full(count, -1, "i")
    messages = world.recorded(
        lambda comm: buffers.reduce(comm, made[comm.rank], place if comm.rank == root else None, op, root)
    )
    return messages, place


@pytest.mark.spec("I4.3-2", "I4.16-1", "I4.16-2", "I4.16-3")
@pytest.mark.parametrize("shape", [*SHAPES, EIGHT])
@pytest.mark.parametrize("count", [0, 1, 500])
def test_a_commutative_reduce(shape, count):
    """Each other client sends what it has combined, and the root combines every one of them."""
    world = ClientWorld(*shape)
    made = contributions(world, count)
    for root in range(world.size):
        messages, place = reduce(world, SUM, root, count)
        assert place.tolist() == sum(made).tolist()
        expected = [
            Message(part[0], root, 190, 1, 4 * count, external(sum(made[rank] for rank in part)))
            for part in world.others(root)
        ]
        assert sorted(messages) == sorted(expected)


@pytest.mark.spec("I4.16-4", "I4.16-5")
def test_a_reduce_along_the_tree():
    """Of six clients of two ranks, root 5."""
    world = ClientWorld(*WIDE)
    made = contributions(world, 2)[: world.size]
    messages, place = reduce(world, MAX, 5)
    assert pairs(messages) == [(0, 5), (2, 0), (6, 5), (8, 5), (10, 8)]
    assert place.tolist() == np.max(made, axis=0).tolist()
    payloads = {(message.source, message.dest): message.payload for message in messages}
    assert payloads[8, 5] == external(np.max(made[8:], axis=0))
    assert payloads[0, 5] == external(np.max(made[:4], axis=0))
    assert {(message.tag, message.context) for message in messages} == {(190, 1)}


@pytest.mark.spec("I4.16-6", "I4.16-7", "I4.16-8")
@pytest.mark.parametrize("shape", ALL_SHAPES)
def test_an_ordered_reduce(shape):
    """Every rank of another client sends what it has; the root begins with the last rank."""
    world = ClientWorld(*shape)
    made = [np.array([rank + 1, 2 * rank], "i") for rank in range(world.size)]
    for root in range(world.size):
        place = np.zeros(2, "i")
        messages = world.recorded(
            lambda comm, root=root, place=place: buffers.reduce(
                comm, made[comm.rank], place if comm.rank == root else None, BRACKET, root
            )
        )
        others = [rank for part in world.others(root) for rank in part]
        assert sorted(messages) == sorted(Message(rank, root, 190, 1, 8, external(made[rank])) for rank in others)
        assert place.tolist() == np.int64(bracketed(np.array(made))).astype("i").tolist()


@pytest.mark.spec("I4.16-9")
@pytest.mark.parametrize("clients", [(2, 1, 3), (1,) * 6])
def test_sums_are_the_same_in_whatever_order_messages_arrive(clients):
    """Fractions whose sum depends on the order in which they are added."""
    results = set()
    for seed in range(8):
        world = ClientWorld(clients, seed=seed)
        place = np.zeros(1)
        world.recorded(
            lambda comm, place=place: buffers.reduce(
                comm, np.array([0.1 * 3.0**comm.rank]), place if comm.rank == 1 else None, SUM, 1
            )
        )
        results.add(place[0])
    assert len(results) == 1


def noted_combinations(world, root):
    """Return the operands of a function that claims to commute; powers of 5 identify the contributions."""
    seen = []

    def note(invec, inoutvec, datatype):
        left, right = np.frombuffer(invec, "i"), np.frombuffer(inoutvec, "i")
        seen.append((int(left[0]), int(right[0])))
        right[:] += left

    reduce(world, Op.Create(note, commute=True), root, 1)
    return seen


@pytest.mark.spec("I4.16-3")
def test_what_was_received_comes_first_in_a_combination():
    """The root begins with its own client, and goes on with the masters in their order."""
    assert noted_combinations(ClientWorld((1, 1, 1)), 1) == [(1, 5), (25, 6)]


@pytest.mark.spec("I4.16-4")
def test_the_child_with_the_smallest_bit_is_combined_first():
    """Root 0 of five clients takes 1, then 2 with 3, then 4; 2 has taken 3."""
    seen = noted_combinations(ClientWorld((1,) * 5), 0)
    assert [step for step in seen if step[1] in (1, 6, 156)] == [(5, 1), (150, 6), (625, 156)]
    assert (125, 25) in seen


@pytest.mark.spec("I4.16-10")
def test_pairs_cross_clients():
    """LONG_INT takes 8 bytes there, 16 in memory."""
    world = ClientWorld((1, 2))
    dtype = np.dtype([("value", "l"), ("index", "i")], align=True)
    values = [np.array([(rank % 2 - 2, rank)], dtype) for rank in range(3)]
    place = np.zeros(1, dtype)
    messages = world.recorded(
        lambda comm: buffers.reduce(
            comm, [values[comm.rank], 1, LONG_INT], [place, 1, LONG_INT] if comm.rank == 0 else None, MAXLOC, 0
        )
    )
    assert messages == [Message(1, 0, 190, 1, 8, bytes.fromhex("ffffffff 00000001"))]
    assert place.tolist() == [(-1, 1)]


@pytest.mark.spec("I4.21-1")
@pytest.mark.parametrize("shape", ALL_SHAPES)
@pytest.mark.parametrize("op", [SUM, BRACKET])
@pytest.mark.parametrize("count", [0, 1, 300])
def test_an_allreduce(shape, op, count):
    world = ClientWorld(*shape)
    made = [np.arange(count, dtype="i") % 3 + rank for rank in range(world.size)]
    places = [np.zeros(count, "i") for _ in made]
    messages = world.recorded(lambda comm: buffers.allreduce(comm, made[comm.rank], places[comm.rank], op))
    total = sum(made) if op is SUM else np.int64(bracketed(np.array(made))).astype("i") if count else made[0]
    assert all(place.tolist() == total.tolist() for place in places)
    reduced, _ = reduce(ClientWorld(*shape), op, 0, count)
    assert pairs([m for m in messages if m.tag == 190]) == pairs(reduced)
    spread = [message for message in messages if message.tag == 120]
    assert {message.payload for message in spread} == {external(total)}
    assert len(spread) == len(world.clients) - 1
    assert {message.tag for message in messages} == {190, 120}


@pytest.mark.spec("I4.17-1", "I4.17-2", "I4.17-3")
@pytest.mark.parametrize("shape", [*SHAPES, EIGHT])
@pytest.mark.parametrize("op", [SUM, BRACKET])
@pytest.mark.parametrize("counts", ["equal", "different", "none", "long"])
def test_a_reduce_scatter(shape, op, counts):
    """A Reduce of everything to rank 0, also if its own segment is empty, and a Scatterv from there."""
    world = ClientWorld(*shape)
    size = world.size
    numbers = {
        "equal": [2] * size,
        "different": list(range(size)),
        "none": [0] * size,
        "long": [300] + [1] * (size - 1),
    }
    segment = numbers[counts]
    made = [np.arange(sum(segment), dtype="i") % 5 + rank for rank in range(size)]
    places = [np.zeros(count, "i") for count in segment]
    messages = world.recorded(
        lambda comm: buffers.reduce_scatter(comm, made[comm.rank], places[comm.rank], segment, op)
    )
    total = sum(made) if op is SUM else np.int64(bracketed(np.array(made))).astype("i")
    assert np.concatenate(places).tolist() == total.tolist()
    up = [message for message in messages if message.tag == 190]
    assert {(message.dest, message.nbytes) for message in up} == {(0, 4 * sum(segment))}
    longest = 4 * max(segment)
    assert {m.payload for m in messages if m.tag == 120} == {external(longest if longest <= 1024 else 0)}
    assert sorted(m.payload for m in messages if m.tag == 160) == sorted(scattered(world, segment, total))


def scattered(world, segment, total):
    """The messages of the Scatterv."""
    parts = [external(total[start:stop]) for start, stop in itertools.pairwise(np.cumsum([0, *segment]))]
    short = 0 < 4 * max(segment) <= 1024
    clients = world.others(0)
    return [b"".join(parts[r] for r in part) for part in clients] if short else [parts[r] for p in clients for r in p]


@pytest.mark.spec("I4.18-1", "I4.18-2", "I4.18-3")
@pytest.mark.parametrize("shape", ALL_SHAPES)
@pytest.mark.parametrize("op", [SUM, BRACKET])
def test_a_scan(shape, op):
    """From rank to rank, whatever the clients; those that alternate send the most."""
    world = ClientWorld(*shape)
    made = [np.array([rank + 1, 2 * rank], "i") for rank in range(world.size)]
    places = [np.zeros(2, "i") for _ in made]
    messages = world.recorded(lambda comm: buffers.scan(comm, made[comm.rank], places[comm.rank], op))
    step = (lambda a, b: a + b) if op is SUM else (lambda a, b: 3 * a - 5 * b + 7)
    expected = [made[0]]
    for own in made[1:]:
        expected.append(step(expected[-1], own))
    assert [place.tolist() for place in places] == [result.tolist() for result in expected]
    steps = [rank for rank in range(world.size - 1) if rank + 1 not in world.client(rank)]
    assert messages == [Message(rank, rank + 1, 200, 1, 8, external(expected[rank])) for rank in steps]


@pytest.mark.parametrize("shape", ALL_SHAPES)
def test_what_impi_does_not_know(shape):
    """Exscan and Reduce_scatter_block give the right results, in external32, on tags that no collective of IMPI has."""
    world = ClientWorld(*shape)
    size = world.size
    made, places = [np.array([3**rank], "l") for rank in range(size)], [np.full(1, -1, "l") for _ in range(size)]
    messages = world.recorded(
        lambda comm: buffers.exscan(comm, [made[comm.rank], LONG], [places[comm.rank], LONG], SUM)
    )
    assert [place[0] for place in places] == [-1, *np.cumsum(made)[:-1]]
    assert {(message.nbytes, message.tag > 230, message.context) for message in messages} == {(4, True, 1)}
    wide, places = [np.arange(2 * size) + 1.5 for _ in made], [np.zeros(2) for _ in made]
    world.recorded(
        lambda comm: buffers.reduce_scatter_block(comm, [wide[comm.rank], DOUBLE], [places[comm.rank], DOUBLE], SUM)
    )
    assert np.concatenate(places).tolist() == (size * wide[0]).tolist()


def test_items_with_gaps():
    """A function of the user gets them as they lie in memory."""
    gaps = INT.Create_vector(2, 1, 2).Create_resized(0, 16).Commit()

    def add(invec, inoutvec, datatype):
        left, right = np.frombuffer(invec, "i"), np.frombuffer(inoutvec, "i")
        right[::2] += left[::2]

    world = ClientWorld((2, 1, 3))
    made = [np.arange(8, dtype="i") * 10**rank for rank in range(6)]
    place = np.full(8, -1, "i")
    op = Op.Create(add, commute=True)
    messages = world.recorded(
        lambda comm: buffers.reduce(
            comm, [made[comm.rank], 2, gaps], [place, 2, gaps] if comm.rank == 3 else None, op, 3
        )
    )
    assert {message.nbytes for message in messages} == {16}
    assert place.tolist() == [0, -1, 222222, -1, 444444, -1, 666666, -1]


# Clients of historic LAM/MPI.


def world_with_a_historic_client(setting):
    """Return a world in which client 1 (ranks 1 and 2) and the others list each other in a setting."""
    world = ClientWorld((1, 2, 1), **{setting: ("1",)})
    for rank in (1, 2):
        engine = world.comms[rank].engine
        engine.settings = dataclasses.replace(engine.settings, **{setting: ("0", "2")})
    return world


@pytest.mark.spec("I4.16-3")
@pytest.mark.parametrize("op", [SUM, BRACKET])
@pytest.mark.parametrize("root", range(4))
def test_reduce_on_the_context_of_users(op, root):
    """Only the messages between these clients and others, for every root; a Bcast stays where it is."""
    world = world_with_a_historic_client("impi_reduce_point_to_point")
    made, places = [np.array([rank + 1], "i") for rank in range(4)], [np.zeros(1, "i") for _ in range(4)]
    messages = world.recorded(
        lambda comm: buffers.reduce(comm, made[comm.rank], places[root] if comm.rank == root else None, op, root)
    )
    historic = {1, 2}
    assert messages
    for message in messages:
        assert message.context == int(historic.isdisjoint({message.source, message.dest}))
    assert places[root][0] == (10 if op is SUM else bracketed([1, 2, 3, 4]))
    messages = world.recorded(lambda comm: buffers.bcast(comm, made[comm.rank], root))
    assert {message.context for message in messages} == {1}


@pytest.mark.parametrize("root", range(4))
def test_items_in_native_order(root):
    """With these clients items travel as they lie in memory, in both directions, and with the others in external32."""
    world = world_with_a_historic_client("impi_native_order")
    made = [np.array([rank + 1, -1], "l") for rank in range(4)]
    place = np.zeros(2, "l")
    messages = world.recorded(
        lambda comm: buffers.reduce(
            comm, [made[comm.rank], LONG], [place, LONG] if comm.rank == root else None, SUM, root
        )
    )
    assert place.tolist() == [10, -4]
    messages += world.recorded(lambda comm: buffers.bcast(comm, [made[comm.rank], LONG], root))
    assert [array.tolist() for array in made] == [[root + 1, -1]] * 4
    for message in messages:
        native = not {1, 2}.isdisjoint({message.source, message.dest})
        assert message.nbytes == (2 * np.dtype("l").itemsize if native else 8)
        if message.tag == 120:
            assert message.payload == (np.array([root + 1, -1], "l").tobytes() if native else external([root + 1, -1]))
