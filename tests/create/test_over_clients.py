"""What the constructors of communicators send between IMPI clients (IMPI 0.0, sections 4.3 to 4.9)."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from aiompi.coll import buffers, neighborhood, objects
from aiompi.coll.block import Block
from aiompi.comm import Communicator, Group, derive
from aiompi.comm.attribute import COMMUNICATOR_KEYVALS
from aiompi.constants import IMPI_CLIENT_COLOR, IMPI_HOST_COLOR, UNDEFINED
from aiompi.create import (
    cart,
    cart_sub,
    create,
    create_group,
    create_intercomm,
    dist_graph_adjacent,
    dup,
    free,
    merge,
    split,
    split_type,
)
from aiompi.create.impi import ImpiOneGroup, split_table
from aiompi.engine import Request
from aiompi.errors import (
    InvalidArgumentError,
    InvalidCommError,
    InvalidCountError,
    InvalidTagError,
    OtherError,
    RemoteProtocolError,
)
from coll.impi.clients import EIGHT, SHAPES, WIDE, ClientWorld, Message, bare, external, pairs
from support.cases import cases

ALL_SHAPES = [*SHAPES, EIGHT, WIDE]


def uint8(*numbers):
    """IMPI_UINT8, 8 bytes each."""
    return struct.pack(f">{len(numbers)}Q", *numbers)


def reached(world, context, maximum):
    """The Allreduce of a maximum of identifiers that are all equal, up to four masters."""
    up = [Message(part[0], 0, 190, context, 8, uint8(maximum)) for part in world.others(0)]
    return up, [Message(0, part[0], 120, context, 8, uint8(maximum)) for part in world.others(0)]


class Numbers:
    """A codec of numbers."""

    def dumps(self, obj):
        return (b"%d" % obj,), len(b"%d" % obj)

    def loads(self, data):
        return int(bytes(data))


def talk(world, comms):
    """All members send each other their ranks."""
    requests = [objects.allgather(comm, Numbers(), comm.engine.rank) for comm in comms]
    world.run()
    assert all(request.result() == list(comm.targets) for comm, request in zip(comms, requests, strict=True))


@pytest.mark.spec("I4.3-1", "I4.3-4", "I4.3-6", "I4.6-1")
@pytest.mark.parametrize("shape", [*SHAPES, EIGHT])
def test_a_dup(shape):
    """An Allreduce of 8 bytes and nothing else; the first pair is 2 and 3, the next 4 and 5."""
    world = ClientWorld(*shape)
    for pair in (2, 4):
        made = []
        messages = world.recorded(lambda comm, made=made: keep(made, dup(comm)))
        up, down = reached(world, 1, pair - 1)
        assert sorted(messages) == sorted(up + down)
        comms = [request.result() for request in made]
        assert {comm.context_id for comm in comms} == {pair}
        assert {comm.ids.highest for comm in world.comms} == {pair + 1}
        assert [comm.group for comm in comms] == [comm.group for comm in world.comms]
        talk(world, comms)
        assert {message.context for message in world.messages} == {1, pair + 1}


def keep(made, request):
    made.append(request)
    return request


@pytest.mark.spec("I4.6-1")
def test_a_dup_along_the_trees():
    world = ClientWorld(*WIDE)
    messages = world.recorded(dup)
    assert pairs([message for message in messages if message.tag == 190]) == [(2, 0), (4, 0), (6, 4), (8, 0), (10, 8)]
    assert pairs([message for message in messages if message.tag == 120]) == [(0, 2), (0, 4), (0, 8), (2, 6), (2, 10)]
    assert {message.payload for message in messages} == {uint8(1)}


@pytest.mark.spec("I1.2.1-4", "I4.3-4", "I4.3-5", "I4.3-8")
@pytest.mark.parametrize(("presets", "pair"), [((7, 1, 4), 8), ((1, 8, 1), 10), ((3, 2**63 + 1, 2**40), 2**63 + 2)])
def test_the_maximum_over_all_processes(presets, pair):
    """Even ones are raised first; they are unsigned; all take note."""
    world = ClientWorld((1, 1, 1))
    for comm, highest in zip(world.comms, presets, strict=True):
        comm.ids.highest = highest
    made = world.results(dup)
    assert {comm.context_id for comm in made} == {pair}
    assert {comm.ids.highest for comm in world.comms} == {pair + 1}
    sent = [message.payload for message in world.messages if message.tag == 190]
    assert sent == [uint8(highest | 1) for highest in presets[1:]]


@pytest.mark.spec("I4.3-7")
@pytest.mark.parametrize("constructor", [dup, lambda comm: split(comm, 0, 0), lambda comm: create(comm, comm.group)])
def test_the_last_identifiers(constructor):
    world = ClientWorld((2, 1))
    world.comms[1].ids.highest = 2**64 - 19
    assert {comm.context_id for comm in world.results(constructor)} == {2**64 - 18}
    requests = world.start(constructor)
    world.run()
    for request in requests:
        error = request.exception()
        assert isinstance(error, OtherError)
        assert "out of context identifiers" in str(error)
    assert {comm.ids.highest for comm in world.comms} == {2**64 - 17}


@pytest.mark.spec("I4.4-1", "I4.4-2", "I4.3-11")
@cases("shape", [*SHAPES, EIGHT])
def test_a_create(shape):
    world = ClientWorld(*shape)
    part = Group.of([world.order[-1], world.order[0]])
    requests = []
    messages = world.recorded(lambda comm: keep(requests, create(comm, part)))
    up, down = reached(world, 1, 1)
    assert sorted(messages) == sorted(up + down)
    made = [request.result() for request in requests]
    assert made[1:-1] == [None] * (world.size - 2)
    assert {comm.ids.highest for comm in world.comms} == {3}, "also those outside"
    members = [made[-1], made[0]]
    assert [(comm.rank, comm.context_id) for comm in members] == [(0, 2), (1, 2)]
    talk(world, members)


@pytest.mark.spec("I4.3-11", "I4.7-1", "I4.7-2", "I4.7-3", "I4.7-5", "I4.7-6")
@cases("shape", [*SHAPES, EIGHT])
def test_a_split(shape):
    """An Allreduce, and an Allgather of three INT of each process; keys are signed, equal ones keep the order."""
    world = ClientWorld(*shape)
    size = world.size
    colors = [UNDEFINED if rank == size - 1 else rank % 2 for rank in range(size)]
    keys = [-(rank // 2) if rank % 4 < 2 else 5 for rank in range(size)]
    requests = []
    messages = world.recorded(lambda comm: keep(requests, split(comm, colors[comm.rank], keys[comm.rank])))
    rows = [external([color, key, rank]) for rank, (color, key) in enumerate(zip(colors, keys, strict=True))]
    up, down = reached(world, 1, 1)
    table = [Message(p[0], 0, 130, 1, 12 * len(p), b"".join(rows[rank] for rank in p)) for p in world.others(0)]
    spread = [Message(0, part[0], 120, 1, 12 * size, b"".join(rows)) for part in world.others(0)]
    assert sorted(messages) == sorted(up + down + table + spread)
    made = [request.result() for request in requests]
    assert made[-1] is None
    assert {comm.ids.highest for comm in world.comms} == {3}
    for color in (0, 1):
        ranks = sorted((rank for rank in range(size) if colors[rank] == color), key=lambda rank: (keys[rank], rank))
        comms = [made[rank] for rank in ranks]
        assert [comm.rank for comm in comms] == list(range(len(ranks)))
        assert {comm.context_id for comm in comms} <= {2}, "all parts have the same"
        assert all(comm.group.members == tuple(world.order[rank] for rank in ranks) for comm in comms)
        talk(world, comms)


@pytest.mark.spec("I4.7-4")
@pytest.mark.parametrize("undefined", [-1, UNDEFINED, -(2**31)])
@pytest.mark.parametrize("color", [0, UNDEFINED])
def test_any_negative_colour_of_another_implementation_means_undefined(undefined, color):
    """Rank 1 represents an implementation with another number for UNDEFINED; aiompi sends its own."""
    world = ClientWorld((1, 1))

    async def other(channel):
        await ImpiOneGroup(channel).maximum(1)
        return await split_table(channel, undefined, 0)

    requests = [split(world.comms[0], color, 0), world.comms[1].start(other, "Comm_split")]
    world.run()
    comm, rows = (request.result() for request in requests)
    assert rows == [(color, 0, 0), (undefined, 0, 1)]
    assert (comm is None) if color < 0 else (comm.group.members == (0,))


def test_colours_and_keys_must_fit_where_they_travel():
    world = ClientWorld((1, 1))
    for color, key in ((2**31, 0), (0, 2**31), (0, -(2**31) - 1)):
        with pytest.raises(InvalidArgumentError, match="must fit 32 bits"):
            split(world.comms[0], color, key)
    assert world.messages == []


@pytest.mark.spec("I2.5-6", "I1.1-5")
@pytest.mark.parametrize("key", [IMPI_CLIENT_COLOR, IMPI_HOST_COLOR])
def test_parts_of_clients_are_native(key):
    """No message leaves a client."""
    world = ClientWorld((2, 1, 3), (3, 0, 2, 4, 1, 5))

    class Face:
        def __init__(self, core):
            self._core = core

    colors = [COMMUNICATOR_KEYVALS.predefined[key](Face(comm)) for comm in world.comms]
    parts = world.results(lambda comm: split(comm, colors[comm.rank], 0))
    assert all(comm.native for comm in parts)
    assert {comm.group.members for comm in parts} == {(0, 1), (2,), (3, 4, 5)}
    world.messages.clear()
    copies = [dup(comm) for comm in parts]
    world.run()
    inner = [request.result() for request in copies]
    talk(world, [comm for comm in inner if comm.size == 3])
    assert world.messages == []


@pytest.mark.spec("I4.3-12")
def test_communicators_of_one_client_stay_outside_the_numbering():
    world = ClientWorld((2, 1))
    parts = world.results(lambda comm: split(comm, int(comm.rank == 2), 0))
    assert {comm.context_id for comm in parts} == {2}
    inner = [dup(comm) for comm in parts[:2]]
    world.run()
    assert {request.result().context_id for request in inner} == {2**63}
    assert {comm.context_id for comm in world.results(dup)} == {4}, "as if there had been none"


def test_a_job_of_one_client_has_the_common_numbering():
    world = ClientWorld((3,))
    assert {comm.context_id for comm in world.results(dup)} == {2}


@pytest.mark.spec("I4.5-1", "I4.5-5")
@pytest.mark.parametrize("shape", ALL_SHAPES)
def test_a_free(shape):
    """A Barrier on it; pending communication completes, and the contexts go with it."""
    world = ClientWorld(*shape)
    comms = world.results(dup)
    pending = comms[0].irecv(None, 1, 7, bytes)
    comms[1].isend((b"late",), 4, 0, 7)
    messages = recorded(world, [free(comm) for comm in comms])
    assert pending.result() == b"late"
    fenced = [message for message in messages if message.tag == 110]
    assert bare(fenced) == [m._replace(context=3) for m in bare(ClientWorld(*shape).recorded(buffers.barrier))]
    assert all({2, 3}.isdisjoint(comm.engine.contexts) for comm in comms)


def test_a_free_waits_for_collectives_that_are_under_way():
    world = ClientWorld((2, 1))
    comms = world.results(dup)
    first = [comms[0], comms[2]]
    barriers, freed = [buffers.barrier(comm) for comm in first], [free(comm) for comm in first]
    world.run()
    assert not any(request.done() for request in (*barriers, *freed))
    late = [buffers.barrier(comms[1]), free(comms[1])]
    world.run()
    assert all(request.done() for request in (*barriers, *freed, *late))
    assert all({2, 3}.isdisjoint(comm.engine.contexts) for comm in comms)


def recorded(world, requests):
    """What has been sent meanwhile, and since the last look."""
    world.run()
    for request in requests:
        request.result()
    messages = list(world.messages)
    world.messages.clear()
    return messages


# Intercommunicators.


def halves(world, groups):
    """The communicators of two groups, given as ranks of the world, by rank."""
    made = {}
    for group in groups:
        requests = {r: create_group(world.comms[r], Group.of([world.order[i] for i in group]), 0) for r in group}
        world.run()
        made |= {rank: request.result() for rank, request in requests.items()}
    return made


def meet(world, groups, presets=(), tag=5):
    """The requests of an intercommunicator of two groups, whose last ranks lead, by rank.

    Args:
        presets: largest identifier in use at each rank.
    """
    parts = halves(world, groups)
    for comm, highest in zip(world.comms, presets, strict=False):
        comm.ids.highest = highest
    world.messages.clear()
    requests: dict[int, Request[Communicator]] = {}
    for own, other in (groups, groups[::-1]):
        for rank in own:
            leads = rank == own[-1]
            peer, leader = (world.comms[rank], other[-1]) if leads else (None, -99)
            requests[rank] = create_intercomm(parts[rank], len(own) - 1, peer, leader, tag)
    return requests


def connected(world, groups):
    requests = meet(world, groups)
    world.run()
    return {rank: request.result() for rank, request in requests.items()}


#: clients, their order, and the groups: of one client each, or of several
MEETINGS = [
    ((2, 3), None, ([0, 1], [2, 3, 4])),
    ((2, 1, 3), None, ([0, 2, 3], [4, 5, 1])),
    ((3, 2), (3, 0, 4, 1, 2), ([0], [4, 2, 1])),
    ((1,) * 7, None, ([5, 1, 3, 0, 2, 6], [4])),
]


@pytest.mark.spec("I4.8-1", "I4.8-2", "I4.8-3", "I4.8-4", "I4.8-5", "I4.8-6", "I4.8-7", "I1.2.1-3")
@pytest.mark.parametrize(("clients", "order", "groups"), MEETINGS)
def test_an_intercomm_create(clients, order, groups):
    world = ClientWorld(clients, order)
    inter = meet(world, groups, [10 + 2 * rank for rank in range(world.size)])
    messages = recorded(world, inter.values())
    tops = [max(10 + 2 * rank for rank in group) | 1 for group in groups]
    leaders = [group[-1] for group in groups]
    assert leaders[1] not in world.client(leaders[0])
    expected = []
    for own, other in ((0, 1), (1, 0)):
        ranks = external([world.order[rank] for rank in groups[own]])
        expected += [
            Message(leaders[own], leaders[other], 5, 1, 16, uint8(tops[own], len(groups[own]))),
            Message(leaders[own], leaders[other], 5, 1, len(ranks), ranks),
        ]
    assert sorted(message for message in messages if message.context == 1) == sorted(expected)
    for own, other in ((0, 1), (1, 0)):
        local(
            world, messages, groups[own], uint8(max(tops), len(groups[other])), [world.order[r] for r in groups[other]]
        )
    made = {rank: request.result() for rank, request in inter.items()}
    assert {comm.context_id for comm in made.values()} == {max(tops) + 1}
    assert {comm.ids.highest for comm in world.comms if comm.rank in made} == {max(tops) + 2}
    for own, other in (groups, groups[::-1]):
        for rank in own:
            assert made[rank].remote is not None
            assert made[rank].remote.members == tuple(world.order[r] for r in other)
    cross(world, made, groups)


def local(world, messages, group, first, members):
    """Within a group: a Reduce of 8 bytes to its leader, and Bcasts of 16 bytes and of the other group's ranks."""
    edges = sum(1 for part in world.clients if set(part) & set(group)) - 1
    inside = [m for m in messages if m.context > 1 and m.source in group]
    up = [message for message in inside if message.tag == 190]
    assert len(up) == edges
    assert {message.nbytes for message in up} <= {8}
    spread = [message.payload for message in inside if message.tag == 120]
    assert sorted(spread) == sorted([first, external(members)] * edges)
    assert {message.tag for message in inside} <= {190, 120}


def cross(world, made, groups):
    """Each rank can send to each of the other group, whose ranks it names."""
    for own, other in (groups, groups[::-1]):
        for rank in own:
            for dest, target in enumerate(other):
                made[rank].isend((b"%d" % rank,), len(b"%d" % rank), dest, 9)
                receive = made[target].irecv(None, own.index(rank), 9, bytes)
                world.run()
                assert receive.result() == b"%d" % rank


@pytest.mark.spec("I4.8-6")
def test_the_leaders_may_meet_among_the_messages_of_users():
    """A setting decides, because the standard does not."""
    world = ClientWorld((1, 1), impi_leaders_collective=False)
    messages = recorded(world, meet(world, ([0], [1])).values())
    assert {(message.tag, message.context) for message in messages} == {(5, 0)}


@pytest.mark.spec("I4.8-8")
def test_errors_of_intercomm_create():
    """The bound of tags is that which the clients have agreed upon."""
    world = ClientWorld((2, 1))
    world.comms[0].tag_ub = 40000
    for tag in (-1, 40001):
        with pytest.raises(InvalidTagError, match=r"is not in 0\.\.40000"):
            create_intercomm(world.comms[0], 0, world.comms[0], 1, tag)
    assert world.messages == []
    requests = [create_intercomm(comm, 0, comm, 0, 3) for comm in world.comms]
    world.run()
    assert all(isinstance(request.exception(), InvalidCommError) for request in requests), "they overlap"


@pytest.mark.spec("I4.8-2")
def test_a_leader_that_sends_less_is_noticed():
    """An implementation that follows the misprint in the listing sends two INT."""
    world = ClientWorld((2, 1))
    parts = halves(world, ([0, 1], [2]))
    request = create_intercomm(parts[0], 0, world.comms[0], 2, 5)
    create_intercomm(parts[1], 0, None, -1, 5)

    async def other(channel):
        await Block(memoryview(bytearray(8))).isend(channel.tagged(5), 0)

    world.comms[2].start(other, "Intercomm_create")
    world.run()
    error = request.exception()
    assert isinstance(error, InvalidCountError)
    assert "rank 2 sent 8 bytes where 16 are expected" in str(error)


@pytest.mark.parametrize(
    ("size", "members", "message"), [(2**60, [], "a group of 11529"), (1, [7], r"the ranks \(7,\)")]
)
def test_a_leader_that_tells_nonsense_is_noticed(size, members, message):
    world = ClientWorld((1, 1))
    request = create_intercomm(dup_alone(world), 0, world.comms[0], 1, 5)

    async def other(channel):
        for data in (uint8(1, size), external(members)):
            await Block(memoryview(bytearray(data))).isend(channel.tagged(5), 0)

    world.comms[1].start(other, "Intercomm_create")
    world.run()
    with pytest.raises(RemoteProtocolError, match=f"the other leader has.*{message}.*in a world of 2"):
        request.result()


def dup_alone(world):
    """A communicator of rank 0 alone."""
    return derive(world.comms[0], Group.of([0], 0), 2**40)


PAIRS = [
    ((2, 3), None, ([0, 1], [2, 3, 4])),
    *MEETINGS[1:3],
    ((3, 1), None, ([0, 1], [2, 3])),
    ((1, 1), None, ([0], [1])),
]


def exchanges(world, groups, tag, context, contents):
    """Messages between two groups: to the other's rank 0, between these, to the others.

    Args:
        contents: (step, rank) -> what is sent by it; steps are "in", "swap" and "out".
    """
    messages = []
    for own, other in (groups, groups[::-1]):
        steps = [("in", rank, other[0]) for rank in own[1:]]
        steps += [("swap", own[0], other[0])] + [("out", own[0], rank) for rank in other[1:]]
        for step, source, dest in steps:
            payload = contents(step, source)
            if dest not in world.client(source):
                messages.append(Message(source, dest, tag, context, len(payload), payload))
    return sorted(messages)


@pytest.mark.spec("I4.5-2", "I4.5-3", "I4.5-4", "I4.5-5")
@pytest.mark.parametrize(("clients", "order", "groups"), PAIRS)
def test_a_free_of_an_intercommunicator(clients, order, groups):
    world = ClientWorld(clients, order)
    made = connected(world, groups)
    context = made[0].context_id + 1
    world.messages.clear()
    messages = recorded(world, [free(comm) for comm in made.values()])
    assert sorted(messages) == exchanges(world, groups, 230, context, lambda step, rank: b"")
    assert all(context not in comm.engine.contexts for comm in made.values())


@pytest.mark.spec("I4.6-2", "I4.6-3", "I4.6-4")
@cases(("clients", "order", "groups"), PAIRS)
def test_a_dup_of_an_intercommunicator(clients, order, groups):
    world = ClientWorld(clients, order)
    made = connected(world, groups)
    context = made[0].context_id + 1
    for rank in made:
        world.comms[rank].ids.highest = 100 + 10 * rank
    values = {rank: (100 + 10 * rank) | 1 for rank in made}
    world.messages.clear()
    copies = {rank: dup(comm) for rank, comm in made.items()}
    messages = recorded(world, copies.values())

    def contents(step, rank):
        own, other = groups if rank in groups[0] else groups[::-1]
        found = max(values[own[0]], *(values[r] for r in other[1:]), 0)
        return uint8({"in": values[rank], "swap": found, "out": max(values.values())}[step])

    assert sorted(messages) == exchanges(world, groups, 210, context, contents)
    assert {copy.result().context_id for copy in copies.values()} == {max(values.values()) + 1}
    for rank, copy in copies.items():
        assert (copy.result().group, copy.result().remote) == (made[rank].group, made[rank].remote)
    cross(world, {rank: copy.result() for rank, copy in copies.items()}, groups)


@pytest.mark.spec("I4.9-1", "I4.9-2", "I4.9-3", "I4.9-4")
@pytest.mark.parametrize(("clients", "order", "groups"), PAIRS)
@pytest.mark.parametrize("highs", [(False, True), (True, False), (False, False), (True, True)])
def test_an_intercomm_merge(clients, order, groups, highs):
    world = ClientWorld(clients, order)
    made = connected(world, groups)
    context = made[0].context_id + 1
    for rank in made:
        world.comms[rank].ids.highest = 100 + 10 * rank
    values = {rank: (100 + 10 * rank) | 1 for rank in made}
    high = {rank: highs[rank in groups[1]] for rank in made}
    world.messages.clear()
    merged = {rank: merge(comm, high[rank]) for rank, comm in made.items()}
    messages = recorded(world, merged.values())

    def contents(step, rank):
        own, other = groups if rank in groups[0] else groups[::-1]
        found = max(values[own[0]], *(values[r] for r in other[1:]), 0)
        numbers = {"in": (values[rank],), "swap": (found, high[rank]), "out": (max(values.values()), high[rank])}
        return uint8(*numbers[step])

    assert sorted(messages) == exchanges(world, groups, 220, context, contents)
    first, second = groups if highs[0] < highs[1] else groups[::-1]
    if highs[0] == highs[1]:
        first, second = sorted(groups, key=lambda group: world.order[group[0]])
    union = tuple(world.order[rank] for rank in (*first, *second))
    comms = [request.result() for request in merged.values()]
    assert {comm.group.members for comm in comms} == {union}
    assert {comm.context_id for comm in comms} == {max(values.values()) + 1}
    talk(world, sorted(comms, key=lambda comm: comm.rank))


@pytest.mark.spec("I4.9-2")
def test_the_wish_of_rank_0_counts():
    """The values of the other ranks of a group are ignored."""
    world = ClientWorld((2, 1))
    made = connected(world, ([0, 1], [2]))
    wishes = {0: True, 1: True, 2: False}
    requests = {rank: merge(comm, wishes[rank]) for rank, comm in made.items()}
    world.messages.clear()
    world.run()
    assert {request.result().group.members for request in requests.values()} == {(2, 0, 1)}


# What IMPI does not know, or does not say.


def test_two_at_once_are_done_one_after_the_other():
    """On different communicators, in one process at once: they do not get the same identifiers."""
    world = ClientWorld((1, 1))
    other = world.results(dup)
    requests = [[dup(comm), dup(copy), dup(comm)] for comm, copy in zip(world.comms, other, strict=True)]
    world.run()
    made = [[request.result().context_id for request in of_rank] for of_rank in requests]
    assert made == [[4, 6, 8], [4, 6, 8]]


def test_a_group_makes_a_communicator_by_itself():
    world = ClientWorld((2, 2))
    part = Group.of([3, 0])
    requests = [create_group(comm, part, 7) for comm in world.comms]
    world.run()
    made = [request.result() for request in requests]
    assert made[1:3] == [None, None]
    talk(world, [made[3], made[0]])


@pytest.mark.parametrize("shape", [*SHAPES, EIGHT])
def test_a_grid(shape):
    """Cart_create sends what Comm_create does, Cart_sub what Comm_split does."""
    world = ClientWorld(*shape)
    nnodes = world.size - world.size % 2
    requests = []
    messages = world.recorded(lambda comm: keep(requests, cart(comm, [2, nnodes // 2], True)))
    up, down = reached(world, 1, 1)
    assert sorted(messages) == sorted(up + down)
    grids = [request.result() for request in requests if request.result() is not None]
    assert len(grids) == nnodes
    talk(world, grids)
    rows = [cart_sub(comm, [False, True]) for comm in grids]
    world.run()
    assert {request.result().size for request in rows} == {nnodes // 2}


@cases("shape", SHAPES)
def test_neighbours_in_a_ring_over_clients(shape):
    world = ClientWorld(*shape)
    size = world.size
    ring = world.results(
        lambda comm: dist_graph_adjacent(comm, [(comm.rank - 1) % size], [(comm.rank + 1) % size], None, None)
    )
    made, places = [np.array([rank], "l") for rank in range(size)], [np.zeros(1, "l") for _ in range(size)]
    world.messages.clear()
    calls = [neighborhood.neighbor_allgather(comm, made[comm.rank], places[comm.rank]) for comm in ring]
    messages = recorded(world, calls)
    assert [place[0] for place in places] == [(rank - 1) % size for rank in range(size)]
    assert {message.nbytes for message in messages} == {4}, "a LONG in external32"


def test_split_type_over_clients():
    world = ClientWorld((2, 1))
    made = world.results(lambda comm: split_type(comm, 1, -comm.rank, lambda: "here" if comm.rank else "there"))
    assert [comm.group.members for comm in made] == [(0,), (2, 1), (2, 1)]


def test_constructors_of_mpi_2_on_intercommunicators():
    world = ClientWorld((2, 1, 3))
    groups = ([0, 2, 3], [4, 1, 5])
    made = connected(world, groups)
    parts = {rank: split(comm, comm.rank % 2, 0) for rank, comm in made.items()}
    world.run()
    assert {rank: part.result().targets for rank, part in parts.items()} == {
        0: (4, 5), 3: (4, 5), 4: (0, 3), 5: (0, 3), 2: (1,), 1: (2,),
    }  # fmt: skip
    firsts = {rank: create(comm, Group.of([comm.group.members[0]])) for rank, comm in made.items()}
    world.run()
    pair = {rank: first.result() for rank, first in firsts.items() if first.result() is not None}
    assert {rank: comm.targets for rank, comm in pair.items()} == {0: (4,), 4: (0,)}
