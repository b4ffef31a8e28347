"""What Barrier and Bcast send between clients (IMPI 0.0, sections 4.10 and 4.11)."""

from __future__ import annotations

import numpy as np
import pytest

from aiompi.coll import buffers
from aiompi.datatype import DOUBLE, INT, LONG
from coll.impi.clients import EIGHT, SHAPES, WIDE, ClientWorld, Message, bare, by_source, external, pairs
from support.cases import cases


@pytest.mark.spec("I4.1-2", "I4.1-10", "I4.3-2", "I4.10-1", "I4.10-2")
@pytest.mark.parametrize("shape", [*SHAPES, EIGHT])
@pytest.mark.parametrize("context_id", [0, 6])
def test_a_linear_barrier(shape, context_id):
    world = ClientWorld(*shape, context_id=context_id)
    masters = [part[0] for part in world.clients[1:]]
    messages = world.recorded(buffers.barrier)
    up = [Message(master, 0, 110, context_id + 1, 0) for master in masters]
    down = [Message(0, master, 110, context_id + 1, 0) for master in masters]
    assert bare(messages) == sorted(up + down)
    assert [message for message in messages if message.source == 0] == down, "in the order of the masters"
    assert messages.index(down[0]) == len(up), "after all have arrived"


@pytest.mark.spec("I4.10-3", "I4.10-4")
def test_a_barrier_along_the_tree():
    """Children follow from the master numbers: from the ranks, as printed, rank 0 would not answer all of them."""
    world = ClientWorld(*WIDE)
    messages = world.recorded(buffers.barrier)
    up, down = messages[:5], messages[5:]
    assert pairs(up) == [(2, 0), (4, 0), (6, 2), (8, 0), (10, 2)]
    assert by_source(down) == {0: [2, 4, 8], 2: [6, 10]}
    assert {(message.tag, message.context, message.nbytes) for message in messages} == {(110, 1, 0)}


@pytest.mark.spec("I4.10-3")
def test_the_tree_reports_from_the_largest_child_on():
    """Rank 0 of eight waits for rank 4 first: only then does it take what the others have sent."""
    world = ClientWorld((1,) * 8)
    requests = world.start(buffers.barrier, [0])
    (receive,) = world._engines[0].contexts[1].posted()
    assert (receive.want_source, receive.want_tag) == (4, 110)
    requests += world.start(buffers.barrier, range(1, 8))
    world.run()
    assert all(request.done() for request in requests)


@pytest.mark.spec("I2.3.5-28")
@cases(("maxlinear", "linear"), [(3, False), (4, True), (0, False), (5, True)])
def test_as_many_masters_as_the_limit_are_linear(maxlinear, linear):
    world = ClientWorld((1,) * 4, maxlinear=maxlinear)
    sources = {message.source for message in world.recorded(buffers.barrier) if message.dest == 1}
    assert sources == ({0} if linear else {0, 3}), "3 hangs on 1 in the tree"


@pytest.mark.spec("I4.10-5", "I4.24-2")
@pytest.mark.parametrize("clients", [(1, 1), (2, 1, 3), (1,) * 6])
@pytest.mark.parametrize("seed", range(3))
def test_nobody_leaves_before_all_have_entered(clients, seed):
    for late in range(sum(clients)):
        world = ClientWorld(clients, seed=seed)
        requests = world.start(buffers.barrier, [rank for rank in range(world.size) if rank != late])
        world.run()
        assert not any(request.done() for request in requests)
        requests += world.start(buffers.barrier, [late])
        world.run()
        assert all(request.done() for request in requests)


@pytest.mark.spec("I4.1-2", "I4.11-1", "I4.11-2", "I4.11-5", "I4.1-10")
@pytest.mark.parametrize("shape", [*SHAPES, EIGHT])
@pytest.mark.parametrize("count", [0, 1, 2000])
def test_a_linear_bcast(shape, count):
    """The root sends to the other masters in their order, whatever the length; its own master gets nothing."""
    world = ClientWorld(*shape)
    for root in range(world.size):
        made = [np.arange(count, dtype="i") if rank == root else np.zeros(count, "i") for rank in range(world.size)]
        messages = world.recorded(lambda comm, made=made, root=root: buffers.bcast(comm, made[comm.rank], root))
        payload = external(range(count))
        assert messages == [Message(root, part[0], 120, 1, 4 * count, payload) for part in world.others(root)]


@pytest.mark.spec("I4.11-3", "I4.11-4")
def test_a_bcast_along_the_tree():
    """Of six clients of two ranks, from rank 5, which is no master."""
    world = ClientWorld(*WIDE)
    made = [np.full(1, rank, "i") for rank in range(world.size)]
    messages = world.recorded(lambda comm: buffers.bcast(comm, made[comm.rank], 5))
    assert by_source(messages) == {5: [6, 8, 0], 6: [10, 2]}
    assert {message[2:] for message in messages} == {(120, 1, 4, external(5))}
    assert [array[0] for array in made] == [5] * 12


@pytest.mark.spec("I1.2.2-1", "I1.2.2-2", "I4.11-1")
def test_types_are_those_of_the_call():
    """In external32 and without gaps; the receiver may describe them otherwise. A LONG takes 4 bytes."""
    world = ClientWorld((1, 1))
    gaps = LONG.Create_vector(3, 1, 2).Commit()
    made = [np.array([1, 0, -2, 0, 3, 0], "l"), np.zeros(3, "l")]
    specs = [[made[0], 1, gaps], [made[1], 3, LONG]]
    (message,) = world.recorded(lambda comm: buffers.bcast(comm, specs[comm.rank], 0))
    assert message.payload == bytes.fromhex("00000001 fffffffe 00000003")
    assert made[1].tolist() == [1, -2, 3]
    mixed = INT.Create_struct([1, 1], [0, 8], [INT, DOUBLE]).Commit()
    memory = [np.array([(1, 0, 1.0)], "i4, i4, f8"), np.zeros(1, "i4, i4, f8")]
    (message,) = world.recorded(lambda comm: buffers.bcast(comm, [memory[comm.rank], 1, mixed], 0))
    assert message.payload == bytes.fromhex("00000001 3ff0000000000000")
    assert memory[1].tolist() == [(1, 0, 1.0)]
