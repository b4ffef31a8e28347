"""Native slots: results of direct calls, and members that write what they like, or come while others sleep."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from aiompi import MPI
from aiompi.coll.call import PREDEFINED
from aiompi.coll.select import _DIRECT
from aiompi.coll.signature import note_of
from aiompi.core._native import LONG_PLACES, SLOTS_PREFIX, SlotExchange, SlotExchanges, SlotGroup
from aiompi.errors import InternalError, OtherError
from aiompi.op import predefined
from support.slot_members import CLAIM, CONTENT, LENGTH, NOTE, ROOM, SHORT, STAMP, Engine, Members, Sync


def test_numbers_in_the_core_are_those_of_signatures(members: Callable[[int], Members]) -> None:
    """Those that post by the usual way and those that call the core directly see the same call."""
    assert set(PREDEFINED) >= {op.name for op in (predefined.MAX, predefined.BXOR)}
    w = members(1)
    one, two = np.ones(1), np.zeros(1)
    arguments = {
        "Barrier": (), "Bcast": (one, 0), "Gather": (one, two, 0), "Scatter": (one, two, 0), "Allgather": (one, two),
        "Alltoall": (one, two),
    }  # fmt: skip
    for name in _DIRECT:
        if name in arguments:
            root = 0 if name in ("Bcast", "Gather", "Scatter") else None
            assert w.call(0, name.lower(), *arguments[name]).note == note_of(name, root, None)
            continue
        for op in (predefined.MAX, predefined.MIN, predefined.SUM, predefined.PROD):
            root = 0 if name == "Reduce" else None
            args = (one, two, op) if root is None else (one, two, op, 0)
            assert w.call(0, name.lower(), *args).note == note_of(name, root, op.name)
    numbers = np.ones(1, "i4")
    for op in (
        predefined.LAND,
        predefined.LOR,
        predefined.LXOR,
        predefined.BAND,
        predefined.BOR,
        predefined.BXOR,
    ):
        assert w.call(0, "scan", numbers, np.zeros(1, "i4"), op).note == note_of("Scan", None, op.name)


@pytest.mark.spec("S4.9.2-1")
@pytest.mark.parametrize("dtype", ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8"])
def test_reductions_have_the_bits_of_numpy(members: Callable[[int], Members], dtype: str) -> None:
    w = members(3)
    dice = np.random.default_rng(1)
    data = [dice.integers(0, 2**62, 24).astype(dtype) for _ in range(3)]
    if dtype[0] == "f":
        data[1][0] = np.nan
    real = [
        (predefined.SUM, np.add), (predefined.PROD, np.multiply), (predefined.MAX, np.maximum),
        (predefined.MIN, np.minimum),
    ]  # fmt: skip
    whole = [
        (predefined.LAND, np.logical_and), (predefined.LOR, np.logical_or), (predefined.LXOR, np.logical_xor),
        (predefined.BAND, np.bitwise_and), (predefined.BOR, np.bitwise_or), (predefined.BXOR, np.bitwise_xor),
    ]  # fmt: skip
    if dtype[0] == "f":
        for op, _ in whole:
            assert w.groups[0].allreduce(w.comms[0], data[0], data[0].copy(), op) is None, "the usual way refuses it"
        whole.clear()
    for op, function in [*real, *whole]:
        with np.errstate(all="ignore"):
            last = function(data[1], data[2]).astype(dtype)
            expected = function(data[0], last).astype(dtype)
        results = [np.zeros(24, dtype) for _ in range(3)]
        w.finish(*[w.call(rank, "allreduce", data[rank], results[rank], op) for rank in range(3)])
        assert [result.tobytes() for result in results] == [expected.tobytes()] * 3
        parts = [np.zeros(8, dtype) for _ in range(3)]
        w.finish(*[w.call(rank, "reduce_scatter_block", data[rank], parts[rank], op) for rank in range(3)])
        assert np.concatenate(parts).tobytes() == expected.tobytes()


@pytest.mark.spec("S4.4-1")
@pytest.mark.parametrize("nbytes", [0, 8, SHORT, SHORT + 1, ROOM // 3])
@pytest.mark.parametrize("seed", range(3))
def test_a_root_is_ahead_of_the_others_and_nothing_is_overwritten(
    members: Callable[[int], Members], nbytes: int, seed: int
) -> None:
    """The others come at any time."""
    w, dice = members(3), random.Random(seed)
    sent = [np.frombuffer(random.Random(i).randbytes(nbytes), "B") for i in range(60)]
    got: list[list[Any]] = [[], [], []]
    waiting: list[SlotExchange | None] = [None, None, None]
    while any(len(each) < 60 or waiting[rank] is not None for rank, each in enumerate(got)):
        rank = dice.choice([0, 0, 0, 1, 2])
        current = waiting[rank]
        w.exchanges[rank].poll()
        if current is not None and current.done():
            current.result()
            waiting[rank] = current = None
        if current is None and len(got[rank]) < 60:
            place = sent[len(got[rank])].copy() if rank == 0 else np.zeros(nbytes, "B")
            got[rank].append(place)
            waiting[rank] = w.call(rank, "bcast", place, 0)
    assert all((a == b).all() for each in got for a, b in zip(each, sent, strict=True))


@pytest.mark.parametrize(("nbytes", "ahead", "read"), [(8, 15, 8), (SHORT + 1, 2, 2)])
def test_a_root_waits_for_nobody_until_its_slots_are_used(
    members: Callable[[int], Members], nbytes: int, ahead: int, read: int
) -> None:
    w = members(2)
    block = np.zeros(nbytes, "B")
    calls = [w.call(0, "bcast", block, 0) for _ in range(ahead)]
    assert all(call.done() for call in calls)
    late = w.call(0, "bcast", block, 0)
    assert not late.done()
    assert late.absent() == [11]
    for _ in range(read):
        w.finish(w.call(1, "bcast", block.copy(), 0))
    assert w.rung(0), "it sleeps until the other one has read"
    w.finish(late)


# Sleep.


def test_only_the_last_rank_wakes_and_only_those_that_wait_for_it(members: Callable[[int], Members]) -> None:
    w = members(4)
    calls = [w.call(rank, "barrier") for rank in range(3)]
    assert not any(w.rung(rank) for rank in range(4))
    calls.append(w.call(3, "barrier"))
    assert [w.rung(rank) for rank in range(4)] == [True, True, True, False]
    w.finish(*calls)
    one, two = np.ones(1), np.zeros(1)
    scans = [w.call(rank, "scan", one, two.copy(), predefined.SUM) for rank in (1, 3, 2)]
    scans.append(w.call(0, "scan", one, two.copy(), predefined.SUM))
    assert [w.rung(rank) for rank in range(4)] == [False, True, True, True]
    w.finish(*scans)
    reduce = w.call(1, "reduce", one, two, predefined.SUM, 1)
    for rank in (3, 0):
        assert w.call(rank, "reduce", one, None, predefined.SUM, 1).done(), "it waits for nobody"
        assert not w.rung(1)
    w.call(2, "reduce", one, None, predefined.SUM, 1)
    assert w.rung(1)
    w.finish(reduce)
    assert two == [4.0]


# Members that write what they like.


def test_another_call_is_told_before_all_have_come(members: Callable[[int], Members]) -> None:
    w = members(3)
    call = w.call(0, "barrier")
    w.call(1, "allgather", np.ones(1), np.zeros(3))
    w.exchanges[0].poll()
    with pytest.raises(OtherError, match="rank 1 has called 0x7"):
        call.result()
    assert not w.engines[0].slot_exchanges
    assert w.syncs[0].listening == 0


@pytest.mark.parametrize("length", [0, 7, 8, 9, 225, 2**63, 2**64 - 1])
@pytest.mark.parametrize("place", [0, 1, 2, 2**64 - 1])
def test_nothing_beside_the_slots_is_read(members: Callable[[int], Members], length: int, place: int) -> None:
    w = members(2)
    result = np.zeros(16, "B")
    call = w.call(0, "allgather", np.ones(8, "B"), result)
    w.post(1, 1, call.note, call.nbytes, struct.pack("=Q", place), length)
    w.exchanges[0].poll()
    if length == 8:
        w.finish(call)
        assert (result[:8] == 1).all()
    else:
        with pytest.raises(OtherError):
            call.result()
        assert w.syncs[0].blamed == [1]


def test_words_that_change_at_any_time_harm_nobody_else(members: Callable[[int], Members]) -> None:
    dice = random.Random(5)
    ended = 0
    for _ in range(300):
        w = Members(2)
        result = np.zeros(2)
        for _ in range(dice.randrange(20)):
            number, name = dice.randrange(1, 40), dice.choice([STAMP, NOTE, CLAIM, LENGTH, CONTENT])
            w.word(1, number, name)[0] = dice.choice([0, 1, number, 2**63, 2**64 - 1, dice.randrange(2**64)])
            w.memories[1][:16].cast("Q")[dice.randrange(2)] = dice.choice([0, 1, 2**33, 2**64 - 1])
        for call in ("barrier", "allgather", "barrier"):
            args = () if call == "barrier" else (np.ones(1), result)
            exchange = getattr(w.groups[0], call)(w.comms[0], *args)
            if exchange is None:
                break
            exchange.attend()
            ended += exchange.done()
        w.close()
    assert ended


def test_a_call_through_slots_that_are_gone_stands_still(members: Callable[[int], Members]) -> None:
    w = members(2)
    call = w.call(0, "barrier")
    w.groups[0].dissolve()
    w.exchanges[0].poll()
    assert not w.exchanges[0].rest() or not call.done()
    assert call.absent() == []
    assert not call.posted(1)
    assert not call.spin()
    assert w.groups[0].barrier(w.comms[0]) is None


def test_slots_without_memory_are_refused() -> None:
    exchanges = SlotExchanges(None, [])
    for size, rank, room in ((10, 0, ROOM), (SLOTS_PREFIX + LONG_PLACES * ROOM, 1, ROOM), (SLOTS_PREFIX, 0, 63)):
        with pytest.raises(Exception, match="slots"):
            SlotGroup(Engine(), exchanges, 0, rank, room, [memoryview(bytearray(size))], [None], [0])


@pytest.mark.parametrize("long", [False, True])
def test_arrays_with_a_type_are_called_directly_and_kept(members: Callable[[int], Members], long: bool) -> None:
    """Also when the program changes the list that it has passed."""
    w = members(2)
    source, place = np.arange(80.0) if long else np.arange(3.0), np.zeros(80 if long else 3)
    received: list[Any] = [place, MPI.DOUBLE]
    late = w.call(1, "bcast", received, 0)
    received[0] = None
    w.call(0, "bcast", (source, len(source), MPI.DOUBLE), 0)
    w.finish(late)
    assert (place == source).all()
    assert w.groups[0].bcast(w.comms[0], [source, 3.5, MPI.DOUBLE], 0) is None
    assert w.groups[0].bcast(w.comms[0], [source, MPI.DOUBLE.Create_vector(1, 1, 2)], 0) is None, "not committed"
    assert w.groups[0].allgather(w.comms[0], [source[:1], MPI.DOUBLE], [source[:2], MPI.DOUBLE]) is None, "they overlap"


# What runs in the midst of a call.


class Owner:
    """The memory of an array; as it is freed, something is called."""

    def __init__(self, array: Any, then: Callable[[], object]) -> None:
        self.__array_interface__ = array.__array_interface__
        self._array, self._then = array, then

    def __del__(self) -> None:
        self._then()


def test_a_call_that_is_looked_at_as_its_memory_is_freed_is_complete(members: Callable[[int], Members]) -> None:
    w = members(2)
    w.groups[0].use(w.syncs[0], True, False)
    found: list[object] = []

    def look() -> None:
        found.append((exchange.spin(), exchange.done()))

    arrays = [np.asarray(Owner(np.zeros(number), look)) for number in (8, 16)]
    exchange = w.call(0, "allgather", *arrays)
    arrays.clear()
    w.call(1, "allgather", np.ones(8), np.zeros(16))
    assert not found
    assert exchange.spin()
    assert found == [(True, True)] * 2
    exchange._done = False
    with pytest.raises(InternalError, match="twice"):
        exchange.poll()


def test_slots_that_are_dissolved_in_a_call_are_not_looked_at(members: Callable[[int], Members]) -> None:
    class Dissolving(Sync):
        def blame(self, exchange: SlotExchange, rank: int, note: int, claim: int) -> None:
            w.groups[0].dissolve()
            w.memories[1].release()  # which no other refers to

    w = members(2)
    w.groups[0].use(Dissolving(), True, False)
    w.groups[1].dissolve()
    exchange = w.groups[0].barrier(w.comms[0])
    assert exchange is not None
    w.post(1, 1, 7, 0, b"")
    assert not exchange.spin()
    assert exchange.absent() == []


def test_slots_that_are_dissolved_as_a_result_is_made_stay_so_long(members: Callable[[int], Members]) -> None:
    class Dissolving(Sync):
        def blame(self, exchange: SlotExchange, rank: int, note: int, claim: int) -> OtherError:
            w.groups[0].dissolve()
            with pytest.raises(BufferError):
                w.memories[1].release()
            return super().blame(exchange, rank, note, claim)

    w = members(2)
    w.groups[0].use(Dissolving(), True, False)
    w.groups[1].dissolve()
    exchange = w.groups[0].bcast(w.comms[0], np.zeros(8), 1)
    assert exchange is not None
    w.post(1, 1, exchange.note, 64, bytes(32))
    assert exchange.spin()
    assert isinstance(exchange.exception(), OtherError)
    w.memories[1].release()
